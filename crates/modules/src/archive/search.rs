//! XEP-0431: Full Text Search in MAM. A message matches if its body has all words that are searched for, in whatever case and place. What somebody said
//! in a room under whatever nick is found the same way, by the real JID (XEP-0313 §4.1.1).
//!
//! There is no index of either: an archive is read in portions from the end that is asked for, and the background threads look into them. A session
//! has one search at a time, since it holds its lane; a search that finds too little in too much ends with an error that says how to narrow it.

use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_store::{ArchivePage, ArchiveQuery};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Stanza, ns};

use super::View;
use super::answer::{failed, scanned, send_page, wait};
use super::query::Query;

/// A search on its way through an archive.
pub(super) struct Search {
    query: Query,
    view: View,
    /// What it has found.
    page: ArchivePage,
    bytes: usize,
    examined: usize,
}

impl Search {
    pub(super) fn begin(world: &mut World, iq: Iq, query: Query, view: View) {
        Self { query, view, page: ArchivePage::default(), bytes: 0, examined: 0 }.next(world, iq);
    }

    /// Loads the next portion.
    fn next(self, world: &mut World, iq: Iq) {
        let wanted = &self.query.wanted;
        let portion = ArchiveQuery { limit: PORTION, max_bytes: PORTION_BYTES, count_to: 0, ..wanted.clone() };
        let loaded = world.stores.archive.page(iq.to.as_ref(), portion);
        wait(world, iq, loaded, move |world, iq, loaded| match loaded {
            Ok(Some(portion)) => self.look_into(world, iq.clone(), portion),
            Ok(None) => world.reply_error(iq, Condition::ItemNotFound),
            Err(error) => failed(world, iq, &error),
        });
    }

    /// Has the background find the words.
    fn look_into(mut self, world: &mut World, iq: Iq, portion: ArchivePage) {
        let more = portion.more;
        self.examined += portion.messages.len();
        let (first, last) = (portion.messages.first().map(|(id, _)| *id), portion.messages.last().map(|(id, _)| *id));
        if self.query.wanted.last {
            self.query.wanted.before = first.unwrap_or(self.query.wanted.before);
        } else {
            self.query.wanted.after = last.unwrap_or(self.query.wanted.after);
        }
        // It has been found to be there.
        self.query.wanted.known.clear();
        let (words, by) = (self.query.words.clone(), self.query.by.clone());
        let found = world.background.run(move || {
            let mut messages = portion.messages;
            messages.retain(|(_, stanza)| matches(stanza, &words, by.as_ref()));
            messages
        });
        wait(world, iq, found, move |world, iq, found| match found {
            Ok(found) => self.take(world, iq, found, more),
            Err(error) => failed(world, iq, &error),
        });
    }

    fn take(mut self, world: &mut World, iq: &Iq, found: Vec<(u64, Vec<u8>)>, more: bool) {
        let ArchiveQuery { last, limit, max_bytes, .. } = self.query.wanted;
        let found: Box<dyn Iterator<Item = _>> =
            if last { Box::new(found.into_iter().rev()) } else { Box::new(found.into_iter()) };
        let mut is_full = false;
        for message in found {
            self.bytes += message.1.len();
            is_full = self.page.messages.len() >= limit || (self.bytes > max_bytes && !self.page.messages.is_empty());
            if is_full {
                break;
            }
            self.page.messages.push(message);
        }
        if !is_full && more {
            if self.examined >= MAX_EXAMINED {
                let error = StanzaError::new(Condition::ResourceConstraint);
                return world.reply_error(iq, error.with_text("too much to search: give a start and an end"));
            }
            return self.next(world, iq.clone());
        }
        if last {
            self.page.messages.reverse();
        }
        self.page.more = is_full;
        send_page(world, iq, &self.query, self.view, Ok(Some(self.page)));
    }
}

/// Whether a message has a body with all of these words, and is by this occupant.
fn matches(stanza: &[u8], words: &[String], by: Option<&Jid>) -> bool {
    let Some(stanza) = scanned(stanza) else { return false };
    by.is_none_or(|by| is_by(&stanza, by)) && (words.is_empty() || has_words(&stanza, words))
}

fn has_words(stanza: &Stanza<'_>, words: &[String]) -> bool {
    let bodies = stanza.children().filter(|child| child.is("body", ns::CLIENT));
    let mut texts = bodies.map(|body| body.element().text().to_lowercase());
    texts.any(|text| words.iter().all(|word| text.contains(word.as_str())))
}

/// Whether the room has noted this real JID of the sender; a bare one is that of all sessions.
fn is_by(stanza: &Stanza<'_>, by: &Jid) -> bool {
    let noted = stanza.child("x", ns::MUC_USER).map(|x| x.element());
    let jid = noted.as_ref().and_then(|x| x.child("item", ns::MUC_USER)?.attr("jid"));
    jid.and_then(|jid| Jid::parse(jid).ok()).is_some_and(|jid| jid == *by || jid.bare() == by.as_ref())
}

/// Messages that are looked into at a time.
const PORTION: usize = 500;
/// Bytes of stanzas that are looked into at a time.
const PORTION_BYTES: usize = 1 << 20;
/// Messages that one search looks into.
const MAX_EXAMINED: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_must_be_in_a_body() {
        let stanza =
            "<message to='a@x' from='b@x'><subject>Verona</subject><body>Wo bist du, ÄRGER &amp; Co?</body></message>";
        for (words, expected) in
            [("bist", true), ("ärger wo", true), ("& co", true), ("verona", false), ("bist nicht", false)]
        {
            let words: Vec<_> = words.split(' ').map(str::to_lowercase).collect();
            assert_eq!(matches(stanza.as_bytes(), &words, None), expected, "{words:?}");
        }
        assert!(!matches(b"damaged", &["damaged".into()], None));
    }

    #[test]
    fn an_occupant_is_known_by_what_the_room_noted() {
        let stanza = "<message from='coven@chat.example/hag' type='groupchat'><body>hi</body>\
                      <x xmlns='http://jabber.org/protocol/muc#user'><item jid='hag@x.example/pda'/></x></message>";
        for (by, expected) in [
            ("hag@x.example", true),
            ("hag@x.example/pda", true),
            ("hag@x.example/phone", false),
            ("x.example", false),
            ("coven@chat.example/hag", false),
        ] {
            let by = Jid::parse(by).unwrap();
            assert_eq!(matches(stanza.as_bytes(), &[], Some(&by)), expected, "{by}");
            assert!(!matches(stanza.as_bytes(), &["bye".into()], Some(&by)));
        }
    }
}
