//! One client of a load, without I/O: its session, and the transport of its stream. An idle client
//! without TLS takes a few hundred bytes.

use std::fmt;

use rookery_base::Transport;
use rookery_client::{ClientSession, SessionError};
use rookery_xml::Stanza;

use super::bosh::LoadBosh;
use super::target::LoadTarget;
use super::websocket::{self, WebSocket, WebSocketCame};

/// An item that has arrived for a client that is ready.
#[derive(Debug)]
pub enum ClientItem<'a> {
    /// A whole first-level element.
    Stanza(Stanza<'a>),
    /// A line, with its end.
    Line(&'a [u8]),
}

/// One client of the load.
pub struct LoadClient {
    wire: ClientWire,
    says: Says,
}

/// The transport of the stream.
enum ClientWire {
    Stream,
    WebSocket(Box<WebSocket>),
    Bosh(Box<LoadBosh>),
}

/// The protocol of the connection.
enum Says {
    Xmpp(ClientSession),
    /// No XMPP: every line is a message, for the relay with which servers are compared. The bytes
    /// are those of an unfinished line.
    Lines(Vec<u8>),
}

impl LoadClient {
    /// Returns a client that logs in to the account with this localpart; the first output is
    /// appended to `out`.
    ///
    /// With `direct_tls` the first bytes are a TLS handshake (XEP-0368).
    ///
    /// # Errors
    /// TLS can't begin.
    pub fn start(
        target: &LoadTarget,
        username: String,
        direct_tls: bool,
        out: &mut Vec<u8>,
    ) -> Result<LoadClient, SessionError> {
        let terms = &target.terms;
        let (wire, session) = match target.transport {
            Transport::Tcp => (ClientWire::Stream, ClientSession::start(terms, username, direct_tls, out)?),
            Transport::WebSocket => {
                websocket::handshake(out);
                (ClientWire::WebSocket(Box::default()), ClientSession::without_header(terms, username))
            }
            Transport::Bosh => {
                let (mut bosh, mut session) =
                    (LoadBosh::new(&terms.domain), ClientSession::without_header(terms, username));
                let mut plain = Vec::new();
                session.open(&mut plain);
                bosh.write(&plain);
                (ClientWire::Bosh(Box::new(bosh)), session)
            }
        };
        Ok(LoadClient { wire, says: Says::Xmpp(session) })
    }

    /// Returns a client that exchanges lines, and is ready at once.
    pub fn lines() -> LoadClient {
        LoadClient { wire: ClientWire::Stream, says: Says::Lines(Vec::new()) }
    }

    /// Returns whether the client is ready to send and receive.
    pub fn is_bound(&self) -> bool {
        match &self.says {
            Says::Xmpp(session) => session.is_bound(),
            Says::Lines(_) => true,
        }
    }

    /// Returns the step that a login waits for, for error messages.
    pub fn waits_for(&self) -> String {
        let Says::Xmpp(session) = &self.says else { return "nothing".into() };
        let partial = match &self.wire {
            ClientWire::WebSocket(websocket) if !websocket.is_open() => return "the opening of the WebSocket".into(),
            ClientWire::WebSocket(websocket) => websocket.unused_bytes(),
            ClientWire::Stream | ClientWire::Bosh(_) => session.unread_bytes(),
        };
        let partial = if partial > 0 { format!(", of which {partial} bytes are there") } else { String::new() };
        format!("{}{partial}", session.waits_for())
    }

    /// Returns whether output goes over the wire unchanged.
    pub fn is_plain(&self) -> bool {
        match (&self.wire, &self.says) {
            (ClientWire::Stream, Says::Xmpp(session)) => session.is_plain(),
            (ClientWire::Stream, Says::Lines(_)) => true,
            _ => false,
        }
    }

    /// Returns the next request of a BOSH client that can go out, and its connection.
    pub fn request(&mut self) -> Option<(usize, Vec<u8>)> {
        match &mut self.wire {
            ClientWire::Bosh(bosh) => bosh.request(),
            _ => None,
        }
    }

    /// Handles a connection that the server has closed. Returns `true` if that is harmless, with
    /// the bytes that have to be sent again on a new one.
    pub fn closed(&mut self, line: usize) -> (bool, Option<Vec<u8>>) {
        match &mut self.wire {
            ClientWire::Bosh(bosh) => bosh.closed(line),
            _ => (false, None),
        }
    }

    /// Handles bytes from one of its connections; only BOSH clients have more than the first.
    /// Otherwise like [`LoadClient::read`].
    ///
    /// # Errors
    /// The error that ends the stream.
    pub fn read_line(
        &mut self,
        line: usize,
        wire: &mut [u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(ClientItem<'_>),
    ) -> Result<(), SessionError> {
        match &mut self.wire {
            ClientWire::Stream => return self.read(wire, out, each),
            ClientWire::WebSocket(websocket) => websocket.receive(wire),
            ClientWire::Bosh(bosh) => bosh.receive(line, wire)?,
        }
        let Says::Xmpp(session) = &mut self.says else { return Ok(()) };
        loop {
            let (mut came, mut said) = (Vec::new(), Vec::new());
            match &mut self.wire {
                ClientWire::WebSocket(websocket) => match websocket.next(out)? {
                    None => return Ok(()),
                    Some(WebSocketCame::Open) => session.open(&mut said),
                    Some(WebSocketCame::Header(stream) | WebSocketCame::Element(stream)) => came = stream,
                },
                ClientWire::Bosh(bosh) => {
                    if !bosh.next(&mut came)? {
                        return Ok(());
                    }
                }
                ClientWire::Stream => return Ok(()),
            }
            session.take(&came, &mut said, &mut |stanza| each(ClientItem::Stanza(stanza)))?;
            self.wire.frame(&said, out);
        }
    }

    /// Handles bytes from the wire; calls `each` with every stanza or line, and appends the output
    /// of the login to `out`. `wire` is used as scratch.
    ///
    /// # Errors
    /// The error that ends the stream.
    pub fn read(
        &mut self,
        wire: &mut [u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(ClientItem<'_>),
    ) -> Result<(), SessionError> {
        match &mut self.says {
            Says::Xmpp(session) => session.read(wire, out, &mut |stanza| each(ClientItem::Stanza(stanza))),
            Says::Lines(partial) => {
                partial.extend_from_slice(wire);
                let used = lines(partial, each);
                partial.drain(..used);
                Ok(())
            }
        }
    }

    /// Appends plain bytes in the form of the wire to `out`.
    ///
    /// # Errors
    /// TLS isn't established.
    pub fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), SessionError> {
        match (&mut self.says, &self.wire) {
            (Says::Xmpp(session), ClientWire::Stream) => session.write(plain, out)?,
            _ => self.wire.frame(plain, out),
        }
        Ok(())
    }
}

impl ClientWire {
    /// Appends output of the stream in the form of the wire.
    fn frame(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        match self {
            ClientWire::Stream => out.extend_from_slice(plain),
            ClientWire::WebSocket(_) => websocket::write(plain, out),
            // The bytes wait for a request: see [`LoadClient::request`].
            ClientWire::Bosh(bosh) => bosh.write(plain),
        }
    }
}

impl fmt::Debug for LoadClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("bound", &self.is_bound()).finish_non_exhaustive()
    }
}

fn lines(input: &[u8], each: &mut dyn FnMut(ClientItem<'_>)) -> usize {
    let mut at = 0;
    for end in memchr::memchr_iter(b'\n', input) {
        each(ClientItem::Line(input.get(at..=end).unwrap_or_default()));
        at = end + 1;
    }
    at
}
