//! Invitations in memory.

use super::Memory;
use crate::pending::ready;
use crate::{Invitation, Invitations, Pending, StoreError};

impl Invitations for Memory {
    fn put(&self, invitation: Invitation, now_ms: u64, limit: usize) -> Pending<bool> {
        let mut world = self.world();
        world.invitations.retain(|_, kept| kept.expires_ms > now_ms);
        if let Some(owner) = &invitation.owner {
            if world.account(owner.as_ref()).is_none() {
                return ready(Err(StoreError::NoAccount));
            }
            if world.invitations.values().filter(|kept| kept.owner.as_ref() == Some(owner)).count() >= limit {
                return ready(Ok(false));
            }
        }
        world.invitations.insert(invitation.token.clone(), invitation);
        ready(Ok(true))
    }

    fn get(&self, token: &str, now_ms: u64) -> Pending<Option<Invitation>> {
        ready(Ok(self.world().invitations.get(token).filter(|kept| kept.expires_ms > now_ms).cloned()))
    }

    fn take(&self, token: &str, now_ms: u64) -> Pending<Option<Invitation>> {
        ready(Ok(self.world().invitations.remove(token).filter(|kept| kept.expires_ms > now_ms)))
    }
}
