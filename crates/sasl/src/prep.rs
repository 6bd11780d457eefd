//! SASLprep (RFC 4013) of user names and passwords.

use std::borrow::Cow;

/// Prepares a user name or password; `None` if it holds prohibited characters or nothing is left.
///
/// RFC 4616 §2 and RFC 5802 §5.1 make both cases a failed authentication.
pub fn saslprep(text: &str) -> Option<Cow<'_, str>> {
    stringprep::saslprep(text).ok().filter(|prepared| !prepared.is_empty())
}

/// Returns whether two user names mean the same local part of an address (nodeprep, RFC 6122
/// appendix A).
pub(crate) fn same_local(a: &str, b: &str) -> bool {
    match (stringprep::nodeprep(a), stringprep::nodeprep(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Returns whether two domain names are the same (nameprep, RFC 3491), a trailing dot aside.
pub(crate) fn same_domain(a: &str, b: &str) -> bool {
    let strip = |name| str::strip_suffix(name, ".").unwrap_or(name);
    match (stringprep::nameprep(strip(a)), stringprep::nameprep(strip(b))) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4013 §3.
    #[test]
    fn examples_of_the_rfc() {
        assert_eq!(saslprep("I\u{AD}X").unwrap(), "IX");
        assert_eq!(saslprep("user").unwrap(), "user");
        assert_eq!(saslprep("USER").unwrap(), "USER");
        assert_eq!(saslprep("\u{AA}").unwrap(), "a");
        assert_eq!(saslprep("\u{2168}").unwrap(), "IX");
        assert_eq!(saslprep("\u{7}"), None);
        assert_eq!(saslprep("\u{627}\u{31}"), None);
    }

    #[test]
    fn nothing_is_no_name() {
        assert_eq!(saslprep(""), None);
        assert_eq!(saslprep("\u{AD}"), None);
    }

    #[test]
    fn addresses_compare_prepared() {
        assert!(same_local("Juliet", "juliet"));
        assert!(!same_local("juliet", "romeo"));
        assert!(!same_local("a@b", "a@b"));
        assert!(same_domain("Example.ORG.", "example.org"));
    }
}
