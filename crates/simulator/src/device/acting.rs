//! Actions of the user of a device.

use rookery_xml::ns;

use super::publishing::NODES;
use super::{UPLOADS, UserDevice, account_of, bare, room};
use crate::book::{Book, BookedRecipient};
use crate::event::{SimulatedEvent, SimulatedEventKind};
use crate::peer::{SimulatedPeer, USERS};

/// The addresses that a device may act on.
#[derive(Debug)]
pub struct People {
    /// The number of accounts.
    pub accounts: usize,
    /// The account and the full JID of each device.
    pub devices: Vec<(usize, String)>,
    /// The number of rooms.
    pub rooms: usize,
    /// True if a device that is to write in a room enters the room first.
    pub enters_to_speak: bool,
}

impl UserDevice {
    /// Carries out an event, if that is possible now. Returns whether it was.
    pub fn act(&mut self, event: &SimulatedEvent, people: &People, book: &mut Book) -> bool {
        if !self.is_ready() {
            return false;
        }
        let account = event.a % people.accounts;
        let room = event.a % people.rooms;
        match event.what {
            SimulatedEventKind::Chat => self.chat(BookedRecipient::Account(account), &bare(account), event.b, book),
            SimulatedEventKind::ChatFull => {
                let at = event.a % people.devices.len();
                let (account, full) = &people.devices[at];
                self.chat(BookedRecipient::Device(*account, at), full, event.b, book);
            }
            SimulatedEventKind::Burst => {
                (0..2 + event.b % 6).for_each(|_| self.chat(BookedRecipient::Account(account), &bare(account), 0, book))
            }
            // Another presence would replace this one while the client is inactive.
            SimulatedEventKind::Presence if self.blind.is_none() => self.show(book),
            SimulatedEventKind::Unavailable => self.become_unavailable(book),
            SimulatedEventKind::Ping => drop(self.ask("ping", "get", None, "<ping xmlns='urn:xmpp:ping'/>", book)),
            SimulatedEventKind::Ask => {
                let to = &people.devices[event.a % people.devices.len()].1;
                self.ask("ask", "get", Some(to), "<query xmlns='jabber:iq:version'/>", book);
            }
            SimulatedEventKind::Subscribe => {
                let kind = ["subscribe", "subscribe", "subscribed", "unsubscribe", "unsubscribed"][event.b % 5];
                // A client that sees a contact doesn't request its presence: such a request tells
                // the contact's server that there is nothing to answer (RFC 6121 §3.1.3), whatever
                // the contact does in the meantime.
                let entry = self.roster.as_ref().and_then(|roster| roster.get(&bare(account)));
                let sees = entry.is_some_and(|entry| matches!(&*entry.subscription, "to" | "both"));
                if account == self.plan.account || kind == "subscribe" && sees {
                    return false;
                }
                if kind == "subscribe" {
                    // Another session may have requested it, while this roster doesn't show that
                    // yet.
                    let pair = (self.plan.account, account);
                    book.requests.entry(pair).and_modify(|is_again| *is_again = true).or_insert(false);
                    let is_open = !book.asking.insert(pair) || book.asks.get(&pair).is_some_and(|(_, asks)| *asks);
                    // A client that once saw the contact may not know yet that its subscription is
                    // over.
                    if is_open || book.seen.contains(&pair) || entry.is_some_and(|entry| entry.asks) {
                        book.asked_again.insert(pair);
                    }
                }
                match kind {
                    "subscribed" => _ = book.allowed.insert((self.plan.account, account)),
                    "unsubscribed" => _ = book.refusals.insert((self.plan.account, account)),
                    _ => {}
                }
                // The status names the message that comes after the request.
                let status = self.session.filter(|_| kind == "subscribe");
                let status = status.map(|session| format!("<status>s{session} {}</status>", book.messages.len()));
                let status = status.unwrap_or_default();
                self.say(format!("<presence type='{kind}' to='{}'>{status}</presence>", bare(account)), None, book);
            }
            SimulatedEventKind::RosterSet => {
                let item = format!("<item jid='{}' name='name{}'/>", bare(account), event.b % 100);
                self.ask("item", "set", None, &format!("<query xmlns='jabber:iq:roster'>{item}</query>"), book);
            }
            SimulatedEventKind::RosterRemove => {
                book.refusals.insert((self.plan.account, account));
                let item = format!("<item jid='{}' subscription='remove'/>", bare(account));
                self.ask("item", "set", None, &format!("<query xmlns='jabber:iq:roster'>{item}</query>"), book);
            }
            SimulatedEventKind::RosterGet if event.b.is_multiple_of(2) => self.ask_roster(book),
            SimulatedEventKind::RosterGet => self.ask_changes(book),
            SimulatedEventKind::Carbons => {
                let switch = ["enable", "disable"][event.b % 2];
                self.ask("carbons", "set", None, &format!("<{switch} xmlns='urn:xmpp:carbons:2'/>"), book);
            }
            SimulatedEventKind::Attention => {
                let state = ["active", "inactive"][event.b % 2];
                self.write(&format!("<{state} xmlns='urn:xmpp:csi:0'/>"), book);
            }
            SimulatedEventKind::Acknowledge if self.plan.is_managed => self.write("<r xmlns='urn:xmpp:sm:3'/>", book),
            SimulatedEventKind::Archive => self.begin_archive(&self.bare.clone(), book),
            SimulatedEventKind::Join => self.enter_room(room, &format!("n{}", event.b % 6), book),
            SimulatedEventKind::Leave => {
                let Some(nick) = self.seats[room].nick.clone() else { return false };
                self.seats[room].leaves = true;
                book.stir(room);
                self.say(format!("<presence type='unavailable' to='{}/{nick}'/>", super::room(room)), None, book);
            }
            SimulatedEventKind::Groupchat if people.enters_to_speak && self.seats[room].nick.is_none() => {
                self.enter_room(room, &format!("n{}", event.b % 6), book);
            }
            SimulatedEventKind::Groupchat => {
                let (Some(session), true) = (self.session, self.seats[room].nick.is_some()) else { return false };
                let number = book.send(session, BookedRecipient::Room(room));
                let to = super::room(room);
                let body = format!("<body>m{number}</body>");
                self.say(
                    format!("<message type='groupchat' id='m{number}' to='{to}'>{body}</message>"),
                    Some(number),
                    book,
                );
            }
            SimulatedEventKind::Nick if self.seats[room].nick.is_some() => {
                let to = format!("{}/n{}", super::room(room), event.b % 6);
                let show = ["<show>away</show>", ""][event.b / 6 % 2];
                book.stir(room);
                self.say(format!("<presence to='{to}'>{show}</presence>"), None, book);
            }
            SimulatedEventKind::Moderate if self.seats[room].nick.is_some() => {
                self.moderate(room, event.b, people, book)
            }
            SimulatedEventKind::Block => self.block(account, event.b.is_multiple_of(2), book),
            SimulatedEventKind::Publish => self.publish(event.b % NODES.len(), book),
            // The first account is the administrator's, and no other client may create an account
            // of that name.
            SimulatedEventKind::Remove if self.plan.account > 0 => {
                let remove = format!("<query xmlns='{}'><remove/></query>", ns::REGISTER);
                let removal = book.remove(self.plan.account);
                let id = self.ask("remove", "set", None, &remove, book);
                self.removing.insert(id, removal);
            }
            SimulatedEventKind::Upload => {
                (0..1 + event.a % 3).for_each(|more| self.ask_for_slot(1 + (event.b >> more) as u64, book))
            }
            SimulatedEventKind::Command if self.plan.account == 0 => self.command(event.b, account, book),
            _ => return false,
        }
        true
    }

    /// Carries out an event that concerns a user of a peer. Returns whether it was possible.
    pub fn act_abroad(&mut self, event: &SimulatedEvent, peer: &SimulatedPeer, book: &mut Book) -> bool {
        let contact = peer.user(event.a % USERS);
        if event.what == SimulatedEventKind::ChatAbroad || !self.is_ready() {
            return self.write_abroad(&contact, false, book);
        }
        let kind = ["subscribe", "subscribe", "unsubscribe", "unsubscribed"][event.b % 4];
        let entry = self.roster.as_ref().and_then(|roster| roster.get(&contact));
        if kind == "subscribe" && entry.is_some_and(|entry| matches!(&*entry.subscription, "to" | "both")) {
            return false;
        }
        self.say(format!("<presence type='{kind}' to='{contact}'/>"), None, book);
        true
    }

    /// Writes to a user of a peer, or to a guest. Returns whether it was possible. `is_doubtful` if
    /// the recipient's connection is broken, which the server may not know yet.
    pub(crate) fn write_abroad(&mut self, to: &str, is_doubtful: bool, book: &mut Book) -> bool {
        let Some(session) = self.session.filter(|_| self.is_ready()) else { return false };
        let number = book.send_abroad(session, is_doubtful);
        let body = format!("<body>out{number}</body>");
        self.say(format!("<message type='chat' id='out{number}' to='{to}'>{body}</message>"), None, book);
        true
    }

    /// Writes a message: in some cases a correction of the last one (XEP-0308), or a message that
    /// requests a receipt (XEP-0184).
    fn chat(&mut self, to: BookedRecipient, address: &str, choice: usize, book: &mut Book) {
        let Some(session) = self.session else { return };
        let number = book.send(session, to);
        book.messages[number].corrects = number.checked_sub(1).filter(|_| matches!(choice % 8, 1 | 2));
        let more = match (choice % 8, book.messages[number].corrects) {
            (_, Some(last)) => format!("<replace xmlns='{}' id='m{last}'/>", ns::CORRECT),
            (3 | 4, _) => format!("<request xmlns='{}'/>", ns::RECEIPTS),
            _ => String::new(),
        };
        // A message that must not be stored is only in a node's journal while the node has accepted
        // and not delivered it.
        let is_unkept = matches!((choice % 8, to), (5 | 6, BookedRecipient::Device(..)));
        book.messages[number].is_unkept = is_unkept;
        let hint = if is_unkept { format!("<no-store xmlns='{}'/>", ns::HINTS) } else { String::new() };
        let content = format!("<body>m{number}</body>{more}{hint}");
        self.say(format!("<message type='chat' id='m{number}' to='{address}'>{content}</message>"), Some(number), book);
    }

    /// Confirms that a message has arrived (XEP-0184 §5).
    pub(super) fn confirm(&mut self, received: usize, from: &str, book: &mut Book) {
        let (Some(session), Some(account)) = (self.session, account_of(from)) else { return };
        let number = book.send(session, BookedRecipient::Account(account));
        book.messages[number].is_receipt = true;
        let receipt = format!("<received xmlns='{}' id='m{received}'/>", ns::RECEIPTS);
        self.say(format!("<message type='chat' id='m{number}' to='{from}'>{receipt}</message>"), Some(number), book);
    }

    /// Asks for an upload slot for a file (XEP-0363 §4).
    fn ask_for_slot(&mut self, bytes: u64, book: &mut Book) {
        let request = format!("<request xmlns='{}' filename='a' size='{bytes}'/>", ns::HTTP_UPLOAD);
        let number = book.request_slot(self.plan.account, bytes);
        let id = self.ask("upload", "get", Some(UPLOADS), &request, book);
        self.uploading.insert(id, number);
    }

    /// Writes a stanza that a server counts and otherwise ignores: a reply to a request that nobody
    /// sent (RFC 6120 §8.2.3).
    pub fn say_nothing(&mut self, book: &mut Book) {
        if self.is_ready() {
            self.say("<iq type='result' id='nothing'/>".into(), None, book);
        }
    }

    /// Becomes available, or changes its presence.
    pub(super) fn show(&mut self, book: &mut Book) {
        let number = book.presence();
        if self.shown.replace(number).is_none() {
            self.blind = Some(number);
        }
        let priority = match self.plan.priority {
            0 => String::new(),
            priority => format!("<priority>{priority}</priority>"),
        };
        let capabilities = self.capabilities();
        self.say(format!("<presence><status>p{number}</status>{priority}{capabilities}</presence>"), None, book);
    }

    /// Becomes unavailable and stays connected.
    pub(super) fn become_unavailable(&mut self, book: &mut Book) {
        self.shown = None;
        self.seats.iter_mut().for_each(|seat| seat.leaves = true);
        self.stir_rooms(book);
        if let Some(session) = self.session {
            book.sessions[session].was_unavailable = true;
        }
        self.say("<presence type='unavailable'/>".into(), None, book);
    }

    /// Sends a request, and returns its id.
    pub(super) fn ask(&mut self, kind: &str, type_: &str, to: Option<&str>, child: &str, book: &mut Book) -> String {
        let id = book.id(kind);
        let to = to.map(|to| format!(" to='{to}'")).unwrap_or_default();
        if !self.is_closing() {
            self.asked.insert(id.clone(), book.deaths_before());
        }
        self.say(format!("<iq type='{type_}' id='{id}'{to}>{child}</iq>"), None, book);
        id
    }

    /// Asks for the page of its archive that follows an id.
    pub fn ask_archive(&mut self, after: Option<&str>, book: &mut Book) {
        let address = self.archive.take().filter(|address| *address != self.bare);
        let after = after.map(|id| format!("<after>{id}</after>")).unwrap_or_default();
        let set = format!("<set xmlns='http://jabber.org/protocol/rsm'><max>50</max>{after}</set>");
        self.page = None;
        self.ask("page", "set", address.as_deref(), &format!("<query xmlns='urn:xmpp:mam:2'>{set}</query>"), book);
        self.archive = address;
    }

    /// Begins to read the archive of an address.
    pub fn begin_archive(&mut self, address: &str, book: &mut Book) {
        self.archived.clear();
        self.archive = Some(address.to_owned());
        self.ask_archive(None, book);
    }

    /// Asks for the next page of the archive that it reads. Returns whether there is a next page.
    pub fn go_on_with_archive(&mut self, book: &mut Book) -> bool {
        let Some((Some(last), false)) = self.page.take() else { return false };
        self.ask_archive(Some(&last), book);
        true
    }

    /// Asks for the archive of another account, and for the list of its nodes.
    pub fn pry(&mut self, address: &str, book: &mut Book) {
        self.ask("nodes", "get", Some(address), &format!("<query xmlns='{}'/>", ns::DISCO_ITEMS), book);
        self.ask("foreign", "set", Some(address), "<query xmlns='urn:xmpp:mam:2'/>", book);
    }

    /// Asks each room what it is (XEP-0045 §6.4).
    pub fn ask_about_rooms(&mut self, book: &mut Book) {
        for number in 0..if self.is_ready() { self.seats.len() } else { 0 } {
            self.ask("info", "get", Some(&room(number)), &format!("<query xmlns='{}'/>", ns::DISCO_INFO), book);
        }
    }

    /// Asks each room that it believes to be in whether it is still an occupant (XEP-0410 §3).
    pub fn ping_rooms(&mut self, book: &mut Book) {
        let seats = self.seats.iter().enumerate().filter(|(number, _)| !book.unsettled.contains(number));
        let seats: Vec<_> = seats.filter_map(|(number, seat)| Some((number, seat.nick.clone()?))).collect();
        for (number, nick) in seats {
            let to = format!("{}/{nick}", room(number));
            self.ask("self", "get", Some(&to), "<ping xmlns='urn:xmpp:ping'/>", book);
        }
    }

    fn enter_room(&mut self, number: usize, nick: &str, book: &mut Book) {
        if self.seats[number].nick.is_some() {
            return;
        }
        // The view of the room from an earlier visit is out of date.
        let seat = &mut self.seats[number];
        if seat.entering.is_empty() {
            seat.leaves = false;
            seat.view.clear();
        }
        seat.entering.push(nick.to_owned());
        book.stir(number);
        let to = room(number);
        let muc = "<x xmlns='http://jabber.org/protocol/muc'/>";
        self.say(format!("<presence to='{to}/{nick}'>{muc}</presence>"), None, book);
    }

    fn moderate(&mut self, number: usize, choice: usize, people: &People, book: &mut Book) {
        let item = match choice % 4 {
            0 => format!("<item nick='n{}' role='none'/>", choice / 4 % 6),
            1 => format!("<item nick='n{}' role='visitor'/>", choice / 4 % 6),
            which => {
                let (affiliation, account) = (["member", "outcast"][which - 2], choice / 4 % people.accounts);
                if affiliation == "member" {
                    book.admit(number, account);
                }
                format!("<item jid='{}' affiliation='{affiliation}'/>", bare(account))
            }
        };
        book.stir(number);
        let query = format!("<query xmlns='http://jabber.org/protocol/muc#admin'>{item}</query>");
        self.ask("moderate", "set", Some(&room(number)), &query, book);
    }

    fn block(&mut self, account: usize, blocks: bool, book: &mut Book) {
        if account == self.plan.account {
            return;
        }
        let item = format!("<item jid='{}'/>", bare(account));
        book.blockers.insert((self.plan.account, account));
        if blocks {
            let id = self.ask("block", "set", None, &format!("<block xmlns='urn:xmpp:blocking'>{item}</block>"), book);
            // Another session's request to unblock the account may take effect after this block.
            if book.unblocking.get(&(self.plan.account, account)).is_none_or(|open| *open == 0) {
                self.blocking.insert(id, (account, book.unblocked));
            }
        } else {
            book.unblocked += 1;
            book.blocks.remove(&(self.plan.account, account));
            *book.unblocking.entry((self.plan.account, account)).or_default() += 1;
            let unblock = format!("<unblock xmlns='urn:xmpp:blocking'>{item}</unblock>");
            let id = self.ask("block", "set", None, &unblock, book);
            self.unblocking.insert(id, account);
        }
    }
}
