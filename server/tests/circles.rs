//! Tests for circles among the files of a crate: files that import each other can only be
//! understood together. Rust allows them, so this test reads the imports and fails for an unknown
//! circle.
//!
//! A file imports another if one of its `use`s names it, or a path from `crate` or `super` in its
//! code does; `mod` is no import, and tests within a file don't count. So a parent that calls its
//! children is no circle as long as they don't import from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The crates that are checked, each with its circles: files by their modules, the crate's root
/// being `crate`. Each circle is a parent with the files that share its types, or one subject in
/// several files.
const KNOWN: &[(&str, &[&str])] = &[
    // A world holds functions that take the world again: those of modules, and continuations. Its
    // type and those of its parts can't be understood separately.
    ("hub", &["at_hand calls mail module::tables parts returning waiting world"]),
    ("modkit", &[]),
    ("archive", &[]),
    ("rooms", &[]),
    ("pubsub", &[]),
    ("operations", &[]),
    ("portability", &[]),
    ("modules", &[]),
    ("shard", &[]),
    ("web", &[]),
    ("fanout", &[]),
    ("store", &[]),
    ("dpm", &[]),
];

#[test]
fn no_files_import_each_other_but_those_known_to() {
    for (name, known) in KNOWN {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(name).join("src");
        let files = files(&root);
        assert!(files.len() > 1, "there is a crate {name}");
        let found = circles(&imports(&files));
        let known: BTreeSet<BTreeSet<String>> =
            known.iter().map(|circle| circle.split_whitespace().map(str::to_owned).collect()).collect();
        let new: Vec<_> = found.difference(&known).collect();
        assert!(new.is_empty(), "{name}: these files import each other: {new:?}; move what they share below them");
        let gone: Vec<_> = known.difference(&found).collect();
        assert!(gone.is_empty(), "{name}: these circles are no more: {gone:?}; take them from the list");
    }
}

/// Reads all files of a crate, by the path of their modules.
fn files(root: &Path) -> BTreeMap<Vec<String>, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![(root.to_owned(), Vec::new())]);
    while let Some((folder, path)) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path()) {
            let name = entry.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            let mut path = path.clone();
            if !matches!(name.as_str(), "lib" | "main" | "mod") {
                path.push(name);
            }
            if entry.is_dir() {
                folders.push((entry, path));
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                found.insert(path, code(&fs::read_to_string(&entry).expect("a source")));
            }
        }
    }
    found
}

/// Returns a source without comments and without the tests at its end.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Finds the files that each file imports. A name that a file re-exports leads to its source.
fn imports(files: &BTreeMap<Vec<String>, String>) -> Imports {
    let paths: BTreeMap<_, _> = files.iter().map(|(module, code)| (module.clone(), paths(code))).collect();
    let of = |module: &Vec<String>, (used, named): &(Vec<String>, Vec<String>)| {
        let targets = used.iter().chain(named).filter_map(|path| target(&paths, module, path, HOPS));
        targets.filter(|target| target != module).collect()
    };
    paths.iter().map(|(module, named)| (module.clone(), of(module, named))).collect()
}

/// Returns the paths of the imports of a source, and those in the rest of it.
fn paths(code: &str) -> (Vec<String>, Vec<String>) {
    let (mut used, mut rest) = (Vec::new(), String::new());
    for statement in code.split_inclusive(';') {
        match statement.trim_start().split_once("use ") {
            Some((before, tree)) if before.lines().last().is_none_or(|line| is_visibility(line.trim())) => {
                rest.push_str(before);
                spread("", tree.trim_end_matches(';'), &mut used);
            }
            _ => rest.push_str(statement),
        }
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let qualified = rest.split(|letter| !is_part(letter));
    let named = qualified.filter(|path| path.starts_with("crate::") || path.starts_with("super::"));
    (used, named.map(str::to_owned).collect())
}

/// Returns whether the text before `use` is a visibility, or nothing.
fn is_visibility(text: &str) -> bool {
    text.is_empty() || text.starts_with("pub") || text.ends_with('}') || text.ends_with('{') || text.ends_with(']')
}

/// Appends the paths of a tree of imports.
fn spread(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    if tree.is_empty() {
        // Nothing follows the last comma.
        return;
    }
    let (Some(open), Some(end)) = (tree.find('{'), tree.rfind('}')) else {
        let name = tree.split_whitespace().next().unwrap_or_default();
        return paths.push(format!("{prefix}{name}"));
    };
    let (prefix, inner) = (format!("{prefix}{}", &tree[..open]), &tree[open + 1..end]);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                spread(&prefix, &inner[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    spread(&prefix, &inner[start..], paths);
}

/// The most re-exports to follow.
const HOPS: usize = 4;

/// Returns the file to which a path leads from a module: the deepest module in it that is a file,
/// or the source of the next name, if that module re-exports it.
fn target(files: &Paths, module: &[String], path: &str, hops: usize) -> Option<Vec<String>> {
    let mut segments = path.split("::").map(str::trim).filter(|segment| !segment.is_empty()).peekable();
    let mut is_ours = true;
    let mut at: Vec<String> = match segments.peek() {
        Some(&"crate") => segments.next().map(|_| Vec::new())?,
        Some(&"self") => segments.next().map(|_| module.to_vec())?,
        Some(&"super") => module.to_vec(),
        // Any other name is another crate's, or the file's own.
        _ => {
            is_ours = false;
            module.to_vec()
        }
    };
    while segments.next_if_eq(&"super").is_some() {
        at.pop();
    }
    for segment in segments {
        at.push(segment.to_owned());
        if files.contains_key(&at) {
            is_ours = true;
            continue;
        }
        at.pop();
        if at == module {
            return is_ours.then_some(at);
        }
        let given = files.get(&at)?.0.iter().find(|path| path.rsplit("::").next() == Some(segment));
        let given = given.filter(|_| hops > 0).and_then(|path| target(files, &at, path, hops - 1));
        return given.or(Some(at)).filter(|_| is_ours);
    }
    is_ours.then_some(at)
}

/// The paths of each file, those of its imports first.
type Paths = BTreeMap<Vec<String>, (Vec<String>, Vec<String>)>;

/// Finds the circles: sets of files that all reach each other.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> =
        imports.keys().map(|file| (file, find_reached(imports, file))).collect();
    let name = |file: &Vec<String>| if file.is_empty() { "crate".to_owned() } else { file.join("::") };
    let of = |file: &&Vec<String>| -> BTreeSet<String> {
        reached[*file].iter().filter(|other| reached[**other].contains(*file)).map(|other| name(other)).collect()
    };
    imports.keys().filter(|file| reached[*file].contains(*file)).map(|file| of(&file)).collect()
}

/// Finds the files that a file reaches; itself only if one of them leads back.
fn find_reached<'a>(imports: &'a Imports, file: &'a Vec<String>) -> BTreeSet<&'a Vec<String>> {
    let (mut found, mut open) = (BTreeSet::new(), vec![file]);
    while let Some(next) = open.pop() {
        for import in &imports[next] {
            if found.insert(import) {
                open.push(import);
            }
        }
    }
    found
}

#[test]
fn imports_are_found_in_all_their_forms() {
    let files: BTreeMap<Vec<String>, String> = [
        ("", "pub mod a; pub use a::A; pub use e::F;"),
        (
            "a",
            "use std::fmt;\nuse crate::{F,};\nuse crate::b::{self, B as C, c::{D, E}};\n#[derive(Debug)]\npub struct A;",
        ),
        ("b", "use super::a::A;\npub mod c;"),
        ("b::c", "fn c() { crate::d::D::new(); let used = super::super::e::E; }"),
        ("d", "// use crate::a;\nuse rookery_a::a; fn d() { cause a; }"),
        ("e", ""),
    ]
    .into_iter()
    .map(|(module, source)| {
        (module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect(), code(source))
    })
    .collect();
    let found: Vec<String> = imports(&files)
        .iter()
        .map(|(file, imports)| {
            let imports: Vec<_> = imports.iter().map(|import| import.join("::")).collect();
            format!("{}: {}", file.join("::"), imports.join(" "))
        })
        .collect();
    assert_eq!(found, [": a e", "a: b b::c e", "b: a", "b::c: d e", "d: ", "e: "]);
    let circle = ["a".to_owned(), "b".to_owned()].into();
    assert_eq!(circles(&imports(&files)), [circle].into());
}
