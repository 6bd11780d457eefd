//! Invitations in memory.

use super::Memory;
use crate::invitations::GRACE_MS;
use crate::pending::ready;
use crate::{Invitation, Invitations, Pending, Purpose, StoreError};
use rookery_jid::JidRef;

impl Invitations for Memory {
    fn put(&self, invitation: Invitation, now_ms: u64, limit: usize) -> Pending<bool> {
        let mut world = self.world();
        world.invitations.retain(|_, kept| kept.expires_ms > now_ms.saturating_sub(GRACE_MS));
        if let Some(owner) = &invitation.owner {
            if world.account(owner.as_ref()).is_none() {
                return ready(Err(StoreError::NoAccount));
            }
            let is_open = |kept: &&Invitation| kept.owner.as_ref() == Some(owner) && kept.expires_ms > now_ms;
            if world.invitations.values().filter(is_open).count() >= limit {
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

    fn open(&self, domain: &str, now_ms: u64, limit: usize) -> Pending<Vec<Invitation>> {
        let world = self.world();
        let open = world.invitations.values().filter(|kept| kept.domain == domain && kept.expires_ms > now_ms);
        let mut open: Vec<_> = open.cloned().collect();
        open.sort_by_key(|kept| kept.expires_ms);
        open.truncate(limit);
        ready(Ok(open))
    }

    fn is_reserved(&self, account: JidRef<'_>, now_ms: u64) -> Pending<bool> {
        let is_for = |kept: &Invitation| match &kept.purpose {
            Purpose::Account(Some(name)) => kept.domain == account.domain() && account.local() == Some(name),
            _ => false,
        };
        ready(Ok(self.world().invitations.values().any(|kept| kept.expires_ms > now_ms && is_for(kept))))
    }
}
