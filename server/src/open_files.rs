//! The limit of open files, and so of connections, of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// Raises the limit to the most that needs no privileges. The soft limit is 1024 on many systems,
/// for programs that can't handle more.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        Ok(()) => info!(from = limit.current, to = limit.maximum, "the limit of open files was raised"),
        Err(error) => warn!(%error, limit = limit.current, "the limit of open files can't be raised"),
    }
}

/// Returns how many client connections the limit leaves room for, after the share of storage,
/// uploads and the web front-end; 0 if there is no limit.
pub fn connections() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(0, |files| usize::try_from(files.saturating_sub((files / 8).clamp(64, OTHERS))).unwrap_or(0))
}

/// Descriptors that are reserved for other purposes if there are many.
const OTHERS: u64 = 8192;
