//! Stanza errors: the reply to one stanza that can't be served (RFC 6120 §8.3).

use std::borrow::Cow;
use std::fmt;

use rookery_xml::{Element, Writer, ns};

/// The `<error/>` child of a stanza of type `error` (RFC 6120 §8.3.2).
///
/// ```
/// use rookery_stream::error::{Condition, StanzaError};
/// use rookery_xml::Writer;
///
/// let mut iq = Writer::new("iq");
/// iq.attr("type", "error").attr("id", "1");
/// StanzaError::new(Condition::ServiceUnavailable).write(&mut iq);
/// assert_eq!(
///     iq.finish().bytes(),
///     b"<iq type='error' id='1'><error type='cancel'>\
///       <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StanzaError {
    /// The reason for the refusal.
    pub condition: Condition,
    /// The remedy that the sender has.
    pub error_type: ErrorType,
    /// An English explanation for developers of the sender.
    pub text: Option<Cow<'static, str>>,
    /// An application-specific condition in a namespace of its own (§8.3.4); boxed because it is
    /// rare.
    pub application: Option<Box<Element>>,
    /// The address that has refused the stanza, if a server on the way may have done so (§8.3.2).
    pub by: Option<Box<str>>,
}

impl StanzaError {
    /// Returns an error with its condition's default type (§8.3.3), without text.
    pub fn new(condition: Condition) -> Self {
        Self { error_type: condition.default_type(), condition, text: None, application: None, by: None }
    }

    /// Returns the same with another type than the condition's default one; §8.3.3 allows that for
    /// a few of them.
    #[must_use]
    pub fn with_type(mut self, error_type: ErrorType) -> Self {
        self.error_type = error_type;
        self
    }

    /// Returns the same with an English explanation.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Returns the same with an application-specific condition (§8.3.4).
    #[must_use]
    pub fn with_application(mut self, application: Element) -> Self {
        self.application = Some(Box::new(application));
        self
    }

    /// Returns the same with the address that has refused the stanza.
    #[must_use]
    pub fn with_by(mut self, by: &str) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Writes the `<error/>` child into the stanza that `stanza` has open.
    pub fn write(&self, stanza: &mut Writer) {
        stanza.start("error").attr("type", self.error_type.name()).opt_attr("by", self.by.as_deref());
        stanza.start_ns(self.condition.name(), ns::STANZA_ERRORS);
        if let Condition::Gone(Some(uri)) | Condition::Redirect(Some(uri)) = &self.condition {
            stanza.text(uri);
        }
        stanza.end();
        if let Some(text) = &self.text {
            stanza.start_ns("text", ns::STANZA_ERRORS).attr("xml:lang", "en").text(text);
            stanza.end();
        }
        if let Some(application) = &self.application {
            stanza.element(application);
        }
        stanza.end();
    }
}

impl From<Condition> for StanzaError {
    fn from(condition: Condition) -> Self {
        Self::new(condition)
    }
}

impl fmt::Display for StanzaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.condition.name(), self.error_type.name())?;
        match &self.text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StanzaError {}

/// The sender's remedy for a refused stanza (RFC 6120 §8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// Give credentials, then try again.
    Auth,
    /// Don't try again.
    Cancel,
    /// Go on: it was only a warning.
    Continue,
    /// Change the data, then try again.
    Modify,
    /// Wait, then try again.
    Wait,
}

impl ErrorType {
    /// Returns the value of the `type` attribute.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Cancel => "cancel",
            Self::Continue => "continue",
            Self::Modify => "modify",
            Self::Wait => "wait",
        }
    }
}

/// The reason for refusing a stanza: every condition of RFC 6120 §8.3.3.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// The stanza isn't what its schema says (§8.3.3.1).
    BadRequest,
    /// Something of that name or address exists already (§8.3.3.2).
    Conflict,
    /// The request is understood, but not implemented (§8.3.3.3).
    FeatureNotImplemented,
    /// The sender's permissions don't suffice (§8.3.3.4).
    Forbidden,
    /// The addressee has moved for good, to this URI if it is known (§8.3.3.5).
    Gone(Option<Box<str>>),
    /// The server failed (§8.3.3.6).
    InternalServerError,
    /// There is no such thing (§8.3.3.7).
    ItemNotFound,
    /// A text that should be an address isn't one (§8.3.3.8).
    JidMalformed,
    /// The request is understood, but doesn't meet the recipient's or server's criteria (§8.3.3.9).
    NotAcceptable,
    /// Nobody may do that (§8.3.3.10).
    NotAllowed,
    /// The sender must log in, or give better credentials, first (§8.3.3.11).
    NotAuthorized,
    /// A rule of the service is broken (§8.3.3.12).
    PolicyViolation,
    /// The recipient is away for now (§8.3.3.13).
    RecipientUnavailable,
    /// The sender should send this stanza elsewhere, to this URI if it is given (§8.3.3.14).
    Redirect(Option<Box<str>>),
    /// The sender must register first (§8.3.3.15).
    RegistrationRequired,
    /// The remote domain doesn't exist or can't be resolved (§8.3.3.16).
    RemoteServerNotFound,
    /// The remote domain didn't answer in time (§8.3.3.17).
    RemoteServerTimeout,
    /// The server lacks the memory, or another resource (§8.3.3.18).
    ResourceConstraint,
    /// The service isn't offered here, or not to that sender (§8.3.3.19).
    ServiceUnavailable,
    /// A subscription is needed first (§8.3.3.20).
    SubscriptionRequired,
    /// None of the others; an application-specific condition says what (§8.3.3.21).
    UndefinedCondition,
    /// The request is understood, but comes at the wrong time (§8.3.3.22).
    UnexpectedRequest,
}

impl Condition {
    /// Returns the condition's element name, e.g. `item-not-found`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::Conflict => "conflict",
            Self::FeatureNotImplemented => "feature-not-implemented",
            Self::Forbidden => "forbidden",
            Self::Gone(_) => "gone",
            Self::InternalServerError => "internal-server-error",
            Self::ItemNotFound => "item-not-found",
            Self::JidMalformed => "jid-malformed",
            Self::NotAcceptable => "not-acceptable",
            Self::NotAllowed => "not-allowed",
            Self::NotAuthorized => "not-authorized",
            Self::PolicyViolation => "policy-violation",
            Self::RecipientUnavailable => "recipient-unavailable",
            Self::Redirect(_) => "redirect",
            Self::RegistrationRequired => "registration-required",
            Self::RemoteServerNotFound => "remote-server-not-found",
            Self::RemoteServerTimeout => "remote-server-timeout",
            Self::ResourceConstraint => "resource-constraint",
            Self::ServiceUnavailable => "service-unavailable",
            Self::SubscriptionRequired => "subscription-required",
            Self::UndefinedCondition => "undefined-condition",
            Self::UnexpectedRequest => "unexpected-request",
        }
    }

    /// Returns the type that §8.3.3 recommends for the condition. `undefined-condition` may have
    /// any; it gets `cancel`, so that a sender doesn't repeat a stanza whose fault nobody can
    /// explain.
    pub fn default_type(&self) -> ErrorType {
        match self {
            Self::BadRequest | Self::JidMalformed | Self::NotAcceptable | Self::PolicyViolation | Self::Redirect(_) => {
                ErrorType::Modify
            }
            Self::Conflict
            | Self::FeatureNotImplemented
            | Self::Gone(_)
            | Self::InternalServerError
            | Self::ItemNotFound
            | Self::NotAllowed
            | Self::RemoteServerNotFound
            | Self::ServiceUnavailable
            | Self::UndefinedCondition => ErrorType::Cancel,
            Self::Forbidden | Self::NotAuthorized | Self::RegistrationRequired | Self::SubscriptionRequired => {
                ErrorType::Auth
            }
            Self::RecipientUnavailable
            | Self::RemoteServerTimeout
            | Self::ResourceConstraint
            | Self::UnexpectedRequest => ErrorType::Wait,
        }
    }
}
