//! Threads: one per shard, and the handle by which their owner talks to them.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::task::{Context, Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_base::AddressHash;
use rookery_fanout::View;
use rookery_hub::{Card, Custody, Place, Registry, Wakeups, World};
use rookery_observe::vital;
use rookery_store::{Background, Stores};
use tracing::{error, warn};

use crate::census::ShardCensus;
use crate::door::Door;
use crate::gate::Gate;
use crate::gathered::GatheredCards;
use crate::handover;
use crate::mailboxes::{Envelope, Generation, Outlet, Port, Post};
use crate::shard::{Shard, ShardSetup};
use crate::socket::SystemSocket;
use crate::system::{SystemDriver, SystemInterface, SystemNews};

/// The parts that the threads need to start.
pub struct Start {
    /// The threads of the shards.
    pub threads: ShardThreads,
    /// The sockets on which connections come in.
    pub listeners: Vec<ShardListener>,
    /// Connections in all, with some places left for other users of descriptors; 0 for any number.
    pub connections: usize,
    /// The decisions of the operator.
    pub generation: Arc<Generation>,
    /// The store, shared by all shards.
    pub stores: Stores,
    /// Threads for slow work, shared by all shards.
    pub background: Background,
    /// Makes the module tables of one shard.
    pub registry: Arc<dyn Fn() -> Registry + Send + Sync>,
    /// Unpredictable numbers for stream ids.
    pub ids: Arc<dyn Fn() -> u128 + Send + Sync>,
    /// The homes of all addresses, which may change: see [`Door::set_view`].
    pub view: Arc<View>,
    /// The hash by which addresses have their homes.
    pub addresses: AddressHash,
    /// Carries letters to other nodes, if there are any.
    pub outlet: Option<Arc<dyn Outlet>>,
    /// Keys chosen at random, for texts that nobody can guess.
    pub secrets: [u64; 4],
}

/// The number of shards, each of which is a thread, and the interface by which they wait.
#[derive(Debug, Clone, Copy)]
pub struct ShardThreads {
    /// The number of shards, at least one.
    pub shards: usize,
    /// The interface of the system by which they wait for their sockets.
    pub interface: SystemInterface,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start")
            .field("threads", &self.threads)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct ShardListener {
    /// The socket, bound and listening.
    pub socket: TcpListener,
    /// The protocol of its connections.
    pub port: Port,
}

/// The threads of all shards, and the ways to reach them.
#[derive(Debug)]
pub struct RunningShards {
    post: Arc<Post<SystemSocket>>,
    gate: Arc<Gate>,
    epoch: Instant,
    threads: Vec<JoinHandle<()>>,
}

/// Starts the shards, which continue these parts of an earlier process before any client is
/// admitted.
///
/// # Errors
/// The error of the system when it gives no descriptor or no thread.
pub fn start(start: Start, cards: Vec<Card>) -> io::Result<RunningShards> {
    let shards = start.threads.shards.max(1);
    let drivers = (0..shards).map(|_| SystemDriver::new(start.threads.interface)).collect::<io::Result<Vec<_>>>()?;
    let post = Post::new(drivers.iter().map(SystemDriver::waker).collect());
    // Mail for other nodes only leaves when this one is allowed to continue.
    let patience = if start.outlet.is_some() { GO_ON_AS_NODE } else { GO_ON };
    if let Some(outlet) = start.outlet {
        post.connect(outlet);
    }
    let (gate, epoch) = (Arc::new(Gate::new(start.connections, start.addresses.clone())), Instant::now());
    let (ports, given) = channel();
    let mut given = Some(given);
    let mut threads = Vec::with_capacity(shards);
    for (index, driver) in drivers.into_iter().enumerate() {
        let (view, addresses) = (start.view.clone(), start.addresses.clone());
        let is_joining = start.view.present().count() > 1;
        let place = Place { shard: index, view, is_joining, addresses, secrets: start.secrets };
        let thread = ShardThread {
            place,
            post: post.clone(),
            gate: gate.clone(),
            epoch,
            generation: start.generation.clone(),
            stores: start.stores.clone(),
            background: start.background.clone(),
            registry: start.registry.clone(),
            ids: start.ids.clone(),
            ports: given.take(),
        };
        threads.push(std::thread::Builder::new().name(thread_name(index)).spawn(move || vital(|| thread.run(driver)))?);
    }
    if !go_on(&post, cards, &start.addresses, &start.view, patience) && patience == GO_ON {
        warn!("the store is slow; some earlier sessions are restored only after new clients have connected");
    }
    // A shard that has ended admits nobody.
    let _ = ports.send(start.listeners);
    post.wake(0);
    Ok(RunningShards { post, gate, epoch, threads })
}

/// Returns the name of the thread of a shard, by which the system and profiles show it.
pub fn thread_name(shard: usize) -> String {
    format!("shard {shard}")
}

/// Gives the shards the parts of an earlier process, each at its home, and waits until they have
/// continued. Returns `false` if that takes too long; they continue all the same.
fn go_on(
    post: &Post<SystemSocket>,
    cards: Vec<Card>,
    addresses: &AddressHash,
    view: &View,
    patience: Duration,
) -> bool {
    if cards.is_empty() {
        return true;
    }
    let (custody, mut settled) = Custody::apart();
    let (woken, wakes) = sync_channel(1);
    let mut of_shards: Vec<Vec<Card>> = (0..post.shards()).map(|_| Vec::new()).collect();
    for card in cards {
        let home = view.hop(addresses.of(card.home()));
        // Any shard sends a part whose home is on another node there.
        let shard = if home < of_shards.len() { home } else { 0 };
        if let Some(cards) = of_shards.get_mut(shard) {
            cards.push(card);
        }
    }
    for (shard, cards) in of_shards.into_iter().enumerate() {
        post.send(shard, Envelope::GoOn(cards, custody.clone()));
    }
    drop(custody);
    // All parts are present before the consequences of any begin.
    (0..post.shards()).for_each(|shard| post.send(shard, Envelope::Proceed));
    let waker = Waker::from(Arc::new(Waking(woken)));
    let deadline = Instant::now() + patience;
    while Pin::new(&mut settled).poll(&mut Context::from_waker(&waker)).is_pending() {
        if wakes.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_err() {
            return false;
        }
    }
    true
}

/// Wakes the thread that starts the shards.
struct Waking(SyncSender<()>);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        // The thread has been woken already, or waits no longer.
        let _ = self.0.try_send(());
    }
}

impl RunningShards {
    /// Replaces the operator's settings, in all shards.
    pub fn reload(&self, generation: &Arc<Generation>) {
        for shard in 0..self.post.shards() {
            self.post.send(shard, Envelope::Reload(generation.clone()));
        }
    }

    /// Begins to end all streams with `system-shutdown`. With `hands_on`, sessions whose clients
    /// may come back wait for [`RunningShards::hand_on`] instead, without a connection.
    pub fn stop(&self, hands_on: bool) {
        for shard in 0..self.post.shards() {
            self.post.send(shard, Envelope::Stop { hands_on });
        }
    }

    /// Stops admitting clients: the node is leaving its cluster.
    pub fn shut_out(&self) {
        self.post.shut_out();
    }

    /// Returns whether all shards have handed on their sessions and rooms to other nodes.
    pub fn have_moved_out(&self) -> bool {
        self.post.have_moved_out()
    }

    /// Returns whether all shards have nothing left to do but to hand on their sessions, and to
    /// wait for clients that have still to close their connections.
    pub fn is_resting(&self) -> bool {
        self.post.is_at_rest()
    }

    /// Takes everything that is to continue in another process, in the wire format of cards.
    /// Sessions for which there is no room end first, while the others are there to be notified.
    /// Shards that don't answer within a few seconds keep their cards; until then this blocks.
    pub fn hand_on(&self) -> Vec<Vec<u8>> {
        let (until_others_ended, most_bytes) = handover::share(self.post.shards());
        self.door().ask_all_within(HAND_ON, |done| Envelope::EndOthers(until_others_ended, done));
        let deadline = Instant::now() + OTHERS_END;
        while !self.is_resting() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        let gathered = Arc::new(GatheredCards::default());
        self.door().ask_all_within(HAND_ON, |done| Envelope::HandOn(most_bytes, gathered.clone(), done));
        gathered.take()
    }

    /// Returns whether all shards have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all shards have ended. Returns `false` if one of them panicked.
    pub fn join(self) -> bool {
        self.threads.into_iter().map(JoinHandle::join).all(|outcome| outcome.is_ok())
    }

    /// Returns the counts of the shards. Those that don't answer within a second are left out.
    pub fn census(&self) -> ShardCensus {
        self.door().census()
    }

    /// Returns a way for other threads to reach the shards.
    pub fn door(&self) -> Door {
        Door { post: self.post.clone(), gate: self.gate.clone(), epoch: self.epoch, next: Arc::default() }
    }
}

struct ShardThread {
    place: Place,
    post: Arc<Post<SystemSocket>>,
    gate: Arc<Gate>,
    /// The moment at which the clock of all shards begins.
    epoch: Instant,
    generation: Arc<Generation>,
    stores: Stores,
    background: Background,
    registry: Arc<dyn Fn() -> Registry + Send + Sync>,
    ids: Arc<dyn Fn() -> u128 + Send + Sync>,
    /// Gets the ports when the first of them may be opened; `None` except for the first shard.
    ports: Option<Receiver<Vec<ShardListener>>>,
}

impl ShardThread {
    fn run(self, driver: SystemDriver) {
        let index = self.place.shard;
        let post = self.post.clone();
        let wakeups = Wakeups::new(move || post.wake(index));
        let settings = self.generation.settings.clone();
        let world = World::new(self.place, settings, (self.registry)(), self.stores, self.background, wakeups);
        let mut accepting =
            Accepting { ports: self.ports, listeners: Vec::new(), next: 0, again: None, post: self.post.clone() };
        let post = self.post.clone();
        let mut shard = Shard::new(ShardSetup {
            driver,
            world,
            index,
            post: self.post,
            gate: self.gate,
            generation: self.generation,
            ids: self.ids,
        });
        let epoch = self.epoch;
        let mut news = SystemNews::default();
        while !shard.is_finished() {
            let now = epoch.elapsed().as_millis() as u64;
            let due = shard.next_timer().into_iter().chain(accepting.again).min();
            let timeout = due.map(|due| Duration::from_millis(due.saturating_sub(now)));
            shard.driver().wait(timeout, &mut news);
            post.rest(index, false);
            let now = epoch.elapsed().as_millis() as u64;
            accepting.accept(&news.listeners, &mut shard, now);
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            shard.tick(&news.ready, now, unix.as_millis() as u64);
            accepting.follow(&mut shard);
            if shard.is_shut() {
                post.note_moved_out(index, shard.world.has_moved_out());
            }
            if shard.is_resting() {
                post.rest(index, true);
            }
        }
    }
}

/// The address of a listener, as log lines have it.
struct Where<'a>(&'a TcpListener);

impl fmt::Display for Where<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.local_addr() {
            Ok(address) => address.fmt(f),
            Err(_) => f.write_str("unknown"),
        }
    }
}

/// The listeners, on the first shard: connections are given to the shards in turn, so that every
/// shard gets the same number.
struct Accepting {
    /// Gives the listeners, once.
    ports: Option<Receiver<Vec<ShardListener>>>,
    listeners: Vec<ShardListener>,
    next: usize,
    /// The time at which to listen again after the system ran out of descriptors.
    again: Option<u64>,
    post: Arc<Post<SystemSocket>>,
}

impl Accepting {
    fn listen(&mut self, driver: &mut SystemDriver) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let watched =
                listener.socket.set_nonblocking(true).and_then(|()| driver.add_listener(&listener.socket, index));
            if let Err(error) = watched {
                let address = Where(&listener.socket);
                error!(%address, %error, "can't listen on a port");
            }
        }
    }

    /// Begins to listen when the shard is given its ports. A stopping shard admits no more
    /// clients: new connections wait for the next process, if that gets the same sockets.
    fn follow(&mut self, shard: &mut Shard<SystemDriver>) {
        if shard.is_stopping() || shard.is_shut() {
            for listener in std::mem::take(&mut self.listeners) {
                shard.driver().remove_listener(&listener.socket);
            }
            self.again = None;
        } else if let Some(listeners) = self.ports.as_ref().and_then(|ports| ports.try_recv().ok()) {
            (self.ports, self.listeners) = (None, listeners);
            self.listen(shard.driver());
        }
    }

    fn accept(&mut self, ready: &[usize], shard: &mut Shard<SystemDriver>, now_ms: u64) {
        if self.again.is_some_and(|again| again <= now_ms) {
            self.again = None;
            self.listen(shard.driver());
        }
        for &index in ready {
            for _ in 0..PER_TICK {
                let Some(listener) = self.listeners.get(index) else { break };
                let port = listener.port;
                match listener.socket.accept() {
                    Ok((socket, peer)) => self.hand_over(shard, socket.into(), peer, port, now_ms),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if is_exhausted(&error) => {
                        let address = Where(&listener.socket);
                        warn!(%address, %error, "no new connections are accepted for a second; raise the limit of open files");
                        self.listeners.iter().for_each(|listener| shard.driver().remove_listener(&listener.socket));
                        self.again = Some(now_ms + 1000);
                        return;
                    }
                    // The client was gone before it was accepted.
                    Err(_) => {}
                }
            }
        }
    }

    fn hand_over(
        &mut self,
        shard: &mut Shard<SystemDriver>,
        socket: SystemSocket,
        peer: SocketAddr,
        port: Port,
        now_ms: u64,
    ) {
        let to = self.next % self.post.shards();
        self.next = self.next.wrapping_add(1);
        match to {
            0 => shard.accept(socket, peer, port, now_ms),
            _ => self.post.send(to, Envelope::Accepted { socket, peer, port }),
        }
    }
}

/// Returns whether the process or the system has no descriptor or memory left for another
/// connection.
fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| codes.iter().any(|errno| errno.raw_os_error() == code))
}

/// The time that shards have to write their cards.
const HAND_ON: Duration = Duration::from_secs(10);
/// The time in which sessions without a card have to end, and the time between two checks.
const OTHERS_END: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);
/// The time that the store has for the sessions of an earlier process before clients are admitted.
const GO_ON: Duration = Duration::from_secs(20);
/// The time that a node of a cluster gives the store for this.
const GO_ON_AS_NODE: Duration = Duration::from_secs(2);
/// Connections accepted per tick: with TLS each costs a handshake of some 80 µs soon after.
const PER_TICK: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn post(shards: usize) -> Arc<Post<SystemSocket>> {
        Post::new((0..shards).map(|_| Box::new(|| {}) as Box<dyn Fn() + Send + Sync>).collect())
    }

    /// A store that hangs doesn't keep clients out for ever, and no shard begins before all have
    /// their parts.
    #[test]
    fn a_start_waits_for_sessions_so_long_and_no_longer() {
        let (post, view) = (post(2), View::alone(2));
        let addresses = AddressHash::of_process([1, 2, 3, 4]);
        let cards = || (0..10).map(|number| Card::Memo(format!("{number}@x"), "kind".into(), vec![1].into())).collect();
        assert!(!go_on(&post, cards(), &addresses, &view, Duration::ZERO), "nobody has looked at them");
        for shard in 0..2 {
            let envelopes = post.take(shard);
            let [Envelope::GoOn(cards, _), Envelope::Proceed] = &envelopes[..] else { panic!("{envelopes:?}") };
            assert!(cards.iter().all(|card| view.hop(addresses.of(card.home())) == shard));
        }
        let is_over = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                // An envelope counts as processed when it is dropped.
                while !is_over.load(Ordering::Relaxed) {
                    drop((post.take(0), post.take(1)));
                    std::thread::yield_now();
                }
            });
            let done = go_on(&post, cards(), &addresses, &view, Duration::from_secs(600));
            is_over.store(true, Ordering::Relaxed);
            done
        });
        assert!(done);
        assert!(go_on(&post, Vec::new(), &addresses, &view, Duration::ZERO), "nothing is to be waited for");
    }
}
