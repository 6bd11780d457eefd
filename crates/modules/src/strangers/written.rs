//! The strangers to whom an account has written, and the options about them.

use rookery_base::{Bucket, Set};
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_store::Subscription;

/// The strangers to whom an account has written.
#[derive(Debug, Default)]
pub(super) struct StrangersWritten {
    /// The rate of new strangers, in milliseconds.
    bucket: Bucket,
    /// The strangers that aren't new.
    known: Set<Jid>,
}

impl StrangersWritten {
    /// Counts a stranger, once; `false` if the limit is reached, both at once and over time.
    /// Writing to the same stranger again is free.
    pub fn may_write(&mut self, to: JidRef<'_>, per_hour: u64, now_ms: u64) -> bool {
        let to = to.bare().to_jid();
        if self.known.contains(&to) {
            return true;
        }
        let cost_ms = HOUR_MS / per_hour.clamp(1, HOUR_MS);
        let fits = self.bucket.level(now_ms) + cost_ms <= HOUR_MS;
        if fits {
            self.bucket.put(cost_ms, now_ms);
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            self.known.insert(to);
        }
        fits
    }

    /// Returns whether nothing of it counts any more, so that it can be dropped.
    pub fn is_over(&self, now_ms: u64) -> bool {
        self.bucket.level(now_ms) == 0
    }
}

/// Returns whether two share presence in either direction; `None` if the account's roster isn't in
/// memory.
pub(super) fn is_contact(world: &World, account: JidRef<'_>, contact: JidRef<'_>) -> Option<bool> {
    world.subscription(account, contact).map(|subscription| subscription != Subscription::None)
}

/// The key below `[modules]`.
pub(super) const NAME: &str = "strangers";
pub(super) const NEWCOMER_DAYS: &str = "newcomer_days";
pub(super) const NEWCOMER_PER_HOUR: &str = "newcomer_per_hour";
pub(super) const SAME_TEXT: &str = "same_text_per_hour";
pub(super) const HOUR_MS: u64 = 3_600_000;
/// The most strangers of one account that are remembered.
const MAX_KNOWN: usize = 500;
