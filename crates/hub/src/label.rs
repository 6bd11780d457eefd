//! The names under which waits for the store are counted.
//!
//! A wait belongs to the code that wrote its continuation, and the type of a closure has the path
//! of the place where it was written. One rule interprets such paths, so that the hub knows no
//! crate by its name: a wait is counted under the name of the crate, or under the name of the file
//! if the crate has declared itself a collection ([`crate::Hooks::collection`]).

/// The crates that are collections.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    collections: Vec<&'static str>,
}

impl Labels {
    /// Declares a crate a collection.
    pub(crate) fn add(&mut self, collection: &'static str) {
        self.collections.push(collection);
    }

    /// Returns the name for the code that wrote the type with this path; `other` if that isn't in a
    /// crate of ours. The language doesn't promise any form of type names, so only counters may
    /// depend on it.
    pub(crate) fn of(&self, path: &'static str) -> &'static str {
        let (name, rest) = path.split_once("::").unwrap_or((path, ""));
        if self.collections.contains(&name) {
            return rest.split("::").next().unwrap_or(rest);
        }
        name.strip_prefix("rookery_").unwrap_or("other")
    }
}

#[cfg(test)]
mod tests {
    use std::any::type_name;

    use super::*;

    #[test]
    fn continuations_are_known_by_their_crate_or_by_their_file_in_a_collection() {
        let mut labels = Labels::default();
        labels.add("rookery_modules");
        for (path, label) in [
            ("rookery_modules::archive::query::page::{{closure}}", "archive"),
            ("rookery_modules::rights::may<T>::{{closure}}", "rights"),
            ("rookery_pubsub::pep::notify::{{closure}}", "pubsub"),
            ("rookery_hub::roster::<impl rookery_hub::world::World>::load::{{closure}}", "hub"),
            ("alloc::boxed::Box<dyn core::ops::FnOnce()>", "other"),
        ] {
            assert_eq!(labels.of(path), label, "{path}");
        }
    }

    #[test]
    fn a_closure_is_named_by_the_crate_that_wrote_it() {
        fn of<F>(_: F) -> &'static str {
            Labels::default().of(type_name::<F>())
        }
        assert_eq!(of(|| ()), "hub");
    }
}
