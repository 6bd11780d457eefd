//! Messages between accounts here and the users of another server or of a component, or guests
//! (XEP-0175), and the rules for them (RFC 6120 §8.3, §10.1 and §10.4).
//!
//! A stanza to another server either arrives once or comes back with the reason. Only a connection
//! that breaks leaves doubt, since these peers don't acknowledge stanzas.

use std::collections::{BTreeMap, BTreeSet};

use rookery_xml::{Element, ns};

use crate::book::{Book, BookedSession};

/// The messages to and from other servers, by their numbers.
#[derive(Debug, Default)]
pub struct Abroad {
    /// Messages to users of other servers.
    pub outgoing: Vec<OutgoingMessage>,
    /// Messages from users of other servers.
    pub incoming: Vec<IncomingMessage>,
    /// True if only one side may know of a subscription, because the peer was away or its
    /// connection broke.
    pub was_away: bool,
    /// True once the peer has sent something that is forbidden: the server ends such a stream, and
    /// it is unknown which of the stanzas on their way there it had read.
    pub has_lied: bool,
    /// The streams that were lost before their end was read. It is unknown what arrived on them,
    /// and the server may return to its sender a stanza that did (RFC 6120 §4.6).
    broken: BTreeSet<usize>,
    /// The last message that arrived, by the session that sent it and the stream.
    last_out: BTreeMap<(usize, usize), usize>,
    /// The last message that arrived live, by the session that got it, its sender and the stream.
    last_in: BTreeMap<(usize, String, usize), usize>,
}

/// A message to a user of another server.
#[derive(Debug)]
pub struct OutgoingMessage {
    session: usize,
    deaths: usize,
    /// The stream on which it arrived.
    heard_on: Option<usize>,
    is_refused: bool,
    is_doubtful: bool,
}

/// A message from a user of another server.
#[derive(Debug)]
pub struct IncomingMessage {
    from: String,
    account: usize,
    deaths: usize,
    /// The stream on which it was sent.
    stream: usize,
    heard: BTreeSet<usize>,
    is_refused: bool,
    is_doubtful: bool,
}

impl Abroad {
    /// Records that any of the messages sent so far may or may not have arrived.
    pub fn doubt(&mut self) {
        self.was_away = true;
        self.outgoing.iter_mut().for_each(|message| message.is_doubtful = true);
        self.incoming.iter_mut().for_each(|message| message.is_doubtful = true);
    }

    /// Records that a stream was lost before its end was read.
    pub fn break_stream(&mut self, stream: usize) {
        self.broken.insert(stream);
    }

    /// Returns the first message that both arrived and came back. The server knows what has arrived
    /// on a stream that both sides have ended, so this is checked once the stream has ended.
    fn find_double(&self) -> Option<usize> {
        let is_sure = |stream: usize| !self.has_lied && !self.broken.contains(&stream);
        self.outgoing.iter().position(|message| message.is_refused && message.heard_on.is_some_and(is_sure))
    }
}

impl Book {
    /// Records that a session writes to a user of another server, and returns the number of the
    /// message. `is_doubtful` if it may be lost with a connection that is broken already.
    pub fn send_abroad(&mut self, session: usize, is_doubtful: bool) -> usize {
        let (deaths, is_doubtful) = (self.deaths, is_doubtful || self.abroad.has_lied);
        let message = OutgoingMessage { session, deaths, heard_on: None, is_refused: false, is_doubtful };
        self.abroad.outgoing.push(message);
        self.abroad.outgoing.len() - 1
    }

    /// Records that a user of another server writes to an account, on a stream, and returns the
    /// number of the message. `from` is the user's full JID.
    pub fn send_home(&mut self, from: &str, account: usize, stream: usize) -> usize {
        let (deaths, heard, is_doubtful) = (self.deaths, BTreeSet::new(), self.abroad.has_lied);
        let from = from.to_owned();
        let message = IncomingMessage { from, account, deaths, stream, heard, is_refused: false, is_doubtful };
        self.abroad.incoming.push(message);
        self.abroad.incoming.len() - 1
    }

    /// Handles a message that has arrived at a user of another server, on a stream.
    pub fn hear_message(&mut self, element: &Element, stream: usize) {
        let is_error = element.attr("type") == Some("error");
        let number = |text: &str, kind: &str| text.strip_prefix(kind).and_then(|rest| rest.parse::<usize>().ok());
        if let Some(number) = element.attr("id").filter(|_| is_error).and_then(|id| number(id, "in")) {
            return self.refuse_home(number);
        }
        let body = element.child_text("body", ns::CLIENT).unwrap_or_default();
        if let Some(number) = number(&body, "out") {
            self.hear_abroad(number, stream);
        }
    }

    /// Records that a message has arrived at the peer, on a stream.
    pub fn hear_abroad(&mut self, number: usize, stream: usize) {
        let Some(message) = self.abroad.outgoing.get_mut(number) else {
            return self.break_rule(format!("message out{number} arrived elsewhere, which nobody has sent"));
        };
        let was_heard = message.heard_on.replace(stream).is_some();
        let (session, is_doubtful) = (message.session, message.is_doubtful);
        if was_heard && !is_doubtful && self.deaths == 0 && !self.store_failed {
            self.break_rule(format!("message out{number} arrived elsewhere twice"));
        }
        let last = self.abroad.last_out.insert((session, stream), number);
        if last.is_some_and(|last| last > number) && !self.sessions[session].was_cut {
            self.break_rule(format!("message out{number} arrived elsewhere behind {last:?} (RFC 6120 §10.1)"));
        }
    }

    /// Records that a message came back to a session as an error with this condition.
    pub fn refuse_abroad(&mut self, session: usize, number: usize, condition: &str) {
        let account = self.sessions[session].account;
        let owner = self.abroad.outgoing.get(number).map(|message| self.sessions[message.session].account);
        if owner != Some(account) {
            return self.break_rule(format!("session {session} got the error of message out{number}"));
        }
        // Other conditions are only allowed when the store fails.
        if !CAUSES.contains(&condition) && !self.store_failed {
            self.break_rule(format!("message out{number} came back with {condition:?} (RFC 6120 §8.3.3)"));
        }
        self.abroad.outgoing[number].is_refused = true;
    }

    /// Records that a session got a message from a user of another server.
    pub fn hear_home(&mut self, session: usize, from: &str, number: usize, is_live: bool) {
        let account = self.sessions[session].account;
        let sent = self.abroad.incoming.get(number).filter(|message| message.from == from);
        let Some((to, stream)) = sent.map(|message| (message.account, message.stream)) else {
            return self.break_rule(format!("session {session} got message in{number} from {from}"));
        };
        if to != account {
            self.break_rule(format!("account {account} got message in{number}, which is for u{to}"));
        }
        let is_new = self.abroad.incoming[number].heard.insert(session);
        let may_move = self.sessions.iter().any(|other| other.account == account && may_give_back(other));
        if !is_new && !may_move && self.deaths == 0 && !self.store_failed {
            self.break_rule(format!("session {session} got message in{number} twice"));
        }
        if !is_live {
            return;
        }
        let last = self.abroad.last_in.insert((session, from.to_owned(), stream), number);
        if last.is_some_and(|last| last > number) && !may_move {
            self.break_rule(format!("session {session} got message in{number} behind {last:?} (RFC 6120 §10.1)"));
        }
    }

    /// Records that a message from a user of another server came back to that user.
    pub fn refuse_home(&mut self, number: usize) {
        match self.abroad.incoming.get_mut(number) {
            Some(message) => message.is_refused = true,
            None => self.break_rule(format!("the error of message in{number} arrived, which nobody has sent")),
        }
    }

    /// Checks at rest that no message was lost without an error.
    pub fn check_abroad(&mut self) {
        if self.store_failed {
            return;
        }
        if let Some(number) = self.abroad.find_double().filter(|_| self.deaths == 0) {
            return self.break_rule(format!("message out{number} arrived and came back as well (RFC 6120 §8.3.1)"));
        }
        let is_sure = |message: &OutgoingMessage| !self.sessions[message.session].was_cut && !message.is_doubtful;
        let is_lost = |message: &OutgoingMessage| {
            message.heard_on.is_none() && !message.is_refused && message.deaths == self.deaths
        };
        let lost = self.abroad.outgoing.iter().position(|message| is_sure(message) && is_lost(message));
        if let Some(number) = lost {
            return self.break_rule(format!("message out{number} has neither arrived nor come back (RFC 6120 §10.4)"));
        }
        let is_there = |message: &IncomingMessage| {
            let mut sessions = self.sessions.iter().filter(|session| session.account == message.account);
            !message.heard.is_empty() || message.is_refused || sessions.any(|session| session.is_leaky)
        };
        let is_owed = |message: &IncomingMessage| {
            let is_certain = !message.is_doubtful && message.deaths == self.deaths;
            is_certain && !self.removed.contains(&message.account) && !is_there(message)
        };
        if let Some(number) = self.abroad.incoming.iter().position(is_owed) {
            self.break_rule(format!("message in{number} has reached nobody and did not come back (RFC 6121 §8)"));
        }
    }
}

/// Returns whether messages for a session may have gone to another session instead.
fn may_give_back(session: &BookedSession) -> bool {
    session.was_cut || session.was_unavailable
}

/// The conditions with reasons why a stanza can't leave: the peer is away or does not answer, there
/// is no such domain, or too much waits for it (RFC 6120 §8.3.3); or a guest has gone (RFC 6121
/// §8.5.1).
const CAUSES: [&str; 4] =
    ["remote-server-timeout", "remote-server-not-found", "resource-constraint", "service-unavailable"];
