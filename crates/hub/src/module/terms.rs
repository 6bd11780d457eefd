//! The vocabulary of modules: targets, occasions, decisions of filters, kinds of logins.

use rookery_base::Transport;
use rookery_jid::JidRef;

/// The kind of entity that an IQ is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// A domain of this server.
    Server,
    /// An account: its bare JID, or no address at all (RFC 6120 §10.3.3).
    Account,
}

/// The moment at which a filter sees a stanza, relative to the other filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// May refuse: blocking, access rules.
    Guard,
    /// May act on it or take it: the feature itself.
    Act,
    /// Only looks, and may add notes: archives, copies, counters.
    Record,
}

/// The decision of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Pass,
    /// The module has handled the stanza: nobody else sees it.
    Taken,
}

/// The part of a session that a module takes along to another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carry {
    /// The module has no state for the session, which can continue elsewhere.
    Nothing,
    /// The state that [`Hooks::session_carried`](crate::Hooks::session_carried) gives back there.
    State(Vec<u8>),
    /// The session can't continue elsewhere: it ends with its process.
    Impossible,
}

/// A login that has succeeded or failed.
#[derive(Debug, Clone, Copy)]
pub struct LoginSeen<'a> {
    /// The full JID of the session, or the account for which the login failed; `None` if that is
    /// not known.
    pub who: Option<JidRef<'a>>,
    /// The domain that the client wanted to log in to.
    pub domain: &'a str,
    /// The address of the client.
    pub address: std::net::IpAddr,
    /// The transport of the stream.
    pub transport: Transport,
    /// The mechanism, if one was chosen.
    pub mechanism: Option<&'static str>,
    /// The condition that the client was told if the login failed (RFC 6120 §6.5).
    pub failure: Option<&'static str>,
}

/// A connection without a session, as in-band registration sees it.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// The driver's number for the connection; handed back with the answer.
    pub connection: u64,
    /// The address that it comes from.
    pub address: std::net::IpAddr,
    /// True if nobody on the way can read the contents of the stream.
    pub secure: bool,
}
