//! The part that runs beside the shards of a process in a cluster: it carries letters, keeps the
//! lease, and reads the rows of the database and the leases of other nodes.
//!
//! Its decisions are those of the server, in [`Courier`], [`NodeTable`], [`Deaths`] and
//! [`members`]. Only the loop around them differs: it waits for sockets in the server, and is
//! driven by events here.

mod taken;

use std::cell::RefMut;
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use rookery_base::Awaited;
use rookery_base::lock::lock;
use rookery_cluster::Members;
use rookery_cluster::clocks::{PeerClocks, ahead_ms, stamp};
use rookery_cluster::courier::{Append, ArrivedPart, Courier, CourierLetter, NEWS};
use rookery_cluster::death::{Deaths, LeaseVerdict};
use rookery_cluster::members::{self, MemberRow, NotJoined};
use rookery_cluster::reading::JournalPart;
use rookery_cluster::service::fence_off;
use rookery_cluster::table::{NodeTable, Update};
use rookery_cluster::wire::NodeProcess;
use rookery_fanout::Station;
use rookery_hub::{Custody, JournalBatch, JournalFields, World};
use rookery_shard::MailboxKind;
use rookery_testkit::Server;

use crate::device::DOMAIN;
use crate::nodes::journal::{self, AgentJournal, RedisReach};
use crate::nodes::leaving::AgentEnd;
use crate::nodes::posted::PostedHere;
use crate::nodes::redis::{LEASE_MS, SimRedis};
use crate::unsteady::Unsteady;

/// The state beside the shards of one process.
pub(crate) struct Agent {
    pub table: NodeTable,
    pub deaths: Deaths,
    clocks: PeerClocks,
    pub(super) courier: Courier<Custody>,
    posted: Arc<PostedHere>,
    pub(super) server: Server,
    store: Arc<Unsteady>,
    pub(super) reach: RedisReach,
    pub(super) members: Members,
    /// The number of breaks of Redis at the time when it connected, and the last entry that it has
    /// read since.
    pub(super) connection: Option<(u64, u64)>,
    reachable_since_ms: u64,
    journal: AgentJournal,
    /// The commands that have not reached Redis.
    commands: VecDeque<RedisCommand>,
    pub(super) calls: Vec<Pin<Box<dyn Future<Output = AgentNews>>>>,
    /// The entries that are being handled.
    at_work: Vec<(NodeProcess, u64, Awaited<()>)>,
    is_fencing: bool,
    pub(super) is_deaf: bool,
    next_look_ms: u64,
    pub(super) end: AgentEnd,
    pub(super) now_ms: u64,
    began: Instant,
}

/// A command for Redis, over the one connection of a process.
enum RedisCommand {
    Append(Append),
    /// Writes of a shard to the journal.
    Write(usize, JournalBatch),
}

pub(super) enum AgentNews {
    Rows(Vec<(String, MemberRow)>),
    FencedOff(Option<Vec<(String, MemberRow)>>),
    TakenOver(NodeProcess, Result<bool, NotJoined>),
    Withdrawn,
    Found(usize, NodeProcess, JournalFields, Vec<JournalPart>),
    Voided(u64, bool),
    Nothing,
}

/// The things that a process shares with the rest of the run.
pub(crate) struct Around {
    pub server: Server,
    pub store: Arc<Unsteady>,
    pub reach: RedisReach,
    pub members: Members,
    pub posted: Arc<PostedHere>,
}

impl Agent {
    /// Returns the part beside the shards of a process that uses this table of nodes.
    pub fn new(around: Around, table: NodeTable, now_ms: u64) -> Self {
        let Around { server, store, reach, members, posted } = around;
        let mut courier = Courier::new(table.me());
        for (_, process) in table.others() {
            courier.meet(process, table.shards_of(process));
        }
        Self {
            table,
            deaths: Deaths::default(),
            clocks: PeerClocks::default(),
            courier,
            posted,
            server,
            store,
            reach,
            members,
            connection: None,
            reachable_since_ms: now_ms,
            journal: AgentJournal::new(now_ms),
            commands: VecDeque::new(),
            calls: Vec::new(),
            at_work: Vec::new(),
            is_fencing: false,
            is_deaf: false,
            next_look_ms: now_ms,
            end: AgentEnd::Runs,
            now_ms,
            began: Instant::now(),
        }
    }

    /// Returns the time of its next timer.
    pub fn next_ms(&self) -> u64 {
        self.courier.next_ms().map_or(self.next_look_ms, |due| due.min(self.next_look_ms))
    }

    /// Returns, if the process is over, whether it ended in good order.
    pub fn is_over(&self) -> Option<bool> {
        match self.end {
            AgentEnd::Over(in_order) => Some(in_order),
            _ => None,
        }
    }

    /// Returns whether the process runs and isn't leaving.
    pub fn stays(&self) -> bool {
        self.end == AgentEnd::Runs
    }

    /// Returns whether the other nodes have handled all letters to them, and nothing waits here.
    pub fn is_idle(&self) -> bool {
        self.courier.is_idle() && self.commands.is_empty() && self.at_work.is_empty()
    }

    /// Returns the full JIDs of the sessions that other nodes would continue if the process died
    /// now. Returns `None` if that is uncertain, since the journal doesn't have everything that was
    /// promised.
    pub fn journaled_sessions(&self) -> Option<Vec<String>> {
        let is_whole = self.connection.is_some() && self.can_reach() && self.journal.is_whole(self.server.shards());
        is_whole.then(|| self.redis().journaled_sessions(self.table.me()))
    }

    /// Returns the full JIDs of its sessions.
    pub fn sessions(&self) -> Vec<String> {
        let of_shard = |world: &World| -> Vec<String> {
            let links = world.present(DOMAIN).flat_map(|(_, links)| links);
            links.filter_map(|link| world.address(link)).map(|jid| jid.as_str().to_owned()).collect()
        };
        self.server.inspect(of_shard).concat()
    }

    /// Returns whether its shards have sent something that the journal doesn't have yet.
    pub fn owes_journal(&self) -> bool {
        let is_write = |command: &RedisCommand| matches!(command, RedisCommand::Write(..));
        let is_waiting = self.server.inspect(World::has_to_journal).contains(&true);
        is_waiting || !lock(&self.posted.journal).is_empty() || self.commands.iter().any(is_write)
    }

    /// Returns whether it can't reach Redis, although others may.
    pub fn is_cut_off(&self) -> bool {
        self.reach.is_cut_off.get()
    }

    /// Cuts it off from Redis, or connects it again.
    pub fn cut_off(&self, is_cut_off: bool) {
        self.reach.is_cut_off.set(is_cut_off);
    }

    fn redis(&self) -> RefMut<'_, SimRedis> {
        self.reach.redis.borrow_mut()
    }

    /// Renews the lease, as a process does that runs while time passes.
    pub fn renew(&self) {
        if self.connection.is_some() && self.can_reach() {
            _ = self.redis().renew_lease(self.table.me(), &self.lease());
        }
    }

    /// Returns the text of the process's lease, with its time of day.
    fn lease(&self) -> String {
        stamp(&self.table.lease(), self.server.time_of_day(), Duration::from_millis(LEASE_MS))
    }

    fn can_reach(&self) -> bool {
        self.reach.is_there()
    }

    /// Does one piece of its work, or everything that can be done now if it is `thorough`. Returns
    /// whether there was anything to do.
    pub fn turn(&mut self, now_ms: u64, thorough: bool) -> bool {
        self.now_ms = now_ms;
        let mut any = false;
        if self.store.was_refused() {
            any |= self.supersede();
        }
        any |= self.look();
        any |= self.connect();
        any |= self.carry(if thorough { usize::MAX } else { 1 });
        any |= self.read(if thorough { usize::MAX } else { 1 });
        any |= self.hear_calls();
        any |= self.hear_handled();
        any |= self.take_posted();
        any |= self.refuse_expired();
        any |= self.append();
        any | self.leave()
    }

    /// Ends the process, because other nodes have taken over.
    fn supersede(&mut self) -> bool {
        self.courier.end();
        let was = std::mem::replace(&mut self.end, AgentEnd::Over(false));
        !matches!(was, AgentEnd::Over(_))
    }

    /// Reads rows and leases, once a second.
    fn look(&mut self) -> bool {
        if self.now_ms < self.next_look_ms || self.is_over().is_some() {
            return false;
        }
        self.next_look_ms = self.now_ms + SECOND_MS;
        self.look_at_rows();
        self.void_journal();
        if self.connection.is_none() || !self.can_reach() {
            return true;
        }
        let (me, lease) = (self.table.me(), self.lease());
        let has_lease = self.redis().renew_lease(me, &lease);
        if !has_lease {
            return self.supersede();
        }
        self.journal.renew(me, &mut self.reach.redis.borrow_mut(), self.now_ms);
        let has_inbox = self.redis().has_inbox(me);
        if !has_inbox {
            self.lost();
            return true;
        }
        let others = self.table.others();
        for (_, process) in &others {
            let redis = self.redis();
            let found = redis.find_lease(process.node).filter(|_| redis.has_lease(*process));
            drop(redis);
            let ahead_ms = found.and_then(|found| ahead_ms(&found, self.server.time_of_day()));
            ahead_ms.into_iter().for_each(|ahead_ms| self.clocks.observe(*process, ahead_ms));
        }
        let found: Vec<_> = {
            let redis = self.redis();
            others.into_iter().map(|(_, process)| (process, redis.has_lease(process))).collect()
        };
        let at = |ms: u64| self.began + Duration::from_millis(ms);
        let (now, since) = (at(self.now_ms), at(self.reachable_since_ms));
        for verdict in self.deaths.look(&found, now, since, Duration::from_millis(LEASE_MS)) {
            match verdict {
                LeaseVerdict::Lives(process) => self.courier.set_present(process, true, self.now_ms),
                LeaseVerdict::Silent(process) => {
                    self.courier.set_present(process, false, self.now_ms);
                    self.server.note_silent(process.node, process.incarnation);
                }
                LeaseVerdict::Dead(process) => self.take_over(process),
            }
        }
        true
    }

    fn take_over(&mut self, process: NodeProcess) {
        let members = self.members.clone();
        self.calls.push(Box::pin(async move {
            let outcome = members::take_over(&*members.meta, &*members.fencing, process).await;
            AgentNews::TakenOver(process, outcome)
        }));
    }

    fn look_at_rows(&mut self) {
        let meta = self.members.meta.clone();
        self.calls
            .push(Box::pin(async move { members::all(&*meta).await.map_or(AgentNews::Nothing, AgentNews::Rows) }));
    }

    /// Connects to Redis, or loses the connection.
    fn connect(&mut self) -> bool {
        let can_reach = self.can_reach();
        let breaks = self.redis().breaks;
        match self.connection {
            Some((since, _)) if can_reach && since == breaks => false,
            Some(_) => {
                self.lost();
                true
            }
            None if can_reach && self.is_over().is_none() => {
                let me = self.table.me();
                let mut redis = self.reach.redis.borrow_mut();
                if !redis.has_inbox(me) {
                    redis.create_inbox(me);
                }
                let era = self.journal.begin_era(me, &mut redis, self.now_ms);
                drop(redis);
                era.into_iter().for_each(|era| self.server.rewrite_journal(era));
                self.connection = Some((breaks, 0));
                self.reachable_since_ms = self.now_ms;
                self.courier.reconnected();
                true
            }
            None => false,
        }
    }

    fn lost(&mut self) {
        self.connection = None;
        self.journal.lost(self.now_ms);
        for command in std::mem::take(&mut self.commands) {
            if let RedisCommand::Write(shard, batch) = command {
                self.journal.hold(shard, batch.shares);
            }
        }
        self.deaths.forget_silence();
    }

    /// Makes a command reach Redis, and then loses its answer together with the connection.
    pub fn lose_answer(&mut self) {
        match self.commands.pop_front() {
            Some(RedisCommand::Append(Append { to, entry })) => _ = self.redis().append(to, entry),
            Some(RedisCommand::Write(shard, batch)) => {
                _ = self.redis().write_journal(self.table.me(), batch.era, batch.writes);
                self.journal.hold(shard, batch.shares);
            }
            None => {}
        }
        if self.connection.is_some() {
            self.lost();
        }
    }

    fn carry(&mut self, most: usize) -> bool {
        let mut any = false;
        for _ in 0..most {
            if self.connection.is_none() {
                break;
            }
            match self.commands.pop_front() {
                Some(RedisCommand::Append(Append { to, entry })) => {
                    let outcome = self.redis().append(to, entry);
                    self.courier.appended(to, outcome, self.now_ms);
                }
                Some(RedisCommand::Write(shard, batch)) => {
                    self.journal.write(self.table.me(), shard, batch, &mut self.reach.redis.borrow_mut());
                }
                None => break,
            }
            any = true;
        }
        any
    }

    fn read(&mut self, most: usize) -> bool {
        let mut any = false;
        for _ in 0..most {
            let Some((_, position)) = &mut self.connection else { break };
            let found = self.reach.redis.borrow_mut().read(self.table.me(), *position);
            let Some((at, entry)) = found else { break };
            *position = at;
            self.take_entry(&entry);
            any = true;
        }
        any
    }

    fn take_entry(&mut self, entry: &[u8]) {
        if self.is_deaf {
            _ = self.courier.only_confirmed(entry);
            return;
        }
        let Ok(Some(ArrivedPart { from, letters, is_torn, waits })) = self.courier.arrived(entry) else { return };
        if is_torn {
            self.server.note_departed(from.node, from.incarnation);
        }
        if letters.iter().any(|(kind, ..)| *kind == NEWS) {
            self.look_at_rows();
        }
        let custody = waits.map(|seq| {
            let (custody, settled) = Custody::apart();
            self.at_work.push((from, seq, settled));
            custody
        });
        for (kind, shard, to, body) in letters {
            let kind = match kind {
                MAIL => MailboxKind::Mail,
                LINE => MailboxKind::Line,
                _ => continue,
            };
            let from = Station { node: from.node, incarnation: from.incarnation, shard };
            self.server.deliver(usize::from(to), from, vec![(kind, body)], custody.clone());
        }
    }

    fn hear_calls(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut heard = Vec::new();
        let mut calls = std::mem::take(&mut self.calls);
        calls.retain_mut(|call| match call.as_mut().poll(&mut context) {
            std::task::Poll::Ready(news) => {
                heard.push(news);
                false
            }
            std::task::Poll::Pending => true,
        });
        self.calls = calls;
        let any = !heard.is_empty();
        heard.into_iter().for_each(|news| self.heard(news));
        any
    }

    fn heard(&mut self, news: AgentNews) {
        match news {
            AgentNews::Nothing => {}
            AgentNews::Found(shard, process, fields, parts) => {
                self.journal.reads(shard, process, parts);
                self.server.recovered(shard, (process.node, process.incarnation), fields);
            }
            AgentNews::Voided(era, is_void) => self.journal.record_void(era, is_void),
            AgentNews::Rows(rows) => self.rows(rows),
            AgentNews::FencedOff(rows) => {
                self.is_fencing = false;
                rows.into_iter().for_each(|rows| self.take_rows(rows));
            }
            AgentNews::TakenOver(process, outcome) => {
                self.deaths.ended(process);
                if matches!(outcome, Ok(true)) && self.connection.is_some() {
                    let mut redis = self.redis();
                    redis.remove_inbox(process);
                    redis.end_lease(process);
                }
                self.look_at_rows();
            }
            AgentNews::Withdrawn => {
                if self.connection.is_some() {
                    let mut redis = self.redis();
                    redis.remove_inbox(self.table.me());
                    redis.end_lease(self.table.me());
                }
                self.end = AgentEnd::Over(self.end == AgentEnd::Withdraws(true));
            }
        }
    }

    fn take_rows(&mut self, rows: Vec<(String, MemberRow)>) {
        if let Some(known) = self.table.without_new(&rows) {
            let update = self.table.update(known);
            self.updated(update);
        }
        let update = self.table.update(rows);
        self.updated(update);
    }

    fn rows(&mut self, rows: Vec<(String, MemberRow)>) {
        let gone = self.table.gone_processes(&rows);
        if gone.is_empty() {
            return self.take_rows(rows);
        }
        if std::mem::replace(&mut self.is_fencing, true) {
            return;
        }
        let fencing = self.members.fencing.clone();
        self.calls.push(Box::pin(async move {
            let outcome = fence_off(&*fencing, &gone).await;
            AgentNews::FencedOff(outcome.is_ok().then_some(rows))
        }));
    }

    fn updated(&mut self, update: Update) {
        let gone = match update {
            Update::Same => return,
            Update::Superseded => {
                self.supersede();
                return;
            }
            Update::Changed(gone) => gone,
        };
        for process in gone {
            self.deaths.forget(process);
            self.server.note_departed(process.node, process.incarnation);
        }
        let unix_ms = self.server.time_of_day();
        self.table.raise_floor(self.clocks.latest(unix_ms), unix_ms);
        let others = self.table.others();
        self.clocks.keep(|process| others.iter().any(|(_, other)| *other == process));
        let mut letters = Vec::new();
        for (_, process) in &others {
            letters.append(&mut self.courier.meet(*process, self.table.shards_of(*process)));
        }
        for node in self.courier.nodes() {
            if !others.iter().any(|(_, process)| process.node == node) {
                letters.append(&mut self.courier.forget(node));
            }
        }
        self.server.go_by(&self.table.view(), CourierLetter::mail_of_shards(letters));
        self.renew();
        self.courier.announce_rows(others.iter().map(|(_, process)| process));
        if self.table.leaves() && self.end == AgentEnd::Runs {
            self.end = AgentEnd::Leaves(self.now_ms);
            self.server.shut_out();
        }
    }

    fn give_back(&self, letters: Vec<CourierLetter<Custody>>, is_refused: bool) {
        for letter in letters.into_iter().filter(|letter| letter.kind == MAIL) {
            self.server.give_back(usize::from(letter.from), letter.body, letter.share, is_refused);
        }
    }

    fn hear_handled(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut handled = Vec::new();
        self.at_work.retain_mut(|(from, seq, settled)| match Pin::new(settled).poll(&mut context) {
            std::task::Poll::Pending => true,
            std::task::Poll::Ready(outcome) => {
                handled.extend(outcome.is_ok().then_some((*from, *seq)));
                false
            }
        });
        handled.iter().for_each(|(from, seq)| self.courier.note_handled(*from, *seq));
        !handled.is_empty()
    }

    fn refuse_expired(&mut self) -> bool {
        let expired = self.courier.take_expired(self.now_ms);
        let any = !expired.is_empty();
        let (processes, letters): (BTreeSet<NodeProcess>, Vec<_>) = expired.into_iter().unzip();
        processes.iter().for_each(|process| self.server.note_departed(process.node, process.incarnation));
        self.give_back(letters, true);
        any
    }

    fn append(&mut self) -> bool {
        if self.connection.is_none() {
            return false;
        }
        let appends = self.courier.appends(self.now_ms, self.now_ms);
        let any = !appends.is_empty();
        self.commands.extend(appends.into_iter().map(RedisCommand::Append));
        any
    }

    /// Makes the database record that the journal doesn't count, once nothing could be written for
    /// a while.
    fn void_journal(&mut self) {
        let Some(era) = self.journal.void(self.now_ms) else { return };
        let (meta, me, read) = (self.members.meta.clone(), self.table.me(), self.journal.read());
        self.calls.push(Box::pin(async move {
            let mut is_void = true;
            for process in read {
                is_void &= journal::say_void(meta.clone(), process, u64::MAX).await;
            }
            AgentNews::Voided(era, is_void && journal::say_void(meta, me, era).await)
        }));
    }
}

/// The numbers of the kinds of letters, as in the server.
const MAIL: u8 = 1;
const LINE: u8 = 2;
const SECOND_MS: u64 = 1_000;
