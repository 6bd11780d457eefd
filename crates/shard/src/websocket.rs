//! A WebSocket (RFC 7395) between a socket and a stream.
//!
//! Everything behind it is the same as for TCP: the same machine negotiates, the same outbox
//! waits, the same rules end it. The difference is here, and in the frame that an outbox puts
//! around a stanza: each message is exactly one element.

use rookery_fanout::Link;
use rookery_hub::Intake;
use rookery_stream::error::StreamError;
use rookery_stream::websocket::framing::{self, Framed};
use rookery_stream::websocket::{Frame, FrameFault, Frames, KeptFrame};
use rookery_xml::{Fault, Kind, Scan, Scanner};

use crate::connection::{ConnectionStage, ConnectionWire};
use crate::driver::Driver;
use crate::negotiation::MAX_AHEAD;
use crate::reading::{Pass, STREAM_END};
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Processes frames until a resource is bound. The frames are kept with the connection before:
    /// it may move, together with those that are left.
    pub(crate) fn frames_before(&mut self, link: Link, bytes: &[u8]) {
        let key = self.key_of(link);
        if let Some(frames) = self.websocket(link) {
            frames.keep(bytes);
        }
        // The machine may be able to continue with an answer that it has just got.
        self.negotiate(link, &[]);
        let limits = self.common.generation.policy.limits_before;
        while self.connection_of(key).is_some() && self.listens(link) {
            let Some(frames) = self.websocket(link) else { return };
            match frames.next_kept(limits.bytes) {
                Ok(None) => return,
                Ok(Some(KeptFrame::Message(message))) => self.message_before(link, &message),
                Ok(Some(KeptFrame::Ping(payload))) => {
                    frames.owe_pong(&payload);
                    self.write_pong(link);
                }
                Ok(Some(KeptFrame::Close(_))) => return self.closed_by_peer(link),
                Ok(Some(KeptFrame::Nothing)) => {}
                Err(fault) => return self.refuse_frames(link, fault),
            }
        }
        if self.connection_of(key).is_none() {
            return;
        }
        let is_bound = matches!(self.connections.get(link), Some(connection) if connection.is_bound());
        if is_bound {
            self.frames(link, &mut []);
        } else if self.websocket(link).is_some_and(|frames| frames.kept_bytes() > MAX_AHEAD) {
            self.pause(link, true);
        }
    }

    /// Returns whether the machine takes a further element now.
    fn listens(&self, link: Link) -> bool {
        let stage = self.connections.get(link).map(|connection| &connection.stage);
        matches!(stage, Some(ConnectionStage::Negotiating(negotiation)) if !negotiation.asked)
    }

    fn message_before(&mut self, link: Link, message: &[u8]) {
        match framing::read(message, &self.common.generation.policy.limits_before) {
            Ok(Framed::Open(header)) => self.negotiate(link, &header),
            Ok(Framed::Close) => self.negotiate(link, STREAM_END),
            Ok(Framed::Element) => self.negotiate(link, message.trim_ascii()),
            Ok(Framed::Nothing) => {}
            Err(fault) => {
                self.note_encoding(link, message);
                self.fail(link, &StreamError::from(fault), Some(fault.text()));
            }
        }
    }

    /// Notes a message that isn't UTF-8, which has a status of its own (RFC 6455 §8.1).
    fn note_encoding(&mut self, link: Link, message: &[u8]) {
        if std::str::from_utf8(message).is_err()
            && let Some(frames) = self.websocket(link)
        {
            frames.set_status(NOT_UTF_8);
        }
    }

    /// Processes the frames of a bound session where they lie.
    pub(crate) fn frames(&mut self, link: Link, bytes: &mut [u8]) {
        let Some(frames) = self.websocket(link) else { return };
        let mut kept = frames.take_kept();
        let input = if kept.is_empty() {
            bytes
        } else {
            kept.extend_from_slice(bytes);
            kept.as_mut_slice()
        };
        let mut scanner = self.buffers.scanner.take().unwrap_or_default();
        let (pass, at) = self.pass_over_frames(link, input, &mut scanner);
        scanner.reset();
        self.buffers.scanner = Some(scanner);
        if matches!(pass, Pass::More | Pass::Full)
            && let Some(frames) = self.websocket(link)
        {
            frames.keep(input.get(at..).unwrap_or_default());
        }
        self.carry_out(link, &pass);
    }

    /// Gives stanza after stanza to the world. Returns how that ended and the number of processed
    /// bytes.
    fn pass_over_frames(&mut self, link: Link, input: &mut [u8], scanner: &mut Scanner) -> (Pass, usize) {
        let most = self.common.generation.limits.bytes;
        let mut at = 0;
        loop {
            let Some(frames) = self.websocket(link) else { return (Pass::Over, at) };
            let frame = match frames.next(input.get_mut(at..).unwrap_or_default(), most) {
                Ok(None) => return (Pass::More, at),
                Ok(Some((len, frame))) => {
                    at += len;
                    frame
                }
                Err(fault) => {
                    self.refuse_frames(link, fault);
                    return (Pass::Over, at);
                }
            };
            let pass = match frame {
                Frame::Message(message) => {
                    let pass = self.message(link, message.trim_ascii(), scanner);
                    if matches!(pass, Pass::Fault(_)) {
                        self.note_encoding(link, &message);
                    }
                    pass
                }
                Frame::Ping(payload) => {
                    frames.owe_pong(payload);
                    self.write_pong(link);
                    Pass::More
                }
                Frame::Close(_) => {
                    self.closed_by_peer(link);
                    Pass::Over
                }
                Frame::Fragment | Frame::Pong => Pass::More,
            };
            if !matches!(pass, Pass::More) {
                return (pass, at);
            }
        }
    }

    /// Gives the one stanza of a message to the world.
    fn message(&mut self, link: Link, message: &[u8], scanner: &mut Scanner) -> Pass {
        if message.is_empty() {
            return Pass::More;
        }
        let limits = self.common.generation.limits;
        scanner.reset();
        let intake = match scanner.scan(message, &limits) {
            Ok(Scan::Stanza(len)) if len == message.len() => {
                let stanza = scanner.stanza(message);
                let framed = if stanza.kind() == Kind::Other { framing::of_stanza(&stanza) } else { None };
                match framed {
                    Some(Framed::Close) => return Pass::Closed,
                    Some(_) => return self.opened_again(link, 0).0,
                    None => self.stanza(link, stanza),
                }
            }
            Ok(Scan::Rare(len)) if len == message.len() => match self.rare(link, message, &limits) {
                Ok(intake) => intake,
                Err(fault) => return Pass::Fault(fault),
            },
            // The message has part of an element, more than one, or text around it: it isn't a
            // document (RFC 7395 §3.3.3).
            Ok(_) => return Pass::Fault(Fault::NotWellFormed),
            Err(fault) => return Pass::Fault(fault),
        };
        if !self.world.takes_from(link) {
            Pass::Over
        } else if intake == Intake::Full {
            Pass::Full
        } else {
            Pass::More
        }
    }

    /// Answers a ping as soon as no frame is half written.
    pub(crate) fn write_pong(&mut self, link: Link) {
        let is_begun = self.world.outboxes.is_begun(link);
        let Some(connection) = self.connections.get_mut(link) else { return };
        let ConnectionWire::WebSocket(frames) = &mut connection.wire else { return };
        if is_begun || connection.unsent.is_some() || matches!(connection.stage, ConnectionStage::Lingering) {
            return;
        }
        if let Some(pong) = frames.take_pong() {
            self.write_through(link, &pong, 0);
        }
    }

    /// Begins the closing handshake, after the last output of the stream (RFC 7395 §3.6).
    pub(crate) fn write_closing(&mut self, link: Link) {
        let mut out = Vec::new();
        if let Some(frames) = self.websocket(link) {
            frames.close(&mut out);
        }
        self.write_through(link, &out, 0);
    }

    /// Notes that the client closes the WebSocket and not the stream: the session treats that
    /// as a lost connection (RFC 7395 §3.6).
    fn closed_by_peer(&mut self, link: Link) {
        let is_free = self.connections.get(link).is_some_and(|connection| connection.unsent.is_none());
        if is_free && !self.world.outboxes.is_begun(link) {
            self.write_closing(link);
        }
        self.lost(link);
    }

    /// Ends the stream of a client whose frames we don't understand, with the status that says so.
    fn refuse_frames(&mut self, link: Link, fault: FrameFault) {
        if let Some(frames) = self.websocket(link) {
            frames.set_status(fault.status());
        }
        let (error, text) = match fault {
            FrameFault::Protocol => (StreamError::BadFormat, "that is not a client's frame"),
            FrameFault::Unsupported => (StreamError::BadFormat, "only text messages are accepted"),
            FrameFault::TooBig => (StreamError::PolicyViolation, "the message is too long"),
        };
        self.fail(link, &error, Some(text));
    }

    fn websocket(&mut self, link: Link) -> Option<&mut Frames> {
        match &mut self.connections.get_mut(link)?.wire {
            ConnectionWire::WebSocket(frames) => Some(frames),
            ConnectionWire::Stream | ConnectionWire::Bosh(_) => None,
        }
    }
}

/// The status of a message that isn't what its kind says (RFC 6455 §7.4.1).
const NOT_UTF_8: u16 = 1007;
