//! The stores over SQL, written once for every engine.
//!
//! [`SqlStore`] implements the traits by queueing; `lanes` says on which connection, `worker` runs
//! the queue of one on its own thread in batched transactions; `accounts`, `archive`, `documents`,
//! `invitations`, `rosters`, `offline`, `presence`, `pubsub`, `rooms`, `slots` and `meta` are the
//! operations over the `Connection` that a driver gives, in the `transactions` that the worker
//! begins and ends; `ids` has the keys of accounts; SQL that several of them share is in
//! `statements`, the rest beside what runs it; `dialect` has what engines differ in, `remote` what
//! those in other processes have in common, `opening` how they are opened, `fence` how a process is
//! kept from writing, `finding` what a check of one finds. An engine adds a driver and a schema:
//! [`sqlite`], `postgres`; `migrate` brings a schema up to date, `listed` lists all statements for
//! tests, [`copy`] copies a database to another one, [`foreign`] reads those of other programs.
//!
//! # Invariants
//!
//! - Only a worker's thread touches its connection.
//! - An operation is one step: it runs inside one transaction, and can be undone alone.
//! - What an operation answered is told to its caller only after the commit of what it could have
//!   seen.

mod accounts;
mod archive;
mod archives;
mod browsing;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod checking;
mod connection;
pub mod copy;
mod counted;
mod dialect;
mod documents;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod fence;
mod finding;
pub mod foreign;
mod ids;
mod invitations;
mod lanes;
#[cfg(test)]
mod listed;
mod many;
mod meta;
mod migrate;
#[cfg(feature = "mysql")]
pub mod mysql;
mod offline;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod opening;
mod operation;
#[cfg(feature = "postgres")]
pub mod postgres;
mod presence;
mod pubsub;
mod queue;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod remote;
mod rooms;
mod rosters;
mod sizes;
mod slots;
pub mod sqlite;
mod statements;
mod store;
mod transactions;
mod trouble;
mod worker;

pub use finding::{Finding, Severity};
pub use migrate::{IndexPlan, MigrationPlan, Migrations, SchemaStep};
pub use queue::{BOUNDS, Patience, QueueBounds};
pub use store::SqlStore;
