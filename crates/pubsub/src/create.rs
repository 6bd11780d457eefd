//! Creating nodes: by request (XEP-0060 §8.1) and by publishing (§7.1.4).

use std::rc::Rc;

use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_modkit::form::Form;
use rookery_store::StoreError;
use rookery_store::pubsub::Created;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::ns;

use super::config::NodeConfig;
use super::error::{specific, store_failure};
use super::holders;
use super::limits::{MAX_CONFIG, NAME, NodeLimits};
use super::node::{NodeKey, PubsubNode};
use super::request::PubsubCall;
use super::state::{self, Asks, NodeChange, defaults};

/// Creates a node that doesn't exist yet (§8.1).
pub(super) fn create(world: &mut World, call: PubsubCall, node: &str, form: Option<Form>) {
    let key = call.key(node);
    let mut config = defaults(&key.0, node);
    let applied = form.map_or(Ok(true), |form| config.apply(&form));
    if let Err(error) = applied.and_then(|_| fits(node, &config, &NodeLimits::of(world, &key.0))) {
        return call.refuse(world, error);
    }
    make(world, call, key, config, |world, call, key, _| {
        let mut reply = call.iq.result();
        reply.start_ns("pubsub", ns::PUBSUB).start("create").attr("node", &key.1);
        world.reply(&call.iq, reply);
    });
}

/// Creates the node of a publication (§7.1.4), configured by the publish options, and passes it to
/// `then`.
pub(super) fn create_for(
    world: &mut World,
    call: PubsubCall,
    node: &str,
    options: Option<&Form>,
    then: impl FnOnce(&mut World, PubsubCall, NodeKey, Rc<PubsubNode>) + 'static,
) {
    let key = call.key(node);
    let mut config = defaults(&key.0, node);
    match options.map_or(Ok(true), |form| config.apply(form)) {
        Ok(true) => {}
        // §7.1.5: an unknown precondition can't be met.
        Ok(false) => return call.refuse(world, specific(Condition::Conflict, "precondition-not-met")),
        Err(error) => return call.refuse(world, error),
    }
    if let Err(error) = fits(node, &config, &NodeLimits::of(world, &key.0)) {
        return call.refuse(world, error);
    }
    make(world, call, key, config, then);
}

/// Finds a node of an account that the server itself needs, or creates it, and passes it to `then`;
/// the error, if that fails.
pub(super) fn ensure<A: Asks>(
    world: &mut World,
    key: NodeKey,
    asks: A,
    config: NodeConfig,
    then: impl FnOnce(&mut World, A, Result<Rc<PubsubNode>, StanzaError>) + 'static,
) {
    state::with_node(world, key.clone(), asks, move |world, asks, found| match found {
        Ok(Some(node)) => then(world, asks, Ok(node)),
        Err(error) => then(world, asks, Err(error.into())),
        Ok(None) => {
            state::hold(world, &key);
            let (host, room) = (key.0.as_ref(), NodeLimits::of(world, &key.0).room());
            let made = world.stores.pubsub.create_node(host, &key.1, config.to_bytes(), host, room);
            world.wait(made, move |world, made| {
                if let Err(error) = outcome_of(world, &key, made) {
                    then(world, asks, Err(error));
                    return state::let_go(world, key, NodeChange::Forget);
                }
                let node = PubsubNode::new(config, key.0.clone());
                holders::note_node(world, &key);
                then(world, asks, Ok(Rc::new(node.clone())));
                state::let_go(world, key, NodeChange::Put(Box::new(node)));
            });
        }
    });
}

fn make(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    config: NodeConfig,
    then: impl FnOnce(&mut World, PubsubCall, NodeKey, Rc<PubsubNode>) + 'static,
) {
    if !may_create(world, &key.0, call.from()) {
        return call.refuse(world, Condition::Forbidden);
    }
    state::hold(world, &key);
    let (owner, room) = (call.iq.from.to_bare(), NodeLimits::of(world, &key.0).room());
    let made = world.stores.pubsub.create_node(key.0.as_ref(), &key.1, config.to_bytes(), owner.as_ref(), room);
    world.wait(made, move |world, made| match outcome_of(world, &key, made) {
        Ok(()) => {
            let node = PubsubNode::new(config, owner);
            if key.0.local().is_some() {
                holders::note_node(world, &key);
            }
            then(world, call, key.clone(), Rc::new(node.clone()));
            state::let_go(world, key, NodeChange::Put(Box::new(node)));
        }
        Err(error) => {
            call.refuse(world, error);
            state::let_go(world, key, NodeChange::Forget);
        }
    });
}

/// Returns whether a user may create nodes: an account on itself, and at the service every user
/// whom the operator allows.
fn may_create(world: &World, host: &Jid, from: JidRef<'_>) -> bool {
    if host.local().is_some() {
        return host.as_ref() == from.bare();
    }
    let options = world.domain_of(host.domain()).and_then(|domain| domain.module(NAME));
    let rules = options.map(|options| options.list("create")).unwrap_or_default();
    rules.iter().any(|rule| match rule.as_str() {
        "all" => true,
        "local" => world.domain(from.domain()).is_some(),
        rule => rule == from.bare_str() || rule == from.domain(),
    })
}

/// Turns the store's result for a new node into the outcome of the request.
fn outcome_of(world: &mut World, key: &NodeKey, made: Result<Created, StoreError>) -> Result<(), StanzaError> {
    let full = |text: &'static str| Err(StanzaError::new(Condition::PolicyViolation).with_text(text));
    match made {
        Ok(Created::Done) => Ok(()),
        Ok(Created::Exists) => Err(Condition::Conflict.into()),
        Ok(Created::Full) => full("there are too many nodes"),
        Ok(Created::OwnerFull) => full("you already have as many nodes, or bytes in them, as you may have"),
        Ok(Created::NoAccount) => Err(Condition::ItemNotFound.into()),
        Err(error) => {
            world.store_failed("creating a node", &key.0, &error);
            Err(store_failure(&error))
        }
    }
}

/// Checks that a configuration stays within what the operator allows (§8.2.5).
pub(super) fn fits(node: &str, config: &NodeConfig, limits: &NodeLimits) -> Result<(), StanzaError> {
    let too_much = |what: &str, most: usize| {
        Err(StanzaError::new(Condition::NotAcceptable).with_text(format!("at most {most} {what} are allowed")))
    };
    match config {
        _ if config.max_items.is_some_and(|items| items > limits.items) => too_much("items", limits.items),
        _ if config.max_payload.is_some_and(|bytes| bytes > limits.payload(node)) => {
            too_much("bytes", limits.payload(node))
        }
        _ if config.to_bytes().len() > MAX_CONFIG => too_much("bytes of a configuration", MAX_CONFIG),
        _ => Ok(()),
    }
}
