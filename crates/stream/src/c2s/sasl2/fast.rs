//! Logging in with a token, and obtaining one (XEP-0484).
//!
//! Tokens belong to one installation of a client, which has at most two: the one in use, and a
//! newer one that it may not have received (XEP-0484 §6.1). The owner stores them; this side
//! checks the presented one.

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_jid::Jid;
use rookery_sasl::token::Presented;
use rookery_sasl::{Failure, TokenKey, TokenMechanism};
use rookery_xml::{Element, Writer, ns};

use super::super::{C2s, C2sEvent, C2sPhase};
use super::request::Sasl2Request;

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// The place of the token among the client's two.
    pub slot: FastSlot,
    /// The only mechanism that it may be used with.
    pub mechanism: TokenMechanism,
    /// The key with which proofs are verified, and from which the token can't be derived.
    pub key: TokenKey,
    /// The time at which it was made, in seconds since 1970.
    pub issued: u64,
    /// The time until which it is valid, in seconds since 1970.
    pub expires: u64,
}

/// The two places for tokens of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FastSlot {
    /// The client has used it.
    Current,
    /// The client has been sent it, and has not used it.
    New,
}

/// A token for a client.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The token itself.
    pub token: String,
    /// The time until which it is valid, as XEP-0082 writes it.
    pub expiry: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

/// A token that was presented and is to be checked.
pub(crate) struct Check {
    account: Jid,
    mechanism: TokenMechanism,
    proof: Vec<u8>,
    request: Sasl2Request,
}

impl C2s {
    /// Answers [`C2sEvent::Tokens`] with the client's tokens, and the time in seconds since 1970.
    pub fn tokens(&mut self, found: &[StoredToken], now: u64, out: &mut Vec<u8>) {
        let Some(check) = self.take_check() else { return };
        let Check { account, mechanism, proof, mut request } = *check;
        let binding = mechanism.binding(&self.facts.bindings).unwrap_or_default();
        let is_it = |token: &&StoredToken| token.mechanism == mechanism && token.key.proves(binding, &proof);
        match found.iter().find(is_it) {
            Some(token) if token.expires > now => {
                request.used = Some(token.slot);
                let additional = Some(token.key.responder(binding));
                self.authenticated2(account, additional, request, out);
            }
            Some(_) => self.auth_failed(Some(account), Failure::CredentialsExpired, ns::SASL2, out),
            None => self.auth_failed(Some(account), Failure::NotAuthorized, ns::SASL2, out),
        }
    }

    /// Answers [`C2sEvent::Token`] with the token that the client gets, if it gets one.
    pub fn token(&mut self, issued: Option<&Issued>) {
        let token = issued.map(|issued| {
            let mut token = Writer::with_ns("token", ns::FAST);
            token.attr("token", &issued.token).attr("expiry", &issued.expiry);
            token.finish()
        });
        self.token_inline(token.as_ref());
    }

    /// Begins an authentication by token.
    pub(super) fn present(
        &mut self,
        authenticate: &Element,
        mechanism: TokenMechanism,
        request: Sasl2Request,
        out: &mut Vec<u8>,
    ) {
        if !self.token_mechanisms().any(|offered| offered == mechanism) {
            return self.auth_failed(None, Failure::InvalidMechanism, ns::SASL2, out);
        }
        let initial = authenticate.child_text("initial-response", ns::SASL2).unwrap_or_default();
        let Ok(initial) = STANDARD.decode(initial) else {
            return self.auth_failed(None, Failure::IncorrectEncoding, ns::SASL2, out);
        };
        let (Some(presented), Some(client)) = (Presented::parse(&initial), request.client.clone()) else {
            return self.auth_failed(None, Failure::MalformedRequest, ns::SASL2, out);
        };
        let domain = self.host().map(|host| host.name.as_str()).unwrap_or_default();
        let Ok(account) = Jid::new(Some(&presented.username), domain, None) else {
            return self.auth_failed(None, Failure::NotAuthorized, ns::SASL2, out);
        };
        self.phase =
            C2sPhase::Tokens(Box::new(Check { account: account.clone(), mechanism, proof: presented.proof, request }));
        self.pending = Some(C2sEvent::Tokens { account, client });
    }

    /// Takes note that the owner couldn't load the tokens; returns `false` if they were not
    /// requested.
    pub(in super::super) fn tokens_failed(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(check) = self.take_check() else { return false };
        self.auth_failed(Some(check.account), Failure::TemporaryAuthFailure, ns::SASL2, out);
        true
    }

    /// Returns the mechanisms for tokens on this connection, strongest first; none without TLS
    /// (XEP-0484 §7).
    pub(in super::super) fn token_mechanisms(&self) -> impl Iterator<Item = TokenMechanism> + '_ {
        let is_on = self.host().and_then(|host| host.sasl2.as_ref()).is_some_and(|sasl2| sasl2.fast);
        TokenMechanism::to_offer(&self.facts.bindings).filter(move |_| is_on && self.facts.secure)
    }

    fn take_check(&mut self) -> Option<Box<Check>> {
        match std::mem::replace(&mut self.phase, C2sPhase::Login) {
            C2sPhase::Tokens(check) => Some(check),
            other => {
                self.phase = other;
                None
            }
        }
    }
}
