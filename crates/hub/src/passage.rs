//! The modules' view of passing stanzas: on the way out of a session, and at the home of the
//! account that they are for.
//!
//! A filter declares the stanzas that it wants ([`Wanted`]): by kind and type ([`Stanzas`]), by
//! namespace, by properties of the account, and by place. Everything that is known beforehand is in
//! bit sets, so that a stanza that no filter wants costs the check of a few words: a room's message
//! for a thousand occupants passes filters for forged elements as if there were none.
//!
//! Invariants:
//! * The filters of one passage run in the order of their phases. Each sees the stanza as the
//!   previous one left it, and the last form continues.
//! * A stanza passes the filters of a delivery once. A stanza that returns, because the session
//!   that got it ended before it was sent, has already passed them.

use std::ops::BitOr;

use rookery_fanout::{Packet, StanzaType};
use rookery_jid::JidRef;
use rookery_xml::{Kind, Namespaces};

use crate::module::{Hook, ModuleCall};
use crate::settings::{Domain, Options};

/// The stanza as a filter leaves it at its delivery.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// It continues unchanged.
    Pass,
    /// The module has handled it: nobody else sees it.
    Taken,
    /// It continues in this form, of the same kind and type.
    As(Packet),
}

/// A stanza on its way, as a filter finds it.
#[derive(Debug)]
pub struct Passage<'a> {
    /// The stanza, as the filters before left it.
    pub packet: &'a Packet,
    /// The address that it goes to.
    pub to: JidRef<'a>,
    /// The notes of earlier filters on it.
    pub notes: &'a mut Notes,
}

/// Keeps knowledge of a stanza on its way that isn't in its bytes. Notes travel with the stanza,
/// also while it waits.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// The time at which the stanza came, in milliseconds since 1970, if it comes back from a
    /// session that did not send it to its client.
    pub came_ms: Option<u64>,
    /// The id under which its sender's archive has the stanza (XEP-0313), on its way out.
    pub recorded: Option<Box<str>>,
    /// Set if the stanza may have come before and the archive of its account was asked for it: the
    /// id under which the archive has it, if it does.
    pub found: Option<FoundInArchive>,
    /// True if the guards against strangers have let its sender pass.
    pub is_cleared: bool,
    /// True if it has passed the filters of a delivery.
    pub(crate) has_passed: bool,
    /// True if it is one of many for its session, which gets them as fast as it reads: see
    /// [`World::bundle`](crate::World::bundle).
    pub(crate) is_bundled: bool,
}

/// The id under which an archive has a stanza, if it has.
pub type FoundInArchive = Option<Box<str>>;

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

    /// Returns the stanzas of one kind that have one of these types.
    pub const fn of(kind: Kind, types: &[StanzaType]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < types.len() {
            set |= 1 << slot(kind, types[at]);
            at += 1;
        }
        Self(set)
    }

    /// Returns the stanzas of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether a stanza is one of them.
    pub fn has(self, packet: &Packet) -> bool {
        self.has_slot(slot(packet.kind(), packet.type_()))
    }

    const fn has_slot(self, slot: usize) -> bool {
        self.0 & 1 << slot != 0
    }
}

/// The stanzas that a filter wants to see. Others cost it nothing.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub(crate) stanzas: Stanzas,
    /// Only stanzas that may name one of these.
    pub(crate) namespaces: Option<Namespaces>,
    /// Only those of accounts that have this document in memory.
    pub(crate) document: Option<&'static str>,
    /// Only those of accounts with a session that wants copies.
    pub(crate) carbons: bool,
    /// Only those whose senders are not known to be of this server.
    pub(crate) elsewhere: bool,
    /// Only where the module's options say so.
    pub(crate) applies: fn(&Options) -> bool,
}

impl From<Stanzas> for Wanted {
    fn from(stanzas: Stanzas) -> Self {
        Self { stanzas, namespaces: None, document: None, carbons: false, elsewhere: false, applies: |_| true }
    }
}

impl Wanted {
    /// Narrows this to stanzas that name any of these namespaces. Others may pass as well, where
    /// telling them apart would cost more.
    #[must_use]
    pub fn naming(self, namespaces: &[&str]) -> Self {
        Self { namespaces: Some(Namespaces::of(namespaces)), ..self }
    }

    /// Narrows this to stanzas of accounts that have this document in memory, see
    /// [`Hooks::document`](crate::Hooks::document).
    #[must_use]
    pub fn with_document(self, document: &'static str) -> Self {
        Self { document: Some(document), ..self }
    }

    /// Narrows this to stanzas of accounts that have a session which wants copies, see
    /// [`World::set_carbons`](crate::World::set_carbons).
    #[must_use]
    pub fn with_carbons(self) -> Self {
        Self { carbons: true, ..self }
    }

    /// Narrows this to stanzas that didn't come from a session of this server, see
    /// [`Packet::is_local`].
    #[must_use]
    pub fn from_elsewhere(self) -> Self {
        Self { elsewhere: true, ..self }
    }

    /// Narrows this to domains where the options of the module say so.
    #[must_use]
    pub fn where_options(self, applies: fn(&Options) -> bool) -> Self {
        Self { applies, ..self }
    }
}

/// The traits of an account that filters can ask for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traits {
    pub(crate) documents: bool,
    pub(crate) carbons: bool,
}

/// A filter with its wishes.
#[derive(Clone, Copy)]
pub(crate) struct PassageWish<F> {
    pub(crate) wanted: Wanted,
    pub(crate) call: F,
}

/// The filters of one passage, and sets of them: a bit each, by their places.
pub(crate) struct Passages<F> {
    pub(crate) hooks: Hook<PassageWish<F>>,
    /// By kind and type.
    by_slot: [u64; SLOTS],
    /// The filters that ask for documents, for copies, for namespaces, and for senders from
    /// elsewhere, in this order.
    pub(crate) with_document: u64,
    with_carbons: u64,
    naming: u64,
    from_elsewhere: u64,
    /// All namespaces that the filters ask for.
    pub(crate) namespaces: Namespaces,
}

impl<F> Default for Passages<F> {
    fn default() -> Self {
        Self {
            hooks: Hook::default(),
            by_slot: [0; SLOTS],
            with_document: 0,
            with_carbons: 0,
            naming: 0,
            from_elsewhere: 0,
            namespaces: Namespaces::default(),
        }
    }
}

impl<F: Copy> Passages<F> {
    /// Adds a filter.
    pub(crate) fn add(&mut self, wish: ModuleCall<PassageWish<F>>) {
        self.hooks.add(wish);
        assert!(self.hooks.len() <= u64::BITS as usize, "a passage has room for 64 filters");
        let hooks = &self.hooks;
        let set = |has: &dyn Fn(&Wanted) -> bool| {
            let with = hooks.all().enumerate().filter(|(_, hook)| has(&hook.call.wanted));
            with.fold(0, |set, (at, _)| set | 1 << at)
        };
        self.by_slot = std::array::from_fn(|slot| set(&|wanted| wanted.stanzas.has_slot(slot)));
        self.with_document = set(&|wanted| wanted.document.is_some());
        self.with_carbons = set(&|wanted| wanted.carbons);
        self.naming = set(&|wanted| wanted.namespaces.is_some());
        self.from_elsewhere = set(&|wanted| wanted.elsewhere);
        let named = hooks.all().filter_map(|hook| hook.call.wanted.namespaces);
        self.namespaces = named.fold(Namespaces::NONE, Namespaces::bitor);
    }

    /// Returns the filters that are on in a domain.
    pub(crate) fn on(&self, domain: &Domain) -> u64 {
        let is_on = |hook: ModuleCall<PassageWish<F>>| {
            domain.module(hook.module).is_some_and(|options| (hook.call.wanted.applies)(options))
        };
        self.hooks.all().enumerate().fold(0, |set, (at, hook)| set | u64::from(is_on(hook)) << at)
    }

    /// Returns whether any filter of the set `on` may want this stanza of an account.
    #[inline]
    pub(crate) fn want(&self, on: u64, packet: &Packet, traits: impl FnOnce() -> Traits) -> bool {
        let mut wanting = on & self.by_slot[slot(packet.kind(), packet.type_())];
        if wanting & self.naming != 0 && !packet.namespaces().may_have(self.namespaces) {
            wanting &= !self.naming;
        }
        wanting &= if packet.is_local() { !self.from_elsewhere } else { u64::MAX };
        if wanting & (self.with_document | self.with_carbons) != 0 {
            let traits = traits();
            wanting &= if traits.documents { u64::MAX } else { !self.with_document };
            wanting &= if traits.carbons { u64::MAX } else { !self.with_carbons };
        }
        wanting != 0
    }

    /// Returns the filters, of those that are `on`, that want stanzas like this one, as a set.
    pub(crate) fn wanting(&self, on: u64, packet: &Packet) -> u64 {
        on & self.by_slot[slot(packet.kind(), packet.type_())]
    }
}

/// Returns the place of a kind and type in a set. Errors of all kinds share one type.
const fn slot(kind: Kind, type_: StanzaType) -> usize {
    match (type_, kind) {
        (StanzaType::Error, Kind::Presence) => 30,
        (StanzaType::Error, Kind::Iq) => 31,
        _ => type_ as usize,
    }
}

/// Places in a set of stanzas.
const SLOTS: usize = 32;

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
