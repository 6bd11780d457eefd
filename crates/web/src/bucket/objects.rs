//! Objects of a bucket in transfer: one that is being written, and one that is being read.
//!
//! An object exists as a whole or not at all. Its length is announced first; if the body ends
//! early, so does the connection, and the storage discards what it has received.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::body::ComingBytes;
use crate::storage::{Growing, StorageDoing};

/// The body of a request that writes an object: bytes as they arrive, in the announced number.
#[derive(Debug)]
pub(super) struct ObjectBody {
    come: mpsc::Receiver<Bytes>,
    left: u64,
}

impl ObjectBody {
    /// Returns the sender of a body with this number of bytes, and the body.
    pub fn of(bytes: u64) -> (mpsc::Sender<Bytes>, Self) {
        let (sender, come) = mpsc::channel(1);
        (sender, Self { come, left: bytes })
    }

    /// Returns a body for requests that have none.
    pub fn empty() -> Self {
        Self::of(0).1
    }
}

impl HttpBody for ObjectBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match ready!(self.come.poll_recv(context)) {
            Some(bytes) if bytes.len() as u64 <= self.left => {
                self.left -= bytes.len() as u64;
                Ok(Frame::data(bytes))
            }
            Some(_) => Err(io::Error::other("there is more data than announced")),
            None => Err(io::Error::other("the upload was aborted")),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// An object that is being written.
pub(super) struct GrowingObject {
    sender: Option<mpsc::Sender<Bytes>>,
    /// Completes when the storage has taken the object.
    taken: JoinHandle<io::Result<()>>,
}

impl GrowingObject {
    pub fn new(sender: mpsc::Sender<Bytes>, taken: JoinHandle<io::Result<()>>) -> Self {
        Self { sender: Some(sender), taken }
    }

    /// Returns the outcome, for which the storage has limited time.
    async fn outcome(&mut self) -> io::Result<()> {
        let taken = timeout(PATIENCE, &mut self.taken).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        taken.map_err(io::Error::other)?
    }
}

impl Growing for GrowingObject {
    fn append(&mut self, bytes: Vec<u8>) -> StorageDoing<'_, ()> {
        Box::pin(async move {
            if bytes.is_empty() {
                return Ok(());
            }
            let Some(sender) = &self.sender else { return Err(io::ErrorKind::BrokenPipe.into()) };
            match timeout(PATIENCE, sender.send(bytes.into())).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => {
                    self.sender = None;
                    // The storage has answered early, with the reason.
                    self.outcome().await.and(Err(io::ErrorKind::BrokenPipe.into()))
                }
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        })
    }

    fn end(mut self: Box<Self>) -> StorageDoing<'static, ()> {
        Box::pin(async move {
            self.sender = None;
            self.outcome().await
        })
    }
}

impl Drop for GrowingObject {
    /// Ends the request, so that an abandoned one doesn't keep its connection.
    fn drop(&mut self) {
        self.taken.abort();
    }
}

/// The bytes of an object as they arrive.
pub(super) struct ObjectBytes {
    body: Incoming,
    left: u64,
    silence: Pin<Box<Sleep>>,
}

impl ObjectBytes {
    /// Returns this number of bytes of a body.
    pub fn new(body: Incoming, bytes: u64) -> Self {
        Self { body, left: bytes, silence: Box::pin(sleep(PATIENCE)) }
    }
}

impl fmt::Debug for ObjectBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectBytes").field("left", &self.left).finish_non_exhaustive()
    }
}

impl ComingBytes for ObjectBytes {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            return self.silence.as_mut().poll(context).map(|()| Some(Err(io::ErrorKind::TimedOut.into())));
        };
        self.silence.as_mut().reset(Instant::now() + PATIENCE);
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                let bytes = frame.into_data().unwrap_or_default();
                let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                self.left -= most as u64;
                Some(Ok(bytes.slice(..most)))
            }
            Some(Err(error)) => Some(Err(io::Error::other(error))),
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
}

/// The time for which the storage may be silent.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
