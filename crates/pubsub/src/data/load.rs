//! Restores subscribers after a restart: every shard takes up the nodes that are at home there.

use rookery_hub::World;
use rookery_jid::Jid;
use tracing::warn;

use super::options::NAME;
use super::source::Topic;
use super::state::{DataState, SubscriptionTerms, home};

/// Closes the nodes whose homes have moved away, and takes up those that have moved here.
pub(super) fn moved(world: &mut World) {
    let here = world.shard();
    let all = world.state::<DataState>().nodes.iter();
    let gone = all.filter(|(topic, _)| home(world, &topic.host, &topic.node) != here);
    let gone = gone.map(|(topic, node)| (topic.clone(), node.subscribers.keys().cloned().collect()));
    for (topic, subscribers) in gone.collect::<Vec<(Topic, Vec<Jid>)>>() {
        for subscriber in subscribers {
            world.state_mut::<DataState>().remove(&topic, &subscriber);
        }
    }
    load(world);
}

/// Takes up the nodes of all domains that have the service.
pub(super) fn load(world: &mut World) {
    let domains = world.settings().domains.iter();
    let services = domains.filter_map(|domain| {
        let options = domain.module(NAME)?;
        Some((options.text("host").replace('@', &domain.name), options.number("interval_ms")))
    });
    for (host, usual) in services.collect::<Vec<_>>() {
        if let Ok(host) = Jid::new(None, &host, None) {
            page(world, host, usual, "");
        }
    }
}

/// Takes up one page of the nodes whose ids follow `after`.
fn page(world: &mut World, host: Jid, usual: u64, after: &str) {
    let found = world.stores.pubsub.nodes(host.as_ref(), host.as_ref(), after, PAGE);
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let last = found.last().filter(|_| found.len() == PAGE).map(|last| last.node.clone());
            for listed in found {
                if home(world, host.domain(), &listed.node) == world.shard() {
                    take_up(world, host.clone(), usual, listed.node);
                }
            }
            if let Some(last) = last {
                page(world, host, usual, &last);
            }
        }
        Err(error) => warn!(%error, "subscriptions to readings can't be read"),
    });
}

fn take_up(world: &mut World, host: Jid, usual: u64, node: String) {
    let found = world.stores.pubsub.node(host.as_ref(), &node);
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let topic = Topic { host: host.domain().to_owned(), node };
            for (jid, subscription) in found.into_iter().flat_map(|found| found.subscriptions) {
                // A change made meanwhile is newer.
                let shard = world.shard();
                let state = world.state_mut::<DataState>();
                if state.terms(&topic, &jid).is_none() {
                    state.put(&topic, &jid, SubscriptionTerms::read(&subscription.options), usual, shard);
                }
            }
        }
        Err(error) => warn!(node, %error, "the subscribers of readings can't be read"),
    });
}

/// The number of nodes in a page.
const PAGE: usize = 1000;
