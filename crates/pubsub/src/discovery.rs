//! Service discovery of a host and its nodes: XEP-0060 §5.1 to §5.5.

use rookery_hub::{Iq, World};
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_modkit::form::{Field, Form};
use rookery_modkit::rsm::{self, Part};
use rookery_store::pubsub::{NodeAffiliation, WantedItems};
use rookery_stream::error::Condition;
use rookery_xml::ns;

use super::config::since;
use super::error::store_failure;
use super::node::{NodeKey, PubsubNode};
use super::request::PubsubCall;
use super::state::{self, defaults};

/// The features of publish-subscribe that both fronts have, without their common prefix; replies
/// sort them among all others.
pub(super) const FEATURES: [&str; 28] = [
    "http://jabber.org/protocol/pubsub#access-authorize",
    "http://jabber.org/protocol/pubsub#access-open",
    "http://jabber.org/protocol/pubsub#access-presence",
    "http://jabber.org/protocol/pubsub#access-roster",
    "http://jabber.org/protocol/pubsub#access-whitelist",
    "http://jabber.org/protocol/pubsub#auto-create",
    "http://jabber.org/protocol/pubsub#config-node",
    "http://jabber.org/protocol/pubsub#config-node-max",
    "http://jabber.org/protocol/pubsub#create-and-configure",
    "http://jabber.org/protocol/pubsub#create-nodes",
    "http://jabber.org/protocol/pubsub#delete-items",
    "http://jabber.org/protocol/pubsub#delete-nodes",
    "http://jabber.org/protocol/pubsub#item-ids",
    "http://jabber.org/protocol/pubsub#member-affiliation",
    "http://jabber.org/protocol/pubsub#modify-affiliations",
    "http://jabber.org/protocol/pubsub#multi-items",
    "http://jabber.org/protocol/pubsub#outcast-affiliation",
    "http://jabber.org/protocol/pubsub#persistent-items",
    "http://jabber.org/protocol/pubsub#publish",
    "http://jabber.org/protocol/pubsub#publish-only-affiliation",
    "http://jabber.org/protocol/pubsub#publish-options",
    "http://jabber.org/protocol/pubsub#publisher-affiliation",
    "http://jabber.org/protocol/pubsub#purge-nodes",
    "http://jabber.org/protocol/pubsub#retrieve-affiliations",
    "http://jabber.org/protocol/pubsub#retrieve-default",
    "http://jabber.org/protocol/pubsub#retrieve-items",
    "http://jabber.org/protocol/pubsub#rsm",
    "http://jabber.org/protocol/pubsub#subscribe",
];

/// Further features, with the same prefix left out.
pub(super) const MORE_FEATURES: [&str; 6] = [
    "http://jabber.org/protocol/pubsub#item-expire",
    "http://jabber.org/protocol/pubsub#manage-subscriptions",
    "http://jabber.org/protocol/pubsub#meta-data",
    "http://jabber.org/protocol/pubsub#retrieve-default-sub",
    "http://jabber.org/protocol/pubsub#retrieve-subscriptions",
    "http://jabber.org/protocol/pubsub#subscription-options",
];

/// Describes a node (§5.3, §5.4).
pub(super) fn node_info(world: &mut World, call: PubsubCall, node: &str) {
    let key = call.key(node);
    state::with_node(world, key.clone(), call, move |world, call, node| match node {
        Ok(Some(node)) if PubsubNode::shows_to(&node.config, node.affiliation(call.from()), &call.relation()) => {
            let identity = DiscoIdentity { category: "pubsub", type_: "leaf", name: Some(node.config.title.as_str()) };
            let identity = DiscoIdentity { name: identity.name.filter(|name| !name.is_empty()), ..identity };
            let features = vec![ns::DISCO_INFO, ns::DISCO_ITEMS, ns::PUBSUB];
            let info = Info { identity, more: &[], features, forms: vec![meta_data(&node).element()] };
            let mut reply = call.iq.result();
            info.write(&mut reply, Some(&key.1));
            world.reply(&call.iq, reply);
        }
        Ok(_) => call.refuse(world, Condition::ItemNotFound),
        Err(error) => call.refuse(world, error),
    });
}

/// Returns the meta-data of a node (§5.4).
fn meta_data(node: &PubsubNode) -> Form {
    let text = |var: &str, value: &str| Field::text_single(var).value(value);
    let publishers = node.affiliations.iter().filter(|(_, affiliation)| {
        matches!(affiliation, NodeAffiliation::Owner | NodeAffiliation::Publisher | NodeAffiliation::PublishOnly)
    });
    let subscribers = node.subscriptions.values().filter(|subscription| !subscription.pending).count();
    let contacts = node.config.contact.iter().map(rookery_jid::Jid::as_str);
    Form::new("result")
        .hidden("FORM_TYPE", META_DATA)
        .field(text("pubsub#title", &node.config.title).label("A short name for the node"))
        .field(text("pubsub#description", &node.config.description).label("The topic of the node"))
        .field(text("pubsub#type", &node.config.type_).label("The namespace of its payloads"))
        .field(Field::jid_multi("pubsub#contact").label("A contact for questions about the node").with_values(contacts))
        .field(
            Field::jid_multi("pubsub#owner").label("Owners").with_values(node.owners().map(rookery_jid::Jid::as_str)),
        )
        .field(
            Field::jid_multi("pubsub#publisher")
                .label("Publishers")
                .with_values(publishers.map(|(publisher, _)| publisher.as_str())),
        )
        .field(text("pubsub#num_subscribers", &subscribers.to_string()).label("Subscribers"))
        .field(text("pubsub#access_model", node.config.access_name()).label("Who may subscribe and retrieve items"))
        .field(text("pubsub#publish_model", node.config.publish_name()).label("Who may publish"))
}

/// Lists the items of a node, for those who may retrieve them (§5.5).
pub(super) fn node_items(world: &mut World, call: PubsubCall, node: &str) {
    let key = call.key(node);
    state::with_node(world, key.clone(), call, move |world, call, node| {
        let node = match node {
            Ok(Some(node)) => node,
            Ok(None) => return call.refuse(world, Condition::ItemNotFound),
            Err(error) => return call.refuse(world, error),
        };
        if let Err(error) = node.lets_retrieve(call.from(), &call.relation()) {
            return call.refuse(world, error);
        }
        let since = since(&node.config, world.time());
        let found = world.stores.pubsub.items(key.0.as_ref(), &key.1, WantedItems::Newest(MAX_LISTED), since);
        world.wait(found, move |world, found| match found {
            Ok(found) => {
                let mut reply = call.iq.result();
                reply.start_ns("query", ns::DISCO_ITEMS).attr("node", &key.1);
                let mut items = found.unwrap_or_default().items;
                // The newest items come first.
                items.reverse();
                items.truncate(fitting(&items, |item| item.id.len()));
                items.reverse();
                for item in items {
                    reply.start("item").attr("jid", key.0.as_str()).attr("name", &item.id).end();
                }
                world.reply(&call.iq, reply);
            }
            Err(error) => call.refuse(world, store_failure(&error)),
        });
    });
}

/// Lists the nodes of a service that a user may see, with their titles (§5.2), page by page
/// (XEP-0059), in the order of their ids.
pub(super) fn service_nodes(world: &mut World, call: PubsubCall) {
    let request = match rsm::RsmRequest::read(&call.iq.payload) {
        Ok(request) => request,
        Err(error) => return call.refuse(world, error),
    };
    let is_asked = request.is_some();
    let request = request.unwrap_or_default();
    let after = match request.part {
        Part::First => String::new(),
        Part::After(id) => id,
        // There is no index: the position of a node among those that a user may see isn't known.
        Part::Before(_) | Part::Last | Part::Index(_) => return call.refuse(world, Condition::FeatureNotImplemented),
    };
    let most = request.max.unwrap_or(MAX_LISTED).min(MAX_LISTED);
    gather(world, call, after, most, Vec::new(), move |world, call, mut nodes| {
        let is_all = nodes.len() <= most;
        nodes.truncate(most);
        let fitting = fitting(&nodes, |(node, title)| node.len() + title.len());
        let is_all = is_all && fitting == nodes.len();
        nodes.truncate(fitting);
        let mut reply = call.iq.result();
        reply.start_ns("query", ns::DISCO_ITEMS);
        for (node, title) in &nodes {
            let title = Some(title.as_str()).filter(|title| !title.is_empty());
            reply.start("item").attr("jid", call.iq.to.as_str()).attr("node", node).opt_attr("name", title).end();
        }
        // A client that gets an incomplete list has to know, whether it asked for a part or not.
        if is_asked || !is_all {
            let ends = nodes.first().zip(nodes.last());
            let ends = ends.map(|((first, _), (last, _))| (first.clone(), last.clone()));
            rsm::RsmAnswer { ends, ..rsm::RsmAnswer::default() }.write(&mut reply);
        }
        world.reply(&call.iq, reply);
    });
}

/// Returns the nodes of an account that a user may see, with their titles, as many as fit a reply.
pub(super) fn account_nodes(
    world: &mut World,
    call: PubsubCall,
    then: impl FnOnce(&mut World, &Iq, Vec<(String, String)>) + 'static,
) {
    gather(world, call, String::new(), MAX_LISTED, Vec::new(), |world, call, mut nodes| {
        nodes.truncate(fitting(&nodes, |(node, title)| node.len() + title.len()));
        then(world, &call.iq, nodes);
    });
}

/// Returns the number of entries that fit into a reply, by the bytes of their texts.
fn fitting<T>(all: &[T], bytes: impl Fn(&T) -> usize) -> usize {
    let mut room = MAX_BYTES;
    let fits = all.iter().take_while(|one| {
        room = room.saturating_sub(bytes(one) + AROUND);
        room > 0
    });
    fits.count()
}

/// Looks for visible nodes after an id until it has one more than `most`, or there are no more.
fn gather(
    world: &mut World,
    call: PubsubCall,
    after: String,
    most: usize,
    mut seen: Vec<(String, String)>,
    then: impl FnOnce(&mut World, PubsubCall, Vec<(String, String)>) + 'static,
) {
    let found = world.stores.pubsub.nodes(call.iq.to.bare(), call.from(), &after, MAX_LISTED);
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let host: NodeKey = call.key("");
            let next = found.last().filter(|_| found.len() == MAX_LISTED).map(|last| last.node.clone());
            seen.extend(found.into_iter().filter_map(|listed| {
                let config = defaults(&host.0, &listed.node).read(&listed.config);
                let is_seen = PubsubNode::shows_to(&config, listed.affiliation, &call.relation());
                is_seen.then_some((listed.node, config.title))
            }));
            match next.filter(|_| seen.len() <= most) {
                Some(next) => gather(world, call, next, most, seen, then),
                None => then(world, call, seen),
            }
        }
        Err(error) => {
            world.store_failed("listing nodes", &call.iq.to, &error);
            call.refuse(world, store_failure(&error));
        }
    });
}

const META_DATA: &str = "http://jabber.org/protocol/pubsub#meta-data";
/// The most bytes of the texts in a reply of service discovery; escaping may multiply them.
const MAX_BYTES: usize = 160 * 1024;
/// The bytes of an entry's markup.
const AROUND: usize = 60;
/// The most nodes or items in a reply of service discovery.
const MAX_LISTED: usize = 1000;
