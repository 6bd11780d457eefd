//! The tick of a shard.
//!
//! Invariants:
//! * One thread; nothing here blocks. Slow work goes to the store or the background threads, whose
//!   answers wake the shard.
//! * A link (the index of a connection) is reused only when both the socket is closed and the world
//!   has let go of the session.
//! * Data that others need when the process dies is passed on for writing before anything of the
//!   tick leaves.
//! * Mail for other shards is posted before the flush of the same tick, in the order in which the
//!   world wrote it. In a cluster it waits with the flush for the data that is passed on.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;
use std::sync::Arc;

use rookery_base::Map;
use rookery_base::lock::lock;
use rookery_fanout::{Link, Station, View};
use rookery_hub::{Event, World};
use rookery_observe::{Since, StanzaStage};
use rookery_stream::bosh::AnswerCondition;
use rookery_stream::error::StreamError;
use rookery_stream::websocket::Frames;
use rookery_xml::Scanner;
use tracing::info;

use crate::connection::{ConnectionStage, ConnectionWire, Resumption, ShardConnection};
use crate::connections::ShardConnections;
use crate::driver::{Driver, ReadySocket};
use crate::gate::Gate;
use crate::keeping::WaitingReattach;
use crate::lines::{ClientSocket, LineNetwork};
use crate::mailboxes::{Envelope, Generation, OutgoingLetters, Post, Posted};
use crate::relays::RelayedRequests;
use crate::steering::SteeredAccounts;
use crate::wires::{Federating, SERVERS};

/// One shard: its connections and its world.
pub struct Shard<D: Driver> {
    pub(crate) driver: LineNetwork<D>,
    /// The world behind the connections.
    pub world: World,
    pub(crate) connections: ShardConnections<D::Socket>,
    pub(crate) common: ShardCommon<D::Socket>,
    pub(crate) timing: Timing,
    pub(crate) buffers: Buffers,
    pub(crate) measured: ShardMeasured,
    index: usize,
    /// Connections that are to resume a session.
    pub(crate) resumptions: Vec<Resumption>,
    pub(crate) moves: ShardMoves,
    pub(crate) bosh: ShardRequests,
    /// The connections with other servers, if there are any.
    pub(crate) federating: Option<Box<Federating<D::Socket>>>,
}

/// Holds the data that all shards of the process share.
pub(crate) struct ShardCommon<S> {
    /// The decisions of the operator.
    pub(crate) generation: Arc<Generation>,
    pub(crate) gate: Arc<Gate>,
    /// The mailboxes.
    pub(crate) post: Arc<Post<S>>,
    /// Unpredictable numbers for stream ids (RFC 6120 §4.7.3).
    pub(crate) ids: Arc<dyn Fn() -> u128 + Send + Sync>,
}

/// Holds the requests of BOSH that wait for answers.
#[derive(Default)]
pub(crate) struct ShardRequests {
    /// Sessions that may have to send a response at the end of the tick.
    pub(crate) answering: Vec<Link>,
    /// Requests to which other nodes respond.
    pub(crate) relayed: RelayedRequests,
}

/// Holds a shard's timed work.
#[derive(Default)]
pub(crate) struct Timing {
    pub(crate) now_ms: u64,
    serial: u32,
    /// The first time at which a session ends because its client's proof ends, in seconds since
    /// 1970.
    pub(crate) proofs_until_s: Option<NonZeroU32>,
    pub(crate) timers: BinaryHeap<Reverse<(u64, Link, u32, ShardTimer)>>,
    pub(crate) stopping: bool,
    /// True once no more clients are admitted.
    pub(crate) shut: bool,
    /// True if the shard stops, and still has sessions that continue in another process.
    pub(crate) hands_on: bool,
    /// Connections that end when their sessions are settled: the shard stops.
    pub(crate) leaving: Vec<Link>,
    /// Letters that wait for a moment before they leave for other nodes.
    pub(crate) outgoing: OutgoingLetters,
}

/// Holds everything that waits for homes that move, and clients sent to this one.
#[derive(Default)]
pub(crate) struct ShardMoves {
    /// The coming homes, which the shard uses once the sessions that leave by them have come to
    /// rest.
    pub(crate) coming: Option<Arc<View>>,
    /// The time until which the shard also waits for sessions of other shards to come to rest; 0 if
    /// it needn't.
    pub(crate) rests_until_ms: u64,
    /// True once others know that the sessions of this shard have come to rest.
    pub(crate) told_rest: bool,
    /// True if the shard has homes by the coming view, or by the current one if none is coming: it
    /// stays.
    pub(crate) stays: bool,
    /// The keys of connections whose accounts have still to come from another node.
    pub(crate) early: Vec<u64>,
    /// Silent processes of other nodes, each with the time until which it is believed to have died.
    pub(crate) silent: Vec<(u16, u32, u64)>,
    /// Accounts whose clients were sent here from other nodes recently.
    pub(crate) steered: SteeredAccounts,
    /// The keys of connections that wait for another home, and the time of the next check.
    pub(crate) following: (Vec<u64>, u64),
    /// Connections of other nodes that wait for their sessions, by the process and its key for
    /// them, and the time of the next check.
    pub(crate) reattaching: (BTreeMap<(Station, u64), WaitingReattach>, u64),
    /// Sessions whose clients send again stanzas that an earlier home has handled, and the number
    /// of these.
    pub(crate) known: Map<Link, u32>,
}

/// Memory that all connections of a shard use in turn.
pub(crate) struct Buffers {
    /// The buffer that `recv` writes into.
    pub(crate) buffer: Vec<u8>,
    /// Decrypted input of the connection that is being read.
    pub(crate) plain: Vec<u8>,
    /// Rendered output of the connection that is being written.
    pub(crate) rendered: Vec<u8>,
    /// The output of that connection, encrypted.
    pub(crate) cipher: Vec<u8>,
    /// Boxed, since it goes in and out with every input: more than a kilobyte by value. `None`
    /// while a connection has it.
    pub(crate) scanner: Option<Box<Scanner>>,
}

/// Counts events outside the world's counters.
#[derive(Default)]
pub(crate) struct ShardMeasured {
    /// Copies of this tick that mail of other shards has brought, with the moment when the tick
    /// began that sent it.
    pub(crate) by_mail: Vec<(Since, u64)>,
    /// The number of writes so far: the size is recorded for some of them.
    pub(crate) writes: u64,
}

/// The parts that a shard is made of.
pub struct ShardSetup<D: Driver> {
    /// The network.
    pub driver: D,
    /// The world, whose place says which shard this is.
    pub world: World,
    /// The number of this shard.
    pub index: usize,
    /// The mailboxes of all shards.
    pub post: Arc<Post<D::Socket>>,
    /// Shared by all shards.
    pub gate: Arc<Gate>,
    /// The decisions of the operator.
    pub generation: Arc<Generation>,
    /// Unpredictable numbers for stream ids (RFC 6120 §4.7.3).
    pub ids: Arc<dyn Fn() -> u128 + Send + Sync>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShardTimer {
    /// The connection must have bound a resource by now.
    Login,
    /// The peer has had time enough to close.
    Linger,
    /// The next login attempt may continue.
    Attempt,
    /// The shard stops, and has waited long enough for the store.
    Leave,
    /// A session of BOSH has a request that has waited for long enough, or has been without one for
    /// long enough.
    Bosh,
}

impl<D: Driver> std::fmt::Debug for Shard<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").field("index", &self.index).field("connections", &self.connections.len()).finish()
    }
}

impl<D: Driver> Shard<D> {
    /// Makes a shard without connections.
    pub fn new(setup: ShardSetup<D>) -> Self {
        let generation = setup.generation.clone();
        let mut shard = Self {
            driver: LineNetwork::new(setup.driver),
            world: setup.world,
            connections: ShardConnections::default(),
            common: ShardCommon { generation: setup.generation, gate: setup.gate, post: setup.post, ids: setup.ids },
            timing: Timing::default(),
            buffers: Buffers {
                buffer: vec![0; BUFFER],
                plain: Vec::new(),
                rendered: Vec::new(),
                cipher: Vec::new(),
                scanner: None,
            },
            measured: ShardMeasured::default(),
            index: setup.index,
            resumptions: Vec::new(),
            moves: ShardMoves::default(),
            bosh: ShardRequests::default(),
            federating: None,
        };
        let node = shard.world.station().node;
        if node != 0 {
            shard.common.post.sids.seal_as(node, shard.world.addresses());
        }
        shard.apply_federation(&generation);
        shard
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the network that the shard uses.
    pub fn driver(&mut self) -> &mut D {
        &mut self.driver.system
    }

    /// Does all pending work. `now_ms` is a clock that never goes back, `unix_ms` the time of day;
    /// both in milliseconds.
    pub fn tick(&mut self, ready: &[ReadySocket], now_ms: u64, unix_ms: u64) {
        let mut work = self.begin_work(ready.len());
        self.timing.now_ms = now_ms;
        self.world.set_time(now_ms, unix_ms);
        for ready in ready {
            if ready.key & SERVERS != 0 {
                self.server_ready(ready);
                continue;
            }
            self.ready(*ready);
        }
        let envelopes = self.common.post.take(self.index);
        work.envelopes = envelopes.len();
        let outer = self.world.counters.path.enter(StanzaStage::Letters);
        for envelope in envelopes {
            self.open(envelope);
        }
        self.world.counters.path.back(outer);
        self.timers();
        self.end_with_proofs();
        self.give_up_relayed();
        self.world.run_timers();
        self.settle();
        // Stanzas that can't leave come back to sessions, whose modules may react.
        while self.federate() {
            self.settle();
        }
        if self.resume_settled() | self.dismiss_settled() {
            self.settle();
        }
        while self.move_on() {
            self.settle();
        }
        self.let_out(work.since);
        self.measure(&work);
    }

    /// Returns when the next timer is due, on the clock of [`Shard::tick`].
    pub fn next_timer(&self) -> Option<u64> {
        let own = self.timing.timers.peek().map(|Reverse((due, ..))| *due);
        let federating = self.federating.as_ref().and_then(|federating| federating.next_timer());
        let relayed = self.bosh.relayed.next_timer();
        own.into_iter()
            .chain(self.next_proof_ms())
            .chain(self.world.next_timer())
            .chain(federating)
            .chain(relayed)
            .chain(self.timing.outgoing.next_timer())
            .min()
    }

    /// Returns whether the shard was told to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.timing.stopping
    }

    /// Returns whether clients aren't admitted any more.
    pub fn is_shut(&self) -> bool {
        self.timing.shut
    }

    /// Returns whether the shard was stopped and has nothing left to finish.
    pub fn is_finished(&self) -> bool {
        let is_alone = self.federating.as_ref().is_none_or(|federating| federating.is_empty());
        self.timing.stopping
            && !self.timing.hands_on
            && self.connections.is_empty()
            && !self.world.is_at_work()
            && is_alone
    }

    /// Returns the number of connections, at any stage.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    fn ready(&mut self, ready: ReadySocket) {
        let link = Link(ready.key);
        if ready.read {
            self.readable(link);
        }
        if ready.write {
            self.writable(link);
        }
    }

    /// Processes tasks, lines and events until none is left: one may cause another.
    pub(crate) fn settle(&mut self) {
        loop {
            let ran = self.world.run_tasks();
            let mut any = false;
            while let Some(ready) = self.driver.next_ready() {
                any = true;
                self.ready(ready);
            }
            while let Some(event) = self.world.next_event() {
                any = true;
                self.event(event);
            }
            if !ran && !any {
                return;
            }
        }
    }

    /// Posts mail for the other shards of this process, in a tick that began at `since`.
    pub(crate) fn post_mail(&mut self, since: Since) {
        for shard in 0..self.common.post.shards() {
            let mail = self.world.take_mail(shard);
            if !mail.is_empty() {
                self.common.post.send(shard, Envelope::Mail(mail, Posted { since, at: Since::now() }));
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Bound(link, bound) => self.bound(link, bound),
            Event::Close(link, error, text) => self.fail(link, &error, Some(text)),
            Event::Pause(link) => self.pause(link, true),
            Event::Resume(link) => self.pause(link, false),
            Event::Lost(link) => self.lost(link),
            Event::Released(link) => self.released(link),
            Event::Journaled(link) => {
                let socket = self.connections.get(link).and_then(|connection| connection.socket.as_ref());
                socket.into_iter().for_each(|socket| self.driver.note(socket));
            }
            Event::GuestReply(connection, built) => self.guest_reply(connection, &built),
            Event::Peer(link, reply) => {
                let peer = self.connections.get(link).and_then(ShardConnection::peer);
                reply.answer(&mut self.world, peer);
            }
            Event::Asked(question, reply) => self.asked_by_node(question, reply),
            Event::Told(news) => self.told_by_node(&news),
            Event::Login(connection, answer) => self.login_answer(connection, answer),
            Event::NoLogin(account) => self.end_logins(&account),
        }
    }

    fn open(&mut self, envelope: Envelope<D::Socket>) {
        match envelope {
            Envelope::Accepted { socket, peer, port } => self.accept(socket, peer, port, self.timing.now_ms),
            Envelope::ServerMoved(moving) => self.adopt_server(*moving),
            Envelope::Resolved(domain, found) => self.resolved(&domain, &found),
            Envelope::Handed(handed) => self.take_handed(*handed),
            Envelope::Bosh(posted) => self.take_request(posted),
            Envelope::BoshGone(sid) => self.bosh_gone(sid),
            Envelope::Moved(connection) => self.moved_here(*connection),
            Envelope::Mail(mail, posted) => self.mail(mail, posted),
            Envelope::Afar(from, letters, custody) => self.letters_from_afar(from, letters, custody),
            Envelope::Again(bytes, custody) => self.mail_again(&bytes, custody),
            Envelope::Refused(bytes, custody) => self.world.mail_refused(&bytes, custody),
            Envelope::View(view, returned) => self.set_view(view, returned),
            Envelope::Silent(node, incarnation) => self.silent(node, incarnation),
            Envelope::Departed(node, incarnation) => self.departed(node, incarnation),
            Envelope::RewriteJournal(era) => self.world.rewrite_journal(era),
            Envelope::Recovered(process, fields) => self.world.recovered(process, fields),
            Envelope::Errand(errand, posted) => self.errand(errand, posted),
            Envelope::Reload(generation) => {
                self.world.apply(generation.settings.clone());
                self.apply_federation(&generation);
                self.common.generation = generation;
            }
            Envelope::Shut => self.timing.shut = true,
            Envelope::Stop { hands_on } => self.stop(hands_on),
            Envelope::EndOthers(most_bytes, done) => {
                self.end_others(most_bytes);
                let _ = done.try_send(());
            }
            Envelope::HandOn(most_bytes, gathered, done) => {
                self.hand_on(most_bytes, &gathered);
                // The asker may have stopped waiting.
                let _ = done.try_send(());
            }
            Envelope::GoOn(cards, custody) => self.go_on(cards, custody),
            Envelope::Proceed => self.world.proceed(),
            Envelope::Servers(all, done) => {
                lock(&all).extend(self.report_streams());
                let _ = done.try_send(());
            }
            Envelope::CloseServers(closing, done) => {
                self.close_servers(&closing);
                let _ = done.try_send(());
            }
            Envelope::Count(sum, done) => {
                let (begun, mut sum) = (Since::now(), lock(&sum));
                self.be_counted(&mut sum);
                sum.coverage.took += begun.elapsed();
                drop(sum);
                // The asker may have stopped waiting.
                let _ = done.try_send(());
            }
        }
    }

    /// Gives a connection a link, and watches it.
    pub(crate) fn insert(&mut self, mut connection: ShardConnection<D::Socket>) -> Option<Link> {
        connection.serial = self.next_serial();
        let peer = connection.peer;
        let deadline = match &connection.stage {
            ConnectionStage::Negotiating(negotiation) => Some(negotiation.deadline_ms),
            _ => None,
        };
        let link = self.connections.insert(connection);
        let connection = self.connections.get(link)?;
        if let Some(socket) = &connection.socket
            && let Err(error) = self.driver.add(socket, link.0)
        {
            info!(%peer, %error, "a connection can't be watched and is closed");
            let is_here = matches!(socket, ClientSocket::Here(_));
            self.connections.remove(link);
            if is_here {
                self.common.gate.leave(peer.ip());
            }
            return None;
        }
        if let Some(deadline) = deadline {
            self.timing.timers.push(Reverse((deadline, link, self.timing.serial, ShardTimer::Login)));
        }
        self.bosh_placed(link);
        Some(link)
    }

    /// Returns a number that distinguishes a connection from earlier ones at its link.
    pub(crate) fn next_serial(&mut self) -> u32 {
        self.timing.serial = self.timing.serial.wrapping_add(1);
        self.timing.serial
    }

    /// Sends a connection that has logged in to the home of its account.
    pub(crate) fn move_to(&mut self, link: Link, shard: usize) {
        let Some(mut connection) = self.connections.remove(link) else { return };
        if let Some(socket) = &connection.socket {
            self.driver.remove(socket);
        }
        connection.wants_write = false;
        let sid = connection.sid();
        self.common.post.send(shard, Envelope::Moved(Box::new(connection)));
        if let Some(sid) = sid {
            // This comes after the envelope: threads that look the session up from now on write to
            // the shard after it.
            self.common.post.sids.moves(sid, shard);
        }
    }

    fn moved_here(&mut self, connection: ShardConnection<D::Socket>) {
        if let Some(link) = self.insert(connection) {
            if self.timing.stopping {
                return self.fail(link, &StreamError::SystemShutdown, None);
            }
            self.write_interest(link);
            match self.awaits_home(link) {
                true => self.look_for_home(link),
                false => self.enter_home(link),
            }
        }
    }

    /// Forgets a session that the world has let go of.
    fn released(&mut self, link: Link) {
        if let Some(connection) = self.connections.get_mut(link) {
            connection.in_world = false;
            self.forget_if_done(link);
        }
    }

    /// Closes the socket, and forgets unprocessed input and output.
    pub(crate) fn disconnect(&mut self, link: Link) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        if let Some(socket) = connection.socket.take() {
            self.driver.remove(&socket);
            if matches!(socket, ClientSocket::Here(_)) {
                self.common.gate.leave(connection.peer.ip());
            }
        }
        connection.carry = None;
        connection.unsent = None;
        if !self.moves.known.is_empty() {
            self.moves.known.remove(&link);
        }
    }

    /// Closes the socket. The world hears of it if it has a session there.
    pub(crate) fn lost(&mut self, link: Link) {
        self.tell_lost(link);
        self.tell_over(link);
        self.disconnect(link);
        let Some(connection) = self.connections.get(link) else { return };
        // If the connection lingers, or is detached, the world has already been told.
        let is_news =
            connection.in_world && !matches!(connection.stage, ConnectionStage::Lingering | ConnectionStage::Detached);
        let is_bound = matches!(connection.stage, ConnectionStage::Bound { .. });
        let waits = is_news && is_bound && self.may_wait(link);
        match is_news {
            true if waits => self.tell_waiting(link),
            true => self.tell_ended(link, "the connection was lost"),
            false => {}
        }
        self.unframe(link);
        match is_news {
            true if waits => self.detached(link),
            true => self.world.closed(link),
            false => {}
        }
        self.forget_if_done(link);
    }

    /// Ends the framing of a connection whose socket is gone.
    fn unframe(&mut self, link: Link) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        match &mut connection.wire {
            ConnectionWire::Stream => {}
            ConnectionWire::WebSocket(frames) => *frames = Frames::default(),
            ConnectionWire::Bosh(session) => {
                self.common.post.sids.forget(session.sid());
                session.end(Some(AnswerCondition::ItemNotFound), None);
                connection.wire = ConnectionWire::Stream;
                self.common.gate.leave(connection.peer.ip());
            }
        }
        if connection.in_world && !matches!(connection.stage, ConnectionStage::Detached) {
            connection.stage = ConnectionStage::Lingering;
        }
    }

    fn forget_if_done(&mut self, link: Link) {
        if self.connections.get(link).is_some_and(|connection| !connection.is_connected() && !connection.in_world) {
            self.connections.remove(link);
        }
    }

    /// Returns the connection behind a key that the world was given with a question.
    pub(crate) fn connection_of(&self, key: u64) -> Option<Link> {
        // The lower half is the link: see `key_of`.
        let link = Link(key as u32);
        let connection = self.connections.get(link)?;
        (u64::from(connection.serial) == key >> 32).then_some(link)
    }

    /// Returns the key of a connection for questions to the world.
    pub(crate) fn key_of(&self, link: Link) -> u64 {
        let serial = self.connections.get(link).map_or(0, |connection| connection.serial);
        u64::from(serial) << 32 | u64::from(link.0)
    }
}

/// Bytes that one `recv` may return; also the most that one connection may bring per tick.
const BUFFER: usize = 64 * 1024;
