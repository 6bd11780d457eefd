//! The way of a process into its cluster. It checks that it fits its Redis and the live nodes,
//! becomes a member, takes its lease, and waits until the others have adopted the new homes.
//!
//! # Invariants
//!
//! * If a process is found not to fit, it has changed nothing in the cluster by then.
//! * No process serves clients while a live one uses other homes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::RedisError;
use rookery_base::AddressHash;
use rookery_base::lock::lock;
use rookery_store::Meta;
use tokio::task;
use tracing::warn;

use crate::check::{find_exposure, is_new_enough};
use crate::clocks::{ahead_ms, is_apart, is_far_apart, stamp};
use crate::engine::{RedisConnection, RedisEngine, lease_prefix, renewed_every};
use crate::failure::JoinFailure;
use crate::marks::{self, unix_ms};
use crate::members::{self, JoiningMember, LetterVersions, MemberNotes, MemberRow};
use crate::service::{ClusterSettings, Members, engine, fence_off};
use crate::table::{NodeTable, Update};
use crate::wire::NodeProcess;

/// The result of joining.
pub(crate) struct Entered {
    pub engine: RedisEngine,
    pub table: NodeTable,
    pub addresses: AddressHash,
    pub away: Vec<NodeProcess>,
    /// The task that renews the lease.
    pub joining: task::JoinHandle<()>,
}

pub(crate) async fn enter(settings: &ClusterSettings, shards: u16, members: &Members) -> Result<Entered, JoinFailure> {
    let meta = &*members.meta;
    let (engine, addresses) = engine(settings, meta).await?;
    let mut connection = engine.connect().await?;
    let (mark, rows) = expect_fit(&mut connection, settings, meta).await?;
    // A process whose row others have removed may have renewed its lease once more when it woke.
    if let Some(number) = members::find_number(meta, &settings.node).await? {
        wait_for_lease(&mut connection, number, settings).await?;
    }
    let joining = JoiningMember {
        shards,
        public_host: settings.public_host.clone(),
        notes: MemberNotes { mark: Some(mark), settings: settings.agreed.clone() },
    };
    let joined = members::join(meta, &*members.fencing, &settings.node, joining).await?;
    let me = NodeProcess { node: joined.row.number, incarnation: joined.row.incarnation };
    let is_newcomer = joined.is_newcomer;
    let table = NodeTable::joining(settings.node.clone(), joined, rows);
    let entered = take_place(engine, &mut connection, members, table, settings).await;
    if entered.is_err() && is_newcomer {
        // Others would wait for this process until its lease has expired. If it has a predecessor,
        // the next process continues with that one's journal.
        _ = members::withdraw(meta, me).await;
        _ = connection.remove_inbox(me).await;
        _ = connection.end_lease(me).await;
    }
    entered.map(|(engine, table, away, joining)| Entered { engine, table, addresses, away, joining })
}

/// Checks that this process fits its Redis and the nodes that live. Returns the mark of the Redis
/// and the rows of the database.
async fn expect_fit(
    connection: &mut RedisConnection,
    settings: &ClusterSettings,
    meta: &dyn Meta,
) -> Result<(u64, Vec<(String, MemberRow)>), JoinFailure> {
    is_new_enough(connection).await?;
    if let Some(policy) = connection.setting("maxmemory-policy").await.filter(|policy| policy != "noeviction") {
        warn!(
            policy,
            "the cluster's Redis may discard letters when its memory is full; set maxmemory-policy to noeviction"
        );
    }
    if let Some(exposed) = find_exposure(connection).await {
        warn!("{exposed}");
    }
    let rows = members::all(meta).await?;
    fits(&rows, &settings.node)?;
    let mark = connection.mark(marks::new_mark()?).await?;
    marks::expect_none_elsewhere(connection, meta, mark, None).await?;
    for (name, differences) in compare_settings(connection, &rows, settings).await? {
        warn!(node = name, sections = differences.join(", "), "{OTHER_SETTINGS}");
    }
    for (name, ahead_ms) in clocks(connection, &rows, &settings.node).await? {
        match is_far_apart(ahead_ms) {
            true => return Err(JoinFailure::OtherClock(name, ahead_ms)),
            false => tell_clock(&name, ahead_ms),
        }
    }
    Ok((mark, rows))
}

/// Takes the place that a process has in the table: its lease, its inbox, and its homes, once the
/// live nodes have adopted them. Returns the processes of other nodes without a lease, and the task
/// that renews this one's.
async fn take_place(
    engine: RedisEngine,
    connection: &mut RedisConnection,
    members: &Members,
    mut table: NodeTable,
    settings: &ClusterSettings,
) -> Result<(RedisEngine, NodeTable, Vec<NodeProcess>, task::JoinHandle<()>), JoinFailure> {
    let (meta, fencing, me) = (&*members.meta, &*members.fencing, table.me());
    marks::give_sign(meta, me, unix_ms()).await?;
    task::spawn(marks::keep_giving_signs(members.meta.clone(), me));
    // Another one may have joined at the same time.
    marks::expect_none_elsewhere(connection, meta, table.mark().unwrap_or_default(), Some(me.node)).await?;
    let rows = members::all(meta).await?;
    fence_off(fencing, &table.gone_processes(&rows)).await?;
    table.update(rows);
    // Archives whose homes are here now contain ids that were given by processes that are gone.
    let latest = marks::signs(meta).await?.into_values().max().unwrap_or_default();
    table.raise_floor(latest.saturating_add(SIGNS_MS), unix_ms());
    take_lease(connection, &table, settings).await?;
    let text = Arc::new(Mutex::new(table.lease()));
    let joining = task::spawn(renew(engine.clone(), me, text.clone(), settings.lease));
    connection.create_inbox(me).await?;
    let awaited = match wait_for_others(connection, members, &mut table, &text, settings).await {
        Ok(()) => find_away(connection, &table).await.map_err(JoinFailure::from),
        Err(failed) => Err(failed),
    };
    match awaited {
        Ok(away) => Ok((engine, table, away, joining)),
        Err(failed) => {
            joining.abort();
            Err(failed)
        }
    }
}

/// Checks that this process and all nodes can understand each other.
///
/// # Errors
/// [`JoinFailure::NoCommonLetters`].
fn fits(rows: &[(String, MemberRow)], own: &str) -> Result<(), JoinFailure> {
    // The row of this process's own node may still be its predecessor's.
    match rows.iter().find(|(name, row)| name != own && !row.letters.fits(LetterVersions::OWN)) {
        Some((name, row)) => Err(JoinFailure::NoCommonLetters(name.clone(), row.letters)),
        None => Ok(()),
    }
}

/// Compares the settings of this process with those of other nodes that live. Returns the names of
/// those whose settings differ, with the sections.
///
/// # Errors
/// [`JoinFailure::OtherDomains`]; the errors of Redis.
pub(crate) async fn compare_settings(
    connection: &mut RedisConnection,
    rows: &[(String, MemberRow)],
    settings: &ClusterSettings,
) -> Result<Vec<(String, Vec<String>)>, JoinFailure> {
    let mut found = Vec::new();
    for (name, row) in rows.iter().filter(|(name, _)| *name != settings.node) {
        let theirs = &row.notes.settings;
        let differences = settings.agreed.differences(theirs);
        let has_others = settings.agreed.has_other_domains(theirs);
        if (differences.is_empty() && !has_others) || connection.find_lease(row.number).await?.is_none() {
            continue;
        }
        if has_others {
            return Err(JoinFailure::OtherDomains(name.clone()));
        }
        found.push((name.clone(), differences.into_iter().map(str::to_owned).collect()));
    }
    Ok(found)
}

/// Returns the nodes other than this one whose clocks differ from this machine's so much that
/// somebody should know, with the differences in milliseconds.
///
/// # Errors
/// The error of the system or of Redis.
pub(crate) async fn clocks(
    connection: &mut RedisConnection,
    rows: &[(String, MemberRow)],
    own: &str,
) -> Result<Vec<(String, i64)>, RedisError> {
    let mut apart = Vec::new();
    for (name, row) in rows.iter().filter(|(name, _)| name != own) {
        let found = connection.find_lease_with_age(row.number).await?;
        let ahead_ms = found.and_then(|found| ahead_ms(&found, unix_ms()));
        apart.extend(ahead_ms.filter(|ahead_ms| is_apart(*ahead_ms)).map(|ahead_ms| (name.clone(), ahead_ms)));
    }
    Ok(apart)
}

/// Warns of a node whose clock is apart from this machine's.
pub(crate) fn tell_clock(node: &str, ahead_ms: i64) {
    let seconds = ahead_ms / 1000;
    warn!(
        node,
        seconds,
        "the clock of a node differs from this one's by this many seconds, and is behind if they are negative; have both use the same source of time (NTP)"
    );
}

/// Renews the lease of a joining process, however long joining takes. Ends when another process
/// holds it.
async fn renew(engine: RedisEngine, me: NodeProcess, text: Arc<Mutex<String>>, lease: Duration) {
    loop {
        // Redis may be unreachable for a moment.
        if let Ok(mut connection) = engine.connect().await {
            loop {
                let now = stamp(&lock(&text), unix_ms(), lease);
                match connection.renew_lease(me, &now, lease).await {
                    Ok(true) => tokio::time::sleep(renewed_every(lease)).await,
                    Ok(false) => return,
                    Err(_) => break,
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the lease of a node's last process has expired.
async fn wait_for_lease(
    connection: &mut RedisConnection,
    node: u16,
    settings: &ClusterSettings,
) -> Result<(), JoinFailure> {
    let until = Instant::now() + settings.lease + GRACE;
    while connection.find_lease(node).await?.is_some() {
        if Instant::now() >= until {
            return Err(JoinFailure::NameTaken(settings.node.clone()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Takes the lease of this process's node. If an earlier process wakes now, it renews the lease
/// until it has read in the database that it is over, which takes it a second.
///
/// # Errors
/// [`JoinFailure::NameTaken`] if another process keeps the lease; the error of Redis.
async fn take_lease(
    connection: &mut RedisConnection,
    table: &NodeTable,
    settings: &ClusterSettings,
) -> Result<(), JoinFailure> {
    let node = table.me().node;
    loop {
        let lease = stamp(&table.lease(), unix_ms(), settings.lease);
        if connection.take_lease(node, &lease, settings.lease).await? {
            return Ok(());
        }
        wait_for_lease(connection, node, settings).await?;
    }
}

/// Waits until the live nodes use the same table as this one, so that no account has two homes.
/// Nodes that join at the same time are in the table as soon as they are in the database.
///
/// # Errors
/// [`JoinFailure::OtherDatabase`] and [`JoinFailure::Unnoticed`] if a live node doesn't adopt the
/// table; the errors of the database and of Redis.
async fn wait_for_others(
    connection: &mut RedisConnection,
    members: &Members,
    table: &mut NodeTable,
    text: &Mutex<String>,
    settings: &ClusterSettings,
) -> Result<(), JoinFailure> {
    let until = Instant::now() + (settings.lease + GRACE).max(NOTICE);
    let before = marks::signs(&*members.meta).await?;
    loop {
        let rows = members::all(&*members.meta).await?;
        fence_off(&*members.fencing, &table.gone_processes(&rows)).await?;
        let has_successor = rows.iter().any(|(name, _)| *name == settings.node);
        if table.update(rows) == Update::Superseded {
            return Err(why_superseded(&settings.node, has_successor));
        }
        lock(text).clone_from(&table.lease());
        // Renewed at once, so that the others see this node and its table.
        let lease = stamp(&table.lease(), unix_ms(), settings.lease);
        if !connection.renew_lease(table.me(), &lease, settings.lease).await? {
            return Err(JoinFailure::NameTaken(settings.node.clone()));
        }
        let Some((name, process)) = find_behind(connection, table).await? else { return Ok(()) };
        if Instant::now() >= until {
            let now = marks::signs(&*members.meta).await?;
            let gives_signs = before.contains_key(&process);
            let is_silent = before.get(&process) == now.get(&process);
            let is_elsewhere = gives_signs && is_silent && is_renewed(connection, process).await?;
            return Err(if is_elsewhere { JoinFailure::OtherDatabase(name) } else { JoinFailure::Unnoticed(name) });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the reason why a process whose row is gone can't continue. If another process of its
/// node has the row, the name is taken.
fn why_superseded(node: &str, has_successor: bool) -> JoinFailure {
    match has_successor {
        true => JoinFailure::NameTaken(node.to_owned()),
        false => JoinFailure::TakenOver(node.to_owned()),
    }
}

/// Returns whether the lease of a process was renewed a moment ago.
async fn is_renewed(connection: &mut RedisConnection, process: NodeProcess) -> Result<bool, RedisError> {
    let Some(before) = connection.find_lease_with_age(process.node).await? else { return Ok(false) };
    tokio::time::sleep(RENEWED_WITHIN).await;
    let now = connection.find_lease_with_age(process.node).await?;
    Ok(now.is_some_and(|now| now.text != before.text || now.remaining_ms >= before.remaining_ms))
}

/// Returns a live node that uses another table, with its process.
async fn find_behind(
    connection: &mut RedisConnection,
    table: &NodeTable,
) -> Result<Option<(String, NodeProcess)>, RedisError> {
    let digest = table.digest();
    for (name, process) in table.others() {
        if connection.find_lease(process.node).await?.is_some_and(|found| !found.ends_with(&digest)) {
            return Ok(Some((name, process)));
        }
    }
    Ok(None)
}

/// Returns the processes of other nodes that have no lease.
async fn find_away(connection: &mut RedisConnection, table: &NodeTable) -> Result<Vec<NodeProcess>, RedisError> {
    let mut away = Vec::new();
    for (_, process) in table.others() {
        let lease = connection.find_lease(process.node).await?;
        if lease.is_none_or(|lease| !lease.starts_with(&lease_prefix(process))) {
            away.push(process);
        }
    }
    Ok(away)
}

/// The longest time for which a process may have continued after its last sign in the database, in
/// milliseconds.
const SIGNS_MS: u64 = 5_000;
/// The warning about a node with other settings.
pub(crate) const OTHER_SETTINGS: &str = "a node of the cluster has other settings than this one, which apply to its \
                                         accounts; compare `rookery config show` of both, then reload the one that is wrong";
/// The time beyond a lease for which a process waits for others.
const GRACE: Duration = Duration::from_secs(2);
/// The time within which a node that lives reads the database and adopts new homes, even if it has
/// much to do.
const NOTICE: Duration = Duration::from_secs(20);
/// The time within which a process that lives renews its lease.
const RENEWED_WITHIN: Duration = Duration::from_secs(3);
/// The time between two checks of a lease.
const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_others_took_over_from_while_it_joined_may_start_again() {
        assert!(why_superseded("n1", false).may_pass(), "its row was removed");
        assert!(!why_superseded("n1", true).may_pass(), "another process has its name");
    }

    #[test]
    fn a_process_does_not_join_nodes_that_it_has_no_letters_in_common_with() {
        let row = |oldest, newest| MemberRow {
            number: 1,
            incarnation: 1,
            shards: 1,
            public_host: None,
            leaves: false,
            letters: LetterVersions { oldest, newest },
            notes: MemberNotes::default(),
            journals_from: 0,
        };
        let own = LetterVersions::OWN;
        let rows =
            |oldest, newest| [("n1".to_owned(), row(own.oldest, own.newest)), ("n2".to_owned(), row(oldest, newest))];
        assert!(fits(&rows(own.newest, own.newest + 5), "n1").is_ok());
        let refused = fits(&rows(own.newest + 1, own.newest + 5), "n1").unwrap_err();
        assert!(
            refused.to_string().contains("node \"n2\" of this cluster runs a version that is too new"),
            "{refused}"
        );
        assert!(!refused.may_pass());
        assert!(fits(&rows(own.newest + 1, own.newest + 5), "n2").is_ok(), "its own row is replaced");
        let refused = fits(&rows(0, 0), "n1").unwrap_err();
        assert!(refused.to_string().contains("runs a version that is too old"), "{refused}");
    }
}
