//! [`Slots`](rookery_store::Slots).

use super::samples::*;
use rookery_jid::Jid;
use rookery_store::{Reserved, Slot, SlotQuota, SlotStage, StoreError, Stores, wait};

const QUOTA: SlotQuota = SlotQuota { bytes: 100, files: 3, waiting: 2 };

fn slot(owner: &Jid, token: &str, size: u64) -> Slot {
    Slot {
        token: token.into(),
        owner: owner.clone(),
        name: "a \u{1f339}.png".into(),
        size,
        content_type: Some("image/png".into()),
        expires_ms: 100,
        keep_ms: 1000,
        stage: SlotStage::Reserved,
    }
}

pub fn a_slot_is_filled_once_and_kept_for_a_time(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let one = slot(&owner, "one", 7);
    assert_eq!(finish(stores.slots.reserve(one.clone(), QUOTA)), Reserved::Done);
    assert_eq!(finish(stores.slots.slot("one", 99)), Some(one.clone()));
    assert_eq!(finish(stores.slots.slot("One", 99)), None);
    let advance = |from, to, now_ms, until_ms| finish(stores.slots.advance("one", from, to, now_ms, until_ms));
    assert!(!advance(SlotStage::Filling, SlotStage::Filled, 50, 1000));
    assert!(!advance(SlotStage::Reserved, SlotStage::Filling, 100, 1000), "too late");
    assert!(advance(SlotStage::Reserved, SlotStage::Filling, 50, 500));
    assert!(!advance(SlotStage::Reserved, SlotStage::Filling, 50, 500), "somebody else fills it");
    assert!(
        finish(stores.slots.list_expired(499, 9)).is_empty(),
        "an upload goes on for longer than a slot waits for it"
    );
    assert!(advance(SlotStage::Filling, SlotStage::Reserved, 60, 100), "it broke off");
    assert!(advance(SlotStage::Reserved, SlotStage::Filling, 99, 500));
    assert!(!advance(SlotStage::Filling, SlotStage::Filled, 500, 1500), "it took too long");
    assert!(advance(SlotStage::Filling, SlotStage::Filled, 499, 1499));
    let filled = Slot { stage: SlotStage::Filled, expires_ms: 1499, ..one };
    assert_eq!(finish(stores.slots.slot("one", 1498)), Some(filled.clone()));
    let waits = slot(&owner, "waits", 1);
    assert_eq!(finish(stores.slots.reserve(waits, QUOTA)), Reserved::Done);
    let files = |owner: &Jid, now_ms| finish(stores.slots.files_of(owner.as_ref(), now_ms, 9));
    assert_eq!(files(&owner, 99), [filled], "only slots with a file");
    assert!(files(&owner, 1499).is_empty() && files(&account(stores, "juliet@a.example"), 99).is_empty());
    finish(stores.slots.forget("waits"));
    assert_eq!(finish(stores.slots.slot("one", 1499)), None);
    assert_eq!(finish(stores.slots.list_expired(1499, 9)), ["one"]);
    finish(stores.slots.forget("one"));
    assert!(finish(stores.slots.list_expired(1499, 9)).is_empty());
}

pub fn owners_of_slots_have_a_quota(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let other = account(stores, "juliet@a.example");
    let reserve = |slot: Slot| finish(stores.slots.reserve(slot, QUOTA));
    let full = |again_ms| Reserved::Full { again_ms };
    assert_eq!(reserve(slot(&owner, "one", 60)), Reserved::Done);
    assert_eq!(reserve(slot(&owner, "two", 41)), full(Some(100)), "when the first has expired");
    assert_eq!(reserve(slot(&owner, "two", u64::MAX >> 1)), full(None), "never");
    assert_eq!(reserve(slot(&other, "another", 41)), Reserved::Done, "others have a quota of their own");
    let untyped = Slot { content_type: None, ..slot(&owner, "two", 40) };
    assert_eq!(reserve(untyped.clone()), Reserved::Done);
    assert_eq!(finish(stores.slots.slot("two", 0)), Some(untyped));
    finish(stores.slots.forget("one"));
    assert_eq!(reserve(slot(&owner, "three", 58)), Reserved::Done);
    // By number: some wait for their uploads, others have theirs.
    assert_eq!(reserve(slot(&owner, "four", 1)), full(Some(100)), "two wait");
    assert!(finish(stores.slots.advance("two", SlotStage::Reserved, SlotStage::Filling, 0, 70)));
    assert_eq!(reserve(slot(&owner, "four", 1)), Reserved::Done);
    assert!(finish(stores.slots.advance("three", SlotStage::Reserved, SlotStage::Filling, 0, 80)));
    assert_eq!(reserve(slot(&owner, "five", 1)), full(Some(70)), "there are three");
    let nobody = jid("nobody@a.example");
    assert_eq!(wait(stores.slots.reserve(slot(&nobody, "four", 1), QUOTA)), Err(StoreError::NoAccount));
}

pub fn slots_of_a_removed_account_have_expired(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    assert_eq!(finish(stores.slots.reserve(slot(&owner, "one", 60), QUOTA)), Reserved::Done);
    assert!(finish(stores.accounts.remove(owner.as_ref())));
    assert_eq!(finish(stores.slots.slot("one", 0)), None);
    assert_eq!(finish(stores.slots.list_expired(0, 9)), ["one"], "its file is to be removed");
    account(stores, "romeo@a.example");
    assert_eq!(finish(stores.slots.slot("one", 0)), None, "a successor has no part in it");
}
