//! The server's side of an authentication.
//!
//! A [`ServerExchange`] lives from `<auth/>` to `<success/>` or `<failure/>`. Every call returns a
//! [`ServerStep`] that says what to do next. After [`ServerStep::Failure`] or
//! [`ServerStep::Success`] it is finished and is dropped.
//!
//! ```text
//! SCRAM   start ─► NeedCredentials ─► credentials() ─► Challenge ─► respond() ─► Success | Failure
//! PLAIN   start ─► Verify ─► (Decoy::verify in the background) ─► verified() ─► Success | Failure
//! ```
//!
//! ```text
//! ANONYMOUS    start ─► Anonymous ─► named() ─► Success
//! OAUTHBEARER  start ─► Bearer ─► named() ─► Success
//!                              └► refused() ─► Challenge ─► respond() ─► Failure
//! ```
//!
//! Either way `start` returns an empty challenge if the client sent no initial response (RFC 6120
//! §6.4.2), except for ANONYMOUS, whose message may be empty as well (XEP-0175 §3).

use std::borrow::Cow;
use std::fmt;

use crate::{BindingType, ChannelBindings, Credentials, Failure, MAX_MESSAGE, Mechanism, downgrade, prep};

mod bearer;
mod decoy;
mod plain;
mod proven;
mod scram;

pub use decoy::Decoy;

/// The stream's announcements before the client chose. All of them enter the exchange.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The domain that the client connected to: an authzid has to be `username@domain`.
    pub domain: &'a str,
    /// The mechanisms in the list that the client has chosen from, in any order.
    pub mechanisms: &'a [Mechanism],
    /// The channel bindings of the connection.
    pub bindings: &'a ChannelBindings,
    /// True if the types of `bindings` were announced by XEP-0440. It changes the hash of XEP-0474.
    pub binding_types_announced: bool,
}

/// The next step of an exchange.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerStep {
    /// Look up the account of `username` and call [`ServerExchange::credentials`].
    NeedCredentials {
        /// The SASLprep'd user name. It is the local part of the account's address, but not yet
        /// prepared as one (RFC 7622).
        username: String,
        /// The address that the client asked to act as. It has been checked to be the account's
        /// own.
        authzid: Option<String>,
    },
    /// Look up the account of `username`, run [`Decoy::verify`] where a few milliseconds don't
    /// hurt, call [`ServerExchange::verified`].
    Verify {
        /// As in [`ServerStep::NeedCredentials`].
        username: String,
        /// The password, SASLprep'd.
        password: String,
        /// As in [`ServerStep::NeedCredentials`].
        authzid: Option<String>,
    },
    /// Make a name that nobody has and call [`ServerExchange::named`].
    Anonymous,
    /// Have this token checked, and call [`ServerExchange::named`] with the user name that it is
    /// valid for, or [`ServerExchange::refused`].
    Bearer {
        /// The token, as it was sent.
        token: String,
        /// The user name of the address that the client asked to act as, whose domain has been
        /// checked.
        wanted: Option<String>,
    },
    /// Send a `<challenge/>` with these bytes (in Base64) and pass the response to
    /// [`ServerExchange::respond`].
    Challenge(Vec<u8>),
    /// The client has proven its identity. Send `<success/>` with `additional` (in Base64), or
    /// empty if there is none.
    Success {
        /// As in [`ServerStep::NeedCredentials`].
        username: String,
        /// SCRAM's server-final message, which proves the server to the client. Empty for PLAIN.
        additional: Vec<u8>,
    },
    /// Send `<failure/>` with this condition.
    Failure(Failure),
}

impl fmt::Debug for ServerStep {
    /// Writes no password and no proof, so that a step may be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerStep::NeedCredentials { username, .. } => write!(f, "NeedCredentials({username:?})"),
            ServerStep::Verify { username, .. } => write!(f, "Verify({username:?})"),
            ServerStep::Anonymous => f.write_str("Anonymous"),
            ServerStep::Bearer { wanted, .. } => write!(f, "Bearer({wanted:?})"),
            ServerStep::Challenge(bytes) => write!(f, "Challenge({} bytes)", bytes.len()),
            ServerStep::Success { username, .. } => write!(f, "Success({username:?})"),
            ServerStep::Failure(failure) => write!(f, "Failure({failure})"),
        }
    }
}

impl From<Failure> for ServerStep {
    fn from(failure: Failure) -> ServerStep {
        ServerStep::Failure(failure)
    }
}

/// One authentication in progress. Four words that point to a few hundred bytes; drop it at the
/// end.
pub struct ServerExchange {
    state: ServerState,
}

enum ServerState {
    /// The client sent no initial response and was asked for one.
    Initial(Box<ServerContext>),
    Scram(Box<scram::Scram>),
    /// PLAIN waits for the verdict on this user.
    Plain(String),
    /// ANONYMOUS and OAUTHBEARER wait for the name.
    Nameless,
    /// OAUTHBEARER has sent the reason, and waits for the client to acknowledge it (RFC 7628
    /// §3.2.3).
    Refused,
    Finished,
}

/// The offer, kept until the client's first message.
pub(crate) struct ServerContext {
    pub(crate) mechanism: Mechanism,
    pub(crate) domain: String,
    pub(crate) plus_offered: bool,
    pub(crate) bindings: ChannelBindings,
    /// Value of XEP-0474's attribute; empty for PLAIN.
    pub(crate) downgrade: String,
}

impl ServerExchange {
    /// Begins with the `mechanism` that the client named and its initial response, decoded from
    /// Base64.
    ///
    /// `None` stands for a client that sent no initial response at all; `Some(b"")` for one that
    /// sent `=` (RFC 6120 §6.4.2). A mechanism that wasn't offered fails with
    /// [`Failure::InvalidMechanism`].
    pub fn start(mechanism: Mechanism, initial: Option<&[u8]>, offer: &Offer<'_>) -> (ServerExchange, ServerStep) {
        if !offer.mechanisms.contains(&mechanism) {
            return (ServerExchange { state: ServerState::Finished }, Failure::InvalidMechanism.into());
        }
        let context = ServerContext::new(mechanism, offer);
        let mut exchange = ServerExchange { state: ServerState::Initial(Box::new(context)) };
        let step = match initial {
            Some(message) => exchange.respond(message),
            None if mechanism == Mechanism::Anonymous => exchange.respond(b""),
            None => ServerStep::Challenge(Vec::new()),
        };
        (exchange, step)
    }

    /// Takes the next `<response/>`, decoded from Base64.
    pub fn respond(&mut self, message: &[u8]) -> ServerStep {
        if message.len() > MAX_MESSAGE {
            self.state = ServerState::Finished;
            return Failure::MalformedRequest.into();
        }
        match std::mem::replace(&mut self.state, ServerState::Finished) {
            ServerState::Initial(context) => self.first(&context, message),
            ServerState::Scram(scram) => scram.finish(message).unwrap_or_else(ServerStep::Failure),
            ServerState::Refused => Failure::NotAuthorized.into(),
            // An unexpected response.
            ServerState::Plain(_) | ServerState::Nameless | ServerState::Finished => Failure::MalformedRequest.into(),
        }
    }

    /// Continues after [`ServerStep::NeedCredentials`]: `None` if there is no such account, which
    /// the client can't tell from a wrong password. If the look-up itself failed, drop the exchange
    /// and send [`Failure::TemporaryAuthFailure`].
    pub fn credentials(&mut self, found: Option<&Credentials>, decoy: &Decoy) -> ServerStep {
        match &mut self.state {
            ServerState::Scram(scram) => scram.challenge(found, decoy).unwrap_or_else(|failure| self.fail(failure)),
            _ => self.fail(Failure::TemporaryAuthFailure),
        }
    }

    /// Continues after [`ServerStep::Verify`], with the verdict of [`Decoy::verify`].
    pub fn verified(&mut self, correct: bool) -> ServerStep {
        match std::mem::replace(&mut self.state, ServerState::Finished) {
            ServerState::Plain(username) if correct => ServerStep::Success { username, additional: Vec::new() },
            ServerState::Plain(_) => Failure::NotAuthorized.into(),
            _ => Failure::TemporaryAuthFailure.into(),
        }
    }

    /// Continues after [`ServerStep::Anonymous`] or [`ServerStep::Bearer`], with the name of the
    /// user.
    pub fn named(&mut self, username: String) -> ServerStep {
        match std::mem::replace(&mut self.state, ServerState::Finished) {
            ServerState::Nameless => ServerStep::Success { username, additional: Vec::new() },
            _ => Failure::TemporaryAuthFailure.into(),
        }
    }

    /// Continues after [`ServerStep::Bearer`] with a token that isn't valid: the client is told
    /// why, by the JSON of RFC 7628 §3.2.2, and fails when it has acknowledged that.
    pub fn refused(&mut self, why: &str) -> ServerStep {
        match std::mem::replace(&mut self.state, ServerState::Finished) {
            ServerState::Nameless => {
                self.state = ServerState::Refused;
                ServerStep::Challenge(why.as_bytes().to_vec())
            }
            _ => Failure::TemporaryAuthFailure.into(),
        }
    }

    fn first(&mut self, context: &ServerContext, message: &[u8]) -> ServerStep {
        let step = match context.mechanism.hash() {
            None if context.mechanism == Mechanism::Anonymous => is_trace(message)
                .then_some((ServerState::Nameless, ServerStep::Anonymous))
                .ok_or(Failure::MalformedRequest),
            None if context.mechanism == Mechanism::OAuthBearer => {
                bearer::read(context, message).map(|step| (ServerState::Nameless, step))
            }
            None => plain::read(context, message)
                .map(|plain| (ServerState::Plain(plain.username.clone()), plain.into_step())),
            Some(hash) => scram::Scram::read(context, hash, message)
                .map(|(scram, step)| (ServerState::Scram(Box::new(scram)), step)),
        };
        match step {
            Ok((state, step)) => {
                self.state = state;
                step
            }
            Err(failure) => failure.into(),
        }
    }

    fn fail(&mut self, failure: Failure) -> ServerStep {
        self.state = ServerState::Finished;
        failure.into()
    }
}

impl ServerContext {
    fn new(mechanism: Mechanism, offer: &Offer<'_>) -> ServerContext {
        let downgrade = mechanism.hash().map(|hash| {
            let mechanisms: Vec<_> = offer.mechanisms.iter().map(|mechanism| mechanism.name()).collect();
            let types: Vec<_> = offer.bindings.types().map(BindingType::name).collect();
            downgrade::attribute(hash, &mechanisms, offer.binding_types_announced.then_some(&types))
        });
        ServerContext {
            mechanism,
            domain: offer.domain.to_owned(),
            plus_offered: offer.mechanisms.iter().any(|mechanism| mechanism.binds()),
            bindings: offer.bindings.clone(),
            downgrade: downgrade.unwrap_or_default(),
        }
    }

    /// Returns the prepared user name of an address of this domain that a client wants to act as.
    fn own(&self, authzid: &str) -> Result<String, Failure> {
        let (local, domain) = authzid.split_once('@').ok_or(Failure::InvalidAuthzid)?;
        let username = prep::saslprep(local).filter(|_| prep::same_domain(domain, &self.domain));
        username.map(Cow::into_owned).ok_or(Failure::InvalidAuthzid)
    }

    /// Prepares the user name and checks that nobody asks for another's address (RFC 6120 §6.3.8).
    fn user(&self, username: &str, authzid: Option<&str>) -> Result<String, Failure> {
        let username = prep::saslprep(username).ok_or(Failure::NotAuthorized)?.into_owned();
        if let Some(authzid) = authzid {
            let (local, domain) = authzid.split_once('@').ok_or(Failure::InvalidAuthzid)?;
            let own = prep::same_local(local, &username) && prep::same_domain(domain, &self.domain);
            own.then_some(()).ok_or(Failure::InvalidAuthzid)?;
        }
        Ok(username)
    }
}

/// Returns whether a message is one of ANONYMOUS: at most 255 characters for those who read traces
/// (RFC 4505 §2), which nobody does here.
fn is_trace(message: &[u8]) -> bool {
    std::str::from_utf8(message).is_ok_and(|text| text.chars().count() <= MOST_TRACED && !text.contains('\0'))
}

/// Characters that a client may say of itself with ANONYMOUS.
const MOST_TRACED: usize = 255;

#[cfg(test)]
mod tests;
