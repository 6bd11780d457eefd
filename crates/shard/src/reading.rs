//! Turns a readable socket into stanzas.

use rookery_fanout::Link;
use rookery_hub::Intake;
use rookery_observe::StanzaStage;
use rookery_stream::error::StreamError;
use rookery_xml::{Fault, Limits, Scan, Scanner, Stanza, ns, slow};
use tracing::debug;

use crate::connection::{CarriedInput, ConnectionStage, ConnectionWire};
use crate::driver::Driver;
use crate::shard::Shard;
use crate::visits::LoggedPeer;

/// The result of a pass over the input.
pub(crate) enum Pass {
    /// Everything that can be used was used.
    More,
    /// The world wants no more stanzas of this session for now.
    Full,
    /// The client closed its stream.
    Closed,
    /// We have ended the stream; further input is ignored.
    Over,
    /// The input isn't a stream.
    Fault(Fault),
}

impl<D: Driver> Shard<D> {
    /// Reads a socket once and processes the input.
    pub(crate) fn readable(&mut self, link: Link) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let Some(socket) = &connection.socket else { return };
        if connection.paused {
            // A paused connection isn't watched for input. So a report means that it broke, and is
            // repeated until the connection is closed.
            return self.lost(link);
        }
        let mut buffer = std::mem::take(&mut self.buffers.buffer);
        let outer = self.world.counters.path.enter(StanzaStage::Read);
        let read = self.driver.recv(socket, &mut buffer);
        self.world.counters.path.back(outer);
        match read {
            Ok(0) => self.lost(link),
            Ok(len) => {
                self.received(link, buffer.get_mut(..len).unwrap_or_default());
                if !self.moves.known.is_empty() {
                    self.end_known(link);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => {
                debug!(peer = %connection.peer, %error, "a connection broke");
                self.lost(link);
            }
        }
        self.buffers.buffer = buffer;
    }

    fn received(&mut self, link: Link, bytes: &mut [u8]) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let peer = connection.peer;
        let Some(tls) = &mut connection.tls else { return self.input(link, bytes) };
        let mut plain = std::mem::take(&mut self.buffers.plain);
        let mut out = Vec::new();
        let outer = self.world.counters.path.enter(StanzaStage::Decrypt);
        let progress = tls.read(bytes, &mut plain, &mut out);
        self.world.counters.path.back(outer);
        self.write_wire(link, &out, 0);
        match progress {
            Ok(progress) => {
                if progress.established {
                    self.tls_established(link);
                }
                if !plain.is_empty() || progress.established {
                    self.input(link, &mut plain);
                }
                if progress.closed {
                    self.lost(link);
                }
            }
            Err(error) => {
                debug!(peer = %LoggedPeer(peer), %error, "TLS failed");
                self.lost(link);
            }
        }
        plain.clear();
        plain.shrink_to(MAX_PLAIN);
        self.buffers.plain = plain;
    }

    /// Processes input of the transport.
    pub(crate) fn input(&mut self, link: Link, bytes: &mut [u8]) {
        let outer = self.world.counters.path.enter(StanzaStage::Scan);
        self.input_of_stage(link, bytes);
        self.world.counters.path.back(outer);
    }

    #[inline]
    fn input_of_stage(&mut self, link: Link, bytes: &mut [u8]) {
        let Some(connection) = self.connections.get(link) else { return };
        match (&connection.wire, &connection.stage) {
            (_, ConnectionStage::Away(_)) => self.send_home(link, bytes),
            (ConnectionWire::Stream, ConnectionStage::Negotiating(_)) => self.negotiate(link, bytes),
            (ConnectionWire::Stream, ConnectionStage::Bound { .. }) => self.stanzas(link, bytes),
            (ConnectionWire::WebSocket(_), ConnectionStage::Negotiating(_)) => self.frames_before(link, bytes),
            (ConnectionWire::WebSocket(_), ConnectionStage::Bound { .. }) => self.frames(link, bytes),
            (ConnectionWire::Bosh(_), _) => self.read_requests(link),
            _ => {}
        }
    }

    /// Processes the stanzas in `bytes`, after the rest of an unfinished one.
    fn stanzas(&mut self, link: Link, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let pass = match connection.carry.take() {
            None => {
                let mut scanner = self.buffers.scanner.take().unwrap_or_default();
                let (pass, at) = self.pass(link, bytes, &mut scanner);
                let rest = bytes.get(at..).unwrap_or_default();
                if rest.is_empty() {
                    // After a fault or the end of a stream the scanner is in the middle of an
                    // element, where it must not be for the next connection.
                    scanner.reset();
                    self.buffers.scanner = Some(scanner);
                } else {
                    self.carry(link, Box::new(CarriedInput { bytes: rest.to_vec(), scanner }));
                }
                pass
            }
            Some(mut carry) => {
                carry.bytes.extend_from_slice(bytes);
                let (pass, at) = self.pass(link, &carry.bytes, &mut carry.scanner);
                carry.bytes.drain(..at);
                if !carry.bytes.is_empty() {
                    self.carry(link, carry);
                }
                pass
            }
        };
        self.carry_out(link, &pass);
    }

    /// Carries out the results of a pass over the input.
    pub(crate) fn carry_out(&mut self, link: Link, pass: &Pass) {
        match *pass {
            Pass::More | Pass::Over => {}
            Pass::Full => self.pause(link, true),
            Pass::Closed => {
                self.tell_ended(link, "the client has closed its stream");
                self.finish(link, STREAM_END);
            }
            Pass::Fault(fault) => self.fail(link, &StreamError::from(fault), Some(fault.text())),
        }
    }

    fn carry(&mut self, link: Link, carry: Box<CarriedInput>) {
        if let Some(connection) = self.connections.get_mut(link)
            && matches!(connection.stage, ConnectionStage::Bound { .. })
        {
            connection.carry = Some(carry);
        }
    }

    /// Gives stanza after stanza to the world. Returns how the pass ended and how many bytes are
    /// done with.
    fn pass(&mut self, link: Link, bytes: &[u8], scanner: &mut Scanner) -> (Pass, usize) {
        let limits = self.common.generation.limits;
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.is_empty() {
                return (Pass::More, at);
            }
            let intake = match scanner.scan(rest, &limits) {
                // To the scanner a header is an element that never ends.
                Ok(Scan::Partial) if opens_stream(rest) => return self.opened_again(link, bytes.len()),
                Ok(Scan::Partial) => return (Pass::More, at),
                Ok(Scan::Space(len)) => {
                    at += len;
                    Intake::Open
                }
                Ok(Scan::Close(len)) => return (Pass::Closed, at + len),
                Ok(Scan::Stanza(len)) => {
                    at += len;
                    self.stanza(link, scanner.stanza(rest))
                }
                Ok(Scan::Rare(len)) => {
                    at += len;
                    match self.rare(link, rest.get(..len).unwrap_or_default(), &limits) {
                        Ok(intake) => intake,
                        Err(fault) => return (Pass::Fault(fault), at),
                    }
                }
                Err(_) if opens_stream(rest) => return self.opened_again(link, bytes.len()),
                Err(fault) => return (Pass::Fault(fault), bytes.len()),
            };
            scanner.reset();
            if !self.world.takes_from(link) {
                return (Pass::Over, bytes.len());
            }
            if intake == Intake::Full {
                return (Pass::Full, at);
            }
        }
    }

    /// Takes a second stream header, which isn't well-formed within a stream (RFC 6120 §4.9.3.1).
    pub(crate) fn opened_again(&mut self, link: Link, len: usize) -> (Pass, usize) {
        self.fail(link, &StreamError::BadFormat, Some("the stream is open already"));
        (Pass::Over, len)
    }

    /// Takes a stanza that relies on prefixes of the stream header.
    pub(crate) fn rare(&mut self, link: Link, bytes: &[u8], limits: &Limits) -> Result<Intake, Fault> {
        let connection = self.connections.get(link);
        let prefixes = connection.and_then(|connection| connection.prefixes.as_deref()).unwrap_or_default();
        let canonical = slow::canonical(bytes, ns::CLIENT, prefixes)?;
        let stanza = Stanza::parse(&canonical, &Limits { bytes: limits.bytes.saturating_mul(2), ..*limits })?;
        Ok(self.stanza(link, stanza))
    }

    /// Gives a stanza to the world, unless an earlier home has handled it.
    #[inline]
    pub(crate) fn stanza(&mut self, link: Link, stanza: Stanza<'_>) -> Intake {
        if !self.moves.known.is_empty() && self.is_known(link, stanza) {
            return Intake::Open;
        }
        self.world.stanza(link, stanza)
    }

    /// Stops or resumes reading from a connection.
    pub(crate) fn pause(&mut self, link: Link, paused: bool) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        if connection.paused == paused {
            return;
        }
        connection.paused = paused;
        if let Some(socket) = &connection.socket {
            self.driver.interest(socket, link.0, !paused, connection.wants_write);
        }
        if !paused && matches!(connection.stage, ConnectionStage::Bound { .. }) {
            self.input(link, &mut []);
        }
    }
}

/// Returns whether input begins like a stream header or an XML declaration.
fn opens_stream(input: &[u8]) -> bool {
    input.starts_with(b"<?xml") || input.starts_with(b"<stream:stream")
}

/// The tag that ends our direction of a stream.
pub(crate) const STREAM_END: &[u8] = b"</stream:stream>";
/// The capacity that the buffer for decrypted input may keep between ticks, in bytes.
const MAX_PLAIN: usize = 128 * 1024;
