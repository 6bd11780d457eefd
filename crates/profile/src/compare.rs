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
    /// True if nearly all of these are samples of one callee.
    pub passes_on: bool,
}

impl Difference {
    /// Returns by how much its own share has grown.
    pub fn growth(&self) -> f64 {
        self.after.own - self.before.own
    }

    /// Returns how much the difference says about its cause: by how much its own share has changed,
    /// or its share with its callees, unless one of those says as much.
    fn weight(&self) -> f64 {
        let larger = if self.after.within < self.before.within { &self.before } else { &self.after };
        let within = if larger.passes_on { 0.0 } else { (self.after.within - self.before.within).abs() };
        within.max(self.growth().abs())
    }
}

/// Returns all functions of two profiles, beginning with those whose shares differ most, alone or
/// with their callees.
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
        passes_on: samples.passes_on(),
    };
    let mut found: Vec<_> = functions
        .into_iter()
        .map(|(name, [before, after])| Difference {
            name: name.to_owned(),
            before: shares(before, all[0]),
            after: shares(after, all[1]),
        })
        .collect();
    let own = |difference: &Difference| difference.growth().abs();
    found.sort_by(|a, b| b.weight().total_cmp(&a.weight()).then(own(b).total_cmp(&own(a))));
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

    #[test]
    fn a_function_whose_callees_take_more_is_named_before_them() {
        let before = "t;run;route 50\nt;run;send 40\nt;run;check 10";
        let after = "t;run;route 50\nt;run;send 40\nt;run;check;parse 60\nt;run;check;compare 30";
        let [before, after] = [before, after].map(|text| Profile::from_folded(text).expect("a profile"));
        let found = compare(&before, &after);
        let names: Vec<_> = found.iter().map(|difference| difference.name.as_str()).collect();
        assert_eq!(names, ["check", "parse", "route", "send", "compare", "run"]);
    }
}
