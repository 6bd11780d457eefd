//! XEP-0227: accounts with everything that is stored for them, as a file that other servers also
//! read and write.
//!
//! Import and export are streams: only one page of an archive is in memory, however large the
//! archive is. Data for which the standard has no element (a disabled account, documents of
//! modules) is in elements of the namespace [`OURS`], so that Rookery can import what it exports.
//!
//! # Invariants
//!
//! * Nothing here prints, exits or reads a configuration: the caller decides where accounts go, and
//!   gets reports about data that is left out.
//! * Everything here blocks, on the store and on files, so nothing of it may run on a shard.
//!
//! # Layout
//!
//! [`export`] writes, [`import`] reads: `input` is the file as events and elements, with its line
//! numbers and its inclusions; `account` imports one account, `ahead` has its writes; `progress`
//! has the progress of an import, and the reason for its end; `parts` and `nodes` have the formats
//! that both directions share. [`foreign`] presents the databases of other servers to [`import`] as
//! if they were such a file.

mod account;
mod ahead;
pub mod export;
pub mod foreign;
pub mod import;
mod input;
mod nodes;
mod parts;
mod progress;

/// The namespace of the file.
const PIE: &str = "urn:xmpp:pie:0";
/// The namespace of SCRAM keys (§4.3).
const SCRAM: &str = "urn:xmpp:pie:0#scram";
/// The namespace of archives (§4.11).
const ARCHIVE: &str = "urn:xmpp:pie:0#mam";
/// The namespace of elements that only this server knows.
pub const OURS: &str = "urn:rookery:export:0";
