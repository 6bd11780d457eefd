//! `rookery dpm` without a further command: serves devices until it is told to stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::failure::{DpmFailure, list, read};
use crate::authority::AccessFiles;
use crate::count::count;
use crate::demo::Simulated;
use crate::driver::{CredentialFiles, DaemonBridge, DpmServer, MulticastGroup, ServeSettings, raise_descriptors};
use crate::grpc::plots::PlotStore;
use crate::history::{HistoryArchive, HistoryBounds};
use crate::rad50::Rad50;
use crate::service::{Dpm as Service, ScrapeNetwork, ServiceOptions, read_passed_task};

/// The options of the service.
#[derive(Debug, Clone, Args)]
pub(super) struct Serve {
    /// Start with a small device database and front-ends simulated in a process of their own
    #[arg(long)]
    demo: bool,
    /// The device database
    #[arg(long, value_name = "FILE.toml", required_unless_present = "demo")]
    database: Option<PathBuf>,
    /// Address for clients: DPM over TCP, and the ACNET client protocol; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6802")]
    listen: Vec<SocketAddr>,
    /// Address for talking to front-ends over UDP [default: 0.0.0.0:6801, or with --demo any free
    /// port on loopback]
    #[arg(long, value_name = "ADDRESS")]
    network: Option<SocketAddr>,
    /// Multicast group of requests to all nodes, 239.128.4.1 at Fermilab, by which clients find
    /// this DPM; @ADDRESS after it is this machine's address on that network
    #[arg(long, value_name = "GROUP")]
    multicast: Option<MulticastGroup>,
    /// Address of an acnetd on this machine, as whose task DPM uses the network, in place of
    /// --network; acnetd's own port for clients is 6802, so --listen needs another one
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["demo", "network", "multicast", "name", "node"])]
    acnetd: Option<SocketAddr>,
    /// The name of this node
    #[arg(long, value_name = "NAME", default_value = "DPM06")]
    name: String,
    /// Address for clients of gRPC (services.daq.DAQ); without it, gRPC is off
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<SocketAddr>,
    /// Address for clients of EPICS, which read devices by Channel Access over TCP and UDP; without
    /// it, Channel Access is off
    #[arg(long, value_name = "ADDRESS")]
    channel_access: Option<SocketAddr>,
    /// Address for clients of EPICS, which read devices by pvAccess over TCP and UDP, such as
    /// 0.0.0.0:5076, where they search; without it, pvAccess is off
    #[arg(long, value_name = "ADDRESS")]
    pv_access: Option<SocketAddr>,
    /// The certificates of the gRPC port, PEM, the port's own first; with them it accepts only TLS
    #[arg(long, value_name = "FILE", requires_all = ["grpc", "grpc_key"])]
    grpc_certificate: Option<PathBuf>,
    /// The key of the first certificate, PEM
    #[arg(long, value_name = "FILE", requires = "grpc_certificate")]
    grpc_key: Option<PathBuf>,
    /// Database for configurations of plots, which clients of gRPC save with a token [default: in
    /// memory with --demo, otherwise none are kept]
    #[arg(long, value_name = "FILE.db", requires = "grpc")]
    plots: Option<PathBuf>,
    /// Database for the readings to record, which the device database lists [default: in memory
    /// with --demo, otherwise nothing is recorded]
    #[arg(long, value_name = "FILE.db")]
    history: Option<PathBuf>,
    /// Days after which recorded readings are deleted
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    history_days: u64,
    /// MiB that recorded readings may take; the oldest are deleted first
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    history_mib: u64,
    /// Milliseconds after which clients that read once (`@I`) are told that a front-end is silent
    #[arg(long, value_name = "MILLIS", default_value_t = ServiceOptions::USUAL.once, value_parser = clap::value_parser!(u64).range(500..=60_000))]
    answer_within: u64,
    /// Tasks of front-ends that clients of the ACNET protocol may reach through this node; empty
    /// for none
    #[arg(long, value_name = "TASKS", value_delimiter = ',', default_value = "ACNET,RETDAT,GETS32,FTPMAN")]
    pass_on: Vec<String>,
    /// Trunk and node number of this node, four hexadecimal digits
    #[arg(long, value_name = "NODE", default_value = "0ad6")]
    node: String,
    /// Network that may read /metrics of the clients' port besides this machine, such as
    /// 10.0.0.0/8; may be given several times
    #[arg(long, value_name = "NETWORK")]
    metrics_network: Vec<ScrapeNetwork>,
    #[command(flatten)]
    access: AccessFiles,
}

impl Serve {
    /// Serves until a signal ends it.
    pub(super) fn run(self) -> Result<(), DpmFailure> {
        raise_descriptors();
        let mut database = read(self.database.as_deref())?;
        let mut network = self.network;
        let _simulator = if self.demo {
            let simulator = Simulated::start(self.database.as_deref())
                .map_err(|error| DpmFailure::new(format!("the simulated front-ends can't be started: {error}")))?;
            database = database.with_nodes_at(simulator.address());
            network = network.or(Some(SocketAddr::from(([127, 0, 0, 1], 0))));
            Some(simulator)
        } else {
            None
        };
        let bridge = self.acnetd.map(beside).transpose()?;
        if let Some((_, address)) = &bridge {
            database = database.with_nodes_at(*address);
            network = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        }
        let name = Rad50::parse(&self.name)
            .map_err(|_| DpmFailure::new("--name: expected up to six of A-Z, 0-9, $, . and %"))?;
        let address = u16::from_str_radix(&self.node, 16)
            .map_err(|_| DpmFailure::new("--node: expected four hexadecimal digits, such as 0ad6"))?;
        let (name, address) = bridge.as_ref().map_or((name, address), |(bridge, _)| (bridge.name(), bridge.node()));
        let named = self.pass_on.iter().filter(|name| !name.is_empty());
        let tasks = named
            .map(|name| read_passed_task(name).map_err(|what| DpmFailure::new(format!("--pass-on: {name:?}: {what}"))));
        let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
        let front_ends = network.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 6801)));
        let acnetd = bridge.as_ref().map(|(_, address)| *address);
        let options = ServiceOptions { name, address, acnetd, once: self.answer_within, ..ServiceOptions::default() };
        let settings = ServeSettings { clients: self.listen.clone(), front_ends, options };
        let devices = database.devices().len();
        let (authority, words) = self.access.open().map_err(|words| DpmFailure { words, code: ExitCode::from(78) })?;
        let server =
            DpmServer::open(settings, Arc::new(database)).map_err(|error| DpmFailure::new(error.to_string()))?;
        let server = match self.archive()? {
            Some(archive) => {
                server.with_history(archive).map_err(|error| DpmFailure::new(format!("--history: {error}")))?
            }
            None => server,
        };
        let mut server = match self.grpc {
            Some(listen) => {
                let plots = self.plots()?;
                server.with_grpc(listen, plots).map_err(|error| DpmFailure::new(format!("--grpc {listen}: {error}")))?
            }
            None => server,
        };
        if let Some(group) = self.multicast {
            server = server
                .with_multicast(group)
                .map_err(|error| DpmFailure::new(format!("--multicast {group}: {error}")))?;
        }
        server = match self.channel_access {
            Some(listen) => server
                .with_channel_access(listen)
                .map_err(|error| DpmFailure::new(format!("--channel-access {listen}: {error}")))?,
            None => server,
        };
        server = match self.pv_access {
            Some(listen) => server
                .with_pv_access(listen)
                .map_err(|error| DpmFailure::new(format!("--pv-access {listen}: {error}")))?,
            None => server,
        };
        let failed = |error: std::io::Error| DpmFailure::new(format!("--acnetd: {error}"));
        let _bridge = match bridge {
            Some((bridge, _)) => Some(bridge.start(server.network_address().map_err(failed)?).map_err(failed)?),
            None => None,
        };
        let secrets = CredentialFiles { access: self.access.clone(), chain: self.grpc_certificate, key: self.grpc_key };
        let keyring = server.grpc_keys();
        if let Some(keyring) = &keyring {
            keyring.replace(secrets.read().map_err(|words| DpmFailure { words, code: ExitCode::from(78) })?);
        }
        let addresses = server.addresses().map_err(|error| DpmFailure::new(error.to_string()))?;
        server.set_authority(authority);
        server.pass_on_to(tasks);
        server.let_scrape(self.metrics_network);
        println!("DPM serves {} on {}.", count(devices, "device"), list(&addresses));
        if let Some(address) = server.grpc_address() {
            println!("It speaks gRPC on {address}.");
        }
        if let Some(address) = server.channel_access_address() {
            println!("Clients of EPICS find its devices on {address}.");
        }
        if let Some(address) = server.pv_access_address() {
            println!("Clients of EPICS find its devices by pvAccess on {address}.");
        }
        match self.access.wants_settings() {
            true => words.iter().for_each(|words| eprintln!("rookery: {words}")),
            // Settings were not configured, so this is no fault.
            false => {
                println!("It serves readings only: settings need --keytab with --principal, or --tokens, and --roles.")
            }
        }
        if let Some(address) = addresses.first().filter(|_| self.demo) {
            println!("Try it: acget -H {} -P {} M:OUTTMP", address.ip(), address.port());
        }
        let hangup = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&hangup))
            .map_err(|error| DpmFailure::new(error.to_string()))?;
        let ends = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            // The first signal stops the service properly, so that all recorded readings are
            // written; a second one ends it at once.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&ends))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&ends)))
                .map_err(|error| DpmFailure::new(error.to_string()))?;
        }
        let (path, access) = (self.database.filter(|_| !self.demo), self.access);
        let mut is_new = true;
        let turn = |dpm: &mut Service, _| {
            if std::mem::take(&mut is_new) {
                tell_unrecorded(dpm);
            }
            if hangup.swap(false, Ordering::Relaxed) {
                if let Some(path) = &path {
                    reload(dpm, path, acnetd);
                    is_new = true;
                }
                match access.roles() {
                    Ok(roles) => dpm.set_roles(roles),
                    Err(words) => eprintln!("rookery: the roles were not reloaded, and stay as they were: {words}"),
                }
                match (&keyring, secrets.read()) {
                    (Some(keyring), Ok(keys)) => keyring.replace(keys),
                    (_, Err(words)) => eprintln!(
                        "rookery: the certificate and the keys were not reloaded, and stay as they were: {words}"
                    ),
                    (None, Ok(_)) => {}
                }
            }
            ends.load(Ordering::Relaxed)
        };
        server.run(turn).map_err(|error| DpmFailure::new(error.to_string()))
    }
}

/// Makes the tasks of this node known to an acnetd. Returns the connection, and the address that
/// stands for all nodes.
fn beside(acnetd: SocketAddr) -> Result<(DaemonBridge, SocketAddr), DpmFailure> {
    let open = || {
        let bridge = DaemonBridge::open(acnetd)?;
        let address = bridge.address()?;
        Ok((bridge, address))
    };
    open().map_err(|error: std::io::Error| DpmFailure::new(format!("--acnetd {acnetd}: {error}")))
}

impl Serve {
    /// Opens the configurations of plots: the file of `--plots`, or in memory for the
    /// demonstration; without either there are none.
    fn plots(&self) -> Result<Option<PlotStore>, DpmFailure> {
        match &self.plots {
            Some(path) => {
                PlotStore::open(path).map_err(|error| DpmFailure::new(format!("{}: {error}", path.display()))).map(Some)
            }
            None if self.demo => PlotStore::in_memory().map_err(|error| DpmFailure::new(error.to_string())).map(Some),
            None => Ok(None),
        }
    }

    /// Opens the archive of readings: the file of `--history`, or one in memory for the
    /// demonstration; without either there is none.
    fn archive(&self) -> Result<Option<HistoryArchive>, DpmFailure> {
        let age = self.history_days.saturating_mul(86_400);
        let bounds = HistoryBounds { age, size: self.history_mib.saturating_mul(1 << 20) };
        match &self.history {
            Some(path) => HistoryArchive::open(path, bounds)
                .map_err(|error| DpmFailure::new(format!("{}: {error}", path.display())))
                .map(Some),
            None if self.demo => {
                HistoryArchive::in_memory(bounds).map_err(|error| DpmFailure::new(error.to_string())).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// Applies the current database file, or logs the reason and keeps the old one.
fn reload(dpm: &mut Service, path: &Path, nodes_at: Option<SocketAddr>) {
    let taken = read(Some(path)).map_err(|failure| failure.words).and_then(|database| {
        let database = match nodes_at {
            Some(address) => database.with_nodes_at(address),
            None => database,
        };
        let devices = database.devices().len();
        dpm.reload(Arc::new(database)).map(|()| devices).map_err(str::to_owned)
    });
    match taken {
        Ok(devices) => println!("The device database was reloaded: {}.", count(devices, "device")),
        Err(words) => eprintln!("rookery: the device database was not reloaded, and stays as it was: {words}"),
    }
}

/// Logs the requests that the database wants recorded and that can't be.
fn tell_unrecorded(dpm: &Service) {
    for (request, status) in dpm.unrecorded() {
        eprintln!("rookery: {request} is not recorded: {status}");
    }
}
