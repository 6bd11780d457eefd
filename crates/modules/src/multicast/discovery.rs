//! Discovery of other servers' multicast services, and of their limits (XEP-0033 §2).
//!
//! A domain is queried when something for it is to be sent for the first time; nothing waits for
//! the reply: until it arrives, recipients get individual copies. The domain itself is queried
//! first, then its list of services, then each of these; the first that supports multicast is used.
//! Replies, positive or negative, are kept for 24 hours (§2.3); an old one serves until a new one
//! arrives.
//!
//! # Invariants
//!
//! * A domain's replies are kept by its home shard; one that arrives on another shard is handed
//!   over.
//! * A reply counts only if it comes from the queried address, with the `id` of the query.
//! * A domain's services are below that domain: a domain can't name another's service as its own.
//! * Domains, items and limits are bounded, whatever peers say.

use rookery_base::Map;
use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{RemoteService, World};
use rookery_jid::{Jid, JidRef};
use rookery_xml::{Element, Writer, ns};

/// A shard's knowledge about other servers.
#[derive(Debug, Default)]
pub struct Discovery {
    domains: Map<String, KnownDomain>,
    /// The domain that each pending request is about, by the request's `id`.
    asked: Map<String, AskedDomain>,
}

/// The result about a domain, or the state of the queries.
#[derive(Debug)]
struct KnownDomain {
    answer: Option<RemoteService>,
    /// The time of the reply; `None` as long as there is none.
    answered_ms: Option<u64>,
    /// The time when the current negotiation began.
    asking_since: Option<u64>,
    /// The number of its open queries.
    open: usize,
}

#[derive(Debug)]
struct AskedDomain {
    domain: String,
    whom: Jid,
    items: bool,
}

/// Returns the known multicast service of a remote domain; if it isn't known, or no longer valid,
/// one of our domains queries it.
pub(super) fn find(world: &mut World, own: &str, remote: &str) -> Option<RemoteService> {
    let now = world.time();
    let (answer, ask) = world.state_mut::<Discovery>().look_up(remote, now);
    if ask && let (Some(own), Ok(whom)) = (own_service(world, own), Jid::parse(remote)) {
        ask_one(world, &own, &whom, remote, false);
    }
    answer
}

/// Handles a reply to the service.
pub(super) fn answered(world: &mut World, packet: &Packet, own: JidRef<'_>) {
    let (Some(id), Some(sender)) = (packet.id().map(|id| id.into_owned()), packet.sender()) else { return };
    let station = id.split_once('-').and_then(|(station, _)| station.parse().ok());
    // No one waits for the reply to a process that has gone.
    let Some(asker) = station.and_then(|station| world.shard_of(station)) else { return };
    if asker != world.shard() {
        return world.route_to_service(asker, packet, own);
    }
    let Some(asked) = world.state_mut::<Discovery>().close(&id, &sender) else { return };
    let payload = payload(packet);
    let service = payload.as_ref().filter(|_| !asked.items).and_then(|info| service(info, &asked.whom));
    let now = world.time();
    if service.is_some() {
        return world.state_mut::<Discovery>().settle(&asked.domain, service, now);
    }
    let next: Vec<_> = match payload {
        // The domain itself doesn't support it, but its services may. If it replies with an error,
        // it has none to list.
        Some(_) if !asked.items && asked.whom.as_str() == asked.domain => vec![(asked.whom.clone(), true)],
        Some(items) if asked.items => services_below(&items, &asked.domain).map(|item| (item, false)).collect(),
        _ => Vec::new(),
    };
    for (whom, items) in next {
        ask_one(world, own.as_str(), &whom, &asked.domain, items);
    }
    world.state_mut::<Discovery>().settle_if_all_have_answered(&asked.domain, now);
}

/// Queries disco#info or disco#items.
fn ask_one(world: &mut World, own: &str, whom: &Jid, domain: &str, items: bool) {
    let id = format!("{}-{}", world.station(), world.unique_text());
    let asked = AskedDomain { domain: domain.to_owned(), whom: whom.clone(), items };
    world.state_mut::<Discovery>().open(&id, asked);
    let mut iq = Writer::new("iq");
    iq.attr("type", "get").attr("id", &id).attr("from", own);
    iq.start_ns("query", if items { ns::DISCO_ITEMS } else { ns::DISCO_INFO });
    world.route_built(&iq.finish(), whom);
}

impl Discovery {
    /// Returns the reply in force, and whether it is time to query again.
    fn look_up(&mut self, domain: &str, now: u64) -> (Option<RemoteService>, bool) {
        if !self.domains.contains_key(domain) && !self.make_room(now) {
            return (None, false);
        }
        let new = || KnownDomain { answer: None, answered_ms: None, asking_since: None, open: 0 };
        let known = self.domains.entry(domain.to_owned()).or_insert_with(new);
        if known.asking_since.is_some_and(|since| now >= since + PATIENCE_MS) {
            // A server that doesn't reply counts as having no service, until the next query.
            *known = KnownDomain { answered_ms: Some(now), ..new() };
            self.asked.retain(|_, asked| asked.domain != domain);
        }
        let is_fresh = known.answered_ms.is_some_and(|at| now < at + KEPT_MS);
        let ask = !is_fresh && known.asking_since.is_none();
        if ask {
            known.asking_since = Some(now);
        }
        (known.answer.clone(), ask)
    }

    fn open(&mut self, id: &str, asked: AskedDomain) {
        if let Some(known) = self.domains.get_mut(&asked.domain) {
            known.open += 1;
            self.asked.insert(id.to_owned(), asked);
        }
    }

    /// Returns the query that a reply belongs to, which is closed by that.
    fn close(&mut self, id: &str, sender: &Jid) -> Option<AskedDomain> {
        if self.asked.get(id)?.whom != *sender {
            return None;
        }
        let asked = self.asked.remove(id)?;
        let known = self.domains.get_mut(&asked.domain)?;
        debug_assert!(known.open > 0, "a question is open until it is answered");
        known.open = known.open.saturating_sub(1);
        Some(asked)
    }

    fn settle(&mut self, domain: &str, answer: Option<RemoteService>, now: u64) {
        self.domains
            .insert(domain.to_owned(), KnownDomain { answer, answered_ms: Some(now), asking_since: None, open: 0 });
        self.asked.retain(|_, asked| asked.domain != domain);
    }

    fn settle_if_all_have_answered(&mut self, domain: &str, now: u64) {
        if self.domains.get(domain).is_some_and(|known| known.open == 0) {
            self.settle(domain, None, now);
        }
    }

    /// Makes room for one more domain by dropping old replies; returns whether it fits.
    fn make_room(&mut self, now: u64) -> bool {
        if self.domains.len() >= DOMAINS {
            self.domains.retain(|_, known| {
                known.asking_since.is_some_and(|since| now < since + PATIENCE_MS)
                    || known.answered_ms.is_some_and(|at| now < at + KEPT_MS)
            });
            self.asked.retain(|_, asked| self.domains.contains_key(&asked.domain));
        }
        self.domains.len() < DOMAINS
    }
}

/// Returns the address of the service that sends the queries of one of our domains.
fn own_service(world: &World, own: &str) -> Option<String> {
    let services = world.services_of(own).into_iter().map(|service| service.host);
    services.into_iter().find(|host| world.is_service_of(host, super::limits::NAME))
}

/// Returns the payload of a result; `None` for an error.
fn payload(packet: &Packet) -> Option<Element> {
    if packet.type_() != StanzaType::Result {
        return None;
    }
    packet.stanza().first_child().map(|payload| payload.element())
}

/// Returns the service that this disco#info describes, if it supports multicast.
fn service(info: &Element, whom: &Jid) -> Option<RemoteService> {
    let has =
        info.children().any(|child| child.is("feature", ns::DISCO_INFO) && child.attr("var") == Some(ns::ADDRESS));
    if !has || !info.is("query", ns::DISCO_INFO) {
        return None;
    }
    let form = info
        .children()
        .find(|child| child.is("x", ns::DATA_FORMS) && value(child, "FORM_TYPE") == Some(ns::ADDRESS.into()));
    let limit = |var| {
        form.and_then(|form| value(form, var)).map_or(UNSAID, |text| match text.trim() {
            "infinite" => MOST,
            number => number.parse().unwrap_or(UNSAID).min(MOST),
        })
    };
    Some(RemoteService { jid: whom.clone(), messages: limit("message"), presences: limit("presence") })
}

fn value(form: &Element, var: &str) -> Option<String> {
    let field = form.children().find(|field| field.name() == "field" && field.attr("var") == Some(var))?;
    field.child("value", ns::DATA_FORMS).map(Element::text)
}

/// Returns the items that can be services of a domain.
fn services_below<'a>(items: &'a Element, domain: &'a str) -> impl Iterator<Item = Jid> + use<'a> {
    let is_below =
        move |jid: &Jid| jid.is_domain() && jid.domain().strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    let items = items.children().filter(|item| item.is("item", ns::DISCO_ITEMS) && item.attr("node").is_none());
    items.filter_map(|item| Jid::parse(item.attr("jid")?).ok()).filter(is_below).take(ITEMS)
}

/// The time for which a reply is kept, in milliseconds; tests of the whole server use it, too.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;
/// The longest time that a negotiation may take, in milliseconds.
pub const PATIENCE_MS: u64 = 10 * 60 * 1000;
/// The limit of a service that doesn't announce one.
const UNSAID: usize = 20;
/// The most recipients of a stanza, whatever a service announces.
const MOST: usize = 1000;
/// The most domains that a shard remembers.
const DOMAINS: usize = 10_000;
/// The most services of one domain that are queried.
const ITEMS: usize = 50;
