//! One occasion on which modules are called.
//!
//! A call is a plain function: what it needs to know it finds in the world ([`crate::state`]). So it can be copied out of
//! the registry, and the world, which owns that, is free while it runs.

use std::ops::ControlFlow;

use super::{Phase, Registry};
use crate::World;
use crate::settings::Domain;

/// The calls that modules want on one occasion, in the order of their phases, within a phase in that of the table.
#[derive(Debug, Clone)]
pub(crate) struct Hook<F>(Vec<Call<F>>);

/// A call, and which module wants it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<F> {
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
    /// Adds a call behind those of its phase.
    pub(crate) fn add(&mut self, call: Call<F>) {
        let at = self.0.partition_point(|other| other.phase <= call.phase);
        self.0.insert(at, call);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<Call<F>> {
        self.0.get(at).copied()
    }

    /// Returns all calls, whatever domain has their modules.
    pub(crate) fn all(&self) -> impl Iterator<Item = Call<F>> {
        self.0.iter().copied()
    }

    /// Returns the calls of the modules that are on in a domain.
    pub(crate) fn on(&self, domain: &Domain) -> impl Iterator<Item = F> {
        self.0.iter().filter(|call| domain.module(call.module).is_some()).map(|call| call.call)
    }
}

impl World {
    /// Makes the calls of a hook whose modules are on in a domain, until one of them breaks off.
    ///
    /// The domain is looked up for each call again: a call may change what is on.
    pub(crate) fn call_each<F: Copy + 'static>(
        &mut self,
        hook: fn(&Registry) -> &Hook<F>,
        domain: &str,
        mut make: impl FnMut(&mut World, F) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut at = 0;
        while let Some(Call { module, call, .. }) = hook(self.registry()).get(at) {
            if self.domain(domain).is_some_and(|domain| domain.module(module).is_some()) {
                make(self, call)?;
            }
            at += 1;
        }
        ControlFlow::Continue(())
    }

    /// Makes the calls of a hook whatever domains have their modules.
    pub(crate) fn call_all(&mut self, hook: fn(&Registry) -> &Hook<Everywhere>) {
        let mut at = 0;
        while let Some(Call { call, .. }) = hook(self.registry()).get(at) {
            call(self);
            at += 1;
        }
    }
}

/// Runs on a shard, for no domain in particular.
pub(crate) type Everywhere = fn(&mut World);
