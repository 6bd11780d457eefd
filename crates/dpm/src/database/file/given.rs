//! One value of the file's text, read as its key wants it, and mistakes with their places.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::table::Table;
use super::{Mistake, line};

/// A value with its place.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    value: &'a Spanned<DeValue<'a>>,
}

/// A value with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::database) struct At<T> {
    pub(in crate::database) value: T,
    pub(in crate::database) span: Range<usize>,
}

impl<T> At<T> {
    /// A mistake in the value of a key.
    pub(in crate::database) fn wrong(&self, field: &str, what: impl Into<String>) -> Wrong {
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
pub(in crate::database) struct Wrong {
    span: Option<Range<usize>>,
    field: String,
    what: String,
}

impl Wrong {
    /// A mistake in a key, without a place of its own: that of its table counts.
    pub(super) fn new(field: &str, what: impl Into<String>) -> Self {
        Self { span: None, field: field.to_owned(), what: what.into() }
    }

    /// Returns the same mistake within a table or a key.
    pub(super) fn within(self, outer: &str) -> Self {
        let field = if self.field.is_empty() { outer.to_owned() } else { format!("{outer}.{}", self.field) };
        Self { field, ..self }
    }

    /// Returns the same mistake at a place, if it has none of its own.
    pub(super) fn or_at(self, span: &Range<usize>) -> Self {
        Self { span: self.span.or(Some(span.clone())), ..self }
    }

    /// The mistake with its line.
    pub(super) fn in_text(self, text: &str) -> Mistake {
        Mistake { line: line(text, &self.span.unwrap_or_default()), field: self.field, what: self.what }
    }
}

impl<'a> Given<'a> {
    pub(super) fn new(value: &'a Spanned<DeValue<'a>>) -> Self {
        Self { value }
    }

    fn at<T>(&self, value: T) -> At<T> {
        At { value, span: self.value.span() }
    }

    pub(super) fn text(&self) -> Result<At<String>, Wrong> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.unlike("a text in quotes"))?;
        Ok(self.at(text.to_owned()))
    }

    pub(super) fn switch(&self) -> Result<bool, Wrong> {
        self.value.get_ref().as_bool().ok_or_else(|| self.unlike("true or false"))
    }

    /// A whole number of a type.
    pub(super) fn whole<T: TryFrom<i64>>(&self, range: &str) -> Result<At<T>, Wrong> {
        let number = self.value.get_ref().as_integer();
        let number = number.and_then(|number| i64::from_str_radix(number.as_str(), number.radix()).ok());
        let number = number.and_then(|number| T::try_from(number).ok());
        number.map(|number| self.at(number)).ok_or_else(|| self.unlike(&format!("a whole number {range}")))
    }

    /// A number, with or without a fraction.
    pub(super) fn number(&self) -> Result<At<f64>, Wrong> {
        let number = match self.value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
            }
            _ => None,
        };
        number.map(|number| self.at(number)).ok_or_else(|| self.unlike("a number"))
    }

    pub(super) fn letter(&self) -> Result<char, Wrong> {
        let mut letters = self.value.get_ref().as_str().unwrap_or_default().chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(letter),
            _ => Err(self.unlike("one letter in quotes")),
        }
    }

    /// A list, read element by element so that a mistake points at its own line.
    pub(super) fn list<T>(&self, read: impl Fn(Given<'a>) -> Result<T, Wrong>) -> Result<At<Vec<T>>, Wrong> {
        let elements = self.value.get_ref().as_array().ok_or_else(|| self.unlike("a list in [ ]"))?;
        let elements = elements.iter().map(|element| read(Given::new(element)));
        Ok(self.at(elements.collect::<Result<_, _>>()?))
    }

    /// A list of two things, such as a number and its name.
    pub(super) fn pair<A, B>(
        &self,
        one: impl Fn(Given<'a>) -> Result<A, Wrong>,
        other: impl Fn(Given<'a>) -> Result<B, Wrong>,
    ) -> Result<(A, B), Wrong> {
        match self.value.get_ref().as_array().map(|elements| elements.iter().collect::<Vec<_>>()).as_deref() {
            Some([first, second]) => Ok((one(Given::new(first))?, other(Given::new(second))?)),
            _ => Err(self.unlike("a list of two, such as [1, 2]")),
        }
    }

    /// A table whose keys a [`Table`] names.
    pub(super) fn table<T: Default>(&self, table: &Table<T>) -> Result<At<T>, Wrong> {
        let Some(entries) = self.value.get_ref().as_table() else {
            return Err(self.unlike(&format!("a table with {}", table.names().join(", "))));
        };
        let mut row = self.at(T::default());
        for (name, value) in entries.iter() {
            let name_given: &str = name.get_ref();
            let Some(key) = table.key(name_given) else {
                let what = format!("there is no such key here; there are {}", table.names().join(", "));
                return Err(Wrong { span: Some(name.span()), ..Wrong::new(name_given, what) });
            };
            let set = (key.set)(&mut row.value, Given::new(value));
            set.map_err(|wrong| wrong.within(key.name).or_at(&value.span()))?;
        }
        match table.required().find(|key| !entries.iter().any(|(name, _)| &**name.get_ref() == key.name)) {
            Some(key) => {
                let what = format!("is missing; {} = {}, for example", key.name, key.example);
                Err(Wrong::new(key.name, what).or_at(&row.span))
            }
            None => Ok(row),
        }
    }

    fn unlike(&self, expected: &str) -> Wrong {
        let found = match self.value.get_ref() {
            DeValue::String(text) => format!("{text:?}"),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            other => format!("a {}", other.type_str()),
        };
        Wrong { span: Some(self.value.span()), ..Wrong::new("", format!("{expected} is expected, not {found}")) }
    }
}
