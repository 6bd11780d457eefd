//! Items that a device publishes at its account, and items of other accounts that it receives
//! (XEP-0163).
//!
//! Each account has three nodes with one item each, and each node has another access model.

use rookery_xml::{Element, ns};

use super::{UserDevice, account_of};
use crate::book::Book;

/// The access models of the nodes of each account, which are also their names (XEP-0060 §4.5).
pub const NODES: [&str; 3] = ["open", "presence", "whitelist"];

impl UserDevice {
    /// Publishes a new item in place of the last one.
    pub(super) fn publish(&mut self, node: usize, book: &mut Book) {
        let access = NODES[node];
        let number = book.publish(self.plan.account, node);
        let item = format!("<item id='current'><note xmlns='urn:simulated'>{number}</note></item>");
        let publish = format!("<publish node='urn:simulated:{access}'>{item}</publish>");
        let form_type = format!("{}#publish-options", ns::PUBSUB);
        let form_type = format!("<field var='FORM_TYPE' type='hidden'><value>{form_type}</value></field>");
        let field = format!("<field var='pubsub#access_model'><value>{access}</value></field>");
        let form = format!("<x xmlns='jabber:x:data' type='submit'>{form_type}{field}</x>");
        let options = format!("<publish-options>{form}</publish-options>");
        let pubsub = format!("<pubsub xmlns='{}'>{publish}{options}</pubsub>", ns::PUBSUB);
        let id = self.ask("publish", "set", None, &pubsub, book);
        self.publishing.insert(id, number);
    }

    /// Handles a notification of an item.
    pub(super) fn hear_news(&mut self, from: Option<&str>, event: &Element, book: &mut Book) {
        let Some(owner) = from.and_then(account_of) else { return };
        let Some(items) = event.child("items", ns::PUBSUB_EVENT) else { return };
        let node = items.attr("node").and_then(|node| node.strip_prefix("urn:simulated:"));
        let Some(node) = NODES.iter().position(|name| Some(*name) == node) else { return };
        for item in items.children() {
            let number = item.child_text("note", "urn:simulated").and_then(|number| number.parse().ok());
            let Some(number) = number else { continue };
            book.hear_news(self.plan.account, (owner, node), number);
            self.news.insert((owner, node), number);
        }
    }

    /// Returns the element that announces its capabilities in its presence (XEP-0115).
    pub(super) fn capabilities(&self) -> String {
        match self.plan.wants_news {
            true => format!("<c xmlns='{}' hash='sha-1' node='urn:simulated' ver='{VERSION}'/>", ns::CAPS),
            false => String::new(),
        }
    }

    /// Answers a request for its capabilities.
    pub(super) fn tell_capabilities(&mut self, asked: &Element, book: &mut Book) {
        let attr = |name: &str| asked.attr(name).map(str::to_owned);
        let to = attr("from").map(|from| format!(" to='{from}'")).unwrap_or_default();
        let node = asked.child("query", ns::DISCO_INFO).and_then(|query| query.attr("node"));
        let node = node.map(|node| format!(" node='{node}'")).unwrap_or_default();
        let news: String = NODES.map(|node| format!("<feature var='urn:simulated:{node}+notify'/>")).concat();
        let features = format!("<feature var='{}'/>{news}", ns::DISCO_INFO);
        let identity = "<identity category='client' type='pc' name='Simulated'/>";
        let query = format!("<query xmlns='{}'{node}>{identity}{features}</query>", ns::DISCO_INFO);
        let id = attr("id").unwrap_or_default();
        self.say(format!("<iq type='result' id='{id}'{to}>{query}</iq>"), None, book);
    }

    /// Becomes unavailable and available again, to get the last items again (XEP-0163 §4.3.4).
    pub fn look_again(&mut self, book: &mut Book) {
        if self.is_ready() {
            self.become_unavailable(book);
            self.news.clear();
            self.show(book);
        }
    }
}

/// The hash of the capabilities (XEP-0115 §5.1).
const VERSION: &str = "nluOK74tq245NjZaiR1OSaIS+Mw=";
