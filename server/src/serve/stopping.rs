//! Stops the server in order: streams first, the database last.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rookery_cluster::RunningCluster;
use rookery_shard::{RunningShards, ShardCensus};
use signal_hook::consts::{SIGINT, SIGTERM};
use tracing::{info, warn};

use super::{Beside, Threads, WakeCall};
use crate::cards::{self, CardPlace};
use crate::dpm;
use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::start::ServerStart;

/// Ends all streams, gives their clients a few seconds, and closes the database last. Unless it
/// `hands_on`, nothing is kept for the next start, since other nodes already have its state.
pub(super) fn stop(
    start: ServerStart,
    threads: Threads,
    calls: &Receiver<WakeCall>,
    hands_on: bool,
) -> Result<(), CommandFailure> {
    let Threads { shards: running, relay, beside: Beside { web, cluster, renewal, watch, dpm } } = threads;
    drop((renewal, watch));
    let ShardCensus { sessions, .. } = running.census();
    info!(sessions, "stopping; a second signal stops immediately");
    let dpm_ended = dpm.is_none_or(dpm::RunningDpm::stop);
    let is_over = || calls.try_iter().any(|call| matches!(call, WakeCall::Signal(SIGTERM | SIGINT)));
    let is_done = !hands_on || cluster.as_ref().is_some_and(|cluster| move_out(&running, cluster, is_over));
    if let Some(cluster) = &cluster {
        cluster.stop_reading();
    }
    // The shards stop before the web front-end, through which their last stanzas reach clients of
    // BOSH.
    let place = if is_done { None } else { make_room(&start.loaded.source.folder, &running) };
    running.stop(place.is_some());
    let web_ended = web.stop();
    let relay_ended = relay.is_none_or(rookery_relay::Running::stop);
    let shards_ended = finish(running, place, is_over)?;
    let clean = web_ended && dpm_ended && relay_ended && shards_ended;
    if let Some(cluster) = cluster {
        cluster.stop();
    }
    start.database.close();
    if clean {
        Ok(())
    } else {
        Err(CommandFailure::Failed("a part of it had failed; please report what the log says as a bug".into()))
    }
}

/// Moves the state of this cluster node to the others, if any is up. Returns whether nothing is
/// left. `is_over` returns `true` once the operator no longer waits for this.
fn move_out(running: &RunningShards, cluster: &RunningCluster, is_over: impl Fn() -> bool) -> bool {
    if !cluster.leave() {
        info!("no other node of the cluster is up that could take over");
        return false;
    }
    running.shut_out();
    let begun = Instant::now();
    while !running.have_moved_out() {
        if begun.elapsed() >= MOVES || is_over() {
            warn!("not everything could be handed on to other nodes of the cluster; the rest waits for the next start");
            return false;
        }
        std::thread::sleep(LOOK);
    }
    info!(
        ms = begun.elapsed().as_millis() as u64,
        "other nodes of the cluster have taken over everything from this one"
    );
    true
}

/// Makes room for the sessions that wait for the next start; `None` if that fails.
pub(super) fn make_room(folder: &Folder, running: &RunningShards) -> Option<CardPlace> {
    let ShardCensus { sessions, unread, .. } = running.census();
    cards::make_room(folder, sessions, unread.bytes)
}

/// Waits until stopping shards have ended, and keeps the sessions that they hand on, if there is a
/// place for them. Returns whether all shards ended properly; true, too, if clients took too long.
///
/// # Errors
///
/// [`CommandFailure::Failed`] once `is_over` returns `true`, because the operator no longer waits.
pub(super) fn finish(
    running: RunningShards,
    mut place: Option<CardPlace>,
    is_over: impl Fn() -> bool,
) -> Result<bool, CommandFailure> {
    let deadline = Instant::now() + PATIENCE;
    let mut handed_on = None;
    while !running.is_finished() {
        let (is_late, is_resting) = (Instant::now() >= deadline, running.is_resting());
        if (is_late || is_resting)
            && let Some(place) = place.take()
        {
            place.keep(&running.hand_on());
            handed_on = Some(Instant::now());
            continue;
        }
        if is_late || is_resting && handed_on.is_some_and(|at: Instant| at.elapsed() >= FAREWELL) {
            break;
        }
        if is_over() {
            return Err(CommandFailure::Failed("stopped at once by a second signal".into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(if running.is_finished() { running.join() } else { true })
}

/// The time in which a cluster node moves its state, and the interval between checks.
const MOVES: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// The time that clients may take to read the end of their streams.
const PATIENCE: Duration = Duration::from_secs(7);
/// The time that clients may take for this if everything else is done: those that can resume their
/// sessions already wait for the next process.
const FAREWELL: Duration = Duration::from_secs(1);
