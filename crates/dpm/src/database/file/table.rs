//! Describes the tables of the file. One description serves the parser, the reference and the
//! example, so that they can't differ.

use super::given::Given;
use super::mistake::{At, Wrong, Wrongs};

/// A table of the file whose keys are put into a row of type `T`.
pub(super) struct FileTable<T: 'static> {
    /// The heading as it is written in a file, such as `[[device]]` or `[device.reading]`; empty
    /// for inline tables.
    pub(super) heading: &'static str,
    /// A description of its purpose.
    pub(super) about: &'static str,
    /// Its keys, in groups that other tables may share.
    pub(super) keys: &'static [&'static [TableKey<T>]],
}

/// A key that a table of the device file may have, with its documentation and its parser.
pub(super) struct TableKey<T: 'static> {
    pub(super) name: &'static str,
    /// Its meaning, and the valid values.
    pub(super) doc: &'static str,
    pub(super) need: Need,
    /// A valid value in the form of a file.
    pub(super) example: &'static str,
    /// The table that the value consists of, if it is one.
    pub(super) inner: Option<&'static dyn Shape>,
    /// Puts the value into the row.
    pub(super) set: fn(&mut T, Given<'_>) -> Result<(), Wrong>,
}

/// The rule for a missing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// The key is required.
    Required,
    /// The key has this default. The example sets it.
    Shown(&'static str),
    /// The key has this default. The example has it commented out by `#`, as it can't be combined
    /// with others.
    Usual(&'static str),
}

/// A table without the type of its row: the part that documentation needs.
pub(super) trait Shape: Sync {
    fn heading(&self) -> &'static str;
    fn about(&self) -> &'static str;
    fn rows(&self) -> Vec<KeyShape>;
}

/// A key without the type of its row.
#[derive(Clone, Copy)]
pub(super) struct KeyShape {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    pub(super) need: Need,
    pub(super) example: &'static str,
    pub(super) inner: Option<&'static dyn Shape>,
}

impl<T> FileTable<T> {
    fn all(&self) -> impl Iterator<Item = &'static TableKey<T>> {
        self.keys.iter().flat_map(|group| group.iter())
    }

    pub(super) fn key(&self, name: &str) -> Option<&'static TableKey<T>> {
        self.all().find(|key| key.name == name)
    }

    pub(super) fn required_keys(&self) -> impl Iterator<Item = &'static TableKey<T>> {
        self.all().filter(|key| key.need == Need::Required)
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.all().map(|key| key.name).collect()
    }
}

impl<T> Shape for FileTable<T> {
    fn heading(&self) -> &'static str {
        self.heading
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn rows(&self) -> Vec<KeyShape> {
        let shape = |key: &'static TableKey<T>| {
            let TableKey { name, doc, need, example, inner, .. } = *key;
            KeyShape { name, doc, need, example, inner }
        };
        self.all().map(shape).collect()
    }
}

impl<'a> Given<'a> {
    /// Reads a table whose keys a [`FileTable`] names.
    ///
    /// # Errors
    /// All mistakes in it.
    pub(super) fn table<T: Default>(&self, table: &FileTable<T>) -> Result<At<T>, Wrong> {
        let (row, wrongs) = self.table_in_part(table)?;
        wrongs.end().map(|()| row)
    }

    /// Reads a table as far as it is right, with the mistakes in it.
    ///
    /// # Errors
    /// It is no table.
    pub(super) fn table_in_part<T: Default>(&self, table: &FileTable<T>) -> Result<(At<T>, Wrongs), Wrong> {
        let Some(entries) = self.value.get_ref().as_table() else {
            return Err(self.unlike(&format!("a table with {}", table.names().join(", "))));
        };
        let (mut row, mut wrongs) = (self.at(T::default()), Wrongs::default());
        for (name, value) in entries.iter() {
            let name_given: &str = name.get_ref();
            let Some(key) = table.key(name_given) else {
                let what = format!("there is no such key here; there are {}", table.names().join(", "));
                wrongs.push(Wrong::new(name_given, what).or_at(&name.span()));
                continue;
            };
            let set = (key.set)(&mut row.value, Given::new(value));
            wrongs.keep(set.map_err(|wrong| wrong.within(key.name).or_at(&value.span())));
        }
        for key in table.required_keys().filter(|key| !entries.iter().any(|(name, _)| &**name.get_ref() == key.name)) {
            let what = format!("is missing; {} = {}, for example", key.name, key.example);
            wrongs.push(Wrong::new(key.name, what).or_at(&row.span));
        }
        Ok((row, wrongs))
    }

    /// Reads a list of tables into a place, which gets the good ones even if others are wrong.
    pub(super) fn rows<T: Default>(&self, place: &mut Vec<At<T>>, table: &FileTable<T>) -> Result<(), Wrong> {
        let elements = self.value.get_ref().as_array().ok_or_else(|| self.unlike("a list in [ ]"))?;
        let mut wrongs = Wrongs::default();
        place.extend(elements.iter().filter_map(|element| wrongs.keep(Given::new(element).table(table))));
        wrongs.end()
    }

    /// Reads a table of whole numbers by names of the file's own.
    pub(super) fn numbers_by_name(&self) -> Result<Vec<(String, u32)>, Wrong> {
        let entries = self.value.get_ref().as_table().ok_or_else(|| self.unlike("a table such as { ON = 3 }"))?;
        let entry = |name: &str, value| {
            let number = Given::new(value).whole(U32).map_err(|wrong| wrong.within(name))?;
            Ok((name.to_owned(), number.value))
        };
        entries.iter().map(|(name, value)| entry(name.get_ref(), value)).collect()
    }
}

pub(super) type SetKey<T> = fn(&mut T, Given<'_>) -> Result<(), Wrong>;

/// Returns a required key.
pub(super) const fn text<T>(
    name: &'static str,
    doc: &'static str,
    example: &'static str,
    set: SetKey<T>,
) -> TableKey<T> {
    TableKey { name, doc, need: Need::Required, example, inner: None, set }
}

pub(super) fn put<T>(place: &mut T, value: Result<T, Wrong>) -> Result<(), Wrong> {
    *place = value?;
    Ok(())
}

pub(super) fn value<T>(at: Result<At<T>, Wrong>) -> Result<T, Wrong> {
    at.map(|at| at.value)
}

pub(super) const U16: &str = "from 0 to 65535";

pub(super) const U32: &str = "from 0 to 4294967295";

pub(super) const I32: &str = "from -2147483648 to 2147483647";
