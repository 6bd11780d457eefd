//! Checks the settings for other servers and components, as far as that is possible from here:
//! certificates, our own DNS records, named files.

use std::sync::Arc;

use rookery_federation::PeerPolicy;

use super::{CheckReport, certificate};
use crate::config::{DomainConfig, ServerConfig};
use crate::federation;
use crate::folder::Folder;

/// Checks `[federation]` and `[component]`, as far as that needs no name server.
pub fn look(report: &mut CheckReport, config: &ServerConfig, folder: &Folder) {
    components(report, config);
    if !config.federates() {
        return report.note(ABOUT, "off: see [federation]".to_owned());
    }
    for domain in config.domains.iter().filter(|domain| !config.federation_of(domain).enabled) {
        let name = &domain.name;
        report.note(ABOUT, format!("off for {name}: see [federation] and [domain.{name:?}.federation]"));
    }
    if let Err(error) = federation::trust(config) {
        report.fault(ABOUT, error.to_string());
    }
    certificates(report, config, folder);
}

/// Checks the DNS records that lead other servers here.
pub fn ask(report: &mut CheckReport, config: &ServerConfig) {
    if !config.federates() {
        return;
    }
    // `look` reports faults in them.
    let trust = federation::trust(config).ok().map(Arc::new);
    let asked = federation::dns_settings(config, trust.as_ref());
    for domain in config.domains.iter().filter(|domain| config.federation_of(domain).enabled) {
        let (lines, found) = rookery_resolver::explain(&asked, &domain.name);
        for line in lines {
            report.note(ABOUT, format!("DNS: {line}"));
        }
        if found.is_err() {
            let (name, port) = (&domain.name, config.listen.s2s.first().map_or(5269, std::net::SocketAddr::port));
            report.warn(
                ABOUT,
                format!(
                    "DNS leads no other server to {name}: add a record _xmpp-server._tcp.{name}. SRV 0 5 {port} HOST."
                ),
            );
        }
    }
}

fn components(report: &mut CheckReport, config: &ServerConfig) {
    for component in &config.components {
        match federation::component(component) {
            Ok(_) => report.note(COMPONENT, format!("{} may connect", component.name)),
            Err(error) => report.fault(COMPONENT, error.to_string()),
        }
    }
    if !config.components.is_empty() && config.listen.components.is_empty() {
        report.warn(COMPONENT, "none can connect: give `components` in [listen] an address".to_owned());
    }
}

/// Reports our names without a certificate to show to other servers.
fn certificates(report: &mut CheckReport, config: &ServerConfig, folder: &Folder) {
    let components = config.components.iter().map(|component| component.name.clone());
    for wanted in certificate::wanted_certificates(config, folder) {
        let Ok(read) = certificate::read(&wanted) else { continue };
        let is_shown =
            |domain: &&DomainConfig| wanted.domains.contains(&domain.name) && needs_certificate(config, domain);
        if read.inspection.self_signed && config.domains.iter().any(|domain| is_shown(&domain)) {
            let domains = wanted.domains.join(", ");
            report.warn(
                ABOUT,
                format!(
                    "the certificate for {domains} is self-signed: most other servers do not accept it; see [tls.acme]"
                ),
            );
        }
        let is_known = |name: &String| speaks(config, name);
        let names = wanted.services.iter().filter(|name| is_known(name)).cloned();
        for name in names.filter(|name| !read.inspection.covers(name)) {
            report.warn(ABOUT, format!("no certificate names {name}: other servers refuse its stanzas"));
        }
    }
    for name in components.filter(|name| speaks(config, name)) {
        let all = certificate::wanted_certificates(config, folder);
        let covers = |wanted: &_| certificate::read(wanted).is_ok_and(|read| read.inspection.covers(&name));
        if !all.iter().any(covers) {
            report.warn(ABOUT, format!("no certificate names {name}: other servers refuse its stanzas"));
        }
    }
}

/// Returns whether a domain has to be proven to other servers by a certificate.
fn needs_certificate(config: &ServerConfig, domain: &DomainConfig) -> bool {
    let federation = config.federation_of(domain);
    federation.enabled && federation.policy == PeerPolicy::Certificate
}

/// Returns whether other servers get stanzas from a name of this server.
fn speaks(config: &ServerConfig, name: &String) -> bool {
    let domain = config.domains.iter().find(|domain| config.hosts_of(domain).contains(name));
    domain.is_none_or(|domain| config.federation_of(domain).enabled)
}

const ABOUT: &str = "other servers";
const COMPONENT: &str = "component";
