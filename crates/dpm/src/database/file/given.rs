//! Reads one value of the file's text in the type of its key, and reports mistakes with their
//! places.

use toml::Spanned;
use toml::de::DeValue;

use super::mistake::{At, Wrong, Wrongs};

/// A value with its place.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Given<'a> {
    pub(super) fn new(value: &'a Spanned<DeValue<'a>>) -> Self {
        Self { value }
    }

    pub(super) fn at<T>(&self, value: T) -> At<T> {
        At { value, span: self.value.span() }
    }

    pub(super) fn text(&self) -> Result<At<String>, Wrong> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.unlike("a text in quotes"))?;
        Ok(self.at(text.to_owned()))
    }

    pub(super) fn switch(&self) -> Result<bool, Wrong> {
        self.value.get_ref().as_bool().ok_or_else(|| self.unlike("true or false"))
    }

    /// Reads a whole number of a type.
    pub(super) fn whole<T: TryFrom<i64>>(&self, range: &str) -> Result<At<T>, Wrong> {
        let number = self.value.get_ref().as_integer();
        let number = number.and_then(|number| i64::from_str_radix(number.as_str(), number.radix()).ok());
        let number = number.and_then(|number| T::try_from(number).ok());
        number.map(|number| self.at(number)).ok_or_else(|| self.unlike(&format!("a whole number {range}")))
    }

    /// Reads a number, with or without a fraction.
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

    /// Reads a list, element by element so that each mistake points at its own line.
    pub(super) fn list<T>(&self, read: impl Fn(Given<'a>) -> Result<T, Wrong>) -> Result<At<Vec<T>>, Wrong> {
        let elements = self.value.get_ref().as_array().ok_or_else(|| self.unlike("a list in [ ]"))?;
        let mut wrongs = Wrongs::default();
        let good = elements.iter().filter_map(|element| wrongs.keep(read(Given::new(element)))).collect();
        wrongs.end().map(|()| self.at(good))
    }

    /// Reads a list of two things, such as a number and its name.
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

    pub(super) fn unlike(&self, expected: &str) -> Wrong {
        let found = match self.value.get_ref() {
            DeValue::String(text) => format!("{text:?}"),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            other => format!("a {}", other.type_str()),
        };
        Wrong::new("", format!("{expected} is expected, not {found}")).or_at(&self.value.span())
    }
}
