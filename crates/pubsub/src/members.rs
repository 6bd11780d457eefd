//! Lists of subscriptions and affiliations: an entity's own (XEP-0060 §5.6, §5.7), and those of a
//! node for its owners (§8.8, §8.9).

use std::collections::VecDeque;
use std::rc::Rc;

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_modkit::rsm;
use rookery_store::StoreError;
use rookery_store::pubsub::{NodeAffiliation, SetOutcome};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::error::{store_failure, unsupported};
use super::limits::NodeLimits;
use super::node::{NodeKey, PubsubNode, PubsubSubscription};
use super::request::PubsubCall;
use super::state::{self, NodeChange};
use super::subscriptions::tell_subscriber;
use super::{approval, subscribe};

/// Lists the subscriptions of the asker to the nodes of a host, or to one of them (§5.6).
pub(super) fn own_subscriptions(world: &mut World, call: PubsubCall, node: Option<String>) {
    let found = world.stores.pubsub.subscriptions_of(call.iq.to.bare(), call.from());
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let found = found.iter().filter(|(of, ..)| node.as_ref().is_none_or(|node| node == of));
            let entries = found.map(|(of, jid, stored)| {
                let state = if stored.pending { "pending" } else { "subscribed" };
                let entry = Element::new("subscription", ns::PUBSUB);
                let entry = entry.with_opt_attr("node", Some(of.as_str()).filter(|_| node.is_none()));
                (format!("{jid} {of}"), entry.with_attr("jid", jid.as_str()).with_attr("subscription", state))
            });
            list(world, &call, "subscriptions", node.as_deref(), entries.collect());
        }
        Err(error) => {
            world.store_failed("listing subscriptions", &call.iq.to, &error);
            call.refuse(world, store_failure(&error));
        }
    });
}

/// Lists the affiliations of the asker with the nodes of a host, or with one of them (§5.7).
pub(super) fn own_affiliations(world: &mut World, call: PubsubCall, node: Option<String>) {
    let found = world.stores.pubsub.affiliations_of(call.iq.to.bare(), call.from());
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let found = found.iter().filter(|(of, _)| node.as_ref().is_none_or(|node| node == of));
            let entries = found.map(|(of, affiliation)| {
                let entry = Element::new("affiliation", ns::PUBSUB).with_attr("node", of);
                (of.clone(), entry.with_attr("affiliation", affiliation.as_str()))
            });
            list(world, &call, "affiliations", node.as_deref(), entries.collect());
        }
        Err(error) => {
            world.store_failed("listing affiliations", &call.iq.to, &error);
            call.refuse(world, store_failure(&error));
        }
    });
}

/// Lists the subscribers of a node (§8.8.1).
pub(super) fn subscribers(world: &mut World, call: &PubsubCall, key: &NodeKey, node: &PubsubNode) {
    let found = node.subscriptions.iter().filter(|(_, subscription)| !subscription.pending);
    let entries = found.map(|(jid, subscription)| {
        let entry = Element::new("subscription", ns::PUBSUB_OWNER).with_attr("jid", jid.as_str());
        (jid.to_string(), entry.with_attr("subscription", subscription.state()))
    });
    list(world, call, "subscriptions", Some(&key.1), entries.collect());
}

/// Lists the users with an affiliation to a node (§8.9.1).
pub(super) fn list_affiliations(world: &mut World, call: &PubsubCall, key: &NodeKey, node: &PubsubNode) {
    let entries = node.affiliations.iter().map(|(jid, affiliation)| {
        let entry = Element::new("affiliation", ns::PUBSUB_OWNER).with_attr("jid", jid.as_str());
        (jid.to_string(), entry.with_attr("affiliation", affiliation.as_str()))
    });
    list(world, call, "affiliations", Some(&key.1), entries.collect());
}

/// Replies with a list of entries, each with its id for paging. One that is too large for a session
/// comes in parts (XEP-0059), requested or not: strangers can make it grow.
fn list(world: &mut World, call: &PubsubCall, name: &str, node: Option<&str>, entries: Vec<(String, Element)>) {
    let request = match rsm::RsmRequest::read(&call.iq.payload) {
        Ok(request) => request,
        Err(error) => return call.refuse(world, error),
    };
    let bytes: usize = entries.iter().map(|(_, entry)| Writer::write(entry).bytes().len()).sum();
    let most = if bytes <= WHOLE_BYTES { usize::MAX } else { PART };
    let wanted = request.clone().unwrap_or_default();
    let (found, answer) = match wanted.page(&entries, most, |(id, _)| id) {
        Ok(found) => found,
        Err(error) => return call.refuse(world, error),
    };
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", call.iq.payload.ns()).start(name).opt_attr("node", node);
    for (_, entry) in found {
        reply.element(entry);
    }
    reply.end();
    if request.is_some() || found.len() < entries.len() {
        answer.write(&mut reply);
    }
    world.reply(&call.iq, reply);
}

/// A change of a subscription that an owner requests.
struct MemberWish {
    jid: Jid,
    /// The new subscription; `None` to remove it.
    subscription: Option<PubsubSubscription>,
    is_new: bool,
}

/// Changes subscriptions, for an owner (§8.8.2). Invalid entries change nothing and are returned;
/// the others are carried out.
pub(super) fn set_subscribers(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    node: &Rc<PubsubNode>,
    changes: Vec<(String, String)>,
) {
    let mut after = (**node).clone();
    let (mut good, mut bad) = (VecDeque::new(), Vec::new());
    for (text, wanted) in changes {
        let jid = Jid::parse(&text).ok();
        let before = jid.as_ref().and_then(|jid| after.subscriptions.get(jid)).cloned();
        let with =
            |pending| Some(PubsubSubscription { pending, ..before.clone().unwrap_or_else(PubsubSubscription::new) });
        let subscription = match wanted.as_str() {
            "none" => Some(None),
            "subscribed" => Some(with(false)),
            "pending" => Some(with(true)),
            _ => None,
        };
        let is_new = before.is_none();
        match (jid, subscription) {
            // There is no subscription, and there is to be none: nobody is notified.
            (Some(_), Some(None)) if is_new => {}
            (Some(jid), Some(subscription))
                if !is_new || subscribe::has_room(world, &key, &after, &jid, wanted == "pending") =>
            {
                match &subscription {
                    Some(subscription) => drop(after.subscriptions.insert(jid.clone(), subscription.clone())),
                    None => drop(after.subscriptions.remove(&jid)),
                }
                good.push_back(MemberWish { jid, subscription, is_new });
            }
            _ => bad.push(refused_subscription(&text, before.as_ref())),
        }
    }
    next_subscriber(world, call, key, good, bad);
}

/// Returns the entry for a refused change, with the subscription that remains.
fn refused_subscription(jid: &str, subscription: Option<&PubsubSubscription>) -> Element {
    let state = subscription.map_or("none", PubsubSubscription::state);
    Element::new("subscription", ns::PUBSUB_OWNER).with_attr("jid", jid).with_attr("subscription", state)
}

/// Makes one change after the other, then replies. Only users who have agreed are subscribed.
fn next_subscriber(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    mut good: VecDeque<MemberWish>,
    mut bad: Vec<Element>,
) {
    let Some(MemberWish { jid, subscription, is_new }) = good.pop_front() else {
        return answer(world, &call, &key, "subscriptions", bad);
    };
    let subscriber = jid.clone();
    let change = move |world: &mut World, call: PubsubCall, agrees: bool| {
        if !agrees {
            bad.push(refused_subscription(jid.as_str(), None));
            return next_subscriber(world, call, key, good, bad);
        }
        subscribe::set(world, key, jid, subscription, move |world, key, jid, done| match done {
            Ok(subscription) => {
                tell_subscriber(world, key, jid, subscription.as_ref());
                next_subscriber(world, call, key.clone(), good, bad);
            }
            Err(error) => call.refuse(world, error),
        });
    };
    if is_new { check_agreement(world, call, &subscriber, change) } else { change(world, call, true) }
}

/// Finds out whether a user has agreed to notifications by the caller. They come from the service,
/// so blocking their author doesn't help. An owner may therefore subscribe only itself and accounts
/// of this server that see its presence, since these have asked for it.
fn check_agreement(
    world: &mut World,
    call: PubsubCall,
    jid: &Jid,
    then: impl FnOnce(&mut World, PubsubCall, bool) + 'static,
) {
    let is_account = jid.local().is_some() && world.domain(jid.domain()).is_some();
    if jid.bare() == call.iq.from.bare() || !is_account {
        let is_own = jid.bare() == call.iq.from.bare();
        return then(world, call, is_own);
    }
    let found = world.stores.rosters.item(jid.bare(), call.iq.from.bare());
    let account = jid.to_bare();
    world.wait(found, move |world, found| {
        let item = match found {
            Ok(found) => world.join_parts(account.as_ref(), &call.iq.from.to_bare(), found),
            Err(StoreError::NoAccount) => None,
            Err(error) => {
                world.store_failed("looking up who may be subscribed", &account, &error);
                None
            }
        };
        then(world, call, item.is_some_and(|item| item.subscription.to()));
    });
}

/// Changes affiliations, for an owner (§8.9.2). A node always keeps at least one owner.
pub(super) fn set_affiliated(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    node: &Rc<PubsubNode>,
    changes: Vec<(String, String)>,
) {
    let limits = NodeLimits::of(world, &key.0);
    let mut after = (**node).clone();
    let (mut good, mut bad) = (VecDeque::new(), Vec::new());
    for (text, wanted) in changes {
        let affiliation = NodeAffiliation::from_name(&wanted);
        if affiliation.is_none() && wanted != "none" {
            return call.refuse(world, unsupported(&format!("{wanted}-affiliation")));
        }
        let jid = Jid::parse(&text).map(|jid| jid.to_bare()).ok();
        let before = jid.as_ref().and_then(|jid| after.affiliation(jid.as_ref()));
        let is_last = before == Some(NodeAffiliation::Owner)
            && affiliation != Some(NodeAffiliation::Owner)
            // The account itself always owns its nodes (XEP-0163 §3.1).
            && (after.owners().count() == 1 || jid.as_ref() == Some(&key.0));
        let fits = before.is_some() || after.affiliations.len() < limits.subscriptions;
        match jid {
            Some(jid) if !is_last && fits => {
                match affiliation {
                    Some(affiliation) => after.affiliations.insert(jid.clone(), affiliation),
                    None => after.affiliations.remove(&jid),
                };
                good.push_back((jid, affiliation));
            }
            _ => {
                bad.push(refused_affiliation(&text, before));
            }
        }
    }
    state::hold(world, &key);
    next_affiliated(world, call, key, good, bad);
}

/// Returns the entry for a refused change of an affiliation, with the one that remains.
fn refused_affiliation(jid: &str, before: Option<NodeAffiliation>) -> Element {
    let name = before.map_or("none", NodeAffiliation::as_str);
    Element::new("affiliation", ns::PUBSUB_OWNER).with_attr("jid", jid).with_attr("affiliation", name)
}

fn next_affiliated(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    mut good: VecDeque<(Jid, Option<NodeAffiliation>)>,
    mut bad: Vec<Element>,
) {
    let Some((jid, affiliation)) = good.pop_front() else {
        answer(world, &call, &key, "affiliations", bad);
        return state::let_go(world, key, NodeChange::None);
    };
    let room = NodeLimits::of(world, &key.0).room();
    let written = world.stores.pubsub.set_affiliation(key.0.as_ref(), &key.1, jid.as_ref(), affiliation, room);
    world.wait(written, move |world, written| match written {
        Ok(SetOutcome::Done) => {
            let entry = jid.clone();
            let edit = move |node: &mut PubsubNode| match affiliation {
                Some(affiliation) => drop(node.affiliations.insert(entry, affiliation)),
                None => drop(node.affiliations.remove(&entry)),
            };
            state::hold(world, &key);
            state::let_go(world, key.clone(), NodeChange::Edit(Box::new(edit)));
            settle(world, &key, jid, affiliation);
            next_affiliated(world, call, key, good, bad);
        }
        Ok(SetOutcome::Full) => {
            bad.push(refused_affiliation(jid.as_str(), None));
            next_affiliated(world, call, key, good, bad);
        }
        Ok(SetOutcome::NoNode) => {
            call.refuse(world, Condition::ItemNotFound);
            state::let_go(world, key, NodeChange::Forget);
        }
        Err(error) => {
            world.store_failed("changing an affiliation", &key.0, &error);
            call.refuse(world, store_failure(&error));
            state::let_go(world, key, NodeChange::Forget);
        }
    });
}

/// Settles a request that waits for approval (§8.7.4): a higher affiliation grants it; an outcast
/// keeps no subscription.
fn settle(world: &mut World, key: &NodeKey, jid: Jid, affiliation: Option<NodeAffiliation>) {
    let key = key.clone();
    state::with_node(world, key.clone(), (), move |world, (), node| {
        let Ok(Some(node)) = node else { return };
        let theirs: Vec<_> =
            node.subscriptions_of(jid.as_ref()).map(|(jid, found)| (jid.clone(), found.pending)).collect();
        for (subscriber, pending) in theirs {
            match affiliation {
                Some(NodeAffiliation::Outcast) => approval::decide(world, key.clone(), &node, subscriber, false),
                Some(_) if pending => approval::decide(world, key.clone(), &node, subscriber, true),
                _ => {}
            }
        }
    });
}

/// Replies to changes with success, or with the refused entries (§8.8.2.4, §8.9.2.4).
fn answer(world: &mut World, call: &PubsubCall, key: &NodeKey, list: &str, bad: Vec<Element>) {
    if bad.is_empty() {
        return call.succeed(world);
    }
    let mut entries = Element::new(list, ns::PUBSUB_OWNER).with_attr("node", &key.1);
    bad.into_iter().for_each(|entry| entries.push_child(entry));
    let pubsub = Element::new("pubsub", ns::PUBSUB_OWNER).with_child(entries);
    let mut reply = Writer::new("iq");
    reply.attr("type", "error").attr("id", &call.iq.id).attr("from", call.iq.to.as_str()).element(&pubsub);
    StanzaError::new(Condition::NotAcceptable).write(&mut reply);
    world.reply(&call.iq, reply);
}

/// The most bytes of a list that is sent whole.
const WHOLE_BYTES: usize = 256 * 1024;
/// The entries in a part of a longer list; even the longest ones fit.
const PART: usize = 64;
