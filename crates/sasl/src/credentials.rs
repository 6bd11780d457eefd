//! Stored credentials of a password: StoredKey and ServerKey of RFC 5802 §3, once per hash.

use std::fmt;

use rookery_base::chance;
use subtle::ConstantTimeEq;

use crate::{Hash, prep};

/// Iterations of PBKDF2 for new passwords.
///
/// The *client* runs them at every first login, on the slowest phone there is; they protect a
/// stolen database. RFC 5802 §5.1 and RFC 7677 §4 ask for at least 4096. Old phones run 10 000
/// without a visible pause, and other servers use that number.
pub const DEFAULT_ITERATIONS: u32 = 10_000;

/// Length of a salt, in bytes.
pub const SALT_BYTES: usize = 16;

/// The keys of one password under one hash (RFC 5802 §3). A thief of them can pretend to be the
/// server, not to be the user.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The hash they belong to.
    pub hash: Hash,
    /// Salt, sent to the client in the challenge.
    pub salt: Vec<u8>,
    /// PBKDF2 iterations, sent to the client in the challenge.
    pub iterations: u32,
    /// `H(ClientKey)`: verifies the client's proof. `hash.size()` bytes.
    pub stored_key: Vec<u8>,
    /// The key of the server's signatures. `hash.size()` bytes.
    pub server_key: Vec<u8>,
}

impl Keys {
    /// Derives the keys of an already prepared password.
    pub(crate) fn of_prepared(hash: Hash, prepared: &str, salt: Vec<u8>, iterations: u32) -> Keys {
        let salted = hash.salted_password(prepared, &salt, iterations);
        let stored_key = hash.digest(&hash.hmac(&salted, &[CLIENT_KEY]));
        let server_key = hash.hmac(&salted, &[SERVER_KEY]);
        Keys { hash, salt, iterations, stored_key, server_key }
    }

    /// Makes keys that belong to no password: nobody can log in with this hash. To clients they
    /// look like real keys.
    ///
    /// # Errors
    /// [`CredentialsError::NoRandomness`]
    pub fn none(hash: Hash, iterations: u32) -> Result<Keys, CredentialsError> {
        let mut salt = vec![0; SALT_BYTES];
        chance::fill(&mut salt).map_err(|_| CredentialsError::NoRandomness)?;
        let zeros = || vec![0; hash.size()];
        Ok(Keys { hash, salt, iterations, stored_key: zeros(), server_key: zeros() })
    }

    /// Returns whether these are the keys of no password.
    pub fn is_none(&self) -> bool {
        self.stored_key.iter().all(|byte| *byte == 0)
    }

    /// Returns whether these are the keys of `password`, in constant time. Costs a whole PBKDF2:
    /// milliseconds.
    pub fn verify(&self, password: &str) -> bool {
        // A password that can't be prepared costs the same work, so that the answer takes as long.
        let prepared = prep::saslprep(password);
        let text = prepared.as_deref().unwrap_or_default();
        let derived = Keys::of_prepared(self.hash, text, self.salt.clone(), self.iterations);
        bool::from(derived.stored_key.ct_eq(&self.stored_key)) && prepared.is_some()
    }
}

impl fmt::Debug for Keys {
    /// Writes the parameters but no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("hash", &self.hash).field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// The stored form of one account's password: keys for every hash that the server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// For SCRAM-SHA-1.
    pub sha1: Keys,
    /// For SCRAM-SHA-256 and for PLAIN.
    pub sha256: Keys,
    /// For SCRAM-SHA-512.
    pub sha512: Keys,
}

impl Credentials {
    /// Derives the credentials of a new password with fresh random salts. Costs three PBKDF2: with
    /// [`DEFAULT_ITERATIONS`] about ten milliseconds of CPU, so never on a shard.
    ///
    /// # Errors
    ///
    /// [`CredentialsError::BadPassword`] if SASLprep refuses the password,
    /// [`CredentialsError::NoRandomness`] if the operating system provides no random bytes.
    pub fn derive(password: &str, iterations: u32) -> Result<Credentials, CredentialsError> {
        let mut salts = [[0; SALT_BYTES]; 3];
        for salt in &mut salts {
            chance::fill(salt).map_err(|_| CredentialsError::NoRandomness)?;
        }
        Credentials::derive_with(password, iterations, salts)
    }

    /// Derives credentials with given salts, for SHA-1, SHA-256 and SHA-512 in this order. Meant
    /// for bulk creation of test accounts that may share a salt, and for tests; anything else wants
    /// [`Credentials::derive`].
    ///
    /// # Errors
    ///
    /// [`CredentialsError::BadPassword`] if SASLprep refuses the password.
    pub fn derive_with(
        password: &str,
        iterations: u32,
        salts: [[u8; SALT_BYTES]; 3],
    ) -> Result<Credentials, CredentialsError> {
        let prepared = prep::saslprep(password).ok_or(CredentialsError::BadPassword)?;
        let [sha1, sha256, sha512] = salts;
        let keys = |hash, salt: [u8; SALT_BYTES]| Keys::of_prepared(hash, &prepared, salt.to_vec(), iterations);
        Ok(Credentials {
            sha1: keys(Hash::Sha1, sha1),
            sha256: keys(Hash::Sha256, sha256),
            sha512: keys(Hash::Sha512, sha512),
        })
    }

    /// Returns the keys for one hash.
    pub fn keys(&self, hash: Hash) -> &Keys {
        match hash {
            Hash::Sha1 => &self.sha1,
            Hash::Sha256 => &self.sha256,
            Hash::Sha512 => &self.sha512,
        }
    }

    /// Returns whether these are the credentials of `password`, in constant time. Costs one PBKDF2:
    /// milliseconds, so never on a shard.
    ///
    /// A login goes through [`server::Decoy::verify`](crate::server::Decoy::verify) instead, so
    /// that an unknown account isn't refused sooner.
    pub fn verify(&self, password: &str) -> bool {
        self.to_verify().verify(password)
    }

    /// Returns the keys for checking a plain password: those for SHA-256, or others if the account
    /// has none for that.
    pub(crate) fn to_verify(&self) -> &Keys {
        let usual = self.keys(VERIFY_HASH);
        [usual, &self.sha512, &self.sha1].into_iter().find(|keys| !keys.is_none()).unwrap_or(usual)
    }
}

/// The reason why a password can't be made into credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialsError {
    /// The password is empty or holds characters that SASLprep prohibits (RFC 4013 §2.3). The
    /// user's fault.
    BadPassword,
    /// The operating system gave no random bytes.
    NoRandomness,
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CredentialsError::BadPassword => {
                "the password is empty or has characters that SASLprep (RFC 4013) prohibits"
            }
            CredentialsError::NoRandomness => "the operating system provided no random bytes for a salt",
        })
    }
}

impl std::error::Error for CredentialsError {}

/// The hash whose keys verify a plain password: SHA-256 has hardware support almost everywhere, and
/// one is enough.
pub(crate) const VERIFY_HASH: Hash = Hash::Sha256;

/// RFC 5802 §3: `ClientKey := HMAC(SaltedPassword, "Client Key")`.
pub(crate) const CLIENT_KEY: &[u8] = b"Client Key";

/// RFC 5802 §3: `ServerKey := HMAC(SaltedPassword, "Server Key")`.
pub(crate) const SERVER_KEY: &[u8] = b"Server Key";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_verifies_and_others_dont() {
        let credentials = Credentials::derive("pencil", 10).unwrap();
        assert!(credentials.verify("pencil"));
        assert!(credentials.verify("pen\u{AD}cil"), "prepared alike");
        assert!(!credentials.verify("Pencil"));
        assert!(!credentials.verify(""));
        assert!(!credentials.verify("\u{7}"));
        for hash in Hash::ALL {
            assert!(credentials.keys(hash).verify("pencil"));
            assert_eq!(credentials.keys(hash).stored_key.len(), hash.size());
        }
    }

    #[test]
    fn a_plain_password_is_verified_by_the_keys_that_there_are() {
        let whole = Credentials::derive("pencil", 10).unwrap();
        let none = |hash| Keys::none(hash, 10).unwrap();
        let old = Credentials { sha256: none(Hash::Sha256), sha512: none(Hash::Sha512), ..whole.clone() };
        assert!(old.verify("pencil") && !old.verify("pen") && !old.verify(""));
        let nobody = Credentials { sha1: none(Hash::Sha1), ..old };
        assert!(!nobody.verify("pencil") && !nobody.verify(""));
        assert!(nobody.sha1.is_none() && !whole.sha1.is_none());
    }

    #[test]
    fn salts_are_fresh() {
        let (one, two) = (Credentials::derive("x", 1).unwrap(), Credentials::derive("x", 1).unwrap());
        assert_ne!(one.sha1.salt, two.sha1.salt);
        assert_ne!(one.sha1.salt, one.sha256.salt);
    }

    #[test]
    fn unusable_passwords_are_refused() {
        assert_eq!(Credentials::derive("", 1), Err(CredentialsError::BadPassword));
        assert_eq!(Credentials::derive("a\u{0}", 1), Err(CredentialsError::BadPassword));
    }

    #[test]
    fn debug_shows_no_key() {
        let keys = Credentials::derive("x", 1).unwrap().sha1;
        assert_eq!(format!("{keys:?}"), "Keys { hash: Sha1, iterations: 1, .. }");
    }
}
