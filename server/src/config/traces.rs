//! The values of `[traces]`: the collector of OpenTelemetry.

use std::path::PathBuf;

/// The collector of spans, and their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracesConfig {
    /// Its address; without one nothing is recorded.
    pub url: Option<String>,
    /// The ticks that it gets per minute, besides slow ones.
    pub ticks_per_minute: u32,
    /// The file with a header for each request.
    pub header_file: Option<PathBuf>,
    /// PEM file of certificates to trust besides those of the machine.
    pub trusted: Option<PathBuf>,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self { url: None, ticks_per_minute: 60, header_file: None, trusted: None }
    }
}
