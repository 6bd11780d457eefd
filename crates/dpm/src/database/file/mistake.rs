//! Mistakes in a file, with their places.

use std::ops::Range;

/// A fault in a file, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1 on.
    pub line: usize,
    /// The field, such as `device.reading.ssdn`; empty if the file is not TOML.
    pub field: String,
    /// A description of the fault.
    pub what: String,
}

impl Mistake {
    /// A placeholder for an unknown mistake, which no text causes.
    pub(crate) const UNKNOWN: Self = Self { line: 1, field: String::new(), what: String::new() };
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.field.as_str() {
            "" => write!(formatter, "line {}: {}", self.line, self.what),
            field => write!(formatter, "line {}, {field}: {}", self.line, self.what),
        }
    }
}

impl std::error::Error for Mistake {}

/// Returns the line in which something begins, from 1 on.
pub(crate) fn line(text: &str, span: &Range<usize>) -> usize {
    text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
}

/// A value with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

impl<T> At<T> {
    /// Returns a mistake in the value of a key.
    pub(crate) fn wrong(&self, field: &str, what: impl Into<String>) -> Wrong {
        Wrong { span: Some(self.span.clone()), ..Wrong::new(field, what) }
    }
}

impl<T: Default> Default for At<T> {
    fn default() -> Self {
        Self { value: T::default(), span: 0..0 }
    }
}

/// A mistake whose line is not counted yet.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(super) span: Option<Range<usize>>,
    pub(super) field: String,
    pub(super) what: String,
}

impl Wrong {
    /// Returns a mistake in a key without a place of its own; its table's place is used.
    pub(super) fn new(field: &str, what: impl Into<String>) -> Self {
        Self { span: None, field: field.to_owned(), what: what.into() }
    }

    /// Returns the same mistake within a table or a key.
    pub(super) fn within(self, outer: &str) -> Self {
        let field = if self.field.is_empty() { outer.to_owned() } else { format!("{outer}.{}", self.field) };
        Self { field, ..self }
    }

    /// Returns the same mistake with a place, unless it already has one.
    pub(super) fn or_at(self, span: &Range<usize>) -> Self {
        Self { span: self.span.or(Some(span.clone())), ..self }
    }

    /// Returns the mistake with its line.
    pub(super) fn in_text(self, text: &str) -> Mistake {
        Mistake { line: line(text, &self.span.unwrap_or_default()), field: self.field, what: self.what }
    }
}
