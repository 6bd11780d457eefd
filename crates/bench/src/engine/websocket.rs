//! The client's end of a WebSocket (RFC 6455, RFC 7395): no TLS, no fragments, and masks of zero,
//! which cost a server as much as any other mask.

use rookery_client::SessionError;
use rookery_stream::websocket::framing::{self, Framed};
use rookery_xml::Limits;

/// A WebSocket.
#[derive(Debug, Default)]
pub struct WebSocket {
    /// True once the server has accepted the handshake.
    is_open: bool,
    /// The bytes of an unfinished frame.
    input: Vec<u8>,
}

/// An item that has arrived.
#[derive(Debug)]
pub enum WebSocketCame {
    /// The handshake is over.
    Open,
    /// The header of a stream.
    Header(Vec<u8>),
    /// A whole element.
    Element(Vec<u8>),
}

/// Appends the opening handshake.
pub fn handshake(out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"GET /xmpp-websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n",
    );
}

/// Appends output of a stream, each item in a frame.
pub fn write(stream: &[u8], out: &mut Vec<u8>) {
    framing::write(stream, |message| frame(TEXT, message, out));
}

impl WebSocket {
    /// Returns whether the server has accepted the handshake.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the number of bytes of an unfinished frame.
    pub fn unused_bytes(&self) -> usize {
        self.input.len()
    }

    /// Takes bytes from the wire.
    pub fn receive(&mut self, wire: &[u8]) {
        self.input.extend_from_slice(wire);
    }

    /// Returns the next complete item; an immediate answer is appended to `out`.
    ///
    /// # Errors
    /// The server refuses the WebSocket, or ends it.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<WebSocketCame>, SessionError> {
        if !self.is_open {
            let Some(end) = self.input.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
            let head: Vec<u8> = self.input.drain(..end + 4).collect();
            if !head.starts_with(b"HTTP/1.1 101 ") {
                let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or_default());
                return Err(SessionError(format!("no WebSocket: {line}")));
            }
            self.is_open = true;
            return Ok(Some(WebSocketCame::Open));
        }
        while let Some((opcode, message)) = self.frame() {
            match opcode {
                TEXT => match framing::read(&message, &Limits::AFTER_LOGIN) {
                    Ok(Framed::Open(header)) => return Ok(Some(WebSocketCame::Header(header))),
                    Ok(Framed::Element) => return Ok(Some(WebSocketCame::Element(message))),
                    Ok(Framed::Close) => return Err(SessionError("the server closed the stream".into())),
                    Ok(Framed::Nothing) => {}
                    Err(fault) => {
                        return Err(SessionError(format!("the server's message is not well-formed: {fault}")));
                    }
                },
                PING => frame(PONG, &message, out),
                PONG => {}
                _ => return Err(SessionError("the server closed the WebSocket".into())),
            }
        }
        if self.input.is_empty() {
            self.input = Vec::new();
        }
        Ok(None)
    }

    /// Takes a complete frame from the server: its opcode and its payload.
    fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let (first, second) = (*self.input.first()?, *self.input.get(1)?);
        let (head, len): (usize, usize) = match second & 0x7f {
            126 => (4, usize::from(u16::from_be_bytes(*self.input.get(2..)?.first_chunk()?))),
            127 => (10, usize::try_from(u64::from_be_bytes(*self.input.get(2..)?.first_chunk()?)).ok()?),
            len => (2, usize::from(len)),
        };
        let payload = self.input.get(head..head.checked_add(len)?)?.to_vec();
        self.input.drain(..head + len);
        Some((first & 0xf, payload))
    }
}

/// Appends a frame of a client.
fn frame(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x80 | opcode);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(len @ ..126), _) => out.push(0x80 | len),
        (_, Ok(len)) => {
            out.push(0x80 | 126);
            out.extend_from_slice(&len.to_be_bytes());
        }
        _ => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

const TEXT: u8 = 1;
const PING: u8 = 9;
const PONG: u8 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame from a server, which isn't masked.
    fn server_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0x80 | opcode];
        match payload.len() {
            len @ ..126 => out.push(len as u8),
            len @ ..65_536 => {
                out.push(126);
                out.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                out.push(127);
                out.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(payload);
        out
    }

    /// Returns the items, by name and length, that result from bytes in these pieces, and the bytes
    /// that are sent back.
    fn hear<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Vec<u8>) {
        let (mut client, mut items, mut out) = (WebSocket::default(), Vec::new(), Vec::new());
        for piece in pieces {
            client.receive(piece);
            while let Some(came) = client.next(&mut out).unwrap() {
                items.push(match came {
                    WebSocketCame::Open => "open".to_owned(),
                    WebSocketCame::Header(_) => "header".to_owned(),
                    WebSocketCame::Element(element) => format!("element of {}", element.len()),
                });
            }
        }
        assert_eq!(client.unused_bytes(), 0);
        (items, out)
    }

    #[test]
    fn however_bytes_are_cut_the_same_is_heard() {
        let element = |len: usize| format!("<a>{}</a>", "x".repeat(len - 7));
        let mut wire = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_vec();
        wire.extend(server_frame(
            TEXT,
            b"<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' from='a' id='1' version='1.0'/>",
        ));
        for len in [125, 126, 127, 300] {
            wire.extend(server_frame(TEXT, element(len).as_bytes()));
            wire.extend(server_frame(PING, b"there?"));
        }
        let wanted = ["open", "header", "element of 125", "element of 126", "element of 127", "element of 300"];
        let whole = hear(std::iter::once(&wire[..]));
        assert_eq!(whole.0, wanted);
        assert_eq!(whole.1.len(), 4 * (2 + 4 + 6), "a pong each");
        for at in 0..=wire.len() {
            let (one, other) = wire.split_at(at);
            assert_eq!(hear([one, other].into_iter()), whole, "cut at {at}");
        }
        assert_eq!(hear(wire.chunks(1)), whole);
        let long = server_frame(TEXT, element(70_000).as_bytes());
        let with_long = [wire, long].concat();
        assert_eq!(hear(with_long.chunks(1000)).0.last().map(String::as_str), Some("element of 70000"));
    }
}
