//! The client's side from the first byte to a bound resource (RFC 6120 §4 to §7).
//!
//! STARTTLS, SASL and binding follow the server's features, with the session request of RFC 3921
//! if a server still requires it. TLS itself is the caller's: see [`ClientSession`].
//!
//! [`ClientSession`]: crate::ClientSession

use std::fmt;
use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_jid::Jid;
use rookery_sasl::client::{Exchange, Login as SaslLogin, SaltedPasswords};
use rookery_sasl::{ChannelBindings, Mechanism};
use rookery_stream::tls::client::ClientSettings;
use rookery_xml::{Element, Limits, escape_attr, ns};

use crate::{OfferedMechanisms, SessionError, StreamItem, StreamReader, words};

/// The terms of a session, which many clients can share.
pub struct SessionTerms {
    /// The domain of the account.
    pub domain: String,
    /// The settings for TLS; `None` for a login without TLS.
    pub tls: Option<ClientSettings>,
    /// The mechanism to log in with; `None` for the strongest one that both sides support.
    pub mechanism: Option<Mechanism>,
    /// The password of each account, for SASL and for registration.
    pub password: String,
    /// The resource to bind; `None` lets the server choose.
    pub resource: Option<String>,
    /// True if the client creates the account instead of logging in to it (XEP-0077 §3.1). It is
    /// not an error if the account exists already.
    pub register: bool,
    /// The keys that were derived from passwords, so that not every login takes the time of PBKDF2.
    pub cache: SaltedPasswords,
}

impl fmt::Debug for SessionTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTerms")
            .field("domain", &self.domain)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// The next step for the owner of a [`StreamLogin`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginStep {
    /// Wait for more bytes.
    More,
    /// Start TLS, then call [`StreamLogin::open`]. Bytes that were received in the clear after this
    /// point must not be trusted.
    StartTls,
    /// The resource is bound, to this address. `None` if an account was created instead. From now
    /// on the server sends stanzas.
    Bound(Option<Jid>),
    /// An earlier session continues (XEP-0198 §5). The server has handled this number of the
    /// client's stanzas.
    Resumed(u32),
}

/// An earlier session that a login continues, if the server still has it (XEP-0198 §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierSession {
    /// The id that the server gave the session.
    pub id: String,
    /// The number of the server's stanzas that the client has handled.
    pub handled: u32,
}

/// A login in progress.
pub struct StreamLogin {
    terms: Arc<SessionTerms>,
    username: String,
    phase: LoginPhase,
    secure: bool,
    reader: StreamReader,
    earlier: Option<EarlierSession>,
    /// The number of stanzas that the server reports for an earlier session that has ended.
    handled: Option<u32>,
}

enum LoginPhase {
    Header {
        authenticated: bool,
    },
    Features {
        authenticated: bool,
    },
    Proceed,
    Sasl(Box<Exchange>),
    /// It has asked to resume. If the earlier session has ended, binding follows by these features.
    Resume(Box<Element>),
    Bind {
        session: bool,
    },
    Session(Option<Jid>),
    Register,
}

impl StreamLogin {
    /// Returns a login to the account with this localpart. [`StreamLogin::open`] comes next, or TLS
    /// before it.
    pub fn new(terms: Arc<SessionTerms>, username: String) -> StreamLogin {
        let phase = LoginPhase::Header { authenticated: false };
        let reader = StreamReader::new(LIMITS);
        StreamLogin { terms, username, phase, secure: false, reader, earlier: None, handled: None }
    }

    /// Continues an earlier session, if the server supports that and still has the session.
    pub fn go_on_with(&mut self, earlier: EarlierSession) {
        self.earlier = Some(earlier);
    }

    /// Returns the number of stanzas that the server has handled in the earlier session by its own
    /// account, if that session can't continue.
    pub fn handled_before(&self) -> Option<u32> {
        self.handled
    }

    /// Returns the terms of the session.
    pub fn terms(&self) -> &SessionTerms {
        &self.terms
    }

    /// Opens a stream: at the start, and again once TLS is up (`secure`).
    pub fn open(&mut self, secure: bool, out: &mut Vec<u8>) {
        self.secure = secure;
        self.open_stream(false, out);
    }

    /// Describes the next event that the login waits for, for people who wonder why it takes so
    /// long.
    pub fn waits_for(&self) -> &'static str {
        match &self.phase {
            LoginPhase::Header { authenticated: false } => "the header of the stream",
            LoginPhase::Header { authenticated: true } => "the header of the stream after authentication",
            LoginPhase::Features { .. } => "the features of the stream",
            LoginPhase::Proceed => "the answer to STARTTLS",
            LoginPhase::Sasl(_) => "the answer to SASL",
            LoginPhase::Resume(_) => "the answer to resuming a session",
            LoginPhase::Bind { .. } => "the answer to binding",
            LoginPhase::Session(_) => "the answer to the session request",
            LoginPhase::Register => "the answer to the registration",
        }
    }

    fn open_stream(&mut self, authenticated: bool, out: &mut Vec<u8>) {
        self.phase = LoginPhase::Header { authenticated };
        self.reader.restart();
        push(out, &words::stream_header(&self.terms.domain));
    }

    /// Processes the input. Returns the number of consumed bytes, and appends the output to `out`.
    ///
    /// # Errors
    /// A fault of the server that ends the login, or the server's refusal.
    pub fn read(
        &mut self,
        input: &[u8],
        bindings: &ChannelBindings,
        out: &mut Vec<u8>,
    ) -> Result<(usize, LoginStep), SessionError> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Some((len, item)) = self.reader.next(rest).map_err(SessionError::not_well_formed)? else {
                return Ok((at, LoginStep::More));
            };
            at += len;
            let step = match (item, &self.phase) {
                (None, _) => LoginStep::More,
                (Some(StreamItem::Header(_)), LoginPhase::Header { authenticated }) => {
                    self.phase = LoginPhase::Features { authenticated: *authenticated };
                    LoginStep::More
                }
                (Some(StreamItem::Element(element)), _) => self.element_came(&element, bindings, out)?,
                (Some(StreamItem::End | StreamItem::Header(_)), _) => return Err(SessionError::stream_closed()),
            };
            if step != LoginStep::More {
                return Ok((at, step));
            }
        }
    }

    fn element_came(
        &mut self,
        element: &Element,
        bindings: &ChannelBindings,
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, SessionError> {
        if element.is("error", ns::STREAMS) {
            return Err(unexpected_element("a stream error", element));
        }
        match &mut self.phase {
            LoginPhase::Features { authenticated } if element.is("features", ns::STREAMS) => {
                if *authenticated {
                    self.bind(element, out)
                } else {
                    self.begin(element, bindings, out)
                }
            }
            LoginPhase::Proceed if element.is("proceed", ns::STARTTLS) => Ok(LoginStep::StartTls),
            LoginPhase::Sasl(exchange) if element.is("challenge", ns::SASL) => {
                let answer =
                    exchange.challenge(&decode(element)?, Some(&self.terms.cache)).map_err(SessionError::of)?;
                push(out, &words::sasl("response", None, &answer));
                Ok(LoginStep::More)
            }
            LoginPhase::Sasl(exchange) if element.is("success", ns::SASL) => {
                exchange.finish(&decode(element)?).map_err(SessionError::of)?;
                self.open_stream(true, out);
                Ok(LoginStep::More)
            }
            LoginPhase::Resume(_) if element.is("resumed", ns::SM) => {
                let handled = number(element).ok_or_else(|| unexpected_element("a number of stanzas", element))?;
                Ok(LoginStep::Resumed(handled))
            }
            LoginPhase::Resume(features) if element.is("failed", ns::SM) => {
                self.handled = number(element);
                let features = std::mem::replace(&mut **features, Element::new("features", ns::STREAMS));
                self.bind(&features, out)
            }
            LoginPhase::Bind { session } if is_result(element) => {
                let jid = element.child("bind", ns::BIND).and_then(|bind| bind.child_text("jid", ns::BIND));
                let jid = jid
                    .and_then(|jid| Jid::parse(&jid).ok())
                    .ok_or_else(|| unexpected_element("an address", element))?;
                if !*session {
                    return Ok(LoginStep::Bound(Some(jid)));
                }
                self.phase = LoginPhase::Session(Some(jid));
                push(out, &words::session_request());
                Ok(LoginStep::More)
            }
            LoginPhase::Session(jid) if is_result(element) => Ok(LoginStep::Bound(jid.take())),
            // XEP-0077 §3.1: a conflict says that the account exists.
            LoginPhase::Register if is_result(element) || is_conflict(element) => Ok(LoginStep::Bound(None)),
            // Servers may push anything once a resource is bound.
            LoginPhase::Session(_) if element.name() != "iq" => Ok(LoginStep::More),
            _ => Err(unexpected_element("this step of a login", element)),
        }
    }

    /// Continues by the features of the stream before the login: with STARTTLS if TLS is
    /// configured, otherwise with SASL.
    fn begin(
        &mut self,
        features: &Element,
        bindings: &ChannelBindings,
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, SessionError> {
        if self.terms.tls.is_some() && !self.secure {
            if features.child("starttls", ns::STARTTLS).is_none() {
                return Err(unexpected_element("STARTTLS", features));
            }
            self.phase = LoginPhase::Proceed;
            push(out, &format!("<starttls xmlns='{}'/>", ns::STARTTLS));
            return Ok(LoginStep::More);
        }
        if self.terms.register {
            self.phase = LoginPhase::Register;
            push(out, &words::register_request(&self.username, &self.terms.password));
            return Ok(LoginStep::More);
        }
        let offered =
            OfferedMechanisms::read(features).ok_or_else(|| unexpected_element("SASL mechanisms", features))?;
        let login = SaslLogin { username: &self.username, password: &self.terms.password, authzid: None };
        let begun = offered.with_announced(|announced| {
            let mechanism = self.terms.mechanism.or_else(|| announced.strongest(bindings));
            let mechanism = mechanism.filter(|mechanism| announced.mechanisms.contains(&mechanism.name()))?;
            Some((mechanism, Exchange::start(mechanism, &login, bindings, announced)))
        });
        let (mechanism, begun) = begun.ok_or_else(|| unexpected_element("a usable mechanism", features))?;
        let (exchange, initial) = begun.map_err(SessionError::of)?;
        push(out, &words::sasl("auth", Some(mechanism), &initial));
        self.phase = LoginPhase::Sasl(Box::new(exchange));
        Ok(LoginStep::More)
    }

    /// Continues by the features of the stream after the login: binds a resource.
    fn bind(&mut self, features: &Element, out: &mut Vec<u8>) -> Result<LoginStep, SessionError> {
        if let Some(earlier) = self.earlier.take().filter(|_| features.child("sm", ns::SM).is_some()) {
            let EarlierSession { id, handled } = &earlier;
            push(out, &format!("<resume xmlns='{}' previd='{}' h='{handled}'/>", ns::SM, escape_attr(id)));
            self.phase = LoginPhase::Resume(Box::new(features.clone()));
            return Ok(LoginStep::More);
        }
        if features.child("bind", ns::BIND).is_none() {
            return Err(unexpected_element("resource binding", features));
        }
        // RFC 6121 dropped the session request; draft-cridland-xmpp-session says how a server
        // declares it to be optional.
        let session = features.child("session", ns::SESSION);
        let session = session.is_some_and(|session| session.child("optional", ns::SESSION).is_none());
        self.phase = LoginPhase::Bind { session };
        push(out, &words::bind_request(self.terms.resource.as_deref()));
        Ok(LoginStep::More)
    }
}

impl fmt::Debug for StreamLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

fn is_result(element: &Element) -> bool {
    element.name() == "iq" && element.attr("type") == Some("result")
}

fn is_conflict(element: &Element) -> bool {
    let error = element.children().find(|child| child.name() == "error");
    element.name() == "iq" && error.is_some_and(|error| error.child("conflict", ns::STANZA_ERRORS).is_some())
}

/// Returns the number of handled stanzas that an element of stream management states.
fn number(element: &Element) -> Option<u32> {
    element.attr("h")?.parse().ok()
}

fn decode(element: &Element) -> Result<Vec<u8>, SessionError> {
    let text = element.text();
    // RFC 6120 §6.4.2: a single equals sign stands for empty data.
    let text = if text == "=" { "" } else { text.trim() };
    STANDARD.decode(text).map_err(|_| unexpected_element("Base64", element))
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn unexpected_element(wanted: &str, got: &Element) -> SessionError {
    let mut text = format!("{wanted}: the server sent <{}/>", got.name());
    let mut inner =
        got.children().chain(got.children().filter(|child| child.name() == "error").flat_map(Element::children));
    if let Some(first) = inner.next() {
        text += &format!(" with <{}/>", first.name());
        inner.take(5).for_each(|child| text += &format!(", <{}/>", child.name()));
    }
    let words: String = got.text().chars().take(100).collect();
    if words.trim().is_empty() {
        SessionError(text)
    } else {
        SessionError(format!("{text} and “{}”", words.trim()))
    }
}

/// The features of a server may be larger than anything that a client may send before the login.
const LIMITS: Limits = Limits::AFTER_LOGIN;
