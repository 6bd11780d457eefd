//! Services: separate addresses below a domain, such as `multicast.example.org`, that a module
//! answers for.
//!
//! The host of a service follows from the settings. A stanza for one is given to its module on the
//! shard where it arrived; its subject, such as a room, may have its home on another, to which the
//! module hands it ([`World::route_to_service`]).

use rookery_base::Map;
use rookery_fanout::Packet;
use rookery_jid::{Jid, JidRef};
use tracing::debug;

use crate::World;
use crate::filter::SERVICE;
use crate::mail::Mail;
use crate::module::Registry;
use crate::passage::{Notes, Traits};
use crate::served::HostService;
use crate::settings::{Domain, Settings};
use crate::trace::Step;

/// A service of a domain, as service discovery lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedService {
    /// Its address.
    pub host: String,
    /// Its name for people, from the module's option `name`.
    pub name: String,
}

/// Returns the host of a module's service for a domain: its option `host`, in which `@` stands for
/// the domain.
fn host_of(domain: &Domain, module: &str) -> Option<String> {
    let host = domain.module(module)?.text("host").replace('@', &domain.name);
    (!host.is_empty()).then_some(host)
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

impl Registry {
    /// Returns the hosts of all services. One that is a domain, or is taken already, is left out:
    /// each shard does so, and the server's check of the configuration tells the operator.
    pub(crate) fn hosts(&self, settings: &Settings) -> Map<String, HostService> {
        let mut hosts = Map::default();
        for (domain, found) in settings.domains.iter().enumerate() {
            for (hook, module) in self.services() {
                let Some(host) = host_of(found, module) else { continue };
                if settings.domains.iter().any(|domain| domain.name == host) || hosts.contains_key(&host) {
                    debug!(%host, module, domain = found.name, "the host of the service is taken already");
                    continue;
                }
                hosts.insert(host, HostService { domain, hook });
            }
        }
        hosts
    }
}

impl World {
    /// Returns whether a host is one of this server: a domain or a service.
    pub fn is_here(&self, host: &str) -> bool {
        self.is_domain(host) || self.catalogue.services.contains_key(host)
    }

    /// Returns whether a host is a component (XEP-0114). Its addresses are reached as those of
    /// other servers are, but they are trusted as this server's own.
    pub fn is_component(&self, host: &str) -> bool {
        self.catalogue.settings.components.iter().any(|component| component.name == host)
    }

    /// Returns whether a host is of this server in the eyes of others: a domain, a service or a
    /// component.
    pub fn is_ours(&self, host: &str) -> bool {
        self.is_here(host) || self.is_component(host)
    }

    /// Returns the components of a domain: those whose names are below it, and for the default
    /// domain also those whose names are below no domain.
    pub fn components_of(&self, domain: &str) -> impl Iterator<Item = &str> {
        let settings = &self.catalogue.settings;
        let of = move |name: &str| {
            let above = settings.domains.iter().filter(|domain| is_below(name, &domain.name));
            let nearest = above.max_by_key(|domain| domain.name.len());
            nearest.map_or(settings.default_domain(), |domain| domain.name.as_str())
        };
        settings.components.iter().map(|component| component.name.as_str()).filter(move |name| of(name) == domain)
    }

    /// Returns the domain that a host of this server belongs to: itself, or the one that it is a
    /// service of.
    pub fn domain_of(&self, host: &str) -> Option<&Domain> {
        let service = || self.catalogue.services.get(host).map(|service| service.domain);
        self.catalogue.settings.domains.get(self.place_of(host).or_else(service)?)
    }

    /// Returns whether a host is the service of this module.
    pub fn is_service_of(&self, host: &str, module: &str) -> bool {
        self.catalogue
            .services
            .get(host)
            .is_some_and(|service| self.catalogue.registry.service_module(service.hook) == Some(module))
    }

    /// Returns the services of a domain, in the order of the module table.
    pub fn services_of(&self, domain: &str) -> Vec<ListedService> {
        let Some(domain) = self.domain(domain) else { return Vec::new() };
        let hosts = self.catalogue.registry.services().filter_map(|(hook, module)| {
            let host = host_of(domain, module)?;
            let is_it = self.catalogue.services.get(&host).is_some_and(|service| service.hook == hook);
            is_it.then(|| ListedService {
                host,
                name: domain.module(module).map_or("", |options| options.text("name")).to_owned(),
            })
        });
        hosts.collect()
    }

    /// Hands a stanza for a service to the same service on another shard, which has the required
    /// data.
    pub fn route_to_service(&mut self, shard: usize, packet: &Packet, to: JidRef<'_>) {
        self.sight(packet, to, Step::Goes, || self.place_of_hop(shard, "which has what the service needs"));
        self.post(shard, Mail::Service { to: to.to_jid(), packet: packet.clone() });
    }

    /// Handles a stanza for a service. Returns `false` if nothing serves that host.
    pub(crate) fn serve(&mut self, packet: &Packet, to: JidRef<'_>) -> bool {
        let Some(service) = self.catalogue.services.get(to.domain()).copied() else { return false };
        let settings = self.catalogue.settings.clone();
        let Some(domain) = settings.domains.get(service.domain) else { return true };
        if self.is_tracing() {
            let module = self.registry().service_module(service.hook).unwrap_or_default();
            self.sight(packet, to, Step::Goes, || format!("to the service of the module {module}"));
        }
        let on = self.filters_at(service.domain).service;
        if !self.catalogue.registry.passing.before_service.want(on, packet, Traits::default) {
            self.call_service(service.hook, packet, to, domain);
        } else if let Ok(name) = Jid::parse(&domain.name)
            && let Some(packet) = self.pass(SERVICE, on, packet, to, name.as_ref(), &mut Notes::default())
        {
            self.call_service(service.hook, &packet, to, domain);
        }
        true
    }
}
