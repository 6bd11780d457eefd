//! The part of a multicast for another server.

use std::borrow::Cow;
use std::ops::Range;

use rookery_jid::Jid;
use rookery_xml::escape_attr;
use serde::{Deserialize, Serialize};

use super::header::find;
use crate::packet::{OWN_END, Packet, TO};

/// The recipients of one remote domain, and the forms of the stanza for them. Whether they get it
/// by a multicast service or one by one is decided at the home of the domain, where it is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Distant {
    /// The remote domain, prepared as in addresses.
    pub domain: String,
    /// The form that everybody sees, without anything hidden.
    pub(super) shown: Packet,
    /// The form for blind copies.
    pub(super) hidden: Option<Packet>,
    /// The place in `shown` where further addresses go; with [`Self::wrapped`] set, where a header
    /// goes.
    pub(super) end: usize,
    /// True if the stanza has no header of its own (the trusted route).
    pub(super) wrapped: bool,
    /// The recipients: first those whom everybody sees, in the order of the block.
    pub(super) recipients: Vec<Recipient>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Recipient {
    pub(super) jid: Jid,
    pub(super) address: ListedAddress,
}

/// The entry of a recipient's address in the header.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum ListedAddress {
    /// The entry is in the block of the form that everybody sees, marked as delivered after the
    /// element's name, which ends at this place.
    Shown { range: Range<usize>, name_end: usize },
    /// There is none: the recipient has a blind copy. The address isn't marked.
    Blind {
        #[serde(with = "serde_bytes")]
        address: Box<[u8]>,
        /// The form for this recipient alone, if it can't have the common one.
        own: Option<Packet>,
    },
}

/// A stanza for another server: a packet, and the differences of this copy.
#[derive(Debug, Clone)]
pub struct Outgoing {
    to: Jid,
    /// `to` as attribute text, where it needs escaping.
    escaped: Option<Box<str>>,
    packet: Packet,
    cut: Option<(Range<usize>, Box<[u8]>)>,
}

impl Outgoing {
    /// Returns a copy that differs from the packet in nothing but its address.
    pub fn plain(to: Jid, packet: Packet) -> Self {
        Self::new(to, packet, None)
    }

    fn new(to: Jid, packet: Packet, cut: Option<(Range<usize>, Box<[u8]>)>) -> Self {
        let escaped = match escape_attr(to.as_str()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text.into_boxed_str()),
        };
        Self { to, escaped, packet, cut }
    }

    /// Returns the address that it goes to: a multicast service, or a recipient.
    pub fn to(&self) -> &Jid {
        &self.to
    }

    /// Returns the stanza, shared.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }

    /// Calls `each` with the pieces of the stanza, which are shared with other copies as far as
    /// they are the same: for one vectored write.
    pub fn parts<'a>(&'a self, mut each: impl FnMut(&'a [u8])) {
        let (name, rest) = self.packet.split_at_to();
        let to = self.escaped.as_deref().unwrap_or(self.to.as_str()).as_bytes();
        [name, TO, to, b"'"].into_iter().for_each(&mut each);
        match (&self.cut, self.packet.around_own()) {
            (Some((cut, own)), _) => {
                let at = name.len();
                each(rest.get(..cut.start.saturating_sub(at)).unwrap_or_default());
                each(own);
                each(rest.get(cut.end.saturating_sub(at)..).unwrap_or_default());
            }
            (None, Some((before, opening, after))) => {
                [before, opening, to, OWN_END, after].into_iter().for_each(each);
            }
            (None, None) => each(rest),
        }
    }

    /// Returns the whole stanza in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.packet.bytes().len() + 64);
        self.parts(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// Returns the number of bytes that were written for this copy alone.
    pub fn own_bytes(&self) -> usize {
        self.cut.as_ref().map_or(0, |(_, own)| own.len())
    }
}

impl Distant {
    /// Returns the number of recipients, each counted once.
    pub fn len(&self) -> usize {
        self.recipients.len()
    }

    /// Returns whether there are no recipients.
    pub fn is_empty(&self) -> bool {
        self.recipients.is_empty()
    }

    /// Returns the stanza, as everybody sees it.
    pub fn packet(&self) -> &Packet {
        &self.shown
    }

    /// Returns whether a multicast service can get it. On the trusted route a service can't if the
    /// sender wrote a header, since it would follow that header instead of ours.
    pub fn fits_service(&self) -> bool {
        let bytes = self.shown.bytes();
        // Only attributes can be written in other ways; the name of an element can't.
        if !self.wrapped || memchr::memmem::find(bytes, b"addresses").is_none() {
            return true;
        }
        find(&self.shown.stanza()).is_none()
    }

    /// Returns a copy for each recipient, since there is no multicast service, or none is known
    /// yet.
    pub fn individually(self) -> impl Iterator<Item = Outgoing> {
        let Self { shown, hidden, recipients, .. } = self;
        recipients.into_iter().map(move |recipient| {
            let packet = match recipient.address {
                ListedAddress::Shown { .. } => shown.clone(),
                ListedAddress::Blind { own, .. } => own.unwrap_or_else(|| hidden.as_ref().unwrap_or(&shown).clone()),
            };
            Outgoing::plain(recipient.jid, packet)
        })
    }

    /// Returns copies for a multicast service that takes this number of addresses at once (at least
    /// one): one for all, or several with different parts of the recipients. Each lists the
    /// recipients of all other copies as delivered, except for blind ones.
    pub fn through(&self, service: &Jid, limit: usize) -> impl Iterator<Item = Outgoing> {
        self.recipients.chunks(limit.max(1)).map(move |chunk| {
            let shown = chunk.iter().filter_map(|recipient| match &recipient.address {
                ListedAddress::Shown { range, .. } => Some(range),
                ListedAddress::Blind { .. } => None,
            });
            let cut = shown.fold(None, |cut: Option<Range<usize>>, range| match cut {
                None => Some(range.clone()),
                Some(cut) => Some(cut.start..range.end),
            });
            let (before, after): (&[u8], &[u8]) = if self.wrapped { (HEADER, b"</addresses>") } else { (b"", b"") };
            let mut own = before.to_vec();
            for part in chunk.iter().flat_map(|recipient| recipient.address.without_mark(&self.shown)) {
                own.extend_from_slice(part);
            }
            own.extend_from_slice(after);
            let cut = (cut.unwrap_or(self.end..self.end), own.into());
            Outgoing::new(service.clone(), self.shown.clone(), Some(cut))
        })
    }
}

impl ListedAddress {
    /// Returns the address without its mark, in two pieces.
    fn without_mark<'a>(&'a self, shown: &'a Packet) -> [&'a [u8]; 2] {
        match self {
            Self::Shown { range, name_end } => {
                let bytes = shown.bytes().get(range.clone()).unwrap_or_default();
                let (name, rest) = bytes.split_at(bytes.len().min(*name_end));
                [name, rest.strip_prefix(MARK).unwrap_or(rest)]
            }
            Self::Blind { address, .. } => [address, b""],
        }
    }

    /// Returns the number of bytes that were written for this recipient alone.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Self::Shown { .. } => 0,
            Self::Blind { address, .. } => address.len(),
        }
    }
}

/// The attribute by which a recipient counts as having the stanza (XEP-0033 §4.5).
pub(super) const MARK: &[u8] = b" delivered='true'";

const HEADER: &[u8] = b"<addresses xmlns='http://jabber.org/protocol/address'>";
