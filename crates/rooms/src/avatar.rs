//! The avatar of a room (XEP-0486): a vCard that its owners set and any user may read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_base::hex;
use rookery_hub::{Iq, World};
use rookery_store::Affiliation;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};
use sha1::{Digest, Sha1};

use super::room::Room;

impl Room {
    /// Carries out a request for the vCard, or to set it.
    pub(crate) fn vcard_asked(&mut self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        let affiliation = self.affiliation_of(world, iq.from.as_ref());
        if self.is_locked && affiliation < Affiliation::Owner {
            return Err(Condition::ItemNotFound.into());
        }
        if !iq.set {
            // XEP-0054 §3.1, XEP-0486 §3.2: a room that has published none returns an empty one.
            let none = Element::new("vCard", ns::VCARD);
            let mut reply = iq.result();
            reply.element(self.vcard.as_ref().unwrap_or(&none));
            world.reply(iq, reply);
            return Ok(());
        }
        if affiliation < Affiliation::Owner {
            return Err(Condition::Forbidden.into());
        }
        if Writer::write(&iq.payload).bytes().len() > MOST_BYTES {
            return Err(StanzaError::new(Condition::NotAcceptable).with_text("the vCard is too large"));
        }
        self.set_vcard(Some(iq.payload.clone()).filter(|vcard| vcard.children().next().is_some()));
        self.keep_document(world, Some(iq));
        self.tell_codes(world, &["104"]);
        Ok(())
    }
}

impl Room {
    /// Sets the room's vCard, and keeps the hashes of its photos, which every client requests.
    pub(crate) fn set_vcard(&mut self, vcard: Option<Element>) {
        self.avatar_hashes = vcard.as_ref().map(hashes).unwrap_or_default();
        self.vcard = vcard;
    }
}

/// Returns the hashes of all photos of a vCard, as XEP-0153 §4.1 makes them.
fn hashes(vcard: &Element) -> Vec<String> {
    let photos = vcard.children().filter(|child| child.is("PHOTO", ns::VCARD));
    let texts = photos.filter_map(|photo| photo.child_text("BINVAL", ns::VCARD));
    let images = texts.filter_map(|text| {
        let text: String = text.split_ascii_whitespace().collect();
        STANDARD.decode(text).ok()
    });
    images.map(|image| hex::encode(Sha1::digest(image))).collect()
}

/// The most bytes of a vCard.
pub(super) const MOST_BYTES: usize = 128 * 1024;
