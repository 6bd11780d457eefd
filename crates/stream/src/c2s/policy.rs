//! The operator's policy for client streams, and the properties of one connection.

use rookery_base::Transport;
use rookery_sasl::{ChannelBindings, Mechanism, server::Decoy, to_offer};
use rookery_xml::Limits;

/// The policy for every client stream of a server. Shared behind an `Arc`; a reload makes a new one
/// for the streams that follow.
#[derive(Debug)]
pub struct Policy {
    /// The served domains. The first is the default: a stream error that precedes the choice of a
    /// host is sent in its name.
    pub hosts: Vec<Host>,
    /// Limits on one first-level element until the resource is bound.
    pub limits_before: Limits,
    /// Limits once the resource is bound. They are only announced here (XEP-0478), and enforced
    /// where the bound stream is read.
    pub limits_after: Limits,
    /// Seconds without traffic after which a stream that isn't bound is closed, as XEP-0478
    /// announces it.
    pub idle_before: Option<u32>,
    /// The seconds of silence after which a bound stream is closed, as XEP-0478 announces them.
    pub idle_after: Option<u32>,
    /// The SASL mechanisms that may be offered, in any order. A connection is offered those that it
    /// can support.
    pub mechanisms: Vec<Mechanism>,
    /// True if PLAIN may be used without TLS, where logging in without TLS is allowed at all. RFC
    /// 6120 §13.8.4 says no.
    pub plain_without_tls: bool,
    /// The challenges for accounts that don't exist; see [`Decoy`].
    pub decoy: Decoy,
    /// Failed authentications after which the stream is closed with `policy-violation`; RFC 6120
    /// §6.4.5 wants 2 to 5 retries.
    pub max_auth_failures: u32,
}

/// One served domain.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The domain, prepared as [`rookery_jid::prepare_domain`] does.
    pub name: String,
    /// The way in which clients log in to its accounts.
    pub login: LoginKind,
    /// True if accounts may be created over a client stream before login (XEP-0077).
    pub registration: bool,
    /// Logging in by XEP-0388, if that is offered.
    pub sasl2: Option<Sasl2>,
    /// Elements to announce in the stream features before login while login is possible, rendered.
    pub before_login_features: Vec<u8>,
    /// Elements to announce in the stream features after login, rendered (e.g. XEP-0115's `<c/>`).
    pub after_login_features: Vec<u8>,
}

/// The ways in which clients log in to the accounts of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoginKind {
    /// By passwords whose keys the owner has.
    #[default]
    Own,
    /// By SASL ANONYMOUS (XEP-0175): everybody gets an account for one session.
    Anonymous,
    /// By proofs for which an outside source vouches, which the owner asks.
    Source {
        /// True if it accepts passwords, which have to be sent to it.
        passwords: bool,
        /// True if it accepts tokens (RFC 7628).
        tokens: bool,
    },
}

/// The features that a client may request along with its login by XEP-0388.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sasl2 {
    /// True if sessions can be resumed (XEP-0198 §9.2).
    pub resumption: bool,
    /// True if clients can log in with tokens (XEP-0484).
    pub fast: bool,
    /// The features that can be enabled while a resource is bound (XEP-0386); `None` if it can't be
    /// bound this way.
    pub bind: Option<Vec<&'static str>>,
}

/// The properties of one connection. They change once at most: when TLS is established.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// True if the stream is encrypted.
    pub secure: bool,
    /// True if STARTTLS is possible: the server has a certificate, and TLS isn't established yet.
    pub tls_available: bool,
    /// True if a client may log in without TLS on this connection, e.g. because it comes from the
    /// same machine.
    pub plaintext_login_allowed: bool,
    /// The channel bindings of the TLS connection; empty without TLS.
    pub bindings: ChannelBindings,
    /// The transport of the stream; it decides whether there is stream management (XEP-0198) on it.
    pub transport: Transport,
}

impl Facts {
    /// Returns whether the client may authenticate now.
    pub(super) fn login_allowed(&self) -> bool {
        self.secure || self.plaintext_login_allowed
    }

    /// Returns whether `<starttls/>` is offered: the server has a certificate, and the connection
    /// isn't encrypted yet.
    pub(super) fn starttls_offered(&self) -> bool {
        self.tls_available && !self.secure
    }
}

impl Policy {
    /// Returns the mechanisms for a connection to a host, strongest first; none while login isn't
    /// allowed.
    pub(super) fn mechanisms_for(&self, facts: &Facts, host: Option<&Host>) -> Vec<Mechanism> {
        if !facts.login_allowed() {
            return Vec::new();
        }
        let shows_secrets = facts.secure || self.plain_without_tls;
        match host.map(|host| host.login).unwrap_or_default() {
            LoginKind::Own => {
                let mut mechanisms = to_offer(&facts.bindings, shows_secrets);
                mechanisms.retain(|mechanism| self.mechanisms.contains(mechanism));
                mechanisms
            }
            LoginKind::Anonymous => vec![Mechanism::Anonymous],
            LoginKind::Source { passwords, tokens } => {
                let tokens = (tokens && shows_secrets).then_some(Mechanism::OAuthBearer);
                tokens.into_iter().chain((passwords && shows_secrets).then_some(Mechanism::Plain)).collect()
            }
        }
    }

    /// Returns whether a host offers a mechanism, at least on an encrypted connection.
    pub(super) fn has_under_tls(&self, mechanism: Mechanism, host: Option<&Host>) -> bool {
        match (host.map(|host| host.login).unwrap_or_default(), mechanism) {
            (LoginKind::Own, Mechanism::Plain) => self.mechanisms.contains(&mechanism),
            (LoginKind::Source { passwords, .. }, Mechanism::Plain) => passwords,
            (LoginKind::Source { tokens, .. }, Mechanism::OAuthBearer) => tokens,
            _ => false,
        }
    }

    /// Returns the index of the host with a prepared name.
    pub(super) fn host_named(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }
}
