//! Measures archives in SQLite: pages of 50 from a million messages of one owner, at any position,
//! and writing messages in groups.
//!
//! Times include the work of the store's thread and the wait for it; with the file in memory or on
//! a fast disk that is nearly all CPU.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use divan::{Bencher, black_box};
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::sql::SqlStore;
use rookery_store::{Accounts, Archive, ArchiveOf, ArchiveQuery, ArchivedMessage, sqlite, wait};

fn main() {
    divan::main();
}

/// Reads a page of 50 at a position in the archive, in thousandths.
#[divan::bench(args = [0, 1, 250, 500, 900, 999])]
fn page_forward(bencher: Bencher<'_, '_>, at: u64) {
    page(bencher, ArchiveQuery { after: at * MESSAGES / 1000 * APART, ..query() });
}

#[divan::bench(args = [1, 500, 1000])]
fn page_backward(bencher: Bencher<'_, '_>, at: u64) {
    page(bencher, ArchiveQuery { before: (at * MESSAGES / 1000 + 1) * APART, last: true, ..query() });
}

/// Reads a page of one conversation out of a hundred.
#[divan::bench(args = [0, 500, 999])]
fn page_of_a_conversation(bencher: Bencher<'_, '_>, at: u64) {
    page(bencher, ArchiveQuery { after: at * MESSAGES / 1000 * APART, with: Some(contact(7)), ..query() });
}

/// Reads the first page, with a count up to ten thousand.
#[divan::bench]
fn page_with_count(bencher: Bencher<'_, '_>) {
    page(bencher, ArchiveQuery { count_to: 10_000, ..query() });
}

/// Writes a group of messages, each to another owner.
#[divan::bench(args = [1, 10, 100, 1000], sample_size = 1, sample_count = 100)]
fn append(bencher: Bencher<'_, '_>, group: usize) {
    let store = store();
    bencher.counter(divan::counter::ItemsCount::new(group)).with_inputs(|| messages_of_many(group)).bench_values(
        |messages| {
            wait(store.append(messages.into())).expect("written");
        },
    );
}

fn page(bencher: Bencher<'_, '_>, query: ArchiveQuery) {
    let (store, owner) = (store(), owner());
    bencher.bench(|| {
        let page = wait(store.page(owner.as_ref(), query.clone())).expect("read").expect("known");
        assert!(!page.messages.is_empty());
        black_box(page)
    });
}

fn query() -> ArchiveQuery {
    ArchiveQuery { limit: 50, max_bytes: usize::MAX, ..ArchiveQuery::default() }
}

fn owner() -> Jid {
    Jid::parse("juliet@example.org").expect("an address")
}

fn contact(number: u64) -> Jid {
    Jid::parse(&format!("contact{number}@example.org/phone")).expect("an address").to_bare()
}

fn message(owner: Jid, id: u64, contact_number: u64) -> ArchivedMessage {
    let stanza = format!(
        "<message to='{owner}' from='contact{contact_number}@example.org/phone' type='chat' id='m{id}'><body>{}</body></message>",
        "Wherefore art thou? ".repeat(6)
    );
    let with = contact(contact_number);
    ArchivedMessage {
        owner,
        of: ArchiveOf::Account,
        id,
        with,
        contacts_only: false,
        stanza: stanza.into_bytes(),
        most: 1 << 30,
    }
}

/// Returns messages of randomly chosen owners, each with some contacts, 8000 a second.
fn messages_of_many(count: usize) -> Vec<ArchivedMessage> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let next = |_| {
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let dice = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let owner = Jid::parse(&format!("user{}@example.org", dice % OWNERS)).expect("an address");
        message(owner, 2 * MESSAGES * APART + (number << 18), dice / OWNERS % CONTACTS)
    };
    (0..count).map(next).collect()
}

/// Returns a store with a million messages of one owner, and accounts for others. It is created
/// once.
fn store() -> &'static SqlStore {
    static STORE: OnceLock<(tempfile::TempDir, SqlStore)> = OnceLock::new();
    let (_, store) = STORE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store =
            sqlite::open(&folder.path().join("rookery.db"), &sqlite::SqliteOptions::default()).expect("a database");
        let keys = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("keys");
        let users = (0..OWNERS).map(|user| Jid::parse(&format!("user{user}@example.org")).expect("an address"));
        let accounts = users.chain([owner()]).map(|jid| (jid, keys.clone())).collect();
        wait(store.create_many(accounts)).expect("accounts");
        for group in 0..MESSAGES / 1000 {
            let ids = group * 1000 + 1..=(group + 1) * 1000;
            let messages = ids.map(|number| message(owner(), number * APART, number % 100)).collect();
            wait(store.append(messages)).expect("written");
        }
        (folder, store)
    });
    store
}

const MESSAGES: u64 = 1_000_000;
/// The distance between the ids of two messages: half a minute, with ids that count 2⁻²¹ ms. A
/// million messages then span a year.
const APART: u64 = 1 << 36;
const OWNERS: u64 = 2000;
/// The number of each owner's contacts in groups.
const CONTACTS: u64 = 8;
