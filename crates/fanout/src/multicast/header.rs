//! The header of XEP-0033, as written by its sender.

use std::borrow::Cow;
use std::ops::Range;

use rookery_jid::{JidRef, Prepared, prepare};
use rookery_xml::{Child, Stanza, ns};

/// The purpose of an address (XEP-0033 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressType {
    /// A recipient.
    To,
    /// A secondary recipient, whom the others see.
    Cc,
    /// A recipient whom the others don't see.
    Bcc,
    /// An address that replies should go to instead of the sender's (`replyto`).
    ReplyTo,
    /// A room in which replies should be written instead (`replyroom`).
    ReplyRoom,
    /// The wish that nobody replies.
    NoReply,
    /// The original author of a stanza that a gateway passes on.
    OFrom,
}

impl AddressType {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "to" => Self::To,
            "cc" => Self::Cc,
            "bcc" => Self::Bcc,
            "replyto" => Self::ReplyTo,
            "replyroom" => Self::ReplyRoom,
            "noreply" => Self::NoReply,
            "ofrom" => Self::OFrom,
            _ => return None,
        })
    }

    /// Returns whether it is `to`, `cc` or `bcc`: an address that gets the stanza.
    pub fn is_recipient(self) -> bool {
        matches!(self, Self::To | Self::Cc | Self::Bcc)
    }
}

/// A header that could be read.
#[derive(Debug)]
pub struct MulticastHeader<'a> {
    /// The element `<addresses/>`.
    pub(super) element: Child<'a>,
    /// Its addresses, in order.
    pub(super) addresses: Vec<HeaderAddress<'a>>,
}

/// One `<address/>` with its type and target (XEP-0033 §4).
#[derive(Debug)]
pub struct HeaderAddress<'a> {
    pub(super) type_: AddressType,
    pub(super) delivered: bool,
    pub(super) jid: Option<HeaderTarget<'a>>,
    /// The element as the sender wrote it.
    pub(super) bytes: &'a [u8],
    /// The place where the element's name ends.
    pub(super) name_end: usize,
    /// The place of the attribute `delivered` within it.
    pub(super) mark: Option<Range<usize>>,
    /// True if it has more than type and JID: a description, or content.
    pub(super) is_rich: bool,
    /// True if `written` is a JID, or should be one.
    has_jid: bool,
    /// The JID or URI; empty if there is neither.
    written: Cow<'a, str>,
}

/// An address that copies are sent to.
#[derive(Debug, Clone)]
pub struct HeaderTarget<'a>(Prepared<'a>);

impl HeaderTarget<'_> {
    /// Returns the address.
    pub fn as_ref(&self) -> JidRef<'_> {
        self.0.as_ref()
    }
}

/// The reason why a header is refused. [`BadAddress::text`] names the faulty address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAddress {
    /// Its place in the header, from one.
    pub place: usize,
    /// Its JID or URI as written; empty if it has none.
    pub written: String,
    /// The fault, in English.
    pub reason: String,
}

impl BadAddress {
    fn new(at: usize, written: &str, reason: String) -> Self {
        Self { place: at + 1, written: shorten(written), reason }
    }

    /// Returns the text for the sender: the address, and the fault.
    pub fn text(&self) -> String {
        let Self { place, written, reason } = self;
        if written.is_empty() {
            format!("address {place}: {reason}")
        } else {
            format!("address {place} ({written}): {reason}")
        }
    }
}

/// Returns the first header of a stanza, if it has one (XEP-0033 §3.1).
pub fn find<'a>(stanza: &Stanza<'a>) -> Option<Child<'a>> {
    stanza.child("addresses", ns::ADDRESS)
}

impl<'a> MulticastHeader<'a> {
    /// Reads a header, and resolves its addresses to JIDs.
    ///
    /// # Errors
    /// As [`MulticastHeader::decode`] and [`MulticastHeader::resolve`].
    pub fn read(element: Child<'a>) -> Result<Self, BadAddress> {
        let mut header = Self::decode(element)?;
        header.resolve()?;
        Ok(header)
    }

    /// Reads a header without resolving its addresses, which [`MulticastHeader::resolve`] does:
    /// until then there are no recipients.
    ///
    /// # Errors
    /// The first address without a type that the standard knows, or with attributes that exclude
    /// one another.
    pub fn decode(element: Child<'a>) -> Result<Self, BadAddress> {
        // Room for as many addresses as there can be if each has the usual minimum, so that they
        // are rarely moved.
        let mut addresses = Vec::with_capacity(element.bytes().len() / SHORT);
        for child in element.children() {
            let at = addresses.len();
            if !child.is("address", ns::ADDRESS) {
                return Err(BadAddress::new(at, "", format!("<{}/> isn't an address", shorten(child.written_name()))));
            }
            addresses
                .push(HeaderAddress::read(&child).map_err(|(written, reason)| BadAddress::new(at, &written, reason))?);
        }
        Ok(Self { element, addresses })
    }

    /// Resolves the addresses to JIDs.
    ///
    /// # Errors
    /// An informative address (for replies, or of the author) whose JID is invalid. A recipient
    /// with a missing or invalid JID isn't an error of the header: see
    /// [`MulticastHeader::unusable`].
    pub fn resolve(&mut self) -> Result<(), BadAddress> {
        for (at, address) in self.addresses.iter_mut().enumerate() {
            if !address.has_jid {
                continue;
            }
            address.jid = target(address.written.clone());
            if address.jid.is_none() && !address.type_.is_recipient() {
                return Err(BadAddress::new(at, &address.written, "its JID is malformed".into()));
            }
        }
        Ok(())
    }

    /// Returns the recipients to whom the stanza can't be sent, since their address has no valid
    /// JID: as written, with URIs where there are any.
    pub fn unusable(&self) -> impl Iterator<Item = &str> {
        let wanted = self.addresses.iter().filter(|address| address.is_wanted() && address.jid.is_none());
        wanted.map(|address| &*address.written)
    }

    /// Returns the recipients who are to get the stanza, with repetitions.
    pub fn recipients(&self) -> impl Iterator<Item = &HeaderTarget<'a>> {
        self.addresses.iter().filter(|address| address.is_wanted()).filter_map(|address| address.jid.as_ref())
    }

    /// Returns whether any address is a recipient, whether or not it was delivered to already.
    pub fn has_recipients(&self) -> bool {
        self.addresses.iter().any(|address| address.type_.is_recipient())
    }
}

impl<'a> HeaderAddress<'a> {
    /// Reads an address; the error is the JID or URI, and the fault.
    fn read(element: &Child<'a>) -> Result<Self, (Cow<'a, str>, String)> {
        let (mut type_, mut jid, mut uri, mut node, mut delivered, mut mark) = (None, None, None, false, false, None);
        let mut is_rich = !element.bytes().ends_with(b"/>");
        let name_end = 1 + element.written_name().len();
        for attribute in element.attributes() {
            match attribute.name {
                "type" => type_ = Some(attribute.value),
                "jid" => jid = Some(attribute.value),
                "uri" => uri = Some(attribute.value),
                "delivered" => {
                    mark = Some(attribute.range);
                    delivered = match &*attribute.value {
                        "true" | "1" => true,
                        "false" | "0" => false,
                        _ => return Err((jid.unwrap_or_default(), "'delivered' is neither true nor false".into())),
                    };
                }
                name => {
                    node |= name == "node";
                    is_rich = true;
                }
            }
        }
        let (has_jid, has_uri) = (jid.is_some(), uri.is_some());
        let written = jid.or(uri).unwrap_or_default();
        let Some(type_) = type_ else { return Err((written, "it has no type".into())) };
        let Some(type_) = AddressType::of(&type_) else {
            return Err((written, format!("its type {:?} is unknown", shorten(&type_))));
        };
        is_rich |= has_uri;
        if has_uri && (has_jid || node) {
            return Err((written, "a URI excludes JID and node".into()));
        }
        Ok(Self { type_, delivered, jid: None, has_jid, bytes: element.bytes(), name_end, mark, is_rich, written })
    }

    /// Returns whether the address is to get a copy.
    pub(super) fn is_wanted(&self) -> bool {
        self.type_.is_recipient() && !self.delivered
    }
}

/// Returns the JID in an attribute value, prepared.
fn target(value: Cow<'_, str>) -> Option<HeaderTarget<'_>> {
    match value {
        Cow::Borrowed(text) => prepare(text).ok().map(HeaderTarget),
        Cow::Owned(text) => prepare(&text).ok().map(|jid| HeaderTarget(Prepared::Owned(jid.as_ref().to_jid()))),
    }
}

/// Shortens the text of a peer for an error, so that it can still be recognised.
fn shorten(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Bytes of an address with a type and a short JID.
const SHORT: usize = 40;
/// Characters of a peer's text in an error.
const SHOWN: usize = 100;
