//! Tests the number of fields of a struct in the crates that every stanza passes: a struct that
//! grows without end is a room in which everything touches everything.

use super::tree::Tree;

#[test]
fn no_struct_of_hub_and_shard_has_more_than_a_dozen_fields() {
    let tree = Tree::read();
    let (mut structs, mut faults) = (0, Vec::new());
    let sources = tree.ending(".rs").filter(|path| CRATES.iter().any(|folder| path.starts_with(folder)));
    for path in sources {
        for (name, fields) in structs_of(&tree.text(path)) {
            structs += 1;
            if fields > MOST_FIELDS {
                faults.push(format!("{path}: {name} has {fields}"));
            }
        }
    }
    assert!(structs > 50, "{structs} structs are few: are they still found?");
    assert!(faults.is_empty(), "more than {MOST_FIELDS} fields, group them by what they are for: {faults:?}");
}

#[test]
fn fields_are_counted() {
    let text = "pub struct Unit;\nstruct Pair(u8, u8);\n/// A struct.\npub(crate) struct Three<T> {\n    /// One.\n    \
                pub one: u8,\n    #[cfg(test)]\n    two: Vec<T>,\n    pub(super) three: fn(a: u8),\n}\nfn f(x: u8) {\n    \
                let y: u8 = 0;\n}\n";
    assert_eq!(structs_of(text), [("Three".to_owned(), 3)]);
}

/// Returns the structs with named fields that a file declares at its top level, each with the
/// number of its fields. The code is assumed to be formatted by `cargo fmt`: each field has a line
/// of its own, indented by four spaces.
fn structs_of(text: &str) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let mut is_within = false;
    for line in text.lines() {
        if line == "}" {
            is_within = false;
        } else if let Some(declared) = without_visibility(line).strip_prefix("struct ")
            && line.ends_with('{')
        {
            let name = declared.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            found.push((name.to_owned(), 0));
            is_within = true;
        } else if let Some((_, fields)) = found.last_mut().filter(|_| is_within)
            && let Some(field) = line.strip_prefix("    ").map(without_visibility)
            && field.split_once(':').is_some_and(|(name, _)| is_name(name))
        {
            *fields += 1;
        }
    }
    found
}

fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
    rest.strip_prefix(' ').unwrap_or(line)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The folders of the crates that are checked.
const CRATES: &[&str] = &["crates/hub/src/", "crates/shard/src/"];

/// The number of fields that a struct may have.
const MOST_FIELDS: usize = 12;
