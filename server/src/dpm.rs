//! Readings of devices within the server: a separate thread, which starts and stops with it, and
//! the bridge by which they reach the chat.
//!
//! [`bridge`] is the shards' view of it, [`reader`] the client of the thread that reads for them,
//! [`payload`] the users' format; [`alarms`] posts in rooms, [`feeds`] serves clients of the API;
//! [`tables`] reads device databases that are kept in SQL.

mod alarms;
mod bridge;
mod feeds;
mod payload;
mod reader;
mod tables;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use rookery_dpm::authority::AccessFiles;
use rookery_dpm::database::Database;
use rookery_dpm::demo::Simulated;
use rookery_dpm::driver::{
    CertificateKeys, CredentialFiles, DaemonBridge, DpmServer, Keyring, NotOpened, RunningBridge, ServeSettings,
};
use rookery_dpm::grpc::plots::PlotStore;
use rookery_dpm::history::{HistoryArchive, HistoryBounds};
use rookery_dpm::service::{Dpm as Service, ServiceOptions};
use rookery_dpm::time::Moment;
use rookery_pubsub::data::Data;
use rookery_shard::Door;
use rookery_web::readings::Readings;
use tracing::{error, info, warn};

use crate::config::{ConfigError, DATA, DomainConfig, DpmConfig, ServerConfig};
use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::listener;
use alarms::AlarmWatch;
use bridge::{Bridge, BridgeOrder};
use feeds::Feeds;
use reader::DpmReader;
pub use tables::read_table;

/// The sockets and the database, opened; no client is served yet.
pub struct Opened {
    server: DpmServer,
    path: Option<PathBuf>,
    credentials: CredentialFiles,
    bridge: Bridge,
    watch: AlarmWatch,
    simulated: Option<Simulated>,
    acnetd: Option<RunningBridge>,
    /// The address that stands for all front-ends, if they are simulated or an acnetd's.
    nodes_at: Option<SocketAddr>,
    /// The addresses at which clients connect.
    pub addresses: Vec<SocketAddr>,
}

/// The thread that serves.
pub struct RunningDpm {
    thread: JoinHandle<()>,
    bridge: Bridge,
    path: Option<PathBuf>,
    credentials: CredentialFiles,
    keyring: Option<Keyring>,
    nodes_at: Option<SocketAddr>,
}

/// Reads the configured device database, and checks the configuration against it.
///
/// # Errors
///
/// [`ConfigError`] with file, line and field, or the key that names a device that doesn't exist.
pub fn database(config: &DpmConfig) -> Result<Database, ConfigError> {
    let database = Database::load(config.database.as_deref());
    let database = database.map_err(|unusable| ConfigError::because(unusable.to_string()))?;
    let named = config.alarms.iter().flat_map(|alarms| &alarms.devices);
    match named.into_iter().find(|name| database.by_name(name).is_none()) {
        Some(name) => {
            let file =
                config.database.as_ref().map_or("the demonstration".to_owned(), |file| file.display().to_string());
            Err(ConfigError::because(format!("dpm.alarms: {name}: {file} has no such device")))
        }
        None => Ok(database),
    }
}

impl Opened {
    /// Opens sockets and database, if readings are to be served, and connects them to the chat.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Config`] for the database, [`CommandFailure::Failed`] for resources that
    /// the machine refuses.
    pub fn open(whole: &ServerConfig, folder: &Folder, data: &Data) -> Result<Option<Opened>, CommandFailure> {
        let config = &whole.dpm;
        if !config.enabled {
            return Ok(None);
        }
        let mut database = database(config)?;
        let simulated = match config.demo {
            true => Some(Simulated::start(config.database.as_deref()).map_err(|error| {
                CommandFailure::Failed(format!("the simulated front-ends can't be started: {error}"))
            })?),
            false => None,
        };
        let beside = config.acnetd.map(beside).transpose()?;
        let acnetd = beside.as_ref().map(|(_, address)| *address);
        let nodes_at = simulated.as_ref().map(Simulated::address).or(acnetd);
        if let Some(address) = nodes_at {
            database = database.with_nodes_at(address);
        }
        let database = Arc::new(database);
        let own = beside.as_ref().map(|(bridge, _)| (bridge.name(), bridge.node()));
        let (name, address) = own.unwrap_or((config.name, config.node));
        let options = ServiceOptions { name, address, acnetd, once: config.answer_within, ..ServiceOptions::default() };
        let front_ends = front_ends(config);
        let settings = ServeSettings { clients: config.listen.clone(), front_ends, options };
        let mut server = DpmServer::open(settings, database.clone()).map_err(|NotOpened { address, error }| {
            listener::failure(&error, explain_bind(address, key_of(config, address), &error))
        })?;
        let addresses = server.addresses().map_err(|error| CommandFailure::Failed(error.to_string()))?;
        let credentials = credentials(config);
        let wrong = |words| CommandFailure::Config(ConfigError::because(words));
        let (authority, words) = credentials.access.open().map_err(wrong)?;
        let may_set = config.keytab.is_some() || config.tokens.is_some();
        words.iter().filter(|_| may_set).for_each(|words| warn!("{words}"));
        server.set_authority(authority);
        server.pass_on_to(config.pass_on.clone());
        let server = if database.records().is_empty() { server } else { record(server, config, folder)? };
        let server = match config.grpc {
            Some(listen) => server
                .with_grpc(listen, Some(plots(folder)?))
                .map_err(|error| listener::failure(&error, explain_bind(listen, "grpc", &error)))?,
            None => server,
        };
        if let Some(keyring) = server.grpc_keys() {
            keyring.replace(read_keys(&credentials)?);
        }
        let server = match config.channel_access {
            Some(listen) => server
                .with_channel_access(listen)
                .map_err(|error| listener::failure(&error, explain_bind(listen, "channel_access", &error)))?,
            None => server,
        };
        let server = match config.pv_access {
            Some(listen) => server
                .with_pv_access(listen)
                .map_err(|error| listener::failure(&error, explain_bind(listen, "pv_access", &error)))?,
            None => server,
        };
        let server = match config.multicast {
            Some(group) => server
                .with_multicast(group)
                .map_err(|error| CommandFailure::Failed(format!("`multicast` in [dpm], {group}: {error}")))?,
            None => server,
        };
        let no_network = |error: std::io::Error| CommandFailure::Failed(error.to_string());
        let acnetd = match beside {
            Some((daemon, _)) => Some(daemon.start(server.network_address().map_err(no_network)?).map_err(no_network)?),
            None => None,
        };
        let bridge = Bridge::new(database.clone(), server.wake());
        data.join(Arc::new(bridge.clone()));
        let watch = AlarmWatch::new(&config.alarms, &database, speaking_domain(whole));
        let (path, devices) = (config.database.clone(), database.devices().len());
        info!(?addresses, devices, "readings of devices are served");
        Ok(Some(Opened { server, path, credentials, bridge, watch, simulated, acnetd, nodes_at, addresses }))
    }

    /// Returns the feeds of device readings for clients of the API.
    pub fn readings(&self) -> Arc<dyn Readings> {
        Arc::new(Feeds(self.server.feeds()))
    }

    /// Starts to serve; readings for the chat go through the door.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if the operating system refuses a thread.
    pub fn start(self, door: Door) -> Result<RunningDpm, CommandFailure> {
        let Opened { server, path, credentials, bridge, watch, simulated, acnetd, nodes_at, .. } = self;
        let keyring = server.grpc_keys();
        let orders = bridge.clone();
        let serve = move || {
            // Our own simulated front-ends end with the thread that reads them, as our tasks of
            // acnetd do.
            let _network = (simulated, acnetd);
            let mut reader = DpmReader::new(door, watch);
            let mut is_new = true;
            let served = server.run(|dpm, now| {
                if std::mem::take(&mut is_new) {
                    reader.begin(dpm, now);
                    tell_unrecorded(dpm);
                }
                let is_over = obey(&orders, &mut reader, dpm, now);
                reader.turn(dpm, now);
                is_over
            });
            if let Err(error) = served {
                error!(%error, "readings of devices are no longer served");
            }
        };
        let thread = std::thread::Builder::new().name("dpm".into()).spawn(|| rookery_observe::vital(serve));
        let thread = thread.map_err(|error| CommandFailure::Failed(format!("no thread can be started: {error}")))?;
        Ok(RunningDpm { thread, bridge, path, credentials, keyring, nodes_at })
    }
}

impl RunningDpm {
    /// Reads the device database, the roles, the certificate of gRPC and the keys of tokens again.
    /// On an error the old ones stay in use.
    pub fn reload(&self) {
        if let Some(keyring) = &self.keyring {
            match read_keys(&self.credentials) {
                Ok(keys) => keyring.replace(keys),
                Err(error) => error!("the certificate of gRPC and the keys of tokens stay as they were: {error}"),
            }
        }
        match self.credentials.access.roles() {
            Ok(roles) => self.bridge.order(BridgeOrder::Roles(roles)),
            Err(words) => error!("the roles stay as they were: {words}"),
        }
        match Database::load(self.path.as_deref()) {
            Ok(mut database) => {
                if let Some(address) = self.nodes_at {
                    database = database.with_nodes_at(address);
                }
                self.bridge.order(BridgeOrder::Database(Arc::new(database)));
            }
            Err(unusable) => error!("the devices stay as they were: {unusable}"),
        }
    }

    /// Stops the thread and waits for its end. Returns `false` if it has panicked.
    pub fn stop(self) -> bool {
        self.bridge.order(BridgeOrder::Stop);
        self.thread.join().is_ok()
    }
}

/// Executes an order; returns whether the thread ends.
fn obey(bridge: &Bridge, reader: &mut DpmReader, dpm: &mut Service, now: Moment) -> bool {
    for order in bridge.take() {
        match order {
            BridgeOrder::Open(topic, shard) => reader.open(dpm, topic, shard, now),
            BridgeOrder::Close(topic) => reader.close(dpm, &topic, now),
            BridgeOrder::Database(database) => take_on(dpm, database, bridge),
            BridgeOrder::Roles(roles) => dpm.set_roles(roles),
            BridgeOrder::Stop => return true,
        }
    }
    false
}

/// Enables a server to record the readings that the database selects.
fn record(server: DpmServer, config: &DpmConfig, folder: &Folder) -> Result<DpmServer, CommandFailure> {
    let path = folder.path().join(HISTORY);
    let bounds = HistoryBounds { age: config.history_days * 86_400, size: config.history_bytes as u64 };
    let failed = |reason: String| CommandFailure::Failed(format!("{}: {reason}", path.display()));
    let archive = HistoryArchive::open(&path, bounds).map_err(|error| failed(error.to_string()))?;
    server.with_history(archive).map_err(|error| failed(error.to_string()))
}

/// Opens the configurations of plots that clients of gRPC save.
fn plots(folder: &Folder) -> Result<PlotStore, CommandFailure> {
    let path = folder.path().join(PLOTS);
    PlotStore::open(&path).map_err(|error| CommandFailure::Failed(format!("{}: {error}", path.display())))
}

/// Returns the first domain whose service can send messages to rooms.
fn speaking_domain(config: &ServerConfig) -> String {
    let has_service = |domain: &&DomainConfig| domain.modules.get(DATA).is_some_and(|module| module.enabled);
    config.domains.iter().find(has_service).map(|domain| domain.name.clone()).unwrap_or_default()
}

/// Returns the files that decide who may set devices, and those of the gRPC port.
fn credentials(config: &DpmConfig) -> CredentialFiles {
    let DpmConfig { keytab, principal, roles, audit, tokens, token_issuer, token_audience, token_realm, .. } =
        config.clone();
    let access = AccessFiles { keytab, principal, tokens, token_issuer, token_audience, token_realm, roles, audit };
    CredentialFiles { access, chain: config.grpc_certificate.clone(), key: config.grpc_key.clone() }
}

/// Reads the certificate of gRPC and the keys of tokens.
///
/// # Errors
///
/// [`ConfigError`] with the key and the file that it names.
fn read_keys(files: &CredentialFiles) -> Result<CertificateKeys, ConfigError> {
    let of = |key: &'static str| move |words: String| ConfigError::because(format!("dpm.{key}: {words}"));
    let certificate = files.certificate().map_err(of("grpc_certificate"))?;
    Ok(CertificateKeys { certificate, tokens: files.access.tokens().map_err(of("tokens"))? })
}

/// Reads the files that the configuration names besides the device database, as a start does.
///
/// # Errors
///
/// [`ConfigError`] with the key and the file that it names.
pub fn try_files(config: &DpmConfig) -> Result<(), ConfigError> {
    let files = credentials(config);
    read_keys(&files)?;
    files.access.roles().map_err(|words| ConfigError::because(format!("dpm.roles: {words}")))?;
    Ok(())
}

/// Makes the tasks of this node known to an acnetd. Returns the connection, and the address that
/// stands for all front-ends.
fn beside(acnetd: SocketAddr) -> Result<(DaemonBridge, SocketAddr), CommandFailure> {
    let opened = DaemonBridge::open(acnetd).and_then(|daemon| {
        let address = daemon.address()?;
        Ok((daemon, address))
    });
    opened.map_err(|error| {
        let mend = "start it first, or leave the key out to use the network without one";
        CommandFailure::Failed(format!("`acnetd` in [dpm], {acnetd}: {error}; {mend}"))
    })
}

/// Returns the address for talking to front-ends.
pub fn front_ends(config: &DpmConfig) -> SocketAddr {
    let is_local = config.demo || config.acnetd.is_some();
    let usual = if is_local { SocketAddr::from(([127, 0, 0, 1], 0)) } else { SocketAddr::from(([0, 0, 0, 0], 6801)) };
    config.front_ends.unwrap_or(usual)
}

fn take_on(dpm: &mut Service, database: Arc<Database>, bridge: &Bridge) {
    let devices = database.devices().len();
    match dpm.reload(database.clone()) {
        Ok(()) => {
            bridge.know(database);
            info!(devices, "reloaded the device database");
            tell_unrecorded(dpm);
        }
        Err(reason) => error!("the devices stay as they were: {reason}"),
    }
}

/// Warns about readings that the database selects for recording but that can't be recorded.
fn tell_unrecorded(dpm: &Service) {
    for (request, status) in dpm.unrecorded() {
        warn!("{request} is not recorded: {status}");
    }
}

/// Explains why an address can't be bound, with the key of `[dpm]` that sets it.
pub fn explain_bind(address: SocketAddr, key: &str, error: &std::io::Error) -> String {
    listener::explain_bind(address, error).replace("[listen]", &format!("`{key}` in [dpm]"))
}

fn key_of(config: &DpmConfig, address: SocketAddr) -> &'static str {
    if config.listen.contains(&address) { "listen" } else { "front_ends" }
}

/// The file with recorded readings, in the data folder.
const HISTORY: &str = "readings.db";
/// The file of configurations of plots, in the data folder.
const PLOTS: &str = "plots.db";
