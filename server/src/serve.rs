//! From start to stop: the shards, signals and reloads; `stopping` ends them.

mod stopping;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use rookery_base::{AddressHash, Completer, chance};
use rookery_cluster::{ClusterEnding, Joined};
use rookery_fanout::View;
use rookery_hub::Registry;
use rookery_operations::process::{Reloaded, Wish};
use rookery_shard::{Door, Generation, Port, RunningShards, ShardCensus};
use rookery_store::Background;
use rookery_web::ServedCertificate;
use rookery_web::backups::BackupMaker;
use rookery_web::comparison::{ComparedValues, Comparer};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use tracing::{error, info, warn};

use crate::acme::{self, AcmePlan, Renewal};
use crate::acme_shared::SharedCertificates;
use crate::cards;
use crate::certificate::ServerCertificate;
use crate::check;
use crate::clock;
use crate::config::{ServerConfig, WrittenNetwork};
use crate::control;
use crate::database;
use crate::dpm;
use crate::failure::CommandFailure;
use crate::listener::{BoundListener, PortKind};
use crate::loaded::{Loaded, compare, new_certificates, reload};
use crate::logging;
use crate::open_files;
use crate::setup::records;
use crate::sockets;
use crate::start::ServerStart;
use crate::supervisor::{self, SupervisorState, Watchdog};
use crate::watch::Watch;
use stopping::{finish, make_room, stop};

/// The next step after the server has stopped.
#[derive(Debug)]
pub enum ServerEnding {
    /// End the process.
    Exit,
    /// Start it again, with these listening sockets: an administrator has requested it.
    Restart(Vec<TcpListener>),
}

/// The events that wake the main thread.
enum WakeCall {
    /// The process has received a signal.
    Signal(i32),
    /// An administrator has requested a stop or a restart.
    Wish(Wish),
    /// An administrator has requested a reload of configuration and certificates.
    Reload(Completer<Reloaded>),
    /// A client has requested a preview of a reload.
    Compare(Completer<Result<ComparedValues, String>>),
    /// Certificates were issued, or the operator's certificate files have changed.
    Certificates,
    /// Other nodes of the cluster have taken over from this process.
    TakenOver,
    /// An operator has requested that this node leave its cluster.
    Leaves,
}

/// Serves until SIGTERM or SIGINT, or until an administrator ends it; a second signal stops at
/// once.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if the operating system refuses signals or threads.
pub fn run(mut start: ServerStart) -> Result<ServerEnding, CommandFailure> {
    let (caller, calls) = mpsc::channel();
    hear_signals(caller.clone())?;
    let wishes = caller.clone();
    // The receiver is gone if the server stops already.
    start.shared.process.listen(move |wish| drop(wishes.send(WakeCall::Wish(wish))));
    let reloads = caller.clone();
    // If the call is dropped, its sender learns that there are no more reloads.
    start.shared.process.reload_by(move |answer| drop(reloads.send(WakeCall::Reload(answer))));
    let sockets = copies(&start.listeners);
    let running = Threads::start(&mut start, &caller)?;
    let watchdog = match Watchdog::start(running.shards.door(), start.shards) {
        Ok(watchdog) => watchdog,
        Err(failure) => {
            stop(start, running, &calls, true)?;
            return Err(failure);
        }
    };
    start.announce();
    supervisor::tell(SupervisorState::Ready);
    sockets::keep(&sockets);
    for call in &calls {
        match call {
            WakeCall::Signal(SIGHUP) => drop(load_again(&mut start, &running)),
            WakeCall::Reload(answer) => answer.complete(load_again(&mut start, &running)),
            WakeCall::Compare(answer) => answer.complete(compare(&start.loaded).map_err(|error| error.to_string())),
            WakeCall::Signal(SIGUSR1) => tell(&start, &running),
            WakeCall::Certificates => take_certificates(&mut start, &running),
            WakeCall::Wish(Wish::Restart) => {
                // Systemd is told of a reload and not of a stop, since the process continues.
                supervisor::tell(SupervisorState::Reloading);
                stop(start, running, &calls, true)?;
                return Ok(ServerEnding::Restart(sockets));
            }
            WakeCall::Signal(_) | WakeCall::Wish(Wish::Stop) | WakeCall::Leaves => break,
            WakeCall::TakenOver => {
                supervisor::tell(SupervisorState::Stopping);
                if let Err(failure) = stop(start, running, &calls, false) {
                    error!("{failure}");
                }
                return Err(CommandFailure::TakenOver);
            }
        }
    }
    supervisor::tell(SupervisorState::Stopping);
    // Connections are refused from now on, unless systemd keeps the sockets.
    drop(sockets);
    stop(start, running, &calls, true)?;
    drop(watchdog);
    Ok(ServerEnding::Exit)
}

/// Returns copies of the listening sockets, in which connections queue until they are accepted.
fn copies(listeners: &[BoundListener]) -> Vec<TcpListener> {
    let copies = listeners.iter().map(|listener| listener.socket.try_clone());
    copies.collect::<Result<_, _>>().unwrap_or_else(|error| {
        warn!(%error, "the ports can't be kept over a restart; raise the limit of open files");
        Vec::new()
    })
}

/// Forwards the signals that a server handles, from a thread of its own.
fn hear_signals(caller: Sender<WakeCall>) -> Result<(), CommandFailure> {
    let failed = |error: std::io::Error| CommandFailure::Failed(format!("no signals can be received: {error}"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1]).map_err(failed)?;
    let hear = move || signals.forever().try_for_each(|signal| caller.send(WakeCall::Signal(signal)));
    std::thread::Builder::new().name("signals".into()).spawn(|| rookery_observe::vital(hear)).map_err(failed)?;
    Ok(())
}

/// The parts that run besides the main thread.
struct Threads {
    shards: RunningShards,
    /// `None` if it has no port.
    relay: Option<rookery_relay::Running>,
    beside: Beside,
}

/// The parts that reach the shards through their door.
struct Beside {
    /// Serves browsers, if it has ports for them, and commands.
    web: rookery_web::RunningWeb,
    /// Carries the messages between nodes of a cluster.
    cluster: Option<rookery_cluster::RunningCluster>,
    /// Renews certificates, if there is a port on which the authority can verify us.
    renewal: Option<Renewal>,
    /// Watches the operator's files.
    watch: Watch,
    /// Serves readings of devices, if that is enabled.
    dpm: Option<dpm::RunningDpm>,
}

impl Threads {
    fn start(start: &mut ServerStart, caller: &Sender<WakeCall>) -> Result<Threads, CommandFailure> {
        let listeners = std::mem::take(&mut start.listeners);
        let (web, others): (Vec<_>, Vec<_>) =
            listeners.into_iter().partition(|listener| matches!(listener.kind, PortKind::Web | PortKind::WebTls));
        let (bytestreams, streams): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|listener| listener.kind == PortKind::Bytestreams);
        let relay = start_relay(start, bytestreams)?;
        let joined = start.joined.take();
        let shards = start_shards(start, streams, joined.as_ref())?;
        match Beside::start(start, caller, shards.door(), web, joined) {
            Ok(beside) => Ok(Threads { shards, relay, beside }),
            Err(failure) => {
                // The sessions of the last process still wait in the shards; from now on they wait
                // for the next one.
                let place = make_room(&start.loaded.source.folder, &shards);
                shards.stop(place.is_some());
                if let Err(late) = finish(shards, place, || false) {
                    error!("{late}");
                }
                Err(failure)
            }
        }
    }

    /// Applies another generation of certificates and settings.
    fn take(&self, loaded: &Loaded) {
        self.shards.reload(&Arc::new(generation(loaded)));
        self.beside.web.reload(web_settings(loaded));
    }

    /// Applies another generation of everything.
    fn reload(&self, loaded: &Loaded) {
        self.take(loaded);
        self.beside.watch.change(&loaded.config);
        if let Some(renewal) = &self.beside.renewal {
            renewal.change(plan(loaded));
        }
        if let Some(dpm) = &self.beside.dpm {
            dpm.reload();
        }
        if let Some(cluster) = &self.beside.cluster {
            cluster.settle(crate::cluster::settings_to_agree_on(&loaded.config));
        }
    }
}

impl Beside {
    fn start(
        start: &mut ServerStart,
        caller: &Sender<WakeCall>,
        door: Door,
        web: Vec<BoundListener>,
        joined: Option<Joined>,
    ) -> Result<Beside, CommandFailure> {
        let ends = caller.clone();
        let cluster = joined.map(|joined| {
            // The receiver is gone if the server stops already.
            joined.run(door.clone(), move |why| {
                drop(ends.send(match why {
                    ClusterEnding::TakenOver => WakeCall::TakenOver,
                    ClusterEnding::Leaves => WakeCall::Leaves,
                }));
            })
        });
        let cluster = cluster.transpose().map_err(|failed| CommandFailure::Failed(failed.to_string()))?;
        let web = web.into_iter().map(|listener| rookery_web::WebListener {
            tls: listener.kind == PortKind::WebTls,
            socket: listener.socket,
        });
        let web: Vec<_> = web.collect();
        let node = start.loaded.config.cluster.node.as_deref();
        let meta = &start.database.stores.meta;
        let shared = node.map(|node| SharedCertificates::new(meta.clone(), node));
        let challenges = match node {
            Some(_) => rookery_web::acme::Challenges::of_cluster(meta.clone()),
            None => rookery_web::acme::Challenges::default(),
        };
        let renewal =
            if web.is_empty() { None } else { Some(renew(&start.loaded, challenges.clone(), shared, caller.clone())?) };
        let comparisons = caller.clone();
        // If the call is dropped, its sender learns that there are no more comparisons.
        let comparer = Comparer::new(move |answer| drop(comparisons.send(WakeCall::Compare(answer))));
        let web = start_web(start, web, door.clone(), challenges, comparer)?;
        let changes = caller.clone();
        // The receiver is gone if the server stops already.
        let watch = Watch::start(&start.loaded.config, move || drop(changes.send(WakeCall::Certificates)))?;
        let dpm = start.dpm.take().map(|opened| opened.start(door)).transpose()?;
        Ok(Beside { web, cluster, renewal, watch, dpm })
    }
}

/// Starts to renew certificates, and makes the main thread read them.
fn renew(
    loaded: &Loaded,
    challenges: rookery_web::acme::Challenges,
    shared: Option<SharedCertificates>,
    caller: Sender<WakeCall>,
) -> Result<Renewal, CommandFailure> {
    // The receiver is gone if the server stops already.
    Renewal::start(plan(loaded), challenges, shared, move || drop(caller.send(WakeCall::Certificates)))
}

fn plan(loaded: &Loaded) -> Option<AcmePlan> {
    AcmePlan::of(&loaded.config, &loaded.source.folder)
}

/// Starts the web front-end for browsers and commands.
fn start_web(
    start: &ServerStart,
    listeners: Vec<rookery_web::WebListener>,
    door: Door,
    challenges: rookery_web::acme::Challenges,
    comparer: Comparer,
) -> Result<rookery_web::RunningWeb, CommandFailure> {
    let (folder, stores) = (&start.loaded.source.folder, &start.database.stores);
    let reach = rookery_web::Reach {
        door,
        files: crate::uploads::files(&start.loaded.config, folder, stores.slots.clone())?,
        challenges,
        chat: rookery_web::chat::ChatFiles::new(folder.path()),
        stores: stores.clone(),
        action_log: start.shared.action_log.clone(),
        logins: start.shared.logins.clone(),
        instance: rookery_web::Instance {
            started_ms: clock::now() * 1000,
            folder: std::path::absolute(folder.path()).unwrap_or_else(|_| folder.path().to_owned()),
            node: start.loaded.config.cluster.node.clone().unwrap_or_default(),
            process: start.shared.process.clone(),
            comparer,
            log: rookery_web::control::log::Log {
                lines: logging::recent().clone(),
                levels: Arc::new(logging::ByCommand),
            },
        },
        exports: folder.path().to_owned(),
        backups: BackupMaker::new({
            let source = start.loaded.source.clone();
            move || crate::backup::write_for_api(&source)
        }),
        readings: start.dpm.as_ref().map(|opened| opened.readings()),
        events: start.shared.events.clone(),
        posts: crate::events::post_settings(&start.loaded.config, folder)?,
        traces: crate::traces::collector(&start.loaded.config)?,
        control: control::bind(folder),
    };
    let front = rookery_web::start(listeners, web_settings(&start.loaded), reach);
    front.map_err(|error| CommandFailure::Failed(format!("the web front can't be started: {error}")))
}

/// Starts the relay; `None` if it has no port, in which case the modules offer none.
fn start_relay(
    start: &ServerStart,
    listeners: Vec<BoundListener>,
) -> Result<Option<rookery_relay::Running>, CommandFailure> {
    if listeners.is_empty() {
        return Ok(None);
    }
    let sockets = listeners.into_iter().map(|listener| listener.socket).collect();
    let running = rookery_relay::start(sockets, &start.shared.relay);
    running
        .map(Some)
        .map_err(|error| CommandFailure::Failed(format!("the relay of bytestreams can't be started: {error}")))
}

fn start_shards(
    start: &ServerStart,
    listeners: Vec<BoundListener>,
    joined: Option<&Joined>,
) -> Result<RunningShards, CommandFailure> {
    let background = Background::new(start.shards.min(4))
        .map_err(|error| CommandFailure::Failed(format!("no threads can be started: {error}")))?;
    let shared = start.shared.clone();
    let listeners = listeners
        .into_iter()
        .map(|listener| rookery_shard::ShardListener { port: port(listener.kind), socket: listener.socket });
    let key: [u8; 8] = database::random()?;
    let keys = RandomState::new();
    let keys = [1, 2, 3, 4].map(|part| keys.hash_one((key, part)));
    let shards = rookery_shard::Start {
        threads: rookery_shard::ShardThreads { shards: start.shards, interface: start.interface },
        listeners: listeners.collect(),
        connections: open_files::connections(),
        generation: Arc::new(generation(&start.loaded)),
        stores: start.database.stores.clone(),
        background,
        registry: Arc::new(move || Registry::new(rookery_modules::table(&shared))),
        ids: Arc::new(unpredictable),
        view: joined.map_or_else(|| View::alone(start.shards), |joined| joined.view.clone()),
        addresses: joined.map_or_else(|| AddressHash::of_process(keys), |joined| joined.addresses.clone()),
        outlet: joined.map(Joined::outlet),
        secrets: keys,
    };
    info!(shards = start.shards, interface = start.interface.name(), "the shards start");
    // In a cluster, the homes of some cards may have moved to other nodes, which get those.
    let cards = cards::take(&start.loaded.source.folder, cards::longest_wait(&start.loaded.settings));
    let running = rookery_shard::start(shards, cards);
    running.map_err(|error| CommandFailure::Failed(format!("the shards can't be started: {error}")))
}

/// Returns the protocol that the shards use on a port of theirs.
fn port(kind: PortKind) -> Port {
    match kind {
        PortKind::C2sTls => Port::ClientsTls,
        PortKind::S2s => Port::Servers,
        PortKind::S2sTls => Port::ServersTls,
        PortKind::Components => Port::Components,
        _ => Port::Clients,
    }
}

/// Returns the part of a generation that the shards need.
fn generation(loaded: &Loaded) -> Generation {
    let config = &loaded.config;
    Generation {
        settings: loaded.settings.clone(),
        policy: loaded.policy.clone(),
        tls: Some(loaded.tls.clone()),
        plaintext: config.login.plaintext(),
        limits: config.limits.after_login,
        login_seconds: u64::from(config.limits.login_seconds),
        connections_per_address: config.limits.connections_per_address,
        logins: config.login.terms(),
        bosh: config.web.bosh_terms,
        federation: loaded.federation.as_ref().map(|federation| federation.terms.clone()),
    }
}

/// Returns the part of a generation that the web front-end needs.
fn web_settings(loaded: &Loaded) -> rookery_web::WebSettings {
    let config = &loaded.config;
    let networks = |written: &[WrittenNetwork]| written.iter().map(|network| network.network).collect();
    rookery_web::WebSettings {
        domains: config.domains.iter().map(|domain| domain.name.clone()).collect(),
        tls: loaded.tls.clone(),
        trusted_proxies: networks(&config.web.trusted_proxies),
        proxy_protocol: config.web.proxy_protocol,
        takes_servers: config.federates(),
        metrics_networks: networks(&config.web.metrics_networks),
        api_networks: networks(&config.web.api_networks),
        admin_networks: networks(&config.web.admin_networks),
        hub: loaded.settings.clone(),
        decoy: loaded.policy.decoy.clone(),
        chat: config.web.chat,
        title: config.web.title.clone(),
        logo: config.web.logo.clone(),
        own_files: config.web.files.clone(),
        plaintext: config.login.plaintext(),
        logins: config.login.terms(),
        public_host: config.web.public_host.clone(),
        connections: config.web.connections,
        connections_per_address: config.limits.connections_per_address,
        names: names(config),
        bosh: config.web.bosh.then_some(rookery_web::bosh::BoshSettings {
            compression: config.web.bosh_compression,
            most_bytes: config.limits.after_login.bytes,
        }),
        certificates: loaded.certificates.iter().map(served_certificate).collect(),
        restart: loaded.restart.clone(),
        records: records::looker(config),
    }
}

fn served_certificate(certificate: &ServerCertificate) -> ServedCertificate {
    ServedCertificate {
        file: certificate.file.clone(),
        names: certificate.domains.clone(),
        not_after: certificate.inspection.not_after,
    }
}

/// Returns the names under which browsers may reach us, and the sites whose pages may do so.
fn names(config: &ServerConfig) -> rookery_web::site::KnownNames {
    let domains = config.domains.iter().map(|domain| acme::ascii(&domain.name).unwrap_or_else(|| domain.name.clone()));
    let public = config.web.public_host.as_deref().and_then(rookery_web::site::name).map(str::to_owned);
    let hosts = domains.chain(public).chain(config.web.hosts.iter().cloned()).collect();
    rookery_web::site::KnownNames { hosts, origins: config.web.origins.clone() }
}

fn load_again(start: &mut ServerStart, running: &Threads) -> Reloaded {
    supervisor::tell(SupervisorState::Reloading);
    let reloaded = load_all_again(start, running);
    // This is reported even if nothing has changed, since the old configuration stays in force.
    supervisor::tell(SupervisorState::Ready);
    reloaded
}

fn load_all_again(start: &mut ServerStart, running: &Threads) -> Reloaded {
    match start.database.decoys().and_then(|decoys| reload(&start.loaded, decoys)) {
        Ok(reloaded) => {
            for reason in &reloaded.restart {
                warn!("{reason}");
            }
            start.loaded = reloaded.loaded;
            check::tell(&start.loaded.source, &start.loaded.config);
            running.reload(&start.loaded);
            logging::reload(&start.loaded.config.log);
            rookery_observe::slow().set_limit_ms(start.loaded.config.instruments.slow_ms);
            rookery_observe::reloads().succeeded(crate::clock::now_ms());
            info!("reloaded configuration and certificates");
            Ok(reloaded.restart.iter().map(ToString::to_string).collect())
        }
        Err(failure) => {
            rookery_observe::reloads().failed();
            error!("nothing was changed: {failure}");
            Err(failure.to_string())
        }
    }
}

fn take_certificates(start: &mut ServerStart, running: &Threads) {
    match new_certificates(&start.loaded) {
        Ok(loaded) => {
            start.loaded = loaded;
            running.take(&start.loaded);
            info!("reloaded certificates");
        }
        Err(failure) => error!("the certificates stay as they were: {failure}"),
    }
}

/// Logs the shards' counts since the start.
fn tell(start: &ServerStart, running: &Threads) {
    let ShardCensus { counters, sessions, .. } = running.shards.census();
    let rookery_observe::Counters {
        messages_in,
        presence_in,
        iqs_in,
        errors,
        overflows,
        throttled,
        store_errors,
        archive_lost,
        bound,
        ..
    } = counters;
    info!(
        sessions,
        bound,
        messages_in,
        presence_in,
        iqs_in,
        errors,
        overflows,
        throttled,
        store_errors,
        archive_lost,
        "counters since the start"
    );
    if start.loaded.config.profile {
        info!("stages of stanzas with many recipients, all shards:\n{}", counters.stages);
    } else {
        info!("stages are not measured: set `profile = true` and send SIGHUP");
    }
}

/// Returns a number for stream ids, which other protocols rely on (RFC 6120 §4.7.3): from the
/// operating system, or, should that fail, from the keys that every process draws at its start.
fn unpredictable() -> u128 {
    let mut bytes = [0; 16];
    if chance::fill(&mut bytes).is_err() {
        let (a, b) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        return u128::from(a) << 64 | u128::from(b);
    }
    u128::from_ne_bytes(bytes)
}
