//! Copies the bytes of an activated stream in both directions, until both sides have ended theirs.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use rookery_modules::bytestreams::RelayTerms;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};

use crate::pace::RelayPace;

/// Copies bytes between two connections and closes both. A side that has ended its direction still
/// receives the bytes of the other side.
///
/// # Errors
///
/// The error of either connection; [`io::ErrorKind::TimedOut`] if nothing moves for too long.
pub async fn carry(mut one: TcpStream, mut other: TcpStream, terms: RelayTerms) -> io::Result<()> {
    let moved = Moved { start: Instant::now(), last_ms: AtomicU64::new(0) };
    let idle = Duration::from_secs(terms.idle_seconds);
    let (from_one, to_one) = one.split();
    let (from_other, to_other) = other.split();
    let mut there = pin!(direction(from_one, to_other, RelayPace::new(terms.rate_bytes, moved.start), idle, &moved));
    let mut back = pin!(direction(from_other, to_one, RelayPace::new(terms.rate_bytes, moved.start), idle, &moved));
    let (mut is_there, mut is_back) = (false, false);
    poll_fn(|context| {
        // An error in one direction ends both directions.
        if !is_there && let Poll::Ready(end) = there.as_mut().poll(context) {
            end?;
            is_there = true;
        }
        if !is_back && let Poll::Ready(end) = back.as_mut().poll(context) {
            end?;
            is_back = true;
        }
        if is_there && is_back { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

async fn direction(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut pace: RelayPace,
    idle: Duration,
    moved: &Moved,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = match timeout(idle, from.read(&mut buffer)).await {
            Ok(read) => read?,
            // Bytes may have moved in the other direction.
            Err(_) if moved.since() < idle => continue,
            Err(idle) => return Err(idle.into()),
        };
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { return to.shutdown().await };
        moved.now();
        timeout(idle, to.write_all(bytes)).await??;
        let wait = pace.count_transfer(read, Instant::now());
        if !wait.is_zero() {
            sleep(wait).await;
        }
        moved.now();
    }
}

/// The time at which bytes last moved in either direction.
struct Moved {
    start: Instant,
    last_ms: AtomicU64,
}

impl Moved {
    fn now(&self) {
        self.last_ms.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn since(&self) -> Duration {
        self.start.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }
}

/// The most bytes that are read at a time.
const BUFFER_BYTES: usize = 16 * 1024;
