//! Keeps accounts, rosters, offline messages, archives, documents, last presence, nodes, rooms and
//! a few settings.
//!
//! There is one small trait per concern, so that a caller names those that it needs and a test
//! replaces one of them; [`Stores`] bundles all of them. [`sqlite::open`] keeps everything in one
//! SQLite file, [`memory::Memory`] in this process; [`held::HeldStores`] simulates a slow or a
//! broken store, [`shuffled::Shuffled`] one with several connections.
//!
//! # The contract of every method
//!
//! 1. The operation is queued when the method is *called*. Polling the future only checks whether
//!    it is done, and dropping the future doesn't cancel the operation.
//! 2. Operations take effect, and complete, in the order of the calls for one owner (account, room,
//!    host of nodes, token, name of a setting), regardless of the caller. Nothing is promised
//!    between owners. A write that concerns many owners keeps its place with each of them, and
//!    removing an account keeps its place with all owners. Nothing waits for archives: writes to
//!    them, and pages of them, come after earlier calls for the same owners, but later calls may
//!    overtake them, unless they concern archives too. Reads about many owners, lists and counts
//!    reflect the moment of the call. [`forward::Owners`] defines it for every method.
//! 3. A write that was acknowledged is durable: neither a crash of the process nor a power cut
//!    takes it back.
//! 4. A failed operation has changed nothing. The one exception is [`StoreError::Lost`]: the
//!    database was lost during the commit, and stayed unreachable.
//! 5. Nothing waits without bound: a store with too much queued returns [`StoreError::Busy`] at
//!    once, and one whose database is unreachable returns [`StoreError::Away`] after some time.
//!
//! # Layout
//!
//! `accounts`, `rosters`, `offline`, `archive`, `documents`, `presence`, `pubsub`, `rooms`,
//! `slots`, `invitations` and `meta` hold a trait each and its types; `stores` bundles them;
//! `pending` is the future, `error` the reasons why it fails; `fencing` keeps a process from
//! writing after others have taken over from it; `background` has threads for slow work outside
//! the store; `sql/` implements the traits once over SQL statements, with a driver per engine;
//! `memory`, and `held` and `shuffled` by way of `forward`, serve tests.

pub mod accounts;
pub mod archive;
pub mod background;
pub mod documents;
pub mod error;
pub mod fencing;
pub mod forward;
pub mod held;
pub mod invitations;
pub mod memory;
pub mod meta;
pub mod offline;
mod pending;
pub mod presence;
pub mod pubsub;
pub mod rooms;
pub mod rosters;
pub mod shuffled;
pub mod slots;
pub mod sql;
mod stores;

pub use accounts::{Accounts, Browse, Browsed, Choice, Only, Order};
pub use archive::{
    Archive, ArchiveOf, ArchivePage, ArchiveQuery, ArchivedMessage, BYTES_PER_MESSAGE, Expiry, Retention, Swept,
    TermsOf,
};
pub use background::{Background, BackgroundDesk, WorkError};
pub use documents::{DocumentRoom, Documents, DocumentsPut, StoredDocument};
pub use error::StoreError;
pub use fencing::{Fencing, ProcessWriter};
pub use invitations::{Invitation, Invitations, Purpose};
pub use meta::{Activity, Added, Meta, StatementTimes};
pub use offline::{Offline, OfflineMessage, OfflineRoom, Pushed};
pub use pending::Pending;
pub use presence::{LastPresence, LastSeen};
pub use pubsub::Pubsub;
pub use rookery_base::wait;
pub use rooms::{Affiliated, Affiliation, ListedRoom, RoomDocument, RoomStore, StoredRoom};
pub use rosters::{
    Changed, Changes, Edit, EditRoster, Roster, RosterChange, RosterItem, RosterSize, Rosters, SizeOf, Subscription,
};
pub use slots::{Reserved, Slot, SlotQuota, SlotStage, Slots};
#[cfg(feature = "mysql")]
pub use sql::mysql;
#[cfg(feature = "postgres")]
pub use sql::postgres;
pub use sql::sqlite;
pub use stores::Stores;
