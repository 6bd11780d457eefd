//! Limits the rate at which a session may send. If a session sends faster, the server reads from it
//! later; nothing is dropped, and nobody else notices.
//!
//! Each session has a bucket of bytes and stanzas that empties with time, kept as one number: the
//! time until which everything that it has sent is paid for. If that lies further ahead than the
//! burst allows, reading pauses until it doesn't.

use rookery_base::Bucket;
use rookery_fanout::{Link, LinkPlaces};

/// The rate at which one session may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bytes of stanzas per second, 0 for no limit.
    pub bytes: u64,
    /// Stanzas per second, 0 for no limit.
    pub stanzas: u64,
    /// The seconds' worth of bytes or stanzas that it may send at once.
    pub burst_seconds: u64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { bytes: 10 * 1024 * 1024, stanzas: 20_000, burst_seconds: 5 }
    }
}

impl Rate {
    /// Returns the microseconds of the rate that a stanza uses up.
    pub(crate) fn cost_us(&self, bytes: usize) -> u64 {
        let of_bytes = (bytes as u64).saturating_mul(SECOND_US).checked_div(self.bytes).unwrap_or_default();
        of_bytes.max(SECOND_US.checked_div(self.stanzas).unwrap_or_default())
    }
}

/// The buckets of links, in microseconds of the shard's clock.
#[derive(Debug, Default)]
pub(crate) struct Paid(pub(crate) LinkPlaces<Bucket>);

impl Paid {
    /// Gives a new session an empty bucket, as if it had just sent something that costs nothing.
    pub(crate) fn open(&mut self, link: Link, now_us: u64) {
        if let Some(bucket) = self.0.open(link) {
            *bucket = Bucket::default();
            bucket.put(0, now_us);
        }
    }
}

/// A second in microseconds.
pub(crate) const SECOND_US: u64 = 1_000_000;
