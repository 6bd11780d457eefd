//! Measures the CPU time that the store needs for a row of an archive as a busy server writes it,
//! excluding a database in another process: a second's messages of 4000 owners in groups, each with
//! the rows of some owners side by side, as the archive's recorder hands them over.
//!
//! `cargo run --release -p rookery-store --example archive_rows [DIRECTORY or URL]`; the directory
//! should be on the disk in question, the database at the URL should be empty. The database's
//! settings for durability aren't checked.

mod place;

use place::{cpu_ms, open};
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::{Accounts, Archive, ArchiveOf, ArchivedMessage, wait};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1).unwrap_or_default();
    let (store, _directory) = open(&place)?;
    let owners: Vec<Jid> = (0..OWNERS).map(|n| Jid::parse(&format!("user{n}@a.example"))).collect::<Result<_, _>>()?;
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).map_err(|error| error.to_string())?;
    wait(store.create_many(owners.iter().map(|owner| (owner.clone(), credentials.clone())).collect()))?;
    let mut before = cpu_ms()?;
    for second in 1..=SECONDS {
        for portion in 0..PORTIONS {
            let mine = owners.iter().skip(portion).step_by(PORTIONS);
            let rows: Vec<_> = (0..ROWS)
                .flat_map(|row| mine.clone().map(move |owner| (row, owner)))
                .map(|(row, owner)| message(owner, second, row, contact(&owners, second, row)))
                .collect();
            wait(store.append(rows.into()))?;
        }
        if second % ROUND == 0 {
            let now = cpu_ms()?;
            let rows = ROUND * ROWS * OWNERS as u64;
            println!("second {second:>3}: {:.2} µs of CPU a row", (now - before) as f64 * 1000.0 / rows as f64);
            before = now;
        }
    }
    Ok(())
}

/// Returns one of the eight contacts that every owner talks to.
fn contact(owners: &[Jid], second: u64, row: u64) -> &Jid {
    &owners[((second + row) % CONTACTS) as usize]
}

fn message(owner: &Jid, second: u64, row: u64, with: &Jid) -> ArchivedMessage {
    let stanza = format!(
        "<message xmlns='jabber:client' to='{owner}' from='{with}/phone' type='chat' id='m{row}'><body>{}</body></message>",
        "Wherefore art thou? ".repeat(5)
    );
    ArchivedMessage {
        owner: owner.clone(),
        of: ArchiveOf::Account,
        id: ((1_700_000_000_000 + second * 1000) << 21) + row,
        with: with.clone(),
        contacts_only: false,
        stanza: stanza.into_bytes(),
        most: 1 << 30,
    }
}

const OWNERS: usize = 4000;
/// The rows of an owner in a second.
const ROWS: u64 = 6;
/// The number of each owner's contacts.
const CONTACTS: u64 = 8;
/// The calls in a second.
const PORTIONS: usize = 32;
const SECONDS: u64 = 40;
/// The seconds between two lines.
const ROUND: u64 = 10;
