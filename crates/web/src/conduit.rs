//! A connection, with or without TLS, in a form that the HTTP library can use, and from which a
//! shard can take it over.
//!
//! TLS is the same as on a shard, [`ServerTls`], because a connection that begins here continues
//! there. An idle connection keeps no buffer: while it waits for a request or a response, it
//! consists of this struct only.
//!
//! Every write here fails if the peer doesn't read, be it a response, a TLS message or the end of
//! the connection. So writers need no timeout of their own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rookery_stream::tls::{ServerTls, TlsSettings};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// A connection.
#[derive(Debug)]
pub struct Conduit {
    socket: TcpStream,
    tls: Option<Box<ConduitTls>>,
    /// Bytes that were read ahead, and come before all others.
    ahead: Vec<u8>,
    /// True if written bytes have not left yet. Code that needs to know this while the library owns
    /// the connection has a clone.
    is_unsent: Arc<AtomicBool>,
    /// The timer while the peer doesn't take any bytes.
    stall: Option<Pin<Box<Sleep>>>,
    /// The longest time for which the peer may take no bytes.
    patience: Duration,
}

#[derive(Debug)]
struct ConduitTls {
    session: ServerTls,
    /// Decrypted bytes; those before `read` have been read.
    plain: Vec<u8>,
    read: usize,
    /// Encrypted bytes; those before `sent` have been sent.
    cipher: Vec<u8>,
    sent: usize,
    /// True if the peer has ended its direction of the connection.
    ended: bool,
    /// True if we have ended our direction of the connection.
    closed: bool,
}

/// The parts of a connection.
#[derive(Debug)]
pub struct ConduitParts {
    /// The socket, by which the shard reads and writes from now on.
    pub socket: std::net::TcpStream,
    /// TLS, established.
    pub tls: Option<ServerTls>,
    /// Decrypted input that was not read.
    pub input: Vec<u8>,
}

impl Conduit {
    /// Wraps a connection without TLS.
    pub fn plain(socket: TcpStream) -> Self {
        Self { socket, tls: None, ahead: Vec::new(), is_unsent: Arc::default(), stall: None, patience: PATIENCE }
    }

    /// Wraps a connection with TLS, and carries out its handshake.
    ///
    /// # Errors
    /// The peer doesn't speak TLS, or has gone.
    pub async fn tls(socket: TcpStream, settings: &TlsSettings) -> io::Result<Self> {
        let session = ServerTls::accept(settings).map_err(io::Error::other)?;
        let (plain, cipher) = (Vec::new(), Vec::new());
        let tls = ConduitTls { session, plain, read: 0, cipher, sent: 0, ended: false, closed: false };
        let mut conduit = Self { tls: Some(Box::new(tls)), ..Self::plain(socket) };
        std::future::poll_fn(|context| conduit.poll_handshake(context)).await?;
        Ok(conduit)
    }

    /// Returns the protocol that TLS has agreed on.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.session.alpn()
    }

    /// Takes the connection apart, for a shard.
    ///
    /// # Errors
    /// The system's error about the socket, or that not all bytes were sent.
    pub fn into_parts(self) -> io::Result<ConduitParts> {
        let socket = self.socket.into_std()?;
        let mut input = self.ahead;
        let Some(tls) = self.tls else { return Ok(ConduitParts { socket, tls: None, input }) };
        if tls.sent < tls.cipher.len() {
            return Err(io::Error::other("something was not sent"));
        }
        input.extend_from_slice(tls.plain.get(tls.read..).unwrap_or_default());
        Ok(ConduitParts { socket, tls: Some(tls.session), input })
    }

    /// Puts back bytes that were read and not used: they are read again before new ones.
    pub fn give_back(&mut self, bytes: &[u8]) {
        self.ahead.splice(..0, bytes.iter().copied());
    }

    /// Returns a flag that is set while written bytes have not left.
    pub fn unsent_flag(&self) -> Arc<AtomicBool> {
        self.is_unsent.clone()
    }

    /// Waits until there are bytes to read, which are kept for the next reader; returns `false` if
    /// no more will come.
    pub async fn arrival(&mut self) -> bool {
        std::future::poll_fn(|context| self.poll_arrival(context)).await
    }

    /// Waits until the peer has gone. If it sends bytes instead, this waits for ever, since the end
    /// after them can't be seen before they are read.
    pub async fn departure(&mut self) {
        if !self.ahead.is_empty() || self.arrival().await {
            std::future::pending().await
        }
    }

    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if !self.ahead.is_empty() {
            return Poll::Ready(true);
        }
        let mut bytes = [0; AHEAD];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = ready!(self.poll_fresh(context, &mut buffer));
        self.ahead = buffer.filled().to_vec();
        Poll::Ready(read.is_ok() && !self.ahead.is_empty())
    }

    /// Reads new bytes.
    fn poll_fresh(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let Some(tls) = &mut self.tls else { return Pin::new(&mut self.socket).poll_read(context, buffer) };
            let rest = tls.plain.get(tls.read..).unwrap_or_default();
            if !rest.is_empty() {
                let len = rest.len().min(buffer.remaining());
                buffer.put_slice(rest.get(..len).unwrap_or_default());
                tls.read += len;
                if tls.read >= tls.plain.len() {
                    (tls.plain, tls.read) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            if tls.ended {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_receive(context))?;
            // TLS may have messages of its own, such as new keys. If they can't leave now, they
            // leave with the next write.
            if let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(Err(error));
            }
        }
    }

    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_send(context))?;
            match &self.tls {
                Some(tls) if tls.session.handshaking() && !tls.ended => ready!(self.poll_receive(context))?,
                Some(tls) if tls.session.handshaking() => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                _ => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads once from the socket and decrypts.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(())) };
        let mut bytes = [0; CHUNK];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer))?;
        if buffer.filled().is_empty() {
            tls.ended = true;
            return Poll::Ready(Ok(()));
        }
        let progress = tls.session.read(buffer.filled_mut(), &mut tls.plain, &mut tls.cipher);
        match progress {
            Ok(progress) => tls.ended |= progress.closed,
            Err(error) => {
                // Sending the alert is worth an attempt.
                let _ = self.poll_send(context);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes as much to the socket as it accepts: at least one byte.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::TimedOut`] if the peer takes nothing for too long,
    /// or takes bytes too slowly. Then the connection is reset, so that the system keeps nothing
    /// for it either.
    fn poll_out(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.socket).poll_write(context, bytes) {
            Poll::Ready(Ok(0)) if !bytes.is_empty() => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(sent)) => {
                if let Some(stall) = &mut self.stall {
                    let gained = Duration::from_nanos(1_000_000_000 / SLOWEST).saturating_mul(sent as u32);
                    let until = (stall.deadline() + gained).min(Instant::now() + self.patience);
                    stall.as_mut().reset(until);
                }
                Poll::Ready(Ok(sent))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let patience = self.patience;
                let stall = self.stall.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
                ready!(stall.as_mut().poll(context));
                // If this fails, the system closes the connection in its own time.
                let _ = self.socket.set_zero_linger();
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer doesn't read what it is sent")))
            }
        }
    }

    /// Sends the encrypted bytes.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Taken out meanwhile, since the socket is needed as well.
        let Some(mut tls) = self.tls.take() else { return Poll::Ready(Ok(())) };
        let sent = self.poll_cipher(context, &mut tls);
        self.tls = Some(tls);
        sent
    }

    fn poll_cipher(&mut self, context: &mut Context<'_>, tls: &mut ConduitTls) -> Poll<io::Result<()>> {
        while let Some(rest) = tls.cipher.get(tls.sent..).filter(|rest| !rest.is_empty()) {
            tls.sent += ready!(self.poll_out(context, rest))?;
        }
        // An idle connection keeps no buffer, and a peer that has taken everything has its full
        // time again.
        (tls.cipher, tls.sent, self.stall) = (Vec::new(), 0, None);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Conduit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.ahead.is_empty() {
            return this.poll_fresh(context, buffer);
        }
        let len = this.ahead.len().min(buffer.remaining());
        buffer.put_slice(this.ahead.get(..len).unwrap_or_default());
        this.ahead.drain(..len);
        if this.ahead.is_empty() {
            this.ahead = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Conduit {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.is_unsent.store(true, Ordering::Relaxed);
        if this.tls.is_none() {
            return this.poll_out(context, bytes);
        }
        // Encrypted bytes must leave, so they count as written; the next call waits for them.
        ready!(this.poll_send(context))?;
        let Some(tls) = &mut this.tls else { return Poll::Ready(Ok(0)) };
        let bytes = bytes.get(..CHUNK).unwrap_or(bytes);
        tls.session.write(bytes, &mut tls.cipher).map_err(io::Error::other)?;
        if let Poll::Ready(Err(error)) = this.poll_send(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        ready!(Pin::new(&mut self.socket).poll_flush(context))?;
        self.stall = None;
        self.is_unsent.store(false, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = self.tls.as_mut().filter(|tls| !tls.closed) {
            tls.closed = true;
            tls.session.close_notify(&mut tls.cipher);
        }
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// The bytes that are read or encrypted at a time: the size of a TLS record.
const CHUNK: usize = 16 * 1024;
/// The most bytes that are read from a client before its receiver exists.
const AHEAD: usize = 4096;
/// The time for which a peer may take no bytes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The fewest bytes per second, on average, that it has to take of a response: as slow as an upload
/// may be.
const SLOWEST: u64 = 2 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    /// Returns a connection on this machine, and its other end.
    async fn pair() -> (Conduit, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Conduit::plain(listener.accept().await.unwrap().0), peer)
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn what_is_given_back_is_read_first() {
        run(async {
            let (mut conduit, mut peer) = pair().await;
            peer.write_all(b"third").await.unwrap();
            assert!(conduit.arrival().await);
            conduit.give_back(b"second, ");
            conduit.give_back(b"first, ");
            assert!(conduit.arrival().await, "and nothing is lost");
            let mut heard = [0; 20];
            conduit.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, b"first, second, third");
            conduit.give_back(b"for a shard");
            assert_eq!(conduit.into_parts().unwrap().input, b"for a shard");
        });
    }

    #[test]
    fn a_peer_that_goes_is_noticed_and_one_that_talks_is_not_taken_for_it() {
        run(async {
            let (mut conduit, peer) = pair().await;
            drop(peer);
            conduit.departure().await;
            assert!(!conduit.arrival().await);
            let (mut conduit, mut peer) = pair().await;
            peer.write_all(b"x").await.unwrap();
            drop(peer);
            let moment = std::time::Duration::from_millis(50);
            assert!(timeout(moment, conduit.departure()).await.is_err(), "what it said comes first");
            let mut heard = Vec::new();
            conduit.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"x");
        });
    }

    #[test]
    fn a_peer_that_reads_nothing_is_not_waited_for() {
        run(async {
            let (mut conduit, peer) = pair().await;
            conduit.patience = Duration::from_millis(20);
            let ended = conduit.write_all(&vec![0; 64 << 20]).await.unwrap_err();
            assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
            drop(conduit);
            // The bytes that the system had buffered for it are gone as well.
            let mut heard = Vec::new();
            let mut peer = peer;
            assert_eq!(peer.read_to_end(&mut heard).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        });
    }

    #[test]
    fn a_peer_that_reads_slowly_gets_all() {
        run(async {
            let (mut conduit, mut peer) = pair().await;
            let all = vec![7; 16 << 20];
            let read = tokio::spawn(async move {
                let (mut heard, mut buffer) = (0, vec![0; 256 * 1024]);
                while let Ok(len @ 1..) = peer.read(&mut buffer).await {
                    heard += len;
                    tokio::task::yield_now().await;
                }
                heard
            });
            conduit.write_all(&all).await.unwrap();
            conduit.flush().await.unwrap();
            assert!(conduit.stall.is_none(), "an idle connection has no clock");
            conduit.shutdown().await.unwrap();
            assert_eq!(read.await.unwrap(), all.len());
        });
    }

    #[test]
    fn what_has_not_left_is_known() {
        run(async {
            let (mut conduit, mut peer) = pair().await;
            let unsent = conduit.unsent_flag();
            conduit.write_all(b"answer").await.unwrap();
            assert!(unsent.load(Ordering::Relaxed));
            conduit.flush().await.unwrap();
            assert!(!unsent.load(Ordering::Relaxed));
            peer.read_exact(&mut [0; 6]).await.unwrap();
        });
    }
}
