//! Lists that may be too long for one stanza, and their parts (XEP-0059).

use rookery_hub::{Iq, World};
use rookery_modkit::rsm;
use rookery_stream::error::Condition;
use rookery_xml::ns;

/// Replies with as many of these items, each address and name, as are requested and fit (XEP-0059).
pub(super) fn reply_items(world: &mut World, iq: &Iq, items: &[(&str, &str)]) -> Result<(), Condition> {
    let request = rsm::RsmRequest::read(&iq.payload)?;
    let (page, answer) = request.clone().unwrap_or_default().page_within(
        items,
        MOST_LISTED,
        |(jid, _)| jid,
        |(jid, name)| item_bytes([*jid, *name]),
    )?;
    let is_part = request.is_some() || page.len() < items.len();
    reply_page(world, iq, page, is_part.then_some(&answer));
    Ok(())
}

/// Replies with these items. A client that didn't request a part learns from the reply if it is one
/// (§2.1).
pub(super) fn reply_page(world: &mut World, iq: &Iq, items: &[(&str, &str)], part: Option<&rsm::RsmAnswer>) {
    let mut reply = iq.result();
    reply.start_ns("query", ns::DISCO_ITEMS);
    for (jid, name) in items {
        reply.start("item").attr("jid", jid).attr("name", name).end();
    }
    part.into_iter().for_each(|part| part.write(&mut reply));
    world.reply(iq, reply);
}

/// Returns roughly the bytes that a list's item with these texts takes in a stanza.
pub(super) fn item_bytes<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    let escaped = |text: &str| text.bytes().filter(|byte| matches!(byte, b'&' | b'<' | b'>' | b'\'' | b'"')).count();
    texts.into_iter().fold(ITEM_BYTES, |sum, text| sum + text.len() + 5 * escaped(text))
}

/// The most items and bytes of a list that is sent in one stanza, so that every stream accepts it.
pub(super) const MOST_LISTED: (usize, usize) = (3000, 192 * 1024);
/// The bytes that an item takes besides its texts.
const ITEM_BYTES: usize = 64;
