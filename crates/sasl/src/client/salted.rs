//! The client's keys, which are slow to derive, and a cache of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::Hash;
use crate::credentials::{CLIENT_KEY, SERVER_KEY};
use rookery_base::lock::lock;

/// The keys that RFC 5802 §3 derives from the salted password.
pub(super) struct ClientKeys {
    client_key: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl ClientKeys {
    /// Derives the keys, which costs one PBKDF2.
    pub(super) fn derive(hash: Hash, prepared: &str, salt: &[u8], iterations: u32) -> Arc<ClientKeys> {
        let salted = hash.salted_password(prepared, salt, iterations);
        let client_key = hash.hmac(&salted, &[CLIENT_KEY]);
        let stored_key = hash.digest(&client_key);
        Arc::new(ClientKeys { client_key, stored_key, server_key: hash.hmac(&salted, &[SERVER_KEY]) })
    }

    /// Returns the client's proof and the server's signature over the same message.
    pub(super) fn sign(&self, hash: Hash, signed: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut proof = hash.hmac(&self.stored_key, &[signed]);
        for (byte, key) in proof.iter_mut().zip(&self.client_key) {
            *byte ^= key;
        }
        (proof, hash.hmac(&self.server_key, &[signed]))
    }
}

/// A cache of the keys derived from passwords, shared by all logins of a process (RFC 5802 §5.1
/// suggests it).
///
/// Without it a load generator spends its CPU on PBKDF2 and measures itself. It holds passwords in
/// memory and forgets nothing; drop it to empty it.
#[derive(Default)]
pub struct SaltedPasswords {
    entries: Mutex<BTreeMap<SaltedInput, Arc<ClientKeys>>>,
}

/// All inputs of PBKDF2.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SaltedInput {
    hash: Hash,
    iterations: u32,
    salt: Vec<u8>,
    password: String,
}

impl SaltedPasswords {
    /// Returns an empty cache.
    pub fn new() -> SaltedPasswords {
        SaltedPasswords::default()
    }

    /// Returns the number of derivations that are kept.
    pub fn len(&self) -> usize {
        lock(&self.entries).len()
    }

    /// Returns whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the cached keys, or those that `derive` makes. The lock is not held meanwhile: two
    /// threads that miss at once both derive.
    pub(super) fn keys_or(
        &self,
        hash: Hash,
        password: &str,
        salt: &[u8],
        iterations: u32,
        derive: impl FnOnce() -> Arc<ClientKeys>,
    ) -> Arc<ClientKeys> {
        let input = SaltedInput { hash, iterations, salt: salt.to_vec(), password: password.to_owned() };
        if let Some(keys) = lock(&self.entries).get(&input) {
            return keys.clone();
        }
        let keys = derive();
        lock(&self.entries).insert(input, keys.clone());
        keys
    }
}

impl fmt::Debug for SaltedPasswords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaltedPasswords").field("len", &self.len()).finish()
    }
}
