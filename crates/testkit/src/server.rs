//! The server under test: all shards in this thread, stepped until nothing changes any more.

mod replacing;
mod running;
mod seated;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering;

use rookery_base::Transport;
use rookery_base::chance;
use rookery_fanout::Packet;
use rookery_hub::{Errand, World};
use rookery_jid::Jid;
use rookery_observe::Since;
use rookery_operations::process::Wish;
use rookery_sasl::{ChannelBindings, Credentials};
use rookery_shard::{BoshRequest, Envelope, Handed, Port, Posted, Shard};
use rookery_store::{StoreError, Stores};
use rookery_stream::bosh::{AnswerCondition, BoshAnswer, BoshBody};
use rookery_xml::{Limits, Stanza};

use crate::bosh::BoshPending;
use crate::client::Client;
use crate::config::{Config, ITERATIONS};
use crate::internet::Internet;
use crate::login::Security;
use crate::net::{self, PeerEnd};
use crate::remote::Left;
use running::ServerRunning;
pub(crate) use running::next_stop;

/// A handle of the server; clones share it.
#[derive(Clone)]
pub struct Server(Rc<RefCell<ServerRunning>>);

/// A reference by which other servers know a server, which doesn't keep it alive.
pub(crate) struct ServerAbsent(Weak<RefCell<ServerRunning>>);

impl ServerAbsent {
    pub(crate) fn get(&self) -> Option<Server> {
        self.0.upgrade().map(Server)
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("config", &self.0.borrow().config).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns a server of two shards for `example.org`, without TLS.
    pub fn new() -> Self {
        Self::with(Config::default())
    }

    /// Returns a server with the test's settings.
    pub fn with(config: Config) -> Self {
        // The seed for tokens, nonces and the order of hash tables.
        chance::seed(config.seed);
        let internet = config.internet.as_ref().map(|meeting| meeting.internet.clone());
        let server = Self(Rc::new(RefCell::new(ServerRunning::start(config, 0, 0))));
        if let Some(internet) = internet {
            internet.join(ServerAbsent(Rc::downgrade(&server.0)));
        }
        server
    }

    /// Returns the store behind the server.
    pub fn stores(&self) -> Stores {
        self.0.borrow().config.stores.clone()
    }

    /// Creates an account, given as `user` or `user@domain`, with the password [`PASSWORD`]. It may
    /// already exist.
    pub fn account(&self, name: &str) -> Jid {
        let account = self.address(name);
        let credentials =
            Credentials::derive_with(PASSWORD, ITERATIONS, [*b"0123456789abcdef"; 3]).expect("credentials");
        self.finish(self.stores().accounts.create(account.as_ref(), credentials)).expect("an account");
        account
    }

    /// Waits for an answer of the store while the server works.
    ///
    /// # Panics
    /// If the store holds the answer back.
    pub fn finish<T>(&self, mut pending: rookery_store::Pending<T>) -> Result<T, StoreError> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match pending.as_mut().poll(&mut context) {
            std::task::Poll::Ready(answer) => answer,
            std::task::Poll::Pending => panic!("the store does not answer at once"),
        }
    }

    /// Returns a bare JID from `user` or `user@domain`.
    pub fn address(&self, name: &str) -> Jid {
        let domain = self.0.borrow().config.domains[0].clone();
        let text = if name.contains('@') { name.to_owned() } else { format!("{name}@{domain}") };
        Jid::parse(&text).expect("an address")
    }

    /// Returns an unused connection of a client, at the shard whose turn it is.
    pub fn connect(&self) -> Client {
        self.connect_from(Ipv4Addr::new(192, 0, 2, 1).into())
    }

    /// Returns an unused connection of a client from this address, at the shard whose turn it is.
    pub fn connect_from(&self, address: IpAddr) -> Client {
        let shard = {
            let mut running = self.0.borrow_mut();
            running.next_shard += 1;
            running.next_shard % running.shards.len()
        };
        Client::new(self, self.plug(shard, address, Port::Clients))
    }

    /// Returns an unused connection of a client at this shard.
    pub fn connect_at(&self, shard: usize) -> Client {
        Client::new(self, self.plug(shard, Ipv4Addr::new(192, 0, 2, 1).into(), Port::Clients))
    }

    /// Returns a connection to the port for direct TLS (XEP-0368).
    pub fn connect_direct_tls(&self) -> Client {
        Client::new(self, self.plug(0, Ipv4Addr::new(192, 0, 2, 1).into(), Port::ClientsTls))
    }

    /// Returns a WebSocket after its opening handshake, at a certain shard, without TLS.
    pub fn connect_websocket(&self, shard: usize) -> Client {
        self.hand_websocket(shard, false)
    }

    /// Returns a WebSocket after its opening handshake, at a certain shard, from a proxy that has
    /// ended TLS.
    pub fn connect_proxied_websocket(&self, shard: usize) -> Client {
        self.hand_websocket(shard, true)
    }

    /// Returns a connection of a client at a certain shard, on which TLS is established and these
    /// are the channel bindings. Its bytes aren't encrypted, so that they depend on the seed alone.
    pub fn connect_secured(&self, shard: usize, bindings: ChannelBindings) -> Client {
        Client::new(self, self.hand_connection(shard, Transport::Tcp, true, bindings))
    }

    fn hand_websocket(&self, shard: usize, is_encrypted: bool) -> Client {
        let end = self.hand_connection(shard, Transport::WebSocket, is_encrypted, ChannelBindings::default());
        let mut client = Client::new(self, end);
        client.wire.transport = Transport::WebSocket;
        client
    }

    /// Gives a shard a new connection as the web front does, after TLS if it is encrypted.
    fn hand_connection(
        &self,
        shard: usize,
        transport: Transport,
        is_encrypted_by_proxy: bool,
        bindings: ChannelBindings,
    ) -> PeerEnd {
        let mut running = self.0.borrow_mut();
        running.next_port += 1;
        let peer = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), running.next_port);
        let (socket, end) = net::connection();
        let handed = Handed {
            socket,
            peer,
            tls: None,
            bindings,
            input: Vec::new(),
            is_encrypted_by_proxy,
            is_local: true,
            transport,
        };
        running.nodes.send(shard, Envelope::Handed(Box::new(handed)));
        end
    }

    /// Returns a session as [`Server::login`] does, over a WebSocket that begins at a shard other
    /// than the account's.
    pub fn login_websocket(&self, address: &str) -> Client {
        let (name, resource) = address.split_once('/').expect("user/resource");
        let account = self.account(name);
        let mut client = self.connect_websocket((self.home_of(name) + 1) % self.shards());
        client.log_in(&account, Security::Plain);
        client.bind(resource);
        client
    }

    /// Sends a BOSH request as the web front does, encrypted or not.
    pub fn post_over(&self, document: &str, is_secure: bool) -> BoshPending {
        let (pending, waiter) = BoshPending::new(self);
        match BoshBody::read(document.as_bytes().into(), &Limits::AFTER_LOGIN) {
            Err(_) => waiter.answer(BoshAnswer::refusal(AnswerCondition::BadRequest)),
            Ok(request) => {
                let mut running = self.0.borrow_mut();
                running.next_port += 1;
                running.next_shard += 1;
                let peer = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), running.next_port);
                let request = BoshRequest { request, waiter, peer, is_secure, is_local: true };
                // A balancer sends each request to another node than the one before.
                let (turn, nodes) = (running.next_shard, running.nodes.posts().len());
                running.nodes.posts()[turn % nodes].request(request, turn / nodes);
            }
        }
        pending
    }

    /// Sends a BOSH request as the web front does, without encryption.
    pub fn post(&self, document: &str) -> BoshPending {
        self.post_over(document, false)
    }

    /// Returns a session from `user/resource` or `user@domain/resource`: creates the account if
    /// necessary, connects, logs in and binds. It has not sent presence.
    pub fn login(&self, address: &str) -> Client {
        let (name, resource) = address.split_once('/').expect("user/resource");
        let account = self.account(name);
        let mut client = self.connect();
        client.log_in(&account, Security::Plain);
        client.bind(resource);
        client
    }

    /// Returns a session as [`Server::login`] does, which has sent available presence.
    pub fn online(&self, address: &str) -> Client {
        let mut client = self.login(address);
        client.send("<presence/>");
        client.expect_presence_of_itself();
        client
    }

    /// Returns a connection to the port for other servers, from an address, at the shard whose turn
    /// it is.
    pub fn connect_server(&self, address: IpAddr) -> Client {
        let shard = {
            let mut running = self.0.borrow_mut();
            running.next_shard += 1;
            running.next_shard % running.shards.len()
        };
        Client::new(self, self.plug(shard, address, Port::Servers))
    }

    /// Returns an unused connection to the port for components, at a certain shard.
    pub fn connect_component(&self, shard: usize) -> Client {
        Client::new(self, self.plug(shard, Ipv4Addr::LOCALHOST.into(), Port::Components))
    }

    /// Returns a connected component (XEP-0114), through a shard that is not its home.
    pub fn component(&self, name: &str) -> Client {
        let shard = (self.home_of_domain(name) + 1) % self.shards();
        let mut component = self.connect_component(shard).with_name(name);
        component.attach(name);
        component
    }

    fn plug(&self, shard: usize, address: IpAddr, port: Port) -> PeerEnd {
        let mut running = self.0.borrow_mut();
        running.next_port += 1;
        let peer = SocketAddr::new(address, running.next_port);
        let (socket, end) = net::connection();
        running.nodes.send(shard, Envelope::Accepted { socket, peer, port });
        end
    }

    /// Makes the shards work until none has anything left to do at this moment.
    pub fn settle(&self) {
        match self.internet() {
            Some(internet) => internet.settle(),
            None => _ = self.0.borrow_mut().settle(),
        }
    }

    /// Works until nothing changes on this server, regardless of others. Returns whether there was
    /// anything.
    pub(crate) fn settle_alone(&self) -> bool {
        self.0.borrow_mut().settle()
    }

    fn internet(&self) -> Option<Internet> {
        self.0.borrow().config.internet.as_ref().map(|meeting| meeting.internet.clone())
    }

    /// Returns the time of the next timer of any shard, which may be in the past.
    pub fn next_timer(&self) -> Option<u64> {
        self.0.borrow().next_timer()
    }

    /// Moves the clock without any work: for tests that choose the order themselves. It never goes
    /// back.
    pub fn move_clock(&self, now_ms: u64) {
        self.set_now(now_ms);
    }

    /// Sets the offset between the time of day and the clock, as an operator or NTP may change it.
    pub fn set_time_of_day(&self, skew_ms: i64) {
        self.0.borrow_mut().skew_ms = skew_ms;
    }

    /// Returns the time of day, in milliseconds since 1970.
    pub fn time_of_day(&self) -> u64 {
        self.0.borrow().unix_ms()
    }

    /// Returns a value from the world of each shard.
    pub fn inspect<T>(&self, look: impl Fn(&World) -> T) -> Vec<T> {
        self.0.borrow().shards.iter().map(|shard| look(&shard.world)).collect()
    }

    pub(crate) fn set_now(&self, now_ms: u64) {
        let mut running = self.0.borrow_mut();
        running.now_ms = running.now_ms.max(now_ms);
    }

    /// Makes one shard tick once, if it has anything to do: for tests that choose the order
    /// themselves. Meanwhile a test must not examine clients' input, because that settles
    /// everything.
    pub fn step(&self, shard: usize) -> bool {
        self.0.borrow_mut().step(shard)
    }

    /// Stalls a shard, as if it had far too much to do, until another one or none is given.
    /// Everything for it waits.
    pub fn stall(&self, shard: Option<usize>) {
        self.0.borrow_mut().stalled = shard;
    }

    /// Runs `work` on a shard, as for a thread outside of the server, and settles.
    pub fn run_at(&self, shard: usize, work: impl FnOnce(&mut World) + Send + 'static) {
        let now = Since::now();
        let envelope = Envelope::Errand(Errand::new(work), Posted { since: now, at: now });
        self.0.borrow().nodes.send(shard, envelope);
        self.settle();
    }

    /// Informs the shards of all other nodes that this one is gone, as at its death.
    pub fn depart(&self, node: usize) {
        self.tell_others(node, Envelope::Departed);
    }

    /// Informs the shards of all other nodes that this one is silent, as when its lease expires.
    pub fn seem_silent(&self, node: usize) {
        self.tell_others(node, Envelope::Silent);
    }

    fn tell_others(&self, node: usize, news: impl Fn(u16, u32) -> Envelope<net::Socket>) {
        let running = self.0.borrow();
        let about = running.nodes.member(node, running.life as u32);
        let others = (0..running.shards.len()).filter(|shard| shard / running.nodes.shards() != node);
        others.for_each(|shard| running.nodes.send(shard, news(about.node, about.incarnation)));
        drop(running);
        self.settle();
    }

    /// Gives all homes of a node to the others, with their content; the node stays.
    pub fn remove(&self, node: usize) {
        (0..self.nodes()).for_each(|told| self.tell_homes(told, Some(node)));
        self.settle();
    }

    /// Gives the nodes their homes as at the start, with their content.
    pub fn share_out(&self) {
        (0..self.nodes()).for_each(|told| self.tell_homes(told, None));
        self.settle();
    }

    /// Informs the shards of one node that a node has no homes, or that each has some, without
    /// further work: for tests that choose the order themselves.
    pub fn tell_homes(&self, told: usize, without: Option<usize>) {
        let running = self.0.borrow();
        for shard in (0..running.shards.len()).filter(|shard| shard / running.nodes.shards() == told) {
            let view = running.nodes.view(told, running.life as u32, without);
            running.nodes.send(shard, Envelope::View(view, Vec::new()));
        }
    }

    /// Returns the processes that were reported since the last call for not handing on in time. The
    /// first call starts the reports, which a real server uses to fence such processes off.
    pub fn take_overdue(&self) -> Vec<(u16, u32)> {
        self.0.borrow().nodes.take_overdue().into_iter().collect()
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.0.borrow().nodes.posts().len()
    }

    /// Cuts a node off from now on, in both directions: letters to it wait until others [take
    /// over](Server::bury) or they are [refused](Server::refuse_what_waits).
    pub fn silence(&self, node: usize) {
        self.0.borrow().nodes.silence(node);
    }

    /// Kills a node that was [silenced](Server::silence): all of its homes go to the others, which
    /// read its journal and get the letters that waited for it.
    pub fn bury(&self, node: usize) {
        self.depart(node);
        self.0.borrow().nodes.bury(node);
        let is_there = |told: &usize| !self.0.borrow().nodes.is_dead(*told);
        (0..self.nodes()).filter(is_there).for_each(|told| self.tell_homes(told, None));
        self.settle();
        self.0.borrow().nodes.hand_back(false);
        self.settle();
    }

    /// Holds back all further writes to the journals of all nodes, or carries out those that wait.
    pub fn slow_journals(&self, are_slow: bool) {
        self.0.borrow().nodes.slow_journals(are_slow);
        self.settle();
    }

    /// Makes letters for other nodes, and writes to journals, linger for this many milliseconds.
    pub fn linger(&self, linger_ms: u64) {
        self.0.borrow().nodes.linger(linger_ms);
    }

    /// Holds back all further answers of dead nodes' journals, or gives those that wait.
    pub fn slow_lookups(&self, are_slow: bool) {
        self.0.borrow().nodes.slow_lookups(are_slow);
        self.settle();
    }

    /// Hands the letters for a silent node back, since they can't be delivered.
    pub fn refuse_what_waits(&self) {
        self.0.borrow().nodes.hand_back(true);
        self.settle();
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.0.borrow().shards.len()
    }

    /// Advances the clock and settles. The last hour passes timer by timer, the time before it in
    /// steps of a minute: an idle server has several timers that are due every second or two, and
    /// days of them would take longer than all other tests.
    pub fn advance(&self, ms: u64) {
        let until = self.now() + ms;
        if let Some(internet) = self.internet() {
            return internet.advance(until);
        }
        self.settle();
        while self.0.borrow_mut().advance_to_next_timer(until) {}
        self.0.borrow_mut().now_ms = until;
        self.settle();
    }

    /// Returns the milliseconds since the start; the time of day is [`EPOCH_MS`] later.
    pub fn now(&self) -> u64 {
        self.0.borrow().now_ms
    }

    /// Returns the home shard of an account.
    pub fn home_of(&self, name: &str) -> usize {
        let account = self.address(name);
        self.0.borrow().shards[0].world.home_of(account.as_ref())
    }

    /// Returns the first of the server's domains.
    pub fn domain(&self) -> String {
        self.0.borrow().config.domains[0].clone()
    }

    /// Returns a user name, derived from `stem`, whose home is that shard.
    pub fn name_at(&self, stem: &str, shard: usize) -> String {
        let names = (0..).map(|number| format!("{stem}{number}"));
        names.into_iter().find(|name| self.home_of(name) == shard).expect("some name hashes there")
    }

    /// Returns the home shard of another server's domain, which all stanzas from and to that domain
    /// pass.
    pub fn home_of_domain(&self, domain: &str) -> usize {
        let domain = Jid::parse(domain).expect("a domain");
        self.0.borrow().shards[0].world.home_of(domain.as_ref())
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.0.borrow().shards.iter().map(|shard| shard.world.session_count()).sum()
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.0.borrow().shards.iter().map(Shard::connection_count).sum()
    }

    /// Returns the number of continuations that wait for the store.
    pub fn tasks(&self) -> usize {
        self.0.borrow().shards.iter().map(|shard| shard.world.tasks_waiting()).sum()
    }

    /// Returns the sum of all shards' counters.
    pub fn counters(&self) -> rookery_observe::Counters {
        let mut sum = rookery_observe::Counters::default();
        self.0.borrow().shards.iter().for_each(|shard| sum += &shard.world.counters);
        sum
    }

    /// Returns the stanzas that have left for other servers since the last call, oldest first.
    pub fn take_left(&self) -> Vec<Left> {
        self.settle();
        self.0.borrow().sent.take()
    }

    /// Simulates a stanza with `from` and `to` from another server. It arrives on the home shard of
    /// that server's domain.
    pub fn incoming(&self, stanza: &str) {
        let mut running = self.0.borrow_mut();
        let scanned = Stanza::parse(stanza.as_bytes(), &Limits::AFTER_LOGIN).expect("a stanza");
        let to = Jid::parse(&scanned.to().expect("to")).expect("an address");
        let packet = Packet::from_bytes(stanza.as_bytes()).expect("a packet");
        let domain = Jid::parse(packet.sender().expect("from").domain()).expect("a domain");
        let shard = running.shards[0].world.home_of(domain.as_ref());
        let (now_ms, unix_ms) = (running.now_ms, running.unix_ms());
        let world = &mut running.shards[shard].world;
        world.set_time(now_ms, unix_ms);
        world.incoming(&packet, to.as_ref());
        running.awake[shard].store(true, Ordering::Relaxed);
        running.settle();
    }

    /// Changes the configuration as a reload does.
    pub fn reload(&self, change: impl FnOnce(&mut Config)) {
        self.begin_reload(change);
        self.0.borrow_mut().settle();
    }

    /// Changes the configuration as a reload does, without further work: for tests that choose the
    /// order themselves.
    pub fn begin_reload(&self, change: impl FnOnce(&mut Config)) {
        let mut running = self.0.borrow_mut();
        change(&mut running.config);
        let generation = running.config.generation();
        for shard in 0..running.shards.len() {
            running.nodes.send(shard, Envelope::Reload(generation.clone()));
        }
    }

    /// Begins to stop, as SIGTERM does.
    pub fn stop(&self) {
        let mut running = self.0.borrow_mut();
        for shard in 0..running.shards.len() {
            running.nodes.send(shard, Envelope::Stop { hands_on: false });
        }
        running.settle();
    }

    /// Returns the orders of administrators to the process since the last call.
    pub fn wishes(&self) -> Vec<Wish> {
        self.settle();
        std::mem::take(&mut *self.0.borrow().wishes.lock().expect("no test panics here"))
    }

    /// Returns whether a stopped server has nothing left to finish.
    pub fn is_finished(&self) -> bool {
        self.0.borrow().shards.iter().all(Shard::is_finished)
    }
}

/// The password of every account.
pub const PASSWORD: &str = "r0m30myr0m30";
/// The time of day when a server starts, in milliseconds since 1970: 2026-01-01T00:00:00Z.
pub const EPOCH_MS: u64 = 1_767_225_600_000;
/// The variable that makes all mail between shards pass through its wire form, if it is set.
pub const ENCODED_MAIL: &str = "ROOKERY_ENCODED_MAIL";
