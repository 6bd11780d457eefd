//! Databases from tables: of values separated by commas (RFC 4180), as spreadsheets and
//! `psql --csv` write them, or of an SQL database.
//!
//! Columns have the names of the file's keys, with the property in front for those of a property:
//! `index`, `name`, `reading.node`, `reading.ssdn`. The table of keys defines how a value is
//! written, so a table can express everything that a file can.

use super::keys;
use super::mistake::Mistake;
use super::table::{KeyShape, Shape};

/// A table in the form of a database file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The text of the database file, in TOML.
    pub text: String,
    /// The line or row of the table from which each line of the text comes.
    pub lines: Vec<usize>,
}

/// A table or view of an SQL database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlTable {
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its rows, with the cells as texts in the order of the columns; `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// Converts a table of `node`s or `device`s into the text of a database file. Empty cells are left
/// out.
///
/// # Errors
/// The first mistake, with the table's line and column: a quote that doesn't end, a column that is
/// no key, a row that has more cells than columns.
pub fn import(kind: &str, table: &str) -> Result<Imported, Mistake> {
    let mut rows = rows(table)?.into_iter();
    let (head_line, head) = rows.next().unwrap_or_default();
    convert(kind, (head_line, head), rows)
}

/// Converts a table of an SQL database as [`import`] does.
///
/// # Errors
/// The first mistake, whose line is the number of the row, from 1 on; 0 for a column that is no
/// key.
pub fn import_sql(kind: &str, table: SqlTable) -> Result<Imported, Mistake> {
    let cells = |row: Vec<Option<String>>| row.into_iter().map(Option::unwrap_or_default).collect();
    let rows = table.rows.into_iter().enumerate().map(|(at, row)| (at + 1, cells(row)));
    convert(kind, (0, table.columns), rows)
}

fn convert(
    kind: &str,
    (head_line, head): (usize, Vec<String>),
    rows: impl Iterator<Item = (usize, Vec<String>)>,
) -> Result<Imported, Mistake> {
    let of_file = shape(keys::FILE.rows(), kind, head_line)?;
    let columns = head.iter().map(|name| column(of_file, name, head_line)).collect::<Result<Vec<_>, _>>()?;
    let mut imported = Imported { text: String::new(), lines: Vec::new() };
    for (line, cells) in rows {
        if cells.iter().all(String::is_empty) {
            continue;
        }
        if cells.len() > columns.len() {
            let what = format!("there are more cells, {}, than columns, {}", cells.len(), columns.len());
            return Err(Mistake { line, field: String::new(), what });
        }
        imported.put(line, of_file.heading());
        let mut heading = String::new();
        let mut filled: Vec<_> = columns.iter().zip(&cells).filter(|(_, cell)| !cell.is_empty()).collect();
        // A row's own keys come first, then its inner tables, each in one piece.
        filled.sort_by_key(|(column, _)| column.table.unwrap_or_default());
        for (column, cell) in filled {
            if let Some(table) = column.table.filter(|table| *table != heading) {
                imported.put(line, table);
                table.clone_into(&mut heading);
            }
            imported.put(line, &format!("{} = {}", column.key.name, to_toml(cell.trim(), column.key.example)));
        }
    }
    Ok(imported)
}

impl Imported {
    fn put(&mut self, line: usize, words: &str) {
        self.text.push_str(words);
        self.text.push('\n');
        self.lines.push(line);
    }
}

/// A column: a key, and the heading of the inner table that has the key, if there is one.
struct Column {
    table: Option<&'static str>,
    key: KeyShape,
}

fn column(of: &'static dyn Shape, name: &str, line: usize) -> Result<Column, Mistake> {
    let name = name.trim();
    let wrong = |what: String| Mistake { line, field: name.to_owned(), what };
    let find = |shape: &'static dyn Shape, name: &str| shape.rows().into_iter().find(|key| key.name == name);
    let unknown = |shape: &'static dyn Shape| {
        let names: Vec<_> = shape.rows().iter().map(|key| key.name).collect();
        wrong(format!("there is no such key; there are {}", names.join(", ")))
    };
    let Some((table, own)) = name.split_once('.') else {
        return Ok(Column { table: None, key: find(of, name).ok_or_else(|| unknown(of))? });
    };
    let below = find(of, table).and_then(|key| key.inner).filter(|inner| !inner.heading().is_empty());
    let below = below.ok_or_else(|| unknown(of))?;
    let key = find(below, own).ok_or_else(|| unknown(below))?;
    Ok(Column { table: Some(below.heading()), key })
}

fn shape(keys: Vec<KeyShape>, name: &str, line: usize) -> Result<&'static dyn Shape, Mistake> {
    let found = keys.into_iter().find(|key| key.name == name).and_then(|key| key.inner);
    found.ok_or_else(|| Mistake { line, field: name.to_owned(), what: "there is no such table".to_owned() })
}

/// Returns a cell as TOML, in the way of the key's example. In a list, numbers or texts may be
/// separated by semicolons, or be an array of PostgreSQL: `{1,2}`.
fn to_toml(cell: &str, example: &str) -> String {
    let is_list = example.starts_with('[') && !example.starts_with("[[") && !example.starts_with("[{");
    let array = cell.strip_prefix('{').and_then(|cell| cell.strip_suffix('}')).filter(|_| is_list);
    match example.trim_start_matches('[').chars().next() {
        Some('"') if let Some(array) = array => {
            let texts: Vec<_> = array_texts(array).iter().map(|text| quote(text)).collect();
            format!("[{}]", texts.join(", "))
        }
        _ if let Some(array) = array => format!("[{array}]"),
        _ if cell.starts_with('[') || cell.starts_with('{') => cell.to_owned(),
        Some('"') if is_list => {
            let quoted: Vec<_> = cell.split(';').map(|one| quote(one.trim())).collect();
            format!("[{}]", quoted.join(", "))
        }
        Some('"') => quote(cell),
        _ if is_list => format!("[{}]", cell.replace(';', ",")),
        // PostgreSQL writes booleans the one way, MariaDB the other.
        Some('t' | 'f') if matches!(cell, "t" | "1") => "true".to_owned(),
        Some('t' | 'f') if matches!(cell, "f" | "0") => "false".to_owned(),
        _ => cell.to_owned(),
    }
}

/// Reads the texts of an array of PostgreSQL, from the part between its braces: each may be quoted,
/// with a backslash before quotes and backslashes.
fn array_texts(array: &str) -> Vec<String> {
    let (mut texts, mut text, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = array.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => text.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => texts.push(std::mem::take(&mut text)),
            letter => text.push(letter),
        }
    }
    if !array.is_empty() {
        texts.push(text);
    }
    texts
}

fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Reads a table: its rows, each with the line in which it begins.
fn rows(table: &str) -> Result<Vec<(usize, Vec<String>)>, Mistake> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut begun, mut is_quoted) = (1, 1, false);
    let mut letters = table.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(letter) = letters.next() {
        line += usize::from(letter == '\n');
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' if is_quoted || cell.is_empty() => is_quoted = !is_quoted,
            letter if is_quoted => cell.push(letter),
            ',' => row.push(std::mem::take(&mut cell)),
            '\r' if letters.peek() == Some(&'\n') => {}
            '\n' => {
                row.push(std::mem::take(&mut cell));
                rows.push((begun, std::mem::take(&mut row)));
                begun = line;
            }
            letter => cell.push(letter),
        }
    }
    if is_quoted {
        let what = "a quote begins in this row and doesn't end".to_owned();
        return Err(Mistake { line: begun, field: String::new(), what });
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push((begun, row));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{SqlTable, array_texts, import, import_sql, rows};

    #[test]
    fn cells_are_read_as_spreadsheets_write_them() {
        let table = "a,\"b \"\"c\"\", d\",\r\n\"two\nlines\",x\ny";
        let row = |line, cells: &[&str]| (line, cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
        let expected = [row(1, &["a", "b \"c\", d", ""]), row(2, &["two\nlines", "x"]), row(4, &["y"])];
        assert_eq!(rows(table), Ok(expected.to_vec()));
    }

    #[test]
    fn mistakes_name_line_and_column() {
        for (table, line, field) in [
            ("index,colour\n1,red", 1, "colour"),
            ("index,reading.colour\n1,red", 1, "reading.colour"),
            ("index,nothing.node\n1,red", 1, "nothing.node"),
            ("index\n1\n\n2,3", 4, ""),
            ("index,name\n1,\"M:OUT", 2, ""),
        ] {
            let mistake = import("device", table).expect_err("a mistake");
            assert_eq!((mistake.line, mistake.field.as_str()), (line, field), "{mistake}");
        }
    }

    #[test]
    fn arrays_are_lists() {
        assert_eq!(array_texts(r#"a,"b, \"c\"",d e"#), ["a", "b, \"c\"", "d e"]);
        assert_eq!(array_texts(""), [""; 0]);
    }

    #[test]
    fn tables_of_sql_have_rows_and_columns() {
        let table = |columns: &[&str]| SqlTable {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: vec![vec![Some("1".to_owned()), None], vec![Some("2".to_owned()), Some("M:OUT".to_owned())]],
        };
        let imported = import_sql("device", table(&["index", "name"])).expect("a table of devices");
        assert!(imported.text.ends_with("index = 2\nname = \"M:OUT\"\n"), "{}", imported.text);
        assert_eq!(imported.lines, [1, 1, 2, 2, 2]);
        let mistake = import_sql("device", table(&["index", "colour"])).expect_err("a column that is no key");
        assert_eq!((mistake.line, mistake.field.as_str()), (0, "colour"));
    }

    proptest! {
        #[test]
        fn anything_is_read_to_an_end(table in ".{0,200}") {
            let _ = import("node", &table);
            let _ = import("device", &table);
        }
    }
}
