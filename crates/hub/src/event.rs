//! Events, by which a world tells its driver what to do.

use std::net::SocketAddr;

use rookery_fanout::Link;
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::StoreError;
use rookery_stream::c2s::{Issued, StoredToken};
use rookery_stream::error::{Condition, StanzaError, StreamError};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::driver::DriverQuestion;
use crate::reply::QuestionReply;

/// The connection of a client, as the driver knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The address that the client connects from.
    pub address: SocketAddr,
    /// The carrier of the stream: see [`Transport::label`](rookery_base::Transport::label).
    pub transport: String,
    /// True if TLS ends here.
    pub is_encrypted: bool,
    /// The time at which the client connected, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A task for the driver.
#[derive(Debug)]
pub enum Event {
    /// The answer to [`World::bind`](crate::World::bind): the full JID, or the reason why none was
    /// bound.
    Bound(Link, Result<Jid, BindError>),
    /// End the stream of this session with an error, then call
    /// [`World::closed`](crate::World::closed).
    Close(Link, StreamError, &'static str),
    /// Read nothing from this session until [`Event::Resume`](crate::Event::Resume).
    Pause(Link),
    /// Read from this session again.
    Resume(Link),
    /// The connection of this session is dead although nobody has reported it: drop it.
    Lost(Link),
    /// The session is gone for good; its link may be used again.
    Released(Link),
    /// The journal has the count of the stanzas of this session that were handled; its client is
    /// connected to another node.
    Journaled(Link),
    /// The reply to a request of a connection that has not logged in; see [`crate::Guest`].
    GuestReply(u64, rookery_xml::Built),
    /// Tell from where and how the client of this session is connected, see
    /// [`World::with_peer`](crate::World::with_peer).
    Peer(Link, QuestionReply<Option<Peer>>),
    /// Answer a question of another node.
    Asked(DriverQuestion, QuestionReply<ByteBuf>),
    /// Take news from the driver of another node; see [`crate::DriverNews`].
    Told(Vec<u8>),
    /// The answer to [`World::look_up`](crate::World::look_up) or
    /// [`World::verify`](crate::World::verify).
    Login(u64, LoginAnswer),
    /// End the connections that are logging in to this account, see
    /// [`World::end_logins`](crate::World::end_logins).
    NoLogin(Jid),
}

/// The reason why a resource was not bound (RFC 6120 §7.7.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindError {
    /// The resource is not valid (`bad-request`).
    Malformed,
    /// Another session has the resource and keeps it (`conflict`).
    Conflict,
    /// The account has as many resources as it may (`resource-constraint`).
    TooMany,
    /// The account has been removed since it logged in (`not-allowed`).
    NoAccount,
    /// The store can't be asked at present (`resource-constraint`).
    Away,
    /// The store failed (`internal-server-error`).
    Store,
}

impl BindError {
    /// Returns the reason for a result of the store.
    pub(crate) fn of(error: &StoreError) -> Self {
        match error {
            StoreError::NoAccount => Self::NoAccount,
            error if error.is_temporary() => Self::Away,
            _ => Self::Store,
        }
    }

    /// Returns the stanza error to reply with.
    pub fn to_stanza_error(&self) -> StanzaError {
        match self {
            Self::Malformed => Condition::BadRequest.into(),
            Self::Conflict => Condition::Conflict.into(),
            Self::TooMany | Self::Away => Condition::ResourceConstraint.into(),
            Self::NoAccount => Condition::NotAllowed.into(),
            Self::Store => Condition::InternalServerError.into(),
        }
    }
}

/// The answer to a question of a connection that logs in.
#[derive(Debug)]
pub enum LoginAnswer {
    /// The credentials of the account, if there is one.
    Credentials(Option<Box<Credentials>>),
    /// The credentials of a disabled account: only a client that proves to have them is told that
    /// it is disabled.
    Disabled(Box<Credentials>),
    /// True if the password is the account's.
    Verified(bool),
    /// The account for which a token of an outside source is valid, and the time at which a session
    /// that begins with it has to end, in seconds since 1970.
    Identified(Jid, Option<u64>),
    /// The token isn't valid: the JSON that says why (RFC 7628 §3.2.2).
    BearerRefused(String),
    /// The tokens of a client.
    Tokens(Vec<StoredToken>),
    /// The token that a client gets, if it gets one.
    Token(Option<Issued>),
    /// The password is that of an account that is disabled.
    VerifiedDisabled,
    /// The store failed; the log has the reason.
    Failed,
}
