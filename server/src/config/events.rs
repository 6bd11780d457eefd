//! The values of `[events]`: the program that is notified of events.

use std::path::PathBuf;

/// The address to which events are posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsConfig {
    /// The address; without one no events are posted.
    pub url: Option<String>,
    /// The file with the secret by which they are signed.
    pub secret_file: Option<PathBuf>,
    /// PEM file of certificates to trust besides those of the machine.
    pub trusted: Option<PathBuf>,
    /// The bytes that may wait on the disk.
    pub spool_bytes: usize,
}

impl Default for EventsConfig {
    fn default() -> Self {
        Self { url: None, secret_file: None, trusted: None, spool_bytes: 64 << 20 }
    }
}
