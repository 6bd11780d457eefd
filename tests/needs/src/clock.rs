//! Gives a server another clock than this machine's.

use std::path::PathBuf;

use super::programs;

/// Returns the environment variables by which a process sees another time than this machine's, such
/// as `+45d`. Durations stay as they are.
///
/// # Panics
/// If that isn't possible, with what to install.
pub(super) fn variables(clock: &str) -> [String; 4] {
    programs(&[("faketime", "faketime")]);
    let folders = std::fs::read_dir("/usr/lib").expect("the libraries").filter_map(|entry| Some(entry.ok()?.path()));
    let library = folders.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|library| library.is_file());
    let library: PathBuf = library.expect("the library of faketime");
    [
        format!("LD_PRELOAD={}", library.display()),
        format!("FAKETIME={clock}"),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
        "FAKETIME_DISABLE_SHM=1".into(),
    ]
}
