//! Other servers, as a world knows them.

use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_jid::Jid;

use crate::custody::Custody;

/// Streams to other servers.
pub trait Federation {
    /// Sends a stanza to the domain of its address. The sender's domain is that of the packet's
    /// `from`.
    fn send(&mut self, stanza: Outgoing);
    /// Takes a stanza that has come in at another node, in the custody of that stanza. It may be
    /// the reply to a request of these streams; if it isn't, they hand it to
    /// [`World::let_in`](crate::World::let_in) later. Returns `false` if these streams have no open
    /// requests and don't want it.
    fn arrive(&mut self, packet: &Packet, to: &Jid, custody: Option<Custody>) -> bool;
}

/// A multicast service of another server (XEP-0033 §2), and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteService {
    /// Its address.
    pub jid: Jid,
    /// Recipients of one message.
    pub messages: usize,
    /// Recipients of one presence.
    pub presences: usize,
}
