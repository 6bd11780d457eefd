//! The process under test: its shards, stepped one after the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rookery_hub::{Card, Custody, Registry, Wakeups, World};
use rookery_modules::Shared;
use rookery_operations::process::Wish;
use rookery_shard::gathered::GatheredCards;
use rookery_shard::{Envelope, Gate, Shard, ShardSetup};
use rookery_store::shuffled::Shuffled;

use super::{ENCODED_MAIL, EPOCH_MS};
use crate::config::Config;
use crate::declared::Declared;
use crate::net::TestkitNetwork;
use crate::nodes::TestkitNodes;
use crate::remote::{RemoteSent, RemoteStreams};
use crate::seat::Seat;

/// The shards, and their surroundings.
pub(super) struct ServerRunning {
    pub(super) config: Config,
    pub(super) shards: Vec<Shard<TestkitNetwork>>,
    pub(super) nodes: TestkitNodes,
    pub(super) awake: Vec<Arc<AtomicBool>>,
    pub(super) now_ms: u64,
    /// The number of processes before this one.
    pub(super) life: u64,
    /// The offset of the time of day, in milliseconds.
    pub(super) skew_ms: i64,
    pub(super) next_shard: usize,
    pub(super) next_port: u16,
    pub(super) sent: RemoteSent,
    pub(super) wishes: Arc<Mutex<Vec<Wish>>>,
    /// The shuffling store between the shards and the test's store, if there is one.
    pub(super) shuffled: Option<Arc<Shuffled>>,
    /// A shard that is stalled.
    pub(super) stalled: Option<usize>,
}

impl ServerRunning {
    /// Starts a process with this many predecessors.
    pub(super) fn start(config: Config, now_ms: u64, life: u64) -> Self {
        let count = config.shards;
        let awake: Vec<_> = (0..count).map(|_| Arc::new(AtomicBool::new(true))).collect();
        let is_divided = config.seat.is_none() && count.is_multiple_of(config.nodes);
        let spread = if is_divided { config.nodes } else { 1 };
        let nodes = TestkitNodes::new(spread, config.letters.clone(), awake.iter().map(waker).collect());
        if let Some(seat) = &config.seat {
            nodes.posts().iter().for_each(|post| post.connect(seat.outlet.clone()));
        }
        let generation = config.generation();
        let wishes = Arc::<Mutex<Vec<Wish>>>::default();
        let each = (0..spread).map(|_| {
            let shared = Shared::default();
            if let Some(source) = &config.source {
                shared.data.join(source.clone());
            }
            let heard = wishes.clone();
            shared.process.listen(move |wish| heard.lock().expect("no test panics here").push(wish));
            config.serve_relay(&shared.relay);
            (shared, Arc::new(Gate::new(0, nodes.addresses([1, 2]))))
        });
        let each: Vec<_> = each.collect();
        let number = config.seat.as_ref().map_or(0, Seat::number);
        let counter = AtomicU64::new(now_ms ^ number << 40);
        let ids: Arc<dyn Fn() -> u128 + Send + Sync> = Arc::new(move || {
            u128::from(counter.fetch_add(1, Ordering::Relaxed)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060)
        });
        let sent = RemoteSent::default();
        let shuffled = config.shuffle.map(|seed| Shuffled::new(config.stores.clone(), seed));
        let mut stores = shuffled.as_ref().map_or_else(|| config.stores.clone(), Shuffled::stores);
        let declared = Registry::new((config.table)(&Shared::default()));
        stores.documents = Arc::new(Declared::new(stores.documents.clone(), declared.documents()));
        let shards = awake.iter().enumerate().map(|(index, awake)| {
            let (shared, gate) = &each[index / nodes.shards()];
            let keys = [1, 2, 3 + life, 4 + now_ms];
            let place = match &config.seat {
                Some(seat) => seat.place(index, keys),
                None => nodes.place(index, life as u32, keys),
            };
            let registry = Registry::new((config.table)(shared));
            let wakeups = Wakeups::new(waker(awake));
            let settings = generation.settings.clone();
            let mut world = World::new(place, settings, registry, stores.clone(), config.background.clone(), wakeups);
            if std::env::var_os(ENCODED_MAIL).is_some() {
                world.encode_mail();
            }
            if config.federates {
                world.set_federation(Box::new(RemoteStreams { shard: index, sent: sent.clone() }));
            }
            Shard::new(ShardSetup {
                driver: TestkitNetwork::within(config.internet.as_ref().map(|meeting| meeting.internet.clone())),
                world,
                index: index % nodes.shards(),
                post: nodes.post_of(index).clone(),
                gate: gate.clone(),
                generation: generation.clone(),
                ids: ids.clone(),
            })
        });
        let shards = shards.collect();
        if let Some(meeting) = &config.internet {
            meeting.internet.listen(nodes.posts().to_vec(), &meeting.names, meeting.direct_tls);
        }
        Self {
            shards,
            config,
            nodes,
            awake,
            now_ms,
            life,
            skew_ms: 0,
            next_shard: 0,
            next_port: 40_000,
            sent,
            wishes,
            shuffled,
            stalled: None,
        }
    }

    /// Begins to stop in order, for another process that continues.
    pub(super) fn stop_for_next(&mut self) {
        for shard in 0..self.shards.len() {
            self.nodes.send(shard, Envelope::Stop { hands_on: true });
        }
        self.settle();
    }

    /// Ends the sessions that another process can't continue; the cards of the others have at most
    /// this many bytes on a shard.
    pub(super) fn end_others(&mut self, most_bytes: usize) {
        assert!(self.is_resting(), "a server that stops comes to rest");
        let (done, _answers) = std::sync::mpsc::sync_channel(self.shards.len());
        for shard in 0..self.shards.len() {
            self.nodes.send(shard, Envelope::EndOthers(most_bytes, done.clone()));
        }
        self.settle();
    }

    /// Returns the cards for another process; those of a shard have at most this many bytes.
    pub(super) fn hand_on(&mut self, most_bytes: usize) -> Vec<Vec<u8>> {
        assert!(self.is_resting(), "those who can't go on end");
        let gathered = Arc::new(GatheredCards::default());
        let (done, _answers) = std::sync::mpsc::sync_channel(self.shards.len());
        for shard in 0..self.shards.len() {
            self.nodes.send(shard, Envelope::HandOn(most_bytes, gathered.clone(), done.clone()));
        }
        self.settle();
        gathered.take()
    }

    /// Returns whether a server that stops for another process has nothing left to do before it
    /// hands on.
    pub(super) fn is_resting(&self) -> bool {
        self.shards.iter().all(Shard::is_resting)
    }

    /// Advances the clock for a server that has handed on its sessions and waits for the last
    /// clients to close.
    pub(super) fn linger(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        while self.advance_to_next_timer(until) {}
        self.now_ms = until;
        self.settle();
    }

    /// Gives the shards the cards of an earlier process, as at the start of a server. Returns
    /// whether all sessions already continue.
    pub(super) fn go_on(&mut self, cards: &[Vec<u8>]) -> bool {
        let (custody, mut settled) = Custody::apart();
        let mut of_shards: Vec<Vec<Card>> = self.shards.iter().map(|_| Vec::new()).collect();
        for card in cards.iter().filter_map(|card| Card::decode(card).ok()) {
            let home = self.shards[0].world.home_of_text(card.home());
            of_shards[home].push(card);
        }
        for (shard, cards) in of_shards.into_iter().enumerate() {
            self.nodes.send(shard, Envelope::GoOn(cards, custody.clone()));
        }
        drop(custody);
        (0..self.shards.len()).for_each(|shard| self.nodes.send(shard, Envelope::Proceed));
        self.settle();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(&mut settled).poll(&mut context).is_ready()
    }

    pub(super) fn kill(&mut self) {
        // The store outlives the server, so queued operations are carried out.
        while self.run_one() {}
        let skew_ms = self.skew_ms;
        *self = Self::start(self.config.clone(), self.now_ms, self.life + 1);
        self.skew_ms = skew_ms;
    }

    /// Works until nothing changes any more. Returns whether there was anything to do.
    pub(super) fn settle(&mut self) -> bool {
        for round in 0..MOST_ROUNDS {
            let any = (0..self.shards.len()).fold(false, |any, shard| self.tick(shard) | any);
            if !any && !self.run_one() {
                return round > 0;
            }
        }
        panic!("the server does not come to rest: some socket stays ready, or a shard wakes itself for ever");
    }

    pub(super) fn step(&mut self, index: usize) -> bool {
        while self.run_one() {}
        self.tick(index)
    }

    /// Makes a shuffling store carry out one of its waiting operations.
    pub(super) fn run_one(&self) -> bool {
        self.shuffled.as_ref().is_some_and(|shuffled| shuffled.run_one())
    }

    pub(super) fn tick(&mut self, index: usize) -> bool {
        if self.stalled == Some(index) {
            return false;
        }
        let unix_ms = self.unix_ms();
        let shard = &mut self.shards[index];
        let ready = shard.driver().ready();
        let awake = self.awake[index].swap(false, Ordering::Relaxed);
        let is_due = shard.next_timer().is_some_and(|due| due <= self.now_ms);
        if ready.is_empty() && !awake && !is_due {
            return false;
        }
        shard.tick(&ready, self.now_ms, unix_ms);
        true
    }

    /// Advances to the next timer before `until`, and runs it. Returns `false` if there is none.
    pub(super) fn advance_to_next_timer(&mut self, until: u64) -> bool {
        let Some(due) = self.next_timer().filter(|&due| due <= until) else { return false };
        self.now_ms = next_stop(self.now_ms, due, until);
        self.settle();
        true
    }

    pub(super) fn unix_ms(&self) -> u64 {
        (EPOCH_MS + self.now_ms).saturating_add_signed(self.skew_ms)
    }

    pub(super) fn next_timer(&self) -> Option<u64> {
        let at_work = self.shards.iter().enumerate().filter(|(index, _)| self.stalled != Some(*index));
        at_work.filter_map(|(_, shard)| shard.next_timer()).min()
    }
}

fn waker(awake: &Arc<AtomicBool>) -> Box<dyn Fn() + Send + Sync> {
    let awake = awake.clone();
    Box::new(move || awake.store(true, Ordering::Relaxed))
}

/// Returns the time to which the clock goes next, on its way to `until`, if a timer is due earlier.
pub(crate) fn next_stop(now_ms: u64, due: u64, until: u64) -> u64 {
    let is_far = until.saturating_sub(now_ms) > EXACT_MS;
    due.max(if is_far { now_ms + LEAP_MS } else { now_ms })
}

/// The last part of a long advance, in which every timer runs at its own time, and the steps before
/// it.
const EXACT_MS: u64 = 60 * 60_000;
const LEAP_MS: u64 = 60_000;

/// The rounds of work after which a server that is still not at rest counts as broken.
const MOST_ROUNDS: usize = 200_000;
