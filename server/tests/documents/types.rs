//! Names of types: a type whose name is a single word is the only one of that name in the whole
//! tree, so that a search for it finds that type and nothing else.

use std::collections::BTreeMap;

use super::tree::Tree;

#[test]
fn a_word_alone_names_one_type() {
    let tree = Tree::read();
    let (mut names, mut found): (BTreeMap<String, Vec<String>>, usize) = Default::default();
    for path in tree.ending(".rs").filter(|path| !path.starts_with(GENERATED)) {
        for (line, name) in types(&tree.text(path)) {
            found += 1;
            if is_one_word(&name) {
                names.entry(name).or_default().push(format!("{path}:{line}"));
            }
        }
    }
    assert!(found > 1000, "{found} types are few: are they still found?");
    let twice: Vec<String> = names
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(twice.is_empty(), "give all of these but one a second word:\n{}", twice.join("\n"));
}

#[test]
fn types_are_found() {
    let text = "pub struct Custody;\nenum Kind<T> {\n}\n    pub(crate) type Then = ();\n    type Item = u8;\n\
                /// struct No\npub trait Letter: Send {}\nfn struct_of() {}\n";
    let found = types(text);
    let wanted = [(1, "Custody"), (2, "Kind"), (4, "Then"), (7, "Letter")];
    assert_eq!(found, wanted.map(|(line, name)| (line, name.to_owned())));
    assert!(is_one_word("Custody") && !is_one_word("CustodyShare") && !is_one_word("C2s"));
}

/// Returns the types that a file declares, each with its line, except those that belong to a trait
/// or to an implementation.
fn types(text: &str) -> Vec<(usize, String)> {
    let declared = text.lines().enumerate().filter_map(|(number, line)| {
        let trimmed = line.trim_start();
        let rest = without_visibility(trimmed);
        let is_associated = rest.len() == trimmed.len() && line.len() > trimmed.len();
        let (kind, rest) = rest.split_once(' ')?;
        let is_type = matches!(kind, "struct" | "enum" | "trait" | "union") || (kind == "type" && !is_associated);
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (is_type && name.starts_with(char::is_uppercase)).then_some((number + 1, name))
    });
    declared.collect()
}

fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
    rest.strip_prefix(' ').unwrap_or(line)
}

/// Returns whether a name is a single word, with only lower-case letters after the first.
fn is_one_word(name: &str) -> bool {
    name.chars().skip(1).all(|c| c.is_ascii_lowercase())
}

/// Types in generated code, with the names of the protocol.
const GENERATED: &str = "crates/dpm/src/grpc/generated/";
