//! The files of the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders below the root, by their relative paths, except build products.
pub struct Tree {
    root: &'static Path,
    paths: BTreeSet<String>,
}

impl Tree {
    /// Lists the files.
    pub fn read() -> Self {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let mut paths = BTreeSet::new();
        walk(root, "", &mut paths);
        assert!(paths.contains("Cargo.toml") && paths.contains("crates/hub/src/lib.rs"), "this is the repository");
        Self { root, paths }
    }

    /// Returns the files whose names end like this.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a str> {
        self.paths.iter().map(String::as_str).filter(move |path| path.ends_with(end))
    }

    /// Returns the absolute path of a file.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Returns the text of a file.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns whether a path from the root exists: as it is, or as a module's, without its ending.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        ["", ".rs", "/mod.rs"].iter().any(|end| self.paths.contains(&format!("{path}{end}")))
    }

    /// Returns whether any path ends with these segments, as they are or as a module's.
    pub fn has_ending(&self, segments: &str) -> bool {
        let end = format!("/{}", segments.trim_end_matches('/'));
        self.paths.iter().any(|path| ["", ".rs", "/mod.rs"].iter().any(|more| path.ends_with(&format!("{end}{more}"))))
    }
}

fn walk(root: &Path, folder: &str, paths: &mut BTreeSet<String>) {
    let entries = fs::read_dir(root.join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    for entry in entries {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        let is_left_out = name == "target" || name == "node_modules" || name == "__pycache__";
        if is_left_out || (name.starts_with('.') && name != ".ci") {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type().expect("a type").is_dir() {
            walk(root, &path, paths);
        }
        paths.insert(path);
    }
}
