//! Writers that record their results, and the comparison of these with the database.

use rookery_jid::Jid;
use rookery_needs::{Followed, Pair};
use rookery_sasl::Credentials;
use rookery_store::{OfflineRoom, Pushed, StoreError, Stores, wait};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Creates the accounts of the writers.
///
/// # Errors
/// Those of the store.
pub fn prepare(stores: &Stores) -> Result<(), StoreError> {
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    wait(stores.accounts.create_many((0..WRITERS).map(|n| (account(n), credentials.clone())).collect())).map(drop)
}

/// Sends messages to all accounts during a disturbance of the database. Returns the writers'
/// results.
pub fn write_while(stores: &Stores, disturb: impl FnOnce()) -> Vec<ToldWriter> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let writers: Vec<_> = (0..WRITERS).map(|n| scope.spawn(move || write(stores, n, is_over))).collect();
        disturb();
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
    })
}

/// Kills a primary and makes its standby take over, a number of times, each time after everything
/// works again.
pub fn fail_over<D: Followed>(stores: &Stores, pair: &mut Pair<D>, times: usize) {
    for _ in 0..times {
        // Some writers are in the middle of an operation.
        thread::sleep(Duration::from_millis(200));
        pair.kill();
        // Probes report the trouble, and nothing else here would end the wait.
        until_trouble(stores);
        pair.promote();
        until_no_trouble(stores);
        pair.replace();
    }
}

/// Waits until the stores know that the database is away.
pub fn until_trouble(stores: &Stores) {
    while stores.meta.trouble().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the database is there again.
pub fn until_no_trouble(stores: &Stores) {
    while stores.meta.trouble().is_some() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The outcome of each message, as its writer got it.
pub type ToldWriter = Vec<Result<(), StoreError>>;

/// Sends numbered messages to an account, several at a time, until it is over.
fn write(stores: &Stores, writer: usize, is_over: &AtomicBool) -> ToldWriter {
    let (owner, mut told) = (account(writer), ToldWriter::new());
    while !is_over.load(Ordering::Relaxed) {
        let push = |n: usize| {
            let stanza = n.to_string().into_bytes();
            stores.offline.push(owner.as_ref(), owner.as_ref(), stanza, 1, OfflineRoom::UNBOUNDED)
        };
        let flight: Vec<_> = (told.len()..told.len() + 1 + told.len() % 5).map(push).collect();
        told.extend(flight.into_iter().map(|pushed| match wait(pushed) {
            Ok(Pushed::Kept) => Ok(()),
            Ok(_) => Err(StoreError::NoAccount),
            Err(error) => Err(error),
        }));
    }
    told
}

/// The fate of the messages that the writers have sent, as the database tells it afterwards.
#[derive(Debug, Default)]
pub struct MessageFates {
    /// The number of messages that were acknowledged.
    pub acknowledged: usize,
    /// The number of these that are missing.
    pub lost: usize,
    /// The number of messages that are there twice.
    pub doubled: usize,
    /// The number of accounts whose messages aren't in the order in which they were sent.
    pub disordered: usize,
    /// The number of failed messages, by the beginnings of the errors' names.
    pub refused: BTreeMap<String, usize>,
    /// The number of these that are there: the connection was lost for so long that the outcome was
    /// unknown.
    pub refused_and_kept: usize,
}

impl fmt::Display for MessageFates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MessageFates { acknowledged, lost, doubled, disordered, refused, refused_and_kept } = self;
        writeln!(
            f,
            "{acknowledged} acknowledged, {lost} of them lost; {doubled} kept twice; {disordered} accounts out of order"
        )?;
        write!(f, "{} refused, {refused_and_kept} of them kept: {refused:?}", refused.values().sum::<usize>())
    }
}

/// Compares the stored messages with the writers' results.
///
/// # Errors
/// Those of the store.
pub fn compare(stores: &Stores, told: &[ToldWriter]) -> Result<MessageFates, StoreError> {
    let mut outcome = MessageFates::default();
    for (writer, told) in told.iter().enumerate() {
        let (mut found, mut seen, mut after) = (Vec::new(), HashSet::new(), 0);
        loop {
            let page = wait(stores.offline.load(account(writer).as_ref(), after, usize::MAX))?;
            let Some(last) = page.last() else { break };
            after = last.id;
            let number = |stanza: &[u8]| String::from_utf8_lossy(stanza).parse::<usize>().expect("a number");
            found.extend(page.iter().map(|message| number(&message.stanza)));
        }
        outcome.disordered += usize::from(!found.is_sorted());
        outcome.doubled += found.iter().filter(|number| !seen.insert(**number)).count();
        for (number, told) in told.iter().enumerate() {
            let is_there = seen.contains(&number);
            match told {
                Ok(()) => {
                    outcome.acknowledged += 1;
                    outcome.lost += usize::from(!is_there);
                }
                Err(error) => {
                    let name: String = format!("{error:?}").chars().take_while(char::is_ascii_alphabetic).collect();
                    *outcome.refused.entry(name).or_default() += 1;
                    outcome.refused_and_kept += usize::from(is_there);
                }
            }
        }
    }
    Ok(outcome)
}

fn account(writer: usize) -> Jid {
    Jid::parse(&format!("user{writer}@a.example")).expect("an address")
}

/// The number of accounts that are written to at a time.
pub const WRITERS: usize = 16;
