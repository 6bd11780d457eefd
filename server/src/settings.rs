//! Turns the configuration into the settings of the hub and the streams.

use rookery_hub::rate::Rate;
use rookery_hub::{Component, Domain, Module, Options, Registry, Settings, Steering, ToldAddresses};
use rookery_modules::sasl2;
use rookery_sasl::server::Decoy;
use rookery_stream::c2s::Policy;

use crate::config::{Cluster, ClusterSteering, ComponentConfig, DomainConfig, ServerConfig};
use crate::database::Decoys;
use crate::logins::LoginSources;

/// Returns the hub's settings, including the login sources.
pub fn settings(config: &ServerConfig, table: &[Box<dyn Module>], logins: &LoginSources) -> Settings {
    let limits = &config.limits;
    Settings {
        domains: config.domains.iter().map(|domain| hub_domain(domain, table, logins)).collect(),
        components: config.components.iter().map(component).collect(),
        max_resources: limits.resources_per_user,
        conflict: limits.conflict,
        roster: limits.roster,
        outbox: limits.outbox,
        backlog_bytes: limits.backlog_bytes,
        rate: Rate { bytes: limits.rate_bytes as u64, stanzas: limits.rate_stanzas, ..Rate::default() },
        profile: config.profile,
        max_directed: limits.directed_presence,
        scram_iterations: config.login.scram_iterations,
        told: ToldAddresses { pages: pages(config), steering: steering(&config.cluster) },
    }
}

/// Returns the addresses to which this node's clients are sent; `None` if they stay where they are.
fn steering(cluster: &Cluster) -> Option<Steering> {
    let host = cluster.public_host.clone().filter(|_| cluster.node.is_some())?;
    match cluster.steer {
        ClusterSteering::Off => None,
        steer => Some(Steering { host, logins: steer == ClusterSteering::Login }),
    }
}

/// Returns the address at which browsers reach the web front-end over TLS, with `@` for a domain;
/// `None` if they don't, or if only the system knows its port.
pub fn pages(config: &ServerConfig) -> Option<String> {
    let listen = &config.listen;
    if let Some(host) = &config.web.public_host {
        let serves = !listen.web.is_empty() || !listen.web_tls.is_empty();
        return serves.then(|| format!("https://{host}"));
    }
    match listen.web_tls.iter().map(|address| address.port()).find(|port| *port != 0)? {
        443 => Some("https://@".to_owned()),
        port => Some(format!("https://@:{port}")),
    }
}

fn component(config: &ComponentConfig) -> Component {
    Component { name: config.name.clone(), privileges: config.privileges.clone() }
}

/// Returns the rules by which client streams are negotiated.
pub fn policy(config: &ServerConfig, settings: &Settings, registry: &Registry, decoys: &Decoys) -> Policy {
    Policy {
        hosts: settings.domains.iter().map(|domain| sasl2::host(domain, registry)).collect(),
        limits_before: config.limits.before_login,
        limits_after: config.limits.after_login,
        idle_before: Some(config.limits.login_seconds),
        idle_after: None,
        mechanisms: config.login.mechanisms.clone(),
        plain_without_tls: config.login.plain_without_tls,
        decoy: Decoy::new(decoys.secret, config.login.scram_iterations).among(&decoys.counts),
        max_auth_failures: config.limits.login_failures,
    }
}

fn hub_domain(domain: &DomainConfig, table: &[Box<dyn Module>], logins: &LoginSources) -> Domain {
    let on = table.iter().filter_map(|module| {
        let config = domain.modules.get(module.name()).filter(|config| config.enabled)?;
        let mut options = Options::defaults(module.options());
        for spec in module.options() {
            if let Some(value) = config.options.get(spec.key) {
                options.set(spec, value.clone());
            }
        }
        Some((module.name(), options))
    });
    let login = logins.of(&domain.name, &domain.login);
    Domain { name: domain.name.clone(), modules: on.collect(), login }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ServerConfig {
        let modules = rookery_modules::table(&rookery_modules::Shared::default());
        ServerConfig::parse(text, &modules).expect("a configuration")
    }

    #[test]
    fn pages_are_where_browsers_find_them() {
        for (text, found) in [
            ("", Some("https://@:5443")),
            ("[listen]\nweb_tls = [\"[::]:443\"]\n", Some("https://@")),
            ("[listen]\nweb_tls = []\n", None),
            ("[listen]\nweb_tls = [\"127.0.0.1:0\"]\n", None),
            ("[web]\npublic_host = \"chat.example.org\"\n", Some("https://chat.example.org")),
            ("[listen]\nweb = []\nweb_tls = []\n[web]\npublic_host = \"chat.example.org\"\n", None),
        ] {
            assert_eq!(pages(&read(text)).as_deref(), found, "{text}");
        }
    }
}
