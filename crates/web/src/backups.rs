//! Backups for the API: the part that knows the server's files makes one, and it is sent from
//! there.
//!
//! A backup is complete and verified before its first byte is sent, so that a failure can be told
//! as one. It is in a file without a name meanwhile, so its space is free again after the last
//! byte, however the process ends.
//!
//! # Invariants
//!
//! - There is one backup at a time, from the request until everything was sent or the client has
//!   gone and the work is done: several would fill the disk.
//! - Memory is bounded: the file is read as the client takes it.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::thread;

use rookery_base::one_shot;
use tokio::sync::Semaphore;

use crate::body::Body;

/// The reason why there is no backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnmadeBackup {
    /// Another one is being made or downloaded.
    Busy,
    /// The disk lacks room for it.
    NoRoom,
    /// It failed, for a reason that may name files of this machine.
    Failed(String),
}

/// The part that makes backups.
#[derive(Clone)]
pub struct BackupMaker {
    make: Arc<MakeBackup>,
    turns: Arc<Semaphore>,
}

type MakeBackup = dyn Fn() -> Result<File, UnmadeBackup> + Send + Sync;

impl BackupMaker {
    /// Returns a handle. `make` is called on a thread of its own, where it may block; the file that
    /// it returns has no name any more.
    pub fn new(make: impl Fn() -> Result<File, UnmadeBackup> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), turns: Arc::new(Semaphore::new(1)) }
    }

    /// Makes a backup and returns it as the body of a response. If the asker goes away, the work
    /// continues, and its result is dropped.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) async fn make(&self) -> Result<Body, UnmadeBackup> {
        let turn = self.turns.clone().try_acquire_owned().map_err(|_| UnmadeBackup::Busy)?;
        let (completer, made) = one_shot();
        let make = self.make.clone();
        let work = move || {
            let made = make().and_then(|file| {
                let len = file.metadata().map_err(|error| UnmadeBackup::Failed(error.to_string()))?.len();
                Ok(Body::file(file, 0, len).holding(turn))
            });
            completer.complete(made);
        };
        let begun = thread::Builder::new().name("backup".into()).spawn(work);
        begun.map_err(|error| UnmadeBackup::Failed(error.to_string()))?;
        made.await.map_err(|abandoned| UnmadeBackup::Failed(abandoned.to_string()))?
    }
}

impl fmt::Debug for BackupMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackupMaker")
    }
}
