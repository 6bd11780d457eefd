//! XEP-0054: vcard-temp, and the hash of its photo in presence (XEP-0153, XEP-0398).
//!
//! A vCard is public; an account without one looks like one that doesn't exist. Its photo and the
//! avatar in the account's nodes (XEP-0084) are kept the same: `avatar` and `photo` carry each
//! change over to the other. The photo's hash is in memory with the account, and is added to every
//! available presence of a client that leaves it empty.

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::failure::condition;
use rookery_hub::{
    Bound, Delivery, Document, DocumentName, DocumentSpec, Exported, Hooks, Iq, Module, Most, OptionSpec, Per, Phase,
    Question, QuestionReply, Stanzas, Target, Unit, Wanted, World,
};
use rookery_jid::Jid;
use rookery_store::StoreError;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Kind, Writer, ns};
use serde::{Deserialize, Serialize};

use super::avatar;
use super::card::{BYTES, DOCUMENT, NAME, Photo, PhotoHash, announce, most_bytes};

/// The module that stores a vCard for each account.
#[derive(Debug)]
pub struct Vcard;

impl Module for Vcard {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users can have a vCard with their name and photo"
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
        hooks.question::<StoreCard>();
        hooks.own_presence(stamp);
        let available = Stanzas::of(Kind::Presence, &[StanzaType::Available]);
        let stamping = Wanted::from(available).with_document(PhotoHash::NAME);
        hooks.before_route(Phase::Act, stamping, |world, passage| match stamp(world, passage.packet) {
            Some(packet) => Delivery::As(packet),
            None => Delivery::Pass,
        });
    }
}

const OPTIONS: [OptionSpec; 1] = [BYTES];

const CARD: Bound = Bound::on("the card with its photo", Per::Account, Most::Option(BYTES.key), Unit::Bytes)
    .or("a larger one gets <policy-violation/>");

fn asked(world: &mut World, iq: Iq) {
    match (iq.payload.name(), iq.set) {
        ("vCard", false) => give(world, iq),
        ("vCard", true) if iq.is_own() => keep(world, iq),
        ("vCard", true) => world.reply_error(&iq, Condition::Forbidden),
        _ => world.reply_error(&iq, Condition::BadRequest),
    }
}

/// Replies with the vCard of an account (§3.1, §3.3).
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

/// Stores the vCard that an account sends (§3.2).
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
            carry_photo(world, iq.to.to_bare(), photo);
        }
        Err(error) => failed(world, &iq, &error),
    });
}

/// Carries the photo of a new vCard over to presence and to the account's avatar.
fn carry_photo(world: &mut World, account: Jid, photo: Option<Photo>) {
    let hash = photo.as_ref().map(|photo| photo.hash.clone()).unwrap_or_default();
    let before = world.document::<PhotoHash>(account.as_ref()).map(|hash| hash.0.clone());
    if before.unwrap_or_default() != hash {
        announce(world, &account, hash);
        avatar::photo(world, account, photo);
    }
}

/// The outcome of an operator's wish to store a vCard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CardStored {
    /// It is stored, or removed.
    Done,
    /// There is no such account.
    Missing,
    /// It isn't a `<vCard/>` element.
    Malformed,
    /// It has more bytes than the module allows.
    TooLarge,
}

/// Stores a vCard for an account in place of the one before, as if the account had sent it; `None`
/// removes it. Continues with `None` if the home of the account hasn't answered in time.
pub fn store_card(
    world: &mut World,
    account: &Jid,
    card: Option<String>,
    then: impl FnOnce(&mut World, Option<Result<CardStored, StoreError>>) + 'static,
) {
    world.put_to_home(account.as_ref(), StoreCard { account: account.to_bare(), card }, then);
}

/// Asks the home of an account to store a vCard.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoreCard {
    account: Jid,
    card: Option<String>,
}

impl Question for StoreCard {
    const NAME: &'static str = "vcard store";
    const PATIENCE_MS: u64 = 10_000;
    type Answer = Result<CardStored, StoreError>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let Self { account, card } = self;
        let card = match card.map(|card| Element::parse(card.as_bytes())) {
            None => None,
            Some(Ok(card)) if card.is("vCard", ns::VCARD) => Some(card),
            Some(_) => return reply.answer(world, Ok(CardStored::Malformed)),
        };
        let bytes = card.as_ref().map(|card| Writer::write(card).into_bytes());
        if bytes.as_ref().is_some_and(|bytes| bytes.len() as u64 > most_bytes(world, account.as_ref())) {
            return reply.answer(world, Ok(CardStored::TooLarge));
        }
        let photo = card.as_ref().and_then(Photo::of);
        let kept = world.stores.documents.put(account.as_ref(), DOCUMENT, bytes);
        world.wait(kept, move |world, kept| {
            let stored = match kept {
                Ok(()) => {
                    carry_photo(world, account, photo);
                    Ok(CardStored::Done)
                }
                Err(StoreError::NoAccount) => Ok(CardStored::Missing),
                Err(error) => Err(error),
            };
            reply.answer(world, stored);
        });
    }
}

/// Returns presence with the hash of the photo, if it has none or another. An empty one means that
/// the client wants to show none.
fn stamp(world: &mut World, packet: &Packet) -> Option<Packet> {
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
