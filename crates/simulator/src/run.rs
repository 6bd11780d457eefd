//! One run: a server, its devices, and the events of a plan.

use std::sync::Arc;

use rookery_base::chance;
use rookery_hub::{LoginBy, Value, World};
use rookery_store::memory::Memory;
use rookery_store::{Background, BackgroundDesk};
use rookery_testkit::{Config, Server};
use rookery_xml::Limits;

use crate::book::{Book, UploadLimits};
use crate::device::{DOMAIN, People, UserDevice};
use crate::event::{SimulatedEvent, SimulatedEventKind};
use crate::guests::{GUEST_DOMAIN, SimulatedGuests};
use crate::journal;
use crate::nodes::SimulatedNodes;
use crate::peer::SimulatedPeer;
use crate::plan::{LoginWay, RunPlan};
use crate::rest;
use crate::set_up::{configuration, meet, register};
use crate::source::SimulatedSource;
use crate::statistics::{Peaks, RunStatistics};
use crate::unsteady::DatabaseTrouble;

/// The outcome of a run, which is the same for two runs of one plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// The hash of the log.
    pub hash: u64,
    /// The rule that was broken first.
    pub broken: Option<String>,
    /// The log, if it was kept.
    pub lines: Vec<String>,
    /// The counts of a run.
    pub statistics: RunStatistics,
}

/// A run under way.
pub struct SimulatedRun {
    pub(crate) nodes: SimulatedNodes,
    pub(crate) devices: Vec<UserDevice>,
    pub(crate) peer: Option<SimulatedPeer>,
    pub(crate) guests: Option<SimulatedGuests>,
    pub(crate) book: Book,
    pub(crate) people: People,
    pub(crate) statistics: RunStatistics,
    desk: BackgroundDesk,
    source: Option<Arc<SimulatedSource>>,
    store_is_late: bool,
    is_fine: bool,
    most_stanzas: usize,
    /// True if nodes die only while all others are at rest.
    pub(crate) is_firm: bool,
    /// The time at which all homes had last moved, and the time at which no part last had anything
    /// left to do, in milliseconds.
    pub(crate) moved_ms: u64,
    pub(crate) rested_ms: u64,
    /// True while homes move or may soon move.
    pub(crate) is_moving: bool,
    /// True while homes move for more than one reason.
    pub(crate) does_overlap: bool,
    /// The number of times that shards continued without work that others had not done in time.
    lateness: u64,
    pub(crate) is_stalled: bool,
}

/// Runs a plan to its end.
pub fn run(plan: &RunPlan, keeps_lines: bool) -> RunOutcome {
    let mut run = SimulatedRun::new(plan, keeps_lines);
    for (number, event) in plan.events.iter().enumerate() {
        run.book.note(format_args!("-- {number} {event:?} at {}", run.nodes.now()));
        run.happen(event);
        if run.book.first_breach().is_some() {
            break;
        }
    }
    if run.book.first_breach().is_none() {
        rest::come_to_rest(&mut run);
    }
    run.end()
}

impl SimulatedRun {
    fn new(plan: &RunPlan, keeps_lines: bool) -> Self {
        // Keys, nonces and hash tables depend on the seed from here on.
        chance::seed(plan.seed);
        let inner = Memory::stores();
        register(&inner, plan.accounts);
        let (at_desk, desk) = Background::at_desk();
        let background = if plan.background_is_late { at_desk } else { Background::in_place() };
        let (stores, shuffle, seed) = (inner.clone(), None, plan.seed);
        let mut config = Config { shards: plan.shards, stores, background, shuffle, seed, ..configuration() };
        let source = plan.has_source.then(|| Arc::new(SimulatedSource::new(plan.store_is_late)));
        if plan.has_guests {
            config.domains.push(GUEST_DOMAIN.to_owned());
            config.login_by.push((GUEST_DOMAIN.to_owned(), LoginBy::Anonymous));
        }
        let login_by = source.iter().map(|source| (DOMAIN.to_owned(), LoginBy::Source(source.clone())));
        config.login_by.extend(login_by);
        let most = plan.most_stanzas.map(|most| ("stream_management", "max_stanzas", Value::Number(most as u64)));
        config.options.extend(most);
        let peer = plan.peer.map(|peer| meet(peer, &mut config));
        let mut devices: Vec<UserDevice> = Vec::new();
        for (index, device) in plan.devices.iter().enumerate() {
            let number = devices.iter().filter(|other| other.plan.account == device.account).count();
            devices.push(UserDevice::new(index, *device, number, plan.rooms));
        }
        let names = devices.iter().map(|device| (device.plan.account, device.full())).collect();
        let people =
            People { accounts: plan.accounts, devices: names, rooms: plan.rooms, enters_to_speak: plan.is_fine };
        let nodes = SimulatedNodes::start(config, &inner, plan.seed, plan.nodes);
        let mut book = Book::new(keeps_lines);
        book.is_tight = plan.most_stanzas.is_some();
        book.rooms.for_members =
            (0..plan.rooms).filter(|room| (plan.seed / 16 + *room as u64).is_multiple_of(3)).collect();
        Self {
            nodes,
            devices,
            peer,
            guests: plan.has_guests.then(SimulatedGuests::default),
            book,
            people,
            statistics: RunStatistics::default(),
            desk,
            source,
            store_is_late: plan.store_is_late,
            is_fine: plan.is_fine,
            most_stanzas: plan.most_stanzas.unwrap_or(MOST_STANZAS),
            is_firm: plan.is_firm,
            moved_ms: 0,
            rested_ms: 0,
            is_moving: false,
            does_overlap: false,
            lateness: 0,
            is_stalled: false,
        }
    }

    fn end(mut self) -> RunOutcome {
        let (called, failed) = self.nodes.store_counts();
        self.statistics.finish(&self.book, called, failed);
        let broken = self.book.first_breach().map(str::to_owned);
        RunOutcome { hash: self.book.journal.hash(), broken, lines: journal::take_lines(), statistics: self.statistics }
    }

    fn happen(&mut self, event: &SimulatedEvent) {
        self.book.now_ms = self.nodes.now();
        // Anything that delays a node may delay BOSH requests.
        if self.nodes.count() > 1 && (self.is_moving || self.nodes.is_hindered()) {
            self.neglect_bosh();
        }
        let mut who = event.who % self.devices.len();
        if self.is_fine && event.what == SimulatedEventKind::Read {
            let from = (who..self.devices.len()).chain(0..who);
            who = from.into_iter().find(|at| self.devices[*at].has_news()).unwrap_or(who);
        }
        // The server may have chosen the resource (XEP-0386).
        for ((_, known), device) in self.people.devices.iter_mut().zip(&self.devices) {
            if known.split_once('/').is_some_and(|(_, resource)| resource != device.resource) {
                *known = device.full();
            }
        }
        let device = &mut self.devices[who];
        let book = &mut self.book;
        let happens = match event.what {
            SimulatedEventKind::Tick => self.nodes.step(event.a % self.nodes.shards()),
            SimulatedEventKind::Settle => self.settle(),
            SimulatedEventKind::Wait => self.wait(event),
            SimulatedEventKind::Read => device.read([1, 20, 200, 5000][event.a % 4], book),
            SimulatedEventKind::Store => {
                (0..1 + event.a % 4).fold(false, |any, _| self.nodes.run_store(event.b) | self.run_beside() | any)
            }
            SimulatedEventKind::Connect => {
                let connects = !device.is_connected();
                if let Some((node, server)) = self.nodes.open(who + event.a) {
                    device.connect(node, &server, book);
                }
                connects
            }
            SimulatedEventKind::Cut => self.cut(who, event),
            SimulatedEventKind::Silence => {
                device.fall_silent(book);
                true
            }
            SimulatedEventKind::Close => self.close(who),
            SimulatedEventKind::Kill if self.nodes.count() == 1 => self.kill(event.a),
            SimulatedEventKind::Restart if self.nodes.count() == 1 => self.restart(event.b.is_multiple_of(2)),
            SimulatedEventKind::Kill | SimulatedEventKind::Restart => false,
            SimulatedEventKind::Carry
            | SimulatedEventKind::NodeKill
            | SimulatedEventKind::NodeJoin
            | SimulatedEventKind::NodeDrain
            | SimulatedEventKind::NodePause
            | SimulatedEventKind::NodeCut
            | SimulatedEventKind::RedisAway
            | SimulatedEventKind::RedisForget
            | SimulatedEventKind::RedisBreak => self.change_nodes(event),
            SimulatedEventKind::Reload => {
                self.reload(event);
                true
            }
            SimulatedEventKind::Trouble => self.trouble(event),
            SimulatedEventKind::Jump => {
                book.jump();
                self.nodes.set_time_of_day(event.a as i64 * 100 - 3_000_000);
                true
            }
            SimulatedEventKind::Stall => {
                self.neglect_bosh();
                let shards = self.nodes.shards();
                let shard = Some(event.a % (shards + 1)).filter(|shard| *shard < shards);
                self.is_stalled = shard.is_some();
                self.nodes.stall(shard);
                self.neglect_clients(shard);
                true
            }
            SimulatedEventKind::PeerCome
            | SimulatedEventKind::PeerGo
            | SimulatedEventKind::PeerBreak
            | SimulatedEventKind::PeerRead
            | SimulatedEventKind::PeerChat
            | SimulatedEventKind::PeerShow
            | SimulatedEventKind::PeerSubscribe
            | SimulatedEventKind::PeerLie => {
                let accounts = self.people.accounts;
                self.peer.as_mut().is_some_and(|peer| peer.act(event, self.nodes.first(), accounts, book))
            }
            SimulatedEventKind::ChatAbroad | SimulatedEventKind::SubscribeAbroad => {
                self.peer.as_ref().is_some_and(|peer| device.act_abroad(event, peer, book))
            }
            SimulatedEventKind::ChatGuest => {
                self.guests.as_ref().is_some_and(|guests| guests.chat(event, device, book))
            }
            SimulatedEventKind::GuestCome
            | SimulatedEventKind::GuestGo
            | SimulatedEventKind::GuestBreak
            | SimulatedEventKind::GuestRead
            | SimulatedEventKind::GuestChat
            | SimulatedEventKind::GuestAsk => {
                let accounts = self.people.accounts;
                self.guests.as_mut().is_some_and(|guests| guests.act(event, self.nodes.first(), accounts, book))
            }
            _ => device.act(event, &self.people, book),
        };
        self.statistics.count(event.what, happens);
        if !self.store_is_late {
            while self.nodes.run_store(0) {}
        }
        self.see_ends();
        self.note_moves();
        self.weigh();
    }

    /// Checks that no more stanzas wait for a session than may, and counts the things that wait in
    /// the server.
    fn weigh(&mut self) {
        let most = self.nodes.inspect(|world| world.outboxes.most_held()).into_iter().max().unwrap_or_default();
        if most > self.most_stanzas {
            let text = format!("{most} stanzas wait for a session, which may be {}", self.most_stanzas);
            self.book.break_rule(format!("{text} (doc/limits.md: \"the session ends\")"));
        }
        let waiting = self.nodes.inspect(|world| (world.outboxes.waiting_total(), world.census()));
        let mut peaks = Peaks { stanzas: most, ..Peaks::default() };
        for (bytes, census) in waiting {
            peaks.bytes += bytes;
            peaks.mail += census.outgoing;
            peaks.timers += census.timers;
            peaks.requests += census.requests + census.questions + census.logins;
        }
        self.statistics.peaks.raise(&peaks);
        let excess = peaks.excess(self.devices.len());
        excess.into_iter().for_each(|excess| self.book.break_rule(excess));
    }

    /// Does one piece of the work of other threads or of the source of logins. Returns whether
    /// there was one.
    fn run_beside(&mut self) -> bool {
        self.desk.run_one() || self.source.as_ref().is_some_and(|source| source.run_one())
    }

    /// Makes shards, store and devices work until nothing changes any more. Returns whether
    /// anything did.
    pub(crate) fn settle(&mut self) -> bool {
        for round in 0..MOST_ROUNDS {
            let mut any = false;
            for shard in 0..self.nodes.shards() {
                any |= self.nodes.step(shard);
            }
            any |= self.nodes.carry_all();
            while self.nodes.run_store(0) || self.run_beside() {
                any = true;
            }
            any |= self.see_ends();
            if self.is_moving {
                self.note_lateness();
            }
            // A client that has read everything gets nothing more until the server has done
            // something.
            if any || round == 0 {
                for device in &mut self.devices {
                    any |= device.read(usize::MAX, &mut self.book);
                }
                if let Some(peer) = &mut self.peer {
                    any |= peer.read(usize::MAX, &mut self.book);
                }
                if let Some(guests) = &mut self.guests {
                    any |= guests.read_all(&mut self.book);
                }
            }
            if !any || self.book.first_breach().is_some() {
                if !self.is_stalled && !self.nodes.is_hindered() {
                    self.book.come_to_rest();
                    self.rested_ms = self.nodes.now();
                }
                return round > 0;
            }
        }
        self.book.break_rule("the server does not come to rest".into());
        true
    }

    /// Advances the clock, timer by timer, in at most [`STRIDES`] steps.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.pass_in(STRIDES, ms);
    }

    /// Advances the clock, timer by timer, in at most this many steps, so that long timers may be a
    /// little late. While homes move, up to [`MOST_FINE_STEPS`] more steps are made: otherwise a
    /// letter that lingers shortly would be as late as the timer of the process that waits for its
    /// answer.
    pub(crate) fn pass_in(&mut self, strides: u64, ms: u64) {
        let until = self.nodes.now() + ms;
        self.settle();
        let mut fine_steps = MOST_FINE_STEPS;
        for _ in 0..MOST_ROUNDS {
            let is_fine = self.is_moving && fine_steps > 0;
            fine_steps -= usize::from(is_fine);
            let at_least = self.nodes.now() + if is_fine { 0 } else { ms / strides };
            match self.nodes.next_timer().filter(|due| *due <= until) {
                Some(due) => self.nodes.move_clock(due.max(at_least).min(until)),
                None => break,
            }
            self.book.now_ms = self.nodes.now();
            self.settle();
            self.note_moves();
        }
        self.nodes.move_clock(until);
        self.book.now_ms = until;
        self.settle();
    }

    fn wait(&mut self, event: &SimulatedEvent) -> bool {
        let ms = match event.a % 10 {
            0..5 => event.b % 300,
            5..8 => event.b % 10_000,
            8 => 60_000 + event.b,
            _ => 400_000 + event.b * 10,
        };
        // Only here doesn't the process run while time passes, so that it may notice that it is
        // late. If all nodes paused at once, none would be left to declare them dead.
        if (event.a / 10).is_multiple_of(4) && (self.nodes.count() == 1 || ms < 300) {
            self.neglect_bosh();
            self.nodes.move_clock(self.nodes.now() + ms as u64);
        } else {
            self.pass(ms as u64);
        }
        true
    }

    /// Records that BOSH sessions may end, since their requests were late (XEP-0124 §10).
    fn neglect_bosh(&mut self) {
        self.devices.iter_mut().for_each(|device| device.is_neglected = true);
        let devices = &self.devices;
        self.book.end_sessions(|session| devices[session.device].plan.way == LoginWay::Bosh);
    }

    fn cut(&mut self, who: usize, event: &SimulatedEvent) -> bool {
        let (device, book) = (&mut self.devices[who], &mut self.book);
        let was_connected = device.is_connected();
        match event.a % 4 {
            0 | 1 => device.cut(true, book),
            2 => device.cut(false, book),
            _ => device.walk_away(book),
        }
        if event.b.is_multiple_of(10) && !device.is_connected() {
            device.forget(book);
        }
        was_connected
    }

    fn close(&mut self, who: usize) -> bool {
        let (device, book) = (&mut self.devices[who], &mut self.book);
        let was_ready = device.is_ready();
        device.close(book);
        was_ready
    }

    fn kill(&mut self, choice: usize) -> bool {
        self.book.deaths += 1;
        self.book.end_sessions(|_| true);
        if choice.is_multiple_of(2) {
            self.nodes.lose_store();
        }
        self.nodes.first().kill();
        // Operations that were not carried out yet end with the process.
        self.nodes.lose_store();
        self.bereave();
        true
    }

    /// Stops the server in good order and starts another one, which continues the sessions that
    /// clients may resume if the old server hands them on.
    fn restart(&mut self, hands_on: bool) -> bool {
        self.book.end_sessions(|_| true);
        self.book.is_stopping = true;
        // A server that stops doesn't wait for a store that is unavailable.
        self.book.store_refused |= self.book.store_failed;
        if hands_on {
            self.nodes.first().stop_for_next();
            if self.comes_to(Server::is_resting) {
                self.nodes.first().end_others();
                if self.comes_to(Server::is_resting) {
                    self.nodes.first().replace();
                    self.book.was_replaced = true;
                    self.bereave();
                    return true;
                }
            }
        } else {
            self.nodes.first().stop();
            self.comes_to(Server::is_finished);
        }
        self.book.deaths += 1;
        self.nodes.first().kill();
        self.nodes.lose_store();
        self.bereave();
        true
    }

    /// Waits for as long as an operator would. Returns whether the server reached the wanted state.
    fn comes_to(&mut self, wanted: impl Fn(&Server) -> bool) -> bool {
        for _ in 0..10 {
            self.settle();
            if wanted(self.nodes.first()) {
                return true;
            }
            self.pass(1_000);
        }
        wanted(self.nodes.first())
    }

    fn bereave(&mut self) {
        self.book.is_stopping = false;
        // A process needs a moment to start; ids that contain the time of day rely on that.
        self.nodes.move_clock(self.nodes.now() + START_MS);
        self.desk.clear();
        self.devices.iter_mut().for_each(|device| device.bereave(&mut self.book));
        self.peer.iter_mut().for_each(|peer| peer.bereave(&mut self.book));
        self.guests.iter_mut().for_each(|guests| guests.bereave(&mut self.book));
    }

    /// Lets all shards work.
    pub(crate) fn unstall(&mut self) {
        self.is_stalled = false;
        self.nodes.stall(None);
    }

    /// Records, while homes move, that sessions may move, end, or be late.
    fn note_moves(&mut self) {
        if !self.is_moving {
            if self.is_stalled || self.nodes.is_hindered() {
                // Whatever a shard is late with now is excused, though no move is known yet.
                self.lateness = self.count_lateness();
            }
            return;
        }
        self.book.end_sessions(|_| true);
        self.note_lateness();
        if !self.nodes.is_moving() {
            (self.is_moving, self.does_overlap) = (false, false);
            self.moved_ms = self.nodes.now();
            self.book.moves_end();
        }
    }

    /// Returns how often shards have continued without what others had not sent in time.
    fn count_lateness(&mut self) -> u64 {
        self.nodes.inspect(World::lateness).into_iter().sum()
    }

    /// Records that work which isn't done in time while homes move is given up, as at a death. If
    /// nothing hinders a shard and homes move for one reason only, it must not be late.
    fn note_lateness(&mut self) {
        let lateness = self.count_lateness();
        let was_late = lateness > std::mem::replace(&mut self.lateness, lateness);
        if self.is_stalled || self.nodes.is_hindered() || was_late && self.does_overlap {
            self.book.moves_late();
        } else if was_late {
            let (text, now_ms) = (self.nodes.describe(), self.nodes.now());
            self.book.note(format_args!("nodes at {now_ms}: {text}"));
            self.book.break_rule("a home that moves goes on without what nothing hinders others from doing".into());
        }
    }

    /// Records the nodes whose processes have ended by themselves. Returns whether there was any.
    fn see_ends(&mut self) -> bool {
        if let Some(node) = self.nodes.written_late() {
            let text = format!("the database takes what node {node} writes, whose accounts others have");
            self.book.break_rule(format!("{text} (what is promised: \"the database is told to refuse\")"));
        }
        if let Some(number) = self.nodes.read_late() {
            let text = format!("the node of number {number} reads its old journal, whose accounts others have had");
            self.book.break_rule(format!("{text} (what is promised: \"one that is back later doesn't read it\")"));
        }
        if self.nodes.take_given_up() {
            // It may have had homes already, and others wait for it as for one that has died.
            self.overlap_moves();
        }
        let ended = self.nodes.take_ended();
        for &(node, in_order) in &ended {
            if in_order {
                self.bereave_of(node);
            } else {
                self.node_died(node);
            }
        }
        !ended.is_empty()
    }

    /// Makes the server read another configuration.
    fn reload(&mut self, event: &SimulatedEvent) {
        let limits = UploadLimits {
            bytes: [1_000, 20_000, 60_000, 100 << 20][event.a % 4],
            files: [1, 3, 20, 5_000][event.b % 4],
        };
        self.book.limit_uploads(limits);
        let is_read = self.nodes.reload(|config| {
            config.settings.max_directed = 10 + event.a % 100;
            config.options.retain(|(module, ..)| !["upload", "version"].contains(module));
            config.options.extend([
                ("upload", "max_bytes", Value::Number(limits.bytes)),
                ("upload", "quota_files", Value::Number(limits.files)),
                ("version", "show_os", Value::Switch(event.a.is_multiple_of(2))),
            ]);
            config.limits.depth = Limits::AFTER_LOGIN.depth - event.b % 8;
        });
        if is_read && !self.is_stalled {
            self.book.forget_upload_limits();
        }
    }

    fn trouble(&mut self, event: &SimulatedEvent) -> bool {
        let trouble = [
            DatabaseTrouble::None,
            DatabaseTrouble::Busy,
            DatabaseTrouble::Away,
            DatabaseTrouble::Once,
            DatabaseTrouble::Once,
        ][event.a % 5];
        let is_full = trouble == DatabaseTrouble::Busy && event.b.is_multiple_of(2);
        let trouble = if is_full { DatabaseTrouble::Full } else { trouble };
        self.book.store_failed |= trouble != DatabaseTrouble::None;
        self.book.store_refused |= matches!(trouble, DatabaseTrouble::Full | DatabaseTrouble::Once);
        self.nodes.set_trouble(trouble);
        trouble != DatabaseTrouble::None
    }
}

/// The milliseconds that the start of a process takes at least.
const START_MS: u64 = 5;
/// The most steps in which the clock is advanced.
const STRIDES: u64 = 200;
/// The most further steps, each to the next timer, while homes move.
const MOST_FINE_STEPS: usize = 1_000;
/// The rounds after which a server that never rests counts as broken.
const MOST_ROUNDS: usize = 20_000;
/// The limit of stanzas that may wait for a session in usual runs: the default of the
/// configuration.
const MOST_STANZAS: usize = 5_000;
