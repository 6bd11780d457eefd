//! The places of all sessions of BOSH (XEP-0124), by their ids: requests come in anywhere.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_fanout::Link;

/// The places of the sessions: looked up once for each request.
#[derive(Debug, Default)]
pub(crate) struct Sids(Mutex<HashMap<u128, SidPlace>>);

/// The place of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SidPlace {
    /// The shard.
    pub shard: usize,
    /// `None` while it is on its way there: then it is in the shard's mailbox, ahead of any
    /// question about it.
    pub link: Option<Link>,
}

impl Sids {
    pub fn find(&self, sid: u128) -> Option<SidPlace> {
        self.lock().get(&sid).copied()
    }

    pub fn place(&self, sid: u128, shard: usize, link: Link) {
        self.lock().insert(sid, SidPlace { shard, link: Some(link) });
    }

    /// Notes that a session is on its way to a shard. If it has arrived meanwhile, that is known
    /// already.
    pub fn moves(&self, sid: u128, shard: usize) {
        if let Some(place) = self.lock().get_mut(&sid)
            && place.shard != shard
        {
            *place = SidPlace { shard, link: None };
        }
    }

    pub fn forget(&self, sid: u128) {
        self.lock().remove(&sid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, SidPlace>> {
        lock(&self.0)
    }
}
