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

/// A mistake whose line is not counted yet, and further ones of the same table.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(super) span: Option<Range<usize>>,
    pub(super) field: String,
    pub(super) what: String,
    pub(super) others: Vec<Wrong>,
    /// True if it names a row that isn't there, perhaps only because that row has a mistake.
    is_unfound: bool,
}

impl Wrong {
    /// Returns a mistake in a key without a place of its own; its table's place is used.
    pub(super) fn new(field: &str, what: impl Into<String>) -> Self {
        Self { span: None, field: field.to_owned(), what: what.into(), others: Vec::new(), is_unfound: false }
    }

    /// Returns the same mistake within a table or a key.
    pub(super) fn within(self, outer: &str) -> Self {
        let field = if self.field.is_empty() { outer.to_owned() } else { format!("{outer}.{}", self.field) };
        Self { field, others: self.others.into_iter().map(|other| other.within(outer)).collect(), ..self }
    }

    /// Returns the same mistake with a place, unless it already has one.
    pub(super) fn or_at(self, span: &Range<usize>) -> Self {
        let others = self.others.into_iter().map(|other| other.or_at(span)).collect();
        Self { span: self.span.or(Some(span.clone())), others, ..self }
    }

    /// Returns the same mistake as one that names a row which isn't there.
    pub(crate) fn into_unfound(self) -> Self {
        Self { is_unfound: true, ..self }
    }

    /// Returns the mistake and the further ones, each with its line. Unless all rows before are
    /// right, `has_all`, names that aren't found are left out.
    pub(super) fn in_text(self, text: &str, has_all: bool) -> Vec<Mistake> {
        let own = Mistake { line: line(text, &self.span.unwrap_or_default()), field: self.field, what: self.what };
        let own = (has_all || !self.is_unfound).then_some(own);
        own.into_iter().chain(self.others.into_iter().flat_map(|other| other.in_text(text, has_all))).collect()
    }
}

/// Mistakes that are collected, so that one doesn't hide the next.
#[derive(Debug, Default)]
pub(super) struct Wrongs(Vec<Wrong>);

impl Wrongs {
    /// Adds a mistake.
    pub(super) fn push(&mut self, wrong: Wrong) {
        self.0.push(wrong);
    }

    /// Returns the value of a result; `None` after its mistake was added.
    pub(super) fn keep<T>(&mut self, result: Result<T, Wrong>) -> Option<T> {
        result.map_err(|wrong| self.push(wrong)).ok()
    }

    /// Returns whether there are no mistakes.
    ///
    /// # Errors
    /// The first mistake, with the others in it.
    pub(super) fn end(self) -> Result<(), Wrong> {
        let mut all = self.0.into_iter();
        match all.next() {
            Some(mut first) => {
                first.others.extend(all);
                Err(first)
            }
            None => Ok(()),
        }
    }
}
