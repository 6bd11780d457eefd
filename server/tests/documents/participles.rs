//! The rule of STYLE.md for functions that are named by a participle alone.
//!
//! A function `refused` could handle a refusal, make one, expect one, or return whether there was
//! one. So a participle names a function only if that handles an event, returns a changed copy
//! (`sorted`) or returns a field. The words that are in use for each are listed below.

use super::tree::Tree;

#[test]
fn functions_are_named_by_verbs() {
    let tree = Tree::read();
    let (mut faults, mut found) = (Vec::new(), 0);
    for path in tree.ending(".rs") {
        for (line, name, signature) in functions(&tree.text(path)) {
            found += 1;
            if let Some(fault) = fault(&name, &signature) {
                faults.push(format!("{path}:{line}: {fault}"));
            }
        }
    }
    assert!(found > 15_000, "{found} functions are few: are they still found?");
    assert!(faults.is_empty(), "{} functions aren't named by verbs. {RULE}\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn participles_are_told_from_verbs() {
    let cases = [
        ("refused", "(&mut self, why: &str) -> Step", true),
        ("refused", "(self, world: &mut World)", true),
        ("refused", "(&self)", true),
        ("refused", "(answer: &Element) -> String", false),
        ("sorted", "(rows: Vec<Row>) -> Vec<Row>", true),
        ("handled", "(&self) -> u32", true),
        ("handled", "(element: &Element) -> Option<u32>", false),
        ("polished", "(&mut self)", false),
        ("kept", "(&self) -> usize", false),
        ("proceed", "(&mut self)", true),
        ("is_refused", "(answer: &Element) -> bool", true),
    ];
    for (name, signature, is_fine) in cases {
        assert_eq!(fault(name, signature).is_none(), is_fine, "fn {name}{signature}");
    }
    let text = "    pub async fn sent(\n        &mut self,\n    ) -> u8 {\n// fn told() {\nfn f() {}\n";
    let found: Vec<_> = functions(text).collect();
    assert_eq!(
        found,
        [
            (1, "sent".to_owned(), "(         &mut self,     ) -> u8 {".to_owned()),
            (5, "f".to_owned(), "() {}".to_owned())
        ]
    );
}

/// Returns what is wrong with the name of a function; `None` if it is no participle, or one of
/// those below.
fn fault(name: &str, signature: &str) -> Option<String> {
    let is_participle = name.ends_with("ed") && !is_in(name, VERBS_IN_ED) || is_in(name, IRREGULAR);
    if !is_participle || name.contains('_') || is_in(name, COPIES) || is_in(name, STANDARDS) {
        return None;
    }
    let (takes, returns) = signature.split_once("->").map_or((signature, false), |(takes, _)| (takes, true));
    if is_in(name, FIELDS) && returns && takes.contains("self") {
        return None;
    }
    match is_in(name, EVENTS) {
        true if takes.contains("&mut ") || !returns => None,
        true => Some(format!("`{name}` returns something and changes nothing, so it handles no event")),
        false => Some(format!("`{name}` needs a verb, or a noun for its value")),
    }
}

/// Returns whether a list of words has this one.
fn is_in(name: &str, words: &str) -> bool {
    words.split(' ').any(|word| word == name)
}

/// Returns the functions of a file: the line, the name, and the rest of the signature.
fn functions(text: &str) -> impl Iterator<Item = (usize, String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).filter_map(move |at| {
        let line = lines[at].trim_start();
        let (before, rest) = line.split_once("fn ")?;
        if !before
            .split(' ')
            .all(|word| MODIFIERS.contains(&word) || ["pub", "crate::"].iter().any(|start| word.starts_with(start)))
        {
            return None;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let mut signature = rest[end..].to_owned();
        for more in lines[at + 1..].iter().take(MOST_LINES) {
            if signature.ends_with(['{', '}', ';']) {
                break;
            }
            signature = format!("{signature} {more}");
        }
        Some((at + 1, rest[..end].to_owned(), signature))
    })
}

const RULE: &str = "STYLE.md: a participle alone names a function only if that handles the event, returns a changed copy \
                    or returns a field. Such a word is listed in server/tests/documents/participles.rs:";

/// The words for events. Their functions change something, or return nothing.
const EVENTS: &str = "acknowledged answered appended arrived asked attached authenticated broken changed closed \
    configured connected created decided deleted departed detached directed disabled disconnected \
    discovered drained enabled ended entered failed found gone heard identified imported joined \
    journaled left lost moved named opened polled published purged received reconnected recovered \
    refused released removed resolved resumed retracted secured sent settled shown succeeded taken \
    unattended undelivered updated verified went written";

/// The words for changed copies.
const COPIES: &str = "escaped required sorted";

/// The words for fields, which a method returns.
const FIELDS: &str = "claimed elapsed handled managed packed proven told unrecorded";

/// The words of standards: fields of XEP-0004, a status of HTTP, an error of XEP-0060.
const STANDARDS: &str = "fixed hidden unauthorized unsupported";

/// The verbs that look like participles.
const VERBS_IN_ED: &str = "embed exceed feed heed need proceed seed shed succeed";

/// The participles that don't end in `ed`, and past tenses that are no verbs for a name either.
const IRREGULAR: &str = "begun bought broken brought built caught chosen done drawn fed felt forgotten found given gone \
    heard held hidden kept known left lent lost made met proven said seen sent shown sold spent \
    spoken stolen sworn taken taught thrown told understood unknown unread unsent went withdrawn won \
    worn written";

/// The words in front of `fn`.
const MODIFIERS: &[&str] = &["", "async", "const", "unsafe", "extern", "\"C\"", "crate)", "super)", "in", "self)"];

/// The lines of the longest signature.
const MOST_LINES: usize = 20;
