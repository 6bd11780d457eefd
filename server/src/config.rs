//! The configuration: its values, their defaults, and how it is read.
//!
//! `keys` is the table of all keys; the parser in `read`, the errors and `rookery config example`
//! are all derived from it, so that none of them can know a key that the others don't. `given`
//! reads single values, `environment` has those of variables, `error` describes mistakes with their
//! places, `nearest` guesses the intended key. A table with many keys has a separate file with its
//! values and their defaults.
//!
//! # Invariants
//!
//! - Any configuration that parses is consistent: a certificate comes with its key, a soft limit
//!   isn't above its hard one, domains are prepared.
//! - The modules of every domain are complete: each known module, on or off, with all of its
//!   options.

mod dpm;
pub mod effective;
mod environment;
mod error;
mod events;
mod example;
mod federation;
mod given;
pub mod keys;
mod limits;
mod login;
mod nearest;
mod ports;
mod read;
pub mod size;
mod traces;
mod uploads;
mod web;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rookery_hub::{Module, Network, Privileges, Value};
use rookery_sasl::{DEFAULT_ITERATIONS, Mechanism};
use rookery_shard::{LoginTerms, SystemInterface};
use rookery_store::sql::Migrations;
use rookery_store::sql::copy::EndAddress;
use rookery_store::sqlite;
use rookery_stream::tls::Oldest;

pub use dpm::{Alarms, DpmConfig};
pub use environment::Environment;
pub use error::{ConfigError, WrongValue};
pub use events::EventsConfig;
pub use example::{example, short as short_example};
pub use federation::{Exception, FederationConfig, FederationRule, OwnFederation};
pub use limits::ClientLimits;
pub use login::{DirectoryGroups, DomainLogin};
pub use traces::TracesConfig;
pub use uploads::UploadsConfig;
pub use web::{Acme, WebConfig, WebTls};

/// Everything that an operator can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The served domains, the default one first.
    pub domains: Vec<DomainConfig>,
    /// The number of threads that serve connections; 0 means one per core.
    pub shards: usize,
    /// The interface of the system by which the shards wait for their sockets.
    pub io: SystemInterface,
    /// True if the stages of a multicast are measured.
    pub profile: bool,
    /// The addresses at which connections are accepted.
    pub listen: Listen,
    /// The settings of HTTP.
    pub web: WebConfig,
    /// The place of uploaded files.
    pub uploads: UploadsConfig,
    /// The address that events are posted to.
    pub events: EventsConfig,
    /// Certificates and protocol version.
    pub tls: WebTls,
    /// Certificates from an authority.
    pub acme: Acme,
    /// The ways in which clients may authenticate.
    pub login: LoginConfig,
    /// The database for all data.
    pub store: Store,
    /// The nodes that form one server.
    pub cluster: Cluster,
    /// Other servers.
    pub federation: FederationConfig,
    /// Programs that serve names of their own.
    pub components: Vec<ComponentConfig>,
    /// Readings of devices.
    pub dpm: DpmConfig,
    /// The limits of one client.
    pub limits: ClientLimits,
    /// The settings of instruments for finding out why something is slow.
    pub instruments: Instruments,
    /// The collector of traces.
    pub traces: TracesConfig,
    /// The settings of the log.
    pub log: LogConfig,
    /// The modules of domains without settings of their own.
    pub modules: Modules,
}

/// Modules by name. Every known module is included.
pub type Modules = BTreeMap<&'static str, ModuleConfig>;

/// The settings of one module in one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleConfig {
    /// True if it runs.
    pub enabled: bool,
    /// The values of all its declared options.
    pub options: BTreeMap<&'static str, Value>,
}

/// One served domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainConfig {
    /// The domain, prepared.
    pub name: String,
    /// Its own certificate.
    pub files: CertificateFiles,
    /// Its settings for other servers.
    pub federation: OwnFederation,
    /// The way in which clients log in to its accounts.
    pub login: DomainLogin,
    /// Its modules with their options: those for all domains, as the domain's own tables change
    /// them.
    pub modules: Modules,
}

impl DomainConfig {
    /// Returns the address of a module's service in the domain, as its option `host` says, if the
    /// module is on and has one.
    pub fn service(&self, module: &str) -> Option<String> {
        let config = self.modules.get(module).filter(|config| config.enabled)?;
        match config.options.get("host") {
            Some(Value::Text(host)) if !host.is_empty() => Some(host.replace('@', &self.name)),
            _ => None,
        }
    }

    /// Returns the addresses of all services of the domain.
    pub fn services(&self) -> impl Iterator<Item = String> + '_ {
        self.modules.keys().filter_map(|module| self.service(module))
    }
}

/// A component (XEP-0114).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ComponentConfig {
    /// Its name, prepared.
    pub name: String,
    /// The secret that proves the name, if it is in the configuration.
    pub secret: Option<String>,
    /// The file with the secret otherwise.
    pub secret_file: Option<PathBuf>,
    /// The permissions to act in the name of accounts.
    pub privileges: Privileges,
}

impl std::fmt::Debug for ComponentConfig {
    /// Leaves out the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A certificate chain and its key, both or none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateFiles {
    /// PEM, the server's own certificate first.
    pub certificate: Option<PathBuf>,
    /// PEM.
    pub key: Option<PathBuf>,
}

/// Addresses to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Client streams that start without TLS and offer STARTTLS (RFC 6120 §5).
    pub c2s: Vec<SocketAddr>,
    /// Client streams under TLS from their first byte (XEP-0368).
    pub c2s_tls: Vec<SocketAddr>,
    /// HTTP without TLS.
    pub web: Vec<SocketAddr>,
    /// HTTP under TLS, and XMPP clients that select it by ALPN.
    pub web_tls: Vec<SocketAddr>,
    /// SOCKS5, for bytestreams between clients (XEP-0065).
    pub bytestreams: Vec<SocketAddr>,
    /// Other servers whose streams start without TLS, if there are any.
    pub s2s: Vec<SocketAddr>,
    /// Other servers under TLS from their first byte (XEP-0368), if there are any.
    pub s2s_tls: Vec<SocketAddr>,
    /// Components (XEP-0114), if there are any.
    pub components: Vec<SocketAddr>,
}

/// The ways in which clients may authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginConfig {
    /// True if a client on this machine may log in without TLS.
    pub plaintext_loopback: bool,
    /// Networks from which clients may log in without TLS.
    pub plaintext_networks: Vec<WrittenNetwork>,
    /// True if PLAIN is offered where login without TLS is allowed.
    pub plain_without_tls: bool,
    /// Networks from which logins are neither counted nor held back.
    pub exempt_networks: Vec<WrittenNetwork>,
    /// The most guesses at one account in a day from places where it has not logged in.
    pub guesses_per_day: u32,
    /// PBKDF2 iterations for new passwords.
    pub scram_iterations: u32,
    /// The mechanisms to offer where a connection supports them.
    pub mechanisms: Vec<Mechanism>,
}

/// The database for all data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The database.
    pub place: DatabasePlace,
    /// The file with the password, if there is one and it isn't in the address.
    pub password: Option<PathBuf>,
    /// True if the connection to the database is encrypted; by default it is, unless the database
    /// is on this machine.
    pub encrypted: Option<bool>,
    /// A PEM file of the authorities whose certificates are accepted, instead of those that the
    /// machine trusts.
    pub authorities: Option<PathBuf>,
    /// The number of connections for the data of one owner each.
    pub connections: usize,
    /// The size of the cache for pages of the file, in bytes.
    pub cache: usize,
    /// True if the database is used even if it doesn't guarantee to keep acknowledged data.
    pub trusts_durability: bool,
    /// The occasions on which the schema of the database may change.
    pub migrations: Migrations,
    /// True if a copy of the file is kept before its schema changes.
    pub keeps_copy: bool,
    /// True if archives are divided into months.
    pub months: bool,
    /// True if searches have an index.
    pub has_index: bool,
}

/// This process among the nodes that form one server.
#[derive(Clone, PartialEq, Eq)]
pub struct Cluster {
    /// The name of this node; without one there is no cluster.
    pub node: Option<String>,
    /// The addresses of the Redis that carries the traffic between nodes, with its password: one,
    /// or several of a Redis Cluster.
    pub redis: Vec<String>,
    /// The addresses of the Sentinels that know its primary, if there are any.
    pub sentinels: Vec<String>,
    /// The name under which clients reach this node and no other.
    pub public_host: Option<String>,
    /// The way in which clients find the home of their account, if nodes have public hosts.
    pub steer: ClusterSteering,
    /// The seconds after which a silent node is considered gone.
    pub lease_seconds: u64,
}

/// The occasions on which clients are sent to the home node of their account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterSteering {
    /// None: they stay at their node.
    Off,
    /// They get the address for resuming their sessions.
    Resume,
    /// In addition, they are redirected after they have logged in.
    Login,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            node: None,
            redis: Vec::new(),
            sentinels: Vec::new(),
            public_host: None,
            steer: ClusterSteering::Resume,
            lease_seconds: 4,
        }
    }
}

impl std::fmt::Debug for Cluster {
    /// Leaves out the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("node", &self.node).finish_non_exhaustive()
    }
}

/// The place of accounts and messages: memory, a file, or a database server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabasePlace {
    /// A file in the data folder.
    Folder,
    /// A server of PostgreSQL, MariaDB or MySQL, by its address.
    Server(EndAddress),
}

impl Default for Store {
    fn default() -> Store {
        Store {
            place: DatabasePlace::Folder,
            password: None,
            encrypted: None,
            authorities: None,
            connections: 8,
            cache: sqlite::SqliteOptions::default().cache_bytes,
            trusts_durability: false,
            migrations: Migrations::default(),
            keeps_copy: true,
            months: false,
            has_index: false,
        }
    }
}

/// A network as the operator wrote it, for messages about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenNetwork {
    /// The operator's text.
    pub written: String,
    /// The parsed network.
    pub network: Network,
}

/// The settings of the log, which is stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// A level, or levels per part of the server.
    pub level: String,
    /// The form of a line.
    pub format: LogFormat,
}

/// The settings of instruments for finding out why something is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruments {
    /// The milliseconds from which something counts as slow; 0 for never.
    pub slow_ms: u64,
}

/// The form of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For readers.
    Text,
    /// One JSON object per line.
    Json,
}

impl ServerConfig {
    /// Returns the configuration without a file.
    pub fn defaults(table: &[Box<dyn Module>]) -> ServerConfig {
        let modules: Modules = table.iter().map(|module| (module.name(), ModuleConfig::defaults(&**module))).collect();
        ServerConfig {
            domains: vec![DomainConfig { modules: modules.clone(), ..DomainConfig::with_name("localhost".into()) }],
            shards: 0,
            io: SystemInterface::Auto,
            profile: false,
            listen: Listen {
                c2s: vec![anywhere(5222)],
                c2s_tls: vec![anywhere(5223)],
                web: vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 5280)],
                web_tls: vec![anywhere(5443)],
                bytestreams: vec![anywhere(7777)],
                s2s: vec![anywhere(5269)],
                s2s_tls: vec![anywhere(5270)],
                components: vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 5347)],
            },
            components: Vec::new(),
            cluster: Cluster::default(),
            federation: FederationConfig::default(),
            web: WebConfig {
                title: None,
                logo: None,
                files: None,
                public_host: None,
                hosts: Vec::new(),
                origins: Vec::new(),
                trusted_proxies: Vec::new(),
                proxy_protocol: false,
                metrics_networks: loopback(),
                api_networks: loopback(),
                admin_networks: loopback(),
                chat: true,
                connections: 20_000,
                bosh: true,
                bosh_terms: rookery_stream::bosh::Terms::default(),
                bosh_compression: false,
            },
            uploads: UploadsConfig::default(),
            events: EventsConfig::default(),
            tls: WebTls { files: CertificateFiles::default(), minimum: Oldest::Tls12 },
            acme: Acme {
                enabled: false,
                directory: "https://acme-v02.api.letsencrypt.org/directory".into(),
                contacts: Vec::new(),
                domains: Vec::new(),
                services: Vec::new(),
                trusted: None,
            },
            login: LoginConfig {
                plaintext_loopback: false,
                plaintext_networks: Vec::new(),
                plain_without_tls: false,
                exempt_networks: Vec::new(),
                guesses_per_day: LoginTerms::default().guesses_per_day,
                scram_iterations: DEFAULT_ITERATIONS,
                mechanisms: Mechanism::ALL.to_vec(),
            },
            store: Store::default(),
            dpm: DpmConfig::default(),
            limits: ClientLimits::default(),
            instruments: Instruments { slow_ms: rookery_observe::slow::LIMIT_MS },
            traces: TracesConfig::default(),
            log: LogConfig { level: "info".into(), format: LogFormat::Text },
            modules,
        }
    }

    /// Reads a configuration: that of a file, if there is one, with the variables of the
    /// environment in place of its values.
    ///
    /// # Errors
    ///
    /// All mistakes in it, with the lines and the variables.
    pub fn load(
        file: Option<&Path>,
        environment: &Environment,
        table: &[Box<dyn Module>],
    ) -> Result<ServerConfig, ConfigError> {
        let text = file.map_or(Ok(String::new()), |file| {
            std::fs::read_to_string(file).map_err(|error| ConfigError::unreadable(file, &error))
        })?;
        let written = environment.write_toml(table);
        let place = |at: usize| match (at.checked_sub(text.len() + 1).and_then(|at| written.variable(at)), file) {
            (Some(variable), _) => variable.to_owned(),
            (None, Some(file)) => format!("{}:{}", file.display(), error::line_of(&text, at)),
            (None, None) => "the configuration".to_owned(),
        };
        let config = read::read(&text, &written.text, table);
        let mut config = config.map_err(|wrongs| ConfigError::at(place, wrongs))?;
        config.resolve(file.and_then(Path::parent).unwrap_or(Path::new("")));
        Ok(config)
    }

    /// Reads a configuration from its text. File names in it stay as they are.
    ///
    /// # Errors
    ///
    /// All mistakes in it, in the order of the text.
    pub fn parse(text: &str, table: &[Box<dyn Module>]) -> Result<ServerConfig, Vec<WrongValue>> {
        read::read(text, "", table)
    }

    /// Returns the configuration of a domain; its name is prepared.
    pub fn domain(&self, name: &str) -> Option<&DomainConfig> {
        self.domains.iter().find(|domain| domain.name == name)
    }

    /// Returns whether any domain communicates with other servers.
    pub fn federates(&self) -> bool {
        self.domains.iter().any(|domain| self.federation_of(domain).enabled)
    }

    /// Returns the settings of a domain for other servers.
    pub fn federation_of(&self, domain: &DomainConfig) -> FederationConfig {
        self.federation.with(&domain.federation)
    }

    /// Returns the names of a domain: its own, and those of its services and components. A
    /// component belongs to the nearest domain above it, or otherwise to the first one.
    pub fn hosts_of(&self, domain: &DomainConfig) -> Vec<String> {
        let of = |component: &&ComponentConfig| {
            let is_above = |domain: &&DomainConfig| {
                component.name.strip_suffix(domain.name.as_str()).is_some_and(|rest| rest.ends_with('.'))
            };
            let nearest = self.domains.iter().filter(is_above).max_by_key(|domain| domain.name.len());
            nearest.or(self.domains.first()).is_some_and(|nearest| nearest.name == domain.name)
        };
        let components = self.components.iter().filter(of).map(|component| component.name.clone());
        std::iter::once(domain.name.clone()).chain(domain.services()).chain(components).collect()
    }

    /// Returns the certificate files of a domain: its own, otherwise those of all domains; `None`
    /// if the operator configured none.
    pub fn files_of<'a>(&'a self, domain: &'a DomainConfig) -> Option<(&'a Path, &'a Path)> {
        domain.files.pair().or_else(|| self.tls.files.pair())
    }

    /// Makes file names relative to the configuration file, not to the folder where the server
    /// happens to be started.
    fn resolve(&mut self, base: &Path) {
        let of_domains = self.domains.iter_mut().map(|domain| &mut domain.files);
        for files in of_domains.chain([&mut self.tls.files]) {
            for path in [&mut files.certificate, &mut files.key].into_iter().flatten() {
                *path = base.join(&*path);
            }
        }
        let of_logins = self.domains.iter_mut().map(|domain| &mut domain.login);
        let of_logins = of_logins
            .flat_map(|login| [&mut login.trusted, &mut login.bind_password_file, &mut login.client_secret_file]);
        for path in of_logins.flatten() {
            *path = base.join(&*path);
        }
        for path in self.components.iter_mut().filter_map(|component| component.secret_file.as_mut()) {
            *path = base.join(&*path);
        }
        for path in &mut self.federation.trusted {
            *path = base.join(&*path);
        }
        let dpm = &mut self.dpm;
        let of_grpc = [&mut dpm.grpc_certificate, &mut dpm.grpc_key, &mut dpm.tokens];
        let of_dpm = [&mut dpm.database, &mut dpm.keytab, &mut dpm.roles, &mut dpm.audit].into_iter().chain(of_grpc);
        for path in [
            &mut self.acme.trusted,
            &mut self.web.files,
            &mut self.uploads.secret_file,
            &mut self.uploads.trusted,
            &mut self.events.secret_file,
            &mut self.events.trusted,
            &mut self.traces.header_file,
            &mut self.traces.trusted,
        ]
        .into_iter()
        .chain(of_dpm)
        .flatten()
        {
            *path = base.join(&*path);
        }
    }
}

impl DomainConfig {
    fn with_name(name: String) -> DomainConfig {
        let (files, federation, login) =
            (CertificateFiles::default(), OwnFederation::default(), DomainLogin::default());
        DomainConfig { name, files, federation, login, modules: Modules::new() }
    }
}

impl ModuleConfig {
    fn defaults(module: &dyn Module) -> ModuleConfig {
        let options = module.options().iter().map(|spec| (spec.key, (spec.default)())).collect();
        ModuleConfig { enabled: module.on_by_default(), options }
    }
}

impl CertificateFiles {
    /// Returns both files, if they are configured.
    pub fn pair(&self) -> Option<(&Path, &Path)> {
        Some((self.certificate.as_deref()?, self.key.as_deref()?))
    }
}

impl WrittenNetwork {
    /// Reads a network; `None` if it is invalid.
    pub fn read(text: &str) -> Option<WrittenNetwork> {
        Some(WrittenNetwork { written: text.to_owned(), network: text.parse().ok()? })
    }
}

impl LoginConfig {
    /// Returns the networks from which clients may log in without TLS.
    pub fn plaintext(&self) -> Vec<Network> {
        let loopback = LOOPBACK.iter().filter(|_| self.plaintext_loopback).filter_map(|range| range.parse().ok());
        loopback.chain(self.plaintext_networks.iter().map(|network| network.network)).collect()
    }

    /// Returns the bounds on attempts to log in.
    pub fn terms(&self) -> LoginTerms {
        let exempt = self.exempt_networks.iter().map(|network| network.network).collect();
        LoginTerms { exempt, guesses_per_day: self.guesses_per_day }
    }
}

fn loopback() -> Vec<WrittenNetwork> {
    LOOPBACK.iter().filter_map(|range| WrittenNetwork::read(range)).collect()
}

fn anywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

/// The module that shows readings in the chat.
pub const DATA: &str = "data";
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

#[cfg(test)]
mod tests;
