//! Looks for proxies that clients may use and that the configuration doesn't name.
//!
//! Such a proxy makes all clients look like this machine, to which the admin page, the API and the
//! metrics are open by default. A server can't recognise the proxy itself: a bare `proxy_pass` of
//! nginx adds no header. But the server can see that another program listens on the ports that
//! browsers use.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{CheckReport, PROXIES};
use crate::config::{ServerConfig, WrittenNetwork};

/// Reports on known and likely proxies.
pub(super) fn look(report: &mut CheckReport, config: &ServerConfig) {
    let (web, named) = (&config.web, &config.web.trusted_proxies);
    if config.listen.web.is_empty() && config.listen.web_tls.is_empty() {
        return;
    }
    if web.proxy_protocol && named.is_empty() {
        let text = "web.proxy_protocol has no effect: it is for the proxies in web.trusted_proxies, and that is empty";
        report.warn(PROXIES, text.to_owned());
    }
    if has_loopback(named) {
        return report.note(
            PROXIES,
            "this machine is trusted: each proxy on it has to set X-Forwarded-For to the address that it sees"
                .to_owned(),
        );
    }
    let wards = [("/admin", &web.admin_networks), ("/api", &web.api_networks), ("/metrics", &web.metrics_networks)];
    let open: Vec<&str> =
        wards.into_iter().filter(|(_, networks)| has_loopback(networks)).map(|(path, _)| path).collect();
    if open.is_empty() {
        return;
    }
    let open = open.join(", ");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| fs::read_to_string(file).unwrap_or_default());
    let listening: BTreeSet<u16> = tables.iter().flat_map(|table| listening(table)).collect();
    let own = config.listen.web.iter().chain(&config.listen.web_tls).chain(&config.listen.c2s_tls);
    let own: BTreeSet<u16> = own.map(|address| address.port()).collect();
    match BROWSERS.iter().find(|port| listening.contains(port) && !own.contains(port)) {
        Some(port) => report.warn(
            PROXIES,
            format!(
                "another program listens on port {port}. If it passes requests on to this server, everybody looks like this machine and \
                 can open {open}: trust it, web.trusted_proxies = [\"127.0.0.1\"], and have it set X-Forwarded-For"
            ),
        ),
        None => report.note(
            PROXIES,
            format!("none is trusted or detected; one on this machine must be trusted, or it opens {open} to everybody"),
        ),
    }
}

fn has_loopback(networks: &[WrittenNetwork]) -> bool {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    networks.iter().any(|network| loopback.iter().any(|address| network.network.contains(*address)))
}

/// Returns the ports that programs listen on, from a table of Linux (proc_pid_net(5)).
fn listening(table: &str) -> impl Iterator<Item = u16> {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        let port = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        port.filter(|_| state == LISTENING)
    })
}

/// The ports that browsers connect to.
const BROWSERS: [u16; 2] = [443, 80];
const LISTENING: &str = "0A";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_systems_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1466 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0\n   \
                     1: 0100007F:01BB 0100007F:1466 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1\n   \
                     2: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 3 1 0 100\nrubbish\n";
        assert_eq!(listening(table).collect::<Vec<_>>(), [0x1466, 80], "a connection is none");
    }
}
