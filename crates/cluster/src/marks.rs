//! The mark of the Redis that the nodes of a database use: all have to use the same one.
//!
//! Two nodes on one database that use different Redis servers would see nothing of each other's
//! leases, and take over from each other again and again. So each Redis has a *mark*, a random
//! number that the first node there chooses, and each process writes the mark that it has found
//! into its row. Suppose that a row has another mark than this Redis, and that its process has no
//! lease here. Then the process may have died, and Redis may have lost its memory; or it lives with
//! another Redis. The database shows which: each process gives a *sign* there every few seconds.
//!
//! # Invariants
//!
//! * No process joins while a live one uses another Redis.
//! * A Redis that has lost its memory keeps no process from joining: those that live get leases
//!   there at once, and those that have died give no signs.
//! * Of two processes that join at the same time, the one with the lower number is not refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_base::chance;
use rookery_store::StoreError;
use rookery_store::meta::Meta;
use tracing::info;

use crate::engine::{RedisConnection, lease_prefix};
use crate::failure::JoinFailure;
use crate::members::{self, MemberRow, NotJoined};
use crate::wire::NodeProcess;

/// Returns the processes, with the names of their nodes, that may use another Redis than the one
/// with this mark, since they found another mark when they joined.
pub fn suspects(rows: &[(String, MemberRow)], mark: u64) -> Vec<(String, NodeProcess)> {
    let is_other = |row: &MemberRow| row.notes.mark.is_some_and(|other| other != mark);
    let of = |row: &MemberRow| NodeProcess { node: row.number, incarnation: row.incarnation };
    rows.iter().filter(|(_, row)| is_other(row)).map(|(name, row)| (name.clone(), of(row))).collect()
}

/// Checks that no process lives that uses another Redis than this one, among those with a lower
/// number than this node, if it has one.
///
/// # Errors
/// [`JoinFailure::OtherRedis`]; the errors of the database and of Redis.
pub(crate) async fn expect_none_elsewhere(
    connection: &mut RedisConnection,
    meta: &dyn Meta,
    mark: u64,
    own: Option<u16>,
) -> Result<(), JoinFailure> {
    // Processes that have only lost their connection to this Redis get leases here meanwhile.
    let (mut before, mut is_told) = (signs(meta).await?, false);
    for is_last in [false, true] {
        let until = Instant::now() + PATIENCE;
        loop {
            let signs = signs(meta).await?;
            let found = silent_suspects(connection, meta, mark, own).await?;
            let found: Vec<_> = found.into_iter().filter(|(_, process)| may_live(*process, &before, &signs)).collect();
            let Some((name, _)) = found.first() else { return Ok(()) };
            let gave_sign = |process| signs.get(process) != before.get(process);
            if let Some((name, _)) = found.iter().find(|(_, process)| is_last && gave_sign(process)) {
                return Err(JoinFailure::OtherRedis(name.clone()));
            }
            if Instant::now() >= until {
                before = signs;
                break;
            }
            if !std::mem::replace(&mut is_told, true) {
                info!(
                    node = name,
                    "a node has joined with another Redis, or this one has lost its memory; \
                                    waiting for a sign of that node"
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// Returns the suspects without a lease in this Redis.
async fn silent_suspects(
    connection: &mut RedisConnection,
    meta: &dyn Meta,
    mark: u64,
    own: Option<u16>,
) -> Result<Vec<(String, NodeProcess)>, JoinFailure> {
    let mut silent = Vec::new();
    for (name, process) in suspects(&members::all(meta).await?, mark) {
        let is_asked_for = own.is_none_or(|own| process.node < own);
        if is_asked_for && !has_lease(connection, process).await? {
            silent.push((name, process));
        }
    }
    Ok(silent)
}

/// Returns whether a process may live, by its sign before and now.
fn may_live(process: NodeProcess, before: &BTreeMap<NodeProcess, u64>, now: &BTreeMap<NodeProcess, u64>) -> bool {
    let sign = now.get(&process);
    sign != before.get(&process) || sign.is_some_and(|sign| sign.abs_diff(unix_ms()) < LONG_AGO_MS)
}

/// Returns whether a process has the lease of its node in this Redis.
async fn has_lease(connection: &mut RedisConnection, process: NodeProcess) -> Result<bool, JoinFailure> {
    let lease = connection.find_lease(process.node).await?;
    Ok(lease.is_some_and(|lease| lease.starts_with(&lease_prefix(process))))
}

/// Gives a sign in the database that a process lives, with its time of day.
///
/// # Errors
/// The error of the database.
pub async fn give_sign(meta: &dyn Meta, me: NodeProcess, unix_ms: u64) -> Result<(), NotJoined> {
    let bytes = postcard::to_allocvec(&(me.incarnation, unix_ms)).unwrap_or_default();
    Ok(meta.put_entry(SIGNS, &me.node.to_string(), bytes).await?)
}

/// Gives signs until others have taken over from this process.
pub(crate) async fn keep_giving_signs(meta: Arc<dyn Meta>, me: NodeProcess) {
    loop {
        tokio::time::sleep(SIGN_EVERY).await;
        if let Err(NotJoined::Store(StoreError::Fenced(_))) = give_sign(&*meta, me, unix_ms()).await {
            return;
        }
    }
}

/// Returns the latest sign of each node, with the process that gave it and that one's time of day,
/// in milliseconds since 1970.
///
/// # Errors
/// The error of the database.
pub async fn signs(meta: &dyn Meta) -> Result<BTreeMap<NodeProcess, u64>, NotJoined> {
    let read = |(node, bytes): (String, Vec<u8>)| {
        let (incarnation, unix_ms) = postcard::from_bytes(&bytes).ok()?;
        Some((NodeProcess { node: node.parse().ok()?, incarnation }, unix_ms))
    };
    Ok(meta.entries(SIGNS).await?.into_iter().filter_map(read).collect())
}

/// Returns a mark for a Redis without one, which is never 0.
///
/// # Errors
/// [`NotJoined::Chance`].
pub(crate) fn new_mark() -> Result<u64, NotJoined> {
    let mut bytes = [0; 8];
    chance::fill(&mut bytes).map_err(|_| NotJoined::Chance)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// Returns this machine's time of day, in milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// The list of the latest sign of each node.
const SIGNS: &str = "cluster signs";
/// The time between two signs.
const SIGN_EVERY: Duration = Duration::from_secs(4);
/// The time within which a process that lives gives a sign, even if its database is slow.
const PATIENCE: Duration = Duration::from_secs(6);
/// The time between two checks for a sign.
const LOOK: Duration = Duration::from_millis(500);
/// The age of a sign whose process has died, whatever the clocks show.
const LONG_AGO_MS: u64 = 600_000;

#[cfg(test)]
mod tests {
    use rookery_base::wait;
    use rookery_store::memory::Memory;

    use super::*;
    use crate::members::{LetterVersions, MemberNotes};

    #[test]
    fn a_process_with_another_mark_is_suspected_and_one_without_any_is_not() {
        let row = |number, mark| MemberRow {
            number,
            incarnation: 2,
            shards: 1,
            public_host: None,
            leaves: false,
            letters: LetterVersions::OWN,
            notes: MemberNotes { mark, ..MemberNotes::default() },
            journals_from: 0,
        };
        let rows = [("n1", row(1, Some(7))), ("n2", row(2, Some(8))), ("n3", row(3, None))];
        let rows = rows.map(|(name, row)| (name.to_owned(), row));
        assert_eq!(suspects(&rows, 7), [("n2".to_owned(), NodeProcess { node: 2, incarnation: 2 })]);
    }

    #[test]
    fn the_sign_of_a_node_is_that_of_its_latest_process() {
        let stores = Memory::stores();
        let process = |node, incarnation| NodeProcess { node, incarnation };
        for (me, unix_ms) in [(process(1, 1), 10), (process(2, 1), 20), (process(1, 2), 30), (process(1, 2), 40)] {
            wait(give_sign(&*stores.meta, me, unix_ms)).unwrap();
        }
        assert_eq!(wait(signs(&*stores.meta)).unwrap(), [(process(1, 2), 40), (process(2, 1), 20)].into());
    }
}
