//! The updates that monitors share: each is built once, however many clients get it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use crate::channel_access::encode::Details;
use crate::pv_access::bytes::PvaOutput;
use crate::pv_access::served::{ServedForm, ServedReading};
use crate::pv_access::serving::ORDER;

/// The parts of a variable that a client reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct UpdateKey {
    /// The request that the variable's name is.
    pub(super) variable: Arc<str>,
    pub(super) form: ServedForm,
    /// The selected bits.
    pub(super) selected: u64,
}

/// The things that all circuits of pvAccess share.
#[derive(Debug)]
pub struct SharedUpdates {
    /// The number of this server, by which clients tell it from others.
    server: [u8; 12],
    newest: Mutex<NewestUpdates>,
}

#[derive(Debug, Default)]
struct NewestUpdates {
    updates: HashMap<UpdateKey, (ServedReading, Arc<[u8]>), ahash::RandomState>,
    /// The bytes in `updates`, as values of messages.
    bytes: usize,
    /// The number of updates that were built.
    built: u64,
}

impl Default for SharedUpdates {
    fn default() -> Self {
        let mut server = [0; 12];
        // Clients take two servers of the same number for one, so it is random.
        let number = RandomState::new();
        server[..8].copy_from_slice(&number.hash_one(0u8).to_le_bytes());
        server[8..].copy_from_slice(&number.hash_one(1u8).to_le_bytes()[..4]);
        Self { server, newest: Mutex::default() }
    }
}

impl SharedUpdates {
    /// Returns the number of this server.
    pub(super) fn server(&self) -> [u8; 12] {
        self.server
    }

    /// Returns the number of updates that were built so far.
    pub fn builds(&self) -> u64 {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).built
    }

    /// Returns a reading as the value of a message: that of another circuit, if it got the same.
    pub(super) fn encode(&self, key: &UpdateKey, reading: &ServedReading, details: &Details) -> Arc<[u8]> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, update)) = newest.updates.get(key)
            && of == reading
        {
            return Arc::clone(update);
        }
        let mut out = PvaOutput::new(ORDER);
        key.form.encode(key.selected, reading, details, &mut out);
        let update: Arc<[u8]> = out.bytes.into();
        newest.built += 1;
        if newest.updates.len() >= MOST_SHARED || newest.bytes + update.len() > MOST_SHARED_BYTES {
            (newest.updates, newest.bytes) = (HashMap::default(), 0);
        }
        newest.bytes += update.len();
        if let Some((_, older)) = newest.updates.insert(key.clone(), (reading.clone(), Arc::clone(&update))) {
            newest.bytes -= older.len();
        }
        update
    }
}

/// The most updates that are kept for other circuits, and their bytes; if there are more, all are
/// forgotten.
const MOST_SHARED: usize = 20_000;
pub(crate) const MOST_SHARED_BYTES: usize = 16 << 20;
