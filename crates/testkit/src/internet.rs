//! Servers that reach each other: addresses, a DNS that a test controls, and an authority that all
//! trust.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rookery_federation::{Address, FederationSettings, Found, NotFound, PeerPolicy, Secret};
use rookery_shard::{Envelope, FederationTerms, Port, Post, Resolver};
use rookery_stream::tls::Identity;
use rookery_stream::tls::certificate::{Authority, IssuedCertificate};
use rookery_stream::tls::peer::PeerSettings;
use rookery_stream::tls::trust::Trust;

use crate::config::Meeting;
use crate::net::{self, PeerEnd, Socket};
use crate::server::{Server, ServerAbsent, next_stop};

/// The network between servers; clones share it.
#[derive(Clone)]
pub struct Internet {
    servers: Rc<RefCell<Vec<ServerAbsent>>>,
    listeners: Rc<RefCell<BTreeMap<SocketAddr, InternetListener>>>,
    names: Arc<InternetRecords>,
    authority: Rc<Authority>,
    /// The servers that a test simulates.
    played: Rc<RefCell<BTreeMap<SocketAddr, Calls>>>,
    /// The numbers of bytes after which the next connections break.
    lives: Rc<RefCell<VecDeque<usize>>>,
}

struct InternetListener {
    /// The mailboxes of each node.
    posts: Vec<Arc<Post<Socket>>>,
    port: Port,
    next: usize,
}

/// The connections to a server that a test simulates, in the order in which they were made; clones
/// share them.
#[derive(Debug, Clone, Default)]
pub struct Calls(Rc<RefCell<InternetCalled>>);

#[derive(Debug, Default)]
struct InternetCalled {
    is_away: bool,
    peers: VecDeque<PeerEnd>,
}

impl Calls {
    /// Returns the oldest connection that was not taken yet.
    pub fn take(&self) -> Option<PeerEnd> {
        self.0.borrow_mut().peers.pop_front()
    }

    /// Refuses connections from now on, or accepts them again.
    pub fn set_away(&self, is_away: bool) {
        self.0.borrow_mut().is_away = is_away;
    }
}

/// The answers of DNS by domain, addresses or errors; a domain without an answer doesn't exist.
#[derive(Default)]
struct InternetRecords(Mutex<BTreeMap<String, Found>>);

impl Resolver for InternetRecords {
    fn resolve(&self, domain: &str, tell: Box<dyn FnOnce(Found) + Send>) {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tell(names.get(domain).cloned().unwrap_or(Err(NotFound::NoServer)));
    }
}

impl std::fmt::Debug for Internet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Internet").finish_non_exhaustive()
    }
}

impl Default for Internet {
    fn default() -> Self {
        let authority = Rc::new(Authority::new(CERTIFIED_AT).expect("an authority"));
        Self {
            servers: Rc::default(),
            listeners: Rc::default(),
            names: Arc::default(),
            played: Rc::default(),
            authority,
            lives: Rc::default(),
        }
    }
}

impl Internet {
    /// Makes all servers work until none has anything left to do at this moment.
    pub(crate) fn settle(&self) {
        for _ in 0..MOST_ROUNDS {
            let servers = self.servers();
            if !servers.iter().fold(false, |any, server| server.settle_alone() | any) {
                return;
            }
        }
        panic!("the servers do not come to rest");
    }

    /// Advances the clock of all servers, in the steps of [`Server::advance`].
    pub(crate) fn advance(&self, until: u64) {
        loop {
            self.settle();
            let servers = self.servers();
            let due = servers.iter().filter_map(Server::next_timer).min().filter(|&due| due <= until);
            let stop = |server: &Server| due.map_or(until, |due| next_stop(server.now(), due, until));
            let now = servers.iter().map(stop).max().unwrap_or(until);
            servers.iter().for_each(|server| server.set_now(now));
            if due.is_none() {
                return self.settle();
            }
        }
    }

    pub(crate) fn join(&self, server: ServerAbsent) {
        self.servers.borrow_mut().push(server);
    }

    fn servers(&self) -> Vec<Server> {
        self.servers.borrow().iter().filter_map(ServerAbsent::get).collect()
    }

    /// Sets the record of a domain in DNS, which may be a failure.
    pub fn say(&self, domain: &str, found: Found) {
        self.names.0.lock().unwrap_or_else(PoisonError::into_inner).insert(domain.to_owned(), found);
    }

    /// Returns the record of a domain in DNS.
    pub fn says(&self, domain: &str) -> Found {
        let names = self.names.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(domain).cloned().unwrap_or(Err(NotFound::NoServer))
    }

    /// Makes the next connections between servers break after these numbers of bytes, which count
    /// both directions together. Bytes that were carried and not read are lost.
    pub fn live_for(&self, bytes: impl IntoIterator<Item = usize>) {
        self.lives.borrow_mut().extend(bytes);
    }

    /// Returns how often one server has connected to another.
    pub fn calls(&self) -> usize {
        self.listeners.borrow().values().map(|listener| listener.next).sum()
    }

    /// Returns the terms on which a server of these names connects to others: by STARTTLS and with
    /// a certificate of the authority that all trust.
    pub fn meeting(&self, names: &[String], change: impl FnOnce(&mut FederationSettings)) -> Meeting {
        let federation = self.federation(names, change);
        Meeting { internet: self.clone(), federation, names: names.to_owned(), direct_tls: false }
    }

    /// Returns terms on which dialback is proof enough, and TLS may be left out.
    pub fn meeting_without_tls(&self, names: &[String]) -> Meeting {
        self.meeting(names, |settings| settings.rules.policy = PeerPolicy::Plain)
    }

    /// Returns the terms on which a server of these names connects to others, by STARTTLS and with
    /// this certificate.
    pub fn meeting_with(
        &self,
        issued: &IssuedCertificate,
        names: &[String],
        change: impl FnOnce(&mut FederationSettings),
    ) -> Meeting {
        let federation = self.federation_with(issued, names, change);
        Meeting { internet: self.clone(), federation, names: names.to_owned(), direct_tls: false }
    }

    /// Issues a certificate for these names, by the authority that all trust.
    pub fn issue(&self, names: &[String]) -> IssuedCertificate {
        self.authority.issue(names, CERTIFIED_AT).expect("a certificate")
    }

    /// Returns settings for federation with a certificate for these names, by the authority that
    /// all trust.
    pub fn federation(&self, names: &[String], change: impl FnOnce(&mut FederationSettings)) -> FederationTerms {
        self.federation_with(&self.issue(names), names, change)
    }

    /// Returns settings for federation with this certificate.
    pub fn federation_with(
        &self,
        issued: &IssuedCertificate,
        names: &[String],
        change: impl FnOnce(&mut FederationSettings),
    ) -> FederationTerms {
        let identity = Identity::from_pem(names, issued.chain.as_bytes(), issued.key.as_bytes()).expect("an identity");
        let mut settings = FederationSettings::new(Secret::new(names[0].as_bytes()));
        change(&mut settings);
        FederationTerms {
            settings: Arc::new(settings),
            tls: Arc::new(PeerSettings::new(&[identity], names).expect("TLS settings")),
            trust: Arc::new(Trust::new([self.authority.der().to_vec()])),
            resolver: self.names.clone(),
        }
    }

    /// Makes a domain reachable whose server a test simulates, and returns the connections to it.
    pub fn play(&self, domain: &str) -> Calls {
        let mut played = self.played.borrow_mut();
        let socket = SocketAddr::from((Ipv4Addr::new(1, 1, 2, played.len() as u8 + 1), 5269));
        let calls = Calls::default();
        played.insert(socket, calls.clone());
        self.say(domain, Ok(vec![Address::new(socket, false)]));
        calls
    }

    /// Makes a server reachable at a new address, by STARTTLS and by direct TLS, with a record in
    /// DNS for its domains.
    pub(crate) fn listen(&self, posts: Vec<Arc<Post<Socket>>>, names: &[String], direct_tls: bool) {
        let mut listeners = self.listeners.borrow_mut();
        let number = listeners.len() as u8 + 1;
        let socket = SocketAddr::from((Ipv4Addr::new(1, 1, 1, number), 5269));
        let port = if direct_tls { Port::ServersTls } else { Port::Servers };
        listeners.insert(socket, InternetListener { posts, port, next: 0 });
        for name in names {
            self.say(name, Ok(vec![Address::new(socket, direct_tls)]));
        }
    }

    pub(crate) fn call(&self, address: SocketAddr) -> io::Result<Socket> {
        if let Some(calls) = self.played.borrow().get(&address) {
            let mut called = calls.0.borrow_mut();
            if called.is_away {
                return Err(ErrorKind::ConnectionRefused.into());
            }
            let (socket, peer) = net::to_played();
            called.peers.push_back(peer);
            return Ok(socket);
        }
        let mut listeners = self.listeners.borrow_mut();
        let listener = listeners.get_mut(&address).ok_or(ErrorKind::ConnectionRefused)?;
        listener.next += 1;
        let life = self.lives.borrow_mut().pop_front();
        let (called, calling) = net::between_servers(life);
        let peer = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 200), 50_000));
        let envelope = Envelope::Accepted { socket: called, peer, port: listener.port };
        // Connections go to each node in turn, as behind a balancer, and there to each shard.
        let (nodes, turn) = (listener.posts.len(), listener.next);
        let post = listener.posts.get(turn % nodes).ok_or(ErrorKind::ConnectionRefused)?;
        post.send(turn / nodes % post.shards().max(1), envelope);
        Ok(calling)
    }
}

/// The rounds of work after which servers that are still not at rest count as broken.
const MOST_ROUNDS: usize = 10_000;
/// The time at which certificates become valid, in seconds since 1970.
const CERTIFIED_AT: u64 = 1_700_000_000;
