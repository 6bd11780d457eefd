//! The limit of open files, and so of connections, of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// Raises the limit to what the system lets us have without asking anybody: the soft one is 1024 on
/// many systems, for programs that know no more.
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

/// Returns how many connections of clients that leaves room for, when storage, files that are
/// shared and the web front have their part; 0 if there is no limit.
pub fn connections() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(0, |files| usize::try_from(files.saturating_sub((files / 8).clamp(64, OTHERS))).unwrap_or(0))
}

/// Descriptors that are left for others, where there are many.
const OTHERS: u64 = 8192;
