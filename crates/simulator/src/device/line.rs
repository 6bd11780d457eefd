//! A device's connection to its server: a socket that carries a stream, or BOSH requests (XEP-0124,
//! XEP-0206), which may be repeated when their connections break.

use std::collections::VecDeque;
use std::sync::Arc;

use rookery_testkit::Server;
use rookery_testkit::bosh::BoshPending;
use rookery_testkit::wire::{Item, Wire};
use rookery_xml::header::Header;
use rookery_xml::{Element, ns};

use super::DOMAIN;

/// A connection to the server.
pub(super) enum DeviceLine {
    /// A connection, over TCP or a WebSocket.
    Wire(Box<Wire>),
    /// BOSH requests.
    Bosh(Box<BoshRequests>),
}

/// The client's side of a BOSH session.
pub(super) struct BoshRequests {
    server: Server,
    sid: String,
    rid: u64,
    /// The documents whose responses have not been read, oldest first.
    open: VecDeque<(String, BoshPending)>,
    /// Stanzas that wait for the next request.
    waiting: String,
    items: VecDeque<Item>,
    said: Vec<u8>,
    is_over: bool,
}

impl DeviceLine {
    /// Returns a new BOSH session. `rid` is the number of its first request.
    pub(super) fn bosh(server: &Server, rid: u64) -> Self {
        Self::Bosh(Box::new(BoshRequests {
            server: server.clone(),
            sid: String::new(),
            rid,
            open: VecDeque::new(),
            waiting: String::new(),
            items: VecDeque::new(),
            said: Vec::new(),
            is_over: false,
        }))
    }

    /// Sends text.
    pub(super) fn send(&mut self, text: &str) {
        match self {
            Self::Wire(wire) => wire.send(text.as_bytes()),
            Self::Bosh(requests) => requests.send(text),
        }
    }

    /// Returns whether there is something to read, or an end to be noticed.
    pub(super) fn has_news(&self) -> bool {
        match self {
            Self::Wire(wire) => wire.peer.has_news(),
            Self::Bosh(requests) => requests.front().is_some() || self.is_at_end(),
        }
    }

    /// Reads up to `most` bytes, or one response. Returns whether there was anything.
    pub(super) fn receive(&mut self, most: usize) -> bool {
        match self {
            Self::Wire(wire) => {
                wire.appetite = most;
                wire.receive()
            }
            Self::Bosh(requests) => requests.receive(),
        }
    }

    /// Returns what was read since the last call.
    pub(super) fn take_said(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Wire(wire) => &mut wire.plain,
            Self::Bosh(requests) => &mut requests.said,
        })
    }

    /// Returns the oldest item that has not been taken yet.
    pub(super) fn take(&mut self) -> Option<Item> {
        match self {
            Self::Wire(wire) => wire.take(),
            Self::Bosh(requests) => requests.items.pop_front(),
        }
    }

    /// Returns whether the server has ended the connection, and everything is read.
    pub(super) fn is_at_end(&self) -> bool {
        match self {
            Self::Wire(wire) => wire.peer.is_at_end(),
            Self::Bosh(requests) => requests.is_over && requests.open.is_empty(),
        }
    }

    /// Repeats all requests without a response, since their connections broke (XEP-0124 §14.2).
    /// Returns false if this connection has no requests to repeat.
    pub(super) fn repeat(&mut self) -> bool {
        let Self::Bosh(requests) = self else { return false };
        let is_known = !requests.sid.is_empty() && !requests.is_over;
        if is_known {
            for (document, pending) in &mut requests.open {
                pending.vanish();
                *pending = requests.server.post(document);
            }
        }
        is_known
    }

    /// Resets the connection, so that the server notices.
    pub(super) fn reset(&self) {
        match self {
            Self::Wire(wire) => wire.peer.reset(),
            Self::Bosh(requests) => requests.vanish(),
        }
    }

    /// Ends the client's direction.
    pub(super) fn shut_down(&self) {
        match self {
            Self::Wire(wire) => wire.peer.shutdown(),
            Self::Bosh(requests) => requests.vanish(),
        }
    }

    /// Sets how many bytes may be on their way to the client, and how many the server moves at
    /// once.
    pub(super) fn set_width(&self, window: usize, most: usize) {
        if let Self::Wire(wire) = self {
            wire.peer.set_window(window);
            wire.peer.set_most(most);
        }
    }
}

impl BoshRequests {
    fn send(&mut self, text: &str) {
        if text == "</stream:stream>" {
            self.post("type='terminate'");
        } else if !text.starts_with("<?xml") {
            self.waiting.push_str(text);
            self.flush();
        } else if self.sid.is_empty() {
            self.post(&format!("to='{DOMAIN}' hold='1' wait='60' ver='1.6' {VERSION}"));
        } else {
            self.post(&format!("to='{DOMAIN}' xmpp:restart='true' {VERSION}"));
        }
    }

    /// Sends the stanzas that wait, and keeps one request at the server for its output.
    fn flush(&mut self) {
        let is_known = !self.sid.is_empty() && !self.is_over;
        if is_known && (self.open.is_empty() || !self.waiting.is_empty() && self.open.len() < MOST_OPEN) {
            self.post("");
        }
    }

    fn post(&mut self, attributes: &str) {
        let sid = if self.sid.is_empty() { String::new() } else { format!(" sid='{}'", self.sid) };
        let content = std::mem::take(&mut self.waiting);
        let rid = self.rid;
        let document = format!("<body rid='{rid}'{sid} {attributes} xmlns='{}'>{content}</body>", ns::HTTP_BIND);
        self.rid += 1;
        let pending = self.server.post(&document);
        self.open.push_back((document, pending));
    }

    fn receive(&mut self) -> bool {
        let Some(answer) = self.front() else { return false };
        self.open.pop_front();
        self.take_answer(&answer);
        self.flush();
        true
    }

    /// Returns the response to the oldest request, if it has arrived.
    fn front(&self) -> Option<Arc<[u8]>> {
        self.open.front().and_then(|(_, pending)| pending.arrived_document())
    }

    fn take_answer(&mut self, document: &[u8]) {
        self.said.extend_from_slice(document);
        let Ok(body) = Element::parse(document) else {
            self.is_over = true;
            return;
        };
        if let Some(sid) = body.attr("sid").filter(|_| self.sid.is_empty()) {
            self.sid = sid.to_owned();
        }
        for child in body.children() {
            if child.is("features", ns::STREAMS) {
                self.items.push_back(Item::Header(Header::default()));
            }
            self.items.push_back(Item::Element(child.clone()));
        }
        if body.attr("type") == Some("terminate") && !self.is_over {
            self.is_over = true;
            self.items.push_back(Item::End);
        }
    }

    fn vanish(&self) {
        self.open.iter().for_each(|(_, pending)| pending.vanish());
    }
}

/// The most requests in progress: one that the server holds, and one that carries stanzas.
const MOST_OPEN: usize = 2;
/// The version of XMPP (XEP-0206 §4).
const VERSION: &str = "xmpp:version='1.0' xmlns:xmpp='urn:xmpp:xbosh'";
