//! Stacks with names, and folded text: one stack per line, outermost first, with its count.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The stacks of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Samples for each second of CPU time; 0 if unknown, as for folded text.
    pub rate: u32,
    /// The duration in milliseconds; 0 if unknown.
    pub milliseconds: u64,
    /// The number of samples of each stack. A stack begins with the name of its thread, and ends
    /// with the innermost function.
    pub stacks: BTreeMap<Vec<String>, u64>,
}

impl Profile {
    /// Adds a stack.
    pub fn add(&mut self, stack: Vec<String>, samples: u64) {
        *self.stacks.entry(stack).or_default() += samples;
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns the profile as folded text.
    pub fn to_folded(&self) -> String {
        let mut text = String::new();
        for (stack, samples) in &self.stacks {
            let names: Vec<_> = stack.iter().map(|name| name.replace([';', '\n'], ",")).collect();
            let _ = writeln!(text, "{} {samples}", names.join(";"));
        }
        text
    }

    /// Parses folded text.
    ///
    /// # Errors
    /// A line has no count at its end.
    pub fn from_folded(text: &str) -> Result<Profile, String> {
        let mut profile = Profile::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let read = line.rsplit_once(' ').and_then(|(stack, samples)| Some((stack, samples.parse().ok()?)));
            let (stack, samples) = read.ok_or_else(|| format!("line {}: it doesn't end with a count", at + 1))?;
            profile.add(stack.split(';').map(str::to_owned).collect(), samples);
        }
        Ok(profile)
    }

    /// Returns for each function the number of samples in which it was the innermost one, the
    /// number of samples whose stacks contain it, and those of its busiest callee.
    pub fn functions(&self) -> BTreeMap<&str, FunctionSamples> {
        let mut functions: BTreeMap<&str, FunctionSamples> = BTreeMap::new();
        let mut calls: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (stack, &samples) in &self.stacks {
            let names = stack.get(1..).unwrap_or_default();
            for (at, name) in names.iter().enumerate() {
                // A function that calls itself counts once.
                if !names.get(..at).is_some_and(|before| before.contains(name)) {
                    functions.entry(name).or_default().within += samples;
                    if let Some(callee) = names.get(at + 1) {
                        *calls.entry((name, callee)).or_default() += samples;
                    }
                }
            }
            if let Some(innermost) = names.last() {
                functions.entry(innermost).or_default().own += samples;
            }
        }
        for ((caller, _), samples) in calls {
            let below = &mut functions.entry(caller).or_default().below;
            *below = samples.max(*below);
        }
        functions
    }
}

/// The numbers of samples of a function, alone and with its callees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FunctionSamples {
    /// The samples in which it was the innermost function.
    pub own: u64,
    /// The samples in which it, or one of its callees, was running.
    pub within: u64,
    /// The most samples that one of its callees has.
    pub below: u64,
}

impl FunctionSamples {
    /// Returns whether nearly all of its samples are those of one callee: that one explains more.
    pub fn passes_on(&self) -> bool {
        self.below as f64 > PASSED_ON * self.within as f64
    }
}

/// The share of a function's samples from which a callee stands for the function.
const PASSED_ON: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_text_is_read_as_it_is_written() {
        let mut profile = Profile::default();
        profile.add(vec!["shard 0".into(), "a".into(), "[u8; 4]::b".into()], 3);
        profile.add(vec!["shard 0".into(), "a".into()], 2);
        let text = profile.to_folded();
        assert_eq!(text, "shard 0;a 2\nshard 0;a;[u8, 4]::b 3\n");
        assert_eq!(Profile::from_folded(&text).map(|read| read.to_folded()), Ok(text));
        assert_eq!(Profile::from_folded("a 1\nb\n"), Err("line 2: it doesn't end with a count".into()));
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let profile = Profile::from_folded("t;a;b;a 5\nt;a 1").expect("a profile");
        let functions = profile.functions();
        assert_eq!(functions["a"], FunctionSamples { own: 6, within: 6, below: 5 });
        assert_eq!(functions["b"], FunctionSamples { own: 0, within: 5, below: 5 });
        assert_eq!(functions.len(), 2, "threads aren't functions");
    }

    #[test]
    fn a_function_that_only_calls_another_passes_on() {
        let profile = Profile::from_folded("t;main;work;a 50\nt;main;work;b 40\nt;main 5").expect("a profile");
        let functions = profile.functions();
        let passing: Vec<_> =
            functions.iter().filter(|(_, samples)| samples.passes_on()).map(|(name, _)| *name).collect();
        assert_eq!(passing, ["main"]);
        assert_eq!(functions["work"], FunctionSamples { own: 0, within: 90, below: 50 });
    }
}
