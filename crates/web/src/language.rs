//! The languages of the pages, chosen by the browser, and their differences besides words: plural
//! forms and number formats.

use std::fmt::Display;

use hyper::header::{ACCEPT_LANGUAGE, HeaderMap};

/// A language of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    German,
    French,
    Spanish,
}

impl Language {
    /// Returns the language that a browser prefers (RFC 9110 §12.5.4), or English.
    pub fn choose(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|line| line.to_str().ok());
        let mut best = (Self::English, 0.0);
        for range in lines.flat_map(|line| line.split(',')).take(MOST_RANGES) {
            let (tag, weight) = range.split_once(';').unwrap_or((range, ""));
            let weight = weight.trim().strip_prefix("q=").map_or(Some(1.0), |weight| weight.trim().parse::<f32>().ok());
            let language = tag.trim().split('-').next().unwrap_or_default();
            let known = Self::ALL.into_iter().find(|known| known.tag().eq_ignore_ascii_case(language));
            if let Some((known, weight)) = known.zip(weight)
                && weight > best.1
            {
                best = (known, weight);
            }
        }
        best.0
    }

    /// Returns its tag (RFC 5646).
    pub fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
            Self::French => "fr",
            Self::Spanish => "es",
        }
    }

    /// Returns the form of a text for a number: the one before the bar, or the one after it (CLDR,
    /// cardinal numbers).
    pub fn plural(self, text: &'static str, count: u64) -> &'static str {
        let (one, many) = text.split_once('|').unwrap_or((text, text));
        let is_one = match self {
            Self::French => count < 2,
            Self::English | Self::German | Self::Spanish => count == 1,
        };
        if is_one { one } else { many }
    }

    /// Returns the form of a text for a number, with the number in its gap.
    pub fn count(self, text: &'static str, count: u64) -> String {
        fill(self.plural(text, count), &[&count])
    }

    /// Returns a number, or an amount with its unit, in the format of this language, from the
    /// English format.
    pub fn amount(self, english: &str) -> String {
        let comma = |text: &str| text.replace('.', ",");
        match self {
            Self::English => english.to_owned(),
            Self::German | Self::Spanish => comma(english),
            Self::French => comma(english).replace("iB", "io").replace(" B", " o"),
        }
    }

    /// All languages that pages are written in; the first is the one for browsers that want none of
    /// them.
    pub const ALL: [Self; 4] = [Self::English, Self::German, Self::French, Self::Spanish];
}

/// Returns a text with its `{}` filled, not escaped: for text that is not HTML yet. A missing value
/// is empty.
pub(crate) fn fill(text: &str, values: &[&dyn Display]) -> String {
    let mut values = values.iter();
    let mut whole = String::new();
    for (at, piece) in text.split("{}").enumerate() {
        if at > 0
            && let Some(value) = values.next()
        {
            whole += &value.to_string();
        }
        whole += piece;
    }
    whole
}

/// The most ranges of `Accept-Language` that are examined.
const MOST_RANGES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(line: &str) -> Language {
        Language::choose(&[(ACCEPT_LANGUAGE, line.parse().unwrap())].into_iter().collect())
    }

    #[test]
    fn the_language_that_weighs_most_is_taken() {
        for (line, language) in [
            ("de-AT,de;q=0.9,en;q=0.8", Language::German),
            ("en;q=0.5, FR;q=0.7", Language::French),
            ("nl, es-MX ; q=0.3", Language::Spanish),
            ("nl,pl", Language::English),
            ("", Language::English),
            ("de;q=nonsense,fr;q=0.1", Language::French),
            ("de;q=0,*", Language::English),
        ] {
            assert_eq!(choose(line), language, "{line}");
        }
        assert_eq!(Language::choose(&HeaderMap::new()), Language::English);
    }

    #[test]
    fn numbers_have_their_forms() {
        let text = "{} account|{} accounts";
        for language in Language::ALL {
            let counted = [0, 1, 2].map(|count| language.count(text, count));
            let of_none = if language == Language::French { "0 account" } else { "0 accounts" };
            assert_eq!(counted, [of_none, "1 account", "2 accounts"], "{language:?}");
        }
        assert_eq!(Language::German.count("{} Zeichen", 3), "3 Zeichen");
    }

    #[test]
    fn amounts_are_written_as_readers_write_them() {
        assert_eq!(Language::English.amount("1.5 KiB"), "1.5 KiB");
        assert_eq!(Language::German.amount("1.5 KiB"), "1,5 KiB");
        assert_eq!(Language::French.amount("1.5 KiB"), "1,5 Kio");
        assert_eq!(Language::French.amount("0 B"), "0 o");
    }
}
