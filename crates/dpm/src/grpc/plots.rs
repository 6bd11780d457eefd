//! Configurations of plots that clients keep here: the plot calls of `services.devdb.DevDB`.
//!
//! A configuration is a text of the client's, which nothing here interprets. Anyone may read those
//! that were saved for everyone; saving takes a token. Each belongs to the principal that made it,
//! who alone may replace or delete it. The interface reports failures in its results.
//!
//! Invariants:
//! - Each principal has a bounded number of configurations of a bounded size, and so have all
//!   together.
//! - A number is never used for a second configuration, so a client that has an old one can't
//!   change that of somebody else.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::generated::services::devdb::PlotConfigSpecification;

/// The kept configurations, shared by all calls.
#[derive(Debug, Clone)]
pub struct PlotStore(Arc<Mutex<Connection>>);

impl PlotStore {
    /// Opens a file, which is created if necessary, readable by its owner only.
    ///
    /// # Errors
    /// SQLite's, such as for a file that is no database, and that of a file that a later Rookery
    /// has written.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        // A failure shows when the file is opened as a database.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        Self::prepare(Connection::open(path)?)
    }

    /// Returns a store in memory, which ends with the process.
    ///
    /// # Errors
    /// SQLite's.
    pub fn in_memory() -> rusqlite::Result<Self> {
        Self::prepare(Connection::open_in_memory()?)
    }

    fn prepare(connection: Connection) -> rusqlite::Result<Self> {
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version > VERSION {
            return Err(rusqlite::Error::InvalidParameterName(format!(
                "the file was written by a later Rookery (version {version}, this one knows {VERSION})"
            )));
        }
        connection.execute_batch(SCHEMA)?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Returns the configuration with a number, or all in the order of their numbers.
    ///
    /// # Errors
    /// A text for the client.
    pub fn find(&self, id: Option<u32>) -> Result<Vec<PlotConfigSpecification>, String> {
        self.work(|connection| {
            let mut query = connection
                .prepare_cached("SELECT id, name, config FROM plot WHERE ?1 IS NULL OR id = ?1 ORDER BY id")?;
            let found = query.query_map([id], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(match (id, found.is_empty()) {
                (Some(_), true) => Err(UNKNOWN.to_owned()),
                _ => Ok(found),
            })
        })
    }

    /// Saves a configuration for everyone: a new one with the id 0, else in place of the owner's
    /// earlier one. Returns it with its number.
    ///
    /// # Errors
    /// A text for the client.
    pub fn save(&self, owner: &str, plot: PlotConfigSpecification) -> Result<PlotConfigSpecification, String> {
        if plot.name.is_empty() || plot.name.len() > LONGEST_NAME || plot.config.len() > LARGEST {
            return Err(format!("a name has 1 to {LONGEST_NAME} bytes, and a configuration at most {LARGEST}"));
        }
        self.work(|connection| {
            if plot.id != 0 {
                let changed = connection.execute(
                    "UPDATE plot SET name = ?1, config = ?2 WHERE id = ?3 AND owner = ?4",
                    params![plot.name, plot.config, plot.id, owner],
                )?;
                if changed == 0 {
                    return Ok(Err(refusal(connection, plot.id)?));
                }
                return Ok(has_room(connection, owner)?.map(|()| plot));
            }
            connection.execute(
                "INSERT INTO plot (owner, name, config) VALUES (?1, ?2, ?3)",
                params![owner, plot.name, plot.config],
            )?;
            let id = u32::try_from(connection.last_insert_rowid()).unwrap_or(u32::MAX);
            Ok(has_room(connection, owner)?.map(|()| PlotConfigSpecification { id, ..plot }))
        })
    }

    /// Deletes a configuration of this owner, and returns it.
    ///
    /// # Errors
    /// A text for the client.
    pub fn delete(&self, owner: &str, id: u32) -> Result<PlotConfigSpecification, String> {
        self.work(|connection| {
            let gone = connection.query_row(
                "DELETE FROM plot WHERE id = ?1 AND owner = ?2 RETURNING id, name, config",
                params![id, owner],
                read,
            );
            match gone.optional()? {
                Some(gone) => Ok(Ok(gone)),
                None => Ok(Err(refusal(connection, id)?)),
            }
        })
    }

    /// Returns what a principal has saved for itself; nothing is an empty text.
    ///
    /// # Errors
    /// A text for the client.
    pub fn find_own(&self, owner: &str) -> Result<String, String> {
        self.work(|connection| {
            let found = connection.query_row("SELECT config FROM own WHERE owner = ?1", [owner], |row| row.get(0));
            Ok(Ok(found.optional()?.unwrap_or_default()))
        })
    }

    /// Saves a configuration for its owner only; an empty one is removed.
    ///
    /// # Errors
    /// A text for the client.
    pub fn save_own(&self, owner: &str, config: &str) -> Result<(), String> {
        if config.len() > LARGEST {
            return Err(format!("a configuration has at most {LARGEST} bytes"));
        }
        self.work(|connection| {
            connection.execute("DELETE FROM own WHERE owner = ?1", [owner])?;
            if config.is_empty() {
                return Ok(Ok(()));
            }
            if connection.query_row("SELECT count(*) FROM own", [], |row| row.get::<_, i64>(0))? >= MOST as i64 {
                return Ok(Err(format!("{MOST} users have configurations, which is the most")));
            }
            connection.execute("INSERT INTO own (owner, config) VALUES (?1, ?2)", [owner, config])?;
            Ok(Ok(()))
        })
    }

    /// Does something in one transaction, which is undone if it is refused.
    fn work<T>(&self, what: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, String>>) -> Result<T, String> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = connection.transaction().and_then(|transaction| {
            let done = what(&transaction)?;
            if done.is_ok() {
                transaction.commit()?;
            }
            Ok(done)
        });
        done.unwrap_or_else(|error| {
            eprintln!("rookery: configurations of plots cannot be read or written: {error}");
            Err("the configurations cannot be read or written at the moment".to_owned())
        })
    }
}

/// Checks the bounds of what is saved for everyone, after a change of this owner.
fn has_room(connection: &Connection, owner: &str) -> rusqlite::Result<Result<(), String>> {
    let own: i64 = connection.query_row("SELECT count(*) FROM plot WHERE owner = ?1", [owner], |row| row.get(0))?;
    if own > MOST_OF_OWNER as i64 {
        return Ok(Err(format!("you have {MOST_OF_OWNER} configurations, which is the most")));
    }
    let bytes = "SELECT total(length(CAST(name AS BLOB)) + length(CAST(config AS BLOB))) FROM plot";
    let bytes: f64 = connection.query_row(bytes, [], |row| row.get(0))?;
    Ok(match bytes > MOST_BYTES as f64 {
        true => Err(format!("all configurations together take {MOST_BYTES} bytes, which is the most")),
        false => Ok(()),
    })
}

/// Returns the reason why an owner's change has found nothing.
fn refusal(connection: &Connection, id: u32) -> rusqlite::Result<String> {
    let is_there = connection.query_row("SELECT 1 FROM plot WHERE id = ?1", [id], |_| Ok(())).optional()?.is_some();
    Ok(if is_there { "it belongs to somebody else" } else { UNKNOWN }.to_owned())
}

fn read(row: &Row<'_>) -> rusqlite::Result<PlotConfigSpecification> {
    Ok(PlotConfigSpecification { id: row.get(0)?, name: row.get(1)?, config: row.get(2)? })
}

const UNKNOWN: &str = "there is no such configuration";
/// The most bytes of a name.
const LONGEST_NAME: usize = 256;
/// The most bytes of a configuration.
pub(crate) const LARGEST: usize = 64 << 10;
/// The most configurations of a principal for everyone.
pub(crate) const MOST_OF_OWNER: usize = 100;
/// The most bytes of all configurations for everyone, so that they fit into one message, which
/// gRPC's libraries accept up to 4 MiB.
pub(crate) const MOST_BYTES: usize = 3 << 20;
/// The most principals that save a configuration for themselves.
pub(crate) const MOST: usize = 1000;
/// The version of the file.
const VERSION: i64 = 1;
const SCHEMA: &str = "
PRAGMA journal_mode = WAL;
PRAGMA user_version = 1;
CREATE TABLE IF NOT EXISTS plot (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    config TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS plot_of_owner ON plot (owner);
CREATE TABLE IF NOT EXISTS own (owner TEXT PRIMARY KEY, config TEXT NOT NULL) WITHOUT ROWID;
";

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(id: u32, name: &str, config: &str) -> PlotConfigSpecification {
        PlotConfigSpecification { id, name: name.to_owned(), config: config.to_owned() }
    }

    #[test]
    fn a_configuration_belongs_to_the_one_who_made_it() {
        let store = PlotStore::in_memory().expect("a store");
        let saved = store.save("anna", plot(0, "ring", "{}")).expect("a new one");
        assert_eq!(store.find(Some(saved.id)), Ok(vec![saved.clone()]));
        let foreign = store.save("bert", plot(saved.id, "mine", "{}"));
        assert_eq!(foreign, Err("it belongs to somebody else".to_owned()));
        assert_eq!(store.delete("bert", saved.id), Err("it belongs to somebody else".to_owned()));
        let changed = store.save("anna", plot(saved.id, "ring", "[1]")).expect("her own");
        assert_eq!(store.find(None), Ok(vec![changed.clone()]));
        assert_eq!(store.delete("anna", saved.id), Ok(changed));
        assert_eq!(store.find(Some(saved.id)), Err(UNKNOWN.to_owned()));
        // The number isn't used again.
        assert!(store.save("bert", plot(0, "other", "")).expect("a new one").id > saved.id);
    }

    #[test]
    fn configurations_have_bounds() {
        let store = PlotStore::in_memory().expect("a store");
        let large = "x".repeat(LARGEST + 1);
        assert!(store.save("anna", plot(0, "large", &large)).is_err());
        assert!(store.save("anna", plot(0, "", "")).is_err());
        assert!(store.save_own("anna", &large).is_err());
        for number in 0..MOST_OF_OWNER {
            store.save("anna", plot(0, &number.to_string(), "")).expect("room");
        }
        assert!(store.save("anna", plot(0, "one more", "")).is_err());
        store.save("bert", plot(0, "first", "")).expect("room for others");
        let full = "x".repeat(LARGEST);
        let saved = (0..MOST_OF_OWNER).filter(|_| store.save("carla", plot(0, "full", &full)).is_ok()).count();
        assert_eq!(saved, MOST_BYTES / LARGEST - 1);
        let ids: Vec<_> = store.find(None).expect("all").iter().map(|plot| plot.id).collect();
        assert_eq!(ids.len(), MOST_OF_OWNER + 1 + saved);
        // What exists can't grow beyond the bound either.
        assert!(store.save("anna", plot(ids[0], "grown", &full)).is_err());
        for number in 0..MOST {
            store.save_own(&number.to_string(), "{}").expect("room");
        }
        assert!(store.save_own("anna", "{}").is_err());
        store.save_own("0", "").expect("nothing takes no room");
        store.save_own("anna", "{}").expect("the room of another");
        assert_eq!(store.find_own("anna"), Ok("{}".to_owned()));
        assert_eq!(store.find_own("0"), Ok(String::new()));
    }

    #[test]
    fn configurations_outlive_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("plots.db");
        let saved = PlotStore::open(&file).map(|store| store.save("anna", plot(0, "ring", "{}")));
        let saved = saved.expect("a file").expect("a new one");
        assert_eq!(PlotStore::open(&file).expect("the file").find(None), Ok(vec![saved]));
    }
}
