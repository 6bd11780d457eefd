//! Other servers, as a world knows them.

use rookery_fanout::multicast::Outgoing;
use rookery_jid::Jid;

/// Streams to other servers.
pub trait Federation {
    /// Sends a stanza to the domain of its address. The sender's domain is that of the packet's
    /// `from`.
    fn send(&mut self, stanza: Outgoing);
}

/// A multicast service of another server (XEP-0033 §2), and what it takes at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteService {
    /// Its address.
    pub jid: Jid,
    /// Recipients of one message.
    pub messages: usize,
    /// Recipients of one presence.
    pub presences: usize,
}
