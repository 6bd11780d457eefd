//! The steps from the end of an authentication to `<success/>`: a token (XEP-0484), resumption
//! (XEP-0198 §9.2), else binding (XEP-0386). The owner is asked about each.

use std::mem;

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_jid::{Jid, prepare_resource};
use rookery_xml::{Built, Element, Writer, ns};

use super::super::features::{self, FeatureOffer};
use super::super::{C2s, C2sEvent, C2sPhase, resume};
use super::request::{Features, Sasl2Request};
use crate::error::{Condition, StanzaError};

/// The steps that are still to be taken, and the results of the earlier ones.
pub(crate) struct Inline {
    request: Sasl2Request,
    additional: Option<Vec<u8>>,
    /// The results that the client will be told besides its address.
    results: Vec<Element>,
    waits: Waits,
}

/// The owner's answer that the stream waits for.
enum Waits {
    Nothing,
    /// To [`C2sEvent::Token`].
    Token,
    /// To [`C2sEvent::Resume`] of that id.
    Resume(String),
    /// To [`C2sEvent::BindInline`], with these features.
    Bind(Features),
}

impl Inline {
    pub fn new(request: Sasl2Request, additional: Option<Vec<u8>>) -> Self {
        Self { request, additional, results: Vec::new(), waits: Waits::Nothing }
    }

    /// Returns the parts that it was made of; `None` if a step has been taken.
    pub fn into_request(self) -> Option<(Sasl2Request, Option<Vec<u8>>)> {
        let is_untouched = self.results.is_empty() && matches!(self.waits, Waits::Nothing);
        is_untouched.then_some((self.request, self.additional))
    }

    fn add(&mut self, result: &Built) {
        // The element comes from the writer, so it can be read.
        self.results.extend(Element::parse(result.bytes()));
    }
}

impl C2s {
    /// Returns the client's wishes for the session that [`C2sEvent::BindInline`] asks for, to be
    /// carried out once it is bound.
    pub fn inline_features(&self) -> Option<Features> {
        match &self.phase {
            C2sPhase::Inline(inline) => match inline.waits {
                Waits::Bind(features) => Some(features),
                _ => None,
            },
            _ => None,
        }
    }

    /// Answers [`C2sEvent::BindInline`] with the full JID that the client got and the results of
    /// the features, or with the reason why it got none. In that case the client may ask once more,
    /// by RFC 6120 §7.
    pub fn bound_inline(&mut self, bound: Result<(Jid, &[Built]), StanzaError>, out: &mut Vec<u8>) {
        let Some(mut inline) = self.take_inline(|waits| matches!(waits, Waits::Bind(_))) else { return };
        match bound {
            Ok((jid, results)) => {
                let is_managed = results
                    .iter()
                    .any(|result| Element::parse(result.bytes()).is_ok_and(|result| result.is("enabled", ns::SM)));
                let mut element = Element::new("bound", ns::BIND2);
                results.iter().filter_map(|result| Element::parse(result.bytes()).ok()).for_each(|result| {
                    element.push_child(result);
                });
                inline.results.push(element);
                self.succeed(*inline, &jid, out);
                self.write_features(if is_managed { features::after_enabling } else { features::after_bind }, out);
                self.phase = C2sPhase::Bound { jid };
            }
            Err(_) => self.succeed_unbound(*inline, out),
        }
    }

    /// Takes the next step. May be called only while the owner has no open question.
    pub(in super::super) fn inline(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        let mut inline = self.take_inline(|waits| matches!(waits, Waits::Nothing))?;
        if let Some(event) = self.wanted_token(&mut inline.request) {
            inline.waits = Waits::Token;
            self.pending = Some(event);
        } else if let Some(wanted) = inline.request.resume.take() {
            match wanted {
                _ if !self.facts.transport.is_managed() => {
                    inline.add(&resume::failed_reply(&Condition::FeatureNotImplemented, None));
                }
                Some((previd, h)) => {
                    inline.waits = Waits::Resume(previd.clone());
                    self.pending = Some(C2sEvent::Resume { previd, h });
                }
                None => inline.add(&resume::failed_reply(&Condition::BadRequest, None)),
            }
        } else if let Some(bind) = inline.request.bind.take() {
            let resource = self.resource(bind.tag.as_deref(), inline.request.client.as_deref());
            inline.waits = Waits::Bind(bind.features);
            self.pending = Some(C2sEvent::BindInline { resource });
        } else {
            self.succeed_unbound(*inline, out);
            return Some(0);
        }
        self.phase = C2sPhase::Inline(inline);
        Some(0)
    }

    /// Returns the event that changes the client's tokens (XEP-0484 §3.5, §3.6). It is returned
    /// once, if the client has used a token or wants one.
    fn wanted_token(&self, request: &mut Sasl2Request) -> Option<C2sEvent> {
        let (used, invalidate) = (request.used.take(), request.invalidate);
        let issue = request.token.take().filter(|wanted| self.token_mechanisms().any(|offered| offered == *wanted));
        let (account, client) = (self.account.clone()?, request.client.clone()?);
        (used.is_some() || issue.is_some()).then_some(C2sEvent::Token { account, client, used, invalidate, issue })
    }

    /// Continues with the token that the client gets, if any.
    pub(super) fn token_inline(&mut self, token: Option<&Built>) {
        if let Some(mut inline) = self.take_inline(|waits| matches!(waits, Waits::Token)) {
            inline.waits = Waits::Nothing;
            token.into_iter().for_each(|token| inline.add(token));
            self.phase = C2sPhase::Inline(inline);
        }
    }

    /// Ends with a resumed session; returns `false` if the client hasn't asked for one here.
    pub(in super::super) fn resumed_inline(&mut self, jid: &Jid, handled: u32, out: &mut Vec<u8>) -> bool {
        let Some(mut inline) = self.take_inline(|waits| matches!(waits, Waits::Resume(_))) else { return false };
        if let Waits::Resume(previd) = mem::replace(&mut inline.waits, Waits::Nothing) {
            inline.add(&resume::resumed_reply(&previd, handled));
        }
        self.succeed(*inline, jid, out);
        self.phase = C2sPhase::Bound { jid: jid.clone() };
        true
    }

    /// Continues without the session that the client wanted.
    pub(in super::super) fn not_resumed_inline(&mut self, failed: &Built) {
        if let Some(mut inline) = self.take_inline(|waits| matches!(waits, Waits::Resume(_))) {
            inline.waits = Waits::Nothing;
            inline.add(failed);
            self.phase = C2sPhase::Inline(inline);
        }
    }

    /// Returns the resource (XEP-0386 §3.2.1): the tag, and a part that distinguishes clients. That
    /// part is the same for the same installation, whose identifier can't be guessed from it.
    fn resource(&mut self, tag: Option<&str>, client: Option<&str>) -> String {
        let account = self.account.as_ref().map(Jid::as_str).unwrap_or_default();
        let own = match client {
            Some(client) => self.policy.decoy.name_of(&[account, client]),
            None => format!("{:016x}", (self.ids)() as u64),
        };
        let tagged = tag.map(|tag| format!("{tag}/{own}"));
        let prepared = tagged.and_then(|tagged| prepare_resource(&tagged).ok().map(std::borrow::Cow::into_owned));
        prepared.unwrap_or(own)
    }

    /// Sends `<success/>` for an account without a session, and the features with which it may
    /// continue.
    fn succeed_unbound(&mut self, inline: Inline, out: &mut Vec<u8>) {
        let Some(account) = self.account.clone() else { return };
        self.succeed(inline, &account, out);
        self.write_features(features::after_login, out);
        self.phase = C2sPhase::Bind;
    }

    /// Sends `<success/>` (XEP-0388 §2.6.1).
    fn succeed(&mut self, inline: Inline, identity: &Jid, out: &mut Vec<u8>) {
        let mut success = Writer::with_ns("success", ns::SASL2);
        if let Some(data) = inline.additional {
            success.text_child("additional-data", &STANDARD.encode(data));
        }
        success.text_child("authorization-identifier", identity.as_str());
        inline.results.iter().for_each(|result| {
            success.element(result);
        });
        out.extend_from_slice(success.finish().bytes());
    }

    fn write_features(&self, compose: impl Fn(&FeatureOffer<'_>, &mut Vec<u8>), out: &mut Vec<u8>) {
        compose(&FeatureOffer { policy: &self.policy, host: self.host(), facts: &self.facts }, out);
    }

    fn take_inline(&mut self, wanted: impl Fn(&Waits) -> bool) -> Option<Box<Inline>> {
        match mem::replace(&mut self.phase, C2sPhase::Ended) {
            C2sPhase::Inline(inline) if wanted(&inline.waits) => Some(inline),
            other => {
                self.phase = other;
                None
            }
        }
    }
}
