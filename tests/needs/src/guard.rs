//! Runs a server in a temporary folder, and ends it with the test.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Creates a folder that only this user can read. Its path is short, since the path of a socket in
/// it must be.
pub(super) fn folder(name: &str) -> PathBuf {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("rookery-{name}-{}-{number}", std::process::id()));
    make(&folder)
}

/// Creates a folder of this name that only this user can read, and returns it.
pub(super) fn make(folder: &Path) -> PathBuf {
    std::fs::create_dir(folder).expect("a temporary folder");
    std::fs::set_permissions(folder, Permissions::from_mode(0o700)).expect("a private folder");
    folder.to_owned()
}

/// Starts a server under a shell that ends it with a signal and removes the folder when the shell's
/// standard input ends, which it does however the test's process ends, even if the server was
/// stopped in between. The server's output is in the folder's file `log`.
pub(super) fn guard(folder: &Path, signal: &str, server: &Command) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "sh"]).arg(folder).arg(signal).arg(server.get_program()).args(server.get_args());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a shell")
}

/// Ends a server and waits until its folder is gone.
pub(super) fn end(guard: &mut Child) {
    drop(guard.stdin.take());
    drop(guard.wait());
}

/// Returns a process and its children.
///
/// # Panics
/// If the system doesn't list its processes.
pub fn family(process: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc")
        .expect("the processes")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_of = |other: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{other}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        *other == process || parent == Some(process)
    };
    all.filter(is_of).collect()
}

/// Sends a signal, such as `STOP`, to those of these processes that still exist.
///
/// # Panics
/// If there is no program `kill`.
pub fn signal(signal: &str, processes: &[u32]) {
    let numbers = processes.iter().map(u32::to_string);
    Command::new("kill").arg(format!("-{signal}")).args(numbers).stderr(Stdio::null()).status().expect("kill");
}

const GUARD: &str = "folder=$1; signal=$2; shift 2; \"$@\" >$folder/log 2>&1 & server=$!; \
    read -r _; kill -$signal $server; kill -CONT $server; wait $server; rm -rf \"$folder\"";
