//! Reserves ports for servers that need to know theirs before they start.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::sync::Mutex;

/// Returns a port of the loopback interface that is reserved for this process until it ends.
///
/// A port from the system is free again once it is closed, and the system may give it to any other
/// connection before the server listens on it. This one is from a range that the system doesn't
/// assign, and a lock reserves it; the tests in Python use the same locks
/// (`tests/clients/ports.py`).
///
/// # Panics
/// If none is free, or the folder of the locks can't be made.
pub fn free_port() -> u16 {
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let user = fs::metadata("/proc/self").expect("the process").uid();
    let folder = std::env::temp_dir().join(format!("rookery-ports-{user}"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).expect("a folder for the locks of ports");
    // Processes begin their search at different ports.
    let start = std::process::id().wrapping_mul(61);
    let found = (0..COUNT).find_map(|step| {
        let port = u16::try_from(FIRST + start.wrapping_add(step) % COUNT).ok()?;
        let lock = File::create(folder.join(port.to_string())).ok()?;
        lock.try_lock().ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some((port, lock))
    });
    let (port, lock) = found.expect("a free port");
    HELD.lock().expect("the ports held").push(lock);
    port
}

const FIRST: u32 = 20_000;
const COUNT: u32 = 10_000;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::free_port;

    #[test]
    fn no_port_is_given_out_twice() {
        assert_eq!((0..50).map(|_| free_port()).collect::<HashSet<u16>>().len(), 50);
    }
}
