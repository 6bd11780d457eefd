//! The book: a record of everything that clients have sent and received, and the first rule that
//! was broken.
//!
//! The rules are those of the standards. The book doesn't know how the server works, and breaking
//! no rule is enough where a standard leaves a choice.
//!
//! # Layout
//!
//! This file: sent and received stanzas. `deaths`: losses by nodes that die. `rooms`: rooms, and
//! who may be in them. `uploads`: upload slots.

mod deaths;
mod rooms;
mod uploads;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::abroad::Abroad;
use crate::device::NODES;
use crate::journal::RunJournal;

use deaths::Ghost;
use rooms::RoomRules;
use uploads::BookedUploads;

pub use uploads::UploadLimits;

/// Everything that has happened, as seen from outside the server.
#[derive(Debug)]
pub struct Book {
    /// The log.
    pub journal: RunJournal,
    /// The sessions, in the order of their beginning.
    pub sessions: Vec<BookedSession>,
    /// The messages, by their numbers.
    pub messages: Vec<BookMessage>,
    /// The items that were published, by their numbers.
    pub items: Vec<BookedItem>,
    /// Messages to and from other servers.
    pub abroad: Abroad,
    /// Logins that were bound to their channels, and those that were refused for another channel.
    pub bound_logins: (u64, u64),
    /// The pairs of an account and a contact that was ever allowed to see its presence.
    pub allowed: BTreeSet<(usize, usize)>,
    /// The pairs of an account that has requested a subscription, while its roster doesn't show the
    /// request yet, and the contact.
    pub asking: BTreeSet<(usize, usize)>,
    /// The newest state of each subscription request that any session has read from a roster: the
    /// roster's version, and true if the request is open. By the account and the contact.
    pub asks: BTreeMap<(usize, usize), (u64, bool)>,
    /// The pairs of an account and a contact whose presence it has ever been entitled to see, as
    /// its roster showed.
    pub seen: BTreeSet<(usize, usize)>,
    /// The pairs of an account that has requested a subscription again while a request was open,
    /// and the contact. If the contact's refusal of the first request crosses the second one, both
    /// are gone, and the contact's answer to the second is ignored (RFC 6121 §3.1.6, Appendix A.3.3
    /// and A.3.4).
    pub asked_again: BTreeSet<(usize, usize)>,
    /// The pairs of an account that has ever requested a subscription, and the contact; true if it
    /// has done so several times. A refusal by the contact may be of a request that was withdrawn,
    /// and cross the next one, with the same effect as above.
    pub requests: BTreeMap<(usize, usize), bool>,
    /// The pairs of an account and a contact to whom it has ever refused a subscription, or whom it
    /// has removed from its roster.
    pub refusals: BTreeSet<(usize, usize)>,
    /// The stays of sessions in rooms, with the messages that each of them got, in order.
    pub stays: Vec<Stay>,
    /// The pairs of an account and another account that it has ever tried to block.
    pub blockers: BTreeSet<(usize, usize)>,
    /// The accounts that anyone has ever asked to remove.
    pub removed: BTreeSet<usize>,
    removals: Vec<BookedRemoval>,
    /// The accounts whose sessions an administrator has ever tried to end (XEP-0133 §4.5), which
    /// may also end sessions that begin in the meantime.
    pub dismissed: BTreeSet<usize>,
    /// The ids of messages in the archive of an account, as recipients got them (XEP-0359 §3), by
    /// the account and the number of the message.
    pub archive_ids: BTreeMap<(usize, usize), String>,
    /// The same for rooms, by the room and the number of the message.
    pub room_ids: BTreeMap<(usize, usize), String>,
    /// Rooms as their owners want them.
    pub rooms: RoomRules,
    /// Upload slots.
    uploads: BookedUploads,
    /// The messages that accounts had before they were removed.
    pub forgotten: BTreeSet<(usize, usize)>,
    /// The blocks in force, by the account that blocks and the blocked one: messages from the first
    /// number on must not arrive, nor items from the second number on.
    pub blocks: BTreeMap<(usize, usize), (usize, usize)>,
    /// The number of requests to unblock an account so far.
    pub unblocked: usize,
    /// The number of requests to unblock that have no reply yet, by the account that blocks and the
    /// blocked one: they may take effect after a later block that another session requests.
    pub unblocking: BTreeMap<(usize, usize), usize>,
    /// True if the store has ever failed, or was killed.
    pub store_failed: bool,
    /// True if an operation has ever failed for good, not only while the store was unavailable.
    pub store_refused: bool,
    /// The number of times that the process was killed or restarted.
    pub deaths: usize,
    /// The number of nodes that have died. A node that was late in a move counts as one that died.
    pub node_deaths: usize,
    /// The number of `node_deaths` that may have lost sessions, rooms or unfinished work: a node
    /// with a complete journal isn't counted.
    pub lossy_node_deaths: usize,
    /// Messages that a client got from a node which then died, while their senders had no
    /// acknowledgement: they may come again with other ids.
    pub loose: BTreeSet<usize>,
    /// Messages that were not acknowledged to their sender when a node died: they come once more,
    /// perhaps after later ones.
    pub doubtful: BTreeSet<usize>,
    /// The rooms whose occupants have changed, with the time at which the server had nothing left
    /// to do for the change, in milliseconds; `None` until then.
    stirred: BTreeMap<usize, Option<u64>>,
    /// The rooms whose occupants changed right before a node died: a client without stream
    /// management doesn't repeat what it sent.
    pub unsettled: BTreeSet<usize>,
    /// The occupants whose sessions ended at about the time when a node died, by room and nick.
    ghosts: BTreeMap<(usize, String), Ghost>,
    /// The time at which a node last died, in milliseconds.
    last_death_ms: Option<u64>,
    /// The milliseconds since the start.
    pub now_ms: u64,
    /// True from the moment when a move is late until all moves are complete.
    is_late: bool,
    /// True if the time of day has ever jumped.
    pub jumped: bool,
    /// The number of messages that had been sent at the last jump.
    jumped_at: usize,
    /// True if the limit of stanzas that may wait for a session is so low that any session may end
    /// at any time.
    pub is_tight: bool,
    /// True while the process stops: it then also ends sessions that have just begun.
    pub is_stopping: bool,
    /// True while homes move between nodes, so that sessions may end.
    pub do_homes_move: bool,
    /// True if another process has ever taken over. An archive is in the order of the time of day,
    /// and a new process doesn't know that the clock was set back.
    pub was_replaced: bool,
    /// The newest roster version that any session of an account got, by the account.
    newest_rosters: BTreeMap<usize, u64>,
    presences: u64,
    ids: u64,
    /// The last message, by the session that got it and the one that sent it; live messages are
    /// kept separately from those to an account that had never had a session.
    last: BTreeMap<(usize, usize, bool), usize>,
    broken: Option<String>,
}

/// A session, from its binding to its end.
#[derive(Debug, Clone)]
pub struct BookedSession {
    /// The device that has the session, by its place among all devices.
    pub device: usize,
    /// The account that it belongs to, by its number.
    pub account: usize,
    /// True if the session uses stream management.
    pub is_managed: bool,
    /// True if stanzas on their way to it may be lost: its connection broke, and the server can't
    /// know which of them arrived.
    pub is_leaky: bool,
    /// The number of the first message that was sent after its beginning.
    pub from: usize,
    /// True if its connection was ever lost or it has ended, so that stanzas for it may go to other
    /// sessions.
    pub was_cut: bool,
    /// The time until which its client may resume it, in milliseconds, provided that nothing else
    /// happens to it: a dead node's journal has the session, and another node continues it. 0 for a
    /// session that no journal has.
    pub goes_on_ms: u64,
    /// True if it was ever unavailable: it may have got earlier messages that then seem to be
    /// missing.
    pub was_unavailable: bool,
    /// True once its client has given it up, or knows that it is gone.
    pub is_over: bool,
    /// True once it has seen its own presence with a priority that is not negative. A message that
    /// was sent before then is copied to it if it wants carbons (XEP-0280 §7), and waits for the
    /// first resource that accepts messages (RFC 6121 §8.5.2.2.1), which may be this session.
    pub takes: bool,
    /// Messages whose carbon it got before `takes` was true.
    pub early: BTreeSet<usize>,
    /// The messages that it got, by their numbers and true for a carbon.
    pub heard: BTreeMap<(usize, bool), How>,
}

/// The way in which a message reached a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// As it was sent.
    Live,
    /// With the stamp of a delay (XEP-0203).
    Late,
    /// As a carbon of a message that another resource got or sent (XEP-0280).
    Carbon,
}

/// A message of a client, and what became of it.
#[derive(Debug, Clone)]
pub struct BookMessage {
    /// The session that sent it.
    pub session: usize,
    /// The account that sent it.
    pub account: usize,
    /// Its recipient.
    pub to: BookedRecipient,
    /// True if its server has acknowledged it.
    pub is_handled: bool,
    /// True if it came back as an error.
    pub is_refused: bool,
    /// True if it is only a receipt for another message (XEP-0184): archives needn't have it.
    pub is_receipt: bool,
    /// The message that it corrects (XEP-0308).
    pub corrects: Option<usize>,
    /// True if it must not be stored (XEP-0334 §4.2), so that only a session which exists at that
    /// time gets it.
    pub is_unkept: bool,
    /// The session that it is addressed to, if that session existed when it was sent.
    pub for_session: Option<usize>,
    /// The number of losses, as `Book::losses` counts them, when it was sent.
    pub losses: usize,
    /// The number of deaths when it was sent.
    pub deaths: usize,
    /// The time at which it was sent, in milliseconds.
    pub sent_ms: u64,
    /// True if it is for an account that had never had a session when it was sent.
    pub is_first: bool,
}

/// The address that a message was sent to, in numbers of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BookedRecipient {
    /// The bare JID of an account, by its number.
    Account(usize),
    /// A resource.
    Device(usize, usize),
    /// The occupants of a room.
    Room(usize),
}

/// A request to remove an account.
#[derive(Debug)]
struct BookedRemoval {
    account: usize,
    /// The messages of the account that were acknowledged before the request.
    messages: Vec<usize>,
    /// The number of items that any account had published before the request.
    items: usize,
}

/// An item of a node of an account (XEP-0163).
#[derive(Debug, Clone)]
pub struct BookedItem {
    /// The account that has published it, by its number.
    pub account: usize,
    /// The node, an index of [`NODES`].
    pub node: usize,
    /// True if the server has confirmed that it is published.
    pub is_done: bool,
    /// True if it was removed together with its account.
    pub is_gone: bool,
}

/// The stay of one session in a room.
#[derive(Debug, Clone)]
pub struct Stay {
    /// The room, by its number.
    pub room: usize,
    /// The session that was in it, by its place in the book.
    pub session: usize,
    /// The messages that it got, except for the room's history.
    pub heard: Vec<usize>,
}

impl Book {
    /// Returns an empty book.
    pub fn new(keeps_lines: bool) -> Self {
        Self {
            journal: RunJournal::new(keeps_lines),
            sessions: Vec::new(),
            messages: Vec::new(),
            items: Vec::new(),
            abroad: Abroad::default(),
            bound_logins: (0, 0),
            allowed: BTreeSet::new(),
            asking: BTreeSet::new(),
            asks: BTreeMap::new(),
            requests: BTreeMap::new(),
            refusals: BTreeSet::new(),
            seen: BTreeSet::new(),
            asked_again: BTreeSet::new(),
            stays: Vec::new(),
            blockers: BTreeSet::new(),
            removed: BTreeSet::new(),
            removals: Vec::new(),
            dismissed: BTreeSet::new(),
            archive_ids: BTreeMap::new(),
            room_ids: BTreeMap::new(),
            rooms: RoomRules::default(),
            uploads: BookedUploads::default(),
            forgotten: BTreeSet::new(),
            blocks: BTreeMap::new(),
            unblocked: 0,
            unblocking: BTreeMap::new(),
            store_failed: false,
            store_refused: false,
            deaths: 0,
            node_deaths: 0,
            lossy_node_deaths: 0,
            loose: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            stirred: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            ghosts: BTreeMap::new(),
            last_death_ms: None,
            now_ms: 0,
            is_late: false,
            jumped: false,
            jumped_at: 0,
            is_tight: false,
            is_stopping: false,
            do_homes_move: false,
            was_replaced: false,
            newest_rosters: BTreeMap::new(),
            presences: 0,
            ids: 0,
            last: BTreeMap::new(),
            broken: None,
        }
    }

    /// Logs a line.
    pub fn note(&mut self, line: fmt::Arguments<'_>) {
        self.journal.note(line);
    }

    /// Records that a rule was broken; only the first one counts.
    pub fn break_rule(&mut self, what: String) {
        self.journal.note(format_args!("BROKEN: {what}"));
        self.broken.get_or_insert(what);
    }

    /// Returns the rule that was broken first.
    pub fn first_breach(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Returns an id that no other request has.
    pub fn id(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}{}", self.ids)
    }

    /// Returns a number that no other presence has.
    pub fn presence(&mut self) -> u64 {
        self.presences += 1;
        self.presences
    }

    /// Opens a session.
    pub fn open(&mut self, device: usize, account: usize, is_managed: bool) -> usize {
        self.raise_ghosts(device);
        self.sessions.push(BookedSession {
            device,
            account,
            is_managed,
            is_leaky: false,
            from: self.messages.len(),
            was_cut: self.is_tight,
            goes_on_ms: 0,
            was_unavailable: false,
            is_over: false,
            takes: false,
            early: BTreeSet::new(),
            heard: BTreeMap::new(),
        });
        self.sessions.len() - 1
    }

    /// Returns the session of the device that a message is for, if it exists and accepts messages.
    fn session_for(&self, to: BookedRecipient) -> Option<usize> {
        let BookedRecipient::Device(_, device) = to else { return None };
        let last = self.sessions.iter().rposition(|session| session.device == device)?;
        let session = &self.sessions[last];
        (!session.is_over && session.takes && !session.was_unavailable).then_some(last)
    }

    /// Records that the time of day jumps.
    pub fn jump(&mut self) {
        (self.jumped, self.jumped_at) = (true, self.messages.len());
    }

    /// Records that a session of an account got a version of its roster.
    pub fn tell_roster(&mut self, account: usize, version: u64) {
        let newest = self.newest_rosters.entry(account).or_default();
        *newest = version.max(*newest);
    }

    /// Returns the newest roster version that any session of an account got.
    pub fn newest_roster(&self, account: usize) -> u64 {
        self.newest_rosters.get(&account).copied().unwrap_or_default()
    }

    /// Records that a message is sent, and returns its number.
    pub fn send(&mut self, session: usize, to: BookedRecipient) -> usize {
        let (account, losses) = (self.sessions[session].account, self.losses());
        let is_first = match to {
            BookedRecipient::Account(to) => self.sessions.iter().all(|session| session.account != to),
            BookedRecipient::Device(..) | BookedRecipient::Room(_) => false,
        };
        self.messages.push(BookMessage {
            session,
            account,
            to,
            is_handled: false,
            is_refused: false,
            is_receipt: false,
            corrects: None,
            is_unkept: false,
            for_session: self.session_for(to),
            losses,
            deaths: self.deaths_before(),
            sent_ms: self.now_ms,
            is_first,
        });
        if self.is_late {
            // Since the server is late, it lets the sender continue before the message is stored,
            // and the client repeats it.
            self.doubtful.insert(self.messages.len() - 1);
        }
        self.messages.len() - 1
    }

    /// Records that a session got a message.
    pub fn hear(&mut self, session: usize, number: usize, how: How) {
        let Some(message) = self.messages.get(number).cloned() else {
            return self.break_rule(format!("session {session} got message {number}, which nobody has sent"));
        };
        let account = self.sessions[session].account;
        let is_own = message.account == account;
        let is_for = match message.to {
            BookedRecipient::Account(to) | BookedRecipient::Device(to, _) => to == account,
            BookedRecipient::Room(_) => true,
        };
        if !is_for && (how != How::Carbon || !is_own) {
            self.break_rule(format!("account {account} got message {number}, which is for {:?}", message.to));
        }
        if how != How::Carbon && self.blocks.get(&(account, message.account)).is_some_and(|(since, _)| number >= *since)
        {
            self.break_rule(format!("account {account} got message {number} of an account that it blocks (XEP-0191)"));
        }
        let found = &mut self.sessions[session];
        let before = found.heard.insert((number, how == How::Carbon), how);
        if how == How::Carbon && !found.takes {
            found.early.insert(number);
        }
        let was_early = how == How::Late && found.early.contains(&number);
        let other = found.heard.get(&(number, how != How::Carbon)).copied().filter(|_| !was_early);
        // A message that another session of the account did not get may go to this session, which
        // may already have a carbon of it.
        let may_move = self.sessions.iter().any(|other| other.account == account && other.was_cut);
        let before = before.filter(|_| !may_move || !self.sessions[session].was_unavailable);
        let was_unavailable = self.sessions[session].was_unavailable;
        let may_move = may_move || was_unavailable;
        if let Some(before) = before.or(other.filter(|_| !may_move)).filter(|_| !self.may_come_again(number)) {
            self.break_rule(format!("session {session} got message {number} twice: {before:?}, {how:?}"));
        }
        if how == How::Live {
            self.check_order((session, message.session, true), number);
        }
        if how != How::Carbon && message.is_first && self.is_first(session) && !self.may_come_again(number) {
            self.check_order((session, message.session, false), number);
        }
    }

    /// Records that a client got the id of a message in the account's archive, which must be the
    /// same for all clients (XEP-0359 §3).
    pub fn name(&mut self, account: usize, number: usize, id: &str) {
        let may_differ = self.may_have_other_ids(number) || self.removed.contains(&account);
        let known = self.archive_ids.entry((account, number)).or_insert_with(|| id.to_owned());
        if known != id && !may_differ {
            let text = format!("message {number} of u{account}'s archive is {known} to one and {id} to another");
            self.break_rule(format!("{text} (XEP-0359 §3)"));
        }
    }

    /// Records the same for a room.
    pub fn name_in_room(&mut self, room: usize, number: usize, id: &str) {
        let may_differ = self.may_have_other_ids(number);
        let known = self.room_ids.entry((room, number)).or_insert_with(|| id.to_owned());
        if known != id && !may_differ {
            let text = format!("message {number} of room {room}'s archive is {known} to one and {id} to another");
            self.break_rule(format!("{text} (XEP-0359 §3)"));
        }
    }

    /// Records that an item is published, and returns its number.
    pub fn publish(&mut self, account: usize, node: usize) -> usize {
        self.items.push(BookedItem { account, node, is_done: false, is_gone: false });
        self.items.len() - 1
    }

    /// Records a request to remove an account, and returns the number of the request.
    pub fn remove(&mut self, account: usize) -> usize {
        self.removed.insert(account);
        self.end_sessions(|session| session.account == account);
        // Blocks don't pass to the next account of this name.
        self.blocks.retain(|(by, _), _| *by != account);
        let is_own = |message: &BookMessage| {
            let is_for =
                matches!(message.to, BookedRecipient::Account(to) | BookedRecipient::Device(to, _) if to == account);
            message.is_handled && (is_for || message.account == account)
        };
        let messages = self.messages.iter().enumerate().filter(|(_, message)| is_own(message));
        let messages = messages.map(|(number, _)| number).collect();
        self.removals.push(BookedRemoval { account, messages, items: self.items.len() });
        self.removals.len() - 1
    }

    /// Records that the server may end the sessions that `which` selects, and give the stanzas that
    /// they did not get to other sessions, before their clients notice.
    pub fn end_sessions(&mut self, which: impl Fn(&BookedSession) -> bool) {
        self.sessions.iter_mut().filter(|session| which(session)).for_each(|session| session.was_cut = true);
    }

    /// Records that an account was removed: the next one of its name inherits nothing.
    pub fn confirm_removal(&mut self, removal: usize) {
        let BookedRemoval { account, messages, items } = &self.removals[removal];
        self.forgotten.extend(messages.iter().map(|number| (*account, *number)));
        let items = self.items[..*items].iter_mut();
        items.filter(|item| item.account == *account && item.is_done).for_each(|item| item.is_gone = true);
    }

    /// Records that an account got an item of a node, which only accounts with access may get
    /// (XEP-0060 §4.5).
    pub fn hear_news(&mut self, account: usize, node: (usize, usize), number: usize) {
        let Some(item) = self.items.get(number).filter(|item| (item.account, item.node) == node) else {
            return self.break_rule(format!("account {account} heard of item {number}, which is not of node {node:?}"));
        };
        let owner = item.account;
        if owner == account {
            return;
        }
        // A contact that hasn't subscribed to the node gets its items only while it sees the
        // owner's presence.
        if NODES[item.node] == "whitelist" || !self.allowed.contains(&(owner, account)) {
            self.break_rule(format!("account {account} heard of item {number} of u{owner} and may not (XEP-0163 §4)"));
        }
        if self.blocks.get(&(account, owner)).is_some_and(|(_, since)| number >= *since) {
            self.break_rule(format!("account {account} heard of item {number} of an account that it blocks"));
        }
    }

    /// Records that a session got a subscription request that session `by` sent before the message
    /// with the number `before`. Messages from that number on must arrive after the request (RFC
    /// 6120 §10.1).
    pub fn hear_request(&mut self, session: usize, by: usize, before: usize) {
        let last = self.last.get(&(session, by, true)).copied();
        let found = &self.sessions[session];
        // The request is sent again to sessions that begin later (RFC 6121 §3.1.3). It is unknown
        // which was first if nobody wrote a message in between.
        let is_first = found.from < before && !found.was_cut && !found.was_unavailable;
        if is_first && last.is_some_and(|last| last >= before) && !self.is_uncertain_since(0) {
            let text = format!("session {session} got a request of session {by} behind message {last:?}");
            self.break_rule(format!("{text}, which was sent behind it (RFC 6120 §10.1)"));
        }
    }

    /// Returns whether a refusal by the contact may have crossed a subscription request, after
    /// which the two sides differ.
    pub fn may_be_crossed(&self, account: usize, contact: usize) -> bool {
        let has_asked_twice = self.requests.get(&(account, contact)).is_some_and(|is_again| *is_again);
        self.asked_again.contains(&(account, contact)) || has_asked_twice && self.refusals.contains(&(contact, account))
    }

    /// Returns whether a session is the first one of its account.
    fn is_first(&self, session: usize) -> bool {
        let account = self.sessions[session].account;
        self.sessions[..session].iter().all(|other| other.account != account)
    }

    /// Returns whether stanzas that were sent after this many deaths may arrive twice: a stored
    /// message is given to a session before it is removed from the store, and given again if the
    /// process dies in between.
    fn is_uncertain_since(&self, deaths: usize) -> bool {
        self.deaths > deaths || self.store_failed
    }

    /// Returns whether a message may arrive twice.
    fn may_come_again(&self, number: usize) -> bool {
        self.is_uncertain_since(self.messages[number].deaths)
    }

    /// Checks that stanzas from one session to another arrive in the order in which they were sent
    /// (RFC 6120 §10.1).
    fn check_order(&mut self, between: (usize, usize, bool), number: usize) {
        let (session, by, _) = between;
        let last = self.last.insert(between, number);
        // A message that another session did not get comes to this session as if the other one had
        // never existed.
        let account = self.sessions[session].account;
        let may_move = |other: &BookedSession| other.account == account && other.was_cut && other.from <= number;
        let may_come_again = self.doubtful.contains(&number);
        if last.is_some_and(|last| last > number) && !may_come_again && !self.sessions.iter().any(may_move) {
            self.break_rule(format!("session {session} got message {number} of session {by} behind {last:?}"));
        }
    }
}
