//! The client's end of a connection: bytes with or without TLS, cut into the items of an XML
//! stream.

use std::collections::VecDeque;

use rookery_base::Transport;
pub use rookery_client::StreamItem as Item;
use rookery_client::StreamReader;
use rookery_sasl::ChannelBindings;
use rookery_stream::tls::client::{ClientSettings, ClientTls, Newest};
use rookery_xml::{Limits, ns};

use crate::net::PeerEnd;
use crate::websocket;

/// A connection and what has been read from it.
#[derive(Debug)]
pub struct Wire {
    /// The virtual socket.
    pub peer: PeerEnd,
    tls: Option<ClientTls>,
    input: Vec<u8>,
    reader: StreamReader,
    /// The bytes that one call of [`Wire::receive`] takes from the network.
    pub appetite: usize,
    items: VecDeque<Item>,
    /// All input so far, decrypted, for tests that examine bytes.
    pub plain: Vec<u8>,
    /// The transport of the stream: TCP or a WebSocket.
    pub transport: Transport,
    /// The control frames that arrived, opcode first (RFC 6455 §5.5).
    pub controls: Vec<(u8, Vec<u8>)>,
}

impl Wire {
    /// Returns a wire over a new connection.
    pub fn new(peer: PeerEnd) -> Self {
        Self {
            peer,
            tls: None,
            input: Vec::new(),
            reader: StreamReader::new(LIMITS),
            appetite: usize::MAX,
            items: VecDeque::new(),
            plain: Vec::new(),
            transport: Transport::Tcp,
            controls: Vec::new(),
        }
    }

    /// Begins TLS.
    pub fn start_tls(&mut self, domain: &str, alpn: &[&[u8]]) {
        let settings = ClientSettings::trusting_anyone(Newest::Tls13, alpn, false).expect("client settings");
        let mut hello = Vec::new();
        self.tls = Some(ClientTls::connect(&settings, domain, &mut hello).expect("a handshake"));
        self.peer.write(&hello);
        self.restart();
    }

    /// Returns whether the handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(ClientTls::handshaking)
    }

    /// Returns the channel bindings of the TLS connection.
    pub fn bindings(&self) -> ChannelBindings {
        self.tls.as_ref().map(ClientTls::bindings).unwrap_or_default()
    }

    /// Expects a stream header next.
    pub fn restart(&mut self) {
        self.reader.restart();
    }

    /// Sends text, as one message on a transport with messages.
    pub fn send(&mut self, text: &[u8]) {
        if self.transport == Transport::WebSocket {
            self.send_bytes(&websocket::frame(true, websocket::TEXT, text));
        } else {
            self.send_bytes(text);
        }
    }

    /// Sends bytes, encrypted if the connection is.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            None => self.peer.write(bytes),
            Some(tls) => {
                let mut cipher = Vec::new();
                tls.write(bytes, &mut cipher).expect("the handshake is done");
                self.peer.write(&cipher);
            }
        }
    }

    /// Reads the bytes that have arrived. Returns whether there were any.
    pub fn receive(&mut self) -> bool {
        let mut bytes = self.peer.read(self.appetite);
        if bytes.is_empty() {
            return false;
        }
        let before = self.input.len();
        match &mut self.tls {
            None => self.input.extend_from_slice(&bytes),
            Some(tls) => {
                let mut answer = Vec::new();
                tls.read(&mut bytes, &mut self.input, &mut answer).expect("the server speaks TLS");
                self.peer.write(&answer);
            }
        }
        self.plain.extend_from_slice(&self.input[before..]);
        self.cut_items();
        true
    }

    /// Returns the oldest item that was not taken yet.
    pub fn take(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    /// Returns the oldest item that was not taken yet, and leaves it in place.
    pub fn peek(&self) -> Option<&Item> {
        self.items.front()
    }

    /// Returns the bytes of an incomplete item.
    pub fn rest(&self) -> &[u8] {
        &self.input
    }

    fn cut_items(&mut self) {
        let mut at = 0;
        while let Some(len) = if self.transport == Transport::WebSocket { self.frame(at) } else { self.item(at) } {
            at += len;
        }
        self.input.drain(..at);
    }

    /// Takes the frame at `at`. Returns its length; `None` if it is incomplete.
    fn frame(&mut self, at: usize) -> Option<usize> {
        let (len, opcode, payload) = websocket::read_frame(&self.input[at..])?;
        match opcode {
            websocket::TEXT => self.items.push_back(websocket::item(&payload)),
            opcode => self.controls.push((opcode, payload)),
        }
        Some(len)
    }

    /// Takes the item at `at`. Returns its length; `None` if it is incomplete.
    fn item(&mut self, at: usize) -> Option<usize> {
        let input = &self.input[at..];
        let read = self.reader.next(input);
        let (len, item) =
            read.unwrap_or_else(|fault| panic!("no stream, {fault}: {}", String::from_utf8_lossy(input)))?;
        // The element that completes the negotiation of a stream ends it: the next one begins with
        // a header (RFC 6120 §4.3.3).
        if matches!(&item, Some(Item::Element(element)) if element.is("success", ns::SASL)) {
            self.reader.restart();
        }
        self.items.extend(item);
        Some(len)
    }
}

/// The limits of a server's output, which are higher than a client's.
const LIMITS: Limits = Limits { bytes: 16 * 1024 * 1024, ..Limits::AFTER_LOGIN };
