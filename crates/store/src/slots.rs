//! Upload slots, for files that users share by HTTP (XEP-0363). The files themselves are elsewhere:
//! slots define the right to write and read them.

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The upload slots of all accounts.
pub trait Slots: Send + Sync {
    /// Reserves a slot, unless its owner would then exceed the quota. Returns
    /// [`NoAccount`](crate::StoreError::NoAccount) if the owner isn't an account.
    fn reserve(&self, slot: Slot, quota: SlotQuota) -> Pending<Reserved>;

    /// Returns the slot with this token, unless it has expired. `now_ms` is in milliseconds since
    /// 1970.
    fn slot(&self, token: &str, now_ms: u64) -> Pending<Option<Slot>>;

    /// Returns the slots of an account that hold a file and haven't expired, the last to expire
    /// first, at most `limit`. For operators.
    fn files_of(&self, owner: JidRef<'_>, now_ms: u64, limit: usize) -> Pending<Vec<Slot>>;

    /// Moves a slot from one stage to another. Returns `false` if it isn't in the stage `from`, or
    /// has expired: so only one caller ever fills a slot. From then on it expires at `until_ms`, in
    /// milliseconds since 1970.
    fn advance(&self, token: &str, from: SlotStage, to: SlotStage, now_ms: u64, until_ms: u64) -> Pending<bool>;

    /// Returns the tokens of slots that have expired, or whose owner is gone, at most `limit`.
    fn list_expired(&self, now_ms: u64, limit: usize) -> Pending<Vec<String>>;

    /// Deletes a slot, whose file the caller has removed.
    fn forget(&self, token: &str) -> Pending<()>;
}

/// An upload slot: the place for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The unguessable part of its address.
    pub token: String,
    /// Its owner, a bare JID. The slot has expired once that account is removed.
    pub owner: Jid,
    /// The file's name, as its owner wrote it.
    pub name: String,
    /// Its exact length in bytes.
    pub size: u64,
    /// Its type, if the owner has stated one.
    pub content_type: Option<String>,
    /// The end of its stage, in milliseconds since 1970: an upload that hasn't begun by then is
    /// refused, one that takes too long is aborted, and a file is removed.
    pub expires_ms: u64,
    /// The milliseconds for which its file is kept.
    pub keep_ms: u64,
    /// The stage that it has reached.
    pub stage: SlotStage,
}

/// The bounds of the upload slots that one account has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotQuota {
    /// The bytes of all of them together.
    pub bytes: u64,
    /// The number of slots, with or without a file.
    pub files: u64,
    /// The number of slots whose upload hasn't begun.
    pub waiting: u64,
}

/// The outcome of reserving an upload slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The slot is created.
    Done,
    /// Its owner has too many slots, or too large ones.
    Full {
        /// The time when enough of them will have expired for it to fit, in milliseconds since
        /// 1970; `None` if it never fits.
        again_ms: Option<u64>,
    },
}

/// The part of an upload slot that matters for quotas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub size: u64,
    pub expires_ms: u64,
    pub is_waiting: bool,
}

impl SlotQuota {
    /// Returns the time when one more slot of some size fits in addition to the existing ones,
    /// which are ordered by their expiry: `Some(0)` for at once.
    pub(crate) fn fits_from(&self, size: u64, taken: &[Taken]) -> Option<u64> {
        let mut bytes = taken.iter().fold(size, |sum, slot| sum.saturating_add(slot.size));
        let mut files = 1 + taken.len() as u64;
        let mut waiting = 1 + taken.iter().filter(|slot| slot.is_waiting).count() as u64;
        let mut from_ms = 0;
        let mut rest = taken.iter();
        while bytes > self.bytes || files > self.files || waiting > self.waiting {
            let slot = rest.next()?;
            from_ms = slot.expires_ms;
            bytes -= slot.size.min(bytes);
            files -= 1;
            waiting -= u64::from(slot.is_waiting);
        }
        Some(from_ms)
    }
}

/// The stages of an upload slot, through which it goes in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStage {
    /// There is no file.
    Reserved,
    /// It is being uploaded.
    Filling,
    /// The file is complete, and may be read until the slot expires.
    Filled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_when_enough_has_expired() {
        let quota = SlotQuota { bytes: 100, files: 3, waiting: 2 };
        let taken = |slots: &[(u64, u64, bool)]| -> Vec<Taken> {
            slots.iter().map(|&(size, expires_ms, is_waiting)| Taken { size, expires_ms, is_waiting }).collect()
        };
        assert_eq!(quota.fits_from(100, &[]), Some(0));
        assert_eq!(quota.fits_from(101, &[]), None, "never");
        let some = taken(&[(30, 10, false), (30, 20, false), (30, 30, false)]);
        assert_eq!(quota.fits_from(1, &some), Some(10), "by number");
        assert_eq!(quota.fits_from(70, &some), Some(20), "by bytes");
        let waiting = taken(&[(1, 10, false), (1, 20, true), (1, 30, true)]);
        assert_eq!(quota.fits_from(1, &waiting[1..]), Some(20), "by those that wait");
        assert_eq!(quota.fits_from(u64::MAX, &waiting), None);
    }
}
