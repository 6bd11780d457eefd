//! Events of a client stream, for its owner.

use std::fmt;

use rookery_jid::Jid;
use rookery_sasl::{Failure, TokenMechanism};

use super::sasl2::fast::FastSlot;

/// Gives the ids of streams: 128 bits each, unique, and unpredictable because other protocols build
/// on that (RFC 6120 §4.7.3).
pub type StreamIds = Box<dyn FnMut() -> u128 + Send>;

/// The outcome of one call of [`C2s::read`](super::C2s::read).
#[derive(Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// Bytes of the input that were consumed, from its start.
    pub consumed: usize,
    /// The event that the owner has to deal with before anything else is read.
    pub event: Option<C2sEvent>,
}

/// A task that only the owner of the stream can do, or news that it should know.
#[derive(PartialEq, Eq)]
pub enum C2sEvent {
    /// Send the output, then begin TLS on the connection. Bytes received after the consumed ones
    /// must not reach the TLS machine. Answer: [`tls_started`](super::C2s::tls_started) when the
    /// handshake is complete.
    StartTls,
    /// Load the credentials of an account, which need not exist. Answer:
    /// [`credentials`](super::C2s::credentials) or [`store_failed`](super::C2s::store_failed).
    Credentials {
        /// The bare JID of the account.
        account: Jid,
    },
    /// Check a password off the shard, since that takes milliseconds; take as long if the account
    /// doesn't exist. Answer: [`verified`](super::C2s::verified) or
    /// [`store_failed`](super::C2s::store_failed).
    Verify {
        /// The bare JID of the account.
        account: Jid,
        /// The password, prepared by SASLprep.
        password: String,
    },
    /// Admit a client that proves nothing (RFC 4505), with an account that is for this session
    /// alone. Answer: [`verified`](super::C2s::verified) with true, or
    /// [`store_failed`](super::C2s::store_failed).
    Anonymous {
        /// The bare JID of the account, which nobody else has ever had.
        account: Jid,
    },
    /// Find the account for which a token is valid (RFC 7628), and check whether it is the
    /// requested one. Answer: [`identified`](super::C2s::identified),
    /// [`bearer_refused`](super::C2s::bearer_refused),
    /// [`verified_disabled`](super::C2s::verified_disabled) or
    /// [`store_failed`](super::C2s::store_failed).
    Bearer {
        /// The token, as the client has sent it.
        token: String,
        /// The bare JID of the account that the client asks for, if it names one.
        wanted: Option<Jid>,
    },
    /// Load the tokens of a client of an account, which need not exist (XEP-0484). Answer:
    /// [`tokens`](super::C2s::tokens) or [`store_failed`](super::C2s::store_failed).
    Tokens {
        /// The bare JID of the account.
        account: Jid,
        /// The identifier of the client's installation.
        client: String,
    },
    /// A client that has logged in has used a token, or wants one. Answer:
    /// [`token`](super::C2s::token), when the change is stored.
    Token {
        /// The bare JID of the account.
        account: Jid,
        /// The identifier of the client's installation.
        client: String,
        /// The token that it has used, by which older ones become invalid.
        used: Option<FastSlot>,
        /// True if that token is to become invalid too.
        invalidate: bool,
        /// The mechanism for which it wants a token. Without a request it gets one only if the
        /// token that it has used is due to be replaced.
        issue: Option<TokenMechanism>,
    },
    /// An authentication failed and the client has been told; for throttling and the log. No
    /// answer.
    Failed {
        /// The bare JID of the account, if it is known.
        account: Option<Jid>,
        /// The failure that the client was told.
        failure: Failure,
    },
    /// The client has logged in and has been told. No answer.
    Authenticated {
        /// The bare JID of the account.
        account: Jid,
    },
    /// The client has begun its stream again after its login, and has got the features (RFC 6120
    /// §6.4.6). No answer.
    BegunAgain,
    /// The client wants a resource. Answer: [`bound`](super::C2s::bound).
    Bind {
        /// The requested resource, prepared; `None` leaves the choice to the server (RFC 6120
        /// §7.6).
        resource: Option<String>,
    },
    /// The client wants a resource along with its login (XEP-0386). A session that already has it
    /// belongs to the same client and makes room. Answer:
    /// [`bound_inline`](super::C2s::bound_inline).
    BindInline {
        /// The resource, prepared.
        resource: String,
    },
    /// The client wants to resume a session whose connection it has lost (XEP-0198 §5). Answer:
    /// [`resumed`](super::C2s::resumed) or [`not_resumed`](super::C2s::not_resumed).
    Resume {
        /// The id of the session.
        previd: String,
        /// The number of the server's stanzas that the client has handled.
        h: u32,
    },
    /// An iq about in-band registration before login (XEP-0077), for the host that the stream is
    /// with. Answer: [`reply_before_login`](super::C2s::reply_before_login).
    BeforeLogin {
        /// The whole stanza, written again without `xmlns` at its root.
        stanza: Vec<u8>,
    },
    /// The stream is over: send the output, then close the connection.
    End,
}

impl fmt::Debug for C2sEvent {
    /// Writes everything but the password and the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartTls => f.write_str("StartTls"),
            Self::Credentials { account } => f.debug_struct("Credentials").field("account", account).finish(),
            Self::Verify { account, .. } => f.debug_struct("Verify").field("account", account).finish_non_exhaustive(),
            Self::Anonymous { account } => f.debug_struct("Anonymous").field("account", account).finish(),
            Self::Bearer { wanted, .. } => f.debug_struct("Bearer").field("wanted", wanted).finish_non_exhaustive(),
            Self::Failed { account, failure } => {
                f.debug_struct("Failed").field("account", account).field("failure", failure).finish()
            }
            Self::Tokens { account, client } => {
                f.debug_struct("Tokens").field("account", account).field("client", client).finish()
            }
            Self::Token { account, client, used, invalidate, issue } => f
                .debug_struct("Token")
                .field("account", account)
                .field("client", client)
                .field("used", used)
                .field("invalidate", invalidate)
                .field("issue", issue)
                .finish(),
            Self::Authenticated { account } => f.debug_struct("Authenticated").field("account", account).finish(),
            Self::BegunAgain => f.write_str("BegunAgain"),
            Self::Bind { resource } => f.debug_struct("Bind").field("resource", resource).finish(),
            Self::BindInline { resource } => f.debug_struct("BindInline").field("resource", resource).finish(),
            Self::Resume { previd, h } => f.debug_struct("Resume").field("previd", previd).field("h", h).finish(),
            Self::BeforeLogin { .. } => f.debug_struct("BeforeLogin").finish_non_exhaustive(),
            Self::End => f.write_str("End"),
        }
    }
}

/// The part of its negotiation that a session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiatedSession {
    /// The full JID.
    pub jid: Jid,
    /// The stream's `xml:lang`: the language of stanzas that name none (RFC 6120 §4.7.4).
    pub lang: Option<String>,
    /// Prefixes other than `stream` that the client's stream header declares, with their
    /// namespaces.
    pub prefixes: Vec<(String, String)>,
}
