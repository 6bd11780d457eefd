//! Tests the book: its contents list every page, and its links lead somewhere.
//!
//! mdBook would refuse these mistakes or build wrong pages from them. The test needs no other
//! program; `cargo xtask book` builds the HTML and checks its links.

use std::collections::BTreeSet;

use super::tree::Tree;

const CONTENTS: &str = "doc/SUMMARY.md";

#[test]
fn the_contents_name_every_page_once() {
    let tree = Tree::read();
    let text = tree.text(CONTENTS);
    let mut named = BTreeSet::new();
    for link in links(&text) {
        let path = format!("doc/{}", link.path);
        assert!(tree.has(&path), "{CONTENTS}: there is no {path}");
        assert!(named.insert(path.clone()), "{CONTENTS} names {path} twice");
    }
    let pages = tree.ending(".md").filter(|path| path.starts_with("doc/") && *path != CONTENTS);
    let left_out: Vec<_> = pages.filter(|path| !named.contains(*path)).collect();
    assert!(left_out.is_empty(), "{CONTENTS} leaves out {left_out:?}");
    assert!(named.len() > 50, "{} pages are few: are they still found?", named.len());
}

#[test]
fn links_of_documents_lead_to_files_and_headings() {
    let tree = Tree::read();
    let (mut faults, mut found) = (Vec::new(), 0);
    for path in tree.ending(".md") {
        for link in links(&tree.text(path)) {
            found += 1;
            let target = if link.path.is_empty() { path.to_owned() } else { resolve(path, link.path) };
            if !tree.path(&target).exists() {
                faults.push(format!("{path}: there is no {target}"));
            } else if let Some(anchor) = link.anchor
                && !anchors(&tree.text(&target)).contains(anchor)
            {
                faults.push(format!("{path}: {target} has no heading #{anchor}"));
            }
        }
    }
    assert!(found > 200, "{found} links are few: are they still found?");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn links_are_found_and_resolved() {
    let text = "See [a](../a.md#b-c), ![p](p.png) and [x](https://x.example/).\n```\n[n](no.md)\n```\n[h](#h)\n";
    let found: Vec<_> = links(text).into_iter().map(|link| (link.path, link.anchor)).collect();
    assert_eq!(found, [("../a.md", Some("b-c")), ("p.png", None), ("", Some("h"))]);
    assert_eq!(resolve("doc/book/operating/calls.md", "../../limits.md"), "doc/limits.md");
    assert_eq!(resolve("README.md", "doc/limits.md"), "doc/limits.md");
    let anchors = anchors("# The `server`, as it is\n```\n# no heading\n```\n## Who guesses\n");
    assert_eq!(anchors.into_iter().collect::<Vec<_>>(), ["the-server-as-it-is", "who-guesses"]);
}

/// A link to another place of the repository.
struct BookLink<'a> {
    /// The path, from the folder of the document; empty for the document itself.
    path: &'a str,
    /// The name of a heading there.
    anchor: Option<&'a str>,
}

fn links(text: &str) -> Vec<BookLink<'_>> {
    let targets = outside_of_code(text).flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| Some(rest.split_once(')')?.0));
    let inner = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    inner
        .map(|target| match target.split_once('#') {
            Some((path, anchor)) => BookLink { path, anchor: Some(anchor) },
            None => BookLink { path: target, anchor: None },
        })
        .collect()
}

/// Returns the lines of a document outside of fenced code.
fn outside_of_code(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the path from the root for one that is relative to a document's folder.
fn resolve(document: &str, path: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchors of a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = outside_of_code(text).filter(|line| line.starts_with('#'));
    let name = |heading: &str| -> String {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(name).collect()
}
