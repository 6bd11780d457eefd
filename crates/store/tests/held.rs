//! The simulation of slow and broken stores.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_store::{Pending, StoreError, wait};
use std::task::{Context, Waker};

#[test]
fn completions_wait_for_their_release_in_order() {
    let held = HeldStores::new(Memory::stores());
    let stores = held.stores();
    let romeo = Jid::parse("romeo@a.example").expect("an address");
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    let mut created = stores.accounts.create(romeo.as_ref(), credentials);
    let mut exists = stores.accounts.exists(romeo.as_ref());
    let mut counted = stores.accounts.count(None);
    assert_eq!((held.waiting(), is_ready(&mut created), is_ready(&mut exists)), (3, false, false));

    assert!(held.release_one());
    assert_eq!(wait(created), Ok(true));
    assert!(!is_ready(&mut exists));
    assert_eq!(held.release_all(), 2);
    assert_eq!((wait(exists), is_ready(&mut counted)), (Ok(true), true));
    assert!(!held.release_one());

    held.set_flowing(true);
    assert!(is_ready(&mut stores.accounts.count(None)));
}

#[test]
fn a_fault_answers_and_changes_nothing() {
    let held = HeldStores::new(Memory::stores());
    let stores = held.stores();
    held.set_fault(Some(StoreError::Busy));
    let failed = stores.meta.put("key", vec![1]);
    held.set_fault(None);
    let read = stores.meta.get("key");
    held.release_all();
    assert_eq!(wait(failed), Err(StoreError::Busy));
    assert_eq!(wait(read), Ok(None));
}

#[test]
fn an_operation_learns_that_its_store_is_gone() {
    let held = HeldStores::new(Memory::stores());
    let read = held.stores().meta.get("key");
    drop(held);
    assert_eq!(wait(read), Err(StoreError::Closed));
}

fn is_ready<T>(pending: &mut Pending<T>) -> bool {
    // A future that was ready must not be polled again: these tests only poll pending ones again.
    pending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}
