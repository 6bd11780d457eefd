//! Simulates other servers: stanzas for them are recorded, and tests supply what they send.

use std::cell::RefCell;
use std::rc::Rc;

use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_hub::{Custody, Federation};
use rookery_jid::Jid;

/// A stanza that left for another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The shard that it left from: the home of the other domain.
    pub shard: usize,
    /// The address that it is for.
    pub to: String,
    /// The whole stanza.
    pub text: String,
}

/// The stanzas that all shards of a server have sent to others, oldest first.
pub(crate) type RemoteSent = Rc<RefCell<Vec<Left>>>;

/// The streams of one shard.
#[derive(Debug)]
pub(crate) struct RemoteStreams {
    pub shard: usize,
    pub sent: RemoteSent,
}

impl Federation for RemoteStreams {
    fn send(&mut self, stanza: Outgoing) {
        let text = String::from_utf8(stanza.to_vec()).expect("UTF-8");
        self.sent.borrow_mut().push(Left { shard: self.shard, to: stanza.to().as_str().to_owned(), text });
    }

    fn arrive(&mut self, _: &Packet, _: &Jid, _: Option<Custody>) -> bool {
        false
    }
}
