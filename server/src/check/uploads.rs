//! Checks the bucket with users' files.

use super::{CheckReport, UPLOADS};
use crate::config::ServerConfig;
use crate::uploads;

/// Checks the settings of the bucket.
pub(super) fn look(report: &mut CheckReport, config: &ServerConfig) {
    if let Err(error) = uploads::bucket(config) {
        report.fault(UPLOADS, error.to_string());
    }
    if let Some(address) = config.uploads.bucket.as_deref().filter(|address| is_open(address)) {
        report.warn(UPLOADS, format!("files are sent to {address} unencrypted; give it an address with https:"));
    }
}

/// Puts a file into the bucket, and removes it again.
pub(super) fn ask(report: &mut CheckReport, config: &ServerConfig) {
    // `look` reports faults in files.
    let (Some(address), Ok(Some(bucket))) = (&config.uploads.bucket, uploads::bucket(config)) else { return };
    match bucket.probe() {
        Ok(()) => report.note(UPLOADS, format!("a file was written to {address}, read and deleted")),
        Err(why) => {
            report.warn(UPLOADS, format!("files can't be shared at the moment, because {address} failed: {why}"))
        }
    }
}

/// Returns whether the traffic to an address could be intercepted.
fn is_open(address: &str) -> bool {
    let Some(rest) = address.strip_prefix("http://") else { return false };
    !["localhost", "127.0.0.1", "[::1]"].iter().any(|here| rest.starts_with(here))
}
