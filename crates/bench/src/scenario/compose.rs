//! The messages that loads send: with the size [`chat::BYTES`], and with a mark in the text.

use std::io::Write;
use std::sync::Arc;

use super::ScenarioRun;
use super::server::RESOURCE;
use crate::chat;
use crate::engine::{LoadCount, LoadCounters, Mark};

/// Writes the messages of one thread, and counts them.
#[derive(Debug, Clone)]
pub struct Composer {
    run: u32,
    domain: String,
    counters: Arc<LoadCounters>,
}

impl Composer {
    /// Makes a composer for that thread.
    pub fn new(run: &ScenarioRun<'_>, thread: usize) -> Composer {
        let counters = run.crew.counters().get(thread).cloned().unwrap_or_default();
        Composer { run: run.number, domain: run.server.domain(), counters }
    }

    /// Returns the counters of the thread.
    pub fn counters(&self) -> &Arc<LoadCounters> {
        &self.counters
    }

    /// Returns the mark of a stanza.
    pub fn mark(&self, sender: usize, sequence: u32, intended: u64) -> Mark {
        Mark { run: self.run, sender: sender as u32, sequence, intended }
    }

    /// Appends a chat message from one client to another, which is expected to arrive once.
    pub fn chat(&self, to: usize, mark: Mark, out: &mut Vec<u8>) {
        let start = out.len();
        // Writing to a vector does not fail.
        let _ = write!(out, "<message to='{}@{}/{RESOURCE}' type='chat' id='", chat::local(to), self.domain);
        let _ = write!(out, "{:x}-{:x}'><body>", mark.sender, mark.sequence);
        mark.write(out);
        pad(start, TAIL.len(), out);
        out.extend_from_slice(TAIL.as_bytes());
        self.counters.add(LoadCount::Sent, 1);
        self.counters.add(LoadCount::Expected, 1);
    }

    /// Appends a message with that start tag, which is expected to arrive `copies` times.
    pub fn message(&self, start_tag: &str, mark: Mark, copies: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(start_tag.as_bytes());
        out.extend_from_slice(b"<body>");
        mark.write(out);
        pad(start, SHORT_TAIL.len(), out);
        out.extend_from_slice(SHORT_TAIL.as_bytes());
        self.counters.add(LoadCount::Sent, 1);
        self.counters.add(LoadCount::Expected, copies);
    }
}

impl Composer {
    /// Appends a presence that is expected at `copies` contacts.
    pub fn presence(&self, show: &str, mark: Mark, copies: u64, out: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        let _ = write!(out, "<presence><show>{show}</show><status>");
        mark.write(out);
        out.extend_from_slice(PRESENCE_TAIL.as_bytes());
        self.counters.add(LoadCount::Sent, 1);
        self.counters.add(LoadCount::Expected, copies);
    }
}

/// Fills a message up to the common size.
fn pad(start: usize, tail: usize, out: &mut Vec<u8>) {
    let missing = (start + chat::BYTES).saturating_sub(out.len() + tail);
    out.resize(out.len() + missing, b'x');
}

const TAIL: &str =
    "</body><active xmlns='http://jabber.org/protocol/chatstates'/><request xmlns='urn:xmpp:receipts'/></message>";
const SHORT_TAIL: &str = "</body></message>";
const PRESENCE_TAIL: &str = "</status><priority>5</priority>\
    <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='https://client.example' ver='QgayPKawpkPSDYmwbVO6khIbUKE='/>\
    </presence>";
