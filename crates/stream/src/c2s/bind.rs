//! Resource binding (RFC 6120 §7), and the requests that may replace it before login (XEP-0077).

use std::mem;

use rookery_jid::{Jid, prepare_resource};
use rookery_xml::{Element, Writer, ns};

use super::{C2s, C2sEvent, C2sPhase};
use crate::error::{Condition, StanzaError};

impl C2s {
    /// Answers [`C2sEvent::Bind`] with the full JID that the client got, or with the reason why it
    /// didn't get one (RFC 6120 §7.6.2 and §7.7.2: `conflict`, `resource-constraint`,
    /// `not-allowed`, `bad-request`), after which it may try again.
    pub fn bound(&mut self, bound: Result<Jid, StanzaError>, out: &mut Vec<u8>) {
        let id = match mem::replace(&mut self.phase, C2sPhase::Bind) {
            C2sPhase::Binding { id } => id,
            other => {
                self.phase = other;
                return;
            }
        };
        match bound {
            Ok(jid) => {
                let mut iq = reply("result", &id);
                iq.start_ns("bind", ns::BIND).start("jid").text(jid.as_str()).end().end();
                out.extend_from_slice(iq.finish().bytes());
                self.phase = C2sPhase::Bound { jid };
            }
            Err(error) => refuse(&id, &error, out),
        }
    }

    /// Answers [`C2sEvent::BeforeLogin`] with stanzas to be sent as they are.
    pub fn reply_before_login(&mut self, stanzas: &[u8], out: &mut Vec<u8>) {
        if matches!(self.phase, C2sPhase::BeforeLogin) {
            out.extend_from_slice(stanzas);
            self.phase = C2sPhase::Login;
        }
    }

    /// Returns whether an iq is a resource binding request and the stream waits for one.
    pub(super) fn takes_bind(&self, iq: &Element) -> bool {
        matches!(self.phase, C2sPhase::Bind) && iq.attr("type") == Some("set") && iq.child("bind", ns::BIND).is_some()
    }

    /// Returns whether an iq is about registration, and the host allows that on this stream.
    pub(super) fn takes_registration(&self, iq: &Element) -> bool {
        matches!(self.phase, C2sPhase::Login)
            && self.facts.login_allowed()
            && self.host().is_some_and(|host| host.registration)
            && (iq.child("query", ns::REGISTER).is_some() || iq.child("preauth", ns::PREAUTH).is_some())
    }

    /// Takes a resource binding request.
    pub(super) fn bind(&mut self, iq: &Element, out: &mut Vec<u8>) {
        let id = iq.attr("id").unwrap_or_default();
        match requested_resource(iq) {
            // §8.1.3: an iq without an id can't get a reply that its sender could match.
            _ if id.is_empty() => refuse(id, &Condition::BadRequest.into(), out),
            Ok(resource) => {
                self.phase = C2sPhase::Binding { id: id.to_owned() };
                self.pending = Some(C2sEvent::Bind { resource });
            }
            Err(error) => refuse(id, &error, out),
        }
    }
}

/// Returns the requested resource. An empty one leaves the choice to the server, as does a missing
/// one (§7.6.1).
fn requested_resource(iq: &Element) -> Result<Option<String>, StanzaError> {
    let resource = iq.child("bind", ns::BIND).and_then(|bind| bind.child("resource", ns::BIND));
    let text = resource.map(Element::text).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    match prepare_resource(&text) {
        Ok(resource) => Ok(Some(resource.into_owned())),
        // §7.7.2.1.
        Err(error) => Err(StanzaError::new(Condition::BadRequest).with_text(error.to_string())),
    }
}

fn refuse(id: &str, error: &StanzaError, out: &mut Vec<u8>) {
    let mut iq = reply("error", id);
    error.write(&mut iq);
    out.extend_from_slice(iq.finish().bytes());
}

fn reply(kind: &str, id: &str) -> Writer {
    let mut iq = Writer::new("iq");
    iq.attr("type", kind);
    if !id.is_empty() {
        iq.attr("id", id);
    }
    iq
}
