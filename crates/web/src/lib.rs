//! The web front: everything that uses HTTP, on separate ports.
//!
//! It has its own small runtime, on one thread, so that nothing that a browser does can hold up a
//! shard. A WebSocket is here for the duration of its opening handshake; then its socket, TLS
//! included, goes to a shard by letter and is a session like any other (see
//! [`rookery_shard::Handed`]). The same happens to XMPP clients that connect to the port for
//! browsers and say so by ALPN (XEP-0368), and to other servers, so that one port can serve all of
//! them.
//!
//! # Invariants
//!
//! - A peer's use is bounded: connections in total and per address, seconds for handshakes, heads,
//!   bodies and for reading an answer, bytes of a head and of a body.
//! - A client's statements about its address count only if it connects through a proxy that the
//!   operator trusts.
//! - Nothing here touches a shard's state: letters go out, counts come back.
//!
//! # Layout
//!
//! `accept` takes connections, `places` admits them, `hello` finds other servers among them,
//! [`conduit`] is a connection with or without TLS, [`proxy`] reads the headers of proxies,
//! `exchange` reads requests and keeps those that wait, `exit` takes connections out of it;
//! `client` is the other end; `route` dispatches requests to [`websocket`], [`bosh`],
//! [`discovery`], [`metrics`], [`upload`], [`chat`], [`acme`], [`api`], [`admin`], [`guests`],
//! `devices`. `proof` checks passwords that are entered on pages, `address` finds the addresses of
//! pages, [`html`] escapes their content, `language` is the reader's, `words` are the texts for
//! administrators. [`control`] is the API for commands on this machine. `access` guards the parts
//! for operators, [`site`] restricts the pages that may send requests, `ask` puts questions to the
//! shards, `form` parses requests, `coding` compresses responses. `own_files` are the operator's.
//! `reply` and `body` are responses, [`range`] the requested part of a file; [`backups`] sends one
//! as a file. `storage` keeps uploaded files, [`bucket`] keeps them elsewhere. [`health`] checks
//! the space on the disk, `readiness` tells balancers, `machine` measures the process. [`samples`]
//! are the data of the admin page's graphs, [`history`] their past; [`bounds`] declares the limits
//! for strangers. [`comparison`] compares the server with its configuration, [`records`] checks the
//! DNS records of domains, `doctor` finds problems; `https` sends requests to other servers.
//! [`events`] passes events to other programs, [`traces`] sends measured times to a collector.
//! [`readings`] is the interface to devices for the API. `room_rows` and `account_list` are the
//! rooms and accounts of lists.

mod accept;
mod access;
mod account_list;
pub mod acme;
mod address;
pub mod admin;
pub mod api;
mod ask;
pub mod backups;
mod body;
pub mod bosh;
pub mod bounds;
pub mod bucket;
pub mod chat;
mod client;
mod coding;
pub mod comparison;
pub mod conduit;
pub mod control;
mod devices;
pub mod discovery;
mod doctor;
pub mod events;
mod exchange;
mod exit;
mod form;
pub mod guests;
pub mod health;
mod hello;
pub mod history;
pub mod html;
mod https;
mod language;
mod machine;
pub mod metrics;
mod own_files;
mod places;
mod proof;
pub mod proxy;
pub mod range;
mod readiness;
pub mod readings;
pub mod records;
mod reply;
mod room_rows;
mod route;
pub mod samples;
pub mod site;
mod storage;
pub mod traces;
pub mod upload;
pub mod websocket;
mod words;

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;

use rookery_base::lock::{read, write};
use rookery_hub::{Domain, Network};
use rookery_operations::action_log::ActionLog;
use rookery_operations::events::EventLog;
use rookery_operations::logins::Logins;
use rookery_operations::process::Process;
use rookery_operations::rooms;
use rookery_sasl::server::Decoy;
use rookery_shard::{Door, LoginTerms};
use rookery_store::Stores;
use rookery_stream::tls::TlsSettings;
use tokio::sync::{Semaphore, watch};

/// One generation of the operator's settings. A reload makes a new one; existing connections keep
/// theirs.
#[derive(Debug, Clone)]
pub struct WebSettings {
    /// The served domains, the default one first.
    pub domains: Vec<String>,
    /// The certificates.
    pub tls: TlsSettings,
    /// Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: Vec<Network>,
    /// True if connections from these proxies begin with a header of the PROXY protocol, version 2.
    pub proxy_protocol: bool,
    /// True if other servers that name themselves by ALPN are passed to the shards.
    pub takes_servers: bool,
    /// Networks from which `/metrics` may be read.
    pub metrics_networks: Vec<Network>,
    /// Networks that may use the API.
    pub api_networks: Vec<Network>,
    /// Networks that may use the admin page.
    pub admin_networks: Vec<Network>,
    /// Domains with their modules.
    pub hub: Arc<rookery_hub::Settings>,
    /// The stand-in against which a password of an unknown account is checked, so that the check
    /// takes as long.
    pub decoy: Decoy,
    /// True if the chat page is served.
    pub chat: bool,
    /// The name of the server on the pages for visitors; `None` for that of the domain.
    pub title: Option<String>,
    /// The file of its picture on these pages.
    pub logo: Option<PathBuf>,
    /// The folder of the operator's own files, if there is one.
    pub own_files: Option<PathBuf>,
    /// Networks from which clients may log in without TLS.
    pub plaintext: Vec<Network>,
    /// The bounds on attempts to sign in.
    pub logins: LoginTerms,
    /// The host and port under which browsers find the server, if these differ from the header
    /// `Host`.
    pub public_host: Option<String>,
    /// The most connections at a time.
    pub connections: usize,
    /// The most connections of one remote address at a time; 0 for any number.
    pub connections_per_address: u32,
    /// The names under which it is known, and the sites whose pages may use it.
    pub names: site::KnownNames,
    /// The settings of BOSH (XEP-0124); `None` if it is switched off.
    pub bosh: Option<bosh::BoshSettings>,
    /// The certificates, that of the default domain first, as operators see them.
    pub certificates: Vec<ServedCertificate>,
    /// Changes of the configuration that need a restart.
    pub restart: Vec<comparison::ChangedKey>,
    /// The part that looks up the domains' records in DNS.
    pub records: records::Looker,
}

/// A certificate as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedCertificate {
    /// The file that contains it.
    pub file: PathBuf,
    /// The domains that it is served for.
    pub names: Vec<String>,
    /// The last second of its validity, since 1970.
    pub not_after: i64,
}

impl ServedCertificate {
    /// Returns the end of its validity, in milliseconds since 1970.
    pub(crate) fn ends_ms(&self) -> u64 {
        u64::try_from(self.not_after).unwrap_or(0).saturating_mul(1000)
    }
}

/// The constant facts about this run of the server, and handles on the process.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The time of its start, in milliseconds since 1970.
    pub started_ms: u64,
    /// The data folder.
    pub folder: PathBuf,
    /// The name of this node of a cluster; empty if there is no cluster.
    pub node: String,
    /// The part that runs the shards.
    pub process: Process,
    /// The part that compares the configuration with its file.
    pub comparer: comparison::Comparer,
    /// The log of the process.
    pub log: control::log::Log,
}

/// A listening socket.
#[derive(Debug)]
pub struct WebListener {
    /// The socket, bound and listening.
    pub socket: TcpListener,
    /// True if clients begin with TLS.
    pub tls: bool,
}

/// The running front.
#[derive(Debug)]
pub struct RunningWeb {
    shared: Arc<WebShared>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

/// The state that all connections share.
pub(crate) struct WebShared {
    settings: RwLock<Arc<WebSettings>>,
    pub door: Door,
    pub files: upload::UploadFiles,
    pub chat: chat::ChatFiles,
    pub challenges: acme::Challenges,
    pub stores: Stores,
    pub action_log: ActionLog,
    pub logins: Logins,
    pub instance: Instance,
    pub samples: samples::Samples,
    /// The free space on the disk over the last days.
    pub disk: health::Disk,
    /// The points of the last thirty days.
    pub history: history::History,
    pub admin: admin::Admin,
    /// The port of a listener with TLS.
    pub https_port: Option<u16>,
    /// The folder where exports are written.
    exports_folder: PathBuf,
    /// Permits one export at a time, since it occupies one of the few blocking threads.
    exports: Semaphore,
    /// The part that makes backups, one at a time.
    pub backups: backups::BackupMaker,
    pub counts: metrics::WebCounts,
    /// The cost of observing the server.
    pub watching: api::top::Watching,
    /// The part that reads devices, if there is one, and the open feeds.
    pub readings: Option<Arc<dyn readings::Readings>>,
    pub feeds: readings::OpenFeeds,
    /// The events for other programs, and the counts of posted ones.
    pub events: EventLog,
    pub posted: Arc<events::post::PostCounts>,
    /// The counts of posted spans.
    pub traced: Arc<traces::TraceCounts>,
    /// Counts the files of their own data that users have downloaded.
    pub files_of_late: guests::FilesOfLate,
    /// The number of BOSH requests that wait for their answers.
    pub waiting: AtomicUsize,
    pub encoder: coding::Encoder,
}

/// The parts of the server that the front reaches.
pub struct Reach {
    /// The shards.
    pub door: Door,
    /// The files that users share.
    pub files: upload::UploadFiles,
    /// The files of the chat page.
    pub chat: chat::ChatFiles,
    /// The answers to challenges by which authorities check a domain before they issue
    /// certificates.
    pub challenges: acme::Challenges,
    /// The data of all accounts and rooms, which the shards use as well.
    pub stores: Stores,
    /// The log of administrators' actions.
    pub action_log: ActionLog,
    /// The latest logins and failures to log in.
    pub logins: Logins,
    /// This run of the server.
    pub instance: Instance,
    /// The folder where exports of accounts are written, each in a file without a name.
    pub exports: PathBuf,
    /// The part that makes backups.
    pub backups: backups::BackupMaker,
    /// The part that reads devices, if there is one.
    pub readings: Option<Arc<dyn readings::Readings>>,
    /// The events for other programs.
    pub events: EventLog,
    /// The address to which they are posted, if there is one.
    pub posts: Option<events::post::PostSettings>,
    /// The collector of traces, if there is one.
    pub traces: Option<traces::TraceSettings>,
    /// The control socket, already bound; `None` if there is none.
    pub control: Option<UnixListener>,
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reach").field("door", &self.door).finish_non_exhaustive()
    }
}

/// Starts the front on a thread of its own.
///
/// # Errors
/// The system's error if it provides no thread or no descriptor.
pub fn start(listeners: Vec<WebListener>, settings: WebSettings, reach: Reach) -> io::Result<RunningWeb> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING).build()?;
    let Reach {
        door,
        files,
        chat,
        challenges,
        stores,
        action_log,
        logins,
        instance,
        exports,
        backups,
        readings,
        events,
        posts,
        traces,
        control,
    } = reach;
    let settings = RwLock::new(Arc::new(settings));
    let counts = metrics::WebCounts::default();
    let https = listeners.iter().find(|listener| listener.tls).and_then(|listener| listener.socket.local_addr().ok());
    let https_port = https.map(|address| address.port());
    let shared = Arc::new(WebShared {
        settings,
        door,
        files,
        chat,
        challenges,
        stores,
        action_log,
        logins,
        instance,
        samples: samples::Samples::default(),
        disk: health::Disk::default(),
        history: history::History::default(),
        admin: admin::Admin::default(),
        https_port,
        exports_folder: exports,
        exports: Semaphore::new(1),
        backups,
        counts,
        watching: api::top::Watching::default(),
        readings,
        feeds: readings::OpenFeeds::default(),
        events,
        posted: Arc::default(),
        traced: Arc::default(),
        files_of_late: guests::FilesOfLate::default(),
        waiting: AtomicUsize::new(0),
        encoder: coding::Encoder::default(),
    });
    let (stop, stopped) = watch::channel(false);
    let served = shared.clone();
    let serve = move || {
        runtime.block_on(async move {
            if let Some(posts) = posts {
                tokio::spawn(events::post::run(served.events.clone(), posts, served.posted.clone()));
            }
            if let Some(settings) = traces {
                tokio::spawn(traces::run(settings, served.traced.clone()));
            }
            accept::serve(listeners, control, served, stopped).await;
        })
    };
    let thread = std::thread::Builder::new().name("web".into()).spawn(|| rookery_observe::vital(serve))?;
    Ok(RunningWeb { shared, stop, thread })
}

impl RunningWeb {
    /// Replaces the operator's settings.
    pub fn reload(&self, settings: WebSettings) {
        *write(&self.shared.settings) = Arc::new(settings);
    }

    /// Stops the front, and waits for its end. Returns `false` if the thread panicked.
    pub fn stop(self) -> bool {
        // If the receiver is gone, the front has stopped already.
        let _ = self.stop.send(true);
        self.thread.join().is_ok()
    }
}

impl std::fmt::Debug for WebShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("door", &self.door).finish_non_exhaustive()
    }
}

impl WebShared {
    /// Returns the domain of this server that a host is, or is a service of.
    pub fn domain_of(&self, host: &str) -> Option<String> {
        let settings = self.settings();
        let has_rooms = |domain: &Domain| rooms::host(domain).is_some_and(|rooms| rooms == host);
        let found = settings.hub.domains.iter().find(|domain| domain.name == host || has_rooms(domain));
        found.map(|domain| domain.name.clone())
    }

    /// Returns whether a module is on in a domain.
    pub fn has_module(&self, domain: &str, module: &str) -> bool {
        let settings = self.settings();
        settings.hub.domains.iter().any(|found| found.name == domain && found.module(module).is_some())
    }

    pub fn settings(&self) -> Arc<WebSettings> {
        read(&self.settings).clone()
    }
}

/// The threads for blocking work: requests for the shards' counts, and files.
const BLOCKING: usize = 4;
