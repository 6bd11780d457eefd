//! Passes stanzas through the filters of modules.

use std::borrow::Cow;

use rookery_fanout::Packet;
use rookery_jid::JidRef;

use crate::World;
use crate::calls::Filter;
use crate::module::{ModuleCall, Phase, Registry};
use crate::passage::{Delivery, Notes, Passage, PassageWish, Passages, Wanted};
use crate::trace::Step;

/// One of the passages of a registry.
pub(crate) type Which = fn(&Registry) -> &Passages<Filter>;

/// Stanzas that sessions send.
pub(crate) const ROUTE: Which = |registry| &registry.passing.before_route;
/// Stanzas that come for accounts.
pub(crate) const DELIVERY: Which = |registry| &registry.passing.before_delivery;
/// Stanzas that come for services.
pub(crate) const SERVICE: Which = |registry| &registry.passing.before_service;

impl World {
    /// Returns whether the guards that are `on` and use a document of the account let a stanza
    /// pass. A guard that doesn't has replied to the stanza.
    pub(crate) fn pass_guards(
        &mut self,
        which: Which,
        on: u64,
        packet: &Packet,
        to: JidRef<'_>,
        account: JidRef<'_>,
    ) -> bool {
        let passages = which(self.registry());
        let mut wanting = passages.wanting(on, packet) & passages.with_document;
        while wanting != 0 {
            let at = wanting.trailing_zeros() as usize;
            wanting &= wanting - 1;
            let Some(ModuleCall { phase: Phase::Guard, call: PassageWish { wanted, call }, module }) =
                which(self.registry()).hooks.get(at)
            else {
                continue;
            };
            let passage = Passage { packet, to, notes: &mut Notes::default() };
            if wanted.is_met(self, packet, account) && matches!(call(self, passage), Delivery::Taken) {
                self.sight(packet, to, Step::Stopped, || format!("by the module {module}"));
                return false;
            }
        }
        true
    }

    /// Returns the stanza of an account as the filters that are `on` leave it; `None` if one has
    /// taken it.
    pub(crate) fn pass<'p>(
        &mut self,
        which: Which,
        on: u64,
        packet: &'p Packet,
        to: JidRef<'_>,
        account: JidRef<'_>,
        notes: &mut Notes,
    ) -> Option<Cow<'p, Packet>> {
        let mut wanting = which(self.registry()).wanting(on, packet);
        let mut passing = Cow::Borrowed(packet);
        while wanting != 0 {
            let at = wanting.trailing_zeros() as usize;
            wanting &= wanting - 1;
            let Some(ModuleCall { call: PassageWish { wanted, call }, module, .. }) =
                which(self.registry()).hooks.get(at)
            else {
                break;
            };
            if !wanted.is_met(self, &passing, account) {
                continue;
            }
            match self.call_module(module, |world| call(world, Passage { packet: &passing, to, notes })) {
                Delivery::Pass => {}
                Delivery::Taken => {
                    let why = || format!("by the module {module}: it refused it, or handles it itself");
                    self.sight(&passing, to, Step::Stopped, why);
                    return None;
                }
                Delivery::As(packet) => {
                    self.sight(&passing, to, Step::Noted, || format!("the module {module} changes its form"));
                    passing = Cow::Owned(packet);
                }
            }
        }
        Some(passing)
    }
}

impl Wanted {
    fn is_met(&self, world: &World, packet: &Packet, account: JidRef<'_>) -> bool {
        !(self.elsewhere && packet.is_local())
            && self.namespaces.is_none_or(|namespaces| packet.namespaces().may_have(namespaces))
            && (!self.carbons || world.has_carbons(account))
            && self.document.is_none_or(|document| world.has_document(account, document))
    }
}
