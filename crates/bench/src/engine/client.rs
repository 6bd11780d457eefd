//! One client without I/O: TLS, the login, then stanzas. Idle it is a few hundred bytes without TLS.

use std::fmt;
use std::sync::Arc;

use rookery_sasl::ChannelBindings;
use rookery_stream::tls::client::ClientTls;
use rookery_xml::{Limits, Scan, Scanner, Stanza};

use super::login::{Login, LoginError, Next, Target};

/// What has come for a client that is ready.
#[derive(Debug)]
pub enum Item<'a> {
    /// A stanza.
    Stanza(Stanza<'a>),
    /// A line, with its end.
    Line(&'a [u8]),
}

/// One client.
pub struct Client {
    tls: Option<ClientTls>,
    stage: Stage,
    /// What has come and is not whole yet, decrypted.
    carry: Vec<u8>,
}

enum Stage {
    Login(Box<Login>),
    Bound,
    /// No XMPP at all: every line is a message. For the relay that servers are compared with.
    Lines,
}

impl Client {
    /// A client that logs in to the account with this localpart; what has to be sent first is appended to `out`.
    ///
    /// With `direct_tls` the first bytes are a TLS handshake (XEP-0368).
    ///
    /// # Errors
    /// When TLS can't begin.
    pub fn start(
        target: &Arc<Target>,
        username: String,
        direct_tls: bool,
        out: &mut Vec<u8>,
    ) -> Result<Client, LoginError> {
        let mut login = Box::new(Login::new(target.clone(), username));
        let tls = match (&target.tls, direct_tls) {
            (Some(settings), true) => Some(ClientTls::connect(settings, &target.domain, out).map_err(said)?),
            _ => None,
        };
        if tls.is_none() {
            login.open(false, out);
        }
        Ok(Client { tls, stage: Stage::Login(login), carry: Vec::new() })
    }

    /// A client that exchanges lines, and is ready at once.
    pub fn lines() -> Client {
        Client { tls: None, stage: Stage::Lines, carry: Vec::new() }
    }

    /// Whether the client is ready to send and receive.
    pub fn is_bound(&self) -> bool {
        !matches!(self.stage, Stage::Login(_))
    }

    /// Whether TLS is to be begun, or is up.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Takes bytes from the wire; calls `each` with every stanza or line, and appends what the login has to send to `out`.
    /// `wire` is used as scratch.
    ///
    /// # Errors
    /// What ends the stream.
    pub fn read(
        &mut self,
        target: &Target,
        wire: &mut [u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Item<'_>),
    ) -> Result<(), LoginError> {
        // The usual case of a load: whole stanzas in the clear, which need no copy.
        if let (None, Stage::Bound, true) = (&self.tls, &self.stage, self.carry.is_empty()) {
            let used = stanzas(wire, each)?;
            self.carry.extend_from_slice(wire.get(used..).unwrap_or_default());
            return Ok(());
        }
        match &mut self.tls {
            None => self.carry.extend_from_slice(wire),
            Some(tls) => {
                let progress = tls.read(wire, &mut self.carry, out).map_err(said)?;
                if let (true, Stage::Login(login)) = (progress.established, &mut self.stage) {
                    let mut plain = Vec::new();
                    login.open(true, &mut plain);
                    tls.write(&plain, out).map_err(said)?;
                }
                if progress.closed {
                    return Err(LoginError("the server ended TLS".into()));
                }
            }
        }
        if let Stage::Login(_) = self.stage {
            self.log_in(target, out)?;
        }
        let used = match self.stage {
            Stage::Login(_) => 0,
            Stage::Bound => stanzas(&self.carry, each)?,
            Stage::Lines => lines(&self.carry, each),
        };
        self.carry.drain(..used);
        if self.carry.is_empty() && !matches!(self.stage, Stage::Login(_)) {
            self.carry = Vec::new();
        }
        Ok(())
    }

    /// Appends plain bytes as they go over the wire at `out`.
    ///
    /// # Errors
    /// When TLS isn't up.
    pub fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), LoginError> {
        match &mut self.tls {
            Some(tls) => tls.write(plain, out).map_err(said),
            None => {
                out.extend_from_slice(plain);
                Ok(())
            }
        }
    }

    fn log_in(&mut self, target: &Target, out: &mut Vec<u8>) -> Result<(), LoginError> {
        let Stage::Login(login) = &mut self.stage else { return Ok(()) };
        let bindings = self.tls.as_ref().map_or_else(ChannelBindings::default, ClientTls::bindings);
        let mut plain = Vec::new();
        let (used, next) = login.read(&self.carry, &bindings, &mut plain)?;
        self.carry.drain(..used);
        self.write(&plain, out)?;
        match next {
            Next::More => {}
            Next::StartTls => {
                self.carry = Vec::new();
                let settings = target.tls.as_ref().ok_or_else(|| LoginError("no TLS settings".into()))?;
                self.tls = Some(ClientTls::connect(settings, &target.domain, out).map_err(said)?);
            }
            Next::Bound => self.stage = Stage::Bound,
        }
        Ok(())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("bound", &self.is_bound()).finish_non_exhaustive()
    }
}

/// Calls `each` with the whole stanzas; answers how many bytes those are.
fn stanzas(input: &[u8], each: &mut dyn FnMut(Item<'_>)) -> Result<usize, LoginError> {
    let mut scanner = Scanner::new();
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(at);
        }
        match scanner.scan(rest, &Limits::AFTER_LOGIN).map_err(said)? {
            Scan::Partial => return Ok(at),
            Scan::Space(len) => at += len,
            Scan::Close(_) => return Err(LoginError("the server closed the stream".into())),
            Scan::Stanza(len) => {
                each(Item::Stanza(scanner.stanza(rest)));
                at += len;
            }
            // Within a bound stream only a stream error uses the prefix of the stream.
            Scan::Rare(len) => {
                let text = String::from_utf8_lossy(rest.get(..len).unwrap_or_default());
                return Err(LoginError(format!("the server sent {text}")));
            }
        }
        scanner.reset();
    }
}

fn lines(input: &[u8], each: &mut dyn FnMut(Item<'_>)) -> usize {
    let mut at = 0;
    for end in memchr::memchr_iter(b'\n', input) {
        each(Item::Line(input.get(at..=end).unwrap_or_default()));
        at = end + 1;
    }
    at
}

fn said(error: impl fmt::Display) -> LoginError {
    LoginError(error.to_string())
}
