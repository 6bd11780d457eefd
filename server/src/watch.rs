//! Watches the operator's certificates, so that a program that renews them needn't notify the
//! server.
//!
//! It looks at the files periodically, rather than asking the system for notifications: a renewal
//! moves links, folders and mounts in ways that a watch on one file misses. A change counts once
//! two consecutive looks find the same, so that a chain isn't read before its key is there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::config::ServerConfig;
use crate::failure::CommandFailure;
use rookery_base::lock::lock;

/// The watcher. It ends some time after this handle is dropped.
#[derive(Debug)]
pub struct Watch(Arc<Mutex<SeenFiles>>);

#[derive(Debug)]
struct SeenFiles {
    files: Vec<PathBuf>,
    /// The state of the files when they were read.
    read: FileLook,
    /// The state of the files at the last look.
    last: FileLook,
}

/// The facts that distinguish two states of files: where each is stored, when it was written, its
/// length; `None` for a missing one.
type FileLook = Vec<Option<(u64, i64, i64, u64)>>;

impl Watch {
    /// Starts to watch the files of a configuration, which have just been read. `changed` is
    /// called, on a separate thread, after they have changed.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(config: &ServerConfig, changed: impl Fn() + Send + 'static) -> Result<Watch, CommandFailure> {
        let seen = Arc::new(Mutex::new(SeenFiles::of(files(config))));
        let watched = Arc::downgrade(&seen);
        let work = move || {
            while let Some(is_changed) = look(&watched) {
                if is_changed {
                    changed();
                }
                std::thread::sleep(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(|| rookery_observe::vital(work));
        thread.map_err(|error| {
            CommandFailure::Failed(format!("the thread that watches certificates can't be started: {error}"))
        })?;
        Ok(Watch(seen))
    }

    /// Watches the files of another configuration from now on, which have just been read.
    pub fn change(&self, config: &ServerConfig) {
        *lock(&self.0) = SeenFiles::of(files(config));
    }
}

impl SeenFiles {
    fn of(files: Vec<PathBuf>) -> Self {
        let look = look_at(&files);
        Self { files, read: look.clone(), last: look }
    }

    /// Returns whether the files have changed since they were read, but not since the last look.
    fn has_settled(&mut self) -> bool {
        let now = look_at(&self.files);
        let settled = now == self.last && now != self.read;
        if settled {
            self.read.clone_from(&now);
        }
        self.last = now;
        settled
    }
}

/// Looks once; `None` if the watcher was dropped.
fn look(watched: &Weak<Mutex<SeenFiles>>) -> Option<bool> {
    let seen = watched.upgrade()?;
    let settled = lock(&seen).has_settled();
    Some(settled)
}

/// Returns the certificate files that the operator has configured.
fn files(config: &ServerConfig) -> Vec<PathBuf> {
    let named = config.domains.iter().filter_map(|domain| config.files_of(domain));
    let mut files: Vec<PathBuf> =
        named.flat_map(|(certificate, key)| [certificate.to_owned(), key.to_owned()]).collect();
    files.sort_unstable();
    files.dedup();
    files
}

fn look_at(files: &[PathBuf]) -> FileLook {
    let look = |file: &PathBuf| {
        let found = fs::metadata(file).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
    };
    files.iter().map(look).collect()
}

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "old").unwrap();
        let mut seen = SeenFiles::of(vec![one.clone(), other.clone()]);
        assert!(!seen.has_settled() && !seen.has_settled());
        fs::write(&one, "new, and longer").unwrap();
        assert!(!seen.has_settled(), "the other may follow");
        fs::write(&other, "and it does").unwrap();
        assert!(!seen.has_settled());
        assert!(seen.has_settled());
        assert!(!seen.has_settled(), "told once");
        fs::remove_file(&other).unwrap();
        assert!(!seen.has_settled());
        assert!(seen.has_settled(), "a missing file is a change too");
    }
}
