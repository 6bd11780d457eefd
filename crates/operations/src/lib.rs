//! Operations on accounts, sessions, rooms and domains: one implementation for all interfaces.
//!
//! The commands of XEP-0133, the HTTP API, the admin page and the command line are views of these
//! operations: each parses requests in its own form, calls one of them, and presents the result in
//! its own form. The caller has to check permissions (with [`administrators`] and [`api_tokens`]);
//! an operation itself checks that the request is possible.
//!
//! # Layout
//!
//! [`users`], [`rosters`], [`archives`], [`sessions`], [`senders`], [`rooms`], [`messages`],
//! [`invitations`]: the operations. [`registration`]: actions of users without an account, and
//! [`newcomer`] the mark of those without an invitation. [`administrators`]: the domains that an
//! account administers. [`api_tokens`]: permissions of the API. [`action_log`]: past actions and
//! their authors. [`logins`]: successful and failed logins. [`reports`]: users' abuse reports.
//! [`events`]: events for other programs. [`reach`]: whether other servers answer.
//!
//! Below them: [`rights`] knows the administrators, [`lookalike`] names that resemble others;
//! [`announce`], [`welcome`]: messages of domains to users; [`password`]: the rule for passwords,
//! and their keys; [`removed`]: requests of the command line about accounts; [`process`]: an
//! administrator's control of the process.
//!
//! # Invariants
//!
//! * An operation that needs a world runs on any shard and finds the others itself; it completes
//!   once, through its continuation.
//! * Other shards are asked by questions, each defined next to the operation that asks it. If no
//!   answer arrives in time, the operation refuses or says that its list is partial.
//! * Nothing here depends on a form or a command: the interfaces depend on operations, never the
//!   other way.
//! * Operations that only need the stores take only those, so that the command line can use them
//!   while a server runs on the same stores.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod action_log;
pub mod administrators;
pub mod announce;
pub mod api_tokens;
pub mod archives;
pub mod events;
pub mod invitations;
pub mod logins;
pub mod lookalike;
pub mod messages;
pub mod newcomer;
pub mod password;
pub mod process;
pub mod reach;
pub mod registration;
pub mod removed;
pub mod reports;
pub mod rights;
pub mod rooms;
pub mod rosters;
pub mod senders;
pub mod sessions;
pub mod users;
pub mod welcome;

use std::fmt;

use rookery_hub::Hooks;
use rookery_store::{StoreError, WorkError};

/// Installs the handlers of the questions that operations ask shards.
pub fn install(hooks: &mut Hooks<'_>) {
    removed::install(hooks);
    reports::install(hooks);
    rosters::install(hooks);
    senders::install(hooks);
    sessions::install(hooks);
    users::install(hooks);
}

/// A list that was gathered from the shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered<T> {
    /// Its entries.
    pub items: Vec<T>,
    /// True if a shard has not answered in time, so that its entries are missing.
    pub is_partial: bool,
}

impl<T> From<Vec<Option<Vec<T>>>> for Gathered<T> {
    /// Gathers the answers of all shards.
    fn from(answers: Vec<Option<Vec<T>>>) -> Self {
        let is_partial = answers.iter().any(Option::is_none);
        Self { items: answers.into_iter().flatten().flatten().collect(), is_partial }
    }
}

/// The outcome of an operation.
pub type Outcome<T> = Result<T, Refusal>;

/// The reason why an operation was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The request is impossible in any case: an invalid address, password or text.
    Impossible(String),
    /// The account, room or other object of the request doesn't exist.
    Missing(String),
    /// The object to be created exists already.
    Exists(String),
    /// A limit is reached.
    Full(String),
    /// A module that it needs is off.
    Off(String),
    /// The responsible shard has not answered in time. The request may still be carried out.
    Late,
    /// The store failed, or the server is stopping.
    Store(StoreError),
    /// Long work has no outcome, mostly because too much is waiting.
    Work(WorkError),
    /// Another part of the server failed, named here; the log has the reason.
    Failed(&'static str),
}

impl Refusal {
    fn no_account(account: impl fmt::Display) -> Self {
        Self::Missing(format!("there is no account {account}"))
    }

    /// Returns what the store told the shard that was asked, or [`Refusal::Late`] without an
    /// answer.
    fn or_late<T>(answer: Option<Result<T, StoreError>>) -> Outcome<T> {
        answer.ok_or(Self::Late)?.map_err(Self::from)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoAccount => Self::Missing("there is no such account".into()),
            error => Self::Store(error),
        }
    }
}

impl From<WorkError> for Refusal {
    fn from(error: WorkError) -> Self {
        Self::Work(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Impossible(words)
            | Self::Missing(words)
            | Self::Exists(words)
            | Self::Full(words)
            | Self::Off(words) => f.write_str(words),
            Self::Late => f.write_str("the server has not answered in time; the request may still be carried out"),
            Self::Store(error) => error.fmt(f),
            Self::Work(error) => error.fmt(f),
            Self::Failed(what) => write!(f, "{what} failed; the server's log has the reason"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The time that a shard may take for small work, and for large writes, in milliseconds.
const PATIENCE_MS: u64 = 10_000;
const LONG_PATIENCE_MS: u64 = 60_000;
