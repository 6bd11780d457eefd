//! Places for files that users share by HTTP (XEP-0363). The files themselves are elsewhere: here is who may write and read which.

use crate::Pending;
use rookery_jid::Jid;

/// The slots of all accounts.
pub trait Slots: Send + Sync {
    /// Reserves a slot, unless the slots of its owner would hold more than `quota` bytes together.
    /// Answers [`NoAccount`](crate::StoreError::NoAccount) if the owner isn't an account.
    fn reserve(&self, slot: Slot, quota: u64) -> Pending<bool>;

    /// The slot with this token, unless it has expired. `now_ms`: milliseconds since 1970.
    fn slot(&self, token: &str, now_ms: u64) -> Pending<Option<Slot>>;

    /// Goes from one stage to another, once: `false` if the slot isn't in the stage `from`, or has expired. Who fills a slot is alone with it.
    /// `until_ms`: when it expires from now on.
    fn advance(&self, token: &str, from: SlotStage, to: SlotStage, now_ms: u64, until_ms: u64) -> Pending<bool>;

    /// The tokens of slots that have expired, or whose owner is gone, at most `limit`.
    fn expired(&self, now_ms: u64, limit: usize) -> Pending<Vec<String>>;

    /// Forgets a slot: whoever does has removed its file.
    fn forget(&self, token: &str) -> Pending<()>;
}

/// A place for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What its address has that nobody can guess.
    pub token: String,
    /// Whose it is, a bare JID. Expired from the moment on when that account is removed.
    pub owner: Jid,
    /// The file's name, as its owner wrote it.
    pub name: String,
    /// Its length in bytes: no more and no less.
    pub size: u64,
    /// Its type, if the owner has said one.
    pub content_type: Option<String>,
    /// Until when its stage may last, milliseconds since 1970: an upload that has not begun by then is too late, one that goes on too long is
    /// broken off, and a file is removed.
    pub expires_ms: u64,
    /// How long its file is kept, in milliseconds.
    pub keep_ms: u64,
    /// How far it has come.
    pub stage: SlotStage,
}

/// How far a slot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStage {
    /// There is no file.
    Reserved,
    /// It is being uploaded.
    Filling,
    /// It is there.
    Filled,
}
