//! `rookery backup` and `rookery restore`: all data of a server, in one file.
//!
//! The file is a compressed tar archive, so that it can be inspected without this server.
//! `backup.toml` describes it, `rookery.db` is the database, whatever its engine was, `data/` has
//! the other files of the data folder, `uploads/` the files that users have shared, `outside/` the
//! files that the configuration names elsewhere, and `SHA256SUMS`, at the end, the checksums of all
//! of these.
//!
//! # Invariants
//!
//! - The database has the state of one moment. Of the files that users share, the backup has those
//!   that the database knows, which are read after it: only one that expires or is removed
//!   meanwhile can be missing.
//! - A file under the name of the backup is complete and has been verified: it is written under
//!   another name first. A backup that goes to standard output is verified when it is restored: its
//!   checksums are at its end.
//! - Only the owner can read it: it contains keys, and data from which passwords can be guessed.
//!
//! # Layout
//!
//! `archive` is the file, `write` fills it, `restore` unpacks it, `destination` is the database
//! into which it goes.

mod archive;
mod destination;
mod restore;
mod write;

pub use restore::restore;
pub use write::{backup, write_for_api};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The facts about a backup that none of its other files contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    /// The version of this format.
    format: u32,
    /// The server that wrote it.
    version: String,
    /// The time at which it was made, in XMPP's date format.
    made: String,
    /// Files from outside the data folder.
    #[serde(default)]
    outside: Vec<OutsideFile>,
}

/// A file from outside the data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OutsideFile {
    /// Its name in the backup.
    name: String,
    /// Its original path.
    path: PathBuf,
}

/// The version of this format.
const FORMAT: u32 = 1;
/// The name that stands for standard input and standard output.
const STANDARD: &str = "-";
/// The file with the facts.
const ABOUT: &str = "backup.toml";
/// The file for the database.
const DATABASE: &str = "rookery.db";
/// The folder for other files of the data folder.
const DATA: &str = "data/";
/// The folder for files of users.
const UPLOADS: &str = "uploads/";
/// The folder for files from elsewhere.
const OUTSIDE: &str = "outside/";
