//! Versions of the letters that nodes send each other.
//!
//! Nodes of different versions are one cluster while it is upgraded. Each says in its row of the
//! database which letters it understands ([`LETTERS`]), and gets no others:
//!
//! * 1: the letters of 0.2.0, which states no version.
//! * 2: the mark of stanzas that may have come before ([`Packet::again`]), without which 0.2.0
//!   would drop the stanza with it; what nodes tell each other about limits and about removed
//!   accounts; and clients that have begun their streams again after the login.
//!
//! [`Packet::again`]: rookery_fanout::Packet::again

/// The version of the letters that this process understands: those up to it, from
/// [`OLDEST_LETTERS`] on.
pub const LETTERS: u16 = 2;
/// The oldest version of letters that this process understands.
pub const OLDEST_LETTERS: u16 = 1;
/// The version with the mark of stanzas that may have come before.
pub(crate) const MARKS_AGAIN: u16 = 2;
/// The version with clients that have begun their streams again after the login.
pub const BEGUN_AGAIN: u16 = 2;
