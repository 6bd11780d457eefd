//! PEP nodes as elements (XEP-0227 §4.10), in both directions.

use rookery_jid::Jid;
use rookery_store::pubsub::{Item, NodeAffiliation, NodeRecord, NodeSubscription};
use rookery_xml::{Element, Writer, ns};

/// Returns the elements of a node: its configuration, then affiliations and subscriptions if there
/// are any except the owner's.
pub fn write_node(id: &str, node: &NodeRecord, owner: &Jid) -> Vec<Element> {
    let of_owner = |name: &str| Element::new(name, ns::PUBSUB_OWNER);
    let mut configure = of_owner("configure").with_attr("node", id);
    if let Ok(form) = Element::parse(&node.config) {
        configure.push_child(form);
    }
    let others = node.affiliations.iter().filter(|(jid, _)| jid != owner);
    let affiliations = others.map(|(jid, affiliation)| {
        of_owner("affiliation").with_attr("jid", jid.as_str()).with_attr("affiliation", affiliation.as_str())
    });
    let subscriptions = node.subscriptions.iter().map(|(jid, subscription)| {
        let state = if subscription.pending { "pending" } else { "subscribed" };
        of_owner("subscription").with_attr("jid", jid.as_str()).with_attr("subscription", state)
    });
    let list = |name: &str, members: Vec<Element>| {
        let list = of_owner(name).with_attr("node", id);
        (!members.is_empty()).then(|| members.into_iter().fold(list, Element::with_child))
    };
    let lists = [list("affiliations", affiliations.collect()), list("subscriptions", subscriptions.collect())];
    [configure].into_iter().chain(lists.into_iter().flatten()).collect()
}

/// Writes an item in the form of XEP-0227.
pub fn write_item(item: &Item) -> Element {
    let element = Element::new("item", ns::PUBSUB).with_attr("id", &item.id);
    let element = element.with_attr("publisher", item.publisher.as_str());
    match Element::parse(&item.payload) {
        Ok(payload) => element.with_child(payload),
        Err(_) => element,
    }
}

/// Returns the configuration in a `<configure/>` as it is stored, which is as a submitted form.
/// Unknown fields are ignored when the stored form is read.
pub fn read_config(configure: &Element) -> Vec<u8> {
    match configure.child("x", ns::DATA_FORMS).cloned() {
        Some(mut form) => {
            form.set_attr("type", "submit");
            Writer::write(&form).into_bytes()
        }
        None => Vec::new(),
    }
}

/// Reads an `<affiliation/>` (XEP-0060 §8.9). Returns `None` if the address or the affiliation is
/// invalid.
pub fn read_affiliation(element: &Element) -> Option<(Jid, NodeAffiliation)> {
    let jid = Jid::parse(element.attr("jid")?).ok()?.to_bare();
    Some((jid, NodeAffiliation::from_name(element.attr("affiliation")?)?))
}

/// Reads a subscription. It has no options, for which the standard has no place.
pub fn read_subscription(element: &Element) -> Option<(Jid, NodeSubscription)> {
    let pending = match element.attr("subscription")? {
        "subscribed" => false,
        "pending" => true,
        _ => return None,
    };
    Some((Jid::parse(element.attr("jid")?).ok()?, NodeSubscription { pending, options: Vec::new() }))
}

/// Reads an item. `owner` is the publisher if the item names none.
pub fn read_item(element: &Element, owner: &Jid, unix_ms: u64) -> Option<Item> {
    let id = element.attr("id").filter(|id| !id.is_empty())?.to_owned();
    let publisher = element.attr("publisher").and_then(|jid| Jid::parse(jid).ok()).map(|jid| jid.to_bare());
    let payload = element.children().next().map(|payload| Writer::write(payload).into_bytes()).unwrap_or_default();
    Some(Item { id, publisher: publisher.unwrap_or_else(|| owner.clone()), unix_ms, payload })
}
