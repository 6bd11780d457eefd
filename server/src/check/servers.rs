//! Checks of what concerns other servers and components, as far as it can be seen from here:
//! certificates, DNS records of our own, files that are named.

use rookery_federation::Policy;

use super::{Report, certificate};
use crate::config::Config;
use crate::federation;
use crate::folder::Folder;

/// Looks at `[federation]` and `[component]`.
pub fn look(report: &mut Report, config: &Config, folder: &Folder) {
    components(report, config);
    if !config.federation.enabled {
        return report.note(ABOUT, "off: see [federation]".to_owned());
    }
    if let Err(error) = federation::trust(config) {
        report.fault(ABOUT, error.to_string());
    }
    certificates(report, config, folder);
    let asked = federation::asked(config);
    for domain in &config.domains {
        let (lines, found) = rookery_resolver::explain(&asked, &domain.name);
        for line in lines {
            report.note(ABOUT, format!("DNS: {line}"));
        }
        if found.is_err() {
            let (name, port) = (&domain.name, config.listen.s2s.first().map_or(5269, std::net::SocketAddr::port));
            report.warn(
                ABOUT,
                format!("DNS leads no other server to {name}: it takes a record _xmpp-server._tcp.{name}. SRV 0 5 {port} HOST."),
            );
        }
    }
}

fn components(report: &mut Report, config: &Config) {
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

/// Reports names of ours for which there is no certificate to show to other servers.
fn certificates(report: &mut Report, config: &Config, folder: &Folder) {
    let components = config.components.iter().map(|component| component.name.clone());
    for wanted in certificate::wanted(config, folder) {
        let Ok(read) = certificate::read(&wanted) else { continue };
        if read.inspection.self_signed && config.federation.policy == Policy::Certificate {
            let domains = wanted.domains.join(", ");
            report.warn(
                ABOUT,
                format!(
                    "the certificate for {domains} is self-signed: most other servers do not accept it; see [tls.acme]"
                ),
            );
        }
        let names = wanted.services.iter().cloned();
        for name in names.filter(|name| !read.inspection.covers(name)) {
            report.warn(ABOUT, format!("no certificate names {name}: other servers refuse what comes from there"));
        }
    }
    for name in components {
        let all = certificate::wanted(config, folder);
        let covers = |wanted: &_| certificate::read(wanted).is_ok_and(|read| read.inspection.covers(&name));
        if !all.iter().any(covers) {
            report.warn(ABOUT, format!("no certificate names {name}: other servers refuse what comes from there"));
        }
    }
}

const ABOUT: &str = "other servers";
const COMPONENT: &str = "component";
