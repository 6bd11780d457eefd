//! Guesses the known word that an unknown one was meant to be.

/// Returns the known word with the fewest changes to this one, if they are few enough for a slip.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (word.chars().count() / 3).max(2);
    let candidates = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    // A word in which every letter is different can't be meant.
    let is_slip = |(distance, candidate): &(usize, &str)| *distance <= bound && *distance < candidate.chars().count();
    candidates.filter(is_slip).min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// Returns the number of insertions, deletions and replacements between two words; `-` and `_`
/// count as the same letter.
fn distance(one: &str, other: &str) -> usize {
    let letters = |word: &str| word.to_lowercase().replace('-', "_");
    strsim::levenshtein(&letters(one), &letters(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_changes() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("c2s-tls", "C2S_TLS"), 0);
    }

    #[test]
    fn slips_are_recognised_and_strangers_not() {
        let known = ["stanza_bytes", "depth", "conflict"];
        assert_eq!(nearest("stanza_byte", known), Some("stanza_bytes"));
        assert_eq!(nearest("Conflict", known), Some("conflict"));
        assert_eq!(nearest("retries", known), None);
        assert_eq!((nearest("log", ["io"]), nearest("i0", ["io"])), (None, Some("io")));
    }
}
