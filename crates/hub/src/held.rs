//! Stanzas that wait for an account.

use std::collections::VecDeque;

use rookery_fanout::Packet;
use rookery_jid::{Jid, JidRef};

use crate::custody::Custody;
use crate::passage::Notes;
use crate::share::{Bounds, Share};

/// A claim that stanzas for an account have to wait. It must be given back to `World::release`.
#[derive(Debug)]
#[must_use]
pub struct Hold {
    pub(crate) account: Jid,
    /// The number of the line in which stanzas wait; `None` for an account without a session.
    pub(crate) serial: Option<u32>,
}

/// The claim of code that loads an account's documents. It must be given back to
/// `World::end_loading`.
#[derive(Debug)]
#[must_use]
pub(crate) struct Loading(pub(crate) Hold);

/// The stanzas that wait for an account.
#[derive(Debug)]
pub(crate) struct HeldStanzas {
    pub(crate) serial: u32,
    pub(crate) holders: u32,
    pub(crate) share: Share,
    pub(crate) queue: VecDeque<HeldStanza>,
}

/// A stanza that waits.
#[derive(Debug)]
pub(crate) struct HeldStanza {
    pub(crate) packet: Packet,
    pub(crate) to: Jid,
    pub(crate) notes: Notes,
    pub(crate) custody: Option<Custody>,
}

impl HeldStanzas {
    /// Takes a stanza into the queue. Returns `false` if the queue is full, or its sender's share
    /// of it.
    pub(crate) fn keep(&mut self, packet: &Packet, to: JidRef<'_>, notes: &Notes, custody: Option<Custody>) -> bool {
        if !self.share.take(packet) {
            return false;
        }
        self.queue.push_back(HeldStanza { packet: packet.clone(), to: to.to_jid(), notes: notes.clone(), custody });
        true
    }
}

/// The stanzas that may wait for one account. A quarter of them is more than the presence of the
/// largest room, which comes at once.
pub(crate) const HELD: Bounds = Bounds { number: 65_536, bytes: 16 << 20 };

const _: () =
    assert!(HELD.bytes / 4 > rookery_xml::Limits::AFTER_LOGIN.bytes, "a sender's share has room for a stanza");
