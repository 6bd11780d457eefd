//! Responses to a client: a `<body/>` with the data that waits for it, or with the reason why the
//! session has ended (XEP-0124 §6, §17).

use std::sync::Arc;

use rookery_xml::{escape_attr, ns};
use serde::{Deserialize, Serialize};

/// A response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoshAnswer {
    /// The HTTP status; other values than 200 are for legacy clients only (§17.1).
    pub status: AnswerStatus,
    /// Its content.
    pub body: Arc<[u8]>,
    /// The content type that the client wants, if it isn't [`CONTENT_TYPE`].
    pub content_type: Option<Arc<str>>,
}

/// The party that waits for the reply to a request.
pub trait Waiter: Send {
    /// Hands over the response.
    fn answer(self: Box<Self>, answer: BoshAnswer);
    /// Returns whether nobody waits any more because the connection broke.
    fn is_gone(&self) -> bool;
}

/// The status of a response. All but the first are for legacy clients (§17.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerStatus {
    /// 200, whatever the response says.
    Ok,
    /// 400 Bad Request, for a request that isn't understood.
    BadRequest,
    /// 403 Forbidden, for a request that the policy refuses.
    Forbidden,
    /// 404 Not Found, for a session that doesn't exist.
    NotFound,
}

/// The reason why a session is over (§17.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerCondition {
    /// A request isn't what XEP-0124 allows.
    BadRequest,
    /// The domain is not served here.
    HostUnknown,
    /// A domain is needed, and the request names none.
    ImproperAddressing,
    /// The server failed.
    InternalServerError,
    /// The session doesn't exist, the response isn't kept any more, or the number or key of a
    /// request is wrong.
    ItemNotFound,
    /// Another request has ended the session.
    OtherRequest,
    /// The requests are too many, or too frequent.
    PolicyViolation,
    /// The node that has the session can't be reached.
    RemoteConnectionFailed,
    /// The stream has ended with an error, which is in the response.
    RemoteStreamError,
    /// The server stops.
    SystemShutdown,
}

impl AnswerCondition {
    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::HostUnknown => "host-unknown",
            Self::ImproperAddressing => "improper-addressing",
            Self::InternalServerError => "internal-server-error",
            Self::ItemNotFound => "item-not-found",
            Self::OtherRequest => "other-request",
            Self::PolicyViolation => "policy-violation",
            Self::RemoteConnectionFailed => "remote-connection-failed",
            Self::RemoteStreamError => "remote-stream-error",
            Self::SystemShutdown => "system-shutdown",
        }
    }

    /// Returns the status that a legacy client gets instead (§17.1).
    fn status(self, is_legacy: bool) -> AnswerStatus {
        match self {
            Self::BadRequest if is_legacy => AnswerStatus::BadRequest,
            Self::PolicyViolation if is_legacy => AnswerStatus::Forbidden,
            Self::ItemNotFound if is_legacy => AnswerStatus::NotFound,
            _ => AnswerStatus::Ok,
        }
    }

    /// Returns the condition for a stream that ends with an error of this name. Errors for which
    /// BOSH has conditions of its own concern the session (§17.2).
    pub(super) fn of(error: &str) -> Self {
        match error {
            "host-unknown" => Self::HostUnknown,
            "improper-addressing" => Self::ImproperAddressing,
            "system-shutdown" => Self::SystemShutdown,
            _ => Self::RemoteStreamError,
        }
    }
}

impl BoshAnswer {
    /// Returns the response to a request that belongs to no session.
    pub fn refusal(condition: AnswerCondition) -> Self {
        AnswerWriter::new().end(Some(condition), false, None)
    }

    /// Returns an empty response.
    pub(super) fn empty(content_type: Option<Arc<str>>) -> Self {
        AnswerWriter::new().finish(b"", b"", content_type)
    }

    /// Returns the response to an older copy of a request that has come again (§14.3).
    pub(super) fn for_older_copy(content_type: Option<Arc<str>>) -> Self {
        let mut writer = AnswerWriter::new();
        writer.attr("type", "error");
        writer.finish(b"", b"", content_type)
    }
}

/// Writes the `<body/>` of a response: attributes first, then the content.
pub(super) struct AnswerWriter(Vec<u8>);

impl AnswerWriter {
    pub fn new() -> Self {
        Self(format!("<body xmlns='{}'", ns::HTTP_BIND).into_bytes())
    }

    /// Adds an attribute.
    pub fn attr(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(format!(" {name}='{}'", escape_attr(value)).as_bytes());
    }

    /// Returns the content: the output of the stream's machine, and stanzas.
    pub fn finish(mut self, said: &[u8], stanzas: &[u8], content_type: Option<Arc<str>>) -> BoshAnswer {
        if !said.is_empty() {
            self.attr("xmlns:stream", ns::STREAMS);
        }
        if said.is_empty() && stanzas.is_empty() {
            self.0.extend_from_slice(b"/>");
        } else {
            self.0.reserve_exact(said.len() + stanzas.len() + 9);
            self.0.push(b'>');
            self.0.extend_from_slice(said);
            self.0.extend_from_slice(stanzas);
            self.0.extend_from_slice(b"</body>");
        }
        BoshAnswer { status: AnswerStatus::Ok, body: self.0.into(), content_type }
    }

    /// Returns a response that ends the session and has no other content.
    pub fn end(
        mut self,
        condition: Option<AnswerCondition>,
        is_legacy: bool,
        content_type: Option<Arc<str>>,
    ) -> BoshAnswer {
        self.terminate(condition);
        let status = condition.map_or(AnswerStatus::Ok, |condition| condition.status(is_legacy));
        BoshAnswer { status, ..self.finish(b"", b"", content_type) }
    }

    /// Says that the session ends with this response.
    pub fn terminate(&mut self, condition: Option<AnswerCondition>) {
        self.attr("type", "terminate");
        if let Some(condition) = condition {
            self.attr("condition", condition.name());
        }
    }
}

/// The content type of replies to a client that asks for no other (§7.1).
pub const CONTENT_TYPE: &str = "text/xml; charset=utf-8";
