//! Guests: clients that log in without a name or a password to a domain that admits everybody
//! (XEP-0175).
//!
//! A guest has a new address in every session, writes to accounts, sends requests, and is written
//! to by accounts as long as its session lasts, and for a while after.

use std::collections::BTreeSet;

use rookery_sasl::Mechanism;
use rookery_testkit::Server;
use rookery_testkit::login::{bind_request, sasl, stream_header};
use rookery_testkit::wire::{Item, Wire};
use rookery_xml::{Element, ns};

use crate::book::Book;
use crate::device::{UserDevice, bare};
use crate::event::{SimulatedEvent, SimulatedEventKind};

/// The guests of a run.
#[derive(Default)]
pub(crate) struct SimulatedGuests {
    guests: [SimulatedGuest; GUESTS],
    /// The bare JIDs that guests have had of the process that runs, and those of all processes.
    /// Each process draws the same names here, since all randomness follows from the seed.
    current: BTreeSet<String>,
    addresses: BTreeSet<String>,
    /// The number of sessions so far.
    sessions: usize,
}

/// A guest, and the session that it has or had.
#[derive(Default)]
struct SimulatedGuest {
    wire: Option<Wire>,
    stage: GuestStage,
    /// The number of its session, by which the book knows a stream.
    number: usize,
    /// The full JID of its session or of its last one.
    full: String,
    /// True if little fits on the way to it, so that the server may have written half a stanza when
    /// it ends. The server doesn't know whether the client reads the other half, so the stanza is
    /// written to its end and comes back as well.
    is_narrow: bool,
    /// True if its session has ended with its connection, so that the server may have written to it
    /// in vain.
    was_cut: bool,
    /// The requests without a reply, and how many there were.
    asked: BTreeSet<String>,
    requests: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum GuestStage {
    #[default]
    Gone,
    /// The features of the first stream are expected.
    Opened,
    Authenticating,
    /// The features of the second stream are expected.
    Restarted,
    Binding,
    Ready,
    /// It has closed its stream, and reads until the server's end.
    Closing,
}

impl SimulatedGuests {
    /// Carries out an event. Returns whether that was possible.
    pub(crate) fn act(&mut self, event: &SimulatedEvent, server: &Server, accounts: usize, book: &mut Book) -> bool {
        let (guest, account) = (&mut self.guests[event.who % GUESTS], event.a % accounts);
        match event.what {
            SimulatedEventKind::GuestCome => return guest.come(event.a, server, book),
            SimulatedEventKind::GuestRead => return self.read(event.who % GUESTS, [1, 50, 5000][event.a % 3], book),
            _ if guest.stage != GuestStage::Ready => return false,
            SimulatedEventKind::GuestGo => guest.go(book),
            SimulatedEventKind::GuestBreak => guest.break_off(book),
            SimulatedEventKind::GuestChat => {
                let number = book.send_home(&guest.full, account, guest.number);
                let body = format!("<body>in{number}</body>");
                guest.write(
                    &format!("<message type='chat' id='in{number}' to='{}'>{body}</message>", bare(account)),
                    book,
                );
            }
            SimulatedEventKind::GuestAsk => guest.ask(event.b, account, book),
            _ => return false,
        }
        true
    }

    /// Writes to a guest from a device. Returns whether that was possible.
    pub(crate) fn chat(&self, event: &SimulatedEvent, device: &mut UserDevice, book: &mut Book) -> bool {
        let guest = &self.guests[event.a % GUESTS];
        !guest.full.is_empty() && device.write_abroad(&guest.full, guest.was_cut, book)
    }

    /// Makes all guests return that are away.
    pub(crate) fn gather(&mut self, server: &Server, book: &mut Book) {
        for (number, guest) in self.guests.iter_mut().enumerate() {
            guest.come(number, server, book);
        }
    }

    /// Makes all guests leave in good order.
    pub(crate) fn disperse(&mut self, book: &mut Book) {
        self.guests.iter_mut().for_each(|guest| guest.go(book));
    }

    /// Handles the death of the server's process.
    pub(crate) fn bereave(&mut self, book: &mut Book) {
        self.current.clear();
        self.guests.iter_mut().for_each(|guest| guest.lose(book));
    }

    /// Checks that every guest has a session, and a reply to each request of that session (RFC 6120
    /// §8.2.3).
    pub(crate) fn check(&self, book: &mut Book) {
        for guest in &self.guests {
            if guest.stage != GuestStage::Ready {
                return book.break_rule("a guest can't log in when all faults are over".into());
            }
            if let Some(id) = guest.asked.first() {
                return book.break_rule(format!("{} has no answer to {id} (RFC 6120 §8.2.3)", guest.full));
            }
        }
    }

    /// Returns the bare JIDs of all guests that there ever were.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.addresses.iter().map(String::as_str)
    }

    /// Makes all guests read what there is. Returns whether there was anything.
    pub(crate) fn read_all(&mut self, book: &mut Book) -> bool {
        (0..GUESTS).fold(false, |any, guest| self.read(guest, usize::MAX, book) | any)
    }

    fn read(&mut self, guest: usize, most: usize, book: &mut Book) -> bool {
        let known = &mut self.guests[guest];
        let Some(wire) = known.wire.as_mut().filter(|wire| wire.peer.has_news()) else { return false };
        wire.appetite = most;
        let any = wire.receive();
        if any {
            let text = std::mem::take(&mut wire.plain);
            book.note(format_args!("guest {} S: {}", known.number, String::from_utf8_lossy(&text)));
        }
        while let Some(item) = self.guests[guest].wire.as_mut().and_then(Wire::take) {
            self.take(guest, item, book);
        }
        let known = &mut self.guests[guest];
        if known.wire.as_ref().is_some_and(|wire| wire.peer.is_at_end()) {
            known.lose(book);
            return true;
        }
        any
    }

    fn take(&mut self, guest: usize, item: Item, book: &mut Book) {
        let known = &mut self.guests[guest];
        match item {
            Item::Header(_) => {}
            Item::End => {
                // The server ends a stream by itself only when its process ends.
                known.go(book);
                known.wire.iter().for_each(|wire| wire.peer.shutdown());
            }
            Item::Element(element) if element.is("error", ns::STREAMS) => known.refused(&element, book),
            Item::Element(element) => match known.stage {
                GuestStage::Opened => known.authenticate(&element, book),
                GuestStage::Authenticating => known.authenticated(&element, book),
                GuestStage::Restarted => {
                    known.write(&bind_request(Some("mine")), book);
                    known.stage = GuestStage::Binding;
                }
                GuestStage::Binding => self.bound(guest, &element, book),
                GuestStage::Ready | GuestStage::Closing => known.hear(&element, book),
                GuestStage::Gone => {}
            },
        }
    }

    /// Notes the address that the server has assigned: one that no guest has had before, with a
    /// resource that isn't the one that was asked for (XEP-0175 §3).
    fn bound(&mut self, guest: usize, element: &Element, book: &mut Book) {
        let bound = element.child("bind", ns::BIND).and_then(|bind| bind.child_text("jid", ns::BIND));
        let Some(full) = bound else {
            return book.break_rule(format!("a guest gets no session, but {element:?}"));
        };
        let (address, resource) = full.split_once('/').unwrap_or((&full, ""));
        if !address.ends_with(&format!("@{GUEST_DOMAIN}")) || matches!(resource, "" | "mine") {
            book.break_rule(format!("a guest was bound as {full} (XEP-0175 §3)"));
        }
        self.addresses.insert(address.to_owned());
        if !self.current.insert(address.to_owned()) {
            book.break_rule(format!("a guest was bound as {full}, whose account another one had (XEP-0175 §3)"));
        }
        self.sessions += 1;
        let guest = &mut self.guests[guest];
        (guest.number, guest.stage, guest.was_cut) = (self.sessions, GuestStage::Ready, false);
        guest.full = full;
        guest.asked.clear();
        guest.write("<presence/>", book);
    }
}

impl SimulatedGuest {
    fn come(&mut self, choice: usize, server: &Server, book: &mut Book) -> bool {
        if self.wire.is_some() {
            return false;
        }
        let wire = server.connect().wire;
        self.is_narrow = choice.is_multiple_of(4);
        wire.peer.set_window(if self.is_narrow { 700 } else { 1 << 20 });
        self.wire = Some(wire);
        self.write(&stream_header(GUEST_DOMAIN), book);
        self.stage = GuestStage::Opened;
        true
    }

    fn authenticate(&mut self, features: &Element, book: &mut Book) {
        let offered = features.child("mechanisms", ns::SASL);
        let named: Vec<_> = offered.into_iter().flat_map(Element::children).map(Element::text).collect();
        if named != [Mechanism::Anonymous.name()] {
            return book.break_rule(format!("{GUEST_DOMAIN} offers {named:?} to guests (XEP-0175)"));
        }
        self.write(&sasl("auth", Some(Mechanism::Anonymous), b""), book);
        self.stage = GuestStage::Authenticating;
    }

    fn authenticated(&mut self, element: &Element, book: &mut Book) {
        if element.name() != "success" {
            return book.break_rule(format!("a guest may not log in: {element:?}"));
        }
        self.wire.iter_mut().for_each(Wire::restart);
        self.write(&stream_header(GUEST_DOMAIN), book);
        self.stage = GuestStage::Restarted;
    }

    /// Sends a request: to its server or an account, or one that nobody may make who has an account
    /// for one session.
    fn ask(&mut self, choice: usize, account: usize, book: &mut Book) {
        self.requests += 1;
        let ping = format!("<ping xmlns='{}'/>", ns::PING);
        let (kind, to, payload) = match choice % 4 {
            0 => ("get", String::new(), ping),
            1 => ("get", format!(" to='{}'", bare(account)), ping),
            2 => ("get", String::new(), format!("<query xmlns='{}'/>", ns::ROSTER)),
            _ => {
                ("set", String::new(), format!("<query xmlns='{}'><item jid='{}'/></query>", ns::ROSTER, bare(account)))
            }
        };
        let id = format!("{kind}{}", self.requests);
        self.write(&format!("<iq type='{kind}' id='{id}'{to}>{payload}</iq>"), book);
        self.asked.insert(id);
    }

    fn hear(&mut self, element: &Element, book: &mut Book) {
        let is_error = element.attr("type") == Some("error");
        match element.name() {
            "iq" if matches!(element.attr("type"), Some("get" | "set")) => self.answer(element, book),
            "iq" => {
                let id = element.attr("id").unwrap_or_default();
                if !self.asked.remove(id) {
                    book.break_rule(format!("{} got an answer to {id}, which it did not wait for", self.full));
                }
                let errors = element.children().filter(|child| is_error && child.name() == "error");
                let condition = errors.flat_map(Element::children).map(Element::name).next().unwrap_or("no error");
                // Nobody may change the roster of an account that lasts for one session.
                if id.starts_with("set") && condition != "not-allowed" {
                    book.break_rule(format!("{} set its roster, and got {condition} (RFC 6120 §8.3.3.10)", self.full));
                }
            }
            "message" => book.hear_message(element, self.number),
            _ => {}
        }
    }

    /// Refuses a request of the server or of an account, which shows that the guest is there.
    fn answer(&mut self, request: &Element, book: &mut Book) {
        let [id, from] = ["id", "from"].map(|name| request.attr(name).unwrap_or_default());
        let error = "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
        self.write(&format!("<iq type='error' id='{id}' to='{from}'>{error}</iq>"), book);
    }

    /// Handles a stream error (RFC 6120 §4.9): of a server that stops, or that has waited too long
    /// for the guest, which reads nothing for hours in some runs.
    fn refused(&mut self, error: &Element, book: &mut Book) {
        let condition = error.children().next().map(Element::name).unwrap_or_default();
        if !matches!(condition, "system-shutdown" | "reset" | "connection-timeout") {
            book.break_rule(format!("the stream of a guest was ended with {condition}"));
        }
        self.was_cut = true;
        book.abroad.doubt();
    }

    fn go(&mut self, book: &mut Book) {
        if !matches!(self.stage, GuestStage::Gone | GuestStage::Closing) {
            self.write("</stream:stream>", book);
            self.stage = GuestStage::Closing;
            if self.is_narrow {
                book.abroad.break_stream(self.number);
            }
        }
    }

    fn break_off(&mut self, book: &mut Book) {
        self.wire.iter().for_each(|wire| wire.peer.reset());
        self.lose(book);
    }

    /// Handles the loss of its connection, which leaves doubt unless both sides had ended their
    /// streams.
    fn lose(&mut self, book: &mut Book) {
        if self.wire.take().is_none() {
            return;
        }
        book.note(format_args!("guest {} has no connection", self.number));
        if self.stage != GuestStage::Closing {
            self.was_cut = true;
            book.abroad.doubt();
            book.abroad.break_stream(self.number);
        }
        self.stage = GuestStage::Gone;
        self.asked.clear();
    }

    fn write(&mut self, xml: &str, book: &mut Book) {
        book.note(format_args!("guest {} C: {xml}", self.number));
        self.wire.iter_mut().for_each(|wire| wire.send(xml.as_bytes()));
    }
}

/// The domain of guests.
pub(crate) const GUEST_DOMAIN: &str = "guests.example.org";
/// The guests of a run.
const GUESTS: usize = 2;
