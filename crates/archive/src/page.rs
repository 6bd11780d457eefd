//! Sends a page of an archive to its reader (XEP-0313 §4.2, §4.3): the messages in order, then the
//! result of the request.

use rookery_base::date;
use rookery_fanout::Packet;
use rookery_hub::failure::condition;
use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_modkit::rsm::RsmAnswer;
use rookery_store::{ArchivePage, StoreError};
use rookery_xml::{Limits, Stanza, Writer, ns};
use tracing::warn;

use super::id;
use super::options::NAME;
use super::query::{ArchiveView, Query};

/// Waits for the store, in the backlog of the session that asked: if it asks for further pages
/// meanwhile, these get their replies afterwards.
pub(super) fn wait<P: Future + Unpin + 'static>(
    world: &mut World,
    iq: Iq,
    pending: P,
    then: impl FnOnce(&mut World, &Iq, P::Output) + 'static,
) {
    match iq.origin {
        Some(session) => world.wait_in_order(session, pending, move |world, outcome| then(world, &iq, outcome)),
        None => world.wait(pending, move |world, outcome| then(world, &iq, outcome)),
    }
}

/// A page of the archive, and the point at which a search that ran out of time stopped.
pub(super) struct FoundPage {
    pub(super) page: ArchivePage,
    /// The id of the message that an incomplete search has reached.
    pub(super) reached: Option<u64>,
}

/// Sends a page with the result of the query.
pub(super) fn send_page(world: &mut World, iq: &Iq, query: &Query, view: ArchiveView, found: FoundPage) {
    let messages = &found.page.messages;
    let order: Box<dyn Iterator<Item = &(u64, Vec<u8>)>> =
        if query.flip { Box::new(messages.iter().rev()) } else { Box::new(messages.iter()) };
    for (id, stanza) in order {
        send_message(world, iq, query, view, *id, stanza);
    }
    finish(world, iq, query, &found);
}

/// Sends one message of a page (§4.2). A message that would be nested too deeply for the scanner
/// once it is wrapped is left out, as §3.2 allows for messages that are gone.
fn send_message(world: &mut World, iq: &Iq, query: &Query, view: ArchiveView, id: u64, stanza: &[u8]) {
    let whole = result(iq, query, id, |writer| match (read_stored(stanza), view) {
        (Some(stanza), ArchiveView::Account | ArchiveView::Room) => {
            writer.stanza(&stanza);
        }
        (Some(stanza), ArchiveView::OpenRoom) if was_open(&stanza) => {
            writer.stanza(&stanza);
        }
        (Some(stanza), ArchiveView::OpenRoom | ArchiveView::WithoutJids) => {
            let without = stanza.without_children(|child| child.is("x", ns::MUC_USER));
            if let Some(stanza) = read_stored(without.bytes()) {
                writer.stanza(&stanza);
            }
        }
        (None, _) => warn!(archive = %iq.to, id = id::text(id), "an archived message is damaged"),
    });
    let packet = Packet::from_built(&whole).or_else(|_| Packet::from_built(&result(iq, query, id, |_| {})));
    match packet {
        Ok(packet) => world.route(&packet, iq.from.as_ref()),
        Err(fault) => warn!(?fault, "the server wrote a stanza that its own scanner refuses"),
    }
}

/// Returns whether everybody in the room could see who sent this message: the room has noted code
/// 100 with it.
pub(super) fn was_open(stanza: &Stanza<'_>) -> bool {
    let noted = stanza.child("x", ns::MUC_USER).map(|x| x.element());
    noted.is_some_and(|x| x.children().any(|child| child.name() == "status" && child.attr("code") == Some("100")))
}

fn result(iq: &Iq, query: &Query, id: u64, stanza: impl FnOnce(&mut Writer)) -> rookery_xml::Built {
    let mut message = Writer::new("message");
    message.attr("from", iq.to.as_str());
    message.start_ns("result", ns::MAM).opt_attr("queryid", query.query_id.as_deref()).attr("id", &id::text(id));
    message.start_ns("forwarded", ns::FORWARD).start_ns("delay", ns::DELAY).attr("stamp", &stamp(id)).end();
    stanza(&mut message);
    message.finish()
}

/// Sends the result of the query, after its messages (§4.3).
fn finish(world: &mut World, iq: &Iq, query: &Query, FoundPage { page, reached }: &FoundPage) {
    let mut reply = iq.result();
    reply.start_ns("fin", ns::MAM);
    if !page.more {
        reply.attr("complete", "true");
    }
    let first = page.messages.first().map(|(id, _)| *id);
    let last = page.messages.last().map(|(id, _)| *id);
    // The next page begins at the point that the search has reached.
    let (first, last) = match query.wanted.last {
        true => (reached.or(first), last.or(*reached)),
        false => (first.or(*reached), reached.or(last)),
    };
    // The last page has no index: clients that page backwards would take 0 for the beginning of
    // the archive.
    let index = page.count.filter(|_| !query.wanted.last).map(|_| 0);
    let ends = first.zip(last).map(|(first, last)| (id::text(first), id::text(last)));
    RsmAnswer { ends, index, count: page.count }.write(&mut reply);
    reply.end();
    world.reply(iq, reply);
}

pub(super) fn failed(world: &mut World, iq: &Iq, error: &StoreError) {
    world.store_failed("reading an archive", &iq.to, error);
    world.reply_error(iq, condition(error));
}

/// Scans a stanza from the store.
pub(super) fn read_stored(stanza: &[u8]) -> Option<Stanza<'_>> {
    Stanza::parse(stanza, &Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN }).ok()
}

pub(super) fn stamp(id: u64) -> String {
    date::timestamp_ms(id::time(id))
}

/// Returns the value of a numeric option for the domain of this account or room.
pub(super) fn option(world: &World, owner: &Jid, key: &str) -> usize {
    let options = world.domain_of(owner.domain()).and_then(|domain| domain.module(NAME));
    usize::try_from(options.map_or(0, |options| options.number(key))).unwrap_or(usize::MAX)
}
