//! Outside sources that vouch for logins: the seam between a world and such a source.
//!
//! A [`Source`] is asked on the shard and answers later, from its own thread, as a store does:
//! only the login in question waits for it. It is never asked about a session, so an unreachable
//! one ends none.
//!
//! # Invariants
//!
//! * A source answers within its own deadline, or reports that it is unreachable; it bounds the
//!   questions that it works on and lets none wait endlessly.
//! * It vouches only for names of its own domain: the world makes the address.
//! * An account that is disabled here stays disabled, whatever the source says.

use std::collections::BTreeSet;
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use rookery_jid::Jid;
use rookery_observe::Histogram;

/// The way in which clients log in to the accounts of a domain.
#[derive(Debug, Clone, Default)]
pub enum LoginBy {
    /// By passwords whose keys are in the store.
    #[default]
    Own,
    /// By SASL ANONYMOUS (XEP-0175): everybody gets an account for one session, of which nothing is
    /// kept.
    Anonymous,
    /// By the statements of this source.
    Source(Arc<dyn Source>),
}

/// A source that knows whether clients are who they claim to be.
pub trait Source: Send + Sync + fmt::Debug {
    /// Returns the kinds of proofs that clients may show.
    fn takes(&self) -> Takes;

    /// Returns whether an account is created for a user whom the source vouches for and who has
    /// none.
    fn makes_accounts(&self) -> bool;

    /// Judges a client's proof.
    fn judge(&self, proof: Proof) -> Judging;

    /// Returns whether browsers can sign in there.
    fn signs_in(&self) -> bool {
        false
    }

    /// Returns the address to which a browser goes to sign in; `None` if the source is away.
    fn entrance(&self, _: SignIn) -> Entrance {
        Box::pin(ready(None))
    }

    /// Judges the code with which a browser comes back.
    fn redeem(&self, _code: String, _: SignIn) -> Judging {
        Box::pin(ready(Judgement::Away))
    }

    /// Returns the statistics of its questions since the start.
    fn statistics(&self) -> Vec<SourceSeen> {
        Vec::new()
    }

    /// Returns the groups that it knows, as far as they were read. The result is the same object
    /// until they change.
    fn groups(&self) -> Option<Arc<Vec<Group>>> {
        None
    }
}

/// The questions that a source was asked, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceSeen {
    /// The key of the configuration that has it: `url`, `ldap` or `issuer`.
    pub name: &'static str,
    /// Proofs by their results, in the order of [`SourceSeen::ANSWERS`].
    pub answers: [u64; SourceSeen::ANSWERS.len()],
    /// The times until an answer came, or until none was awaited any more, including the wait for a
    /// turn.
    pub seconds: Histogram,
    /// Questions that wait.
    pub waiting: usize,
    /// True if it is considered unreachable, and asked only now and then.
    pub is_away: bool,
}

impl SourceSeen {
    /// The results, in order: it accepts the proof; it refuses; it hasn't answered in time; it was
    /// not asked, since too many questions wait or it is unreachable; and an earlier acceptance is
    /// still valid.
    pub const ANSWERS: [&str; 5] = ["yes", "no", "none", "unasked", "remembered"];
}

/// A browser on its way to sign in at a source and back (OpenID Connect Core 1.0 §3.1, RFC 7636).
/// All texts but the first are random.
#[derive(Clone)]
pub struct SignIn {
    /// The address to which it comes back.
    pub back: String,
    /// The text by which the returning browser is recognised.
    pub state: String,
    /// The text that the token has to contain.
    pub nonce: String,
    /// The text whose hash is sent first, and which then redeems the code.
    pub verifier: String,
}

impl fmt::Debug for SignIn {
    /// Writes none of the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn").field("back", &self.back).finish_non_exhaustive()
    }
}

/// An address that is still to come.
pub type Entrance = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Accounts that are each other's contacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The name that members see as the group's in their rosters.
    pub name: String,
    /// The bare JIDs of its members.
    pub members: BTreeSet<Jid>,
}

/// Kinds of proofs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Takes {
    /// True if clients may show passwords, by PLAIN.
    pub passwords: bool,
    /// True if clients may show tokens, by OAUTHBEARER (RFC 7628).
    pub tokens: bool,
}

/// The proof that a client has shown.
pub enum Proof {
    /// The password of an account.
    Password {
        /// The bare JID.
        account: Jid,
        /// The password, prepared by SASLprep.
        password: String,
    },
    /// A token of somebody whom the source trusts.
    Token(String),
}

impl fmt::Debug for Proof {
    /// Writes neither password nor token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { account, .. } => {
                f.debug_struct("Password").field("account", account).finish_non_exhaustive()
            }
            Self::Token(_) => f.debug_tuple("Token").finish_non_exhaustive(),
        }
    }
}

/// The answer of a source that is still to come.
pub type Judging = Pin<Box<dyn Future<Output = Judgement> + Send>>;

/// The answer of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The proof is good.
    Good {
        /// The local part that a token is good for; a password is good for the account that was
        /// named with it.
        username: Option<String>,
        /// The time at which a session that begins with it has to end, in seconds since 1970;
        /// `None` if it may continue.
        until_s: Option<u64>,
    },
    /// The proof is not good.
    Bad {
        /// The JSON that tells this to a client that has shown a token (RFC 7628 §3.2.2).
        why: String,
    },
    /// The source can't judge the proof at present; its log says more.
    Away,
}
