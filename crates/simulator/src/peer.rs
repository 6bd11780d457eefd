//! Another server, or a component, with a few users. In some runs it keeps to the standards, in
//! others it sometimes breaks them.
//!
//! The server under test speaks to it over streams of its own, so that dialback (XEP-0220), the
//! handshake of XEP-0114, queues and ends of streams are part of the run. TLS is not, since its
//! bytes don't depend on the seed alone.
//!
//! # Layout
//!
//! This file: the peer, its streams and the actions of its users. `hearing`: the handling of
//! stanzas.

mod hearing;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use rookery_testkit::Server;
use rookery_testkit::config::COMPONENT_SECRET;
use rookery_testkit::internet::Calls;
use rookery_testkit::login::{component_header, handshake};
use rookery_testkit::wire::{Item, Wire};
use rookery_xml::{Element, ns};

use crate::book::Book;
use crate::device::{DOMAIN, bare};
use crate::event::{SimulatedEvent, SimulatedEventKind};
use crate::plan::PeerPlan;

/// A server or a component at the other end of the server's streams.
pub struct SimulatedPeer {
    pub(crate) plan: PeerPlan,
    /// The connections that the server under test makes, if this is a server.
    calls: Calls,
    /// The streams on the connections that this peer has accepted.
    called: Vec<PeerStream>,
    /// The stream that this peer has opened.
    own: Option<PeerStream>,
    /// The stanzas that wait until `own` may be used.
    waiting: Vec<String>,
    is_here: bool,
    users: Vec<PeerUser>,
    streams: usize,
}

/// A user of the peer, with the subscriptions as the peer knows them.
#[derive(Debug, Default)]
pub(crate) struct PeerUser {
    /// The number of its presence, if it is available.
    pub shown: Option<u64>,
    /// The accounts that may see it.
    pub watchers: BTreeSet<usize>,
    /// The accounts that it may see.
    pub watched: BTreeSet<usize>,
    /// The accounts whose presence it has requested, without an answer so far.
    pub asked: BTreeSet<usize>,
    /// The accounts that have ever refused its requests. A cancellation of an earlier right that
    /// crosses the request ends both (RFC 6121 §3.1.6, Appendix A.2.2).
    pub crossed: BTreeSet<usize>,
    /// The accounts whose right to see it the user has ever cancelled. If an account had repeated
    /// its request before it heard of that, the repetition is approved after the cancellation, and
    /// the account's server ignores the approval (RFC 6121 §3.1.6).
    pub cancelled: BTreeSet<usize>,
    /// The presence of accounts, by full JID.
    pub sight: BTreeMap<String, u64>,
}

struct PeerStream {
    wire: Wire,
    number: usize,
    stage: PeerStage,
    /// True if the server's end of the stream was read.
    is_read: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerStage {
    /// The header of the other side is expected.
    Opened,
    /// The answer to the proof is expected.
    Proving,
    Open,
    /// Its own end was written.
    Closing,
}

impl SimulatedPeer {
    /// Returns a peer that has not connected yet.
    pub(crate) fn new(plan: PeerPlan, calls: Calls) -> Self {
        calls.set_away(true);
        let users = (0..USERS).map(|_| PeerUser::default()).collect();
        let (called, waiting) = (Vec::new(), Vec::new());
        Self { plan, calls, called, own: None, waiting, is_here: false, users, streams: 0 }
    }

    /// Returns the domain of its users: another one for a component than for a server.
    pub(crate) fn domain(&self) -> &'static str {
        if self.plan.is_component { BRIDGE } else { ELSEWHERE }
    }

    /// Returns its users, by their numbers.
    pub(crate) fn users(&self) -> &[PeerUser] {
        &self.users
    }

    /// Returns the bare JID of a user.
    pub(crate) fn user(&self, number: usize) -> String {
        format!("w{number}@{}", self.domain())
    }

    /// Carries out an event. Returns whether that was possible.
    pub(crate) fn act(&mut self, event: &SimulatedEvent, server: &Server, accounts: usize, book: &mut Book) -> bool {
        let (user, account) = (event.who % USERS, event.a % accounts);
        match event.what {
            SimulatedEventKind::PeerCome => return self.come(server, book),
            SimulatedEventKind::PeerRead => return self.read([1, 50, 5000][event.a % 3], book),
            _ if !self.is_here => return false,
            SimulatedEventKind::PeerGo => self.go(book),
            SimulatedEventKind::PeerBreak => self.break_off(book),
            SimulatedEventKind::PeerChat => {
                let (from, to) = (format!("{}/x", self.user(user)), bare(account));
                let number = book.send_home(&from, account, self.streams);
                let body = format!("<body>in{number}</body>");
                self.say(
                    format!("<message type='chat' id='in{number}' from='{from}' to='{to}'>{body}</message>"),
                    book,
                );
            }
            SimulatedEventKind::PeerShow if event.b.is_multiple_of(4) => self.hide(user, book),
            SimulatedEventKind::PeerShow => self.show(user, book),
            SimulatedEventKind::PeerSubscribe => self.subscribe(user, account, event.b, book),
            SimulatedEventKind::PeerLie if self.plan.is_hostile => self.lie(event, account, book),
            _ => return false,
        }
        true
    }

    /// Connects, or opens a new stream in place of one that is gone.
    pub(crate) fn come(&mut self, server: &Server, book: &mut Book) -> bool {
        let is_new = !std::mem::replace(&mut self.is_here, true);
        self.calls.set_away(self.plan.is_component);
        if self.own.is_some() {
            return is_new;
        }
        let (wire, header) = match self.plan.is_component {
            true => {
                (server.connect_component(book.presence() as usize % server.shards()).wire, component_header(BRIDGE))
            }
            false => (server.connect_server(Ipv4Addr::new(198, 51, 100, 7).into()).wire, server_header(None)),
        };
        let mut stream = self.stream(wire);
        stream.write(&header, book);
        self.own = Some(stream);
        // The peer asks for the changes that it missed while it was away (RFC 6121 §4.3).
        for user in 0..USERS {
            self.users[user].sight.clear();
            let from = self.user(user);
            for account in self.users[user].watched.clone() {
                self.say(format!("<presence type='probe' from='{from}' to='{}'/>", bare(account)), book);
            }
            self.tell_watchers(user, book);
        }
        true
    }

    fn stream(&mut self, wire: Wire) -> PeerStream {
        wire.peer.set_window(self.plan.window);
        wire.peer.set_most(self.plan.most);
        self.streams += 1;
        PeerStream { wire, number: self.streams, stage: PeerStage::Opened, is_read: false }
    }

    /// Ends its streams in good order (RFC 6120 §4.4).
    pub(crate) fn go(&mut self, book: &mut Book) {
        (0..USERS).for_each(|user| self.hide(user, book));
        self.is_here = false;
        self.calls.set_away(true);
        book.abroad.was_away = true;
        if !self.waiting.is_empty() {
            book.abroad.doubt();
            self.waiting.clear();
        }
        // A stream that the server has opened, and that has no answer yet, has no end to write.
        for stream in self.called.iter_mut().filter(|stream| stream.stage == PeerStage::Opened) {
            stream.wire.peer.shutdown();
            stream.stage = PeerStage::Closing;
        }
        for stream in self.own.iter_mut().chain(&mut self.called) {
            stream.end(book);
        }
    }

    /// Loses all connections, as in a power cut.
    fn break_off(&mut self, book: &mut Book) {
        book.note(format_args!("{} breaks off", self.domain()));
        book.abroad.doubt();
        self.break_streams(book);
        self.is_here = false;
        self.calls.set_away(true);
        while let Some(call) = self.calls.take() {
            call.reset();
        }
        self.own.take().into_iter().chain(self.called.drain(..)).for_each(|stream| stream.wire.peer.reset());
        self.waiting.clear();
        for user in &mut self.users {
            user.shown = None;
        }
    }

    /// Handles the death of the server's process.
    pub(crate) fn bereave(&mut self, book: &mut Book) {
        book.abroad.doubt();
        self.break_streams(book);
        self.own = None;
        self.called.clear();
        while self.calls.take().is_some() {}
        self.waiting.clear();
    }

    fn break_streams(&self, book: &mut Book) {
        let streams = self.own.iter().chain(&self.called).filter(|stream| !stream.is_read);
        streams.for_each(|stream| book.abroad.break_stream(stream.number));
    }

    /// Reads and writes as fast as possible from now on.
    pub(crate) fn widen(&mut self) {
        (self.plan.window, self.plan.most) = (1 << 20, usize::MAX);
        for stream in self.own.iter().chain(&self.called) {
            stream.wire.peer.set_window(self.plan.window);
            stream.wire.peer.set_most(self.plan.most);
        }
    }

    /// Becomes available, or changes its presence.
    pub(crate) fn show(&mut self, user: usize, book: &mut Book) {
        self.users[user].shown = Some(book.presence());
        self.tell_watchers(user, book);
    }

    fn tell_watchers(&mut self, user: usize, book: &mut Book) {
        for account in self.users[user].watchers.clone() {
            self.show_to(user, &bare(account), book);
        }
    }

    fn show_to(&mut self, user: usize, to: &str, book: &mut Book) {
        let Some(number) = self.users[user].shown else { return };
        let from = self.user(user);
        self.say(format!("<presence from='{from}/x' to='{to}'><status>p{number}</status></presence>"), book);
    }

    fn hide(&mut self, user: usize, book: &mut Book) {
        if self.users[user].shown.is_none() {
            return;
        }
        for account in self.users[user].watchers.clone() {
            self.hide_from(user, account, book);
        }
        self.users[user].shown = None;
    }

    fn hide_from(&mut self, user: usize, account: usize, book: &mut Book) {
        if self.users[user].shown.is_some() {
            let (from, to) = (self.user(user), bare(account));
            self.say(format!("<presence type='unavailable' from='{from}/x' to='{to}'/>"), book);
        }
    }

    /// Asks for a subscription, or ends one (RFC 6121 §3).
    fn subscribe(&mut self, user: usize, account: usize, choice: usize, book: &mut Book) {
        let kind = ["subscribe", "subscribe", "unsubscribe", "unsubscribed"][choice % 4];
        match kind {
            // A user that sees a contact does not request it.
            "subscribe" if self.users[user].watched.contains(&account) => return,
            "subscribe" => drop(self.users[user].asked.insert(account)),
            "unsubscribe" => self.forget_sight(user, account),
            // With nothing to cancel, no server sends a cancellation (RFC 6121 Appendix A.2.4): it
            // would end a request that crosses it.
            "unsubscribed" if !self.users[user].watchers.contains(&account) => return,
            "unsubscribed" => {
                self.hide_from(user, account, book);
                self.users[user].watchers.remove(&account);
                self.users[user].cancelled.insert(account);
            }
            _ => {}
        }
        self.send_subscription(kind, user, account, book);
    }

    fn send_subscription(&mut self, kind: &str, user: usize, account: usize, book: &mut Book) {
        let (from, to) = (self.user(user), bare(account));
        self.say(format!("<presence type='{kind}' from='{from}' to='{to}'/>"), book);
    }

    fn forget_sight(&mut self, user: usize, account: usize) {
        let user = &mut self.users[user];
        user.watched.remove(&account);
        user.asked.remove(&account);
        user.sight.retain(|full, _| !full.starts_with(&format!("{}/", bare(account))));
    }

    /// Sends something that is forbidden: a stanza in the name of another user, one before the
    /// proof, or no XML at all.
    fn lie(&mut self, event: &SimulatedEvent, account: usize, book: &mut Book) {
        let (to, victim) = (bare(account), bare(event.who));
        let body = format!("<body>{FORGED}</body>");
        let lie = match event.b % 6 {
            0 => format!("<message from='{victim}/d0' to='{to}' type='chat'>{body}</message>"),
            1 => format!("<message from='w0@other.example' to='{to}' type='chat'>{body}</message>"),
            2 => format!("<message to='{to}' type='chat'>{body}</message>"),
            3 => format!(
                "<presence type='subscribed' from='{victim}' to='{to}'/><message from='{DOMAIN}' to='{to}'>{body}</message>"
            ),
            4 => format!(
                "<db:result from='{DOMAIN}' to='{DOMAIN}'>{FORGED}</db:result><message from='{victim}' to='{to}'>{body}</message>"
            ),
            _ => "<message <>".to_owned(),
        };
        // The server ends such a stream, and it is unknown which stanzas it had read before.
        book.abroad.doubt();
        book.abroad.has_lied = true;
        if let Some(stream) = &mut self.own {
            stream.write(&lie, book);
        }
    }

    /// Sends a stanza, as soon as its stream may be used.
    fn say(&mut self, xml: String, book: &mut Book) {
        match self.own.as_mut().filter(|stream| stream.stage == PeerStage::Open) {
            Some(stream) => stream.write(&xml, book),
            None => self.waiting.push(xml),
        }
    }

    /// Reads up to `most` bytes of each stream, and reacts. Returns whether there was anything.
    pub(crate) fn read(&mut self, most: usize, book: &mut Book) -> bool {
        let mut any = false;
        while let Some(call) = self.calls.take() {
            let stream = self.stream(Wire::new(call));
            self.called.push(stream);
            any = true;
        }
        // The last one is the stream that this peer has opened.
        for at in (0..=self.called.len()).rev() {
            any |= self.read_stream(at, most, book);
        }
        self.called.retain(|stream| !stream.wire.peer.is_at_end());
        any
    }

    fn at(&mut self, at: usize) -> Option<&mut PeerStream> {
        if at < self.called.len() { self.called.get_mut(at) } else { self.own.as_mut() }
    }

    fn read_stream(&mut self, at: usize, most: usize, book: &mut Book) -> bool {
        let domain = self.domain();
        let Some(stream) = self.at(at).filter(|stream| stream.wire.peer.has_news()) else { return false };
        stream.wire.appetite = most;
        let mut any = stream.wire.receive();
        if any {
            let text = std::mem::take(&mut stream.wire.plain);
            book.note(format_args!("{domain} stream {} S: {}", stream.number, String::from_utf8_lossy(&text)));
        }
        while let Some(item) = self.at(at).and_then(|stream| stream.wire.take()) {
            self.take(at, item, book);
        }
        let is_over = self.at(at).is_some_and(|stream| stream.wire.peer.is_at_end());
        if is_over {
            any = true;
            if let Some(stream) = self.at(at) {
                if stream.stage != PeerStage::Closing {
                    book.abroad.doubt();
                }
                if !stream.is_read {
                    book.abroad.break_stream(stream.number);
                }
            }
            if at >= self.called.len() {
                self.own = None;
            }
        }
        any
    }

    fn take(&mut self, at: usize, item: Item, book: &mut Book) {
        let is_called = at < self.called.len();
        match item {
            Item::Header(header) => {
                let id = header.id.unwrap_or_default();
                let text = match (is_called, self.plan.is_component) {
                    (true, _) => server_header(Some(&book.id("stream"))),
                    (false, true) => format!("<handshake>{}</handshake>", handshake(&id, COMPONENT_SECRET)),
                    (false, false) => {
                        format!("<db:result from='{ELSEWHERE}' to='{DOMAIN}'>key of {id}</db:result>")
                    }
                };
                let Some(stream) = self.at(at) else { return };
                stream.write(&text, book);
                stream.stage = if is_called { PeerStage::Open } else { PeerStage::Proving };
            }
            Item::End => {
                let Some(stream) = self.at(at) else { return };
                stream.is_read = true;
                stream.end(book);
                stream.wire.peer.shutdown();
            }
            Item::Element(element) if element.ns() == ns::CLIENT && element.name() != "handshake" => {
                let number = self.at(at).map(|stream| stream.number).unwrap_or_default();
                self.hear(&element, number, book);
            }
            Item::Element(element) => self.element(at, &element, book),
        }
    }

    /// Handles an element of the stream itself.
    fn element(&mut self, at: usize, element: &Element, book: &mut Book) {
        let attr = |name: &str| element.attr(name).unwrap_or_default().to_owned();
        let (from, to) = (attr("to"), attr("from"));
        match (element.ns(), element.name(), element.attr("type")) {
            (_, "handshake", _) => self.open_stream(book),
            (ns::DIALBACK, "result", Some("valid")) => self.open_stream(book),
            (ns::DIALBACK, "result", Some(_)) => {
                book.abroad.doubt();
                self.own.take().into_iter().for_each(|stream| stream.wire.peer.reset());
            }
            (ns::DIALBACK, "result", None) => {
                let valid = format!("<db:result type='valid' from='{from}' to='{to}'/>");
                self.at(at).into_iter().for_each(|stream| stream.write(&valid, book));
            }
            (ns::DIALBACK, "verify", None) => {
                let id = attr("id");
                let kind = if element.text() == format!("key of {id}") { "valid" } else { "invalid" };
                let answer = format!("<db:verify type='{kind}' from='{from}' to='{to}' id='{id}'/>");
                self.at(at).into_iter().for_each(|stream| stream.write(&answer, book));
            }
            (ns::STREAMS, "error", _) => {
                let condition = element.children().next().map(Element::name).unwrap_or_default();
                // It is unknown which stanzas the server had read before.
                book.abroad.doubt();
                self.at(at).into_iter().for_each(|stream| book.abroad.break_stream(stream.number));
                if !self.plan.is_hostile && FAULTS.contains(&condition) {
                    book.break_rule(format!("the stream of {} was ended with {condition}", self.domain()));
                }
            }
            _ => {}
        }
    }

    /// Continues with a stream that may be used from now on.
    fn open_stream(&mut self, book: &mut Book) {
        let Some(stream) = self.own.as_mut().filter(|stream| stream.stage == PeerStage::Proving) else { return };
        stream.stage = PeerStage::Open;
        for xml in std::mem::take(&mut self.waiting) {
            stream.write(&xml, book);
        }
    }
}

impl PeerStream {
    fn write(&mut self, xml: &str, book: &mut Book) {
        if self.stage != PeerStage::Closing {
            book.note(format_args!("stream {} C: {xml}", self.number));
            self.wire.peer.write(xml.as_bytes());
        }
    }

    fn end(&mut self, book: &mut Book) {
        self.write("</stream:stream>", book);
        self.stage = PeerStage::Closing;
    }
}

/// Returns the header of a server that doesn't know the features of streams, and so neither TLS nor
/// acknowledgements. With an id it is the header of the server that was called.
fn server_header(id: Option<&str>) -> String {
    let id = id.map(|id| format!(" id='{id}'")).unwrap_or_default();
    format!(
        "<?xml version='1.0'?><stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
         xmlns:db='jabber:server:dialback' from='{ELSEWHERE}' to='{DOMAIN}'{id}>"
    )
}

/// The body of messages that must never arrive.
pub(crate) const FORGED: &str = "forged";
/// The users of a peer.
pub(crate) const USERS: usize = 3;
/// The domain of the other server.
pub(crate) const ELSEWHERE: &str = "elsewhere.example.net";
/// The name of the component.
pub(crate) const BRIDGE: &str = "bridge.example.org";
/// Stream errors for a peer that has broken a rule (RFC 6120 §4.9.3).
const FAULTS: [&str; 6] =
    ["bad-format", "improper-addressing", "invalid-from", "invalid-xml", "not-authorized", "not-well-formed"];
