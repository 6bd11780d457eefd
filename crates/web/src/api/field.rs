//! Parameters and members of request bodies: their types, parsing and description. All three come
//! from one table, so they can't disagree.

use serde_json::{Map, Value, json};

use super::problem::Problem;

/// A parameter of a query, or a member of a body.
#[derive(Debug, Clone, Copy)]
pub struct ApiField {
    /// The name in the query or in the JSON.
    pub name: &'static str,
    /// The values that it may have.
    pub kind: ApiFieldKind,
    /// True if it must be there.
    pub is_required: bool,
    /// Its meaning, in a sentence.
    pub doc: &'static str,
}

/// The values that a field may have.
#[derive(Debug, Clone, Copy)]
pub enum ApiFieldKind {
    /// A text with a bounded number of characters.
    Text {
        /// At least.
        min: usize,
        /// At most.
        max: usize,
    },
    /// The word `true` or `false` in a query, a boolean in a body.
    Switch,
    /// A whole number.
    Number {
        /// At least.
        min: u64,
        /// At most.
        max: u64,
    },
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A list of non-empty texts, in bodies only, bounded in number and length.
    Texts {
        /// The most texts.
        most: usize,
        /// The most characters of each.
        max: usize,
    },
}

/// Parsed values, by the names of their fields.
#[derive(Debug, Clone, Default)]
pub struct Values(Map<String, Value>);

impl Values {
    /// Returns a text; `None` if it wasn't given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Returns a switch; `None` if it wasn't given.
    pub fn switch(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    /// Returns a number; `None` if it wasn't given.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(whole)
    }

    /// Returns the texts of a list, which is empty if it wasn't given.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns whether nothing was given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads the pairs of a query.
///
/// # Errors
/// The problem names the field and the expected value.
pub fn read_query(fields: &[ApiField], pairs: Vec<(String, String)>) -> Result<Values, Problem> {
    let mut given = Map::new();
    for (name, text) in pairs {
        let field = fields.iter().find(|field| field.name == name).ok_or_else(|| unknown_name(&name))?;
        let wrong = || Problem::bad_request(format!("{name}: expected {}", field.kind.words()));
        let value = match field.kind {
            ApiFieldKind::Text { .. } | ApiFieldKind::Choice(_) => Value::String(text),
            ApiFieldKind::Texts { .. } => Value::Array(vec![text.into()]),
            ApiFieldKind::Switch => text.parse::<bool>().map_err(|_| wrong())?.into(),
            ApiFieldKind::Number { .. } => {
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                Some(text).filter(|_| is_number).and_then(|text| text.parse::<u64>().ok()).ok_or_else(wrong)?.into()
            }
        };
        if given.insert(name.clone(), value).is_some() {
            return Err(Problem::bad_request(format!("{name} is there twice")));
        }
    }
    check(fields, given)
}

/// Reads a body: a JSON object.
///
/// # Errors
/// The problem names the field and the expected value.
pub fn read_body(fields: &[ApiField], bytes: &[u8]) -> Result<Values, Problem> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(given)) => check(fields, given),
        Ok(_) => Err(Problem::bad_request("the body must be a JSON object")),
        Err(error) => Err(Problem::bad_request(format!("the body isn't valid JSON: {error}"))),
    }
}

fn check(fields: &[ApiField], given: Map<String, Value>) -> Result<Values, Problem> {
    for (name, value) in &given {
        let field = fields.iter().find(|field| field.name == name).ok_or_else(|| unknown_name(name))?;
        if !field.kind.takes(value) {
            return Err(Problem::bad_request(format!("{name}: expected {}", field.kind.words())));
        }
    }
    match fields.iter().find(|field| field.is_required && !given.contains_key(field.name)) {
        Some(missing) => Err(Problem::bad_request(format!("{} is missing", missing.name))),
        None => Ok(Values(given)),
    }
}

fn unknown_name(name: &str) -> Problem {
    let name: String = name.chars().take(100).collect();
    Problem::bad_request(format!("there is no {name:?} here"))
}

impl ApiFieldKind {
    fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text { min, max }, Value::String(text)) => (min..=max).contains(&text.chars().count()),
            (Self::Switch, Value::Bool(_)) => true,
            (Self::Number { min, max }, value) => whole(value).is_some_and(|number| (min..=max).contains(&number)),
            (Self::Choice(choices), Value::String(text)) => choices.contains(&text.as_str()),
            (Self::Texts { most, max }, Value::Array(texts)) => {
                let fits = |text: &Value| text.as_str().is_some_and(|text| (1..=max).contains(&text.chars().count()));
                texts.len() <= most && texts.iter().all(fits)
            }
            _ => false,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Text { min, max } => format!("a text of {min} to {max} characters"),
            Self::Switch => "true or false".into(),
            Self::Number { min, max } => format!("a whole number from {min} to {max}"),
            Self::Choice(choices) => format!("one of {}", choices.join(", ")),
            Self::Texts { most, max } => format!("a list of at most {most} texts, each of 1 to {max} characters"),
        }
    }

    /// Returns its JSON schema.
    pub fn schema(self) -> Value {
        match self {
            Self::Text { min, max } => json!({"type": "string", "minLength": min, "maxLength": max}),
            Self::Switch => json!({"type": "boolean"}),
            Self::Number { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Self::Choice(choices) => json!({"type": "string", "enum": choices}),
            Self::Texts { most, max } => {
                json!({"type": "array", "maxItems": most, "items": {"type": "string", "minLength": 1, "maxLength": max}})
            }
        }
    }
}

/// Returns a whole number; JSON schema also accepts `1.0`.
fn whole(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|float| float.fract() == 0.0 && (0.0..9e15).contains(float));
    value.as_u64().or_else(|| float().map(|float| float as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[ApiField] = &[
        ApiField { name: "name", kind: ApiFieldKind::Text { min: 1, max: 3 }, is_required: true, doc: "" },
        ApiField { name: "days", kind: ApiFieldKind::Number { min: 1, max: 9 }, is_required: false, doc: "" },
        ApiField { name: "to", kind: ApiFieldKind::Choice(&["all", "some"]), is_required: false, doc: "" },
        ApiField { name: "loud", kind: ApiFieldKind::Switch, is_required: false, doc: "" },
        ApiField { name: "in", kind: ApiFieldKind::Texts { most: 2, max: 3 }, is_required: false, doc: "" },
    ];

    #[test]
    fn bodies_are_what_the_table_says() {
        let read = |text: &str| read_body(FIELDS, text.as_bytes());
        let values = read(r#"{"name": "üöä", "days": 7.0, "to": "all", "loud": true}"#).unwrap();
        assert_eq!((values.text("name"), values.number("days")), (Some("üöä"), Some(7)));
        assert_eq!((values.text("to"), values.switch("loud")), (Some("all"), Some(true)));
        let listed = read(r#"{"name": "a", "in": ["b", "cde"]}"#).unwrap();
        assert_eq!(listed.texts("in").collect::<Vec<_>>(), ["b", "cde"]);
        let wrong = [
            "",
            "[]",
            "null",
            "{",
            r#"{"days": 1}"#,
            r#"{"name": ""}"#,
            r#"{"name": "abcd"}"#,
            r#"{"name": 7}"#,
            r#"{"name": "a", "days": 0}"#,
            r#"{"name": "a", "days": 1.5}"#,
            r#"{"name": "a", "days": -1}"#,
            r#"{"name": "a", "days": "1"}"#,
            r#"{"name": "a", "days": 1e300}"#,
            r#"{"name": "a", "to": "none"}"#,
            r#"{"name": "a", "loud": 1}"#,
            r#"{"name": "a", "in": "b"}"#,
            r#"{"name": "a", "in": [""]}"#,
            r#"{"name": "a", "in": ["a", "b", "c"]}"#,
            r#"{"name": "a", "more": 1}"#,
            r#"{"name": null}"#,
        ];
        for text in wrong {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn queries_are_read_the_same_way() {
        let read = |text: &str| read_query(FIELDS, crate::form::pairs(text).unwrap());
        let values = read("name=a&days=3&loud=false").unwrap();
        assert_eq!((values.number("days"), values.switch("loud")), (Some(3), Some(false)));
        for text in
            ["", "name=a&name=b", "name=a&days=%2B3", "name=a&days=99999999999999999999", "name=a&x", "name=a&loud=1"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
