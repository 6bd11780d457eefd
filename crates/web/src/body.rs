//! The body of a response: bytes, a part of a file that is read in chunks as the client takes them,
//! or data that arrives over time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking};

/// The body of a response.
#[derive(Debug, Default)]
pub struct Body(BodySource);

#[derive(Debug, Default)]
enum BodySource {
    #[default]
    Nothing,
    Bytes(Bytes),
    File(FilePart),
    Coming(Box<dyn ComingBytes>),
}

/// A source of bytes that arrive over time.
pub(crate) trait ComingBytes: std::fmt::Debug + Send {
    /// Returns the next bytes, when there are any; `None` at the end.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

/// The remaining part of a file.
#[derive(Debug)]
struct FilePart {
    file: Option<File>,
    at: u64,
    left: u64,
    /// The chunk that is being read, on another thread.
    reading: Option<JoinHandle<io::Result<(File, Bytes)>>>,
    /// The turn of the holder of the file, if such a file has one holder at a time.
    _turn: Option<OwnedSemaphorePermit>,
}

impl Body {
    /// Returns a body that has all its bytes already, so that its length is known.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self(BodySource::Bytes(bytes.into()))
    }

    /// Returns a body of `len` bytes of a file, from `start` on.
    pub fn file(file: File, start: u64, len: u64) -> Self {
        Self(BodySource::File(FilePart { file: Some(file), at: start, left: len, reading: None, _turn: None }))
    }

    /// Keeps a turn until the file was sent, or nobody wants it any more. Other bodies give the
    /// turn back at once.
    pub(crate) fn holding(mut self, turn: OwnedSemaphorePermit) -> Self {
        if let BodySource::File(part) = &mut self.0 {
            part._turn = Some(turn);
        }
        self
    }

    /// Returns a body of bytes that arrive over time, in an unknown number.
    pub(crate) fn coming(source: impl ComingBytes + 'static) -> Self {
        Self(BodySource::Coming(Box::new(source)))
    }
}

impl FilePart {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.reading.is_none() {
            let Some(file) = self.file.take().filter(|_| self.left > 0) else { return Poll::Ready(None) };
            let (at, len) = (self.at, self.left.min(RUN as u64) as usize);
            self.reading = Some(spawn_blocking(move || {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, at)?;
                Ok((file, bytes.into()))
            }));
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(context)).map_err(io::Error::other).and_then(|read| read);
        self.reading = None;
        Poll::Ready(Some(read.map(|(file, bytes)| {
            self.file = Some(file);
            self.at += bytes.len() as u64;
            self.left -= bytes.len() as u64;
            bytes
        })))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.0 {
            BodySource::Nothing => Poll::Ready(None),
            BodySource::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            BodySource::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            BodySource::File(part) => part.poll(context).map(|read| read.map(|read| read.map(Frame::data))),
            BodySource::Coming(source) => source.poll(context).map(|read| read.map(|read| read.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodySource::Nothing => true,
            BodySource::Bytes(bytes) => bytes.is_empty(),
            BodySource::File(part) => part.left == 0,
            BodySource::Coming(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.0 {
            BodySource::Nothing => 0,
            BodySource::Bytes(bytes) => bytes.len() as u64,
            BodySource::File(part) => part.left,
            BodySource::Coming(_) => return SizeHint::default(),
        })
    }
}

/// The number of bytes that are read at a time.
const RUN: usize = 64 * 1024;
