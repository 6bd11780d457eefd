//! One file per XEP, and the table of all of them.
//!
//! A module declares its handlers, its features and its options, all in its own file; the hub's
//! registry is made from the [`table()`], and so are service discovery, the example configuration
//! and the list of standards. A new XEP is a new file and one line in the table.
//!
//! # Invariants
//!
//! * A module replies for an account that exists exactly as for one that doesn't, unless the asker
//!   may see the account's presence (`rookery_modkit::asker`): strangers can't find out who has an
//!   account (XEP-0030 §8).
//! * A module opens no socket, spawns nothing and reads no clock. Work that takes milliseconds
//!   runs in the world's background.
//! * Everything that peers can make grow is bounded, and every bound is an option or a constant at
//!   the end of its file.
//!
//! # Layout
//!
//! The modules of the [`table()`] have a file or a folder each, or a crate (archive, rooms, pubsub,
//! and announcements among the operations). Others: `table` has the modules in their order and the
//! data that their shards share; [`standards`] lists the implemented standards; `entity` describes
//! a domain and its accounts; `caps2` hashes that; [`logins`] decides which modules suit a domain's
//! way of logging in.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod administration;
pub mod bytestreams;
pub mod caps;
mod caps2;
pub mod carbons;
pub mod client_state;
pub mod commands;
pub mod contact;
pub mod directory;
pub mod disco;
mod entity;
pub mod events;
pub mod external_services;
pub mod fast;
pub mod last_activity;
pub mod logins;
pub mod multicast;
pub mod offline;
pub mod ping;
pub mod privacy;
pub mod push;
pub mod register;
pub mod rtbl;
pub mod sasl2;
pub mod shared_roster;
pub mod sic;
pub mod standards;
pub mod strangers;
pub mod stream_management;
mod table;
pub mod time;
pub mod upload;
pub mod version;
pub mod visits;

pub use rookery_pubsub::vcard::{CardStored, store_card};
pub use standards::xep_table;
pub use table::{Shared, table};
