//! Remembers who has seen the presence of a component's users, so that they can be told when the
//! component disconnects (XEP-0114 doesn't mention this; by RFC 6121 §4.5.2, a user's server does
//! it).
//!
//! A component's users have no sessions here, so nobody else could send unavailable presence on
//! their behalf. The home shard of the component's name remembers who has sent available presence
//! to whom. When the last connection of the component is gone, accounts get unavailable presence,
//! and rooms an error, which tells their occupants why somebody has left (XEP-0045 §18.1).
//!
//! # Invariants
//!
//! * The memory that components can cause on a shard is bounded. What users beyond that bound have
//!   shown isn't taken back.
//! * If a component reconnects at once, its users aren't hidden after they have shown themselves
//!   again: newer presence supersedes the notification of the end.

use std::collections::BTreeSet;

use rookery_base::Map;
use rookery_fanout::{Packet, StanzaType};
use rookery_jid::{Jid, JidRef};
use rookery_observe::bound::{Bound, Most, Per, Unit};
use rookery_xml::Kind;

/// Senders that have shown themselves, each with a recipient.
type BridgedPairs = BTreeSet<(Jid, Jid)>;

/// The presence of components whose home a shard is.
#[derive(Debug, Default)]
pub(crate) struct Bridged {
    /// By the component.
    shown: Map<Box<str>, BridgedPairs>,
    /// Users of components that are gone, whose recipients have still to be told.
    farewells: BridgedPairs,
    /// The number of pairs of all components.
    number: usize,
}

impl Bridged {
    /// Remembers whether presence has made a component's user available to its recipient.
    pub(crate) fn note(&mut self, packet: &Packet, to: JidRef<'_>) {
        let is_shown = packet.type_() == StanzaType::Available;
        if packet.kind() != Kind::Presence || !(is_shown || packet.type_() == StanzaType::Unavailable) {
            return;
        }
        let Some(from) = packet.sender() else { return };
        let pair = (from, to.to_jid());
        self.number -= usize::from(self.farewells.remove(&pair));
        let component = Box::<str>::from(pair.0.domain());
        if !is_shown {
            let was_shown = self.shown.get_mut(&component).is_some_and(|shown| shown.remove(&pair));
            self.number -= usize::from(was_shown);
        } else if self.number < MOST_SHOWN {
            self.number += usize::from(self.shown.entry(component).or_default().insert(pair));
        }
    }

    /// Notes that a component is gone; `true` if no notifications about another are in progress.
    pub(crate) fn gone(&mut self, component: &str) -> bool {
        let was_idle = self.farewells.is_empty();
        self.farewells.append(&mut self.shown.remove(component).unwrap_or_default());
        was_idle && !self.farewells.is_empty()
    }

    /// Returns the next user who has to be notified, and about whom.
    pub(crate) fn next(&mut self) -> Option<(Jid, Jid)> {
        let pair = self.farewells.pop_first()?;
        self.number -= 1;
        Some(pair)
    }

    /// Returns whether somebody has still to be told.
    pub(crate) fn has_more(&self) -> bool {
        !self.farewells.is_empty()
    }
}

/// The most pairs, of a component's user and somebody who sees that user, that a shard remembers.
const MOST_SHOWN: usize = 100_000;
/// The bounds of this memory.
pub const BOUNDS: &[Bound] = &[Bound::on(
    "users of components that have shown their presence, each to one other",
    Per::Shard,
    Most::Fixed(MOST_SHOWN as u64),
    Unit::Number,
)
.or("the user who sees one more isn't told when the component disconnects")];
