//! How long something is waited for, and by whom.

use std::any::type_name;
use std::time::{Duration, Instant};

/// The moment at which something began.
#[derive(Debug, Clone, Copy)]
pub struct Since(Instant);

impl Since {
    /// Now.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// How long ago that is.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The module that wrote a closure: the part of its name behind `rookery_modules`, or `hub`, or `other`. For labels; the language promises no form of such
/// names.
pub fn module_of<F>() -> &'static str {
    part(type_name::<F>())
}

fn part(name: &'static str) -> &'static str {
    match name.strip_prefix("rookery_modules::") {
        Some(rest) => rest.split("::").next().unwrap_or(rest),
        None if name.starts_with("rookery_hub::") => "hub",
        None => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closures_are_known_by_their_modules() {
        assert_eq!(part("rookery_modules::archive::query::page::{{closure}}"), "archive");
        assert_eq!(part("rookery_hub::roster::<impl rookery_hub::world::World>::load::{{closure}}"), "hub");
        assert_eq!(part("alloc::boxed::Box<dyn core::ops::FnOnce()>"), "other");
        fn of<F>(_: F) -> &'static str {
            module_of::<F>()
        }
        assert_eq!(of(|| ()), "other", "this crate is neither");
        assert!(type_name::<Since>().starts_with("rookery_observe::"), "what labels are made of");
    }
}
