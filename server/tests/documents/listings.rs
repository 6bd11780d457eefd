//! Tests programs in documents: a block of Rust below `doc` is a file of the tree or whole lines
//! of one, so that code that readers copy is compiled and tested.
//!
//! The line before the block links the file. A block that is the whole file is written by
//! `UPDATE_DOC=1`.

use std::fs;

use super::tree::Tree;

#[test]
fn listings_are_up_to_date() {
    let tree = Tree::read();
    let mut found = 0;
    for path in tree.ending(".md").filter(|path| path.starts_with("doc/")) {
        let mut page = tree.text(path);
        for listing in listings(&page) {
            found += 1;
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let source = listing.source.unwrap_or_else(|| panic!("{path}: no link before\n{}", listing.text));
            let text = tree.text(&format!("{folder}/{source}"));
            if is_in(&listing.text, &text) {
                continue;
            }
            let is_whole = listing.text.lines().next() == text.lines().next();
            assert!(
                is_whole && std::env::var_os("UPDATE_DOC").is_some(),
                "{path}: {source} doesn't say\n{}",
                listing.text
            );
            page = page.replacen(&with_fence(&listing.text), &with_fence(&text), 1);
            fs::write(tree.path(path), &page).expect("a page that can be written");
        }
    }
    assert!(found >= 5, "{found} listings are few: are they still found?");
}

#[test]
fn listings_are_found_with_their_sources() {
    let page = "See [`a.rs`](../a.rs):\n\n```rust\nfn a() {}\n\nfn b() {}\n```\n\n```\nno Rust\n```\n\n```rust\nfn c() {}\n```\n";
    let found: Vec<_> = listings(page).into_iter().map(|listing| (listing.source, listing.text)).collect();
    let wanted =
        [(Some("../a.rs".to_owned()), "fn a() {}\n\nfn b() {}\n".to_owned()), (None, "fn c() {}\n".to_owned())];
    assert_eq!(found, wanted);
    assert!(is_in("fn b() {}\n", "fn a() {}\nfn b() {}\n"));
    assert!(!is_in("fn b() {}\n", "pub fn b() {}\n"), "a part of a line");
}

/// A block of Rust.
struct Listing {
    /// The target of the link in the last line of text before it.
    source: Option<String>,
    text: String,
}

fn listings(page: &str) -> Vec<Listing> {
    let (mut found, mut before) = (Vec::new(), "");
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let text: String =
                lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
            if line == "```rust" {
                let target = before.rsplit_once("](").and_then(|(_, rest)| rest.split_once(')'));
                found.push(Listing { source: target.map(|(target, _)| target.to_owned()), text });
            }
            before = "";
        } else if !line.is_empty() {
            before = line;
        }
    }
    found
}

/// Returns whether a text contains these lines in a row.
fn is_in(lines: &str, text: &str) -> bool {
    format!("\n{text}").contains(&format!("\n{lines}"))
}

fn with_fence(text: &str) -> String {
    format!("```rust\n{text}```\n")
}
