//! Tests paths in documents and comments.
//!
//! These count as paths, and have to exist:
//! * the target of a link in a document, from the document's folder;
//! * anything that ends like a source file or document (`.rs`, `.py`, `.md`), with or without
//!   folders;
//! * between backticks, anything that begins with a folder of the root or with the name of a
//!   crate, and has a slash.
//!
//! A path may be short: `hub/task.rs` is `crates/hub/src/task.rs`, `pool/search` is a module of
//! the crate in question. So it is enough that some path in the tree ends with it. Exempt are
//! addresses of the web, absolute paths, placeholders (`DATA/state.toml`, `FILE.md`) and build
//! products (`target/…`).

use super::tree::Tree;

#[test]
fn every_path_that_is_named_exists() {
    let tree = Tree::read();
    let (mut faults, mut found) = (Vec::new(), 0);
    let files = [".md", ".rs", ".py", ".mjs", ".toml", ".ci/run", ".ci/instructions"];
    for path in files.iter().flat_map(|end| tree.ending(end)) {
        let text = prose(path, &tree.text(path));
        for (number, line) in text.iter().enumerate() {
            for name in names(line, &tree) {
                found += 1;
                if !exists(&tree, path, &name) {
                    faults.push(format!("{path}:{}: there is no {name}", number + 1));
                }
            }
        }
    }
    assert!(found > 100, "{found} paths are few: are they still found?");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn what_counts_as_a_path_is_found_and_looked_up() {
    let tree = Tree::read();
    let found = |line: &str| names(line, &tree);
    for (line, wanted) in [
        ("see `hub/task.rs`, and layers.rs.", vec!["hub/task.rs", "layers.rs"]),
        ("[limits](doc/limits.md#rooms) of `store/sql`:", vec!["doc/limits.md", "store/sql"]),
        ("tests/clients/web.py:17 and/or `text/plain`", vec!["tests/clients/web.py"]),
        ("`DATA/rookery.toml`, `target/x.rs`, https://example.org/x.md, /etc/x.py, .md", vec![]),
    ] {
        assert_eq!(found(line), wanted, "{line}");
    }
    let from = "crates/hub/src/task.rs";
    for name in ["hub/task.rs", "task.rs", "crates/hub/src/task.rs", "store/sql", "doc/limits.md", "../Cargo.toml"] {
        assert!(exists(&tree, from, name), "{name}");
    }
    for name in ["hub/tusk.rs", "design.md", "tests/foreign/check.py", "store/parlours", "../limits.md"] {
        assert!(!exists(&tree, from, name), "{name}");
    }
}

/// Returns the lines of a file, each reduced to its prose: all of a document, comments and
/// docstrings of a program.
fn prose(path: &str, text: &str) -> Vec<String> {
    let mut in_docstring = false;
    let line = |line: &str| {
        let trimmed = line.trim_start();
        if path.ends_with(".md") {
            line.to_owned()
        } else if path.ends_with(".rs") || path.ends_with(".mjs") {
            trimmed.strip_prefix("//").unwrap_or_default().to_owned()
        } else {
            let quotes = line.matches("\"\"\"").count();
            let is_read = in_docstring || quotes > 0 || trimmed.starts_with('#');
            in_docstring ^= quotes % 2 == 1;
            if is_read { line.to_owned() } else { String::new() }
        }
    };
    text.lines().map(line).collect()
}

/// Returns the paths that a line names.
fn names(line: &str, tree: &Tree) -> Vec<String> {
    let mut names = Vec::new();
    for (at, part) in line.split('`').enumerate() {
        let is_quoted = at % 2 == 1 && !part.contains(' ');
        for word in part.split(|c: char| c.is_whitespace() || "()[]{}<>\"'|,;=*".contains(c)) {
            let word = word.trim_end_matches(['.', ':', '…', '!', '?']).split('#').next().unwrap_or_default();
            let word = word.rsplit_once(':').map_or(word, |(before, after)| {
                // `tests/clients/web.py:17` is a path with a line.
                if after.bytes().all(|byte| byte.is_ascii_digit()) { before } else { word }
            });
            if is_path(word, is_quoted, tree) {
                names.push(word.to_owned());
            }
        }
    }
    names
}

fn is_path(word: &str, is_quoted: bool, tree: &Tree) -> bool {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    let stem = word.trim_start_matches("../");
    let is_elsewhere = stem.starts_with(['/', '~', '$']) || stem.contains("//") || stem.starts_with("target/");
    let folders = stem.rsplit_once('/').map_or("", |(folders, _)| folders);
    let is_placeholder = folders.split('/').any(|name| name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase()));
    if !is_plain || is_elsewhere || is_placeholder || stem == "FILE.md" {
        return false;
    }
    let is_source = [".rs", ".py", ".mjs", ".md"].iter().any(|end| stem.len() > end.len() && stem.ends_with(end));
    let first = stem.split('/').next().unwrap_or_default();
    let is_ours = stem.contains('/') && (tree.has(first) || tree.has(&format!("crates/{first}")));
    is_source || (is_quoted && is_ours)
}

/// Returns whether a path exists, as seen from a file.
fn exists(tree: &Tree, from: &str, name: &str) -> bool {
    let up = name.matches("../").count();
    if up > 0 {
        let folder = from.rsplit('/').skip(1 + up).collect::<Vec<_>>();
        let folder = folder.into_iter().rev().map(|name| format!("{name}/")).collect::<String>();
        return tree.has(&(folder + name.trim_start_matches("../")));
    }
    let name = name.trim_start_matches("./");
    let (first, rest) = name.split_once('/').unwrap_or((name, ""));
    tree.has(name)
        || (!rest.is_empty() && tree.has(&format!("crates/{first}/src/{rest}")))
        || (!rest.is_empty() && tree.has(&format!("{first}/src/{rest}")))
        || tree.has_ending(name)
}
