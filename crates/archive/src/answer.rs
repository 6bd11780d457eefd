//! Replies to queries of an archive (XEP-0313 §4, §5): pages, the fields of a query, and the
//! archive's extent.
//!
//! The messages of a page go to the asker in order and before the result of the IQ: all of them
//! are routed like any other stanza. A page is bounded in messages and in bytes, so that it fits
//! into the outbox of a session together with other stanzas.

use rookery_hub::{Iq, World, management};
use rookery_jid::Jid;
use rookery_stream::error::Condition;
use rookery_xml::ns;

use super::id;
use super::options::PAGE;
use super::page::{FoundPage, failed, option, send_page, stamp, wait};
use super::query::{ArchiveView, PageLimits, Query, form};
use super::recorder::write;
use super::search::Search;

/// Replies to a request to the archive of `iq.to`, an account or room whose home this shard is. The
/// caller checks whether the asker may see it: an account's owner may, a room decides by its
/// configuration.
pub fn answer(world: &mut World, iq: Iq, view: ArchiveView) {
    match (iq.payload.name(), iq.set) {
        ("query", true) => query(world, iq, view),
        ("query", false) => {
            let mut reply = iq.result();
            reply.start_ns("query", ns::MAM).element(&form(view)).end();
            world.reply(&iq, reply);
        }
        ("metadata", false) => metadata(world, iq),
        _ => world.reply_error(&iq, Condition::BadRequest),
    }
}

fn query(world: &mut World, iq: Iq, view: ArchiveView) {
    let query = match Query::read(&iq.payload, &iq.to, view, limits(world, &iq.to)) {
        Ok(query) => query,
        Err(error) => return world.reply_error(&iq, error),
    };
    write(world);
    if !query.words.is_empty() || query.by.is_some() {
        return Search::begin(world, iq, query, view);
    }
    let page = world.stores.archive.page(iq.to.as_ref(), query.wanted.clone());
    wait(world, iq, page, move |world, iq, page| match page {
        Ok(Some(page)) => send_page(world, iq, &query, view, FoundPage { page, reached: None }),
        Ok(None) => world.reply_error(iq, Condition::ItemNotFound),
        Err(error) => failed(world, iq, &error),
    });
}

/// Reports the first and the last message (§5).
fn metadata(world: &mut World, iq: Iq) {
    write(world);
    let ends = world.stores.archive.ends(iq.to.as_ref());
    wait(world, iq, ends, |world, iq, ends| {
        let ends = match ends {
            Ok(ends) => ends,
            Err(error) => return failed(world, iq, &error),
        };
        let mut reply = iq.result();
        reply.start_ns("metadata", ns::MAM);
        for (name, end) in ends.into_iter().flat_map(|(start, end)| [("start", start), ("end", end)]) {
            reply.start(name).attr("id", &id::text(end)).attr("timestamp", &stamp(end)).end();
        }
        reply.end();
        world.reply(iq, reply);
    });
}

/// Returns the largest page in the archive of this account or room. It fits into the outbox of a
/// session, and into half of the stanzas that one with stream management may have unacknowledged.
fn limits(world: &World, owner: &Jid) -> PageLimits {
    let managed = world.domain_of(owner.domain()).and_then(|domain| domain.module(management::MODULE));
    let unacknowledged = managed.map_or(u64::MAX, |options| options.number(management::MAX_STANZAS) / 2);
    let most = usize::try_from(unacknowledged).unwrap_or(usize::MAX).max(1);
    PageLimits { messages: option(world, owner, PAGE.key).min(most), bytes: world.settings().outbox.hard / 4 }
}
