//! A shard over a network in memory: all of the server except the kernel.
//!
//! [`BenchNetwork`] logs clients in as sockets would, byte for byte, through stream, TLS and SASL.
//! Then it drops the clients, so that only the server's memory of an idle session remains. The
//! network itself keeps nothing for an unused session.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rookery_hub::{Domain, LoginBy, Module, Options, Place, Registry, Settings, Wakeups, World};
use rookery_sasl::server::Decoy;
use rookery_sasl::{Credentials, Mechanism};
use rookery_shard::{Driver, Gate, Generation, LoginTerms, Port, Post, ReadySocket, Shard, ShardSetup};
use rookery_store::{Background, Stores};
use rookery_stream::c2s::{Host, Policy};
use rookery_stream::tls::{Identity, TlsSettings, certificate};
use rookery_xml::Limits;

use crate::BenchOutcome;
use crate::engine::LoadTarget;
use crate::engine::client::LoadClient;
use crate::everyone::Everyone;

/// The password of all accounts.
pub const PASSWORD: &str = "pencil-pencil";
/// The served domain.
pub const DOMAIN: &str = "example.org";

/// Returns credentials of [`PASSWORD`] that are cheap to check.
///
/// # Errors
/// None for this password.
pub fn credentials() -> BenchOutcome<Credentials> {
    Ok(Credentials::derive_with(PASSWORD, 4096, [[7; 16]; 3])?)
}

/// The parts of a world, with all modules but the archive: the store of these worlds stores
/// nothing.
pub struct Parts {
    /// Settings with one domain, [`DOMAIN`].
    pub settings: Arc<Settings>,
    /// Stores of [`Everyone`].
    pub stores: Stores,
    /// A background of one thread.
    pub background: Background,
}

impl Parts {
    /// Makes the parts for this number of accounts and of contacts for each.
    ///
    /// # Errors
    /// The system provides no thread.
    pub fn new(accounts: usize, contacts: usize) -> BenchOutcome<Parts> {
        let modules = modules().into_iter().filter(|module| module.name() != "archive");
        let modules = modules.map(|module| (module.name(), Options::defaults(module.options())));
        let domain = Domain { name: DOMAIN.to_owned(), modules: modules.collect(), login: LoginBy::Own };
        Ok(Parts {
            settings: Arc::new(Settings { domains: vec![domain], ..Settings::default() }),
            stores: Everyone::stores(credentials()?, accounts, contacts),
            background: Background::new(1)?,
        })
    }

    /// Returns the world of one of `shards` shards.
    pub fn world(&self, shard: usize, shards: usize) -> World {
        World::new(
            Place::alone(shard, shards, [1, 2, 3, 4]),
            self.settings.clone(),
            Registry::new(modules()),
            self.stores.clone(),
            self.background.clone(),
            Wakeups::new(|| {}),
        )
    }
}

fn modules() -> Vec<Box<dyn Module>> {
    rookery_modules::table(&rookery_modules::Shared::default())
}

/// A shard and the clients that are connected to it.
pub struct BenchNetwork {
    shard: Shard<Wires>,
    target: Arc<LoadTarget>,
    next: u32,
    now_ms: u64,
    ready: Vec<ReadySocket>,
}

/// The wires of the connections that are read.
#[derive(Debug, Default)]
pub struct Wires {
    open: HashMap<u32, NetworkWire>,
    /// The number of bytes for connections that aren't read.
    pub discarded: u64,
}

#[derive(Debug, Default)]
struct NetworkWire {
    key: u32,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

impl Driver for Wires {
    type Socket = u32;

    fn connect(&mut self, _address: SocketAddr) -> io::Result<u32> {
        Err(ErrorKind::NetworkUnreachable.into())
    }

    fn connect_result(&mut self, _socket: &u32) -> io::Result<()> {
        Err(ErrorKind::NotConnected.into())
    }

    fn add(&mut self, socket: &u32, key: u32) -> io::Result<()> {
        self.open.entry(*socket).or_default().key = key;
        Ok(())
    }

    fn interest(&mut self, _socket: &u32, _key: u32, _read: bool, _write: bool) {}

    fn remove(&mut self, socket: &u32) {
        self.open.remove(socket);
    }

    fn recv(&mut self, socket: &u32, buffer: &mut [u8]) -> io::Result<usize> {
        let wire = self.open.get_mut(socket).ok_or(ErrorKind::NotConnected)?;
        let len = wire.to_server.len().min(buffer.len());
        if len == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        if let (Some(into), Some(from)) = (buffer.get_mut(..len), wire.to_server.get(..len)) {
            into.copy_from_slice(from);
        }
        wire.to_server.drain(..len);
        Ok(len)
    }

    fn send(&mut self, socket: &u32, bytes: &[u8]) -> io::Result<usize> {
        match self.open.get_mut(socket) {
            Some(wire) => wire.to_client.extend_from_slice(bytes),
            None => self.discarded += bytes.len() as u64,
        }
        Ok(bytes.len())
    }

    fn shutdown(&mut self, _socket: &u32) {}
}

impl BenchNetwork {
    /// Returns a shard for these accounts; clients log in by the terms of `target`.
    ///
    /// # Errors
    /// TLS or threads aren't available.
    pub fn new(parts: &Parts, target: LoadTarget) -> BenchOutcome<BenchNetwork> {
        let domains = [DOMAIN.to_owned()];
        let made = certificate::self_signed(&domains, 1_800_000_000)?;
        let identity = Identity::from_pem(&domains, made.certificate.as_bytes(), made.key.as_bytes())?;
        let generation = Generation {
            settings: parts.settings.clone(),
            policy: Arc::new(policy()),
            tls: Some(TlsSettings::new(vec![identity])?),
            plaintext: vec!["0.0.0.0/0".parse()?],
            limits: Limits::AFTER_LOGIN,
            login_seconds: 60,
            connections_per_address: 0,
            logins: LoginTerms::default(),
            bosh: rookery_stream::bosh::Terms::default(),
            federation: None,
        };
        let shard = Shard::new(ShardSetup {
            driver: Wires::default(),
            world: parts.world(0, 1),
            index: 0,
            post: Post::new(vec![Box::new(|| {})]),
            gate: Arc::new(Gate::default()),
            generation: Arc::new(generation),
            ids: Arc::new(|| 7),
        });
        Ok(BenchNetwork { shard, target: Arc::new(target), next: 0, now_ms: 0, ready: Vec::new() })
    }

    /// Logs the next `count` accounts in, all at the same time, makes each send `first`, and drops
    /// the clients: later output to them is discarded.
    ///
    /// # Errors
    /// The cause of a failed login.
    pub fn log_in(&mut self, count: usize, first: &str) -> BenchOutcome<()> {
        for (socket, _) in self.log_in_and_keep(count, first)? {
            self.shard.driver().open.remove(&socket);
        }
        Ok(())
    }

    /// Does the same, but keeps the clients, each with its socket.
    ///
    /// # Errors
    /// The cause of a failed login.
    pub fn log_in_and_keep(&mut self, count: usize, first: &str) -> BenchOutcome<Vec<(u32, LoadClient)>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            let (socket, mut out) = (self.next, Vec::new());
            let client = LoadClient::start(&self.target, crate::chat::local(socket as usize), false, &mut out)?;
            self.next += 1;
            self.shard.accept(socket, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), Port::Clients, self.now_ms);
            self.send(socket, &out);
            clients.push((socket, client));
        }
        while clients.iter().any(|(_, client)| !client.is_bound()) {
            self.tick(clients.iter().map(|(socket, _)| *socket));
            for (socket, client) in &mut clients {
                let Some(wire) = self.shard.driver().open.get_mut(socket) else {
                    return Err("the shard dropped a connection".into());
                };
                let (mut came, mut out) = (std::mem::take(&mut wire.to_client), Vec::new());
                let was_bound = client.is_bound();
                client.read(&mut came, &mut out, &mut |_| {})?;
                if !was_bound && client.is_bound() {
                    client.write(first.as_bytes(), &mut out)?;
                }
                wire.to_server.extend_from_slice(&out);
            }
        }
        self.tick(clients.iter().map(|(socket, _)| *socket));
        Ok(clients)
    }

    /// Puts bytes on a wire towards the server.
    pub fn send(&mut self, socket: u32, bytes: &[u8]) {
        if let Some(wire) = self.shard.driver().open.get_mut(&socket) {
            wire.to_server.extend_from_slice(bytes);
        }
    }

    /// Empties a wire towards the client; returns the number of bytes.
    pub fn receive(&mut self, socket: u32) -> usize {
        self.shard.driver().open.get_mut(&socket).map_or(0, |wire| {
            let len = wire.to_client.len();
            wire.to_client.clear();
            len
        })
    }

    /// Runs one tick in which these sockets are readable.
    pub fn tick(&mut self, sockets: impl Iterator<Item = u32>) {
        self.ready.clear();
        for socket in sockets {
            if let Some(wire) = self.shard.driver().open.get(&socket) {
                self.ready.push(ReadySocket { key: wire.key, read: true, write: false });
            }
        }
        self.now_ms += 1;
        self.shard.tick(&self.ready, self.now_ms, 1_800_000_000_000);
    }

    /// Lets enough time pass for every timer of a login, and runs the tick that does the work of
    /// those timers.
    pub fn pass_time(&mut self) {
        self.now_ms += 120_000;
        self.tick(std::iter::empty());
        self.tick(std::iter::empty());
    }

    /// Returns the number of connections so far.
    pub fn sessions_made(&self) -> usize {
        self.next as usize
    }

    /// Returns the number of sessions that the shard has.
    pub fn sessions(&self) -> usize {
        self.shard.world.session_count()
    }

    /// Returns the number of copies that went into outboxes since the start.
    pub fn deliveries(&self) -> u64 {
        self.shard.world.outboxes.pushed_total()
    }
}

impl std::fmt::Debug for BenchNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("connections", &self.next).finish_non_exhaustive()
    }
}

fn policy() -> Policy {
    Policy {
        hosts: vec![Host { name: DOMAIN.to_owned(), ..Host::default() }],
        limits_before: Limits::BEFORE_LOGIN,
        limits_after: Limits::AFTER_LOGIN,
        idle_before: Some(60),
        idle_after: None,
        mechanisms: Mechanism::ALL.to_vec(),
        plain_without_tls: true,
        decoy: Decoy::new([3; 32], 4096),
        max_auth_failures: 3,
    }
}
