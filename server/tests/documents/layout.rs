//! Tests the `# Layout` in the head of a crate or module: a newcomer's map, which misleads if it
//! is out of date.

use std::collections::BTreeSet;

use super::tree::Tree;

#[test]
fn layouts_name_every_module_and_nothing_else() {
    let tree = Tree::read();
    let (mut faults, mut layouts) = (Vec::new(), 0);
    for path in tree.ending(".rs") {
        let text = tree.text(path);
        let Some(layout) = layout(&text) else { continue };
        layouts += 1;
        let (modules, named) = (modules(&text), named_modules(&layout));
        // A table beside the file, or in its folder, lists these modules.
        let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let tables = [beside, path.trim_end_matches(".rs")].map(|folder| format!("{folder}/table.rs"));
        let table = tables.iter().find(|table| named.contains("table") && tree.has(table));
        let table = table.map(|table| tree.text(table)).unwrap_or_default();
        let in_table = |module: &str| table.contains(&format!("{module}::"));
        let missing = modules.iter().filter(|module| !named.contains(**module) && !in_table(module));
        faults.extend(missing.map(|module| format!("{path}: the layout doesn't name `{module}`")));
        let folder = &path[..path.find("/src/").unwrap_or_default()];
        // A benchmark, perhaps.
        let is_beside = |name: &str| tree.ending(&format!("/{name}.rs")).any(|path| path.starts_with(folder));
        let is_there = |name: &str| modules.contains(name) || is_defined(&text, name) || is_beside(name);
        let absent = named.iter().filter(|name| !is_there(name));
        faults.extend(absent.map(|name| format!("{path}: the layout names `{name}`, which isn't there")));
    }
    assert!(layouts > 20, "{layouts} layouts are few: are they still found?");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_crate_of_many_modules_has_a_layout() {
    let tree = Tree::read();
    let heads = ["/src/lib.rs", "/src/main.rs"].iter().flat_map(|end| tree.ending(end));
    let without = heads.filter(|path| {
        let text = tree.text(path);
        modules(&text).len() > MOST_WITHOUT && layout(&text).is_none()
    });
    assert_eq!(without.collect::<Vec<_>>(), Vec::<&str>::new(), "these crates have no `# Layout` in their head");
}

#[test]
fn a_module_with_a_folder_lies_beside_it() {
    let tree = Tree::read();
    let within: Vec<&str> = tree.ending("/mod.rs").filter(|path| !would_be_a_target(path)).collect();
    assert!(within.is_empty(), "`name.rs` beside `name/` is the convention: {within:?}");
}

/// Returns whether Cargo would take the file beside the folder for a program or a test of its own.
fn would_be_a_target(path: &str) -> bool {
    let folders: Vec<&str> = path.split('/').collect();
    matches!(folders[..], ["crates", _, "tests" | "examples", _, _])
}

/// Returns the lines below `# Layout`, up to the next heading or the end of the head.
fn layout(text: &str) -> Option<String> {
    let head = text.lines().map_while(|line| line.strip_prefix("//!"));
    let below = head.skip_while(|line| line.trim() != "# Layout").skip(1);
    let lines: Vec<&str> = below.take_while(|line| !line.trim_start().starts_with("# ")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns the modules that a file declares, except those only for tests.
fn modules(text: &str) -> BTreeSet<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let declared = lines.iter().enumerate().filter_map(|(at, line)| {
        let rest = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
        let name = rest.strip_prefix("mod ")?.strip_suffix(';')?;
        let is_for_tests = at.checked_sub(1).is_some_and(|before| lines[before].trim() == "#[cfg(test)]");
        (!is_for_tests).then_some(name)
    });
    declared.collect()
}

/// Returns the names in a layout that look like those of modules: one word in lower case between
/// backticks.
fn named_modules(layout: &str) -> BTreeSet<String> {
    let quoted = layout.split('`').skip(1).step_by(2);
    let names = quoted.map(|quoted| quoted.trim_start_matches("mod@").trim_end_matches('/'));
    let is_name = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    names.filter(is_name).map(str::to_owned).collect()
}

/// Returns whether a file defines or imports an item of that name.
fn is_defined(text: &str, name: &str) -> bool {
    ["fn ", "static ", "const "].iter().any(|kind| text.contains(&format!("{kind}{name}")))
}

/// The number of modules that a head may leave unmentioned.
const MOST_WITHOUT: usize = 5;
