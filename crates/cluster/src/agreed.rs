//! The settings on which all nodes have to agree, since each acts for the accounts of all clients
//! that connect to it.
//!
//! A process writes hashes of its settings into its row. Two nodes with different domains can't be
//! one server: one would admit a client whose home, on the other, doesn't know the account. Other
//! differences are only reported.

use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// Hashes of a process's settings, which are the same on all machines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreedSettings {
    /// The hash of the set of domains; `None` if the process doesn't state it.
    domains: Option<u64>,
    /// The hashes of sections of the configuration, by name.
    sections: Vec<(String, u64)>,
}

impl AgreedSettings {
    /// Returns the hashes of domains, and of sections, by name, as texts.
    pub fn of<'a>(
        domains: impl IntoIterator<Item = &'a str>,
        sections: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut domains: Vec<&str> = domains.into_iter().collect();
        domains.sort_unstable();
        // No domain contains a line's end.
        let sections = sections.into_iter().map(|(name, text)| (name.to_owned(), hash(text)));
        Self { domains: Some(hash(&domains.join("\n"))), sections: sections.collect() }
    }

    /// Returns whether another process states other domains.
    pub fn has_other_domains(&self, other: &Self) -> bool {
        self.domains.is_some() && other.domains.is_some() && self.domains != other.domains
    }

    /// Returns the names of the sections that both processes state, in which they differ.
    pub fn differences(&self, other: &Self) -> Vec<&str> {
        let find = |name: &str| other.sections.iter().find(|(theirs, _)| theirs == name);
        let differs = |(name, own): &&(String, u64)| find(name).is_some_and(|(_, theirs)| theirs != own);
        self.sections.iter().filter(differs).map(|(name, _)| name.as_str()).collect()
    }

    /// Returns whether a process states anything.
    pub fn is_stated(&self) -> bool {
        self.domains.is_some()
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_differ_in_what_both_state() {
        let of = |domains: &[&'static str], limits: &'static str| {
            AgreedSettings::of(domains.iter().copied(), [("limits", limits), ("login", "same")])
        };
        let own = of(&["a.example", "b.example"], "depth 20");
        assert!(!own.has_other_domains(&of(&["b.example", "a.example"], "")), "their order is another matter");
        assert!(own.has_other_domains(&of(&["a.example"], "")));
        assert_eq!(own.differences(&own), [""; 0]);
        assert_eq!(own.differences(&of(&[], "depth 21")), ["limits"]);
        let silent = AgreedSettings::default();
        assert!(!own.has_other_domains(&silent) && !silent.has_other_domains(&own) && !silent.is_stated());
        assert_eq!((own.differences(&silent), silent.differences(&own)), (vec![], vec![]));
    }

    /// Nodes run on different machines, and during an upgrade different builds.
    #[test]
    fn hashes_are_the_same_everywhere() {
        assert_eq!(hash("a.example"), 0xbc46_2cdb_e736_b17a);
    }
}
