//! Checks the bucket with users' files, and the address at which clients get files.

use std::net::SocketAddr;

use rookery_hub::Value;

use super::{CheckReport, UPLOADS};
use crate::config::{Listen, ServerConfig};
use crate::uploads;

/// Checks the settings of the bucket.
pub(super) fn look(report: &mut CheckReport, config: &ServerConfig) {
    if let Err(error) = uploads::bucket(config) {
        report.fault(UPLOADS, error.to_string());
    }
    if let Some(address) = config.uploads.bucket.as_deref().filter(|address| is_open(address)) {
        report.warn(UPLOADS, format!("files are sent to {address} unencrypted; give it an address with https:"));
    }
    for domain in &config.domains {
        let url = domain.modules.get("upload").filter(|module| module.enabled).and_then(|on| on.options.get("url"));
        if let Some(Value::Text(url)) = url
            && let Some(port) = port(url)
            && let Some(ports) = other_ports(&config.listen, port)
        {
            let name = &domain.name;
            report.warn(
                UPLOADS,
                format!(
                    "`url` in [modules.upload] sends the clients of {name} to port {port}, where this server doesn't listen for \
                     browsers: {ports}; correct it, unless a proxy or router leads that port here"
                ),
            );
        }
    }
}

/// Returns the port that an address gives.
fn port(url: &str) -> Option<u16> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next().unwrap_or_default();
    // The colons of an IPv6 address are in brackets.
    let (_, port) = authority.rsplit_once(']').map_or(authority, |(_, port)| port).rsplit_once(':')?;
    port.parse().ok()
}

/// Returns the ports for browsers in words, unless this one is among them or one of them is chosen
/// by the system.
fn other_ports(listen: &Listen, port: u16) -> Option<String> {
    let of = |key: &'static str, addresses: &[SocketAddr]| {
        addresses.iter().map(|address| (key, address.port())).collect::<Vec<_>>()
    };
    let ports = [of("web", &listen.web), of("web_tls", &listen.web_tls)].concat();
    if ports.iter().any(|(_, own)| *own == port || *own == 0) {
        return None;
    }
    let all: Vec<_> = ports.iter().map(|(key, port)| format!("{port} (`{key}`)")).collect();
    Some(match all.is_empty() {
        true => "it has no ports for them, see `web` and `web_tls` in [listen]".to_owned(),
        false => format!("its ports for them are {}", all.join(", ")),
    })
}

/// Puts a file into the bucket, and removes it again.
pub(super) fn ask(report: &mut CheckReport, config: &ServerConfig) {
    // `look` reports faults in files.
    let (Some(address), Ok(Some(bucket))) = (&config.uploads.bucket, uploads::bucket(config)) else { return };
    match bucket.probe() {
        Ok(()) => report.note(UPLOADS, format!("a file was written to {address}, read and deleted")),
        Err(why) => {
            report.warn(UPLOADS, format!("files can't be shared at the moment, because {address} failed: {why}"))
        }
    }
}

/// Returns whether the traffic to an address could be intercepted.
fn is_open(address: &str) -> bool {
    let Some(rest) = address.strip_prefix("http://") else { return false };
    !["localhost", "127.0.0.1", "[::1]"].iter().any(|here| rest.starts_with(here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_port_that_is_written_is_compared() {
        for (url, found) in [
            ("https://@:5443/upload", Some(5443)),
            ("https://x.org/upload", None),
            ("http://[::1]:9/upload", Some(9)),
            ("http://[::1]/a:9", None),
        ] {
            assert_eq!(port(url), found, "{url}");
        }
    }
}
