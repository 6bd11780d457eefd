//! XEP-0227: accounts with everything that is stored for them, as a file that other servers also
//! read and write.
//!
//! Both directions are streams: of an archive, however large, one page is in memory. Data for
//! which the standard has no element (a disabled account, documents of modules) is in elements of
//! the namespace [`OURS`], so that Rookery can import what it exports.
//!
//! # Invariants
//!
//! * Nothing here prints, exits or reads a configuration: the caller says where accounts go, and
//!   is told what is left out.
//! * Everything blocks, on the store and on files: nothing here may run on a shard.
//!
//! # Layout
//!
//! [`export`] writes, [`import`] reads: `input` is the file as events and elements, with its line
//! numbers and its includes; `account` is one account on its way into the stores, `ahead` its
//! writes; `progress` is the progress of an import, and the reason why it ends; `parts` and
//! `nodes` hold what both directions must agree on. [`foreign`] presents the databases of other
//! servers to [`import`] as if they were such a file.

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
/// SCRAM keys (§4.3).
const SCRAM: &str = "urn:xmpp:pie:0#scram";
/// Archives (§4.11).
const ARCHIVE: &str = "urn:xmpp:pie:0#mam";
/// The namespace of what only this server knows.
pub const OURS: &str = "urn:rookery:export:0";
