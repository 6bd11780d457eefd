//! The overview of readings, readers and delays, as JSON for another thread of this process.

use std::io;
use std::task::{Context, Poll, ready};

use serde_json::Value;

/// A requested overview.
#[derive(Debug)]
pub struct OverviewFeed {
    stream: tokio::net::UnixStream,
    bytes: Vec<u8>,
    is_over: bool,
}

impl OverviewFeed {
    pub(super) fn new(stream: tokio::net::UnixStream) -> Self {
        Self { stream, bytes: Vec::new(), is_over: false }
    }

    /// Returns the overview, once; then `None`.
    ///
    /// # Errors
    /// `InvalidData` if it is incomplete; others are the system's.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Value>>> {
        while !self.is_over {
            ready!(self.stream.poll_read_ready(context))?;
            let mut chunk = [0; CHUNK];
            match self.stream.try_read(&mut chunk) {
                Ok(0) => {
                    self.is_over = true;
                    let read = serde_json::from_slice(&self.bytes);
                    return Poll::Ready(Some(read.map_err(|_| io::ErrorKind::InvalidData.into())));
                }
                Ok(length) => self.bytes.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        Poll::Ready(None)
    }
}

/// The most bytes that are read at a time.
const CHUNK: usize = 16 << 10;
