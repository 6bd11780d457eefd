//! Differences between two profiles, function by function.

use std::collections::BTreeMap;

use crate::Profile;
use crate::profile::FunctionSamples;

/// A function in two profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The name of the function, without its arguments.
    pub name: String,
    /// Its shares of the samples in the earlier profile.
    pub before: SampleShares,
    /// Its shares of the samples in the later profile.
    pub after: SampleShares,
}

/// Shares of a function in all samples of a profile, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SampleShares {
    /// The share of the samples in which it is the innermost function.
    pub own: f64,
    /// The share of the samples in which it or one of its callees runs.
    pub within: f64,
}

impl Difference {
    /// Returns by how much its own share has grown.
    pub fn growth(&self) -> f64 {
        self.after.own - self.before.own
    }
}

/// Returns all functions of two profiles, beginning with those whose own shares differ most.
pub fn compare(before: &Profile, after: &Profile) -> Vec<Difference> {
    let mut functions: BTreeMap<&str, [FunctionSamples; 2]> = BTreeMap::new();
    for (at, profile) in [before, after].into_iter().enumerate() {
        for (name, samples) in profile.functions() {
            if let Some(place) = functions.entry(name).or_default().get_mut(at) {
                *place = samples;
            }
        }
    }
    let all = [before.samples(), after.samples()].map(|samples| samples.max(1) as f64);
    let shares = |samples: FunctionSamples, all: f64| SampleShares {
        own: samples.own as f64 / all,
        within: samples.within as f64 / all,
    };
    let mut found: Vec<_> = functions
        .into_iter()
        .map(|(name, [before, after])| Difference {
            name: name.to_owned(),
            before: shares(before, all[0]),
            after: shares(after, all[1]),
        })
        .collect();
    let changed = |difference: &Difference| difference.growth().abs();
    found.sort_by(|a, b| {
        let within = |difference: &Difference| (difference.after.within - difference.before.within).abs();
        changed(b).total_cmp(&changed(a)).then(within(b).total_cmp(&within(a)))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_most_comes_first() {
        let before = Profile::from_folded("t;a;b 50\nt;a;c 50").expect("a profile");
        let after = Profile::from_folded("t;a;b 150\nt;a;c 50\nt;a;d 0").expect("a profile");
        let found = compare(&before, &after);
        let names: Vec<_> = found.iter().map(|difference| difference.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a", "d"]);
        assert!((found[0].growth() - 0.25).abs() < 1e-9 && (found[1].growth() + 0.25).abs() < 1e-9);
        assert!((found[2].before.within - 1.0).abs() < 1e-9, "{found:?}");
    }
}
