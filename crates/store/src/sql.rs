//! The stores over SQL, written once for every engine.
//!
//! [`SqlStore`] implements the traits by queueing; `lanes` chooses the connection, and `worker`
//! runs its queue on a separate thread in batched transactions; `accounts`, `archive`, `documents`,
//! `invitations`, `rosters`, `offline`, `presence`, `pubsub`, `rooms`, `slots` and `meta` are the
//! operations over the `Connection` of a driver, in the `transactions` that the worker begins and
//! ends; `ids` has the keys of accounts; shared SQL is in `statements`, the rest next to the code
//! that runs it; `dialect` has the differences between engines, `remote` the common part of those
//! in other processes, `hosts` chooses among their hosts, `address_options` refuses options of
//! their addresses that would be ignored, `opening` opens them, `fence` keeps a process from
//! writing, `finding` has the results of a check. An engine adds a driver and a schema: [`sqlite`],
//! `postgres`; `migrate` updates a schema, `listed` lists all statements for tests, [`copy`] copies
//! a database to another one, [`foreign`] reads those of other programs.
//!
//! # Invariants
//!
//! - Only a worker's thread touches its connection.
//! - An operation is one step: it runs inside one transaction, and can be undone alone.
//! - The result of an operation is only reported to its caller after the commit of everything that
//!   it could have seen.

mod accounts;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod address_options;
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
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod hosts;
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
