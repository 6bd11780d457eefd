//! Resolves the names of sampled stacks, in a process of the build that was sampled.

use std::collections::HashMap;
use std::ffi::c_void;
use std::io;

use crate::Profile;
use crate::mapped::{self, Mapping};
use crate::sampler::{Sampled, SampledModule, Stack};

/// A profile with names, and how complete they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The profile, with names as far as they were found, and placeholders such as `[unknown]`
    /// elsewhere.
    pub profile: Profile,
    /// The files of which this process has no copy, so that their functions have no names.
    pub unknown: Vec<String>,
    /// True if the build has line information, so that inlined functions are found, too.
    pub has_inlined: bool,
}

/// Resolves the names, each of them a function without its arguments.
///
/// # Errors
/// The system doesn't list the mappings of this process.
pub fn find(sampled: &Sampled) -> io::Result<Named> {
    let mut finder = Finder {
        modules: &sampled.modules,
        mappings: mapped::of_process()?,
        found: HashMap::new(),
        has_inlined: false,
    };
    let mut profile = Profile { rate: sampled.rate, milliseconds: sampled.milliseconds, ..Profile::default() };
    for stack in &sampled.stacks {
        profile.add(finder.stack(stack), stack.samples);
    }
    if sampled.left_out > 0 {
        profile.add(vec!["[rare stacks]".to_owned()], sampled.left_out);
    }
    let unknown = sampled.modules.iter().filter(|module| !finder.has(module) && module.path.starts_with('/'));
    let mut unknown: Vec<_> = unknown.map(|module| module.path.clone()).collect();
    unknown.sort_unstable();
    unknown.dedup();
    Ok(Named { profile, unknown, has_inlined: finder.has_inlined })
}

struct Finder<'a> {
    modules: &'a [SampledModule],
    mappings: Vec<Mapping>,
    found: HashMap<&'a str, Vec<String>>,
    has_inlined: bool,
}

impl<'a> Finder<'a> {
    fn has(&self, module: &SampledModule) -> bool {
        self.mappings.iter().any(|mapping| mapping.file == module.file)
    }

    /// Returns the names of a stack: its thread, then its functions, outermost first.
    fn stack(&mut self, stack: &'a Stack) -> Vec<String> {
        let mut frames: Vec<Vec<String>> = stack.frames.iter().map(|frame| self.names(frame)).collect();
        // Below the signal's handler come the system's frames, and then the interrupted function.
        let handler = frames.iter().position(|names| names.iter().any(|name| name == HANDLER));
        if let Some(handler) = handler {
            frames.drain(..(handler + 2).min(frames.len()));
        }
        let names = frames.into_iter().rev().flat_map(|names| names.into_iter().rev());
        std::iter::once(stack.thread.clone()).chain(names).collect()
    }

    /// Returns the names at a place in the code, innermost first: the function at that place, then
    /// those into which it is inlined.
    fn names(&mut self, frame: &'a str) -> Vec<String> {
        if let Some(found) = self.found.get(frame) {
            return found.clone();
        }
        let found = self.look(frame);
        self.found.insert(frame, found.clone());
        found
    }

    fn look(&mut self, frame: &str) -> Vec<String> {
        let parsed = frame.split_once('+');
        let parsed = parsed.and_then(|(module, place)| Some((module.parse::<usize>().ok()?, place)));
        let place =
            parsed.and_then(|(number, place)| Some((self.modules.get(number)?, u64::from_str_radix(place, 16).ok()?)));
        let Some((module, place)) = place else { return vec!["[unknown]".to_owned()] };
        let mut names = Vec::new();
        if let Some(address) = self.address(module, place) {
            backtrace::resolve(address as *mut c_void, |symbol| {
                if let Some(name) = symbol.name() {
                    names.push(shorten(&format!("{name:#}")));
                }
            });
        }
        self.has_inlined |= names.len() > 1;
        if names.is_empty() {
            let file = module.path.rsplit('/').next().unwrap_or_default().trim_matches(['[', ']']);
            names.push(format!("[{file}]"));
        }
        names
    }

    /// Returns the address at which this process has mapped an offset of a file.
    fn address(&self, module: &SampledModule, place: u64) -> Option<usize> {
        let has = |mapping: &&Mapping| {
            let behind = mapping.offset + (mapping.end - mapping.start);
            mapping.file == module.file && mapping.path.starts_with('/') && (mapping.offset..behind).contains(&place)
        };
        let mapping = self.mappings.iter().find(has)?;
        usize::try_from(mapping.start + (place - mapping.offset)).ok()
    }
}

/// Removes generic arguments from a name, since they tell little in a picture. The type that a
/// function belongs to stays, as in `<Vec<T> as Extend>::extend`, and so does the type of an
/// `impl`.
fn shorten(name: &str) -> String {
    let mut out = String::new();
    // The number of open brackets whose contents are kept. The brackets themselves are left out,
    // and so are those that close them.
    let mut kept = 0;
    let mut rest = name;
    while let Some(at) = rest.find(['<', '>']) {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        rest = &behind[1..];
        match behind.starts_with('<') {
            true if out.is_empty() || rest.starts_with("impl ") => kept += 1,
            true => {
                out.truncate(out.trim_end_matches("::").len());
                rest = &rest[closing(rest)..];
            }
            // This is part of an arrow, or an operator.
            false if kept == 0 || before.ends_with('-') => out.push('>'),
            false => kept -= 1,
        }
    }
    out + rest
}

/// Returns the place after the bracket that closes the one before `text`.
fn closing(text: &str) -> usize {
    let (mut depth, mut before) = (1, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
        before = letter;
    }
    text.len()
}

/// The function of the library that takes a sample.
const HANDLER: &str = "perf_signal_handler";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short() {
        assert_eq!(shorten("<alloc::vec::Vec<T,A> as X>::push"), "alloc::vec::Vec as X::push");
        assert_eq!(shorten("<F as FnOnce<fn() -> u8>>::call"), "F as FnOnce::call");
        assert_eq!(shorten("alloc::vec::Vec<T,A>::extend_with"), "alloc::vec::Vec::extend_with");
        assert_eq!(shorten("core::ptr::drop_in_place<rusqlite::Statement>"), "core::ptr::drop_in_place");
        assert_eq!(shorten("core::ptr::const_ptr::<impl *const T>::add"), "core::ptr::const_ptr::impl *const T::add");
        assert_eq!(shorten("std::mem::take::<Vec<fn() -> u8>>"), "std::mem::take");
        assert_eq!(shorten("<<A as B<C>>::D as E>::f"), "A as B::D as E::f");
        assert_eq!(shorten("main"), "main");
        assert_eq!(shorten("Vec<T"), "Vec");
    }

    #[test]
    fn what_is_not_mapped_here_is_named_by_its_file() {
        let module = SampledModule { path: "/opt/other/rookery".into(), file: "00:00:7".into() };
        let stack = Stack { thread: "web".into(), samples: 2, frames: vec!["0+10".into(), "beef".into()] };
        let sampled = Sampled { modules: vec![module], stacks: vec![stack], left_out: 1, ..Sampled::default() };
        let named = find(&sampled).expect("names");
        assert_eq!(named.profile.to_folded(), "[rare stacks] 1\nweb;[unknown];[rookery] 2\n");
        assert_eq!(named.unknown, ["/opt/other/rookery"]);
    }

    #[test]
    fn a_function_of_this_process_is_named() {
        let address = a_function_of_this_process_is_named as fn() as usize as u64 + 1;
        let mappings = mapped::of_process().expect("mappings");
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address)).expect("code");
        let module = SampledModule { path: mapping.path.clone(), file: mapping.file.clone() };
        let frames = vec![format!("0+{:x}", address - mapping.start + mapping.offset)];
        let stack = Stack { thread: "test".into(), samples: 1, frames };
        let sampled = Sampled { modules: vec![module], stacks: vec![stack], ..Sampled::default() };
        let named = find(&sampled).expect("names");
        let found = named.profile.to_folded();
        assert!(found.contains("names::tests::a_function_of_this_process_is_named"), "{found}");
        assert_eq!(named.unknown, Vec::<String>::new());
    }
}
