//! The server's own few settings, such as the secret behind the salts of unknown accounts.

use crate::{Pending, StoreError};

/// Bytes under a name.
pub trait Meta: Send + Sync {
    /// The bytes under a key.
    fn get(&self, key: &str) -> Pending<Option<Vec<u8>>>;

    /// Puts bytes under a key, in place of those before.
    fn put(&self, key: &str, bytes: Vec<u8>) -> Pending<()>;

    /// Returns what has kept the store from writing lately, if nothing could be written since. It still reads then, as far as it can.
    fn trouble(&self) -> Option<StoreError> {
        None
    }
}
