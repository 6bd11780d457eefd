//! Measures how long importing an account with many contacts takes, with its contacts one by one,
//! as a client would add them, and in the portions of an import.
//!
//! `cargo run --release -p rookery-store --example contacts [DIRECTORY or URL]`; the directory
//! should be on the disk in question, the database at the URL should be empty. The database's
//! settings for durability aren't checked.

mod place;

use place::{cpu_ms, open};
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::sql::SqlStore;
use rookery_store::{Accounts, Edit, Pending, RosterItem, Rosters, SizeOf, StoreError, Subscription, wait};
use std::collections::VecDeque;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1).unwrap_or_default();
    let (store, _directory) = open(&place)?;
    let items = (0..CONTACTS).map(|number| {
        let jid = Jid::parse(&format!("contact{number}@b.example"))?;
        let (name, groups) = (Some(format!("Contact {number}")), vec!["Friends".to_owned()]);
        Ok(RosterItem { name, groups, subscription: Subscription::Both, ..RosterItem::new(jid) })
    });
    let items = items.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    measure(&store, "one by one", &items[..ALONE], |owner, item| {
        let [item] = item else { return Box::pin(std::future::ready(Ok(()))) };
        let put = item.clone();
        let edit = Box::new(move |_: Option<&RosterItem>, _: SizeOf<'_>| Edit::Put(put.clone()));
        let changed = store.change(owner.as_ref(), item.jid.as_ref(), edit);
        Box::pin(async move { changed.await.map(drop) })
    })?;
    for contacts in [ALONE, CONTACTS / 3, CONTACTS] {
        let what = format!("{PORTION} at a time");
        measure(&store, &what, &items[..contacts], |owner, items| store.put_many(owner.as_ref(), items.to_vec()))?;
    }
    Ok(())
}

/// Creates an account and writes its contacts, with as many writes in flight as an import has.
fn measure(
    store: &SqlStore,
    what: &str,
    items: &[RosterItem],
    mut put: impl FnMut(&Jid, &[RosterItem]) -> Pending<()>,
) -> Result<(), Box<dyn Error>> {
    let owner = Jid::parse(&format!("romeo{}-{}@a.example", items.len(), what.replace(' ', "-")))?;
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).map_err(|error| error.to_string())?;
    wait(store.create(owner.as_ref(), credentials))?;
    let portion = if what.starts_with("one") { 1 } else { PORTION };
    let (start, before, mut writing) = (Instant::now(), cpu_ms()?, VecDeque::new());
    for items in items.chunks(portion) {
        writing.push_back(put(&owner, items));
        if writing.len() >= AHEAD {
            writing.pop_front().map_or(Ok::<_, StoreError>(()), wait)?;
        }
    }
    writing.into_iter().try_for_each(wait)?;
    let (took, spent, contacts) = (start.elapsed(), cpu_ms()? - before, items.len());
    let us = |ms: f64| ms * 1000.0 / contacts as f64;
    println!(
        "{contacts:>6} contacts, {what}: {:.2} s, {:.0} µs each, {:.0} µs of CPU each",
        took.as_secs_f64(),
        us(took.as_secs_f64() * 1000.0),
        us(spent as f64)
    );
    assert_eq!(wait(Rosters::get(store, owner.as_ref()))?.items.len(), contacts, "all are there");
    Ok(())
}

const CONTACTS: usize = 30_000;
/// The number of contacts that are written one by one.
const ALONE: usize = 3000;
/// The number of contacts that an import writes together.
const PORTION: usize = 200;
/// The most writes that an import has in flight.
const AHEAD: usize = 16;
