//! The words and the width of comments, by the rules of STYLE.md.
//!
//! A comment on an item, or the head of a file, says what something is or does. It doesn't begin
//! with a question, nor with a clause that turns a name into one ("What a copy costs"). That of a
//! function begins with its verb.

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
fn no_comment_asks() {
    let faults = faults(|comment| {
        let ends = comment.text.split(". ").next().unwrap_or_default().trim_end();
        (comment.is_first && ends.ends_with('?')).then(|| "is a question".to_owned())
    });
    assert!(faults.is_empty(), "{} comments ask:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn comments_of_functions_begin_with_a_verb() {
    let tree = Tree::read();
    let (mut faults, mut found) = (Vec::new(), 0);
    for path in tree.ending(".rs").filter(|path| !VERBLESS.iter().any(|folder| path.starts_with(folder))) {
        for (line, text) in comments_of_functions(&tree.text(path)) {
            found += 1;
            if !begins_with_a_verb(&text) {
                faults.push(format!("{path}:{line}: {text}"));
            }
        }
    }
    assert!(found > 3000, "{found} functions are few: are they still found?");
    assert!(faults.is_empty(), "{} functions don't say what they do:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn comments_have_no_words_that_nobody_says() {
    let faults = faults(|comment| find_unsaid(comment.text));
    assert!(faults.is_empty(), "{} comments:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn documents_have_no_words_that_nobody_says() {
    let tree = Tree::read();
    let mut faults = Vec::new();
    for path in tree.ending(".md").filter(|path| *path != STYLE) {
        let text = tree.text(path);
        let lines = text.lines().enumerate().filter_map(|(number, line)| Some((number + 1, find_unsaid(line)?)));
        faults.extend(lines.map(|(number, fault)| format!("{path}:{number}: {fault}")));
    }
    assert!(faults.is_empty(), "{} lines:\n{}", faults.len(), faults.join("\n"));
}

/// Returns an unidiomatic word of a line, unless it is quoted, and its replacement.
fn find_unsaid(line: &str) -> Option<String> {
    let text = line.to_ascii_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphabetic() && c != '_').collect();
    let is_there = |phrase: &str| {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        words.windows(phrase.len()).any(|words| words == phrase)
    };
    let quoted = |phrase: &str| line.contains(&format!("\"{phrase}\""));
    let found = UNSAID.into_iter().find(|(phrase, _)| is_there(phrase) && !quoted(phrase));
    found.map(|(phrase, said)| format!("says {phrase:?} for {said:?}"))
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
    /// Its line, counted from one.
    line: usize,
    /// True in the first line of a comment on an item or a file.
    is_first: bool,
    text: &'a str,
    /// Its width, including its indentation.
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

#[test]
fn functions_are_found_with_their_comments() {
    let text = "/// Returns it.\n///\n/// More.\n#[must_use]\npub const fn it() -> u8 {\n/// RFC 1.\n#[test]\nfn law() {\n\
                /// A field.\nsize: u8,\n    /// The end.\n    async fn end(\n";
    let found = comments_of_functions(text);
    assert_eq!(found, [(1, "Returns it.".to_owned()), (11, "The end.".to_owned())]);
    for (text, is_good) in [
        ("Returns it.", true),
        ("Does the same.", true),
        ("Pushes it.", true),
        ("The size.", false),
        ("Always the same.", false),
        ("Bytes of it.", false),
        ("§5: an item.", false),
    ] {
        assert_eq!(begins_with_a_verb(text), is_good, "{text}");
    }
}

/// Returns the first lines of the comments on functions, each with its number; tests are left out,
/// since their names state the law, and the comment may cite its source.
fn comments_of_functions(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut first, mut is_test) = (Vec::new(), None, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(comment) = line.strip_prefix("///") {
            first = first.or(Some((number + 1, comment.trim_start().to_owned())));
        } else if line.starts_with("#[") {
            is_test |= line.contains("test]");
        } else {
            let mut words = line.split(' ').filter(|word| {
                !word.starts_with("pub")
                    && !matches!(*word, "in" | "const" | "async" | "unsafe")
                    && !word.ends_with(')')
            });
            if let (Some("fn"), Some(first), false) = (words.next(), first.take(), is_test) {
                found.push(first);
            }
            (first, is_test) = (None, false);
        }
    }
    found
}

fn begins_with_a_verb(text: &str) -> bool {
    let word: String = text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    word.len() > 2 && word.ends_with('s') && word.starts_with(char::is_uppercase) && !NO_VERBS.contains(&word.as_str())
}

/// Returns the comments in which `find` finds a fault, each with its place.
fn faults(find: impl Fn(&Comment<'_>) -> Option<String>) -> Vec<String> {
    let tree = Tree::read();
    let (mut faults, mut looked_at) = (Vec::new(), 0);
    for path in tree.ending(".rs") {
        for comment in comments(&tree.text(path)) {
            looked_at += 1;
            faults.extend(find(&comment).map(|fault| format!("{path}:{}: {fault}", comment.line)));
        }
    }
    assert!(looked_at > 10_000, "{looked_at} lines are few: are comments still found?");
    faults
}

/// The folders of tests that a macro runs, whose comments state their laws, and of generated code.
const VERBLESS: [&str; 2] = ["crates/store/tests/", "crates/dpm/src/grpc/generated/"];
const QUESTIONS: [&str; 12] =
    ["How", "What", "Whatever", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why"];
/// Unidiomatic words, each with its replacement.
const UNSAID: [(&str, &str); 6] = [
    ("whoever", "the client that"),
    ("anew", "again"),
    ("at hand", "in memory"),
    ("of late", "recently"),
    ("the own", "its own"),
    ("to who", "to those who"),
];
/// Words that end like verbs but aren't.
const NO_VERBS: [&str; 20] = [
    "Accounts",
    "Always",
    "Bytes",
    "Is",
    "Its",
    "Lines",
    "Messages",
    "Milliseconds",
    "Modules",
    "Ours",
    "Others",
    "Requests",
    "Rooms",
    "Seconds",
    "Sessions",
    "Settings",
    "Stanzas",
    "Theirs",
    "This",
    "Values",
];
/// It contains bad examples.
const STYLE: &str = "STYLE.md";
const COLUMNS: usize = 100;
