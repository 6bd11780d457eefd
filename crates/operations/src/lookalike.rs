//! Names that can be mistaken for others (Unicode Technical Standard 39).
//!
//! This concerns names that strangers choose: an account that already has such a name keeps it, and
//! operators may assign any name. The rule of one script per name permits the words of every
//! language, and excludes the Cyrillic а among Latin letters; a name consisting only of look-alikes
//! is refused only if it resembles one with rights.

use rookery_jid::Jid;
use unicode_security::{MixedScript, skeleton};

/// Returns whether all letters of a localpart are of one script, in the sense of UTS 39 §5.1: the
/// scripts of Japanese, of Korean and of Chinese count as one each.
pub fn is_of_one_script(local: &str) -> bool {
    local.is_ascii() || local.is_single_script()
}

/// Returns whether an account equals a named one, or could be mistaken for it (§4): their letters
/// are the same, or look the same.
pub fn may_be_taken_for(account: &Jid, named: &Jid) -> bool {
    let (Some(local), Some(other)) = (account.local(), named.local()) else { return false };
    account.domain() == named.domain() && (local == other || skeleton(local).eq(skeleton(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_script() {
        for name in ["admin", "jürgen", "птица", "田中さんカナ", "김철수", "anna-maria.99", "νίκος", "o'", "+49301234"]
        {
            assert!(is_of_one_script(name), "{name}");
        }
        for name in ["\u{430}dmin", "p\u{430}ypal", "птицаx", "νikos"] {
            assert!(!is_of_one_script(name), "{name}");
        }
    }

    #[test]
    fn names_that_look_the_same_may_be_mistaken() {
        let of = |local: &str, domain: &str| Jid::new(Some(local), domain, None).unwrap();
        let admin = of("pope", "a.example");
        for name in ["pope", "р\u{43e}р\u{435}", "p\u{43e}pe"] {
            assert!(may_be_taken_for(&of(name, "a.example"), &admin), "{name}");
        }
        assert!(!may_be_taken_for(&of("popes", "a.example"), &admin));
        assert!(!may_be_taken_for(&of("pope", "b.example"), &admin));
        assert!(may_be_taken_for(&of("adrnin", "a.example"), &of("admin", "a.example")));
    }
}
