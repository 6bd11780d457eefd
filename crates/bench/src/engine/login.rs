//! From the first byte to a bound resource, the client's side (RFC 6120 §4 to §7), without I/O.
//!
//! It speaks to any server: STARTTLS, SASL and binding are done as the server's features say, and
//! the session request of RFC 3921 where a server still requires it.

use std::fmt;
use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_sasl::client::{Announced, Exchange, Login as SaslLogin, SaltedPasswords};
use rookery_sasl::{ChannelBindings, Mechanism};
use rookery_stream::tls::client::ClientSettings;
use rookery_xml::{Element, Limits, Scan, Scanner, Stanza, escape_text, header, ns, slow};

use rookery_base::Transport;

/// The terms that all clients of a load have in common.
pub struct Target {
    /// The domain of the accounts.
    pub domain: String,
    /// The carrier of the streams.
    pub transport: Transport,
    /// The settings for TLS; `None` for none.
    pub tls: Option<ClientSettings>,
    /// The mechanism to log in by; `None`: the strongest that both sides know.
    pub mechanism: Option<Mechanism>,
    /// The password of all accounts.
    pub password: String,
    /// The resource to bind.
    pub resource: String,
    /// True if the account is made in place of logging in to it (XEP-0077 §3.1). One that exists
    /// already is as good.
    pub register: bool,
    /// The keys that passwords derive to, so that a load doesn't measure its own PBKDF2.
    pub cache: SaltedPasswords,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("domain", &self.domain)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// The next step for the owner of a [`Login`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Wait for more bytes.
    More,
    /// Begin TLS: then call [`Login::open`]. What came behind is not to be believed.
    StartTls,
    /// The resource is bound; what comes from now on are stanzas.
    Bound,
}

/// The reason why a login failed, in words for the person who runs the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginError(pub String);

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoginError {}

/// One login in progress.
pub struct Login {
    target: Arc<Target>,
    username: String,
    phase: Phase,
    secure: bool,
    prefixes: Vec<(String, String)>,
}

enum Phase {
    Header { authenticated: bool },
    Features { authenticated: bool },
    Proceed,
    Sasl(Box<Exchange>),
    Bind { session: bool },
    Session,
    Register,
}

impl Login {
    /// Returns a login to the account with this localpart. [`Login::open`] comes next, or TLS
    /// before it.
    pub fn new(target: Arc<Target>, username: String) -> Login {
        Login { target, username, phase: Phase::Header { authenticated: false }, secure: false, prefixes: Vec::new() }
    }

    /// Opens a stream: at the start, and when TLS is up (`secure`).
    pub fn open(&mut self, secure: bool, out: &mut Vec<u8>) {
        self.secure = secure;
        self.open_stream(false, out);
    }

    /// Returns the thing that the server has not said yet, for people who wonder why this takes so
    /// long.
    pub fn waits_for(&self) -> &'static str {
        match &self.phase {
            Phase::Header { authenticated: false } => "the header of the stream",
            Phase::Header { authenticated: true } => "the header of the stream after authentication",
            Phase::Features { .. } => "the features of the stream",
            Phase::Proceed => "the answer to STARTTLS",
            Phase::Sasl(_) => "the answer to SASL",
            Phase::Bind { .. } => "the answer to binding",
            Phase::Session => "the answer to the session request",
            Phase::Register => "the answer to the registration",
        }
    }

    fn open_stream(&mut self, authenticated: bool, out: &mut Vec<u8>) {
        self.phase = Phase::Header { authenticated };
        let text = format!(
            "<?xml version='1.0'?><stream:stream to='{}' version='1.0' xmlns='{}' xmlns:stream='{}'>",
            self.target.domain,
            ns::CLIENT,
            ns::STREAMS
        );
        out.extend_from_slice(text.as_bytes());
    }

    /// Works off what has come. Returns the number of bytes that are done with; output is appended
    /// to `out`.
    ///
    /// # Errors
    /// A fault of the server that a login can't come through.
    pub fn read(
        &mut self,
        input: &[u8],
        bindings: &ChannelBindings,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Next), LoginError> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if let Phase::Header { authenticated } = self.phase {
                let Some((len, header)) = header::parse(rest, &LIMITS).map_err(|fault| wrong("header", &fault))? else {
                    return Ok((at, Next::More));
                };
                at += len;
                self.prefixes = header.prefixes;
                self.prefixes.extend(header.prefix.map(|prefix| (prefix, ns::STREAMS.to_owned())));
                self.phase = Phase::Features { authenticated };
                continue;
            }
            let (len, element) = match self.element(rest)? {
                (0, None) => return Ok((at, Next::More)),
                found => found,
            };
            at += len;
            let Some(element) = element else { continue };
            match self.element_came(&element, bindings, out)? {
                Next::More => {}
                next => return Ok((at, next)),
            }
        }
    }

    /// Returns the element at the start of the input, if it is whole, with its length; white space
    /// has a length and no element.
    fn element(&self, input: &[u8]) -> Result<(usize, Option<Element>), LoginError> {
        let mut scanner = Scanner::new();
        match scanner.scan(input, &LIMITS).map_err(|fault| wrong("stream", &fault))? {
            Scan::Partial => Ok((0, None)),
            Scan::Space(len) => Ok((len, None)),
            Scan::Close(_) => Err(LoginError("the server closed the stream".into())),
            Scan::Stanza(len) => Ok((len, Some(Element::read(&scanner.stanza(input))))),
            Scan::Rare(len) => {
                let bytes = input.get(..len).unwrap_or_default();
                let canonical = slow::canonical(bytes, ns::CLIENT, &self.prefixes);
                let canonical = canonical.map_err(|fault| wrong("stream", &fault))?;
                let stanza = Stanza::parse(&canonical, &LIMITS).map_err(|fault| wrong("stream", &fault))?;
                Ok((len, Some(Element::read(&stanza))))
            }
        }
    }

    fn element_came(
        &mut self,
        element: &Element,
        bindings: &ChannelBindings,
        out: &mut Vec<u8>,
    ) -> Result<Next, LoginError> {
        if element.is("error", ns::STREAMS) {
            return Err(unexpected("a stream error", element));
        }
        match &mut self.phase {
            Phase::Features { authenticated: true } if element.is("features", ns::STREAMS) => self.bind(element, out),
            Phase::Features { .. } if element.is("features", ns::STREAMS) => self.begin(element, bindings, out),
            Phase::Proceed if element.is("proceed", ns::STARTTLS) => Ok(Next::StartTls),
            Phase::Sasl(exchange) if element.is("challenge", ns::SASL) => {
                let answer = exchange.challenge(&decoded(element)?, Some(&self.target.cache)).map_err(said)?;
                push(out, &format!("<response xmlns='{}'>{}</response>", ns::SASL, STANDARD.encode(answer)));
                Ok(Next::More)
            }
            Phase::Sasl(exchange) if element.is("success", ns::SASL) => {
                exchange.finish(&decoded(element)?).map_err(said)?;
                self.open_stream(true, out);
                Ok(Next::More)
            }
            Phase::Bind { session } if is_result(element) => {
                if !*session {
                    return Ok(Next::Bound);
                }
                self.phase = Phase::Session;
                push(out, &format!("<iq type='set' id='session'><session xmlns='{}'/></iq>", ns::SESSION));
                Ok(Next::More)
            }
            Phase::Session if is_result(element) => Ok(Next::Bound),
            // XEP-0077 §3.1: a conflict says that there is such an account.
            Phase::Register if is_result(element) || is_conflict(element) => Ok(Next::Bound),
            // Servers may push what they like once a resource is bound.
            Phase::Session if element.name() != "iq" => Ok(Next::More),
            _ => Err(unexpected("this step of a login", element)),
        }
    }

    /// Features before login: STARTTLS if it is wanted, else SASL.
    fn begin(&mut self, features: &Element, bindings: &ChannelBindings, out: &mut Vec<u8>) -> Result<Next, LoginError> {
        if self.target.tls.is_some() && !self.secure {
            if features.child("starttls", ns::STARTTLS).is_none() {
                return Err(unexpected("STARTTLS", features));
            }
            self.phase = Phase::Proceed;
            push(out, &format!("<starttls xmlns='{}'/>", ns::STARTTLS));
            return Ok(Next::More);
        }
        if self.target.register {
            self.phase = Phase::Register;
            let (name, password) = (escape_text(&self.username), escape_text(&self.target.password));
            let query =
                format!("<query xmlns='{REGISTER}'><username>{name}</username><password>{password}</password></query>");
            push(out, &format!("<iq type='set' id='register'>{query}</iq>"));
            return Ok(Next::More);
        }
        let list = features.child("mechanisms", ns::SASL).ok_or_else(|| unexpected("SASL mechanisms", features))?;
        let mechanisms: Vec<String> = list.children().map(Element::text).collect();
        let mechanisms: Vec<&str> = mechanisms.iter().map(String::as_str).collect();
        let types: Option<Vec<&str>> = features
            .child("sasl-channel-binding", ns::CHANNEL_BINDING)
            .map(|list| list.children().filter_map(|child| child.attr("type")).collect());
        let announced = Announced { mechanisms: &mechanisms, binding_types: types.as_deref() };
        let mechanism = self.target.mechanism.or_else(|| announced.strongest(bindings));
        let mechanism = mechanism.filter(|mechanism| mechanisms.contains(&mechanism.name()));
        let mechanism = mechanism.ok_or_else(|| unexpected("a usable mechanism", features))?;
        let login = SaslLogin { username: &self.username, password: &self.target.password, authzid: None };
        let (exchange, initial) = Exchange::start(mechanism, &login, bindings, &announced).map_err(said)?;
        let (name, initial) = (mechanism.name(), STANDARD.encode(initial));
        push(out, &format!("<auth xmlns='{}' mechanism='{name}'>{initial}</auth>", ns::SASL));
        self.phase = Phase::Sasl(Box::new(exchange));
        Ok(Next::More)
    }

    /// Features after login.
    fn bind(&mut self, features: &Element, out: &mut Vec<u8>) -> Result<Next, LoginError> {
        if features.child("bind", ns::BIND).is_none() {
            return Err(unexpected("resource binding", features));
        }
        // RFC 6121 left the session request out; draft-cridland-xmpp-session says how servers tell
        // that it may be.
        let session = features.child("session", ns::SESSION);
        let session = session.is_some_and(|session| session.child("optional", ns::SESSION).is_none());
        self.phase = Phase::Bind { session };
        let resource = escape_text(&self.target.resource);
        let bind = format!("<bind xmlns='{}'><resource>{resource}</resource></bind>", ns::BIND);
        push(out, &format!("<iq type='set' id='bind'>{bind}</iq>"));
        Ok(Next::More)
    }
}

impl fmt::Debug for Login {
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

fn decoded(element: &Element) -> Result<Vec<u8>, LoginError> {
    let text = element.text();
    // RFC 6120 §6.4.2: a lone equals sign stands for data of no length.
    let text = if text == "=" { "" } else { text.trim() };
    STANDARD.decode(text).map_err(|_| unexpected("Base64", element))
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn said(error: impl fmt::Display) -> LoginError {
    LoginError(error.to_string())
}

fn wrong(what: &str, fault: &rookery_xml::Fault) -> LoginError {
    LoginError(format!("the server's {what} is not well-formed: {fault}"))
}

fn unexpected(wanted: &str, got: &Element) -> LoginError {
    let mut text = format!("{wanted}: the server sent <{}/>", got.name());
    let mut inner =
        got.children().chain(got.children().filter(|child| child.name() == "error").flat_map(Element::children));
    if let Some(first) = inner.next() {
        text += &format!(" with <{}/>", first.name());
        inner.take(5).for_each(|child| text += &format!(", <{}/>", child.name()));
    }
    let words: String = got.text().chars().take(100).collect();
    if words.trim().is_empty() { LoginError(text) } else { LoginError(format!("{text} and “{}”", words.trim())) }
}

/// A server may say more in its features than a client may before login.
const LIMITS: Limits = Limits::AFTER_LOGIN;
const REGISTER: &str = "jabber:iq:register";
