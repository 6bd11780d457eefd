//! The modules on a stage: one shard with stores in memory, sessions that say stanzas, and what
//! they hear.

mod caps;
mod contact;
mod disco;
mod offline;
mod ping;
mod register;
mod stage;
mod time;
mod version;
