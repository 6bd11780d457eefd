//! The outcome of a form: the action, or the reason why there was none, and the field that it
//! concerns.

use std::fmt::Display;

use rookery_operations::{Outcome, Refusal};

use crate::language::{Language, fill};

/// The result of a form.
pub(crate) struct FormDone {
    /// The page to go to: its path after [`super::PREFIX`].
    pub to: String,
    /// The message that the page shows.
    pub words: String,
    /// A text for the visitor to copy, if there is one.
    pub copy: Option<String>,
    /// The address that starts a mail with this text.
    pub mail: Option<String>,
}

impl FormDone {
    /// Returns a result without a text to copy.
    pub fn new(to: impl Into<String>, words: impl Into<String>) -> Self {
        Self { to: to.into(), words: words.into(), copy: None, mail: None }
    }
}

/// The reason why a form did nothing, and the field that it is about.
#[derive(Debug)]
pub(crate) struct FormFault {
    /// The name of the field; `None` if it is about the whole form.
    pub field: Option<&'static str>,
    /// The reason.
    pub refusal: Refusal,
}

impl From<Refusal> for FormFault {
    fn from(refusal: Refusal) -> Self {
        Self { field: None, refusal }
    }
}

/// The outcome of a form.
pub(crate) type FormAnswered = Result<FormDone, FormFault>;

/// Attaches the field to a refusal.
pub(crate) trait RefusedField<T> {
    /// Marks this field as the one that a refusal, if any, concerns.
    ///
    /// # Errors
    /// The refusal, with the field.
    fn at(self, field: &'static str) -> Result<T, FormFault>;
}

impl<T> RefusedField<T> for Outcome<T> {
    fn at(self, field: &'static str) -> Result<T, FormFault> {
        self.map_err(|refusal| match refusal {
            // A failure of the server isn't a mistake in a field.
            Refusal::Store(_) | Refusal::Work(_) | Refusal::Late | Refusal::Failed(_) => refusal.into(),
            refusal => FormFault { field: Some(field), refusal },
        })
    }
}

/// The texts for the refusals of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalWords {
    /// The text if the thing doesn't exist. It may have a gap for the thing's name.
    pub missing: &'static str,
    /// The text if the operation is impossible in any case.
    pub impossible: &'static str,
}

impl RefusalWords {
    /// Returns the text for an operation's refusal, in a language. In English it is the operation's
    /// own text, which is more detailed.
    pub fn in_words(self, language: Language, refusal: Refusal, about: &dyn Display) -> Refusal {
        if language == Language::English {
            return refusal;
        }
        let words = language.of_administrators();
        match refusal {
            Refusal::Impossible(_) => Refusal::Impossible(fill(self.impossible, &[about])),
            Refusal::Missing(_) => Refusal::Missing(fill(self.missing, &[about])),
            Refusal::Exists(_) => Refusal::Exists(fill(words.exists, &[about])),
            Refusal::Full(_) => Refusal::Full(words.no_place.into()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_operations_are_told_in_the_readers_language() {
        let words = Language::German.of_administrators();
        let words = RefusalWords { missing: words.no_account, impossible: words.name_impossible };
        let missing = || Refusal::Missing("there is no account a@b.example".into());
        assert_eq!(words.in_words(Language::English, missing(), &"x").to_string(), "there is no account a@b.example");
        assert_eq!(
            words.in_words(Language::German, missing(), &"a@b.example").to_string(),
            "es gibt kein Konto a@b.example"
        );
        let exists = Refusal::Exists("a@b.example exists already".into());
        assert_eq!(words.in_words(Language::German, exists, &"a@b.example").to_string(), "a@b.example gibt es schon");
    }

    #[test]
    fn the_trouble_of_the_server_is_in_no_field() {
        let late: Result<(), FormFault> = Err(Refusal::Late).at("name");
        assert_eq!(late.unwrap_err().field, None);
        let taken: Result<(), FormFault> = Err(Refusal::Exists("it exists".into())).at("name");
        assert_eq!(taken.unwrap_err().field, Some("name"));
    }
}
