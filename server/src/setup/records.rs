//! The DNS records that a server needs, as lines to copy, and their current state.

use std::fmt;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use rookery_federation::NotFound;
use rookery_resolver::{Lookups, ResolverSettings};
use rookery_web::records::{Looker, RecordAnswer};

use super::machine;
use crate::acme::ascii;
use crate::config::{DomainConfig, ServerConfig};
use crate::failure::CommandFailure;
use crate::federation;
use crate::welcome::say;

/// A record that DNS should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsRecord {
    /// The name of the record, without a final dot.
    pub name: String,
    /// The content.
    pub data: RecordData,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordData {
    /// `A` or `AAAA`.
    Address(IpAddr),
    /// `A` or `AAAA`, with an address that only a router knows.
    SomeAddress,
    /// `SRV`: the port at a host.
    Service(u16, String),
    /// `CNAME`: another name for a host.
    Alias(String),
}

/// The answer of DNS about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// It exists.
    There,
    /// There is no record of this name and type.
    Missing,
    /// The name leads elsewhere: to the addresses or hosts in this text.
    Elsewhere(String),
    /// DNS didn't answer, or the answer was broken.
    NoAnswer,
}

impl fmt::Display for DnsRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{}.", self.name);
        match &self.data {
            RecordData::Address(ip @ IpAddr::V4(_)) => write!(f, "{name:<NAME_COLUMNS$} IN A     {ip}"),
            RecordData::Address(ip @ IpAddr::V6(_)) => write!(f, "{name:<NAME_COLUMNS$} IN AAAA  {ip}"),
            RecordData::SomeAddress => write!(f, "{name:<NAME_COLUMNS$} IN A     (the public address)"),
            RecordData::Service(port, host) => write!(f, "{name:<NAME_COLUMNS$} IN SRV   0 5 {port} {host}."),
            RecordData::Alias(host) => write!(f, "{name:<NAME_COLUMNS$} IN CNAME {host}."),
        }
    }
}

/// Returns the records for all domains of a configuration, on a machine with these addresses.
/// Servers look up services by their own names, clients only the domain.
pub fn wanted_records(config: &ServerConfig, addresses: &[IpAddr], federation: bool) -> Vec<DnsRecord> {
    config.domains.iter().flat_map(|domain| of_domain(config, domain, addresses, federation)).collect()
}

/// Returns the records for one domain; none if it isn't served.
fn wanted_of(config: &ServerConfig, name: &str, addresses: &[IpAddr]) -> Vec<DnsRecord> {
    let domain = config.domains.iter().filter(|domain| domain.name == name);
    domain.flat_map(|domain| of_domain(config, domain, addresses, config.federates())).collect()
}

fn of_domain(config: &ServerConfig, domain: &DomainConfig, addresses: &[IpAddr], federation: bool) -> Vec<DnsRecord> {
    let mut records = Vec::new();
    let Some(name) = ascii(&domain.name) else { return records };
    let federation = federation && config.federation_of(domain).enabled;
    let mut add = |name: String, data: RecordData| records.push(DnsRecord { name, data });
    match addresses {
        [] => add(name.clone(), RecordData::SomeAddress),
        addresses => addresses.iter().for_each(|ip| add(name.clone(), RecordData::Address(*ip))),
    }
    let listen = &config.listen;
    let clients = [("_xmpp-client", &listen.c2s), ("_xmpps-client", &listen.c2s_tls)];
    let servers = [("_xmpp-server", &listen.s2s), ("_xmpps-server", &listen.s2s_tls)];
    let servers = servers.into_iter().filter(|_| federation);
    for (service, addresses) in clients.into_iter().chain(servers) {
        if let Some(address) = addresses.first() {
            add(format!("{service}._tcp.{name}"), RecordData::Service(address.port(), name.clone()));
        }
    }
    if federation {
        let services = domain.services().filter_map(|service| ascii(&service));
        services.for_each(|service| add(service, RecordData::Alias(name.clone())));
    }
    records
}

/// Returns a function that looks up the records of a configuration.
pub fn looker(config: &ServerConfig) -> Looker {
    let config = config.clone();
    Looker::new(move |domain| {
        let addresses = machine::public_addresses();
        let wanted = wanted_of(&config, domain, &addresses);
        let looks = look(&federation::dns_settings(&config, None), &wanted, &addresses);
        let looks = looks.map_err(|failure| failure.to_string())?;
        Ok(wanted.iter().zip(looks).map(|(record, look)| for_admin_page(record, look)).collect())
    })
}

/// Returns a record and its state as the admin page shows it.
fn for_admin_page(record: &DnsRecord, look: Look) -> rookery_web::records::Record {
    let answer = match look {
        Look::There => RecordAnswer::There,
        Look::Missing => RecordAnswer::Missing,
        Look::Elsewhere(found) => RecordAnswer::Elsewhere(found),
        Look::NoAnswer => RecordAnswer::None,
    };
    rookery_web::records::Record { line: in_one_line(record), answer }
}

/// Formats a record as a line of a zone file without columns.
pub fn in_one_line(record: &DnsRecord) -> String {
    record.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Looks up each of them.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if DNS can't be queried at all.
pub fn look(
    asked: &ResolverSettings,
    records: &[DnsRecord],
    addresses: &[IpAddr],
) -> Result<Vec<Look>, CommandFailure> {
    // The look-ups run in parallel, so that an unreachable resolver takes the time of one record
    // and not of each.
    let share = records.len().div_ceil(AT_ONCE).max(1);
    let looks: Result<Vec<Vec<Look>>, CommandFailure> = thread::scope(|scope| {
        let look = |records: &[DnsRecord]| {
            let lookups = Lookups::new(asked).map_err(|error| CommandFailure::Failed(error.to_string()))?;
            Ok(records.iter().map(|record| look_at(&lookups, record, addresses).unwrap_or(Look::NoAnswer)).collect())
        };
        let running: Vec<_> = records.chunks(share).map(|records| scope.spawn(move || look(records))).collect();
        let ended = |run: thread::ScopedJoinHandle<'_, _>| run.join().unwrap_or_else(|panic| resume_unwind(panic));
        running.into_iter().map(ended).collect()
    });
    looks.map(|looks| looks.concat())
}

fn look_at(lookups: &Lookups, record: &DnsRecord, addresses: &[IpAddr]) -> Result<Look, NotFound> {
    if let RecordData::Service(port, host) = &record.data {
        let found = lookups.targets(&record.name)?;
        let is_ours = found.iter().any(|target| target.port == *port && is_same_name(&target.host, host));
        let words = found.iter().map(|target| format!("{}:{}", target.host.trim_end_matches('.'), target.port));
        return Ok(verdict(is_ours, words.collect()));
    }
    let found = lookups.addresses(&record.name)?;
    let is_ours = match &record.data {
        RecordData::Address(ip) => found.contains(ip),
        // It isn't known which of the addresses is the router's.
        _ if addresses.is_empty() => !found.is_empty(),
        _ => found.iter().any(|ip| addresses.contains(ip)),
    };
    // An address of the other family belongs to another record.
    let of_its_kind = found.iter().filter(|found| match &record.data {
        RecordData::Address(ip) => ip.is_ipv4() == found.is_ipv4(),
        _ => true,
    });
    Ok(verdict(is_ours, of_its_kind.map(IpAddr::to_string).collect()))
}

fn verdict(is_ours: bool, found: Vec<String>) -> Look {
    match (is_ours, found.is_empty()) {
        (true, _) => Look::There,
        (false, true) => Look::Missing,
        (false, false) => Look::Elsewhere(found.join(", ")),
    }
}

fn is_same_name(one: &str, other: &str) -> bool {
    one.trim_end_matches('.').eq_ignore_ascii_case(other.trim_end_matches('.'))
}

/// Returns the records, one per line, with their states, if these are known.
pub fn words(records: &[DnsRecord], looks: &[Look]) -> String {
    let line = |(at, record): (usize, &DnsRecord)| match looks.get(at) {
        None => format!("  {record}\n"),
        Some(Look::There) => format!("  there      {record}\n"),
        Some(Look::Missing) => format!("  missing    {record}\n"),
        Some(Look::NoAnswer) => format!("  no answer  {record}\n"),
        Some(Look::Elsewhere(found)) => format!("  other      {record}\n             (DNS has {found})\n"),
    };
    records.iter().enumerate().map(line).collect()
}

/// Waits until DNS has all records, and prints each as it appears.
///
/// # Errors
///
/// The errors of [`look`].
pub fn wait_for(asked: &ResolverSettings, records: &[DnsRecord], addresses: &[IpAddr]) -> Result<(), CommandFailure> {
    let mut waiting = records.to_vec();
    let mut pause = FIRST_PAUSE;
    say(
        "\nWaiting for DNS. Everything else is done: you can press Ctrl-C, and make links later with `rookery user invite`.\n",
    );
    loop {
        // A new resolver for each look: an old one would have cached the answers.
        let looks = look(asked, &waiting, addresses)?;
        let (came, left): (Vec<_>, Vec<_>) = waiting.into_iter().zip(looks).partition(|(_, look)| *look == Look::There);
        came.iter().for_each(|(record, _)| say(&format!("  there      {record}\n")));
        if left.is_empty() {
            return Ok(());
        }
        waiting = left.into_iter().map(|(record, _)| record).collect();
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Simultaneous queries.
const AT_ONCE: usize = 16;
/// The width of names.
const NAME_COLUMNS: usize = 40;
/// The first pause between two looks.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, which the doubled pauses don't exceed.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
