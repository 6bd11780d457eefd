//! The values that Prosody stores: texts, numbers and Lua tables; the tables are JSON.

use rookery_xml::Element;
use serde_json::{Map, Value};

/// Reads a value from a column, by the type in the column beside it.
pub(super) fn value(kind: &str, text: &str) -> Option<Value> {
    match kind {
        "string" => Some(Value::String(text.to_owned())),
        "boolean" => Some(Value::Bool(text == "true")),
        "number" | "json" => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// Combines the rows of a store into the original table. The entries whose keys aren't texts are in
/// the row without a key.
pub(super) fn table(rows: impl Iterator<Item = (String, Value)>) -> Map<String, Value> {
    let mut table = Map::new();
    for (key, value) in rows {
        match value {
            value if !key.is_empty() => drop(table.insert(key, value)),
            Value::Object(more) => table.extend(more),
            Value::Array(list) => drop(table.insert(LIST.to_owned(), Value::Array(list))),
            _ => {}
        }
    }
    table
}

/// Returns the value under the key `false`, which JSON can't express. Prosody keeps its notes about
/// a store there.
pub(super) fn notes(table: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let pairs = table.get(PAIRS)?.as_array()?;
    pairs.chunks(2).find(|pair| pair.first() == Some(&Value::Bool(false)))?.get(1)?.as_object()
}

/// Reads an element from a table with its name, its attributes and the list of its children. A
/// child without a namespace of its own has its parent's.
pub(super) fn stanza(table: &Map<String, Value>, parent: &str, depth: usize) -> Option<Element> {
    if depth > DEPTH {
        return None;
    }
    let name = table.get("name")?.as_str()?;
    let empty = Map::new();
    let attrs = table.get("attr").and_then(Value::as_object).unwrap_or(&empty);
    let ns = attrs.get("xmlns").and_then(Value::as_str).unwrap_or(parent);
    let mut element = Element::new(name, ns);
    for (name, value) in attrs {
        // An attribute of another namespace has a character in its name that XML doesn't allow.
        let is_plain =
            name != "xmlns" && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if let Some(value) = value.as_str().filter(|_| is_plain) {
            element.set_attr(name.as_str(), value);
        }
    }
    for child in table.get(LIST).and_then(Value::as_array).into_iter().flatten() {
        match child {
            Value::String(text) => element.push_text(text),
            Value::Object(child) => element.push_child(stanza(child, ns, depth + 1)?),
            _ => return None,
        }
    }
    Some(element)
}

/// The key for the part of a table that is a list.
const LIST: &str = "__array";
/// The key for the part of a table whose keys aren't texts.
const PAIRS: &str = "__hash";
/// The deepest nesting of elements.
const DEPTH: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_xml::Writer;

    #[test]
    fn elements_are_put_together() {
        let text = r#"{"attr":{"xmlns":"a:b"},"name":"q","__array":[{"attr":{"x":"1","a\u0001b":"2"},"name":"c","__array":["J<"]},{"name":"d","attr":{"xmlns":"e"}}]}"#;
        let Some(Value::Object(table)) = value("json", text) else { panic!("an object") };
        let element = stanza(&table, "", 0).expect("an element");
        assert_eq!(Writer::write(&element).into_bytes(), b"<q xmlns='a:b'><c x='1'>J&lt;</c><d xmlns='e'/></q>");
        assert!(stanza(&Map::new(), "", 0).is_none());
    }

    #[test]
    fn rows_are_put_together() {
        let rows =
            [("name", "string", "vCard"), ("attr", "json", r#"{"xmlns":"vcard-temp"}"#), ("", "json", r#"["x"]"#)];
        let rows = rows.into_iter().filter_map(|(key, kind, text)| Some((key.to_owned(), value(kind, text)?)));
        let element = stanza(&table(rows), "", 0).expect("an element");
        assert_eq!((element.name(), element.ns(), element.text()), ("vCard", "vcard-temp", "x".to_owned()));
        let about = value("json", r#"{"__hash":[false,{"version":6}]}"#).expect("a value");
        let about = table([(String::new(), about)].into_iter());
        assert_eq!(notes(&about).and_then(|notes| notes.get("version")), Some(&Value::from(6)));
    }
}
