//! XEP-0060: Publish-Subscribe and XEP-0163: Personal Eventing Protocol, through the whole server.
//! Section numbers are those of XEP-0060 unless a test names another standard. The examples are
//! those of the standards.

mod account;
mod directed;
mod discovery;
mod failing;
mod limits;
mod moves;
mod owners;
pub(crate) mod pep;
mod service;

use rookery_testkit::client::xml;
use rookery_testkit::{Client, Server};
use rookery_xml::Element;

const SERVICE: &str = "pubsub.example.org";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const EVENT: &str = "http://jabber.org/protocol/pubsub#event";

/// A service with an owner and another user, whose homes are the two shards.
struct PubsubScene {
    server: Server,
    hamlet: Client,
    francisco: Client,
}

impl PubsubScene {
    fn new() -> Self {
        Self::on(Server::new())
    }

    fn on(server: Server) -> Self {
        let [hamlet, francisco] =
            [("hamlet", 0), ("francisco", 1)].map(|(stem, at)| format!("{}/r", server.name_at(stem, at)));
        let (hamlet, francisco) = (server.online(&hamlet), server.online(&francisco));
        Self { server, hamlet, francisco }
    }
}

/// Sends a request to the service, or to the client's own account if the address is empty.
fn ask(client: &mut Client, to: &str, type_: &str, ns: &str, action: &str) -> Element {
    let to = if to.is_empty() { String::new() } else { format!(" to='{to}'") };
    client.ask(&format!("<iq type='{type_}' id='q'{to}><pubsub xmlns='{ns}'>{action}</pubsub></iq>"))
}

/// Sends a set that succeeds.
fn set(client: &mut Client, to: &str, action: &str) -> Element {
    is_result(ask(client, to, "set", PUBSUB, action))
}

/// Sends a get that succeeds, and returns the first element of the reply.
fn get(client: &mut Client, to: &str, action: &str) -> Element {
    is_result(ask(client, to, "get", PUBSUB, action))
}

/// Sends an owner's set that succeeds.
fn owner_set(client: &mut Client, to: &str, action: &str) -> Element {
    is_result(ask(client, to, "set", OWNER, action))
}

fn is_result(answer: Element) -> Element {
    assert_eq!(answer.attr("type"), Some("result"), "{}", xml(&answer));
    answer
}

/// Returns the error in the reply to a request, as `type condition specific`.
fn error(answer: &Element) -> String {
    let error = answer.children().find(|child| child.name() == "error").unwrap_or_else(|| panic!("{}", xml(answer)));
    let mut words = vec![error.attr("type").unwrap_or_default()];
    words.extend(error.children().filter(|child| child.name() != "text").map(Element::name));
    words.join(" ")
}

fn expect_refusal(client: &mut Client, to: &str, type_: &str, ns: &str, action: &str) -> String {
    error(&ask(client, to, type_, ns, action))
}

/// Returns the form of a configuration.
fn form(fields: &[(&str, &str)]) -> String {
    form_of("http://jabber.org/protocol/pubsub#node_config", fields)
}

/// Returns the form of publish options.
fn options(fields: &[(&str, &str)]) -> String {
    let form = form_of("http://jabber.org/protocol/pubsub#publish-options", fields);
    format!("<publish-options>{form}</publish-options>")
}

fn form_of(form_type: &str, fields: &[(&str, &str)]) -> String {
    let fields = fields.iter().map(|(var, value)| format!("<field var='pubsub#{var}'><value>{value}</value></field>"));
    format!(
        "<x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE' type='hidden'><value>{form_type}</value></field>{}</x>",
        fields.collect::<String>()
    )
}

/// Returns a publication with this id, and a payload whose text is the id.
fn publish(node: &str, id: &str) -> String {
    format!("<publish node='{node}'><item id='{id}'>{}</item></publish>", entry(id))
}

fn entry(text: &str) -> String {
    format!("<entry xmlns='http://www.w3.org/2005/Atom'><title>{text}</title></entry>")
}

/// Returns a notification of one item.
fn notification(from: &str, node: &str, id: &str) -> String {
    format!(
        "<message from='{from}' type='headline' id='*'><event xmlns='{EVENT}'>\
         <items node='{node}'><item id='{id}'>{}</item></items></event></message>",
        entry(id)
    )
}

/// Returns the ids of the items in a reply or a notification, in their order.
fn ids(answer: &Element) -> Vec<String> {
    let lists = answer.children().flat_map(Element::children).filter(|child| child.name() == "items");
    lists.flat_map(Element::children).filter_map(|item| item.attr("id").map(str::to_owned)).collect()
}
