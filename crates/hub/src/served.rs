//! The domains of this server, by name, with the properties of each under the current settings.

use rookery_base::Map;

/// The domains of the settings in force.
#[derive(Debug, Default)]
pub(crate) struct ServedDomains {
    /// Places in the settings.
    pub(crate) by_name: Map<String, usize>,
    /// By place.
    pub(crate) filters: Vec<Filters>,
    /// The modules that are on in at least one domain.
    pub(crate) anywhere: Filters,
}

/// The filters that are on, passage by passage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Filters {
    pub(crate) route: u64,
    pub(crate) delivery: u64,
    pub(crate) service: u64,
}

/// The module that serves a host, and the domain that the host belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostService {
    /// Index of the domain in the settings.
    pub domain: usize,
    /// The place of the service in the module table.
    pub hook: usize,
}
