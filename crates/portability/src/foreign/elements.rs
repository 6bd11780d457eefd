//! Converts rows of a database into elements of the file (XEP-0227).

use rookery_store::sql::foreign::TextRow;
use rookery_xml::{Element, ns};

use crate::OURS;

/// Makes a placeholder for data that can't be imported, which the import reports when it gets
/// there.
pub fn damaged_element(what: impl Into<String>) -> Element {
    Element::new("damaged", OURS).with_attr("what", what)
}

/// Reads an element that is stored as text. Returns a placeholder if it is unreadable.
pub fn element(text: &str, what: &str) -> Element {
    match Element::parse(text.trim().as_bytes()) {
        Ok(element) => element,
        Err(fault) => damaged_element(format!("{what} that can't be read: {fault}")),
    }
}

/// Makes a message of an archive (XEP-0313) from its time, in milliseconds since 1970, and its
/// stanza.
pub fn archived_message(id: &str, unix_ms: u64, message: Element) -> Element {
    if message.ns() == OURS {
        return message;
    }
    let delay = Element::new("delay", ns::DELAY).with_attr("stamp", rookery_base::date::timestamp_ms(unix_ms));
    let forwarded = Element::new("forwarded", ns::FORWARD).with_child(delay).with_child(message);
    Element::new("result", ns::MAM).with_attr("id", id).with_child(forwarded)
}

/// Makes an item of a roster (RFC 6121 §2.1.2). An empty name is left out; `asks` is true if the
/// owner's request for a subscription is pending.
pub fn roster_item(jid: &str, name: &str, subscription: &str, asks: bool, groups: Vec<String>) -> Element {
    let item = Element::new("item", ns::ROSTER).with_attr("jid", jid).with_attr("subscription", subscription);
    let item = item.with_opt_attr("name", (!name.is_empty()).then_some(name));
    let item = item.with_opt_attr("ask", asks.then_some("subscribe"));
    groups.into_iter().fold(item, |item, group| item.with_child(Element::new("group", ns::ROSTER).with_text(group)))
}

/// Makes a pending subscription request.
pub fn request(from: &str, to: &str, status: &str) -> Element {
    let presence = Element::new("presence", ns::CLIENT).with_attr("from", from).with_attr("to", to);
    let presence = presence.with_attr("type", "subscribe");
    match status {
        "" => presence,
        status => presence.with_child(Element::new("status", ns::CLIENT).with_text(status)),
    }
}

/// Makes the parts of personal nodes: configurations, then items.
pub fn nodes(configurations: Vec<Element>, items: Vec<Element>) -> Vec<Element> {
    if configurations.is_empty() {
        return Vec::new();
    }
    let owner = configurations.into_iter().fold(Element::new("pubsub", ns::PUBSUB_OWNER), Element::with_child);
    vec![owner, items.into_iter().fold(Element::new("pubsub", ns::PUBSUB), Element::with_child)]
}

/// Makes the configuration of a node from the options that all servers have in common.
pub fn configure(node: &str, options: &[(String, String)]) -> Element {
    let field = |name: &str, value: &str| {
        Element::new("field", ns::DATA_FORMS)
            .with_attr("var", name)
            .with_child(Element::new("value", ns::DATA_FORMS).with_text(value))
    };
    let known = options.iter().filter(|(name, value)| {
        OPTIONS.contains(&name.as_str())
            && !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    let form =
        Element::new("x", ns::DATA_FORMS).with_attr("type", "submit").with_child(field("FORM_TYPE", NODE_CONFIG));
    let form = known.fold(form, |form, (name, value)| form.with_child(field(&format!("pubsub#{name}"), value)));
    Element::new("configure", ns::PUBSUB_OWNER).with_attr("node", node).with_child(form)
}

/// Makes an item of a node.
pub fn item(id: &str, publisher: &str, payload: Element) -> Element {
    if payload.ns() == OURS {
        return payload;
    }
    let item = Element::new("item", ns::PUBSUB).with_attr("id", id);
    item.with_opt_attr("publisher", (!publisher.is_empty()).then_some(publisher)).with_child(payload)
}

/// Returns the text of a column, which is empty for NULL.
pub fn text(row: &TextRow, column: usize) -> &str {
    row.get(column).and_then(Option::as_deref).unwrap_or_default()
}

const OPTIONS: [&str; 3] = ["access_model", "max_items", "persist_items"];
const NODE_CONFIG: &str = "http://jabber.org/protocol/pubsub#node_config";
