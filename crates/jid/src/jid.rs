//! The two address types. [`Jid`] owns its text, [`JidRef`] borrows it; everything else is the
//! same.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::JidError;
use crate::prepare::{self, MAX_PART, Prepared};

/// An owned, prepared address: its text and where its parts end.
#[derive(Clone)]
pub struct Jid {
    text: Box<str>,
    parts: JidParts,
}

/// The same as [`Jid`] over borrowed text, such as that of a stanza's attribute.
#[derive(Clone, Copy)]
pub struct JidRef<'a> {
    text: &'a str,
    parts: JidParts,
}

const _: () = assert!(3 * MAX_PART + 2 <= u16::MAX as usize, "every place in the longest address fits");

/// The places of the parts within the text.
#[derive(Clone, Copy)]
pub(crate) struct JidParts {
    /// Length of the localpart; 0 if there is none, because an empty one is refused.
    pub(crate) local: u16,
    /// End of the domainpart; the length of the text if there is no resource.
    pub(crate) bare: u16,
}

impl Jid {
    /// Prepares an address and copies it.
    pub fn parse(raw: &str) -> Result<Self, JidError> {
        prepare::prepare(raw).map(Prepared::into_jid)
    }

    /// Prepares the parts and puts them together.
    pub fn new(local: Option<&str>, domain: &str, resource: Option<&str>) -> Result<Self, JidError> {
        let local = local.map(prepare::prepare_local).transpose()?;
        let domain = prepare::prepare_domain(domain)?;
        let resource = resource.map(prepare::prepare_resource).transpose()?;
        Ok(Self::from_prepared(local.as_deref(), &domain, resource.as_deref()))
    }

    /// Returns the same bare address with this resource, replacing the one it has.
    pub fn with_resource(&self, resource: &str) -> Result<Self, JidError> {
        self.as_ref().with_resource(resource)
    }

    /// Returns the address as the borrowing type.
    #[inline]
    pub fn as_ref(&self) -> JidRef<'_> {
        JidRef { text: &self.text, parts: self.parts }
    }

    /// Returns a copy without the resource.
    pub fn to_bare(&self) -> Self {
        self.bare().to_jid()
    }

    /// Returns the address without its resource, borrowed.
    #[inline]
    pub fn bare(&self) -> JidRef<'_> {
        self.as_ref().bare()
    }

    /// Returns the localpart, if there is one.
    #[inline]
    pub fn local(&self) -> Option<&str> {
        self.as_ref().local()
    }

    /// Returns the domainpart.
    #[inline]
    pub fn domain(&self) -> &str {
        self.as_ref().domain()
    }

    /// Returns the resourcepart, if there is one.
    #[inline]
    pub fn resource(&self) -> Option<&str> {
        self.as_ref().resource()
    }

    /// Returns the whole address.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text up to the resource.
    #[inline]
    pub fn bare_str(&self) -> &str {
        self.as_ref().bare_str()
    }

    /// Returns whether there is no resource.
    #[inline]
    pub fn is_bare(&self) -> bool {
        self.as_ref().is_bare()
    }

    /// Returns whether there is a resource.
    #[inline]
    pub fn is_full(&self) -> bool {
        !self.is_bare()
    }

    /// Returns whether there is nothing but a domain.
    #[inline]
    pub fn is_domain(&self) -> bool {
        self.as_ref().is_domain()
    }

    /// Puts prepared parts, each of at most [`MAX_PART`] bytes, together.
    pub(crate) fn from_prepared(local: Option<&str>, domain: &str, resource: Option<&str>) -> Self {
        let local_len = local.map_or(0, str::len);
        let resource_len = resource.map_or(0, str::len);
        debug_assert!(local_len.max(domain.len()).max(resource_len) <= MAX_PART, "a part is too long");
        let mut text = String::with_capacity(local_len + domain.len() + resource_len + 2);
        if let Some(local) = local {
            text.push_str(local);
            text.push('@');
        }
        text.push_str(domain);
        let parts = JidParts { local: local_len as u16, bare: text.len() as u16 };
        if let Some(resource) = resource {
            text.push('/');
            text.push_str(resource);
        }
        Self { text: text.into_boxed_str(), parts }
    }
}

impl<'a> JidRef<'a> {
    /// Borrows text that is prepared ASCII already. `None` doesn't mean that the text is invalid,
    /// only that it has to go through [`prepare`](crate::prepare), which may refuse it. Allocates
    /// nothing.
    #[inline]
    pub fn parse_prepared(raw: &'a str) -> Option<Self> {
        let parts = prepare::ascii_parts(raw.as_bytes())?;
        Some(Self { text: raw, parts })
    }

    /// Returns an owned copy.
    pub fn to_jid(self) -> Jid {
        Jid { text: self.text.into(), parts: self.parts }
    }

    /// Returns the same bare address with this resource, replacing the one it has.
    pub fn with_resource(self, resource: &str) -> Result<Jid, JidError> {
        let resource = prepare::prepare_resource(resource)?;
        Ok(Jid::from_prepared(self.local(), self.domain(), Some(&resource)))
    }

    /// Returns the address without its resource.
    #[inline]
    pub fn bare(self) -> Self {
        Self { text: self.bare_str(), parts: self.parts }
    }

    /// Returns the localpart, if there is one.
    #[inline]
    pub fn local(self) -> Option<&'a str> {
        match self.parts.local {
            0 => None,
            len => Some(&self.text[..usize::from(len)]),
        }
    }

    /// Returns the domainpart.
    #[inline]
    pub fn domain(self) -> &'a str {
        let start = match usize::from(self.parts.local) {
            0 => 0,
            len => len + 1,
        };
        &self.text[start..usize::from(self.parts.bare)]
    }

    /// Returns the resourcepart, if there is one.
    #[inline]
    pub fn resource(self) -> Option<&'a str> {
        self.text.get(usize::from(self.parts.bare) + 1..)
    }

    /// Returns the whole address.
    #[inline]
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// Returns the text up to the resource.
    #[inline]
    pub fn bare_str(self) -> &'a str {
        &self.text[..usize::from(self.parts.bare)]
    }

    /// Returns whether there is no resource.
    #[inline]
    pub fn is_bare(self) -> bool {
        usize::from(self.parts.bare) == self.text.len()
    }

    /// Returns whether there is a resource.
    #[inline]
    pub fn is_full(self) -> bool {
        !self.is_bare()
    }

    /// Returns whether there is nothing but a domain.
    #[inline]
    pub fn is_domain(self) -> bool {
        self.parts.local == 0 && self.is_bare()
    }
}

impl FromStr for Jid {
    type Err = JidError;

    fn from_str(raw: &str) -> Result<Self, JidError> {
        Self::parse(raw)
    }
}

impl From<JidRef<'_>> for Jid {
    fn from(jid: JidRef<'_>) -> Self {
        jid.to_jid()
    }
}

impl<'a> From<&'a Jid> for JidRef<'a> {
    #[inline]
    fn from(jid: &'a Jid) -> Self {
        jid.as_ref()
    }
}

/// Lets a map keyed by [`Jid`] be searched with prepared text.
impl Borrow<str> for Jid {
    #[inline]
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<JidRef<'_>> for Jid {
    #[inline]
    fn eq(&self, other: &JidRef<'_>) -> bool {
        self.as_str() == other.as_str()
    }
}

impl PartialEq<Jid> for JidRef<'_> {
    #[inline]
    fn eq(&self, other: &Jid) -> bool {
        self.as_str() == other.as_str()
    }
}

/// Only the text counts, for both types alike: a derived comparison would look at the offsets too.
macro_rules! compare_by_text {
    ($($type:ty),*) => {$(
        impl PartialEq for $type {
            #[inline]
    fn eq(&self, other: &Self) -> bool {
                self.as_str() == other.as_str()
            }
        }
        impl Eq for $type {}
        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                self.as_str().cmp(other.as_str())
            }
        }
        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.as_str().hash(state);
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }
    )*};
}

compare_by_text!(Jid, JidRef<'_>);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn parts_of_the_three_shapes() {
        let full = Jid::parse("juliet@im.example.com/balcony/east@wing").unwrap();
        assert_eq!(
            (full.local(), full.domain(), full.resource()),
            (Some("juliet"), "im.example.com", Some("balcony/east@wing"))
        );
        assert_eq!(full.bare_str(), "juliet@im.example.com");
        assert!(full.is_full() && !full.is_domain());

        let bare = full.to_bare();
        assert_eq!((bare.local(), bare.resource()), (Some("juliet"), None));
        assert!(bare.is_bare() && !bare.is_domain());
        assert_eq!(bare, full.bare());

        let domain = Jid::parse("im.example.com").unwrap();
        assert_eq!((domain.local(), domain.domain(), domain.resource()), (None, "im.example.com", None));
        assert!(domain.is_domain());
        assert!(!Jid::parse("im.example.com/service").unwrap().is_domain());
    }

    #[test]
    fn put_together_from_parts() {
        let jid = Jid::new(Some("Juliet"), "Example.COM.", Some("a b")).unwrap();
        assert_eq!(jid.as_str(), "juliet@example.com/a b");
        assert_eq!(jid.with_resource("desk").unwrap().as_str(), "juliet@example.com/desk");
        assert_eq!(Jid::new(None, "example.com", None).unwrap().with_resource("x").unwrap().as_str(), "example.com/x");
        assert_eq!(Jid::new(Some("a@b"), "example.com", None), Err(JidError::InvalidLocal));
        assert_eq!(Jid::new(Some("a"), "b@example.com", None), Err(JidError::InvalidDomain));
        assert_eq!(jid.with_resource(""), Err(JidError::EmptyResource));
    }

    #[test]
    fn a_map_of_owned_addresses_answers_to_borrowed_text() {
        let map = HashMap::from([(Jid::parse("a@b.example/c").unwrap(), 1)]);
        let asked = JidRef::parse_prepared("a@b.example/c").unwrap();
        assert_eq!(map.get(asked.as_str()), Some(&1));
        assert_eq!(map.get(asked.bare_str()), None);
    }

    #[test]
    fn an_owned_address_is_three_words() {
        assert!(size_of::<Jid>() <= 24, "{}", size_of::<Jid>());
    }
}
