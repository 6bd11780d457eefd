//! A logged-in stream that continues elsewhere: the state of its machine as data.
//!
//! The client's connection stays where it arrived; the process that is home to its account gets
//! this, and from then on the connection's bytes.

use std::sync::Arc;

use rookery_jid::Jid;
use rookery_sasl::{ChannelBindings, Mechanism, TokenMechanism};
use rookery_xml::Scanner;
use serde::{Deserialize, Serialize};

use super::sasl2::inline::Inline;
use super::sasl2::request::Sasl2Request;
use super::{C2s, C2sPhase, Facts, Policy, StreamIds};
use crate::opening::Opening;
use rookery_base::Transport;

/// The state of a stream between its authentication and what follows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandOver {
    account: Jid,
    host: String,
    lang: Option<String>,
    prefix: String,
    prefixes: Vec<(String, String)>,
    client: Option<Jid>,
    mechanism: Option<String>,
    is_secure: bool,
    plaintext_login_allowed: bool,
    exporter: Option<[u8; 32]>,
    server_end_point: Option<Vec<u8>>,
    opened: bool,
    /// The client's requests along with its login, and the data that its authentication ended with;
    /// `None` if it begins its stream again.
    inline: Option<(Sasl2Request, Option<Vec<u8>>)>,
    #[serde(skip)]
    later: LaterHandOver,
}

/// The part of a [`HandOver`] that 0.2.0 didn't have. It stands at the end of a message, where an
/// earlier version doesn't read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterHandOver {
    /// See [`C2s::holds_until`].
    until_s: Option<u64>,
    /// True if the client has begun its stream again, and has got the features.
    has_begun_again: bool,
}

impl HandOver {
    /// Returns the account that has logged in.
    pub fn account(&self) -> &Jid {
        &self.account
    }

    /// Returns whether TLS protects the stream.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns the part that travels apart.
    pub fn later(&self) -> LaterHandOver {
        self.later
    }

    /// Returns the state with the part that has travelled apart.
    #[must_use]
    pub fn with_later(self, later: LaterHandOver) -> Self {
        Self { later, ..self }
    }
}

impl C2s {
    /// Returns whether the client has logged in and is to begin its stream again.
    pub fn is_to_begin_again(&self) -> bool {
        self.account.is_some() && matches!(self.phase, C2sPhase::Header(_))
    }

    /// Returns the state of a stream that has just logged in, or has begun again after that; `None`
    /// at any other time.
    pub fn hand_over(self) -> Option<HandOver> {
        let host = self.host().map(|host| host.name.clone()).unwrap_or_default();
        let has_begun_again = matches!(self.phase, C2sPhase::Bind);
        let inline = match self.phase {
            C2sPhase::Header(_) | C2sPhase::Bind => None,
            C2sPhase::Inline(inline) => Some(inline.into_request()?),
            _ => return None,
        };
        Some(HandOver {
            account: self.account?,
            host,
            lang: self.lang,
            prefix: self.prefix,
            prefixes: self.prefixes,
            client: self.client,
            mechanism: self.mechanism.map(str::to_owned),
            later: LaterHandOver { until_s: self.until_s, has_begun_again },
            is_secure: self.facts.secure,
            plaintext_login_allowed: self.facts.plaintext_login_allowed,
            exporter: self.facts.bindings.exporter,
            server_end_point: self.facts.bindings.server_end_point,
            opened: self.opened,
            inline,
        })
    }

    /// Returns a machine that continues a stream; `None` if its host is not served here.
    pub fn taken_over(policy: Arc<Policy>, given: HandOver, transport: Transport, ids: StreamIds) -> Option<Self> {
        let host = policy.host_named(&given.host)?;
        let facts = Facts {
            secure: given.is_secure,
            tls_available: false,
            plaintext_login_allowed: given.plaintext_login_allowed,
            bindings: ChannelBindings { exporter: given.exporter, server_end_point: given.server_end_point },
            transport,
        };
        let phase = match given.inline {
            None if given.later.has_begun_again => C2sPhase::Bind,
            None => C2sPhase::Header(Opening::default()),
            Some((request, additional)) => C2sPhase::Inline(Box::new(Inline::new(request, additional))),
        };
        Some(Self {
            policy,
            facts,
            ids,
            host,
            lang: given.lang,
            prefix: given.prefix,
            prefixes: given.prefixes,
            client: given.client,
            account: Some(given.account),
            auth_failures: 0,
            untimely: 0,
            mechanism: given.mechanism.as_deref().and_then(known_name),
            until_s: given.later.until_s,
            scanner: Scanner::new(),
            opened: given.opened,
            phase,
            pending: None,
        })
    }
}

/// Returns the name of a mechanism as it is written here.
fn known_name(name: &str) -> Option<&'static str> {
    let token = || TokenMechanism::from_name(name).map(TokenMechanism::name);
    Mechanism::from_name(name).map(Mechanism::name).or_else(token)
}
