//! Resumption in place of resource binding (XEP-0198 §5).

use std::mem;

use rookery_jid::Jid;
use rookery_xml::{Built, Element, Writer, ns};

use super::{C2s, C2sEvent, C2sPhase};
use crate::error::{Condition, StreamError};

/// The request of an `<enable/>` (XEP-0198 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Enable {
    /// True if the client wants to be able to resume.
    pub resume: bool,
    /// The most seconds for which it wants to be able to resume; `None` if it doesn't say.
    pub max: Option<u32>,
}

impl Enable {
    /// Reads the attributes of an `<enable/>`: `resume` and `max`.
    pub fn read(resume: Option<&str>, max: Option<&str>) -> Self {
        Self { resume: matches!(resume, Some("true" | "1")), max: max.and_then(|max| max.parse().ok()) }
    }
}

impl C2s {
    /// Answers [`C2sEvent::Resume`]: the session of this full JID has handled `handled` stanzas of
    /// the client and continues here.
    pub fn resumed(&mut self, jid: Jid, handled: u32, out: &mut Vec<u8>) {
        if self.resumed_inline(&jid, handled, out) {
            return;
        }
        let previd = match mem::replace(&mut self.phase, C2sPhase::Bind) {
            C2sPhase::Resuming { previd } => previd,
            other => {
                self.phase = other;
                return;
            }
        };
        out.extend_from_slice(resumed_reply(&previd, handled).bytes());
        self.phase = C2sPhase::Bound { jid };
    }

    /// Answers [`C2sEvent::Resume`] with the reason for refusing it, and with the number of stanzas
    /// that the session had handled if that is known. The client may bind a resource then.
    pub fn not_resumed(&mut self, condition: &Condition, handled: Option<u32>, out: &mut Vec<u8>) {
        if matches!(self.phase, C2sPhase::Resuming { .. }) {
            out.extend_from_slice(failed_reply(condition, handled).bytes());
            self.phase = C2sPhase::Bind;
        } else {
            self.not_resumed_inline(&failed_reply(condition, handled));
        }
    }

    /// Takes an element of stream management before a resource is bound. Only `<resume/>` is
    /// allowed then, after login. Others are refused (§3) without harm to the client, which may
    /// send a few of them.
    pub(super) fn manage(&mut self, element: &Element, out: &mut Vec<u8>) {
        let condition = match element.name() {
            _ if !self.facts.transport.is_managed() => Condition::FeatureNotImplemented,
            "resume" if matches!(self.phase, C2sPhase::Bind) => match read_resume(element) {
                Some((previd, h)) => {
                    self.phase = C2sPhase::Resuming { previd: previd.clone() };
                    self.pending = Some(C2sEvent::Resume { previd, h });
                    return;
                }
                None => Condition::BadRequest,
            },
            _ => Condition::UnexpectedRequest,
        };
        self.untimely += 1;
        if self.untimely > MAX_UNTIMELY {
            return self.fail(&StreamError::PolicyViolation, Some("Too many elements came too early."), out);
        }
        out.extend_from_slice(failed_reply(&condition, None).bytes());
    }
}

/// Reads a `<resume/>`: returns the id of the session, and the number of stanzas that the client
/// has handled.
pub(super) fn read_resume(resume: &Element) -> Option<(String, u32)> {
    Some((resume.attr("previd")?.to_owned(), resume.attr("h")?.parse().ok()?))
}

/// Returns the reply that a session is resumed.
pub(super) fn resumed_reply(previd: &str, handled: u32) -> Built {
    let mut resumed = Writer::with_ns("resumed", ns::SM);
    resumed.attr("previd", previd).attr("h", &handled.to_string());
    resumed.finish()
}

/// Returns the reply to a request that can't be carried out (§6).
pub fn failed_reply(condition: &Condition, handled: Option<u32>) -> Built {
    let mut failed = Writer::with_ns("failed", ns::SM);
    failed.opt_attr("h", handled.map(|handled| handled.to_string()).as_deref());
    failed.start_ns(condition.name(), ns::STANZA_ERRORS).end();
    failed.finish()
}

/// The most elements of stream management that get a reply although they come too early.
const MAX_UNTIMELY: u32 = 10;
