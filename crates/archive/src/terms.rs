//! The terms by which messages are found in a store with an index (XEP-0431): every three
//! consecutive characters of a body, in lower case, as a number.
//!
//! A word that is part of a body has all of its terms among those of the body, whatever the script.
//! The reverse may be a coincidence, so a search reads the messages that the index has found. That
//! is why numbers may collide. Words of one or two characters have no terms: they are searched for
//! in all messages.

use std::collections::BTreeSet;

use rookery_xml::ns;

use super::page::read_stored;

/// Returns the terms of a stanza's bodies, without duplicates.
pub fn terms(stanza: &[u8]) -> Vec<u32> {
    let mut found = BTreeSet::new();
    if let Some(stanza) = read_stored(stanza) {
        for body in stanza.children().filter(|child| child.is("body", ns::CLIENT)) {
            collect(&body.element().text().to_lowercase(), &mut found);
        }
    }
    found.into_iter().collect()
}

/// Returns the terms that a body with all of these words has, without duplicates. Words are in
/// lower case.
pub(super) fn of_words(words: &[String]) -> Vec<u32> {
    let mut found = BTreeSet::new();
    words.iter().for_each(|word| collect(word, &mut found));
    found.into_iter().collect()
}

fn collect(text: &str, into: &mut BTreeSet<u32>) {
    let mut characters = text.chars();
    let (Some(mut first), Some(mut second)) = (characters.next(), characters.next()) else { return };
    for third in characters {
        into.insert(number([first, second, third]));
        (first, second) = (second, third);
    }
}

/// Returns three characters as a number: FNV-1a, a character at a time. Databases store these
/// numbers, so the function must never change.
fn number(characters: [char; 3]) -> u32 {
    characters.iter().fold(0x811C_9DC5, |number: u32, one| (number ^ u32::from(*one)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_bodies_count_and_nothing_else() {
        let stanza = "<message to='a@x' from='b@x'><subject>Verona</subject><body>Ärger</body><body xml:lang='en'>ire</body></message>";
        let mut expected = of_words(&["ärger".into(), "ire".into()]);
        expected.sort_unstable();
        assert_eq!(terms(stanza.as_bytes()), expected);
        assert_eq!(expected.len(), 4);
        assert_eq!((terms(b"<message/>"), terms(b"damaged")), (vec![], vec![]));
    }

    #[test]
    fn numbers_stay_as_they_are() {
        assert_eq!([number(['a', 'b', 'c']), number(['東', '京', '都'])], [0x1A47_E90B, 0xDD44_D0D7]);
    }

    proptest! {
        #[test]
        fn a_part_of_a_body_has_terms_of_the_body(before in "\\PC{0,9}", word in "\\PC{0,9}", after in "\\PC{0,9}") {
            let mut body = BTreeSet::new();
            collect(&format!("{before}{word}{after}"), &mut body);
            prop_assert!(of_words(&[word]).iter().all(|term| body.contains(term)));
        }
    }
}
