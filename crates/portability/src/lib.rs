//! XEP-0227: accounts with all that is kept for them, as a file that other servers read and write
//! as well.
//!
//! Both ways are streams: of an archive, however large, a page is in memory. What this server keeps
//! and the standard has no word for (that an account is disabled, documents of modules) stands in
//! elements of the namespace [`OURS`], so that what Rookery exports it also imports.
//!
//! # Invariants
//!
//! * Nothing here prints, exits or reads a configuration: the caller says where accounts go, and is
//!   told what is left out.
//! * Everything blocks, on the store and on files: nothing here may run on a shard.
//!
//! # Layout
//!
//! [`export`] writes, [`import`] reads: `input` is the file as events and elements, with its line
//! numbers and what it includes; `account` is one account on its way into the stores, `ahead` its
//! writes; `progress` is how far an import has come, and why it ends; `parts` and `nodes` hold what
//! both ways must agree on. [`foreign`] gives [`import`] the databases of other servers to read, as
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
/// SCRAM keys (§4.3).
const SCRAM: &str = "urn:xmpp:pie:0#scram";
/// Archives (§4.11).
const ARCHIVE: &str = "urn:xmpp:pie:0#mam";
/// The namespace of what only this server knows.
pub const OURS: &str = "urn:rookery:export:0";
