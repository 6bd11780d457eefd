//! Finds the servers of domains in DNS, on a separate thread: SRV records, then addresses (RFC 6120
//! §3.2, XEP-0368).
//!
//! [`Dns`] is the shards' [`Resolver`]: they send a query, continue, and receive the result as a
//! letter. The library is hickory, without its DNSSEC: a name server that the operator trusts
//! states whether an answer is signed. The answers are interpreted in
//! [`rookery_federation::targets`] and [`rookery_stream::tls::trust::tlsa`], which are tested
//! without a network.
//!
//! # Invariants
//!
//! * A missing answer is never taken for "no records": a server that is silent or broken must not
//!   send us to the address of the domain, where something else may listen.
//! * Names are queried with their final dot, so that no search list of this machine turns them into
//!   other names, and the machine's `hosts` file is ignored.
//! * A domain that is an IP address doesn't lead to that address, unless the operator sets a route
//!   to it.
//! * The number of waiting queries is bounded; further queries fail at once. No query takes longer
//!   than half a minute, and domains with dead name servers don't delay others.
//! * While a domain's name servers give no answer, their last answer is used, for an hour at most
//!   (RFC 8767).
//! * TLSA records count if all answers on the way to them are signed. Then it must be known whether
//!   there are any: without an answer about them, the server isn't used (RFC 7673 §3).
//!
//! # Layout
//!
//! `asking` queries a name server, `records` reads its answer, `known` keeps the last answers,
//! `document` finds servers on the web.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use rookery_base::chance;
use rookery_federation::targets::{PORT, SrvTarget, TargetPlan, interleave, plan};
use rookery_federation::{Address, Found, NotFound};
use rookery_observe::{Bound, Most, Per, Unit};
use rookery_shard::Resolver;
use rookery_stream::tls::trust::tlsa::{Associations, MOST as MOST_RECORDS};
use tokio::sync::{Semaphore, mpsc};
use tracing::debug;

use asking::{DnsAnswer, NameServerAsker};
use document::{DocumentReader, MOST_BYTES, MOST_KEPT as MOST_KEPT_READ, MOST_READ, PATIENCE as LONGEST_READ};
use known::{KnownAnswers, MOST_KNOWN};
use records::{end_of_aliases, is_none};

pub use document::{DocumentWeb, HTTPS};
pub use records::{IssueRecord, addresses, associations, issues, targets};

mod asking;
mod document;
mod known;
mod records;

/// The operator's decisions about DNS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolverSettings {
    /// The name servers to query. If there are none, those of this machine are queried.
    pub servers: Vec<SocketAddr>,
    /// True if all name servers validate signatures, and their statement about that is trusted
    /// (DNSSEC).
    pub dnssec: bool,
    /// Domains whose servers are known without a query.
    pub routes: Vec<Route>,
    /// The settings for finding servers on the web, for domains without SRV records (XEP-0487).
    /// `None` if the web isn't used.
    pub web: Option<DocumentWeb>,
}

/// The address of a domain's server, set by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The domain, as in addresses.
    pub domain: String,
    /// The machine, by its name or an address.
    pub host: String,
    /// The port that its server listens on.
    pub port: u16,
    /// True if the server expects TLS from the first byte.
    pub direct_tls: bool,
}

/// The thread that queries DNS. It ends once this is dropped and no query waits.
pub struct Dns {
    questions: mpsc::Sender<ResolverQuestion>,
}

type Tell = Box<dyn FnOnce(Found) + Send>;

struct ResolverQuestion {
    domain: String,
    tell: Tell,
}

impl fmt::Debug for Dns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dns").finish_non_exhaustive()
    }
}

impl Dns {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The error of the operating system if it refuses a thread, or if its configuration of DNS is
    /// needed and can't be read.
    pub fn start(settings: ResolverSettings) -> io::Result<Self> {
        let thread = Thread::new(settings)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (questions, asked) = mpsc::channel(MOST_WAITING);
        let work = move || runtime.block_on(Rc::new(thread).serve(asked));
        std::thread::Builder::new().name("dns".into()).spawn(work)?;
        Ok(Self { questions })
    }
}

impl Resolver for Dns {
    fn resolve(&self, domain: &str, tell: Tell) {
        let question = ResolverQuestion { domain: domain.to_owned(), tell };
        if let Err(refused) = self.questions.try_send(question) {
            let (mpsc::error::TrySendError::Full(question) | mpsc::error::TrySendError::Closed(question)) = refused;
            (question.tell)(Err(NotFound::NoAnswer));
        }
    }
}

/// Looks up a domain at once, on this thread, for operators. Also returns the records, one per
/// line.
pub fn explain(settings: &ResolverSettings, domain: &str) -> (Vec<String>, Found) {
    let mut lines = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(thread)) = (runtime, Thread::new(settings.clone())) else {
        return (vec!["this machine's DNS configuration can't be read".to_owned()], Err(NotFound::NoAnswer));
    };
    let thread = Rc::new(thread);
    if let Some(route) = settings.routes.iter().find(|route| route.domain == domain) {
        lines.push(format!("not asked: `routes` in [federation] says {}:{}", route.host, route.port));
    } else if is_literal(domain) {
        lines.push(
            "not asked: an IP address isn't a domain, and nobody has a certificate for it; `routes` can name it"
                .to_owned(),
        );
    } else if let Ok(ascii) = idna::domain_to_ascii(domain)
        && ascii.contains('.')
    {
        for (service, direct_tls) in [("_xmpps-server", true), ("_xmpp-server", false)] {
            let name = format!("{service}._tcp.{ascii}.");
            match runtime.block_on(thread.targets(&name, direct_tls)) {
                Ok(None) => lines.push(format!("{name} SRV: none")),
                Ok(Some(targets)) => lines.extend(targets.iter().map(|target| {
                    let SrvTarget { priority, weight, host, port, .. } = target;
                    let signed = match (settings.dnssec, target.is_signed) {
                        (false, _) => "",
                        (true, true) => " (signed)",
                        (true, false) => " (not signed)",
                    };
                    format!("{name} SRV: {priority} {weight} {port} {host}{signed}")
                })),
                Err(_) => lines.push(format!("{name} SRV: no answer, or a broken one")),
            }
        }
    }
    let local = tokio::task::LocalSet::new();
    let found = local.block_on(&runtime, thread.answer(domain));
    if let Ok(addresses) = &found {
        lines.extend(addresses.iter().map(|address| {
            let name = address.sni.as_ref().map(|name| format!(", as {name}")).unwrap_or_default();
            format!("{} ({}{name})", address.socket, if address.direct_tls { "direct TLS" } else { "STARTTLS" })
        }));
        let associated: BTreeMap<_, _> =
            addresses.iter().filter_map(|address| address.tlsa.as_ref()).map(|tlsa| (tlsa.name(), tlsa)).collect();
        for (name, tlsa) in associated {
            lines.extend(tlsa.iter().map(|record| format!("{name} TLSA: {record} (signed)")));
        }
    }
    (lines, found)
}

/// Looks up single records, for operators who compare them with the records that they intended.
/// Answers are kept until this is dropped.
pub struct Lookups {
    runtime: tokio::runtime::Runtime,
    thread: Thread,
}

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

impl Lookups {
    /// Creates an instance that works on the caller's thread. Routes of the settings don't count.
    ///
    /// # Errors
    ///
    /// As [`Dns::start`].
    pub fn new(settings: &ResolverSettings) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = Thread::new(ResolverSettings { routes: Vec::new(), web: None, ..settings.clone() })?;
        Ok(Self { runtime, thread })
    }

    /// Returns the addresses of a name, given in A-labels; none if there are none.
    ///
    /// # Errors
    ///
    /// [`NotFound::NoAnswer`]
    pub fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, NotFound> {
        match self.runtime.block_on(self.thread.addresses(name, &SrvTarget::at(name, PORT, false))) {
            Ok(found) => Ok(found.into_iter().map(|address| address.socket.ip()).collect()),
            Err(NotFound::NoServer) => Ok(Vec::new()),
            Err(NotFound::NoAnswer) => Err(NotFound::NoAnswer),
        }
    }

    /// Returns the targets of the SRV records of a name such as `_xmpp-client._tcp.example.org`;
    /// none if there are none.
    ///
    /// # Errors
    ///
    /// [`NotFound::NoAnswer`]
    pub fn targets(&self, name: &str) -> Result<Vec<SrvTarget>, NotFound> {
        let name = format!("{}.", name.trim_end_matches('.'));
        Ok(self.runtime.block_on(self.thread.targets(&name, false))?.unwrap_or_default())
    }
}

impl Lookups {
    /// Returns the CAA records that count for a name, given in A-labels, and the name that has
    /// them: this one, or the nearest name above it that has any (RFC 8659 §3). `None` if no such
    /// name has any.
    ///
    /// # Errors
    ///
    /// [`NotFound::NoAnswer`]
    pub fn issues(&self, name: &str) -> Result<Option<(String, Vec<IssueRecord>)>, NotFound> {
        let mut name = name.trim_end_matches('.');
        while !name.is_empty() {
            let asked = Name::from_ascii(format!("{name}.")).map_err(|_| NotFound::NoServer)?;
            match self.runtime.block_on(self.thread.lookup(&asked, RecordType::CAA)) {
                Ok(DnsAnswer { records, .. }) => {
                    let found = issues(&asked, &records);
                    if !found.is_empty() {
                        return Ok(Some((name.to_owned(), found)));
                    }
                }
                Err(error) if is_none(&error) => {}
                Err(error) => {
                    debug!(name, %error, "DNS gives no answer");
                    return Err(NotFound::NoAnswer);
                }
            }
            name = name.split_once('.').map_or("", |(_, above)| above);
        }
        Ok(None)
    }
}

struct Thread {
    /// The clients, one for each name server.
    askers: Vec<NameServerAsker>,
    settings: ResolverSettings,
    known: RefCell<KnownAnswers>,
    /// `None` if the web isn't used.
    reader: Option<DocumentReader>,
}

/// Returns a client of each name server. Each is separate because the library takes the failure of
/// one for the answer of all.
fn askers(settings: &ResolverSettings) -> Result<Vec<NameServerAsker>, NetError> {
    let (servers, mut options) = if settings.servers.is_empty() {
        let (config, options) = read_system_conf()?;
        (config.name_servers().to_vec(), options)
    } else {
        (settings.servers.iter().map(name_server).collect(), ResolverOpts::default())
    };
    bound(&mut options);
    // The operator has not chosen the name servers of this machine, which may come from DHCP.
    let are_trusted = settings.dnssec && !settings.servers.is_empty();
    servers.into_iter().take(MOST_SERVERS).map(|server| NameServerAsker::new(server, &options, are_trusted)).collect()
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut server = NameServerConfig::udp_and_tcp(address.ip());
    server.connections.iter_mut().for_each(|connection: &mut ConnectionConfig| connection.port = address.port());
    server
}

/// Sets the options that must not depend on the machine. Random case exposes answers that are
/// forged by attackers who can't see our queries.
fn bound(options: &mut ResolverOpts) {
    options.use_hosts_file = ResolveHosts::Never;
    options.case_randomization = true;
    options.timeout = Duration::from_secs(3);
    options.attempts = 2;
    options.positive_min_ttl = Some(Duration::from_secs(30));
    options.positive_max_ttl = Some(Duration::from_secs(3600));
    options.negative_max_ttl = Some(Duration::from_secs(60));
    options.cache_size = MOST_KEPT;
}

impl Thread {
    fn new(settings: ResolverSettings) -> io::Result<Self> {
        let askers = askers(&settings).map_err(io::Error::other)?;
        let reader = settings.web.as_ref().map(DocumentReader::new).transpose().map_err(io::Error::other)?;
        Ok(Self { askers, settings, known: RefCell::default(), reader })
    }

    async fn serve(self: Rc<Self>, mut asked: mpsc::Receiver<ResolverQuestion>) {
        let local = tokio::task::LocalSet::new();
        let places = Arc::new(Semaphore::new(MOST_ASKED));
        let work = async {
            while let Some(ResolverQuestion { domain, tell }) = asked.recv().await {
                // The semaphore is never closed.
                let place = places.clone().acquire_owned().await;
                let thread = self.clone();
                tokio::task::spawn_local(async move {
                    tell(thread.answer(&domain).await);
                    drop(place);
                });
            }
        };
        local.run_until(work).await;
        local.await;
    }

    async fn answer(self: &Rc<Self>, domain: &str) -> Found {
        let found = tokio::time::timeout(PATIENCE, self.find(domain)).await.unwrap_or(Err(NotFound::NoAnswer));
        debug!(domain, ?found, "DNS has answered");
        self.known.borrow_mut().or_older(domain, found, Instant::now())
    }

    async fn find(self: &Rc<Self>, domain: &str) -> Found {
        if let Some(route) = self.settings.routes.iter().find(|route| route.domain == domain) {
            return self.addresses(domain, &SrvTarget::at(&route.host, route.port, route.direct_tls)).await;
        }
        if is_literal(domain) {
            return Err(NotFound::NoServer);
        }
        let ascii = idna::domain_to_ascii(domain).map_err(|_| NotFound::NoServer)?;
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        // A single label is a name of this network, not a public one; only the operator can route
        // to it.
        if !ascii.contains('.') || !ascii.bytes().all(is_host) || Name::from_ascii(&ascii).is_err() {
            return Err(NotFound::NoServer);
        }
        let [tls, starttls] = ["_xmpps-server", "_xmpp-server"].map(|service| format!("{service}._tcp.{ascii}."));
        let (direct, starttls) = tokio::join!(self.targets(&tls, true), self.targets(&starttls, false));
        let is_broken = direct.is_err() || starttls.is_err();
        match plan(direct.unwrap_or(None), starttls.unwrap_or(None), random) {
            TargetPlan::Targets(targets) => self.all_addresses(domain, targets).await,
            // The answer to the other query isn't known, and may have named targets.
            TargetPlan::DomainItself | TargetPlan::Nowhere if is_broken => Err(NotFound::NoAnswer),
            TargetPlan::DomainItself => self.without_records(domain, &ascii).await,
            TargetPlan::Nowhere => Err(NotFound::NoServer),
        }
    }

    /// Returns the addresses of a domain that has no SRV records: those in its document on the web,
    /// and its own.
    async fn without_records(&self, domain: &str, ascii: &str) -> Found {
        // No record leads away from the domain, so its own TLSA records count.
        let itself = SrvTarget { is_signed: true, ..SrvTarget::at(ascii, PORT, false) };
        let own = self.addresses(domain, &itself).await?;
        // If DNS has certificates for the domain, only its own addresses count.
        if own.iter().any(|address| address.tlsa.is_some()) {
            return Ok(own);
        }
        let mut found = self.by_document(ascii).await;
        found.extend(own);
        Ok(found)
    }

    /// Queries one name server after another, until one answers.
    async fn lookup(&self, name: &Name, type_: RecordType) -> Result<DnsAnswer, NetError> {
        let mut failure = NetError::NoConnections;
        for asker in &self.askers {
            match asker.ask(name, type_).await {
                Err(error) if !is_none(&error) => failure = error,
                answer => return answer,
            }
        }
        Err(failure)
    }

    /// Returns the targets of a name; `None` if it has no records.
    async fn targets(&self, name: &str, direct_tls: bool) -> Result<Option<Vec<SrvTarget>>, NotFound> {
        let asked = Name::from_ascii(name).map_err(|_| NotFound::NoServer)?;
        let DnsAnswer { records, is_signed } = match self.lookup(&asked, RecordType::SRV).await {
            Ok(answer) => answer,
            Err(error) if is_none(&error) => return Ok(None),
            Err(error) => {
                debug!(name, %error, "DNS gives no answer");
                return Err(NotFound::NoAnswer);
            }
        };
        let targets = targets(&asked, &records, direct_tls).into_iter().map(|target| SrvTarget { is_signed, ..target });
        let targets: Vec<_> = targets.collect();
        Ok((!targets.is_empty()).then_some(targets))
    }

    /// Looks up all targets at the same time, so that a target whose name servers are dead doesn't
    /// delay the others.
    async fn all_addresses(self: &Rc<Self>, domain: &str, targets: Vec<SrvTarget>) -> Found {
        let lookups = targets.into_iter().map(|target| {
            let (thread, domain) = (self.clone(), domain.to_owned());
            tokio::task::spawn_local(async move { thread.addresses(&domain, &target).await })
        });
        let mut all = Vec::new();
        let mut trouble = NotFound::NoServer;
        for lookup in lookups.collect::<Vec<_>>() {
            match lookup.await.unwrap_or(Err(NotFound::NoAnswer)) {
                Ok(found) => all.extend(found),
                Err(NotFound::NoAnswer) => trouble = NotFound::NoAnswer,
                Err(NotFound::NoServer) => {}
            }
        }
        if all.is_empty() { Err(trouble) } else { Ok(all) }
    }

    /// Queries the addresses of a name, of both families at once. If a name server doesn't answer
    /// about IPv6, that doesn't delay IPv4 (RFC 8305 §3). But if signed answers are required, both
    /// are waited for: an attacker must not be able to make the result unsigned by withholding one
    /// of them.
    async fn families(&self, name: &Name) -> [Result<DnsAnswer, NetError>; 2] {
        let (six, four) = (self.lookup(name, RecordType::AAAA), self.lookup(name, RecordType::A));
        if self.settings.dnssec {
            return tokio::join!(six, four).into();
        }
        tokio::pin!(six, four);
        tokio::select! {
            found = &mut six => [found, four.await],
            found = &mut four => {
                let has_some = found.as_ref().is_ok_and(|answer| !addresses(name, &answer.records).is_empty());
                let patience = if has_some { RESOLUTION_DELAY } else { PATIENCE };
                [tokio::time::timeout(patience, six).await.unwrap_or(Err(NetError::Timeout)), found]
            }
        }
    }

    /// Returns the addresses of a target of the domain, with the target's certificates in DNS.
    async fn addresses(&self, domain: &str, target: &SrvTarget) -> Found {
        let address = |ip| Address::new(SocketAddr::new(ip, target.port), target.direct_tls);
        if let Ok(ip) = target.host.parse() {
            return Ok(vec![address(ip)]);
        }
        let name = format!("{}.", target.host.trim_end_matches('.'));
        let asked = Name::from_ascii(&name).map_err(|_| NotFound::NoServer)?;
        let families = self.families(&asked).await;
        let is_broken = families.iter().any(|lookup| lookup.as_ref().is_err_and(|error| !is_none(error)));
        let answers: Vec<DnsAnswer> = families.into_iter().flatten().collect();
        let found = interleave(answers.iter().flat_map(|answer| addresses(&asked, &answer.records)));
        if found.is_empty() {
            return Err(if is_broken { NotFound::NoAnswer } else { NotFound::NoServer });
        }
        let is_signed = target.is_signed && answers.iter().all(|answer| answer.is_signed);
        let ends = answers.iter().map(|answer| end_of_aliases(&asked, &answer.records)).find(|end| *end != asked);
        let tlsa = if is_signed { self.associations_of(domain, target, ends).await? } else { None };
        Ok(found.into_iter().map(|ip| Address { tlsa: tlsa.clone(), ..address(ip) }).collect())
    }

    /// Returns the certificates of a target in DNS. If the target is an alias, the certificates of
    /// its canonical name come first (RFC 7671 §7): they are kept by the operator of that machine.
    async fn associations_of(
        &self,
        domain: &str,
        target: &SrvTarget,
        end: Option<Name>,
    ) -> Result<Option<Arc<Associations>>, NotFound> {
        if let Some(end) = end {
            let target = SrvTarget { host: end.to_ascii(), ..target.clone() };
            if let Some(found) = self.associations(domain, &target).await? {
                return Ok(Some(found));
            }
        }
        self.associations(domain, target).await
    }

    /// Returns the certificates that DNS has under a name (RFC 7673 §3).
    async fn associations(&self, domain: &str, target: &SrvTarget) -> Result<Option<Arc<Associations>>, NotFound> {
        let name = format!("_{}._tcp.{}.", target.port, target.host.trim_end_matches('.'));
        // No records can exist under a name that is too long.
        let Ok(asked) = Name::from_ascii(&name) else { return Ok(None) };
        match self.lookup(&asked, RecordType::TLSA).await {
            Ok(answer) if answer.is_signed => {
                let records = associations(&asked, &answer.records);
                Ok(Associations::new(domain, &target.host, target.port, records).map(Arc::new))
            }
            Ok(_) => Ok(None),
            Err(error) if is_none(&error) => Ok(None),
            Err(error) => {
                debug!(name, %error, "DNS gives no answer");
                Err(NotFound::NoAnswer)
            }
        }
    }
}

/// Returns whether a domain is an IP address (RFC 7622 §3.2.2). Neither DNS nor a certificate that
/// others trust can say which server is there.
fn is_literal(domain: &str) -> bool {
    domain.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// Returns a number from 0 up to `most`, inclusive.
fn random(most: u32) -> u32 {
    let mut bytes = [0; 4];
    // Without randomness, the first target is always tried first, which is acceptable.
    _ = chance::fill(&mut bytes);
    (u64::from(u32::from_le_bytes(bytes)) % (u64::from(most) + 1)) as u32
}

/// The bounds of everything that domains can fill here.
pub const BOUNDS: &[Bound] = &[
    Bound::on("domains that are looked up at a time", Per::Server, Most::Fixed(MOST_ASKED as u64), Unit::Number)
        .or("the others wait"),
    Bound::on("the time to look up a domain", Per::Other("domain"), Most::Fixed(PATIENCE.as_secs()), Unit::Seconds)
        .or("stanzas get <remote-server-timeout/>"),
    Bound::on("domains that wait for DNS", Per::Server, Most::Fixed(MOST_WAITING as u64), Unit::Number)
        .or("stanzas for one more get <remote-server-timeout/>"),
    Bound::on("DNS answers that are kept", Per::Other("name server"), Most::Fixed(MOST_KEPT), Unit::Number)
        .or("the oldest are asked again"),
    Bound::on(
        "domains whose last answer is kept, in case there is no new one",
        Per::Server,
        Most::Fixed(MOST_KNOWN as u64),
        Unit::Number,
    )
    .or("one more is not kept"),
    Bound::on("TLSA records of a server's port", Per::Other("port"), Most::Fixed(MOST_RECORDS as u64), Unit::Number)
        .or("the others are ignored"),
    Bound::on("domains whose document is read at a time", Per::Server, Most::Fixed(MOST_READ as u64), Unit::Number)
        .or("the server of a further one is expected at its own address"),
    Bound::on("a domain's document on the web", Per::Other("domain"), Most::Fixed(MOST_BYTES as u64), Unit::Bytes)
        .or("the server is expected at the domain's own address"),
    Bound::on("the time to read it", Per::Other("domain"), Most::Fixed(LONGEST_READ.as_secs()), Unit::Seconds)
        .or("the server is expected at the domain's own address"),
    Bound::on("domains whose document is kept", Per::Server, Most::Fixed(MOST_KEPT_READ as u64), Unit::Number)
        .or("one more is not kept"),
];

/// The most answers that are kept, each for an hour at most.
const MOST_KEPT: u64 = 10_000;
/// The most queries that may wait.
const MOST_WAITING: usize = 1000;
/// The most domains that are looked up at a time.
const MOST_ASKED: usize = 256;
/// The most name servers that are queried, as many as by the C library.
const MOST_SERVERS: usize = 3;
/// The time for which an answer about IPv4 waits for one about IPv6 (RFC 8305 §8, "Resolution
/// Delay").
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);
/// The time limit for looking up a domain.
const PATIENCE: Duration = Duration::from_secs(30);
