//! Finds out which nodes clients want, from their capabilities (XEP-0060 §9.2, XEP-0115).
//!
//! A client announces its capabilities in its presence by a hash; the features behind the hash are
//! requested once per server shard, by a service discovery request of its domain. Only the nodes
//! with `+notify` are kept, and a reference to them for each available session. A hash is valid for
//! all sessions only if it matches the reply: a client that lies about its hash only affects itself
//! (XEP-0115 §9.1). `directed` has capabilities announced to single accounts, `afar` those of
//! contacts on other servers.

use std::rc::Rc;

use rookery_base::Set;
use rookery_fanout::{Link, Packet, StanzaType};
use rookery_hub::ask::Answer;
use rookery_hub::{Carry, SessionRef, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::caps;
use rookery_xml::{Element, ns};
use serde::{Deserialize, Serialize};

use super::afar::Afar;
use super::caps::{NodeIds, PresenceCaps, nodes_of, read, texts};
use super::interests::{CapsAsker, Interests};
use super::last;

/// Returns the interests of the shard's sessions.
fn interests(world: &mut World) -> &mut Interests {
    world.state_mut::<Interests>()
}

/// The wishes of a session, for another process.
#[derive(Debug, Default, Serialize, Deserialize)]
struct InterestWishes {
    /// The capabilities that it broadcasts.
    broadcast: Option<InterestWish>,
    /// The capabilities that it has announced to single accounts.
    directed: Vec<(InterestWish, Vec<Jid>)>,
}

/// Capabilities, and the nodes that they stand for, if known.
#[derive(Debug, Serialize, Deserialize)]
struct InterestWish {
    hash: Option<String>,
    node: String,
    ver: String,
    nodes: Option<Vec<String>>,
}

impl InterestWish {
    fn new(caps: &PresenceCaps, nodes: Option<&NodeIds>) -> Self {
        let PresenceCaps { hash, node, ver } = caps.clone();
        Self { hash, node, ver, nodes: nodes.map(texts) }
    }

    fn read(self) -> (Rc<PresenceCaps>, Option<NodeIds>) {
        let Self { hash, node, ver, nodes } = self;
        let nodes = nodes.map(|nodes| {
            let mut nodes: Vec<_> = nodes.into_iter().map(String::into_boxed_str).collect();
            nodes.sort();
            NodeIds::from(nodes)
        });
        (Rc::new(PresenceCaps { hash, node, ver }), nodes)
    }
}

/// Returns the wishes of a session, for another process.
pub(super) fn save(world: &World, link: Link) -> Carry {
    let interests = world.state::<Interests>();
    let broadcast =
        interests.sessions.get(&link).map(|interest| InterestWish::new(&interest.caps, Some(interest.nodes())));
    let directed = interests.directed.announced_by(link);
    let directed: Vec<_> =
        directed.map(|(caps, nodes, accounts)| (InterestWish::new(caps, nodes), accounts.cloned().collect())).collect();
    if broadcast.is_none() && directed.is_empty() {
        return Carry::Nothing;
    }
    postcard::to_allocvec(&InterestWishes { broadcast, directed }).map_or(Carry::Nothing, Carry::State)
}

/// Restores the data that [`save`] has returned. Known capabilities aren't queried again, and the
/// client has the last items already.
pub(super) fn restore(world: &mut World, link: Link, state: Option<&[u8]>) {
    let wishes = state.and_then(|state| postcard::from_bytes::<InterestWishes>(state).ok()).unwrap_or_default();
    match wishes.broadcast.map(InterestWish::read) {
        // Known for this session alone: it may be only the client's claim.
        Some((caps, Some(nodes))) => drop(interests(world).set(link, caps, nodes)),
        _ => presence(world, link),
    }
    let Some(session) = world.reference(link) else { return };
    for (wish, accounts) in wishes.directed {
        let (caps, nodes) = wish.read();
        let is_new = accounts.iter().fold(false, |any, account| {
            let directed = &mut interests(world).directed;
            directed.tell(link, &caps, account) | any
        });
        match nodes {
            Some(nodes) => drop(interests(world).directed.learn(link, &caps, &nodes)),
            None if is_new => find_out(world, CapsAsker::Session(session), (*caps).clone()),
            None => {}
        }
    }
}

/// Reacts to a changed presence of a session.
pub(super) fn presence(world: &mut World, link: Link) {
    let presence = world.session_at(link).and_then(|session| session.presence.as_ref());
    let (is_available, caps) = (presence.is_some(), presence.and_then(read));
    let interests = interests(world);
    if !is_available {
        interests.directed.forget(link);
    }
    let Some(caps) = caps else {
        interests.sessions.remove(&link);
        return;
    };
    if interests.sessions.get(&link).is_some_and(|interest| *interest.caps == caps) {
        return;
    }
    interests.directed.forget(link);
    if let Some(session) = world.reference(link) {
        find_out(world, CapsAsker::Session(session), caps);
    }
}

/// Reacts to presence that a session has sent to an account (XEP-0163 §4.3.2). Presence without
/// capabilities doesn't withdraw them (XEP-0115 §8.4).
pub(super) fn directed(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    let is_account = to.local().is_some() && world.domain(to.domain()).is_some();
    let Some(sender) = packet.sender().filter(|_| is_account) else { return };
    let links = world.links_of(sender.as_ref());
    let link = links.into_iter().find(|&link| world.address(link) == Some(&sender));
    let Some(session) = link.and_then(|link| world.reference(link)) else { return };
    let account = to.bare().to_jid();
    let interests = interests(world);
    if packet.type_() == StanzaType::Unavailable {
        return interests.directed.take_back(session.link, &account);
    }
    let Some(caps) = read(packet) else { return };
    if interests.sessions.get(&session.link).is_some_and(|interest| *interest.caps == caps) {
        // Its broadcast presence has the same capabilities.
        return interests.directed.take_back(session.link, &account);
    }
    if interests.directed.tell(session.link, &caps, &account) {
        find_out(world, CapsAsker::Session(session), caps);
    }
}

/// Reacts to a remote contact that has shown itself to an account, or hidden itself from it.
pub(super) fn heard(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    let Some(resource) = packet.sender().filter(|sender| sender.is_full() && to.local().is_some()) else { return };
    let (account, now_ms) = (to.bare().to_jid(), world.uptime_ms());
    if packet.type_() == StanzaType::Unavailable {
        return world.state_mut::<Afar>().hide(&resource, &account);
    }
    let Some(caps) = read(packet) else { return };
    match world.state_mut::<Afar>().show(&resource, &caps, account.clone(), now_ms) {
        (true, true) => ask_afar(world, &resource, vec![account]),
        (true, false) => find_out(world, CapsAsker::Afar { resource, account }, caps),
        (false, _) => {}
    }
}

/// Asks accounts for the last items that a remote contact wants from them.
fn ask_afar(world: &mut World, resource: &Jid, accounts: Vec<Jid>) {
    let now_ms = world.uptime_ms();
    let afar = world.state_mut::<Afar>();
    let nodes = afar.nodes(resource);
    let accounts: Vec<Jid> = accounts.into_iter().filter(|_| afar.may_get(resource, now_ms)).collect();
    last::ask_afar(world, resource, accounts, nodes);
}

/// Finds out what capabilities stand for, by a query if necessary.
fn find_out(world: &mut World, who: CapsAsker, caps: PresenceCaps) {
    let interests = interests(world);
    if let Some((caps, nodes)) = interests.find(&caps) {
        return note(world, &who, &caps, &nodes);
    }
    if let CapsAsker::Session(session) = who
        && !interests.open(session)
    {
        return;
    }
    if interests.asked.contains_key(&caps) {
        return wait_for_answer(world, who, &caps);
    }
    interests.asked.insert(caps.clone(), vec![who]);
    next(world, &caps);
}

/// Waits for the answer to a query that is under way. Those that have gone meanwhile are removed
/// when there are too many, since others with the same capabilities may come and go all the time.
fn wait_for_answer(world: &mut World, who: CapsAsker, caps: &PresenceCaps) {
    let Some(waiting) = interests(world).asked.get_mut(caps) else { return };
    waiting.push(who);
    if waiting.len() < CROWD || !waiting.len().is_power_of_two() {
        return;
    }
    let waiting = std::mem::take(waiting);
    let mut seen = Set::default();
    let (here, gone): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|who| match who {
        CapsAsker::Session(session) => world.session(*session).is_some(),
        CapsAsker::Afar { resource, account } => {
            world.state::<Afar>().is_shown(resource, account) && seen.insert((resource.clone(), account.clone()))
        }
    });
    gone.iter().for_each(|who| close(world, who));
    interests(world).asked.insert(caps.clone(), here);
}

/// Queries the owner of capabilities for their features (§6.2). Returns whether it could.
fn ask(world: &mut World, who: CapsAsker, caps: &PresenceCaps) -> bool {
    let pair = match &who {
        CapsAsker::Session(session) => {
            let address = world.session(*session).and_then(|_| world.address(session.link).cloned());
            address.map(|address| (address.domain().to_owned(), address))
        }
        CapsAsker::Afar { resource, account } => {
            let now_ms = world.uptime_ms();
            let may = world.state_mut::<Afar>().may_ask(resource, now_ms);
            may.then(|| (account.domain().to_owned(), resource.clone()))
        }
    };
    let Some((domain, address)) = pair else {
        close(world, &who);
        return false;
    };
    let caps = caps.clone();
    let query = Element::new("query", ns::DISCO_INFO).with_attr("node", format!("{}#{}", caps.node, caps.ver));
    world.ask(&domain, &address, false, &query, move |world, answer| {
        let answer = if let Answer::Result(answer) = answer { answer } else { None };
        answered(world, &who, caps, answer);
    });
    true
}

fn close(world: &mut World, who: &CapsAsker) {
    if let CapsAsker::Session(session) = who {
        interests(world).close(*session);
    }
}

fn answered(world: &mut World, who: &CapsAsker, caps: PresenceCaps, answer: Option<Element>) {
    close(world, who);
    let answer = answer.filter(|answer| answer.is("query", ns::DISCO_INFO));
    let Some(answer) = answer else { return next_later(world, caps) };
    let nodes = nodes_of(&answer);
    let is_true = caps.hash.as_ref().is_some_and(|hash| caps::is_hash_of(hash, &caps.ver, &answer));
    let shared = Rc::new(caps.clone());
    note(world, who, &shared, &nodes);
    if !is_true {
        return next_later(world, caps);
    }
    let interests = interests(world);
    interests.learn(shared.clone(), nodes.clone());
    let waiting = interests.asked.remove(&caps).unwrap_or_default();
    for who in waiting {
        close(world, &who);
        note(world, &who, &shared, &nodes);
    }
}

/// Queries the next owner of these capabilities, whose features are still unknown. A loop, since
/// thousands of owners may have gone while one of them didn't answer.
fn next(world: &mut World, caps: &PresenceCaps) {
    while let Some(who) = interests(world).asked.get_mut(caps).and_then(Vec::pop) {
        if ask(world, who, caps) {
            return;
        }
    }
    interests(world).asked.remove(caps);
}

/// Calls [`next`] once the current work is done: an answer may arrive while its query is being
/// sent.
fn next_later(world: &mut World, caps: PresenceCaps) {
    world.after(0, move |world| next(world, &caps));
}

/// Notes the nodes that a session or a remote contact wants.
fn note(world: &mut World, who: &CapsAsker, caps: &Rc<PresenceCaps>, nodes: &NodeIds) {
    match who {
        CapsAsker::Session(session) => note_session(world, *session, caps, nodes),
        CapsAsker::Afar { resource, .. } => {
            let accounts = world.state_mut::<Afar>().learn(resource, caps, nodes);
            if !accounts.is_empty() {
                ask_afar(world, resource, accounts);
            }
        }
    }
}

/// Notes the nodes that a session wants, for all accounts or for single ones, if it still exists
/// and still has these capabilities.
fn note_session(world: &mut World, session: SessionRef, caps: &Rc<PresenceCaps>, nodes: &NodeIds) {
    let Some(found) = world.session(session) else { return };
    let is_broadcast = found.presence.as_ref().and_then(read).as_ref() == Some(&**caps);
    let interests = interests(world);
    let new = is_broadcast.then(|| interests.set(session.link, caps.clone(), nodes.clone()));
    let accounts = interests.directed.learn(session.link, caps, nodes);
    last::ask_watched(world, session.link, new.unwrap_or_default());
    last::ask_accounts(world, session.link, accounts, texts(nodes));
}

/// The number of waiting askers at which those that have gone are looked for and removed.
const CROWD: usize = 1024;
