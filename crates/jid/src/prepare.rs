//! Preparation and enforcement of the three parts (RFC 7622 §3).
//!
//! ASCII that needs no change is proven so by one table look-up per byte and borrowed. All else
//! goes to libraries: localparts through nodeprep and resourceparts through resourceprep (RFC 6122
//! appendices A and B, which is what deployed clients and servers prepare with), domainparts
//! through IDNA (RFC 7622 §3.2, UTS #46) into U-labels.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use idna::AsciiDenyList;
use idna::uts46::{Hyphens, Uts46};
use stringprep::{nodeprep, resourceprep, tables};

use crate::jid::JidParts;
use crate::{Jid, JidError, JidRef};

/// A prepared address that borrowed its text if it could.
#[derive(Clone, Debug)]
pub enum Prepared<'a> {
    /// The text was prepared already.
    Borrowed(JidRef<'a>),
    /// The text had to be changed.
    Owned(Jid),
}

impl Prepared<'_> {
    /// Returns the address, borrowed or owned.
    pub fn as_ref(&self) -> JidRef<'_> {
        match self {
            Self::Borrowed(jid) => *jid,
            Self::Owned(jid) => jid.as_ref(),
        }
    }

    /// Returns the address, owned.
    pub fn into_jid(self) -> Jid {
        match self {
            Self::Borrowed(jid) => jid.to_jid(),
            Self::Owned(jid) => jid,
        }
    }
}

/// Prepares an address as it came over the wire. Allocates nothing if it is prepared ASCII.
pub fn prepare(raw: &str) -> Result<Prepared<'_>, JidError> {
    if let Some(jid) = JidRef::parse_prepared(raw) {
        return Ok(Prepared::Borrowed(jid));
    }
    let (bare, resource) = match raw.split_once('/') {
        Some((bare, resource)) => (bare, Some(resource)),
        None => (raw, None),
    };
    let (local, domain) = match bare.split_once('@') {
        Some((local, domain)) => (Some(local), domain),
        None => (None, bare),
    };
    Jid::new(local, domain, resource).map(Prepared::Owned)
}

/// Prepares a localpart (RFC 7622 §3.3).
pub fn prepare_local(raw: &str) -> Result<Cow<'_, str>, JidError> {
    if raw.is_empty() {
        return Err(JidError::EmptyLocal);
    }
    if raw.len() > MAX_PART {
        return Err(JidError::LocalTooLong);
    }
    if raw.bytes().all(|b| CLASS[usize::from(b)] & LOCAL != 0) {
        return Ok(Cow::Borrowed(raw));
    }
    let local = nodeprep(raw).map_err(|_| JidError::InvalidLocal)?;
    if nodeprep(&local).ok().as_ref() != Some(&local) {
        return Err(JidError::InvalidLocal);
    }
    match local.len() {
        0 => Err(JidError::EmptyLocal),
        1..=MAX_PART => Ok(local),
        _ => Err(JidError::LocalTooLong),
    }
}

/// Prepares a domainpart (RFC 7622 §3.2): lower case, U-labels, no trailing dot; IPv6 literals in
/// brackets.
pub fn prepare_domain(raw: &str) -> Result<Cow<'_, str>, JidError> {
    if raw.len() > MAX_PART + 1 {
        return Err(JidError::DomainTooLong);
    }
    if let Some(literal) = raw.strip_prefix('[') {
        let literal = literal.strip_suffix(']').ok_or(JidError::InvalidDomain)?;
        let address: Ipv6Addr = literal.parse().map_err(|_| JidError::InvalidDomain)?;
        return Ok(Cow::Owned(format!("[{address}]")));
    }
    let bare = without_final_dot(raw);
    if is_ascii_domain(bare.as_bytes()) {
        return Ok(Cow::Borrowed(bare));
    }
    let unicode = unicode_domain(raw)?;
    // An A-label may hide another one. A name that changes when it is prepared again would be
    // several addresses.
    if unicode_domain(&unicode)? != unicode {
        return Err(JidError::InvalidDomain);
    }
    // IDNA maps other full stops to '.', so the final dot may only show now.
    let domain = without_final_dot(&unicode);
    if domain.is_empty() || domain.split('.').any(str::is_empty) {
        return Err(JidError::EmptyDomain);
    }
    // It also maps compatibility forms of '/', '@' and the like to ASCII, which must not get in
    // that way.
    if domain.bytes().any(|b| b.is_ascii() && CLASS[usize::from(b)] & DOMAIN == 0) {
        return Err(JidError::InvalidDomain);
    }
    if domain.len() > MAX_PART {
        return Err(JidError::DomainTooLong);
    }
    Ok(Cow::Owned(domain.to_owned()))
}

/// Prepares a resourcepart (RFC 7622 §3.4).
///
/// Resourceprep knows Unicode 3.2 only. RFC 3454 §7 leaves it to the application whether characters
/// assigned since may pass unchanged; letters, digits and pictographs do here, because people put
/// them into nicknames.
pub fn prepare_resource(raw: &str) -> Result<Cow<'_, str>, JidError> {
    if raw.is_empty() {
        return Err(JidError::EmptyResource);
    }
    if raw.len() > MAX_PART {
        return Err(JidError::ResourceTooLong);
    }
    if raw.bytes().all(|b| CLASS[usize::from(b)] & RESOURCE != 0) {
        return Ok(Cow::Borrowed(raw));
    }
    let resource = resource_text(raw)?;
    if resource_text(&resource)? != resource {
        return Err(JidError::InvalidResource);
    }
    match resource.len() {
        0 => Err(JidError::EmptyResource),
        1..=MAX_PART => Ok(resource),
        _ => Err(JidError::ResourceTooLong),
    }
}

/// Returns the offsets of an address that is prepared ASCII, `None` for anything else.
#[inline]
pub(crate) fn ascii_parts(raw: &[u8]) -> Option<JidParts> {
    let run = raw.iter().position(|&b| CLASS[usize::from(b)] & LOCAL == 0).unwrap_or(raw.len());
    let (local, domain_start) = match raw.get(run) {
        Some(b'@') if run > 0 => (run, run + 1),
        Some(b'@') => return None,
        _ => (0, 0),
    };
    let rest = raw.get(domain_start..)?;
    let domain = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
    let bare = domain_start + domain;
    if local > MAX_PART || !is_ascii_domain(&rest[..domain]) {
        return None;
    }
    if bare < raw.len() {
        let resource = &raw[bare + 1..];
        if !(1..=MAX_PART).contains(&resource.len()) || resource.iter().any(|&b| CLASS[usize::from(b)] & RESOURCE == 0)
        {
            return None;
        }
    }
    Some(JidParts { local: local as u16, bare: bare as u16 })
}

/// Returns whether these bytes are a domain name that IDNA would leave alone: lower case, no empty
/// label, no A-label.
#[inline]
fn is_ascii_domain(domain: &[u8]) -> bool {
    let mut start = 0;
    for (at, &b) in domain.iter().enumerate() {
        if CLASS[usize::from(b)] & DOMAIN == 0 {
            return false;
        }
        if b == b'.' {
            if at == start {
                return false;
            }
            start = at + 1;
        } else if b == b'-' && at == start + 3 && domain[start..at] == *b"xn-" {
            return false;
        }
    }
    start < domain.len() && domain.len() <= MAX_PART
}

/// Returns the U-labels of a domain name.
fn unicode_domain(raw: &str) -> Result<Cow<'_, str>, JidError> {
    let (unicode, checked) = Uts46::new().to_unicode(raw.as_bytes(), AsciiDenyList::EMPTY, Hyphens::Allow);
    checked.map_err(|_| JidError::InvalidDomain)?;
    Ok(unicode)
}

fn resource_text(raw: &str) -> Result<Cow<'_, str>, JidError> {
    match resourceprep(raw) {
        Ok(resource) => Ok(resource),
        Err(_) => resourceprep_around_newer(raw).map(Cow::Owned).ok_or(JidError::InvalidResource),
    }
}

fn without_final_dot(domain: &str) -> &str {
    domain.strip_suffix('.').unwrap_or(domain)
}

/// Prepares the runs between characters that Unicode 3.2 doesn't know. Those are starters that
/// nothing composes with in that version, so the normal form of the whole is that of the runs.
fn resourceprep_around_newer(raw: &str) -> Option<String> {
    let mut prepared = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((at, newer)) = rest.char_indices().find(|&(_, c)| tables::unassigned_code_point(c)) {
        if !(newer.is_alphanumeric() || PICTOGRAPHS.contains(&newer)) {
            return None;
        }
        prepared.push_str(&resourceprep(&rest[..at]).ok()?);
        prepared.push(newer);
        rest = &rest[at + newer.len_utf8()..];
    }
    prepared.push_str(&resourceprep(rest).ok()?);
    is_one_direction(&prepared).then_some(prepared)
}

/// Checks the rule for right-to-left text over the whole string (RFC 3454 §6); the runs were
/// checked only one by one.
fn is_one_direction(text: &str) -> bool {
    if !text.contains(tables::bidi_r_or_al) {
        return true;
    }
    !text.contains(tables::bidi_l) && text.starts_with(tables::bidi_r_or_al) && text.ends_with(tables::bidi_r_or_al)
}

/// The longest part in bytes (RFC 7622 §3.2 to §3.4).
pub(crate) const MAX_PART: usize = 1023;

/// Blocks of symbols and emoji, all of them younger than Unicode 3.2.
const PICTOGRAPHS: std::ops::RangeInclusive<char> = '\u{1F000}'..='\u{1FAFF}';

const LOCAL: u8 = 1;
const DOMAIN: u8 = 2;
const RESOURCE: u8 = 4;

/// For each byte the parts that may hold it unchanged.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut b = b' ';
    while b <= b'~' {
        let mut parts = RESOURCE;
        if !matches!(b, b' ' | b'A'..=b'Z' | b'"' | b'&' | b'\'' | b'/' | b':' | b'<' | b'>' | b'@') {
            parts |= LOCAL;
        }
        if matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_') {
            parts |= DOMAIN;
        }
        class[b as usize] = parts;
        b += 1;
    }
    class
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prepare_text(raw: &str) -> Result<String, JidError> {
        prepare(raw).map(|jid| jid.as_ref().as_str().to_owned())
    }

    #[test]
    fn prepared_ascii_is_borrowed() {
        for raw in ["example.com", "a@b.example", "a@b.example/Desk 1/<&>", "x_y.example/r", "127.0.0.1"] {
            assert!(matches!(prepare(raw), Ok(Prepared::Borrowed(jid)) if jid.as_str() == raw), "{raw}");
        }
    }

    #[test]
    fn other_spellings_are_prepared() {
        let cases = [
            ("JULIET@Example.COM/Balcony", "juliet@example.com/Balcony"),
            ("example.com.", "example.com"),
            ("a@example.com./r", "a@example.com/r"),
            ("Стол@пример.РФ", "стол@пример.рф"),
            ("xn--e1afmkfd.example", "пример.example"),
            ("example\u{3002}com\u{ff0e}", "example.com"),
            ("a@[::1]/r", "a@[::1]/r"),
            ("[2001:DB8:0:0::1]", "[2001:db8::1]"),
            ("fuß@example.com", "fuss@example.com"),
            ("a@b.example/\u{2168}", "a@b.example/IX"),
            ("a@b.example/\u{1F600} nick", "a@b.example/\u{1F600} nick"),
        ];
        for (raw, expected) in cases {
            assert_eq!(prepare_text(raw).as_deref(), Ok(expected), "{raw}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("", JidError::EmptyDomain),
            ("@example.com", JidError::EmptyLocal),
            ("a@", JidError::EmptyDomain),
            ("a@/r", JidError::EmptyDomain),
            ("a@example.com/", JidError::EmptyResource),
            ("a@b..example", JidError::EmptyDomain),
            ("a@.example", JidError::EmptyDomain),
            ("a@example..", JidError::EmptyDomain),
            ("a b@example.com", JidError::InvalidLocal),
            ("a@b@example.com", JidError::InvalidDomain),
            ("a@exa mple.com", JidError::InvalidDomain),
            ("a@example\u{ff0f}com", JidError::InvalidDomain),
            ("xn--xn--tltlaa-tlala", JidError::InvalidDomain),
            ("a@[::1", JidError::InvalidDomain),
            ("a@[example.com]", JidError::InvalidDomain),
            ("a@b.example/x\u{7}", JidError::InvalidResource),
            ("a@b.example/\u{2067}x", JidError::InvalidResource),
            ("\u{ad}@example.com", JidError::EmptyLocal),
            ("a@b.example/\u{ad}", JidError::EmptyResource),
        ];
        for (raw, error) in cases {
            assert_eq!(prepare_text(raw), Err(error), "{raw:?}");
        }
    }

    #[test]
    fn a_part_has_at_most_1023_bytes() {
        let longest = "x".repeat(MAX_PART);
        let full = format!("{longest}@{longest}/{longest}");
        assert_eq!(prepare_text(&full), Ok(full));
        let long = "x".repeat(MAX_PART + 1);
        assert_eq!(prepare_text(&format!("{long}@b.example")), Err(JidError::LocalTooLong));
        assert_eq!(prepare_text(&format!("a@{long}")), Err(JidError::DomainTooLong));
        assert_eq!(prepare_text(&format!("a@b.example/{long}")), Err(JidError::ResourceTooLong));
    }

    #[test]
    fn the_direction_rule_covers_the_whole_resource() {
        // Each run is of one direction; together they aren't.
        assert_eq!(prepare_text("a@b.example/\u{5d0}\u{1F600}a"), Err(JidError::InvalidResource));
    }

    proptest! {
        #[test]
        fn preparing_twice_changes_nothing(raw in "\\PC{0,24}|[A-Za-z0-9@/.:\\[\\]-]{0,24}") {
            if let Ok(jid) = prepare(&raw) {
                let once = jid.into_jid();
                prop_assert_eq!(prepare_text(once.as_str()), Ok(once.as_str().to_owned()));
            }
        }

        #[test]
        fn the_fast_path_agrees_with_the_parts(raw in "[a-z0-9@/. _-]{0,24}") {
            if let Some(jid) = JidRef::parse_prepared(&raw) {
                let parts = Jid::new(jid.local(), jid.domain(), jid.resource());
                prop_assert_eq!(parts, Ok(jid.to_jid()));
            }
        }
    }
}
