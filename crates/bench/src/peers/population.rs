//! The accounts of a server before a load begins, and their rosters.

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_base::hex;
use rookery_sasl::Credentials;

use crate::BenchOutcome;

/// Accounts from number 0 ([`crate::chat::account`]), all with [`PASSWORD`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Population {
    /// The number of accounts.
    pub accounts: usize,
    /// The number of the first of them that all see each other's presence.
    pub friends: usize,
}

/// Keys of [`PASSWORD`] for SCRAM-SHA-1, as texts for configurations.
pub(super) struct PopulationKeys {
    /// Salt, Base64.
    pub salt: String,
    /// StoredKey, Base64.
    pub stored: String,
    /// ServerKey, Base64.
    pub server: String,
    /// StoredKey, hexadecimal.
    pub stored_hex: String,
    /// ServerKey, hexadecimal.
    pub server_hex: String,
}

/// Returns the credentials by which all accounts log in. One salt serves for all: logins cost the
/// same, without thousands of hashes before each run.
pub(super) fn credentials() -> BenchOutcome<Credentials> {
    // The salt is text, since Prosody stores it as a string.
    Ok(Credentials::derive_with(PASSWORD, ITERATIONS, [*SALT; 3])?)
}

/// Returns [`credentials`] as texts.
pub(super) fn keys() -> BenchOutcome<PopulationKeys> {
    let sha1 = credentials()?.sha1;
    Ok(PopulationKeys {
        salt: STANDARD.encode(&sha1.salt),
        stored: STANDARD.encode(&sha1.stored_key),
        server: STANDARD.encode(&sha1.server_key),
        stored_hex: hex::encode(&sha1.stored_key),
        server_hex: hex::encode(&sha1.server_key),
    })
}

/// Returns a template with its `@NAME@`s filled in.
pub(super) fn fill_template(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

/// The domain of all accounts.
pub(super) const DOMAIN: &str = "localhost";
/// The password of all accounts.
pub(super) const PASSWORD: &str = "pencil";
/// PBKDF2 iterations.
pub(super) const ITERATIONS: u32 = 4096;
/// The salt of all accounts.
pub(super) const SALT: &[u8; 16] = b"sixteen-of-salt.";
