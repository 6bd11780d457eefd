//! The failures of all commands, and the reading of the device database for them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use crate::database::{Database, Unusable};

/// The reason why a command failed.
pub(super) struct DpmFailure {
    pub(super) words: String,
    pub(super) code: ExitCode,
}

impl DpmFailure {
    pub(super) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), code: ExitCode::FAILURE }
    }
}

pub(super) fn read(path: Option<&Path>) -> Result<Database, DpmFailure> {
    Database::load(path).map_err(|unusable| match unusable {
        Unusable::Unreadable(words) => DpmFailure::new(words),
        Unusable::Mistaken(words) => DpmFailure { words, code: ExitCode::from(78) },
    })
}

/// Writes addresses, separated by commas.
pub(super) fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
}
