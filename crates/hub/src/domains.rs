//! The domains of this server, and the active modules of each.

use crate::World;
use crate::module::Registry;
use crate::served::{Filters, ServedDomains};
use crate::settings::{Domain, Options, Settings};

impl ServedDomains {
    pub(crate) fn new(settings: &Settings, registry: &Registry) -> Self {
        let places = settings.domains.iter().enumerate();
        let filters: Vec<_> = settings.domains.iter().map(|domain| Filters::of(domain, registry)).collect();
        Self {
            by_name: places.map(|(at, domain)| (domain.name.clone(), at)).collect(),
            anywhere: filters.iter().copied().fold(Filters::default(), Filters::or),
            filters,
        }
    }
}

impl Filters {
    fn of(domain: &Domain, registry: &Registry) -> Self {
        Self {
            route: registry.passing.before_route.on(domain),
            delivery: registry.passing.before_delivery.on(domain),
            service: registry.passing.before_service.on(domain),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            route: self.route | other.route,
            delivery: self.delivery | other.delivery,
            service: self.service | other.service,
        }
    }
}

impl World {
    /// Returns whether a domain has accounts here: it is a domain of this server, and not a
    /// service.
    pub(crate) fn is_domain(&self, name: &str) -> bool {
        self.place_of(name).is_some()
    }

    /// Returns one of the local domains by its name.
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.catalogue.settings.domains.get(self.place_of(name)?)
    }

    /// Returns the options of a module in a local domain where it is on.
    pub fn options(&self, domain: &str, module: &str) -> Option<&Options> {
        self.domain(domain)?.module(module)
    }

    /// Returns the filters that are on in a domain.
    pub(crate) fn filters(&self, domain: &str) -> Filters {
        self.place_of(domain).map(|at| self.filters_at(at)).unwrap_or_default()
    }

    /// Returns the filters that are on in any domain.
    pub(crate) fn filters_anywhere(&self) -> Filters {
        self.catalogue.served.anywhere
    }

    /// Returns the filters that are on in the domain at a place in the settings.
    pub(crate) fn filters_at(&self, domain: usize) -> Filters {
        self.catalogue.served.filters.get(domain).copied().unwrap_or_default()
    }

    /// Returns the place of a domain in the settings.
    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        // Most servers have one domain, which is found without computing a hash.
        match self.catalogue.settings.domains.as_slice() {
            [only] => (only.name == name).then_some(0),
            _ => self.catalogue.served.by_name.get(name).copied(),
        }
    }
}
