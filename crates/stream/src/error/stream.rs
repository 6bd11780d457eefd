//! Stream errors: the conditions that end a stream (RFC 6120 §4.9.3).

use std::fmt;

use rookery_xml::{Fault, Writer, ns};

/// The reason for closing a stream: every condition of RFC 6120 §4.9.3.
///
/// A stream error is unrecoverable (§4.9.1.1): its sender closes the stream after it, which is why
/// [`StreamError::render`] writes both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StreamError {
    /// The XML can't be processed, and no more specific condition fits (§4.9.3.1).
    BadFormat,
    /// A namespace prefix is used where it isn't declared, or `stream` isn't bound as it must be
    /// (§4.9.3.2).
    BadNamespacePrefix,
    /// A newer stream or session takes this one's place (§4.9.3.3).
    Conflict,
    /// The peer sent nothing for longer than the server waits (§4.9.3.4).
    ConnectionTimeout,
    /// The server used to serve the host in `to` and no longer does (§4.9.3.5).
    HostGone,
    /// The server doesn't serve the host in `to` (§4.9.3.6).
    HostUnknown,
    /// `to` or `from` is missing where it is required, or isn't an XMPP address (§4.9.3.7).
    ImproperAddressing,
    /// The server failed, which isn't the peer's fault (§4.9.3.8).
    InternalServerError,
    /// `from` isn't the address that the stream was authenticated for (§4.9.3.9).
    InvalidFrom,
    /// The stream or content namespace isn't one that is spoken here (§4.9.3.10).
    InvalidNamespace,
    /// The XML isn't valid against the schema (§4.9.3.11).
    InvalidXml,
    /// Something was sent that the stream isn't authenticated, or otherwise entitled, to send yet
    /// (§4.9.3.12).
    NotAuthorized,
    /// The XML isn't well-formed (§4.9.3.13).
    NotWellFormed,
    /// A rule of this service is broken: sizes, rates, attempts (§4.9.3.14).
    PolicyViolation,
    /// The peer has acknowledged more stanzas than it was sent. This condition is of XEP-0198 §6,
    /// and not of the RFC.
    HandledCountTooHigh {
        /// The number of stanzas that it has acknowledged.
        h: u32,
        /// The number of stanzas that it was sent.
        sent: u32,
    },
    /// A host that is needed to serve the stream can't be reached (§4.9.3.15).
    RemoteConnectionFailed,
    /// The server closes the stream to offer features again (§4.9.3.16).
    Reset,
    /// The server lacks the memory, or another resource, to serve the stream (§4.9.3.17).
    ResourceConstraint,
    /// The XML has comments, processing instructions, a DTD or entities, which XMPP forbids
    /// (§4.9.3.18).
    RestrictedXml,
    /// Connect there instead: a domain name or an address, with `:port` if it isn't the default
    /// (§4.9.3.19).
    SeeOtherHost(Box<str>),
    /// The server is being shut down (§4.9.3.20).
    SystemShutdown,
    /// None of the others; needs an application-specific condition or a text to be of use
    /// (§4.9.3.21).
    UndefinedCondition,
    /// The bytes aren't UTF-8, or are declared to be something else (§4.9.3.22).
    UnsupportedEncoding,
    /// A feature is mandatory for the server, and the client doesn't support it (§4.9.3.23).
    UnsupportedFeature,
    /// A first-level element that the server doesn't know (§4.9.3.24).
    UnsupportedStanzaType,
    /// `version` is missing or is older than 1.0 (§4.9.3.25).
    UnsupportedVersion,
}

impl StreamError {
    /// Returns the condition's element name, e.g. `host-unknown`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::BadFormat => "bad-format",
            Self::BadNamespacePrefix => "bad-namespace-prefix",
            Self::Conflict => "conflict",
            Self::ConnectionTimeout => "connection-timeout",
            Self::HandledCountTooHigh { .. } => "undefined-condition",
            Self::HostGone => "host-gone",
            Self::HostUnknown => "host-unknown",
            Self::ImproperAddressing => "improper-addressing",
            Self::InternalServerError => "internal-server-error",
            Self::InvalidFrom => "invalid-from",
            Self::InvalidNamespace => "invalid-namespace",
            Self::InvalidXml => "invalid-xml",
            Self::NotAuthorized => "not-authorized",
            Self::NotWellFormed => "not-well-formed",
            Self::PolicyViolation => "policy-violation",
            Self::RemoteConnectionFailed => "remote-connection-failed",
            Self::Reset => "reset",
            Self::ResourceConstraint => "resource-constraint",
            Self::RestrictedXml => "restricted-xml",
            Self::SeeOtherHost(_) => "see-other-host",
            Self::SystemShutdown => "system-shutdown",
            Self::UndefinedCondition => "undefined-condition",
            Self::UnsupportedEncoding => "unsupported-encoding",
            Self::UnsupportedFeature => "unsupported-feature",
            Self::UnsupportedStanzaType => "unsupported-stanza-type",
            Self::UnsupportedVersion => "unsupported-version",
        }
    }

    /// Appends the error, with an English `text` for the peer's developers if there is one, and the
    /// end of the stream.
    ///
    /// The stream must have been opened with the prefix `stream`, as RFC 6120 §4.8.5 asks of every
    /// server: an error before the server's own header would be outside of any stream (§4.9.1.2).
    pub fn render(&self, text: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<stream:error>");
        let mut condition = Writer::with_ns(self.name(), ns::STREAM_ERRORS);
        if let Self::SeeOtherHost(address) = self {
            condition.text(address);
        }
        out.extend_from_slice(condition.finish().bytes());
        if let Some(text) = text {
            let mut element = Writer::with_ns("text", ns::STREAM_ERRORS);
            element.attr("xml:lang", "en").text(text);
            out.extend_from_slice(element.finish().bytes());
        }
        if let Self::HandledCountTooHigh { h, sent } = self {
            let mut element = Writer::with_ns("handled-count-too-high", ns::SM);
            element.attr("h", &h.to_string()).attr("send-count", &sent.to_string());
            out.extend_from_slice(element.finish().bytes());
        }
        out.extend_from_slice(b"</stream:error>");
        out.extend_from_slice(STREAM_END);
    }
}

impl From<Fault> for StreamError {
    /// Returns the error to close the stream with when the peer's bytes can't be read. Sizes and
    /// depths are this service's policy.
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotWellFormed => Self::NotWellFormed,
            Fault::RestrictedXml => Self::RestrictedXml,
            Fault::InvalidNamespace => Self::InvalidNamespace,
            Fault::BadNamespacePrefix => Self::BadNamespacePrefix,
            Fault::UnsupportedEncoding => Self::UnsupportedEncoding,
            Fault::BadFormat => Self::BadFormat,
            Fault::TooBig
            | Fault::TooDeep
            | Fault::TooManyAttributes
            | Fault::TooManyNamespaces
            | Fault::NameTooLong
            | Fault::NamespacesTooBig => Self::PolicyViolation,
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for StreamError {}

/// The end of a stream that was opened with the prefix `stream`.
pub(crate) const STREAM_END: &[u8] = b"</stream:stream>";
