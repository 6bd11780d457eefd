//! The deaths of other processes: they are fenced off, their homes go to others, and so do the
//! letters that they had not handled.
//!
//! A process without a lease is suspected. If it remains without one for a while, any node that
//! notices fences it off in the database and removes its row. The row decides: all nodes notice
//! that it is gone, and adopt the resulting homes. Before that, each of them fences the process
//! off, even if another one removed the row.
//!
//! # Invariants
//!
//! * A home is only taken over from a process that can't write any more.
//! * No process is suspected while Redis is unreachable, nor for the length of a lease after that.
//! * Letters that a process had not handled are with their writers, which send them to the new
//!   homes once they have adopted those.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rookery_hub::Custody;
use rookery_shard::MailboxKind;
use tracing::{error, info, warn};

use crate::carrying::{CarryingLoop, SECOND, number};
use crate::courier::CourierLetter;
use crate::joining::{OTHER_SETTINGS, tell_clock};
use crate::leases::LookedAtLease;
use crate::marks;
use crate::members::{self, LetterVersions, MemberRow, NotJoined};
use crate::service::{ServiceEvent, fence_off};
use crate::wire::NodeProcess;

/// The processes that may be gone.
#[derive(Debug, Default)]
pub struct Deaths {
    /// Processes without a lease, with the time since which they have none.
    silent: BTreeMap<NodeProcess, Instant>,
    /// Processes whose homes this node is taking over.
    under_way: BTreeSet<NodeProcess>,
    /// True while processes without a row are being fenced off.
    is_fencing: bool,
}

/// The result of checking a process's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseVerdict {
    /// The process has a lease in Redis.
    Lives(NodeProcess),
    /// It has none, which this check is the first to find.
    Silent(NodeProcess),
    /// It has had none for too long: its homes have to be taken over.
    Dead(NodeProcess),
}

impl Deaths {
    /// Records which processes have a lease in Redis now. Returns the consequences, except for
    /// those under way. `reachable_since` is the time since which Redis has been reachable.
    pub fn look(
        &mut self,
        found: &[(NodeProcess, bool)],
        now: Instant,
        reachable_since: Instant,
        lease: Duration,
    ) -> Vec<LeaseVerdict> {
        let mut verdicts = Vec::new();
        for &(process, has_lease) in found {
            if has_lease {
                self.silent.remove(&process);
                verdicts.push(LeaseVerdict::Lives(process));
                continue;
            }
            if now.duration_since(reachable_since) < lease {
                continue;
            }
            match self.silent.get(&process) {
                None => {
                    self.silent.insert(process, now);
                    verdicts.push(LeaseVerdict::Silent(process));
                }
                Some(since) if now.duration_since(*since) >= (lease / 2).max(DOUBT) => {
                    if self.under_way.insert(process) {
                        verdicts.push(LeaseVerdict::Dead(process));
                    }
                }
                Some(_) => {}
            }
        }
        verdicts
    }

    /// Records that this node begins to take over from a process. Returns `false` if that is under
    /// way already.
    pub fn begin(&mut self, process: NodeProcess) -> bool {
        self.under_way.insert(process)
    }

    /// Records that taking over from a process has ended. If it failed, it is tried again.
    pub fn ended(&mut self, process: NodeProcess) {
        self.under_way.remove(&process);
    }

    /// Drops the silent processes, because Redis is unreachable.
    pub fn forget_silence(&mut self) {
        self.silent.clear();
    }

    /// Drops a process that is gone.
    pub fn forget(&mut self, process: NodeProcess) {
        self.silent.remove(&process);
    }

    /// Returns whether a process has no lease.
    pub fn is_silent(&self, process: NodeProcess) -> bool {
        self.silent.contains_key(&process)
    }
}

impl CarryingLoop {
    /// Handles the result of checking leases.
    pub(crate) fn leases(&mut self, found: &[LookedAtLease]) {
        self.look_at_clocks(found);
        let now_ms = self.now_ms();
        let found: Vec<_> = found.iter().map(|found| (found.process, found.has_lease)).collect();
        for verdict in self.deaths.look(&found, Instant::now(), self.reachable_since, self.outer.lease) {
            match verdict {
                LeaseVerdict::Lives(process) => self.courier.set_present(process, true, now_ms),
                LeaseVerdict::Silent(process) => {
                    self.courier.set_present(process, false, now_ms);
                    self.outer.door.silent(process.node, process.incarnation);
                    match self.table.has_leaving(process) {
                        true => info!(%process, "a node that was leaving the cluster has stopped"),
                        false => {
                            warn!(%process, "a process of the cluster is silent; if it stays silent, others take over")
                        }
                    }
                }
                LeaseVerdict::Dead(process) => self.take_over(process),
            }
        }
    }

    /// Compares the clocks of other processes with this one's.
    fn look_at_clocks(&mut self, found: &[LookedAtLease]) {
        for LookedAtLease { process, ahead_ms, .. } in found {
            ahead_ms.iter().for_each(|ahead_ms| self.clocks.observe(*process, *ahead_ms));
        }
        if let Some((process, ahead_ms)) = self.clocks.apart().first().copied() {
            let others = self.table.others();
            let name = others.into_iter().find(|(_, other)| *other == process).map(|(name, _)| name);
            self.tell("clocks", || tell_clock(&name.unwrap_or_default(), ahead_ms));
        }
    }

    /// Takes over the homes of a silent process.
    fn take_over(&self, process: NodeProcess) {
        let (members, events) = (self.outer.members.clone(), self.posted.events.clone());
        tokio::spawn(async move {
            let outcome = members::take_over(&*members.meta, &*members.fencing, process).await;
            if let Ok(rows) = members::all(&*members.meta).await {
                _ = events.send(ServiceEvent::Rows(rows));
            }
            if outcome.is_err() {
                tokio::time::sleep(SECOND).await;
            }
            _ = events.send(ServiceEvent::TakenOver(process, outcome));
        });
    }

    /// Takes over the homes of a process that lives and doesn't hand them on.
    pub(crate) fn overdue(&mut self, process: NodeProcess) {
        let is_member = self.table.others().iter().any(|(_, other)| *other == process);
        if is_member && !self.is_over && self.deaths.begin(process) {
            error!(
                %process,
                "a process of the cluster lives, but doesn't hand on the accounts and rooms whose home is now on other nodes: these take over from it, and it ends; find out what stalls it"
            );
            self.take_over(process);
        }
    }

    pub(crate) fn taken_over(&mut self, process: NodeProcess, outcome: Result<bool, NotJoined>) {
        self.deaths.ended(process);
        match outcome {
            Ok(false) => {}
            Ok(true) => {
                warn!(%process, "a process of the cluster was silent for too long: other nodes now have its accounts and rooms");
                self.clear_away(process);
            }
            // It is tried again at the next check.
            Err(error) => self.tell("take over", || {
                warn!(?error, %process, "the accounts of a silent node can't be taken over: the database refuses");
            }),
        }
    }

    /// Removes the data that a process has left in Redis.
    fn clear_away(&self, process: NodeProcess) {
        if let Some(mut connection) = self.connection.clone() {
            tokio::spawn(async move {
                // Remaining data is removed when the node comes back.
                _ = connection.remove_inbox(process).await;
                _ = connection.end_lease(process).await;
            });
        }
    }

    /// Adopts the rows of the database, once the processes that have lost their row are fenced off.
    pub(crate) fn rows(&mut self, rows: Vec<(String, MemberRow)>) {
        if let Some((name, row)) = rows.iter().find(|(_, row)| !row.letters.fits(LetterVersions::OWN)) {
            let (node, theirs, own) = (name.clone(), row.letters, LetterVersions::OWN);
            self.tell("letters", || {
                error!(
                    node,
                    %theirs,
                    %own,
                    "a node of the cluster is of a version that doesn't understand this one's letters: stop it, and upgrade the older of the two"
                );
            });
        }
        self.look_for_misfits(&rows);
        let gone = self.table.gone_processes(&rows);
        if gone.is_empty() {
            return self.take_rows(rows);
        }
        if std::mem::replace(&mut self.deaths.is_fencing, true) {
            return;
        }
        let (members, events) = (self.outer.members.clone(), self.posted.events.clone());
        tokio::spawn(async move {
            let event = match fence_off(&*members.fencing, &gone).await {
                Ok(()) => ServiceEvent::FencedOff(gone, rows),
                Err(error) => {
                    _ = events.send(ServiceEvent::NotFenced(error));
                    // They are read again.
                    ServiceEvent::FencedOff(Vec::new(), Vec::new())
                }
            };
            _ = events.send(event);
        });
    }

    /// Warns of nodes that have other settings, and of a process that has joined with another Redis
    /// and therefore is silent here.
    fn look_for_misfits(&mut self, rows: &[(String, MemberRow)]) {
        if let Some((node, has_others, sections)) = self.other_settings(rows) {
            self.tell("settings", || match has_others {
                true => error!(
                    node,
                    "a node of the cluster serves other domains than this one: clients of one have accounts on the other; set `domains` to the same on both, and reload them"
                ),
                false => warn!(node, sections, "{OTHER_SETTINGS}"),
            });
        }
        let Some(mark) = self.table.mark() else { return };
        let suspects = marks::suspects(rows, mark);
        if let Some((node, process)) = suspects.into_iter().find(|(_, process)| self.deaths.is_silent(*process)) {
            self.tell("other redis", || {
                error!(
                    node,
                    %process,
                    "a node that is silent has joined with another Redis than this one: if it runs, stop it, and set `redis` of [cluster] to the same Redis on all nodes"
                );
            });
        }
    }

    /// Returns the first node that lives and has other settings than this one: its name, whether it
    /// serves other domains, and the sections that differ.
    fn other_settings(&self, rows: &[(String, MemberRow)]) -> Option<(String, bool, String)> {
        let own = self.table.settings()?;
        let others = rows.iter().filter(|(_, row)| row.number != self.table.me().node);
        others.into_iter().find_map(|(name, row)| {
            let theirs = &row.notes.settings;
            let process = NodeProcess { node: row.number, incarnation: row.incarnation };
            let (has_others, differences) = (own.has_other_domains(theirs), own.differences(theirs));
            let differs = (has_others || !differences.is_empty()) && !self.deaths.is_silent(process);
            differs.then(|| (name.clone(), has_others, differences.join(", ")))
        })
    }

    pub(crate) fn fenced_off(&mut self, gone: Vec<NodeProcess>, rows: Vec<(String, MemberRow)>) {
        self.deaths.is_fencing = false;
        if !gone.is_empty() {
            self.take_rows(rows);
        }
    }

    /// Adopts the rows of the database.
    fn take_rows(&mut self, rows: Vec<(String, MemberRow)>) {
        // A node that is just joining has not read the journals of dead nodes: the next node with
        // their homes passes the content on.
        if let Some(known) = self.table.without_new(&rows) {
            let update = self.table.update(known);
            self.handle_update(update);
        }
        let update = self.table.update(rows);
        self.handle_update(update);
    }

    pub(crate) fn departed(&mut self, process: NodeProcess) {
        info!(%process, "a process of the cluster is gone");
        self.deaths.forget(process);
        self.gone += 1;
        self.outer.door.departed(process.node, process.incarnation);
    }

    /// Hands letters back to the shards that wrote them, which send them to the current homes.
    /// Those of a process that is gone come with the homes that follow it:
    /// [`CourierLetter::mail_of_shards`].
    pub(crate) fn send_again(&mut self, letters: Vec<CourierLetter<Custody>>) {
        for letter in letters.into_iter().filter(|letter| letter.kind == number(MailboxKind::Mail)) {
            self.outer.door.again(usize::from(letter.from), letter.body, letter.share);
        }
    }
}

/// The shortest time for which a process has to be silent after its lease has expired. It renews
/// the lease each second, and Redis may have forgotten it.
const DOUBT: Duration = Duration::from_secs(2);
