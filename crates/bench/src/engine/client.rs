//! One client without I/O: TLS, the login, then stanzas. Idle it is a few hundred bytes without
//! TLS.

use std::fmt;
use std::sync::Arc;

use rookery_sasl::ChannelBindings;
use rookery_stream::tls::client::ClientTls;
use rookery_xml::{Limits, Scan, Scanner, Stanza};

use super::bosh::Bosh;
use super::login::{Login, LoginError, Next, Target};
use super::websocket::{self, Came, WebSocket};
use rookery_base::Transport;

/// An item that has come for a client that is ready.
#[derive(Debug)]
pub enum Item<'a> {
    /// A stanza.
    Stanza(Stanza<'a>),
    /// A line, with its end.
    Line(&'a [u8]),
}

/// One client of the load: its stream, login and carrier.
pub struct Client {
    tls: Option<ClientTls>,
    wire: Wire,
    stage: Stage,
    /// The bytes that have come and are not whole yet, decrypted.
    carry: Vec<u8>,
}

/// The carrier of the stream.
enum Wire {
    Stream,
    WebSocket(Box<WebSocket>),
    Bosh(Box<Bosh>),
}

enum Stage {
    Login(Box<Login>),
    Bound,
    /// No XMPP at all: every line is a message. For the relay that servers are compared with.
    Lines,
}

impl Client {
    /// Returns a client that logs in to the account with this localpart; what has to be sent first
    /// is appended to `out`.
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
        let tls = match (&target.tls, direct_tls) {
            (Some(settings), true) => Some(ClientTls::connect(settings, &target.domain, out).map_err(said)?),
            _ => None,
        };
        let wire = match target.transport {
            Transport::Tcp => Wire::Stream,
            Transport::WebSocket => Wire::WebSocket(Box::default()),
            Transport::Bosh => Wire::Bosh(Box::new(Bosh::new(&target.domain))),
        };
        let mut client = Client {
            tls,
            wire,
            stage: Stage::Login(Box::new(Login::new(target.clone(), username))),
            carry: Vec::new(),
        };
        match client.wire {
            Wire::WebSocket(_) => websocket::handshake(out),
            _ if client.tls.is_none() => client.open(false, out)?,
            _ => {}
        }
        Ok(client)
    }

    /// Returns a client that exchanges lines, and is ready at once.
    pub fn lines() -> Client {
        Client { tls: None, wire: Wire::Stream, stage: Stage::Lines, carry: Vec::new() }
    }

    /// Returns whether the client is ready to send and receive.
    pub fn is_bound(&self) -> bool {
        !matches!(self.stage, Stage::Login(_))
    }

    /// Returns the thing that a login waits for, for people who wonder why it takes so long.
    pub fn waits_for(&self) -> String {
        match (&self.stage, &self.wire) {
            (Stage::Login(_), Wire::WebSocket(websocket)) if !websocket.is_open() => {
                "the opening of the WebSocket".into()
            }
            (Stage::Login(login), wire) => {
                let partial = if let Wire::WebSocket(websocket) = wire { websocket.unused() } else { self.carry.len() };
                let partial = if partial > 0 { format!(", of which {partial} bytes are there") } else { String::new() };
                format!("{}{partial}", login.waits_for())
            }
            _ => "nothing".into(),
        }
    }

    /// Returns whether what is sent goes over the wire as it is.
    pub fn is_plain(&self) -> bool {
        self.tls.is_none() && matches!(self.wire, Wire::Stream)
    }

    /// Returns the next request of a client of BOSH that can go out, and on which of its
    /// connections.
    pub fn request(&mut self) -> Option<(usize, Vec<u8>)> {
        match &mut self.wire {
            Wire::Bosh(bosh) => bosh.request(),
            _ => None,
        }
    }

    /// Takes in that the server has closed a connection. Returns `true` if that is no harm, with
    /// what has to be sent again on a new one.
    pub fn closed(&mut self, line: usize) -> (bool, Option<Vec<u8>>) {
        match &mut self.wire {
            Wire::Bosh(bosh) => bosh.closed(line),
            _ => (false, None),
        }
    }

    fn open(&mut self, secure: bool, out: &mut Vec<u8>) -> Result<(), LoginError> {
        let mut plain = Vec::new();
        if let Stage::Login(login) = &mut self.stage {
            login.open(secure, &mut plain);
        }
        self.write(&plain, out)
    }

    /// Takes bytes that came on one of its connections; all but those of BOSH have one, the first.
    /// Otherwise like [`Client::read`].
    ///
    /// # Errors
    /// The error that ends the stream.
    pub fn read_line(
        &mut self,
        line: usize,
        target: &Target,
        wire: &mut [u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Item<'_>),
    ) -> Result<(), LoginError> {
        match &mut self.wire {
            Wire::Stream => return self.read(target, wire, out, each),
            Wire::WebSocket(websocket) => websocket.receive(wire),
            Wire::Bosh(bosh) => bosh.receive(line, wire)?,
        }
        loop {
            let came = match &mut self.wire {
                Wire::WebSocket(websocket) => match websocket.next(out)? {
                    None => false,
                    Some(Came::Open) => {
                        self.open(false, out)?;
                        true
                    }
                    Some(Came::Header(stream) | Came::Element(stream)) => {
                        self.carry.extend_from_slice(&stream);
                        true
                    }
                },
                Wire::Bosh(bosh) => bosh.next(&mut self.carry)?,
                Wire::Stream => false,
            };
            if !came {
                return Ok(());
            }
            self.work_off(target, out, each)?;
        }
    }

    /// Takes bytes from the wire; calls `each` with every stanza or line, and appends what the
    /// login has to send to `out`. `wire` is used as scratch.
    ///
    /// # Errors
    /// The error that ends the stream.
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
        self.work_off(target, out, each)
    }

    /// Works off what has come, decrypted and without frames.
    fn work_off(
        &mut self,
        target: &Target,
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Item<'_>),
    ) -> Result<(), LoginError> {
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
        match (&mut self.tls, &mut self.wire) {
            (Some(tls), _) => return tls.write(plain, out).map_err(said),
            (None, Wire::Stream) => out.extend_from_slice(plain),
            (None, Wire::WebSocket(_)) => websocket::write(plain, out),
            // It waits for a request: see [`Client::request`].
            (None, Wire::Bosh(bosh)) => bosh.write(plain),
        }
        Ok(())
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

/// Calls `each` with the whole stanzas; returns the number of their bytes.
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
