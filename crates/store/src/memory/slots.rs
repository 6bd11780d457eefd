//! Upload slots in memory.

use std::cmp::Reverse;

use rookery_jid::JidRef;

use super::Memory;
use crate::pending::ready;
use crate::slots::Taken;
use crate::{Pending, Reserved, Slot, SlotQuota, SlotStage, Slots, StoreError};

impl Slots for Memory {
    fn reserve(&self, slot: Slot, quota: SlotQuota) -> Pending<Reserved> {
        let mut world = self.world();
        if world.account(slot.owner.as_ref()).is_none() {
            return ready(Err(StoreError::NoAccount));
        }
        let own = world.slots.values().filter(|kept| kept.owner == slot.owner);
        let taken = |kept: &Slot| Taken {
            size: kept.size,
            expires_ms: kept.expires_ms,
            is_waiting: kept.stage == SlotStage::Reserved,
        };
        let mut taken: Vec<Taken> = own.map(taken).collect();
        taken.sort_by_key(|taken| taken.expires_ms);
        ready(Ok(match quota.fits_from(slot.size, &taken) {
            Some(0) => {
                world.slots.insert(slot.token.clone(), slot);
                Reserved::Done
            }
            again_ms => Reserved::Full { again_ms },
        }))
    }

    fn slot(&self, token: &str, now_ms: u64) -> Pending<Option<Slot>> {
        ready(Ok(self.world().slots.get(token).filter(|slot| slot.expires_ms > now_ms).cloned()))
    }

    fn files_of(&self, owner: JidRef<'_>, now_ms: u64, limit: usize) -> Pending<Vec<Slot>> {
        let world = self.world();
        let is_wanted = |slot: &&Slot| {
            slot.owner.as_ref() == owner.bare() && slot.expires_ms > now_ms && slot.stage == SlotStage::Filled
        };
        let mut found: Vec<_> = world.slots.values().filter(is_wanted).cloned().collect();
        found.sort_by_key(|slot| Reverse(slot.expires_ms));
        found.truncate(limit);
        ready(Ok(found))
    }

    fn advance(&self, token: &str, from: SlotStage, to: SlotStage, now_ms: u64, until_ms: u64) -> Pending<bool> {
        let mut world = self.world();
        let slot = world.slots.get_mut(token).filter(|slot| slot.stage == from && slot.expires_ms > now_ms);
        let Some(slot) = slot else { return ready(Ok(false)) };
        (slot.stage, slot.expires_ms) = (to, until_ms);
        ready(Ok(true))
    }

    fn list_expired(&self, now_ms: u64, limit: usize) -> Pending<Vec<String>> {
        let world = self.world();
        let mut expired: Vec<_> = world.slots.values().filter(|slot| slot.expires_ms <= now_ms).collect();
        expired.sort_by_key(|slot| slot.expires_ms);
        ready(Ok(expired.into_iter().take(limit).map(|slot| slot.token.clone()).collect()))
    }

    fn forget(&self, token: &str) -> Pending<()> {
        self.world().slots.remove(token);
        ready(Ok(()))
    }
}
