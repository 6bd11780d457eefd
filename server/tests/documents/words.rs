//! The words and the width of comments, as STYLE.md has them.
//!
//! A comment on an item, or the head of a file, says what something is or does. It doesn't begin
//! with a question, nor with a clause that turns a name into one ("What a copy costs").

use super::tree::Tree;

#[test]
fn no_comment_begins_with_a_question() {
    let faults = faults(|comment| {
        let word = comment.text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        (comment.is_first && QUESTIONS.contains(&word)).then(|| format!("begins with {word:?}"))
    });
    assert!(faults.is_empty(), "{} comments ask:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn comments_have_no_words_that_nobody_says() {
    let faults = faults(|comment| {
        let text = comment.text.to_ascii_lowercase();
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphabetic() && c != '_').collect();
        let is_there = |phrase: &str| {
            let phrase: Vec<&str> = phrase.split(' ').collect();
            words.windows(phrase.len()).any(|words| words == phrase)
        };
        let quoted = |phrase: &str| comment.text.contains(&format!("\"{phrase}\""));
        let found = UNSAID.into_iter().find(|(phrase, _)| is_there(phrase) && !quoted(phrase));
        found.map(|(phrase, said)| format!("says {phrase:?} for {said:?}"))
    });
    assert!(faults.is_empty(), "{} comments:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn comments_are_not_wider_than_a_page() {
    let faults = faults(|comment| (comment.columns > COLUMNS).then(|| format!("has {} columns", comment.columns)));
    assert!(faults.is_empty(), "{} lines:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn comments_are_found_with_their_beginnings() {
    let text =
        "//! How it works.\n//! Well.\n\n    /// The size,\n    /// whatever it is.\n    // Who?\n    x(); // no\n";
    let found: Vec<_> =
        comments(text).map(|comment| (comment.line, comment.is_first, comment.text, comment.columns)).collect();
    let wanted = [
        (1, true, "How it works.", 17),
        (2, false, "Well.", 9),
        (4, true, "The size,", 17),
        (5, false, "whatever it is.", 23),
        (6, false, "Who?", 11),
    ];
    assert_eq!(found, wanted);
}

/// A line that is a comment.
struct Comment<'a> {
    /// Its number, from one.
    line: usize,
    /// True in the first line of a comment on an item or a file.
    is_first: bool,
    text: &'a str,
    /// Its width, with what it is indented by.
    columns: usize,
}

fn comments(text: &str) -> impl Iterator<Item = Comment<'_>> {
    let mut before = "";
    text.lines().enumerate().filter_map(move |(number, line)| {
        let trimmed = line.trim_start();
        let marker = ["///", "//!", "//"].into_iter().find(|marker| trimmed.starts_with(marker)).unwrap_or_default();
        let is_first = marker.len() == 3 && before != marker;
        before = marker;
        (!marker.is_empty()).then(|| Comment {
            line: number + 1,
            is_first,
            text: trimmed[marker.len()..].trim_start(),
            columns: line.chars().count(),
        })
    })
}

/// Returns the comments of which `find` finds something wrong, each with its place.
fn faults(find: impl Fn(&Comment<'_>) -> Option<String>) -> Vec<String> {
    let tree = Tree::read();
    let (mut faults, mut looked_at) = (Vec::new(), 0);
    for path in tree.ending(".rs").filter(|path| !NOT_YET.iter().any(|folder| path.starts_with(folder))) {
        for comment in comments(&tree.text(path)) {
            looked_at += 1;
            faults.extend(find(&comment).map(|fault| format!("{path}:{}: {fault}", comment.line)));
        }
    }
    assert!(looked_at > 10_000, "{looked_at} lines are few: are comments still found?");
    faults
}

/// The folders that are still to be read over.
const NOT_YET: [&str; 1] = ["crates/store/"];
const QUESTIONS: [&str; 12] =
    ["How", "What", "Whatever", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why"];
/// Words that are precise and that nobody says, each with the one to use.
const UNSAID: [(&str, &str); 3] = [("whoever", "the client that"), ("anew", "again"), ("at hand", "in memory")];
const COLUMNS: usize = 100;
