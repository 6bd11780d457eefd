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

/// Returns the module that wrote a closure: the name of its crate, without `rookery_`, or of the
/// part of the crate where that holds several modules; `other` for what isn't ours. For labels; the
/// language promises no form of such names.
pub fn module_of<F>() -> &'static str {
    part(type_name::<F>())
}

fn part(name: &'static str) -> &'static str {
    let mut path = name.strip_prefix("rookery_").unwrap_or_default().split("::");
    match (path.next(), path.next()) {
        (Some(of_several), Some(module)) if OF_SEVERAL.contains(&of_several) => module,
        (Some(krate), Some(_)) => krate,
        _ => "other",
    }
}

/// The crates that hold several modules, each in a file or a folder of its name.
const OF_SEVERAL: [&str; 2] = ["modules", "modkit"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closures_are_known_by_their_modules() {
        assert_eq!(part("rookery_modules::archive::query::page::{{closure}}"), "archive");
        assert_eq!(part("rookery_modkit::asker::with_asker::{{closure}}"), "asker");
        assert_eq!(part("rookery_hub::roster::<impl rookery_hub::world::World>::load::{{closure}}"), "hub");
        assert_eq!(part("alloc::boxed::Box<dyn core::ops::FnOnce()>"), "other");
        fn of<F>(_: F) -> &'static str {
            module_of::<F>()
        }
        assert_eq!(of(|| ()), "observe");
        assert!(type_name::<Since>().starts_with("rookery_observe::"), "what labels are made of");
    }
}
