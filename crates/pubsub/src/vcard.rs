//! XEP-0054: vcard-temp, and the hash of its photo in presence (XEP-0153, XEP-0398).
//!
//! A vCard is for everybody; who has none looks as one who has no account. Its photo and the avatar in the account's nodes (XEP-0084) are one:
//! `avatar` carries each change over to the other. The photo's hash is at hand with the account, and stands in every available
//! presence of a client that leaves the place for it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{
    Bound, Delivery, Document, DocumentName, DocumentSpec, Exported, Hooks, Iq, Module, Most, OptionSpec, Per, Phase,
    Stanzas, Target, Unit, Value, Wanted, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::asker::condition;
use rookery_modkit::option;
use rookery_store::StoreError;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Kind, Writer, ns};
use sha1::{Digest, Sha1};
use tracing::warn;

use super::avatar;

/// Keeps a card for each account.
#[derive(Debug)]
pub struct Vcard;

impl Module for Vcard {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users have a card with name and photo"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0054", "1.3.0"), ("XEP-0153", "1.1.1"), ("XEP-0398", "1.0.0")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &[CARD]
    }

    fn documents(&self) -> &'static [DocumentSpec] {
        &[DocumentSpec {
            name: DocumentName::One(DOCUMENT),
            export: Exported::Element { name: "vCard", ns: ns::VCARD },
        }]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::VCARD);
        hooks.feature(Target::Account, ns::VCARD);
        hooks.feature(Target::Account, ns::AVATAR_CONVERSION);
        hooks.iq(Target::Account, ns::VCARD, asked);
        hooks.document::<PhotoHash>();
        hooks.own_presence(stamped);
        let available = Stanzas::of(Kind::Presence, &[StanzaType::Available]);
        let stamping = Wanted::from(available).with_document(PhotoHash::NAME);
        hooks.before_route(Phase::Act, stamping, |world, passage| match stamped(world, passage.packet) {
            Some(packet) => Delivery::As(packet),
            None => Delivery::Pass,
        });
    }
}

/// The key below `[modules]`.
pub(super) const NAME: &str = "vcard";

const OPTIONS: [OptionSpec; 1] = [BYTES];

const BYTES: OptionSpec = OptionSpec {
    key: "bytes",
    default: || Value::Number(192 * 1024),
    doc: "bytes of a card, photo included",
    check: option::at_least_one,
};

const CARD: Bound = Bound::on("the card with its photo", Per::Account, Most::Option(BYTES.key), Unit::Bytes)
    .or("a larger one gets <policy-violation/>");

/// A photo in a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Photo {
    /// Its media type.
    pub type_: String,
    /// Its bytes in Base64, without white space.
    pub base64: String,
    /// How many bytes it has.
    pub bytes: usize,
    /// Their SHA-1, in hexadecimal digits.
    pub hash: String,
}

impl Photo {
    /// A photo from its bytes in Base64; `None` if they aren't.
    pub(super) fn new(type_: &str, base64: &str) -> Option<Self> {
        let base64: String = base64.split_ascii_whitespace().collect();
        let bytes = STANDARD.decode(&base64).ok().filter(|bytes| !bytes.is_empty())?;
        let hash = Sha1::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self { type_: type_.to_owned(), base64, bytes: bytes.len(), hash })
    }

    fn of(card: &Element) -> Option<Self> {
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

fn asked(world: &mut World, iq: Iq) {
    match (iq.payload.name(), iq.set) {
        ("vCard", false) => give(world, iq),
        ("vCard", true) if iq.is_own() => keep(world, iq),
        ("vCard", true) => world.reply_error(&iq, Condition::Forbidden),
        _ => world.reply_error(&iq, Condition::BadRequest),
    }
}

/// §3.1, §3.3.
fn give(world: &mut World, iq: Iq) {
    let found = world.stores.documents.get(iq.to.as_ref(), DOCUMENT);
    world.wait(found, move |world, found| {
        let card = match found {
            Ok(found) => found.and_then(|bytes| Element::parse(&bytes).ok()),
            Err(StoreError::NoAccount) => None,
            Err(error) => return failed(world, &iq, &error),
        };
        match card {
            Some(card) => {
                let mut reply = iq.result();
                reply.element(&card);
                world.reply(&iq, reply);
            }
            None if iq.is_own() => {
                let mut reply = iq.result();
                reply.start_ns("vCard", ns::VCARD);
                world.reply(&iq, reply);
            }
            None => world.reply_error(&iq, Condition::ItemNotFound),
        }
    });
}

/// §3.2.
fn keep(world: &mut World, iq: Iq) {
    let bytes = Writer::write(&iq.payload).into_bytes();
    if bytes.len() as u64 > most_bytes(world, iq.to.as_ref()) {
        let error = StanzaError::new(Condition::PolicyViolation).with_text("the card is too large");
        return world.reply_error(&iq, error);
    }
    let photo = Photo::of(&iq.payload);
    let kept = world.stores.documents.put(iq.to.as_ref(), DOCUMENT, Some(bytes));
    world.wait(kept, move |world, kept| match kept {
        Ok(()) => {
            world.reply_done(&iq);
            let hash = photo.as_ref().map(|photo| photo.hash.clone()).unwrap_or_default();
            let before = world.document::<PhotoHash>(iq.to.as_ref()).map(|hash| hash.0.clone());
            if before.unwrap_or_default() != hash {
                announce(world, &iq.to, hash);
                avatar::photo(world, iq.to.clone(), photo);
            }
        }
        Err(error) => failed(world, &iq, &error),
    });
}

/// Returns the number of bytes that a card may have.
fn most_bytes(world: &World, account: JidRef<'_>) -> u64 {
    let options = world.options(account.domain(), NAME);
    options.map_or(0, |options| options.number(BYTES.key))
}

/// Gives an account another photo, or none: its avatar has changed.
pub(super) fn set_photo(world: &mut World, account: Jid, photo: Option<Photo>) {
    let found = world.stores.documents.get(account.as_ref(), DOCUMENT);
    world.wait(found, move |world, found| {
        let card = match found {
            Ok(found) => found.and_then(|bytes| Element::parse(&bytes).ok()),
            // The card that is there is unknown: a new one would take its place.
            Err(error) => return world.store_failed("putting an avatar into a card", &account, &error),
        };
        let mut card = card.unwrap_or_else(|| Element::new("vCard", ns::VCARD));
        card.retain_children(|child| !child.is("PHOTO", ns::VCARD));
        if let Some(photo) = &photo {
            card.push_child(photo.element());
        }
        let bytes = Writer::write(&card).into_bytes();
        if bytes.len() as u64 > most_bytes(world, account.as_ref()) {
            return warn!(%account, bytes = bytes.len(), "a card has no room for the avatar of its account");
        }
        let kept = world.stores.documents.put(account.as_ref(), DOCUMENT, Some(bytes));
        world.wait(kept, move |world, kept| match kept {
            Ok(()) => announce(world, &account, photo.map(|photo| photo.hash).unwrap_or_default()),
            Err(error) => world.store_failed("putting an avatar into a card", &account, &error),
        });
    });
}

/// The photo of an account has another hash; empty for none. Those who are there show it at once.
fn announce(world: &mut World, account: &Jid, hash: String) {
    let owner = account.clone();
    world.set_document::<PhotoHash>(account.as_ref(), Some(hash.into_bytes()), move |world, kept| {
        if let Err(error) = kept {
            world.store_failed("keeping the hash of a photo", &owner, &error);
        }
    });
    world.show_again(account.as_ref());
}

/// The hash of the photo that an account has; empty once it has none any more.
struct PhotoHash(String);

impl Document for PhotoHash {
    const NAME: &'static str = "photo";

    fn read(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok().map(Self)
    }
}

/// XEP-0398 §4: presence with the hash of the photo, if it has none or another. An empty one is the client's wish to show none.
fn stamped(world: &mut World, packet: &Packet) -> Option<Packet> {
    let sender = packet.sender()?;
    let hash = world.document::<PhotoHash>(sender.bare())?;
    let stanza = packet.stanza();
    let said = stanza.child("x", ns::VCARD_UPDATE).map(|x| x.element().child_text("photo", ns::VCARD_UPDATE));
    match said {
        Some(Some(said)) if said.is_empty() || said == hash.0 => return None,
        _ => {}
    }
    let mut x = Writer::with_ns("x", ns::VCARD_UPDATE);
    x.text_child("photo", &hash.0);
    let bare = packet.without_children(|child| child.is("x", ns::VCARD_UPDATE));
    Some(bare.with_child(&x.finish()))
}

fn failed(world: &mut World, iq: &Iq, error: &StoreError) {
    world.store_failed("reading or keeping a card", &iq.to, error);
    world.reply_error(iq, condition(error));
}

/// Whether a domain keeps cards.
pub(super) fn is_on(world: &World, host: JidRef<'_>) -> bool {
    world.options(host.domain(), NAME).is_some()
}

/// The card of an account.
const DOCUMENT: &str = "vcard";
