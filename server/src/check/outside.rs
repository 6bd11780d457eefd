//! Checks the server from outside, as a stranger who knows only the names of its domains: looks
//! them up in DNS, connects to the addresses, and checks that this server answers there.
//!
//! Behind a router or a firewall, a check from the machine itself shows only a part: a connection
//! to its own address passes no firewall, and many routers don't route such connections back
//! (hairpin NAT). The check reports what it can't determine, and can ask another server, which then
//! has to find the way here.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use rookery_federation::targets::{SrvTarget, is_public};
use rookery_resolver::Lookups;
use rookery_stream::tls::trust::Trust;
use serde_json::Value;

use super::CheckReport;
use super::stranger::{FoundServer, KindOfPort, Stranger, VisitTrouble};
use crate::acme::ascii;
use crate::certificate;
use crate::columns::cell;
use crate::config::{DomainConfig, ServerConfig};
use crate::control::{RunningServer, encode};
use crate::federation;
use crate::folder::Folder;

/// Checks the domains of a configuration from outside; `name_servers` replace those of the
/// configuration, if there are any.
pub fn look(report: &mut CheckReport, config: &ServerConfig, folder: &Folder, name_servers: &[SocketAddr]) {
    let mut asked = federation::dns_settings(config, None);
    if !name_servers.is_empty() {
        asked.servers = name_servers.to_vec();
    }
    let lookups = match Lookups::new(&asked) {
        Ok(lookups) => lookups,
        Err(failure) => return report.warn(ABOUT, format!("DNS can't be asked: {failure}")),
    };
    let own = own_certificates(config, folder);
    let authorities = rustls_native_certs::load_native_certs().certs;
    let trust = Trust::new(authorities.into_iter().map(|der| der.to_vec()));
    let mut tried = BTreeSet::new();
    for domain in &config.domains {
        let Some(name) = ascii(&domain.name) else { continue };
        for wanted in ports_of(config, domain, &name) {
            let found = match wanted.targets(&lookups, &name) {
                Ok(found) => found,
                Err(words) => {
                    report.warn(ABOUT, words);
                    continue;
                }
            };
            for (host, address) in found {
                if !tried.insert((wanted.kind.name(), domain.name.clone(), address)) {
                    continue;
                }
                let place =
                    format!("{} of {}: {host}:{} ({})", wanted.kind.name(), domain.name, address.port(), address.ip());
                if !is_public(address.ip()) && !config.federation.allow_private_addresses {
                    let text = format!("{place}: nobody outside this network can reach such an address");
                    report.warn(ABOUT, text);
                    continue;
                }
                let seen =
                    Stranger { domain: &name, host: &host, address, own: &own, trust: &trust }.visit(wanted.kind);
                match seen {
                    Ok(answer) => tell(report, &place, address.ip(), &answer),
                    Err(trouble) => {
                        report.warn(ABOUT, format!("{place}: {}", because(&trouble, is_here(address.ip()))))
                    }
                }
            }
        }
    }
}

/// Sends another server a request through the running one. To answer, the other server has to
/// connect to this one, unless it may answer on the stream that we opened.
pub fn ask(report: &mut CheckReport, folder: &Folder, other: &str) {
    let asked = RunningServer::in_folder(folder).and_then(|running| {
        let pinged = running.ask("POST", &format!("/streams/{}/ping", encode(other)), None)?;
        Ok((pinged, running.get("/streams")?))
    });
    match asked {
        Ok((pinged, streams)) => judge_answer(report, other, &pinged, &streams),
        Err(failure) => report.warn(ABOUT, format!("{other} can't be asked: {failure}")),
    }
}

fn judge_answer(report: &mut CheckReport, other: &str, pinged: &Value, streams: &Value) {
    let of_it = || streams["items"].as_array().into_iter().flatten().filter(|stream| stream["remote"] == other);
    // A stream for both directions is listed twice, and doesn't show which side opened it.
    let is_ours = |address: &Value| of_it().any(|stream| stream["direction"] == "out" && stream["address"] == *address);
    let comes_in =
        of_it().any(|stream| stream["direction"] == "in" && stream["state"] == "ready" && !is_ours(&stream["address"]));
    match (pinged["answered"] == true, comes_in) {
        (true, true) => report
            .note(ABOUT, format!("{other} has answered over its own connection: other servers can reach this one")),
        (true, false) => report.note(
            ABOUT,
            format!("{other} has answered, but on the same stream (XEP-0288): its own way to this server wasn't tried"),
        ),
        (false, _) => {
            let trouble: Vec<_> = of_it().map(|stream| cell(stream, "trouble")).filter(|text| text.len() > 1).collect();
            let why = match trouble.is_empty() {
                true => {
                    format!("{}; `rookery s2s {other}` shows each step on the way there", cell(pinged, "condition"))
                }
                false => trouble.join("; "),
            };
            report.warn(ABOUT, format!("{other} hasn't answered: {why}"));
        }
    }
}

/// Reports the result of a visit.
fn tell(report: &mut CheckReport, place: &str, ip: IpAddr, answer: &FoundServer) {
    let way = match is_here(ip) {
        true => ", tested only within this machine: a firewall in front of it can't be seen from here",
        false => "",
    };
    match (answer.is_ours, &answer.distrust) {
        (false, _) => report.warn(
            ABOUT,
            format!("{place}: something answers, with a certificate that isn't this server's; it may be another server, or a proxy"),
        ),
        (true, Some(why)) => {
            report.warn(ABOUT, format!("{place}: this server answers{way}; strangers don't trust its certificate: {why}"));
        }
        (true, None) => report.note(ABOUT, format!("{place}: this server answers{way}")),
    }
}

/// Returns the reason why a visit failed, and its possible causes.
fn because(trouble: &VisitTrouble, is_here: bool) -> String {
    match (trouble, is_here) {
        (VisitTrouble::Refused, true) => "nothing listens there: check that the server is running, and on this port".to_owned(),
        (VisitTrouble::Refused, false) => {
            "refused: the port is closed in the router or firewall, or forwarded to nothing".to_owned()
        }
        (VisitTrouble::Silence, true) => "no answer, though the address is this machine's: a firewall here drops it".to_owned(),
        (VisitTrouble::Silence, false) => "no answer: a firewall drops it, or the router doesn't connect machines behind it to its own \
             address (hairpin NAT). Only a test from elsewhere can tell: `rookery check --outside --via DOMAIN` asks another server"
            .to_owned(),
        (VisitTrouble::NoRoute(error), _) => {
            format!("this machine has no route to the address, so it can't be tested from here: {error}")
        }
        (VisitTrouble::Odd(words), _) => format!("the service there isn't the expected one: {words}"),
    }
}

/// Returns whether an address belongs to this machine: only such an address can be bound.
fn is_here(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// A kind of port that strangers look for, and the way in which they find it.
struct WantedPort {
    kind: KindOfPort,
    /// The name of its SRV records; `None` if it has none.
    service: Option<&'static str>,
    /// The host and port without such records; `None` if these are required.
    otherwise: Option<(String, u16)>,
}

/// Returns the ports that should be reachable for a domain.
fn ports_of(config: &ServerConfig, domain: &DomainConfig, name: &str) -> Vec<WantedPort> {
    let listen = &config.listen;
    let at_domain = |port| Some((name.to_owned(), port));
    let mut all = Vec::new();
    if !listen.c2s.is_empty() {
        all.push(WantedPort { kind: KindOfPort::Clients, service: Some("_xmpp-client"), otherwise: at_domain(5222) });
    }
    if !listen.c2s_tls.is_empty() {
        all.push(WantedPort { kind: KindOfPort::ClientsOverTls, service: Some("_xmpps-client"), otherwise: None });
    }
    if config.federates() && config.federation_of(domain).enabled {
        if !listen.s2s.is_empty() {
            all.push(WantedPort {
                kind: KindOfPort::Servers,
                service: Some("_xmpp-server"),
                otherwise: at_domain(5269),
            });
        }
        if !listen.s2s_tls.is_empty() {
            all.push(WantedPort { kind: KindOfPort::ServersOverTls, service: Some("_xmpps-server"), otherwise: None });
        }
    }
    if let Some(address) = listen.web_tls.first() {
        let (host, port) =
            match config.web.public_host.as_deref().map(|host| host.rsplit_once(':').unwrap_or((host, ""))) {
                Some((host, port)) => (host.to_owned(), port.parse().unwrap_or(443)),
                None => (name.to_owned(), address.port()),
            };
        all.push(WantedPort { kind: KindOfPort::Browsers, service: None, otherwise: Some((host, port)) });
    }
    all
}

impl WantedPort {
    /// Returns the hosts and addresses at which strangers look for the port; none if they don't
    /// look for it.
    ///
    /// # Errors
    /// The reason why they find nothing.
    fn targets(&self, lookups: &Lookups, name: &str) -> Result<Vec<(String, SocketAddr)>, String> {
        let records = match self.service {
            Some(service) => {
                let record = format!("{service}._tcp.{name}");
                lookups.targets(&record).map_err(|_| format!("DNS gives no answer about {record}"))?
            }
            None => Vec::new(),
        };
        let mut targets: Vec<_> = records.into_iter().map(|SrvTarget { host, port, .. }| (host, port)).collect();
        if targets.is_empty() {
            targets.extend(self.otherwise.clone());
        }
        let mut found = Vec::new();
        for (host, port) in targets.into_iter().take(MOST_TARGETS) {
            let host = host.trim_end_matches('.').to_owned();
            let addresses = lookups.addresses(&host).map_err(|_| format!("DNS gives no answer about {host}"))?;
            if addresses.is_empty() {
                return Err(format!("DNS has no address of {host}, to which {} of {name} connect", self.kind.name()));
            }
            found
                .extend(addresses.into_iter().take(MOST_ADDRESSES).map(|ip| (host.clone(), SocketAddr::new(ip, port))));
        }
        Ok(found)
    }
}

/// Returns the certificates that the server shows, without their chains, in DER.
fn own_certificates(config: &ServerConfig, folder: &Folder) -> Vec<Vec<u8>> {
    let files = certificate::wanted_certificates(config, folder).into_iter().map(|wanted| wanted.certificate);
    let first = |file| Trust::read_pem(&std::fs::read(file).ok()?).ok()?.into_iter().next();
    files.filter_map(first).collect()
}

impl From<io::Error> for VisitTrouble {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut, WouldBlock};
        match error.kind() {
            ConnectionRefused => Self::Refused,
            TimedOut | WouldBlock => Self::Silence,
            NetworkUnreachable | HostUnreachable => Self::NoRoute(error.to_string()),
            _ => Self::Odd(error.to_string()),
        }
    }
}

const ABOUT: &str = "from outside";
/// The most records of a service, and addresses of a host, that are followed.
const MOST_TARGETS: usize = 8;
const MOST_ADDRESSES: usize = 4;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_told_is_said() {
        assert!(because(&VisitTrouble::Silence, false).contains("hairpin NAT"));
        assert!(because(&VisitTrouble::Silence, true).contains("a firewall here"));
        assert!(because(&VisitTrouble::Refused, false).contains("closed in the router"));
        assert!(because(&VisitTrouble::Refused, true).contains("nothing listens"));
        assert!(is_here([127, 0, 0, 1].into()) && !is_here([203, 0, 113, 5].into()));
    }

    #[test]
    fn an_answer_shows_the_way_in_only_if_it_came_that_way() {
        let told = |answered: bool, directions: &[&str], trouble: &str| {
            let mut report = CheckReport::default();
            let stream = |direction: &&str| {
                json!({
                    "remote": "b.example", "direction": direction, "state": "ready", "trouble": trouble, "address": "192.0.2.1:5269",
                })
            };
            let items: Vec<_> = directions.iter().map(stream).collect();
            let pinged = json!({ "answered": answered, "condition": "remote-server-timeout" });
            self::judge_answer(&mut report, "b.example", &pinged, &json!({ "items": items }));
            report.text(true, false)
        };
        assert!(told(true, &["in"], "").contains("can reach this one"));
        for directions in [&["out"][..], &["out", "in"], &[]] {
            assert!(told(true, directions, "").contains("wasn't tried"), "{directions:?}");
        }
        assert!(told(false, &["out"], "connection refused").contains("hasn't answered: connection refused"));
        assert!(told(false, &[], "").contains("remote-server-timeout; `rookery s2s b.example`"));
    }
}
