//! The files of the chat page, as `rookery web install` downloads them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns a data folder in which the built binary has installed them: once below `target/`, and
/// again when it needs another version.
///
/// # Panics
///
/// If the installation fails.
pub fn folder() -> &'static Path {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    READY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("converse");
        fs::create_dir_all(&folder).expect("a folder below target/");
        // Another run of the tests may be installing the same.
        let lock = File::create(folder.join("lock")).expect("a lock file");
        lock.lock().expect("the lock");
        let mut install = Command::new(env!("CARGO_BIN_EXE_rookery"));
        let output = install.arg("--data-dir").arg(&folder).args(["web", "install"]).output().expect("the binary");
        assert!(output.status.success(), "web install: {}", String::from_utf8_lossy(&output.stderr));
        folder
    })
}
