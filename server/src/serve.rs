//! From start to stop: the shards, signals, reload, shutdown.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rookery_hub::Registry;
use rookery_modules::process::Wish;
use rookery_shard::{Census, Generation, Running};
use rookery_store::Background;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tracing::{error, info, warn};

use crate::acme::{Plan, Renewal};
use crate::config::WrittenNetwork;
use crate::database;
use crate::failure::Failure;
use crate::listener::{Kind, Listener};
use crate::loaded::{Loaded, new_certificates, reload};
use crate::logging;
use crate::start::Start;

/// What is to be done when the server has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing.
    Exit,
    /// To start it again: an administrator wishes it.
    Restart,
}

/// Serves until SIGTERM or SIGINT, or until an administrator ends it; a second signal stops at once.
///
/// # Errors
///
/// [`Failure::Failed`] if the operating system refuses signals or threads.
pub fn run(mut start: Start) -> Result<Ending, Failure> {
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2]);
    let mut signals = signals.map_err(|error| Failure::Failed(format!("no signals can be received: {error}")))?;
    let wish = Arc::new(OnceLock::new());
    let wished = wish.clone();
    start.shared.process.listen(move |wish| {
        // The signal wakes the thread that waits below; one that can't be raised leaves the server running.
        let _ = wished.set(wish);
        if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
            error!(%error, "an administrator wishes the server to stop, but it can't");
        }
    });
    let running = Threads::start(&mut start)?;
    start.announce()?;
    loop {
        for signal in signals.wait() {
            match signal {
                SIGHUP => load_again(&mut start, &running),
                SIGUSR1 => tell(&start, &running),
                SIGUSR2 => take_certificates(&mut start, &running),
                _ => {
                    stop(start, running, &mut signals)?;
                    let restart = wish.get() == Some(&Wish::Restart);
                    return Ok(if restart { Ending::Restart } else { Ending::Exit });
                }
            }
        }
    }
}

/// What runs besides this thread.
struct Threads {
    shards: Running,
    /// `None` if no port is for it.
    web: Option<rookery_web::Running>,
    /// Gets certificates; only where a port is there to prove who we are.
    renewal: Option<Renewal>,
}

impl Threads {
    fn start(start: &mut Start) -> Result<Threads, Failure> {
        let listeners = std::mem::take(&mut start.listeners);
        let (web, streams): (Vec<_>, Vec<_>) =
            listeners.into_iter().partition(|listener| matches!(listener.kind, Kind::Web | Kind::WebTls));
        let shards = start_shards(start, streams)?;
        let web = web
            .into_iter()
            .map(|listener| rookery_web::Listener { tls: listener.kind == Kind::WebTls, socket: listener.socket });
        let web: Vec<_> = web.collect();
        let challenges = rookery_web::acme::Challenges::default();
        let renewal = if web.is_empty() { None } else { Some(renew(&start.loaded, challenges.clone())?) };
        let front = if web.is_empty() {
            None
        } else {
            let folder = start.loaded.source.folder.path().join("uploads");
            let files = rookery_web::upload::Files::new(folder, start.database.stores.slots.clone());
            let data = start.loaded.source.folder.path().to_owned();
            let reach = rookery_web::Reach {
                door: shards.door(),
                files,
                challenges,
                chat: rookery_web::chat::Files::new(start.loaded.source.folder.path()),
                stores: start.database.stores.clone(),
                modules: start.shared.clone(),
                export: Arc::new(move |jid, stores| crate::user::export(&data, jid, stores)),
            };
            let front = rookery_web::start(web, web_settings(&start.loaded), reach);
            Some(front.map_err(|error| Failure::Failed(format!("the web front can't be started: {error}")))?)
        };
        Ok(Threads { shards, web: front, renewal })
    }

    /// Goes by another generation of certificates and settings.
    fn take(&self, loaded: &Loaded) {
        self.shards.reload(&Arc::new(generation(loaded)));
        if let Some(web) = &self.web {
            web.reload(web_settings(loaded));
        }
    }

    /// Goes by another generation of everything.
    fn reload(&self, loaded: &Loaded) {
        self.take(loaded);
        if let Some(renewal) = &self.renewal {
            renewal.change(plan(loaded));
        }
    }
}

/// Gets certificates. The signal has this thread read them.
fn renew(loaded: &Loaded, challenges: rookery_web::acme::Challenges) -> Result<Renewal, Failure> {
    Renewal::start(plan(loaded), challenges, || {
        if let Err(error) = signal_hook::low_level::raise(SIGUSR2) {
            error!(%error, "there are new certificates, but they can't be read: send SIGHUP");
        }
    })
}

fn plan(loaded: &Loaded) -> Option<Plan> {
    Plan::of(&loaded.config, &loaded.source.folder)
}

fn start_shards(start: &Start, listeners: Vec<Listener>) -> Result<Running, Failure> {
    let background = Background::new(start.shards.min(4))
        .map_err(|error| Failure::Failed(format!("no threads can be started: {error}")))?;
    let shared = start.shared.clone();
    let listeners = listeners
        .into_iter()
        .map(|listener| rookery_shard::Listener { direct_tls: listener.kind == Kind::C2sTls, socket: listener.socket });
    let key: [u8; 8] = database::random()?;
    let keys = RandomState::new();
    let running = rookery_shard::start(rookery_shard::Start {
        shards: start.shards,
        listeners: listeners.collect(),
        generation: Arc::new(generation(&start.loaded)),
        stores: start.database.stores.clone(),
        background,
        registry: Arc::new(move || Registry::new(rookery_modules::table(&shared))),
        ids: Arc::new(unpredictable),
        keys: [1, 2, 3, 4].map(|part| keys.hash_one((key, part))),
    });
    running.map_err(|error| Failure::Failed(format!("the shards can't be started: {error}")))
}

/// What the shards need of a configuration.
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
        bosh: config.web.bosh_terms,
    }
}

/// What the web front needs of one.
fn web_settings(loaded: &Loaded) -> rookery_web::Settings {
    let config = &loaded.config;
    let networks = |written: &[WrittenNetwork]| written.iter().map(|network| network.network).collect();
    rookery_web::Settings {
        domains: config.domains.iter().map(|domain| domain.name.clone()).collect(),
        tls: loaded.tls.clone(),
        trusted_proxies: networks(&config.web.trusted_proxies),
        proxy_protocol: config.web.proxy_protocol,
        metrics_networks: networks(&config.web.metrics_networks),
        api_networks: networks(&config.web.api_networks),
        admin_networks: networks(&config.web.admin_networks),
        hub: loaded.settings.clone(),
        decoy: loaded.policy.decoy.clone(),
        chat: config.web.chat,
        plaintext: config.login.plaintext(),
        public_host: config.web.public_host.clone(),
        connections: config.web.connections,
        bosh: config.web.bosh.then(|| rookery_web::bosh::Settings {
            origins: config.web.bosh_origins.clone(),
            compression: config.web.bosh_compression,
            most_bytes: config.limits.after_login.bytes,
        }),
    }
}

fn load_again(start: &mut Start, running: &Threads) {
    match reload(&start.loaded) {
        Ok(reloaded) => {
            for reason in &reloaded.restart {
                warn!("{reason}");
            }
            start.loaded = reloaded.loaded;
            running.reload(&start.loaded);
            logging::reload(&start.loaded.config.log);
            info!("configuration and certificates were read again");
        }
        Err(failure) => error!("nothing was changed: {failure}"),
    }
}

fn take_certificates(start: &mut Start, running: &Threads) {
    match new_certificates(&start.loaded) {
        Ok(loaded) => {
            start.loaded = loaded;
            running.take(&start.loaded);
            info!("certificates were read again");
        }
        Err(failure) => error!("the certificates stay as they were: {failure}"),
    }
}

/// What the shards have counted since the start.
fn tell(start: &Start, running: &Threads) {
    let Census { counters, sessions, .. } = running.shards.census();
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
        "counted since the start"
    );
    if start.loaded.config.profile {
        info!("stages of stanzas with many recipients, all shards:\n{}", counters.stages);
    } else {
        info!("stages are not measured: set `profile = true` and send SIGHUP");
    }
}

/// Ends all streams, gives their clients a few seconds, and closes the database last.
fn stop(start: Start, threads: Threads, signals: &mut Signals) -> Result<(), Failure> {
    let Threads { shards: running, web, renewal } = threads;
    drop(renewal);
    let Census { sessions, .. } = running.census();
    info!(sessions, "stopping; a second signal stops at once");
    // The shards first: what they say last to clients of BOSH leaves through the web front.
    running.stop();
    let web_ended = web.is_none_or(rookery_web::Running::stop);
    let deadline = Instant::now() + PATIENCE;
    while !running.is_finished() && Instant::now() < deadline {
        if signals.pending().any(|signal| matches!(signal, SIGTERM | SIGINT)) {
            return Err(Failure::Failed("stopped at once by a second signal".into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let clean = web_ended && if running.is_finished() { running.join() } else { true };
    start.database.close();
    if clean {
        Ok(())
    } else {
        Err(Failure::Failed("a part of it had failed; please report what the log says as a bug".into()))
    }
}

/// For stream ids, on which other protocols build (RFC 6120 §4.7.3): from the operating system, or, should that fail, from the keys
/// that every process draws at its start.
fn unpredictable() -> u128 {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let (a, b) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        return u128::from(a) << 64 | u128::from(b);
    }
    u128::from_ne_bytes(bytes)
}

/// How long clients may take to read the end of their streams.
const PATIENCE: Duration = Duration::from_secs(7);
