//! One value of the configuration's text, read as its key requires.

use std::ops::{Range, RangeInclusive};

use rookery_hub::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::error::WrongValue;
use super::size;

/// A value with its place.
#[derive(Clone, Copy)]
pub struct GivenValue<'a> {
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> GivenValue<'a> {
    /// Wraps a parsed value.
    pub fn new(value: &'a Spanned<DeValue<'a>>) -> GivenValue<'a> {
        GivenValue { value }
    }

    /// Returns its place in the text.
    pub fn at(&self) -> Range<usize> {
        self.value.span()
    }

    /// Returns a mistake at this place.
    pub fn wrong(&self, what: impl Into<String>) -> WrongValue {
        WrongValue::new(self.at(), what)
    }

    /// Reads a text; the error is a fault for any other type.
    pub fn text(&self) -> Result<&'a str, WrongValue> {
        self.value.get_ref().as_str().ok_or_else(|| self.unlike("a text in quotes"))
    }

    /// Reads a boolean; the same word in quotation marks is a fault.
    pub fn switch(&self) -> Result<bool, WrongValue> {
        self.value.get_ref().as_bool().ok_or_else(|| self.unlike("true or false"))
    }

    /// Reads a whole number in a range.
    pub fn number(&self, range: RangeInclusive<u64>) -> Result<u64, WrongValue> {
        let number = self.integer().ok_or_else(|| self.unlike(&between(&range, &plain)))?;
        self.within(number, &range, &plain)
    }

    /// Reads a number of bytes in a range: a whole number, or a text like `64 KiB`.
    pub fn bytes(&self, range: RangeInclusive<u64>) -> Result<usize, WrongValue> {
        let bytes = self.integer().or_else(|| size::parse(self.value.get_ref().as_str()?));
        let bytes = bytes.ok_or_else(|| match self.value.get_ref().as_str().and_then(size::meant) {
            Some(meant) => self.unlike(&format!("a size in binary units such as \"{meant}\"")),
            None => self.unlike("a size such as 262144 or \"256 KiB\""),
        })?;
        let bytes = self.within(bytes, &range, &size::show)?;
        usize::try_from(bytes).map_err(|_| self.wrong("more than this machine can address"))
    }

    /// Reads a text by a function; `what` describes the expected value, with an example.
    pub fn parse_by<T>(&self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, WrongValue> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.unlike(what))?;
        read(text).ok_or_else(|| self.wrong(format!("{text:?} is not {what}")))
    }

    /// Reads one of a few words.
    pub fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, WrongValue> {
        let names: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        self.parse_by(&names.join(" or "), |text| words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value))
    }

    /// Reads a list, element by element so that a mistake points at its own line.
    pub fn list<T>(&self, read: impl Fn(GivenValue<'a>) -> Result<T, WrongValue>) -> Result<Vec<T>, WrongValue> {
        let elements = self.value.get_ref().as_array().ok_or_else(|| self.unlike("a list in [ ]"))?;
        elements.iter().map(|element| read(GivenValue::new(element))).collect()
    }

    /// Reads a list that isn't empty, or one element alone.
    pub fn one_or_more<T>(&self, read: impl Fn(GivenValue<'a>) -> Result<T, WrongValue>) -> Result<Vec<T>, WrongValue> {
        match self.value.get_ref() {
            DeValue::Array(elements) if elements.is_empty() => Err(self.wrong("at least one is needed")),
            DeValue::Array(_) => self.list(read),
            _ => Ok(vec![read(*self)?]),
        }
    }

    /// Reads the values of a table with exactly these keys, in their order.
    pub fn fields<const N: usize>(&self, names: [&str; N]) -> Result<[GivenValue<'a>; N], WrongValue> {
        let expected = || format!("a table with {}", names.map(|name| format!("`{name}`")).join(" and "));
        let table = self.value.get_ref().as_table().ok_or_else(|| self.unlike(&expected()))?;
        if let Some((key, _)) = table.iter().find(|(key, _)| !names.contains(&&**key.get_ref())) {
            return Err(WrongValue::new(
                key.span(),
                format!("there is no key {:?} here; expected {}", &**key.get_ref(), expected()),
            ));
        }
        let found = names.map(|name| {
            table.iter().find(|(key, _)| &**key.get_ref() == name).map(|(_, value)| GivenValue::new(value))
        });
        match found.iter().position(Option::is_none) {
            Some(missing) => Err(self.wrong(format!("`{}` is missing; expected {}", names[missing], expected()))),
            None => Ok(found.map(|value| value.unwrap_or(*self))),
        }
    }

    /// Reads a value of the same kind as the default of a module's option; if the name of the
    /// option says that it is a size, a text like `64 KiB` is also accepted.
    pub fn like(&self, key: &str, default: &Value) -> Result<Value, WrongValue> {
        Ok(match default {
            Value::Number(_) if size::is_named(key) => Value::Number(self.bytes(0..=u64::MAX)? as u64),
            Value::Switch(_) => Value::Switch(self.switch()?),
            Value::Number(_) => Value::Number(self.number(0..=u64::MAX)?),
            Value::Text(_) => Value::Text(self.text()?.to_owned()),
            Value::List(_) => Value::List(self.list(|element| Ok(element.text()?.to_owned()))?),
        })
    }

    fn integer(&self) -> Option<u64> {
        let integer = self.value.get_ref().as_integer()?;
        u64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    fn within(
        &self,
        number: u64,
        range: &RangeInclusive<u64>,
        show: &dyn Fn(u64) -> String,
    ) -> Result<u64, WrongValue> {
        if range.contains(&number) {
            return Ok(number);
        }
        Err(self.wrong(format!("{} is out of range; expected {}", show(number), between(range, show))))
    }

    fn unlike(&self, expected: &str) -> WrongValue {
        let found = match self.value.get_ref() {
            DeValue::String(text) => format!("{text:?}"),
            DeValue::Integer(number) => number.to_string(),
            other => format!("a {}", other.type_str()),
        };
        self.wrong(format!("expected {expected}, not {found}"))
    }
}

fn between(range: &RangeInclusive<u64>, show: &dyn Fn(u64) -> String) -> String {
    match (*range.start(), *range.end()) {
        (start, u64::MAX) => format!("a whole number from {}", show(start)),
        (start, end) => format!("a value from {} to {}", show(start), show(end)),
    }
}

fn plain(number: u64) -> String {
    number.to_string()
}
