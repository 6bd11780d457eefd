//! What modules see of the stanzas that pass: on the way out of a session, and at the home of the account that they are for.
//!
//! A filter names the [`Stanzas`] that it wants. The tables are indexed by kind and type, so that a stanza which nobody wants costs a look
//! at one bit: a room's message for a thousand occupants passes filters that keep to chats as if there were none.
//!
//! Invariants:
//! * The filters of one passage run in the order of their phases. Each sees the stanza as the one before left it, and the last form is the
//!   one that goes on.
//! * A stanza passes the filters of a delivery once. One that comes back, since the session that it was given to ended before it was sent,
//!   has passed already.

use std::borrow::Cow;

use rookery_fanout::{Packet, StanzaType};
use rookery_jid::JidRef;
use rookery_xml::Kind;

use crate::World;
use crate::module::{Hook, insert};

/// What a filter makes of a stanza.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// It goes on as it is.
    Pass,
    /// The module has dealt with it: nobody else sees it.
    Taken,
    /// It goes on in this form, of the same kind and type.
    As(Packet),
}

/// Sees a stanza with the address that it goes to.
pub type Passage = Box<dyn Fn(&mut World, &Packet, JidRef<'_>) -> Delivery>;

/// A set of stanzas, by kind and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stanzas(u32);

impl Stanzas {
    /// Messages of every type.
    pub const MESSAGES: Self = Self::of(Kind::Message, &MESSAGE_TYPES);
    /// Presence of every type.
    pub const PRESENCE: Self = Self::of(Kind::Presence, &PRESENCE_TYPES);
    /// IQs of every type.
    pub const IQS: Self = Self::of(Kind::Iq, &IQ_TYPES);
    /// All of them.
    pub const ALL: Self = Self::MESSAGES.and(Self::PRESENCE).and(Self::IQS);

    /// Stanzas of one kind that have one of these types.
    pub const fn of(kind: Kind, types: &[StanzaType]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < types.len() {
            set |= 1 << slot(kind, types[at]);
            at += 1;
        }
        Self(set)
    }

    /// Those of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a stanza is one of them.
    pub fn has(self, packet: &Packet) -> bool {
        self.has_slot(slot(packet.kind(), packet.type_()))
    }

    fn has_slot(self, slot: usize) -> bool {
        self.0 & 1 << slot != 0
    }
}

/// A filter with what it wants to see.
pub(crate) struct Wish {
    pub(crate) stanzas: Stanzas,
    /// Only those of accounts that have this document at hand.
    pub(crate) document: Option<&'static str>,
    pub(crate) call: Passage,
}

/// The filters of one passage.
#[derive(Default)]
pub(crate) struct Passages {
    /// What any of them wants of every account.
    wanted: Stanzas,
    /// What any of them wants of accounts that have a document.
    wanted_with_documents: Stanzas,
    hooks: Vec<Hook<Wish>>,
}

impl Passages {
    pub(crate) fn add(&mut self, hook: Hook<Wish>) {
        let wanted = if hook.call.document.is_some() { &mut self.wanted_with_documents } else { &mut self.wanted };
        *wanted = wanted.and(hook.call.stanzas);
        insert(&mut self.hooks, hook);
    }

    /// Whether anybody wants to see this stanza of an account; `has_documents` tells whether the account has any at hand.
    pub(crate) fn want(&self, packet: &Packet, has_documents: impl FnOnce() -> bool) -> bool {
        let slot = slot(packet.kind(), packet.type_());
        self.wanted.has_slot(slot) || self.wanted_with_documents.has_slot(slot) && has_documents()
    }

    /// The stanza as the filters that are on in the domain of `account` leave it; `None` if one has taken it.
    pub(crate) fn pass<'p>(
        &self,
        world: &mut World,
        packet: &'p Packet,
        to: JidRef<'_>,
        account: JidRef<'_>,
    ) -> Option<Cow<'p, Packet>> {
        let slot = slot(packet.kind(), packet.type_());
        let mut passing = Cow::Borrowed(packet);
        for Hook { module, call: wish, .. } in &self.hooks {
            let on = wish.stanzas.has_slot(slot)
                && world.domain(account.domain()).is_some_and(|domain| domain.module(module).is_some())
                && wish.document.is_none_or(|document| world.has_document(account, document));
            if !on {
                continue;
            }
            match (wish.call)(world, &passing, to) {
                Delivery::Pass => {}
                Delivery::Taken => return None,
                Delivery::As(packet) => passing = Cow::Owned(packet),
            }
        }
        Some(passing)
    }
}

/// The place of a kind and type in a set. Errors are the one type that all kinds have.
const fn slot(kind: Kind, type_: StanzaType) -> usize {
    match (type_, kind) {
        (StanzaType::Error, Kind::Presence) => 30,
        (StanzaType::Error, Kind::Iq) => 31,
        _ => type_ as usize,
    }
}

const MESSAGE_TYPES: [StanzaType; 5] =
    [StanzaType::Normal, StanzaType::Chat, StanzaType::Groupchat, StanzaType::Headline, StanzaType::Error];

const PRESENCE_TYPES: [StanzaType; 8] = [
    StanzaType::Available,
    StanzaType::Unavailable,
    StanzaType::Subscribe,
    StanzaType::Subscribed,
    StanzaType::Unsubscribe,
    StanzaType::Unsubscribed,
    StanzaType::Probe,
    StanzaType::Error,
];

const IQ_TYPES: [StanzaType; 4] = [StanzaType::Get, StanzaType::Set, StanzaType::Result, StanzaType::Error];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_type_has_a_place_of_its_own() {
        let sets = [Stanzas::MESSAGES, Stanzas::PRESENCE, Stanzas::IQS];
        let counts: Vec<_> = sets.iter().map(|set| set.0.count_ones()).collect();
        assert_eq!(counts, [5, 8, 4]);
        assert_eq!(Stanzas::ALL.0.count_ones(), 17, "no two share a place");
    }
}
