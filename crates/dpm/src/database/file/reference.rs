//! The reference of database files, and an example with every key, neither of which needs a file.

use std::fmt::Write;

use super::keys;
use super::table::{KeyShape, Need, Shape};
use super::transforms;

/// Returns a file with every key, explained. It is valid: keys that can't be combined with others
/// are commented out by `#`.
pub fn example() -> String {
    let mut text = EXAMPLE_HEAD.to_owned();
    for key in keys::FILE.rows() {
        if let Some(table) = key.inner {
            example_of(&mut text, table);
        }
    }
    text
}

fn example_of(text: &mut String, table: &dyn Shape) {
    line(text, format_args!(""));
    comment(text, table.about());
    line(text, format_args!("{}", table.heading()));
    let (below, keys): (Vec<KeyShape>, Vec<KeyShape>) =
        table.rows().into_iter().partition(|key| key.inner.is_some_and(|inner| !inner.heading().is_empty()));
    for key in keys {
        line(text, format_args!(""));
        comment(text, key.doc);
        match key.need {
            Need::Required | Need::Shown(_) => line(text, format_args!("{} = {}", key.name, key.example)),
            Need::Usual(_) => line(text, format_args!("# {} = {}", key.name, key.example)),
        }
    }
    for key in below {
        if let Some(inner) = key.inner {
            example_of(text, inner);
        }
    }
}

/// Returns the reference of the file, in Markdown.
pub fn reference() -> String {
    let mut text = REFERENCE_HEAD.to_owned();
    let mut told = Vec::new();
    for key in keys::FILE.rows() {
        if let Some(table) = key.inner {
            reference_of(&mut text, key.name, table, &mut told);
        }
    }
    for (words, table) in [(PRIMARY_HEAD, transforms::PRIMARY), (COMMON_HEAD, transforms::COMMON)] {
        line(&mut text, format_args!("{words}\n\n| index | |\n| --- | --- |"));
        for (index, formula) in table {
            line(&mut text, format_args!("| {index} | {formula} |"));
        }
    }
    text
}

fn reference_of(text: &mut String, name: &str, table: &dyn Shape, told: &mut Vec<&'static str>) {
    if told.contains(&table.about()) {
        return;
    }
    told.push(table.about());
    let heading = match table.heading() {
        "" => format!("A table of `{name}`"),
        heading => format!("`{heading}`"),
    };
    line(text, format_args!("\n## {heading}\n\n{}\n", table.about()));
    line(text, format_args!("| key | meaning | if it isn't there | for example |\n| --- | --- | --- | --- |"));
    for key in table.rows() {
        let need = match key.need {
            Need::Required => "**needed**",
            Need::Shown(usual) | Need::Usual(usual) => usual,
        };
        let example = match key.inner.map(|inner| (inner.heading(), key.example)) {
            Some((heading, "")) => format!("`{heading}`"),
            _ => format!("`{}`", key.example),
        };
        line(text, format_args!("| `{}` | {} | {need} | {example} |", key.name, key.doc));
    }
    for key in table.rows() {
        if let Some(inner) = key.inner {
            reference_of(text, key.name, inner, told);
        }
    }
}

fn comment(text: &mut String, words: &str) {
    let mut begun = String::new();
    for word in words.split(' ') {
        if begun.len() + word.len() > WIDTH {
            line(text, format_args!("#{begun}"));
            begun.clear();
        }
        begun.push(' ');
        begun.push_str(word);
    }
    line(text, format_args!("#{begun}"));
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{words}");
}

/// The longest line of a comment, in characters.
const WIDTH: usize = 110;

const EXAMPLE_HEAD: &str = "\
# A device database for `rookery dpm --database FILE`, with every key explained. Those behind a # show how they are written.
# After a change: `rookery dpm database check FILE`, then a SIGHUP to the DPM that reads it.
";

const REFERENCE_HEAD: &str = "\
# The device database

`rookery dpm --database FILE` and `database` in `[dpm]` read the front-ends and devices from a TOML file.
`rookery dpm database example` writes one with every key. `rookery dpm database check FILE` reports mistakes by line and key, with the
correct form. A file with a mistake is refused as a whole; a running DPM keeps its devices.

This page is written from the table by which the file is read: `UPDATE_DOC=1 cargo test --workspace up_to_date`.
";

const PRIMARY_HEAD: &str = "
## Primary transforms

From the raw number x, little endian with its sign, to primary units.";

const COMMON_HEAD: &str = "
## Common transforms

From primary units x to engineering units, with `constants` C1, C2 and so on. A value that can't be scaled has `[14 -20]`.";

#[cfg(test)]
mod tests {
    use toml::de::{DeTable, DeValue};

    use super::super::given::Given;
    use super::super::table::{FileTable, Shape};
    use super::super::{keys, properties};

    /// Checks that a table and its inner tables read each of their examples.
    fn reads_its_examples<T: Default>(table: &FileTable<T>) {
        for key in table.keys.iter().flat_map(|group| group.iter()).filter(|key| !key.example.is_empty()) {
            let text = format!("{} = {}", key.name, key.example);
            let root = DeTable::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let (_, value) = root.get_ref().iter().next().expect("a key");
            let set = (key.set)(&mut T::default(), Given::new(value));
            set.unwrap_or_else(|wrong| panic!("{} {text}: {wrong:?}", table.heading));
            // The names in a script's `status` are the file's own.
            let is_free = key.name == "status";
            assert!(!matches!(value.get_ref(), DeValue::Table(_)) || key.inner.is_some() || is_free);
        }
    }

    #[test]
    fn every_example_is_read() {
        reads_its_examples(&keys::NODE);
        reads_its_examples(&keys::DEVICE);
        reads_its_examples(&properties::READING);
        reads_its_examples(&properties::SETTING);
        reads_its_examples(&properties::PIECE);
        reads_its_examples(&properties::STATUS);
        reads_its_examples(&properties::ATTRIBUTE);
        reads_its_examples(&properties::BIT);
        reads_its_examples(&properties::CONTROL);
        reads_its_examples(&properties::COMMAND);
        reads_its_examples(&properties::ANALOG);
        reads_its_examples(&properties::DIGITAL);
        reads_its_examples(&keys::NAMES);
        reads_its_examples(&keys::RECORD);
        reads_its_examples(&keys::METRIC);
        reads_its_examples(&keys::SCRIPT);
        reads_its_examples(&keys::EVENT);
        reads_its_examples(&keys::FAULT);
    }

    #[test]
    fn every_key_says_what_it_means() {
        fn look(table: &dyn Shape) {
            assert!(table.about().ends_with('.'), "{}", table.about());
            for key in table.rows() {
                assert!(key.doc.ends_with(['.', '?']), "{}: {}", key.name, key.doc);
                if let Some(inner) = key.inner {
                    look(inner);
                }
            }
        }
        look(&keys::FILE);
    }
}
