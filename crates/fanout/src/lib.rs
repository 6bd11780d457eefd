//! The fan-out engine: a packet, an audience and a stamp rule become one copy per next hop.
//!
//! All data that leaves this server towards a session passes through here, whether it has one
//! recipient or a hundred thousand, so that limits, counters and coalescing exist once.
//!
//! # Layout
//!
//! * [`packet`]: a stanza in canonical form, built once and shared by every outbox that holds it.
//! * [`audience`]: the recipients of a packet, grouped by the shard that owns them.
//! * [`view`]: the homes of accounts: shards of nodes.
//! * [`multicast`]: XEP-0033: the header, the forms of a stanza that has one, and the recipients
//!   of each.
//! * [`link`]: the index of a session within its shard, and lists with a place for each.
//! * [`outbox`]: the bounded queue of one session; the only way to its connection.
//! * `wire`: packets and audiences between shards.
//!
//! # Invariants
//!
//! * A [`Packet`] is made from a scanned stanza or from the escaping writer, never from loose
//!   bytes: output is well-formed because nothing else can be expressed.
//! * A copy for one more recipient is a reference count and a queue entry. Nothing is formatted per
//!   recipient; the `to` attribute is spliced in from the session's address when the outbox is
//!   rendered.
//! * An outbox never grows beyond its hard limit; refused packets are handed back, not lost.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod audience;
pub mod link;
pub mod multicast;
pub mod outbox;
pub mod packet;
pub mod view;
mod wire;

pub use audience::{Addresses, Audience};
pub use link::{Link, LinkPlaces};
pub use outbox::carried::{Carried, CarriedStanza};
pub use outbox::changes::{CopiedStanzas, OutboxDelta};
pub use outbox::framing::begin_message;
pub use outbox::managed::TooHigh;
pub use outbox::{Asking, Attention, OutboxLimits, Outboxes, PushOutcome, To, UnackedBounds, Unsent};
pub use packet::{Packet, StanzaType};
pub use view::{Member, Station, View};
