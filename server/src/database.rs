//! The embedded database of a data folder.

use std::sync::Arc;
use std::time::Duration;

use rookery_store::sql::SqlStore;
use rookery_store::{Stores, sqlite, wait};

use crate::config::Store;
use crate::failure::Failure;
use crate::folder::Folder;

/// The opened database.
pub struct Database {
    /// What is in it.
    pub stores: Stores,
    store: Arc<SqlStore>,
}

/// The secrets of which decoys of accounts are made, besides the configuration.
#[derive(Debug, Clone, Default)]
pub struct Decoys {
    /// The secret behind their salts.
    pub secret: [u8; 32],
    /// The iteration counts of accounts, each with the number of accounts, as of the start.
    pub counts: Vec<(u32, u64)>,
}

impl Database {
    /// Opens the database of a folder for a server; makes it if there is none.
    ///
    /// # Errors
    ///
    /// What the store says, with what mends it.
    pub fn open(folder: &Folder, store: &Store) -> Result<Database, Failure> {
        Database::open_with(folder, sqlite::Options { migrations: store.migrations, ..sqlite::Options::default() })
    }

    /// Opens it for a command, which can wait longer for a busy server than the users of a server can wait for a command.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn open_patiently(folder: &Folder, store: &Store) -> Result<Database, Failure> {
        let (lock_wait, migrations) = (Duration::from_secs(30), store.migrations);
        Database::open_with(folder, sqlite::Options { lock_wait, migrations, ..sqlite::Options::default() })
    }

    fn open_with(folder: &Folder, options: sqlite::Options) -> Result<Database, Failure> {
        let store = Arc::new(sqlite::open(&folder.database(), &options)?);
        Ok(Database { stores: Stores::of(store.clone()), store })
    }

    /// Returns what accounts that don't exist answer with: the same as those that do, as far as
    /// anybody can tell.
    ///
    /// # Errors
    ///
    /// What the store says, or that the operating system has no random bytes.
    pub fn decoys(&self) -> Result<Decoys, Failure> {
        Ok(Decoys { secret: self.decoy_secret()?, counts: wait(self.stores.accounts.iterations())? })
    }

    /// The secret behind the salts: made once, then kept, since real salts don't change either.
    fn decoy_secret(&self) -> Result<[u8; 32], Failure> {
        let found = wait(self.stores.meta.get(DECOY_SECRET))?;
        if let Some(secret) = found.and_then(|bytes| bytes.try_into().ok()) {
            return Ok(secret);
        }
        let secret: [u8; 32] = random()?;
        wait(self.stores.meta.put(DECOY_SECRET, secret.to_vec()))?;
        Ok(secret)
    }

    /// Carries out what is queued and closes the database: the last thing that a server does.
    pub fn close(&self) {
        self.store.close();
    }
}

/// Random bytes of the operating system.
///
/// # Errors
///
/// [`Failure::Failed`] if it has none.
pub fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Failed(format!("the operating system gives no random bytes: {error}")))?;
    Ok(bytes)
}

const DECOY_SECRET: &str = "decoy-secret";
