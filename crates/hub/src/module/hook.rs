//! One occasion on which modules are called.
//!
//! A call is a plain function: it finds everything that it needs in the world ([`crate::state`]).
//! So it can be copied out of the registry, which leaves the world, the registry's owner, free
//! while the call runs.

use super::terms::Phase;
use crate::settings::Domain;

/// The calls that modules want on one occasion, in the order of their phases, within a phase in
/// that of the table.
#[derive(Debug, Clone)]
pub(crate) struct Hook<F>(Vec<ModuleCall<F>>);

/// A call, and the module that wants it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModuleCall<F> {
    pub(crate) module: &'static str,
    pub(crate) phase: Phase,
    pub(crate) call: F,
}

impl<F> Default for Hook<F> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<F: Copy> Hook<F> {
    /// Adds a call after those of its phase.
    pub(crate) fn add(&mut self, call: ModuleCall<F>) {
        let at = self.0.partition_point(|other| other.phase <= call.phase);
        self.0.insert(at, call);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<ModuleCall<F>> {
        self.0.get(at).copied()
    }

    /// Returns all calls, whatever domain has their modules.
    pub(crate) fn all(&self) -> impl Iterator<Item = ModuleCall<F>> {
        self.0.iter().copied()
    }

    /// Returns the calls of the modules that are on in a domain.
    pub(crate) fn on(&self, domain: &Domain) -> impl Iterator<Item = F> {
        self.0.iter().filter(|call| domain.module(call.module).is_some()).map(|call| call.call)
    }
}
