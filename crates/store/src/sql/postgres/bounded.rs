//! Bounds the data from a PostgreSQL server. The library trusts the length that a message claims,
//! up to two gibibytes, and buffers data that it didn't request. It would also send the password
//! unencrypted to a server that asks for it, even on an insecure connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of messages from a PostgreSQL, which fails at the beginning of a message that is larger
/// than any valid one, or that asks for the password where others could read it.
pub(super) struct Bounded<S> {
    stream: S,
    messages: Messages,
}

/// The exposure of the data on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamWay {
    /// Only the server sees the data: the stream is encrypted, or a Unix socket.
    #[default]
    Closed,
    /// The data is exposed on the network, and to a server that impersonates the right one.
    Open,
}

impl<S> Bounded<S> {
    /// Returns a stream on which no message has arrived yet.
    pub(super) fn new(stream: S, way: StreamWay) -> Bounded<S> {
        Bounded { stream, messages: Messages { way, ..Messages::default() } }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }
}

/// Tracks the lengths of messages, in whatever portions they arrive. A message is a byte for its
/// kind, then its length including these four bytes but not the first, then the rest
/// (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).
#[derive(Default)]
struct Messages {
    way: StreamWay,
    /// The part of a message's head that has arrived.
    head: [u8; HEAD],
    come: usize,
    /// The part that has arrived of the bytes that name the method in a request for a login; `None`
    /// in other messages.
    method: Option<([u8; METHOD], usize)>,
    /// The remaining bytes of the current message after those.
    left: usize,
    /// True once the login is complete.
    is_ready: bool,
    /// The bytes of all data that is kept for the life of the connection.
    kept: usize,
}

impl Messages {
    fn pass(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let passed = self.left.min(bytes.len());
            self.look(&bytes[..passed])?;
            (self.left, bytes) = (self.left - passed, &bytes[passed..]);
            let of_head = (HEAD - self.come).min(bytes.len());
            self.head[self.come..self.come + of_head].copy_from_slice(&bytes[..of_head]);
            (self.come, bytes) = (self.come + of_head, &bytes[of_head..]);
            if self.come == HEAD {
                self.begin()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        let [kind, length @ ..] = self.head;
        let length = u32::from_be_bytes(length) as usize;
        if !(HEAD - 1..=MOST_BYTES).contains(&length) {
            return Err(refusal(format!("it sends a message of {length} bytes")));
        }
        // The library keeps notices during the login, and parameters always.
        if !self.is_ready || kind == PARAMETER {
            self.kept += length;
        }
        if self.kept > MOST_KEPT {
            return Err(refusal(format!("it sends {} bytes that nobody asked for", self.kept)));
        }
        self.is_ready |= kind == READY;
        (self.come, self.left) = (0, length - (HEAD - 1));
        self.method = (kind == LOGIN && self.way == StreamWay::Open).then_some(([0; METHOD], 0));
        Ok(())
    }

    /// Examines a request for a login.
    fn look(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some((method, come)) = &mut self.method else { return Ok(()) };
        for (to, from) in method[*come..].iter_mut().zip(bytes) {
            (*to, *come) = (*from, *come + 1);
        }
        if *come == METHOD && u32::from_be_bytes(*method) == CLEARTEXT {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, IN_THE_CLEAR));
        }
        Ok(())
    }
}

fn refusal(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        Poll::Ready(self.messages.pass(&into.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The bytes of a message's kind and its length.
const HEAD: usize = 5;

/// The kind of a message that requests a login, and the bytes that name the method.
const LOGIN: u8 = b'R';
const METHOD: usize = 4;

/// AuthenticationCleartextPassword.
const CLEARTEXT: u32 = 3;

const IN_THE_CLEAR: &str = "it asks for the password itself over an unencrypted connection, and doesn't get it: use scram-sha-256 in its pg_hba.conf, or encrypt the connection";

/// The kind of a message that sets a parameter.
const PARAMETER: u8 = b'S';

/// The kind of a repeated message that the server is ready for statements.
const READY: u8 = b'Z';

/// The most bytes of a message: four times those of the largest group of rows that is written.
const MOST_BYTES: usize = 64 << 20;

/// The most bytes during a login, and of parameters afterwards.
const MOST_KEPT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, length: u32) -> Vec<u8> {
        let mut message = [&[kind][..], &length.to_be_bytes()].concat();
        message.resize(1 + length as usize, b'x');
        message
    }

    #[test]
    fn messages_pass_in_any_portions() {
        let all = [message(b'R', 8), message(b'S', 20), message(READY, 5), message(b'D', 70_000), message(b'C', 4)];
        let all = all.concat();
        for portion in [1, 2, 3, 4, 5, 7, 1000, all.len()] {
            let mut messages = Messages::default();
            for portion in all.chunks(portion) {
                messages.pass(portion).expect("messages as they should be");
            }
            assert_eq!((messages.come, messages.left, messages.kept), (0, 0, 8 + 20 + 5));
        }
    }

    #[test]
    fn what_is_too_large_ends_at_its_head() {
        for length in [0, 3, MOST_BYTES as u32 + 1, u32::MAX] {
            let head = [&b"D"[..], &length.to_be_bytes()].concat();
            assert!(Messages::default().pass(&head).is_err(), "{length}");
            let mut messages = Messages::default();
            assert!(head[..4].iter().all(|byte| messages.pass(&[*byte]).is_ok()), "{length}");
            assert!(messages.pass(&head[4..]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_password_is_asked_for_in_vain_where_others_could_read_it() {
        let asks = |method: u8| [&b"R\0\0\0\x08\0\0\0"[..], &[method]].concat();
        let passes = |way: StreamWay, portion: usize, method: u8| {
            let mut messages = Messages { way, ..Messages::default() };
            asks(method).chunks(portion).all(|bytes| messages.pass(bytes).is_ok())
        };
        for portion in [1, 2, 5, 6, 9] {
            assert!(!passes(StreamWay::Open, portion, 3) && passes(StreamWay::Closed, portion, 3), "{portion}");
            // AuthenticationOk, MD5 and SASL.
            assert!([0, 5, 10].into_iter().all(|method| passes(StreamWay::Open, portion, method)), "{portion}");
        }
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let sent = |ready: bool, kind: u8| {
            let mut messages = Messages { is_ready: ready, ..Messages::default() };
            (0..).take(2000).all(|_| messages.pass(&message(kind, 1000)).is_ok())
        };
        assert!(!sent(false, b'N') && !sent(false, PARAMETER) && !sent(true, PARAMETER));
        assert!(sent(true, b'N') && sent(true, b'D'));
    }
}
