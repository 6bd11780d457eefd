//! What operators do to accounts, sessions, rooms and domains: one implementation for all who offer it.
//!
//! The commands of XEP-0133, the HTTP API, the admin page and the command line are views of these operations: each reads what is asked in its own form,
//! calls one of them, and says in its own form what came of it. Who may ask is theirs to know ([`administrators`] and [`tokens`] tell); what an operation
//! checks itself is that what it is asked for is possible.
//!
//! # Layout
//!
//! [`users`], [`sessions`], [`rooms`], [`messages`], [`invitations`]: what is done. [`administrators`]: for which domains an account may do it. [`tokens`]: who may do it
//! by the API. [`journal`]: what was done, and by whom. [`logins`]: who logged in, and who failed to.
//!
//! # Invariants
//!
//! * An operation that needs a world runs on whatever shard it is asked on and finds the others itself; it answers once, through its continuation.
//! * What needs only the stores takes only those, so that the command line can do it beside a running server.

pub mod administrators;
pub mod invitations;
pub mod journal;
pub mod logins;
pub mod messages;
pub mod rooms;
pub mod sessions;
pub mod tokens;
pub mod users;

use std::fmt;

use rookery_store::StoreError;

/// What came of an operation.
pub type Outcome<T> = Result<T, Refusal>;

/// Why an operation was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// What is asked for is impossible, whatever there is: an address, a password or a text that nobody can have.
    Impossible(String),
    /// What it is about isn't there.
    Missing(String),
    /// What is to be made is there already.
    Exists(String),
    /// A limit is reached.
    Full(String),
    /// A module that it needs is off.
    Off(String),
    /// The store failed, or the server is stopping.
    Store(StoreError),
}

impl Refusal {
    fn no_account(account: impl fmt::Display) -> Self {
        Self::Missing(format!("there is no account {account}"))
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Impossible(words)
            | Self::Missing(words)
            | Self::Exists(words)
            | Self::Full(words)
            | Self::Off(words) => f.write_str(words),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}
