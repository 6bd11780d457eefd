//! Lists of subscriptions and affiliations: an entity's own (XEP-0060 §5.6, §5.7), and those of a node for its owners (§8.8, §8.9).

use std::collections::VecDeque;
use std::rc::Rc;

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::pubsub::Affiliation;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, ns};

use super::error::{failed, unsupported};
use super::node::{Node, Subscription};
use super::request::Call;
use super::state::{Change, Key, State};
use super::{Limits, approval, subscribe};

/// §5.6: the subscriptions of who asks to the nodes of a host, or to one of them.
pub(super) fn own_subscriptions(world: &mut World, call: Call, node: Option<String>) {
    let found = world.stores.pubsub.subscriptions_of(call.iq.to.bare(), call.from());
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let mut reply = call.iq.result();
            reply.start_ns("pubsub", ns::PUBSUB).start("subscriptions").opt_attr("node", node.as_deref());
            for (of, jid, stored) in found.iter().filter(|(of, ..)| node.as_ref().is_none_or(|node| node == of)) {
                let subscription = Subscription { pending: stored.pending, ..Subscription::new() };
                let of = Some(of.as_str()).filter(|_| node.is_none());
                subscribe::write(&mut reply, of, jid, Some(&subscription));
            }
            world.reply(&call.iq, reply);
        }
        Err(error) => {
            world.store_failed("listing subscriptions", &call.iq.to, &error);
            call.refuse(world, failed(&error));
        }
    });
}

/// §5.7: the affiliations of who asks with the nodes of a host, or with one of them.
pub(super) fn own_affiliations(world: &mut World, call: Call, node: Option<String>) {
    let found = world.stores.pubsub.affiliations_of(call.iq.to.bare(), call.from());
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let mut reply = call.iq.result();
            reply.start_ns("pubsub", ns::PUBSUB).start("affiliations").opt_attr("node", node.as_deref());
            for (of, affiliation) in found.iter().filter(|(of, _)| node.as_ref().is_none_or(|node| node == of)) {
                reply.start("affiliation").attr("node", of).attr("affiliation", affiliation.as_str()).end();
            }
            world.reply(&call.iq, reply);
        }
        Err(error) => {
            world.store_failed("listing affiliations", &call.iq.to, &error);
            call.refuse(world, failed(&error));
        }
    });
}

/// §8.8.1: those who are subscribed.
pub(super) fn subscribers(world: &mut World, call: &Call, key: &Key, node: &Node) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB_OWNER).start("subscriptions").attr("node", &key.1);
    for (jid, subscription) in node.subscriptions.iter().filter(|(_, subscription)| !subscription.pending) {
        subscribe::write(&mut reply, None, jid, Some(subscription));
    }
    world.reply(&call.iq, reply);
}

/// §8.9.1: those who have an affiliation.
pub(super) fn affiliated(world: &mut World, call: &Call, key: &Key, node: &Node) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB_OWNER).start("affiliations").attr("node", &key.1);
    for (jid, affiliation) in &node.affiliations {
        reply.start("affiliation").attr("jid", jid.as_str()).attr("affiliation", affiliation.as_str()).end();
    }
    world.reply(&call.iq, reply);
}

/// §8.8.2: an owner changes subscriptions. What is wrong changes nothing and comes back; the rest is done.
pub(super) fn set_subscribers(
    state: &Rc<State>,
    world: &mut World,
    call: Call,
    key: Key,
    node: &Rc<Node>,
    changes: Vec<(String, String)>,
) {
    let (mut good, mut bad) = (VecDeque::new(), Vec::new());
    let mut room = Limits::of(world, &key.0).subscriptions.saturating_sub(node.subscriptions.len());
    for (jid, wanted) in changes {
        let before = Jid::parse(&jid).ok().and_then(|jid| node.subscriptions.get(&jid));
        let subscription = match wanted.as_str() {
            "subscribed" => Some(Subscription { pending: false, ..before.cloned().unwrap_or_else(Subscription::new) }),
            "pending" => Some(Subscription { pending: true, ..before.cloned().unwrap_or_else(Subscription::new) }),
            _ => None,
        };
        let is_known = matches!(wanted.as_str(), "none" | "subscribed" | "pending");
        let fits = before.is_some() || subscription.is_none() || room > 0;
        match Jid::parse(&jid) {
            Ok(jid) if is_known && fits => {
                room = room.saturating_sub(usize::from(before.is_none() && subscription.is_some()));
                good.push_back((jid, subscription));
            }
            _ => {
                let state = before.map_or("none", Subscription::state);
                let entry = Element::new("subscription", ns::PUBSUB_OWNER);
                bad.push(entry.with_attr("jid", &jid).with_attr("subscription", state));
            }
        }
    }
    next_subscriber(state, world, call, key, good, bad);
}

/// One change after the other, then the answer.
fn next_subscriber(
    state: &Rc<State>,
    world: &mut World,
    call: Call,
    key: Key,
    mut good: VecDeque<(Jid, Option<Subscription>)>,
    bad: Vec<Element>,
) {
    let Some((jid, subscription)) = good.pop_front() else {
        return answer(world, &call, &key, "subscriptions", bad);
    };
    let again = state.clone();
    subscribe::set(state, world, key, jid, subscription, move |world, key, jid, done| match done {
        Ok(subscription) => {
            approval::tell_subscriber(world, key, jid, subscription.as_ref());
            next_subscriber(&again, world, call, key.clone(), good, bad);
        }
        Err(error) => call.refuse(world, error),
    });
}

/// §8.9.2: an owner changes affiliations. A node keeps an owner.
pub(super) fn set_affiliated(
    state: &Rc<State>,
    world: &mut World,
    call: Call,
    key: Key,
    node: &Rc<Node>,
    changes: Vec<(String, String)>,
) {
    let mut after = (**node).clone();
    let (mut good, mut bad) = (VecDeque::new(), Vec::new());
    for (text, wanted) in changes {
        let affiliation = Affiliation::named(&wanted);
        if affiliation.is_none() && wanted != "none" {
            return call.refuse(world, unsupported(&format!("{wanted}-affiliation")));
        }
        let jid = Jid::parse(&text).map(|jid| jid.to_bare()).ok();
        let before = jid.as_ref().and_then(|jid| after.affiliation(jid.as_ref()));
        let is_last = before == Some(Affiliation::Owner)
            && affiliation != Some(Affiliation::Owner)
            // The account itself owns its nodes, whatever else (XEP-0163 §3.1).
            && (after.owners().count() == 1 || jid.as_ref() == Some(&key.0));
        let fits = before.is_some() || after.affiliations.len() < Limits::of(world, &key.0).subscriptions;
        match jid {
            Some(jid) if !is_last && fits => {
                match affiliation {
                    Some(affiliation) => after.affiliations.insert(jid.clone(), affiliation),
                    None => after.affiliations.remove(&jid),
                };
                good.push_back((jid, affiliation));
            }
            _ => {
                let name = before.map_or("none", Affiliation::as_str);
                let entry = Element::new("affiliation", ns::PUBSUB_OWNER);
                bad.push(entry.with_attr("jid", &text).with_attr("affiliation", name));
            }
        }
    }
    state.hold(&key);
    next_affiliated(state, world, call, key, good, bad);
}

fn next_affiliated(
    state: &Rc<State>,
    world: &mut World,
    call: Call,
    key: Key,
    mut good: VecDeque<(Jid, Option<Affiliation>)>,
    bad: Vec<Element>,
) {
    let Some((jid, affiliation)) = good.pop_front() else {
        answer(world, &call, &key, "affiliations", bad);
        return state.let_go(world, key, Change::None);
    };
    let written = world.stores.pubsub.set_affiliation(key.0.as_ref(), &key.1, jid.as_ref(), affiliation);
    let state = state.clone();
    world.wait(written, move |world, written| match written {
        Ok(true) => {
            let entry = jid.clone();
            let edit = move |node: &mut Node| match affiliation {
                Some(affiliation) => drop(node.affiliations.insert(entry, affiliation)),
                None => drop(node.affiliations.remove(&entry)),
            };
            state.hold(&key);
            state.let_go(world, key.clone(), Change::Edit(Box::new(edit)));
            settle(&state, world, &key, jid, affiliation);
            next_affiliated(&state, world, call, key, good, bad);
        }
        Ok(false) => {
            call.refuse(world, Condition::ItemNotFound);
            state.let_go(world, key, Change::Forget);
        }
        Err(error) => {
            world.store_failed("changing an affiliation", &key.0, &error);
            call.refuse(world, failed(&error));
            state.let_go(world, key, Change::Forget);
        }
    });
}

/// §8.7.4: who waits for approval gets it with a higher affiliation; an outcast keeps no subscription.
fn settle(state: &Rc<State>, world: &mut World, key: &Key, jid: Jid, affiliation: Option<Affiliation>) {
    let again = state.clone();
    let key = key.clone();
    state.with_node(world, key.clone(), move |world, node| {
        let Ok(Some(node)) = node else { return };
        let theirs: Vec<_> =
            node.subscriptions_of(jid.as_ref()).map(|(jid, found)| (jid.clone(), found.pending)).collect();
        for (subscriber, pending) in theirs {
            match affiliation {
                Some(Affiliation::Outcast) => approval::decide(&again, world, key.clone(), &node, subscriber, false),
                Some(_) if pending => approval::decide(&again, world, key.clone(), &node, subscriber, true),
                _ => {}
            }
        }
    });
}

/// The answer to changes: success, or what was wrong (§8.8.2.4, §8.9.2.4).
fn answer(world: &mut World, call: &Call, key: &Key, list: &str, bad: Vec<Element>) {
    if bad.is_empty() {
        return call.done(world);
    }
    let mut entries = Element::new(list, ns::PUBSUB_OWNER).with_attr("node", &key.1);
    bad.into_iter().for_each(|entry| entries.push_child(entry));
    let pubsub = Element::new("pubsub", ns::PUBSUB_OWNER).with_child(entries);
    let mut reply = rookery_xml::Writer::new("iq");
    reply.attr("type", "error").attr("id", &call.iq.id).attr("from", call.iq.to.as_str()).element(&pubsub);
    StanzaError::new(Condition::NotAcceptable).write(&mut reply);
    world.reply(&call.iq, reply);
}
