//! Requests, and the replies to them.

use rookery_jid::Jid;
use rookery_xml::{Element, Stanza, Writer};

use crate::session::SessionRef;

/// An IQ of type get or set, with its one payload element.
#[derive(Debug, Clone)]
pub struct Iq {
    /// The sender: the full JID of a session, or any other address if the request was routed here.
    pub from: Jid,
    /// The addressee: a domain of this server or a bare JID.
    pub to: Jid,
    /// The `id`, unescaped, which the reply repeats (RFC 6120 §8.2.3).
    pub id: String,
    /// True if its type is `set`.
    pub set: bool,
    /// The first child element of the request; any further ones are ignored.
    pub payload: Element,
    /// The session that asks, if it is on this shard. Its backlog can be held.
    pub origin: Option<SessionRef>,
    /// The bytes of the stanza that contained the request; while the request waits, it takes at
    /// least as much memory.
    pub bytes: usize,
}

impl Iq {
    /// Reads a request. `None` if it has no payload or no id.
    pub fn read(stanza: Stanza<'_>, from: Jid, to: Jid, origin: Option<SessionRef>) -> Option<Self> {
        let payload = stanza.children().next()?.element();
        let id = stanza.id()?.into_owned();
        let set = stanza.raw_type().is_some_and(|raw| raw.bytes == b"set");
        Some(Self { from, to, id, set, payload, origin, bytes: stanza.bytes().len() })
    }

    /// Returns whether an account asks about itself.
    pub fn is_own(&self) -> bool {
        self.from.bare() == self.to.as_ref()
    }

    /// Returns the beginning of a result, to which the caller adds the payload.
    pub fn result(&self) -> Writer {
        self.reply("result")
    }

    pub(crate) fn reply(&self, type_: &str) -> Writer {
        let mut reply = Writer::new("iq");
        reply.attr("type", type_).attr("id", &self.id).attr("from", self.to.as_str());
        reply
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was carried out: the payload of the result, if there is any.
    Result(Option<Element>),
    /// It was refused: the condition's name, and whether the same request may succeed later (type
    /// `wait`).
    Error {
        /// The defined condition (RFC 6120 §8.3.3).
        condition: String,
        /// The error's type is `wait`.
        wait: bool,
    },
    /// No reply came within the time that a request may take.
    Nothing,
}
