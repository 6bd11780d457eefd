//! XEP-0431: Full Text Search in MAM. A message matches if its body contains all words of the
//! search, in any case and position. Messages of a room are found in the same way by the real JID
//! of their author, under any nickname (XEP-0313 §4.1.1).
//!
//! An archive is read in portions from the requested end, and the background threads search them.
//! A store with an index (see `terms`) leaves out messages that can't contain the words; searches
//! by author don't use it.
//!
//! # Invariants
//!
//! * The searches of a shard take turns, one portion each: the store never has more than one
//!   portion of a shard's searches to load at a time.
//! * A session has one search at a time, which holds up its backlog; an account has few, however
//!   many sessions it has.
//! * A search ends after a number of messages, with the results so far; its `<set/>` says how far
//!   it came, so that the next page continues from there (XEP-0059 §2.2). Nothing is left out or
//!   searched twice.

use std::collections::VecDeque;

use rookery_base::{Awaited, Completer, Map, one_shot};
use rookery_hub::failure::work_condition;
use rookery_hub::{Iq, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{ArchivePage, ArchiveQuery};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Stanza, ns};

use super::options::SEARCH;
use super::page::{FoundPage, failed, option, read_stored, send_page, wait, was_open};
use super::query::{ArchiveView, Query};
use super::terms;

/// The searches of a shard, which take turns.
#[derive(Default)]
pub(super) struct ArchiveSearches {
    /// The number of searches of each account.
    of: Map<Jid, usize>,
    /// True while one of them has its turn.
    is_busy: bool,
    /// The searches that wait for their turns.
    waiting: VecDeque<Completer<()>>,
}

impl ArchiveSearches {
    /// Counts one more search of an account. Returns `false` if there are too many.
    fn enter(&mut self, account: JidRef<'_>) -> bool {
        let all: usize = self.of.values().sum();
        let own = self.of.get(account.bare_str()).copied().unwrap_or_default();
        let has_room = all < MOST_SEARCHES && own < MOST_SEARCHES_OF_ONE;
        if has_room {
            self.of.insert(account.bare().to_jid(), own + 1);
        }
        has_room
    }

    /// Counts one search of an account less.
    fn leave(&mut self, account: JidRef<'_>) {
        match self.of.get_mut(account.bare_str()) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(self.of.remove(account.bare_str())),
        }
    }

    /// Waits for a turn, which lasts until [`ArchiveSearches::pass`].
    fn turn(&mut self) -> Awaited<()> {
        let (completer, turn) = one_shot();
        self.waiting.push_back(completer);
        self.give();
        turn
    }

    /// Ends a turn: the search that has waited longest goes next.
    fn pass(&mut self) {
        self.is_busy = false;
        self.give();
    }

    fn give(&mut self) {
        if !self.is_busy
            && let Some(next) = self.waiting.pop_front()
        {
            self.is_busy = true;
            next.complete(());
        }
    }
}

/// A search in progress, which counts against its asker until it ends.
pub(super) struct Search {
    query: Query,
    view: ArchiveView,
    /// The messages found so far.
    page: ArchivePage,
    bytes: usize,
    /// The number of messages searched so far, and of their bytes.
    examined: (usize, usize),
    /// The most messages that it may search.
    most: usize,
}

impl Search {
    pub(super) fn begin(world: &mut World, iq: Iq, mut query: Query, view: ArchiveView) {
        if !world.state_mut::<ArchiveSearches>().enter(iq.from.as_ref()) {
            let error = StanzaError::new(Condition::ResourceConstraint);
            return world.reply_error(&iq, error.with_text("too many searches are running at the same time"));
        }
        query.wanted.terms = terms::of_words(&query.words);
        let most = option(world, &iq.to, SEARCH.key);
        Self { query, view, page: ArchivePage::default(), bytes: 0, examined: (0, 0), most }.next(world, iq);
    }

    /// Waits for its turn, and loads the next portion.
    fn next(self, world: &mut World, iq: Iq) {
        let turn = world.state_mut::<ArchiveSearches>().turn();
        wait(world, iq, turn, move |world, iq, _| {
            let wanted = &self.query.wanted;
            let limit = PORTION.min(self.most.saturating_sub(self.examined.0).max(1));
            let portion = ArchiveQuery { limit, max_bytes: PORTION_BYTES, count_to: 0, ..wanted.clone() };
            let loaded = world.stores.archive.page(iq.to.as_ref(), portion);
            wait(world, iq.clone(), loaded, move |world, iq, loaded| {
                let error = match loaded {
                    Ok(Some(portion)) => return self.look_into(world, iq.clone(), portion),
                    Ok(None) => None,
                    Err(error) => Some(error),
                };
                let searches = world.state_mut::<ArchiveSearches>();
                searches.pass();
                searches.leave(iq.from.as_ref());
                match error {
                    None => world.reply_error(iq, Condition::ItemNotFound),
                    Some(error) => failed(world, iq, &error),
                }
            });
        });
    }

    /// Passes a portion to the background, which searches it. That ends its turn.
    fn look_into(mut self, world: &mut World, iq: Iq, portion: ArchivePage) {
        let more = portion.more;
        self.examined.0 += portion.messages.len();
        self.examined.1 += portion.messages.iter().map(|(_, stanza)| stanza.len()).sum::<usize>();
        let (first, last) = (portion.messages.first().map(|(id, _)| *id), portion.messages.last().map(|(id, _)| *id));
        if self.query.wanted.last {
            self.query.wanted.before = first.unwrap_or(self.query.wanted.before);
        } else {
            self.query.wanted.after = last.unwrap_or(self.query.wanted.after);
        }
        // The caller has checked that there is one.
        self.query.wanted.known.clear();
        let (words, by, view) = (self.query.words.clone(), self.query.by.clone(), self.view);
        let found = world.background.run(iq.from.bare_str(), move || {
            let mut messages = portion.messages;
            messages.retain(|(_, stanza)| matches(stanza, &words, by.as_ref(), view));
            messages
        });
        wait(world, iq, found, move |world, iq, found| {
            world.state_mut::<ArchiveSearches>().pass();
            match found {
                Ok(found) => self.take(world, iq, found, more),
                Err(error) => {
                    world.state_mut::<ArchiveSearches>().leave(iq.from.as_ref());
                    world.work_failed("searching an archive", &iq.to, error);
                    world.reply_error(iq, work_condition(error));
                }
            }
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
        let is_over = self.examined.0 >= self.most || self.examined.1 >= MAX_EXAMINED_BYTES;
        if !is_full && more && !is_over {
            return self.next(world, iq.clone());
        }
        if last {
            self.page.messages.reverse();
        }
        self.page.more = is_full || more;
        world.state_mut::<ArchiveSearches>().leave(iq.from.as_ref());
        // A full page ends with its last message; later messages of the portion are searched
        // again.
        let reached = if last { self.query.wanted.before } else { self.query.wanted.after };
        let found = FoundPage { page: self.page, reached: (!is_full && more).then_some(reached) };
        send_page(world, iq, &self.query, self.view, found);
    }
}

/// Returns whether a message has a body with all of these words, and is by this occupant.
fn matches(stanza: &[u8], words: &[String], by: Option<&Jid>, view: ArchiveView) -> bool {
    let Some(stanza) = read_stored(stanza) else { return false };
    let may_know = || view != ArchiveView::OpenRoom || was_open(&stanza);
    by.is_none_or(|by| is_by(&stanza, by) && may_know()) && (words.is_empty() || has_words(&stanza, words))
}

fn has_words(stanza: &Stanza<'_>, words: &[String]) -> bool {
    let bodies = stanza.children().filter(|child| child.is("body", ns::CLIENT));
    let mut texts = bodies.map(|body| body.element().text().to_lowercase());
    texts.any(|text| words.iter().all(|word| text.contains(word.as_str())))
}

/// Returns whether the room has noted this real JID of the sender; a bare one stands for all of its
/// sessions.
fn is_by(stanza: &Stanza<'_>, by: &Jid) -> bool {
    let noted = stanza.child("x", ns::MUC_USER).map(|x| x.element());
    let jid = noted.as_ref().and_then(|x| x.child("item", ns::MUC_USER)?.attr("jid"));
    jid.and_then(|jid| Jid::parse(jid).ok()).is_some_and(|jid| jid == *by || jid.bare() == by.as_ref())
}

/// The most messages of a portion.
const PORTION: usize = 500;
/// The most bytes of stanzas of a portion.
const PORTION_BYTES: usize = 1 << 20;
/// The bytes of stanzas after which a search ends, with the portion that reaches them.
const MAX_EXAMINED_BYTES: usize = 64 << 20;
/// The most searches of an account in a shard; each of its sessions may have one.
pub(super) const MOST_SEARCHES_OF_ONE: usize = 2;
/// The most searches in a shard. Each may hold a page of results.
pub(super) const MOST_SEARCHES: usize = 200;

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
            assert_eq!(matches(stanza.as_bytes(), &words, None, ArchiveView::Account), expected, "{words:?}");
        }
        assert!(!matches(b"damaged", &["damaged".into()], None, ArchiveView::Account));
    }

    #[test]
    fn searches_are_few_and_a_refused_one_leaves_nothing() {
        let mut searches = ArchiveSearches::default();
        let jid = |number: usize| Jid::parse(&format!("u{number}@x")).unwrap();
        for number in 0..MOST_SEARCHES / MOST_SEARCHES_OF_ONE {
            (0..MOST_SEARCHES_OF_ONE).for_each(|_| assert!(searches.enter(jid(number).as_ref())));
            assert!(!searches.enter(jid(number).as_ref()), "one account has few");
        }
        let other = jid(MOST_SEARCHES);
        assert!(!searches.enter(other.as_ref()), "the shard has as many as it may");
        assert!(!searches.of.contains_key(&other));
        searches.leave(jid(0).as_ref());
        assert!(searches.enter(other.as_ref()));
        searches.leave(other.as_ref());
        assert!(!searches.of.contains_key(&other) && searches.of.contains_key(&jid(0)));
    }

    #[test]
    fn searches_have_their_turns_one_after_the_other() {
        let mut searches = ArchiveSearches::default();
        let turns = [searches.turn(), searches.turn(), searches.turn()];
        for waiting in [2, 1, 0] {
            assert!(searches.is_busy);
            assert_eq!(searches.waiting.len(), waiting);
            searches.pass();
        }
        assert!(!searches.is_busy);
        drop(turns);
    }

    #[test]
    fn an_occupant_is_found_by_the_address_that_the_room_noted() {
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
            assert_eq!(matches(stanza.as_bytes(), &[], Some(&by), ArchiveView::Room), expected, "{by}");
            assert!(!matches(stanza.as_bytes(), &["bye".into()], Some(&by), ArchiveView::Room));
            assert!(
                !matches(stanza.as_bytes(), &[], Some(&by), ArchiveView::OpenRoom),
                "nobody but moderators knew then"
            );
        }
    }
}
