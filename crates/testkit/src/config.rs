//! A test's settings for its server: everything that an operator can set, and the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rookery_hub::{Component, Domain, LoginBy, Module, Options, Privileges, Registry, Settings, Value};
use rookery_modules::bytestreams::{Relay, RelayOutcome};
use rookery_modules::{Shared, logins, sasl2};
use rookery_pubsub::data::DataSource;
use rookery_sasl::Mechanism;
use rookery_sasl::server::Decoy;
use rookery_shard::{FederationTerms, Generation, LoginTerms};
use rookery_store::{Background, Stores};
use rookery_stream::bosh::Terms;
use rookery_stream::c2s::Policy;
use rookery_stream::tls::{Identity, TlsSettings, certificate};
use rookery_xml::Limits;

use super::engine;
use crate::internet::Internet;
use crate::seat::Seat;

/// The settings of a server.
#[derive(Clone)]
pub struct Config {
    /// The number of shards.
    pub shards: usize,
    /// The number of nodes that share the shards evenly, each a process of its own in the server's
    /// view; by default, [`NODES`] decides.
    pub nodes: usize,
    /// The versions of letters that the nodes understand, in their order; further nodes understand
    /// all.
    pub letters: Vec<u16>,
    /// The seat of the server in a cluster that the test simulates, if there is one: the server is
    /// then a single node.
    pub seat: Option<Seat>,
    /// The domains; the first is the default.
    pub domains: Vec<String>,
    /// Limits and policies of the hub. Its domains are made from `domains`, `modules_off` and
    /// `options`.
    pub settings: Settings,
    /// The available modules, by default those of the server.
    pub table: fn(&Shared) -> Vec<Box<dyn Module>>,
    /// Modules that are off, by default those that are off in the server.
    pub modules_off: Vec<&'static str>,
    /// Options that differ from the default: module, key, value.
    pub options: Vec<(&'static str, &'static str, Value)>,
    /// The domains whose clients don't log in with passwords from the store, each with the way by
    /// which they do.
    pub login_by: Vec<(String, LoginBy)>,
    /// True if there is a certificate.
    pub tls: bool,
    /// True if clients may log in without TLS.
    pub plaintext: bool,
    /// The SASL mechanisms.
    pub mechanisms: Vec<Mechanism>,
    /// True if PLAIN is offered without TLS, where login without TLS is allowed.
    pub plain_without_tls: bool,
    /// Limits until a resource is bound.
    pub limits_before: Limits,
    /// Limits once a resource is bound.
    pub limits: Limits,
    /// Seconds until a resource must be bound.
    pub login_seconds: u64,
    /// Failed attempts to log in before a stream is closed.
    pub max_auth_failures: u32,
    /// Connections of one address, 0 for no limit.
    pub connections_per_address: u32,
    /// The terms of BOSH sessions.
    pub bosh: Terms,
    /// The terms on which clients may try to log in.
    pub logins: LoginTerms,
    /// True if stanzas leave for other servers, which the test then simulates:
    /// [`crate::Server::take_left`], [`crate::Server::incoming`].
    pub federates: bool,
    /// The network on which the server really connects to others, with streams, TLS and DNS.
    pub internet: Option<Meeting>,
    /// The components, which connect with the secret of [`COMPONENT_SECRET`].
    pub components: Vec<String>,
    /// The privileges of some of the components.
    pub privileges: Vec<(String, Privileges)>,
    /// The source of items for the module `data`.
    pub source: Option<Arc<dyn DataSource>>,
    /// The tokens of connections that wait at the proxy for bytestreams, one for each; `None`
    /// without a proxy.
    pub relay: Option<Vec<String>>,
    /// The store that all shards share, by default that of the chosen engine.
    pub stores: Stores,
    /// The threads for work that takes milliseconds; by default none, and such work is done at
    /// once.
    pub background: Background,
    /// The seed with which the store shuffles operations of different owners; by default,
    /// [`SHUFFLE`] decides.
    pub shuffle: Option<u64>,
    /// The seed of all randomness in the server.
    pub seed: u64,
}

/// The terms on which a server connects to others.
#[derive(Clone)]
pub struct Meeting {
    /// The network between them.
    pub internet: Internet,
    /// The server's settings for federation.
    pub federation: FederationTerms,
    /// The server's names in DNS.
    pub names: Vec<String>,
    /// True if others reach it by direct TLS.
    pub direct_tls: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            shards: 2,
            nodes: std::env::var(NODES).map_or(1, |nodes| nodes.parse().expect("a number of nodes")),
            letters: Vec::new(),
            seat: None,
            domains: vec!["example.org".into()],
            settings: Settings::default(),
            table: rookery_modules::table,
            modules_off: Vec::new(),
            options: Vec::new(),
            login_by: Vec::new(),
            tls: false,
            plaintext: true,
            mechanisms: Mechanism::ALL.to_vec(),
            plain_without_tls: true,
            limits_before: Limits::BEFORE_LOGIN,
            limits: Limits::AFTER_LOGIN,
            login_seconds: 60,
            max_auth_failures: 5,
            connections_per_address: 0,
            bosh: Terms::default(),
            logins: LoginTerms::default(),
            federates: false,
            internet: None,
            components: Vec::new(),
            privileges: Vec::new(),
            source: None,
            relay: None,
            stores: engine::stores(),
            background: Background::in_place(),
            shuffle: std::env::var(SHUFFLE).ok().map(|seed| seed.parse().expect("a number as the seed")),
            seed: SEED,
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("shards", &self.shards).field("domains", &self.domains).finish_non_exhaustive()
    }
}

impl Config {
    /// Simulates the proxy for bytestreams, which has one stream at most.
    pub(crate) fn serve_relay(&self, relay: &Relay) {
        let Some(waiting) = self.relay.clone() else { return };
        let joined = AtomicUsize::new(0);
        relay.serve(RELAY_PORT, move |wish| {
            let connections = waiting.iter().filter(|token| **token == wish.token).count();
            let outcome = match connections {
                0 => RelayOutcome::Unknown,
                1 => RelayOutcome::OneOnly,
                _ if joined.fetch_add(1, Ordering::Relaxed) >= wish.terms.streams.min(wish.terms.streams_per_user) => {
                    RelayOutcome::TooMany
                }
                _ => RelayOutcome::Joined,
            };
            wish.answer.complete(outcome);
        });
    }

    /// Returns the settings of the shards.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        let table = (self.table)(&Shared::default());
        let domains = self.domains.iter().map(|name| self.domain(name, &table)).collect();
        let settings = Settings { domains, components: self.hub_components(), ..self.settings.clone() };
        let registry = Registry::new(table);
        let policy = self.policy(&settings, &registry);
        let network = "0.0.0.0/0".parse().expect("a network");
        Arc::new(Generation {
            settings: Arc::new(settings),
            policy: Arc::new(policy),
            tls: self.tls.then(|| tls(&self.domains)),
            plaintext: if self.plaintext { vec![network] } else { Vec::new() },
            limits: self.limits,
            login_seconds: self.login_seconds,
            connections_per_address: self.connections_per_address,
            logins: self.logins.clone(),
            bosh: self.bosh,
            federation: self.federation().map(Arc::new),
        })
    }

    fn hub_components(&self) -> Vec<Component> {
        let privileges = |name: &str| self.privileges.iter().find(|(of, _)| of == name).map(|(_, found)| found.clone());
        let components = self.components.iter();
        components
            .map(|name| Component { name: name.clone(), privileges: privileges(name).unwrap_or_default() })
            .collect()
    }

    /// Returns the settings for other servers and for components.
    fn federation(&self) -> Option<FederationTerms> {
        let components = self.components.iter().map(|name| rookery_federation::ComponentTerms {
            name: name.as_str().into(),
            secret: rookery_federation::ComponentSecret::new(COMPONENT_SECRET.as_bytes()),
        });
        let components: Vec<_> = components.collect();
        let mut federation = match &self.internet {
            Some(meeting) => meeting.federation.clone(),
            None if components.is_empty() => return None,
            None => Internet::default().federation(&self.domains, |settings| settings.has_others = false),
        };
        if !components.is_empty() {
            let settings = rookery_federation::FederationSettings { components, ..(*federation.settings).clone() };
            federation.settings = Arc::new(settings);
        }
        Some(federation)
    }

    fn domain(&self, name: &str, table: &[Box<dyn Module>]) -> Domain {
        let on = table.iter().filter(|module| !self.modules_off.contains(&module.name()));
        let on = on.filter(|module| module.on_by_default() || self.options.iter().any(|(of, ..)| *of == module.name()));
        let login = self.login_by.iter().find(|(domain, _)| domain == name);
        let login = login.map(|(_, login)| login.clone()).unwrap_or_default();
        let kind = sasl2::login_kind(&login);
        let on = on.filter(|module| logins::place(kind, module.name()) == logins::LoginPlace::Usual);
        let modules = on.map(|module| (module.name(), self.module_options(&**module))).collect();
        Domain { name: name.to_owned(), modules, login }
    }

    fn module_options(&self, module: &dyn Module) -> Options {
        let mut options = Options::defaults(module.options());
        for (_, key, value) in self.options.iter().filter(|(of, ..)| *of == module.name()) {
            let spec = module.options().iter().find(|spec| spec.key == *key);
            options.set(spec.expect("the module declares the option"), value.clone());
        }
        options
    }

    fn policy(&self, settings: &Settings, registry: &Registry) -> Policy {
        let hosts = settings.domains.iter().map(|domain| sasl2::host(domain, registry));
        Policy {
            hosts: hosts.collect(),
            limits_before: self.limits_before,
            limits_after: self.limits,
            idle_before: None,
            idle_after: None,
            mechanisms: self.mechanisms.clone(),
            plain_without_tls: self.plain_without_tls,
            decoy: Decoy::new([7; 32], ITERATIONS),
            max_auth_failures: self.max_auth_failures,
        }
    }
}

fn tls(domains: &[String]) -> TlsSettings {
    let made = certificate::self_signed(domains, CERTIFIED_AT).expect("a certificate");
    let identity = Identity::from_pem(domains, made.certificate.as_bytes(), made.key.as_bytes()).expect("an identity");
    TlsSettings::new(vec![identity]).expect("TLS settings")
}

/// The environment variable that makes all servers shuffle their store's operations; its value is
/// the seed.
pub const SHUFFLE: &str = "ROOKERY_SHUFFLE";
/// The environment variable that spreads all servers over this many nodes, if their shards can be
/// divided among them.
pub const NODES: &str = "ROOKERY_NODES";
/// The default seed of servers.
const SEED: u64 = 13;
/// The PBKDF2 rounds of all accounts; no test depends on their slowness.
pub const ITERATIONS: u32 = 4;
/// The secret that all components of tests share.
pub const COMPONENT_SECRET: &str = "a secret of components";
/// The port of the proxy for bytestreams.
const RELAY_PORT: u16 = 7777;
/// The time at which certificates become valid, in seconds since 1970.
const CERTIFIED_AT: u64 = 1_700_000_000;
