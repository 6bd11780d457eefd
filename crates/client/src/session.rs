//! A client's stream with TLS, login and stanzas. While it is idle, it takes a few hundred bytes
//! without TLS.

use std::fmt;
use std::sync::Arc;

use rookery_jid::Jid;
use rookery_sasl::ChannelBindings;
use rookery_stream::tls::client::ClientTls;
use rookery_xml::{Limits, Scan, Scanner, Stanza};

use crate::login::{EarlierSession, LoginStep, SessionTerms, StreamLogin};
use crate::{SessionError, words};

/// The outcome of an attempt to continue an earlier session (XEP-0198 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionResumption {
    /// It continues, and the server has handled this number of the client's stanzas.
    GoesOn(u32),
    /// It has ended; by then the server had handled this number of the client's stanzas.
    Over(u32),
}

/// One client's stream, from the first byte on.
///
/// ```no_run
/// # use std::{io::{Read, Write}, net::TcpStream, sync::Arc};
/// # use rookery_client::{ClientSession, SessionTerms};
/// # fn run(terms: Arc<SessionTerms>) -> Result<(), Box<dyn std::error::Error>> {
/// let (mut socket, mut out) = (TcpStream::connect("chat.example.org:5222")?, Vec::new());
/// let mut session = ClientSession::start(&terms, "romeo".to_owned(), false, &mut out)?;
/// let mut buffer = [0; 4096];
/// loop {
///     socket.write_all(&out)?;
///     out.clear();
///     let len = socket.read(&mut buffer)?;
///     session.read(&mut buffer[..len], &mut out, &mut |stanza| println!("{stanza:?}"))?;
/// }
/// # }
/// ```
pub struct ClientSession {
    tls: Option<ClientTls>,
    /// The login, until a resource is bound.
    login: Option<Box<StreamLogin>>,
    jid: Option<Jid>,
    /// The outcome of the attempt to continue an earlier session.
    resumption: Option<SessionResumption>,
    /// The bytes of an incomplete element, decrypted.
    carry: Vec<u8>,
}

impl ClientSession {
    /// Starts a session of the account with this localpart, and appends the first output to `out`.
    /// With `direct_tls` the output is a TLS handshake (XEP-0368).
    ///
    /// # Errors
    /// TLS can't begin.
    pub fn start(
        terms: &Arc<SessionTerms>,
        username: String,
        direct_tls: bool,
        out: &mut Vec<u8>,
    ) -> Result<Self, SessionError> {
        let mut session = Self::without_header(terms, username);
        match (&terms.tls, direct_tls) {
            (Some(settings), true) => {
                session.tls = Some(ClientTls::connect(settings, &terms.domain, out).map_err(SessionError::of)?);
            }
            _ => session.open(out),
        }
        Ok(session)
    }

    /// Returns a session that has sent nothing yet, for transports that must be opened first and
    /// that frame the stream: they pass their input to [`ClientSession::take`].
    pub fn without_header(terms: &Arc<SessionTerms>, username: String) -> Self {
        let login = Box::new(StreamLogin::new(terms.clone(), username));
        Self { tls: None, login: Some(login), jid: None, resumption: None, carry: Vec::new() }
    }

    /// Continues an earlier session when the login has reached that point, if the server still has
    /// the session; otherwise binds a resource. Must be called before any input.
    pub fn go_on_with(&mut self, earlier: EarlierSession) {
        if let Some(login) = &mut self.login {
            login.go_on_with(earlier);
        }
    }

    /// Returns the outcome of [`ClientSession::go_on_with`], once the login has ended. `None` if
    /// the server said nothing about the earlier session.
    pub fn resumption(&self) -> Option<SessionResumption> {
        self.resumption
    }

    /// Opens the stream of an unopened session.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        if let Some(login) = &mut self.login {
            login.open(false, out);
        }
    }

    /// Returns whether a resource is bound, so that stanzas may be sent.
    pub fn is_bound(&self) -> bool {
        self.login.is_none()
    }

    /// Returns the full JID, once the resource is bound.
    pub fn jid(&self) -> Option<&Jid> {
        self.jid.as_ref()
    }

    /// Returns whether output goes over the wire unchanged, without TLS.
    pub fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Describes the next event that a login waits for, for people who wonder why it takes so long.
    pub fn waits_for(&self) -> &'static str {
        self.login.as_ref().map_or("nothing", |login| login.waits_for())
    }

    /// Returns the number of bytes of an incomplete element.
    pub fn unread_bytes(&self) -> usize {
        self.carry.len()
    }

    /// Processes bytes from the wire. Calls `each` with every stanza, and appends the output of the
    /// login to `out`. `wire` is used as scratch space.
    ///
    /// # Errors
    /// The error that ends the stream.
    pub fn read(
        &mut self,
        wire: &mut [u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Stanza<'_>),
    ) -> Result<(), SessionError> {
        let Some(tls) = &mut self.tls else { return self.take(wire, out, each) };
        let progress = tls.read(wire, &mut self.carry, out).map_err(SessionError::of)?;
        if let (true, Some(login)) = (progress.established, &mut self.login) {
            let mut plain = Vec::new();
            login.open(true, &mut plain);
            tls.write(&plain, out).map_err(SessionError::of)?;
        }
        // The last stanzas of a server may come together with the end of TLS.
        self.work_off(out, each)?;
        if progress.closed {
            return Err(SessionError("the server ended TLS".to_owned()));
        }
        Ok(())
    }

    /// Processes bytes of the stream itself, without TLS or frames, and otherwise does the same as
    /// [`ClientSession::read`].
    ///
    /// # Errors
    /// The error that ends the stream.
    pub fn take(
        &mut self,
        plain: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Stanza<'_>),
    ) -> Result<(), SessionError> {
        // This is the usual case under load: whole stanzas in the clear, which need no copy.
        if self.is_bound() && self.carry.is_empty() {
            let used = stanzas(plain, each)?;
            self.carry.extend_from_slice(plain.get(used..).unwrap_or_default());
            return Ok(());
        }
        self.carry.extend_from_slice(plain);
        self.work_off(out, each)
    }

    /// Processes decrypted input without frames.
    fn work_off(&mut self, out: &mut Vec<u8>, each: &mut dyn FnMut(Stanza<'_>)) -> Result<(), SessionError> {
        self.log_in(out)?;
        if self.is_bound() {
            let used = stanzas(&self.carry, each)?;
            self.carry.drain(..used);
            if self.carry.is_empty() {
                self.carry = Vec::new();
            }
        }
        Ok(())
    }

    fn log_in(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        let Some(login) = &mut self.login else { return Ok(()) };
        let bindings = self.tls.as_ref().map_or_else(ChannelBindings::default, ClientTls::bindings);
        let mut plain = Vec::new();
        let (used, step) = login.read(&self.carry, &bindings, &mut plain)?;
        self.carry.drain(..used);
        match step {
            LoginStep::More => {}
            LoginStep::StartTls => {
                self.carry = Vec::new();
                let terms = login.terms();
                let settings = terms.tls.as_ref().ok_or_else(|| SessionError("no TLS settings".to_owned()))?;
                self.tls = Some(ClientTls::connect(settings, &terms.domain, out).map_err(SessionError::of)?);
                return Ok(());
            }
            LoginStep::Bound(jid) => {
                self.resumption = login.handled_before().map(SessionResumption::Over);
                (self.login, self.jid) = (None, jid);
            }
            LoginStep::Resumed(handled) => {
                (self.login, self.resumption) = (None, Some(SessionResumption::GoesOn(handled)))
            }
        }
        self.write(&plain, out)
    }

    /// Appends plain bytes to `out` in the form for the wire.
    ///
    /// # Errors
    /// TLS isn't up.
    pub fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), SessionError> {
        match &mut self.tls {
            Some(_) if plain.is_empty() => {}
            Some(tls) => tls.write(plain, out).map_err(SessionError::of)?,
            None => out.extend_from_slice(plain),
        }
        Ok(())
    }

    /// Closes the stream in good order (RFC 6120 §4.4): nothing may be written any more, but the
    /// remaining input may be read.
    ///
    /// # Errors
    /// TLS isn't up.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        self.write(words::END.as_bytes(), out)
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("jid", &self.jid).finish_non_exhaustive()
    }
}

/// Calls `each` with the complete stanzas in the input. Returns the number of their bytes.
fn stanzas(input: &[u8], each: &mut dyn FnMut(Stanza<'_>)) -> Result<usize, SessionError> {
    let mut scanner = Scanner::new();
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(at);
        }
        match scanner.scan(rest, &Limits::AFTER_LOGIN).map_err(SessionError::of)? {
            Scan::Partial => return Ok(at),
            Scan::Space(len) => at += len,
            Scan::Close(_) => return Err(SessionError::stream_closed()),
            Scan::Stanza(len) => {
                each(scanner.stanza(rest));
                at += len;
            }
            // Once a resource is bound, only a stream error uses the prefix of the stream.
            Scan::Rare(len) => {
                let text = String::from_utf8_lossy(rest.get(..len).unwrap_or_default());
                return Err(SessionError(format!("the server sent {text}")));
            }
        }
        scanner.reset();
    }
}

#[cfg(test)]
mod tests {
    use rookery_sasl::Mechanism;
    use rookery_sasl::client::SaltedPasswords;

    use super::*;

    const HEADER: &str =
        "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0' id='x'>";

    /// Returns a session that has logged in and has asked to continue an earlier one, with its last
    /// output.
    fn logged_in() -> (ClientSession, String) {
        let terms = SessionTerms {
            domain: "example.org".to_owned(),
            tls: None,
            mechanism: Some(Mechanism::Plain),
            password: "secret".to_owned(),
            resource: None,
            register: false,
            cache: SaltedPasswords::new(),
        };
        let mut out = Vec::new();
        let mut session = ClientSession::start(&Arc::new(terms), "romeo".to_owned(), false, &mut out).unwrap();
        session.go_on_with(EarlierSession { id: "a&b".to_owned(), handled: 7 });
        let sasl = "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms>";
        hear(&mut session, &format!("{HEADER}<stream:features>{sasl}</stream:features>"));
        hear(&mut session, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
        let features = "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/>";
        let said = hear(&mut session, &format!("{HEADER}<stream:features>{features}</stream:features>"));
        (session, said)
    }

    fn hear(session: &mut ClientSession, text: &str) -> String {
        let mut out = Vec::new();
        // Each call handles one element until the resource is bound.
        session.take(text.as_bytes(), &mut out, &mut |_| {}).unwrap();
        session.take(b"", &mut out, &mut |_| {}).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_earlier_session_goes_on() {
        let (mut session, said) = logged_in();
        assert!(said.ends_with("<resume xmlns='urn:xmpp:sm:3' previd='a&amp;b' h='7'/>"), "{said}");
        hear(&mut session, "<resumed xmlns='urn:xmpp:sm:3' previd='a&amp;b' h='3'/>");
        assert_eq!((session.is_bound(), session.resumption()), (true, Some(SessionResumption::GoesOn(3))));
    }

    #[test]
    fn a_session_that_is_over_makes_room_for_another_one() {
        for (h, resumption) in [(" h='2'", Some(SessionResumption::Over(2))), ("", None)] {
            let (mut session, _) = logged_in();
            let gone = "<item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>";
            let said = hear(&mut session, &format!("<failed xmlns='urn:xmpp:sm:3'{h}>{gone}</failed>"));
            assert!(said.contains("urn:ietf:params:xml:ns:xmpp-bind"), "{said}");
            let jid = "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>romeo@example.org/x</jid></bind>";
            hear(&mut session, &format!("<iq type='result' id='bind'>{jid}</iq>"));
            assert_eq!((session.is_bound(), session.resumption()), (true, resumption));
            assert_eq!(session.jid().map(Jid::as_str), Some("romeo@example.org/x"));
        }
    }
}
