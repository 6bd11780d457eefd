//! The stored vCard of an account and its photo.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_base::hex;
use rookery_hub::{Document, OptionSpec, Value, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::option;
use rookery_xml::{Element, Writer, ns};
use sha1::{Digest, Sha1};
use tracing::warn;

/// The key below `[modules]`.
pub(super) const NAME: &str = "vcard";

/// The option for the size of a vCard.
pub(super) const BYTES: OptionSpec = OptionSpec {
    key: "bytes",
    default: || Value::Number(192 * 1024),
    doc: "bytes of a vCard, photo included",
    check: option::at_least_one,
};

/// A photo in a vCard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Photo {
    /// Its media type.
    pub type_: String,
    /// Its bytes in Base64, without white space.
    pub base64: String,
    /// The number of its bytes.
    pub bytes: usize,
    /// Their SHA-1, in hexadecimal digits.
    pub hash: String,
}

impl Photo {
    /// Returns a photo from its bytes in Base64; `None` if they aren't valid.
    pub(super) fn new(type_: &str, base64: &str) -> Option<Self> {
        let base64: String = base64.split_ascii_whitespace().collect();
        let bytes = STANDARD.decode(&base64).ok().filter(|bytes| !bytes.is_empty())?;
        let hash = hex::encode(Sha1::digest(&bytes));
        Some(Self { type_: type_.to_owned(), base64, bytes: bytes.len(), hash })
    }

    /// Returns the photo of a vCard.
    pub(super) fn of(card: &Element) -> Option<Self> {
        let photo = card.child("PHOTO", ns::VCARD)?;
        let type_ = photo.child_text("TYPE", ns::VCARD).unwrap_or_else(|| "image/png".to_owned());
        Self::new(&type_, &photo.child_text("BINVAL", ns::VCARD)?)
    }

    fn element(&self) -> Element {
        let child = |name: &str, text: &str| Element::new(name, ns::VCARD).with_text(text);
        let photo = Element::new("PHOTO", ns::VCARD).with_child(child("TYPE", &self.type_));
        photo.with_child(child("BINVAL", &self.base64))
    }
}

/// Returns the most bytes that a vCard may have.
pub(super) fn most_bytes(world: &World, account: JidRef<'_>) -> u64 {
    let options = world.options(account.domain(), NAME);
    options.map_or(0, |options| options.number(BYTES.key))
}

/// Replaces an account's photo, or removes it: its avatar has changed.
pub(super) fn set_photo(world: &mut World, account: Jid, photo: Option<Photo>) {
    let found = world.stores.documents.get(account.as_ref(), DOCUMENT);
    world.wait(found, move |world, found| {
        let card = match found {
            Ok(found) => found.and_then(|bytes| Element::parse(&bytes).ok()),
            // The existing vCard is unknown, and a new one would replace it.
            Err(error) => return world.store_failed("putting an avatar into a card", &account, &error),
        };
        let mut card = card.unwrap_or_else(|| Element::new("vCard", ns::VCARD));
        card.retain_children(|child| !child.is("PHOTO", ns::VCARD));
        if let Some(photo) = &photo {
            card.push_child(photo.element());
        }
        let bytes = Writer::write(&card).into_bytes();
        if bytes.len() as u64 > most_bytes(world, account.as_ref()) {
            return warn!(%account, bytes = bytes.len(), "a vCard has no room for the account's avatar");
        }
        let kept = world.stores.documents.put(account.as_ref(), DOCUMENT, Some(bytes));
        world.wait(kept, move |world, kept| match kept {
            Ok(()) => announce(world, &account, photo.map(|photo| photo.hash).unwrap_or_default()),
            Err(error) => world.store_failed("putting an avatar into a card", &account, &error),
        });
    });
}

/// Announces a new hash of an account's photo, empty for none. Available sessions show it at once.
pub(super) fn announce(world: &mut World, account: &Jid, hash: String) {
    let owner = account.clone();
    world.set_document::<PhotoHash>(account.as_ref(), Some(hash.into_bytes()), move |world, kept| {
        if let Err(error) = kept {
            world.store_failed("keeping the hash of a photo", &owner, &error);
        }
    });
    world.show_again(account.as_ref());
}

/// The hash of an account's photo; empty if it has none any more.
pub(super) struct PhotoHash(pub String);

impl Document for PhotoHash {
    const NAME: &'static str = "photo";

    fn read(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok().map(Self)
    }
}

/// Returns whether a domain stores vCards.
pub(super) fn is_on(world: &World, host: JidRef<'_>) -> bool {
    world.options(host.domain(), NAME).is_some()
}

/// The name of the document with an account's vCard.
pub(super) const DOCUMENT: &str = "vcard";
