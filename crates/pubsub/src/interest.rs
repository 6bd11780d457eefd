//! Finds out what clients want to be notified of, from their capabilities (XEP-0060 §9.2,
//! XEP-0115).
//!
//! A client says in its presence by a hash what it can do; the features behind the hash are asked
//! for once per server shard, by a service discovery request of its domain. Only the nodes to which
//! `+notify` is appended are kept, and for each session that is available a reference to them. A
//! hash is known to all sessions only if it is that of the answer: a client that lies about its
//! hash lies for itself alone (XEP-0115 §9.1). What it says to single accounts only is in
//! `directed`.

use std::rc::Rc;

use rookery_fanout::{Link, Packet, StanzaType};
use rookery_hub::ask::Answer;
use rookery_hub::{SessionRef, World};
use rookery_jid::JidRef;
use rookery_modkit::caps;
use rookery_xml::{Element, ns};

use super::caps::{Caps, Nodes, nodes_of, read, texts};
use super::interests::Interests;
use super::last;

/// Returns what the sessions of the shard want.
fn interests(world: &mut World) -> &mut Interests {
    world.state_mut::<Interests>()
}

/// Hears that the presence of a session has changed.
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
        find_out(world, session, caps);
    }
}

/// Hears that a session has sent presence to an account (XEP-0163 §4.3.2). One without capabilities
/// says nothing of them (XEP-0115 §8.4).
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
        // What it broadcasts says the same.
        return interests.directed.take_back(session.link, &account);
    }
    if interests.directed.tell(session.link, &caps, &account) {
        find_out(world, session, caps);
    }
}

/// Notes what capabilities of a session mean, if need be after asking.
fn find_out(world: &mut World, session: SessionRef, caps: Caps) {
    let interests = interests(world);
    if let Some((caps, nodes)) = interests.known(&caps) {
        return note(world, session, &caps, &nodes);
    }
    if !interests.open(session) {
        return;
    }
    if let Some(waiting) = interests.asked.get_mut(&caps) {
        return waiting.push(session);
    }
    interests.asked.insert(caps.clone(), Vec::new());
    ask(world, session, caps);
}

/// Asks a session what its capabilities are (§6.2).
fn ask(world: &mut World, session: SessionRef, caps: Caps) {
    let Some(address) = world.session(session).and_then(|_| world.address(session.link).cloned()) else {
        interests(world).close(session);
        return next(world, caps);
    };
    let query = Element::new("query", ns::DISCO_INFO).with_attr("node", format!("{}#{}", caps.node, caps.ver));
    world.ask(address.domain(), &address, false, &query, move |world, answer| {
        let answer = if let Answer::Result(answer) = answer { answer } else { None };
        answered(world, session, caps, answer);
    });
}

fn answered(world: &mut World, session: SessionRef, caps: Caps, answer: Option<Element>) {
    interests(world).close(session);
    let answer = answer.filter(|answer| answer.is("query", ns::DISCO_INFO));
    let Some(answer) = answer else { return next(world, caps) };
    let nodes = nodes_of(&answer);
    let is_true = caps.hash.as_ref().is_some_and(|hash| caps::is_hash_of(hash, &caps.ver, &answer));
    let shared = Rc::new(caps.clone());
    note(world, session, &shared, &nodes);
    if !is_true {
        return next(world, caps);
    }
    let interests = interests(world);
    interests.learn(shared.clone(), nodes.clone());
    let waiting = interests.asked.remove(&caps).unwrap_or_default();
    waiting.iter().for_each(|&session| interests.close(session));
    for session in waiting {
        note(world, session, &shared, &nodes);
    }
}

/// Asks the next session that has these capabilities: nobody has told yet what they are.
fn next(world: &mut World, caps: Caps) {
    let interests = interests(world);
    match interests.asked.get_mut(&caps).and_then(Vec::pop) {
        Some(session) => ask(world, session, caps),
        None => drop(interests.asked.remove(&caps)),
    }
}

/// Notes the nodes that a session wants, if it still lives and still has these capabilities, for
/// all or for single accounts.
fn note(world: &mut World, session: SessionRef, caps: &Rc<Caps>, nodes: &Nodes) {
    let Some(found) = world.session(session) else { return };
    let is_broadcast = found.presence.as_ref().and_then(read).as_ref() == Some(&**caps);
    let interests = interests(world);
    let new = is_broadcast.then(|| interests.set(session.link, caps.clone(), nodes.clone()));
    let accounts = interests.directed.learn(session.link, caps, nodes);
    last::wanted(world, session.link, new.unwrap_or_default());
    last::wanted_of(world, session.link, accounts, texts(nodes));
}
