//! Errors of messages for senders whose home can't be reached.
//!
//! A message that was refused counts as handled only after its sender has been sent the error
//! ([`crate::custody`]). If letters for the sender's home are given up, because its node is away
//! and nobody takes over from it, the errors among them wait here and are sent again, each with its
//! share in custody. Without that, the node would come back and tell its client that the message
//! was taken.
//!
//! # Invariants
//!
//! * Only errors that somebody's custody waits for are kept, and only up to a bound. Others are
//!   dropped: nobody is told anything wrong then.

use rookery_fanout::{Packet, StanzaType};
use rookery_jid::Jid;
use rookery_xml::Kind;

use crate::World;

/// Returns whether a stanza is the error of a message.
pub(crate) fn is_of_message(packet: &Packet) -> bool {
    packet.kind() == Kind::Message && packet.type_() == StanzaType::Error
}

impl World {
    /// Sends an error again after a moment, since the home of its recipient can't be reached now.
    pub(crate) fn tell_later(&mut self, to: Jid, packet: Packet) {
        let Some(custody) = self.custody() else { return };
        let untold = &mut self.waiting.untold;
        let bytes = packet.bytes().len() + to.as_str().len() + OVERHEAD;
        if untold.bytes + bytes > MOST_BYTES {
            return;
        }
        untold.bytes += bytes;
        untold.waiting.push((to, packet, custody));
        if untold.waiting.len() == 1 {
            self.after(AGAIN_MS, Self::tell_again);
        }
    }

    fn tell_again(&mut self) {
        let untold = std::mem::take(&mut self.waiting.untold);
        for (to, packet, custody) in untold.waiting {
            self.in_custody(Some(custody), |world| world.route(&packet.again(), to.as_ref()));
        }
    }
}

/// Milliseconds until errors are sent again.
const AGAIN_MS: u64 = 1_000;
/// The most bytes of errors that wait on a shard.
const MOST_BYTES: usize = 4 << 20;
/// The bytes that an error takes in addition to its content.
const OVERHEAD: usize = 64;

/// The bound of errors that wait, for the page of limits.
pub(crate) const ERRORS_BOUND: rookery_observe::Bound = rookery_observe::Bound::on(
    "errors of messages for senders whose node is away",
    rookery_observe::Per::Shard,
    rookery_observe::Most::Fixed(MOST_BYTES as u64),
    rookery_observe::Unit::Bytes,
)
.or("further ones are dropped");
