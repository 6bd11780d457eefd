//! Nodes whose items come from outside the server (XEP-0060), through the whole server. The test
//! provides the items. Section numbers are those of XEP-0060.

mod errors;
mod limits;
mod nodes;
mod rooms;

use std::sync::{Arc, Mutex};

use rookery_hub::Value;
use rookery_pubsub::data::{DataListed, DataSource, Description, Reading, Topic, deliver};
use rookery_testkit::client::xml;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::Element;

const SERVICE: &str = "data.example.org";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const EVENT: &str = "http://jabber.org/protocol/pubsub#event";

/// Knows nodes `a` to `z`, and what was opened.
#[derive(Default)]
struct DataOutside {
    /// With the shard of each.
    open: Mutex<Vec<(Arc<Topic>, usize)>>,
}

impl DataSource for DataOutside {
    fn describe(&self, node: &str) -> Result<Description, String> {
        match node.as_bytes() {
            [b'a'..=b'z'] => Ok(Description {
                title: format!("Node {node}"),
                about: "something outside".into(),
                payload: "urn:example:outside",
                units: "blip".into(),
            }),
            _ => Err(format!("{node}: no such device")),
        }
    }

    fn nodes(&self) -> Arc<[DataListed]> {
        (b'a'..=b'z')
            .map(|letter| char::from(letter).to_string())
            .map(|node| DataListed { title: format!("Node {node}"), node })
            .collect()
    }

    fn open(&self, topic: &Arc<Topic>, shard: usize) {
        let mut open = self.open.lock().expect("no test panics here");
        assert!(open.iter().all(|(other, _)| other != topic), "{topic:?} is opened twice");
        open.push((topic.clone(), shard));
    }

    fn close(&self, topic: &Topic) {
        let mut open = self.open.lock().expect("no test panics here");
        let place = open.iter().position(|(other, _)| **other == *topic);
        open.remove(place.unwrap_or_else(|| panic!("{topic:?} is closed and was not open")));
    }
}

/// A service, and two users whose homes are the two shards.
struct DataScene {
    outside: Arc<DataOutside>,
    server: Server,
    hamlet: Client,
    francisco: Client,
}

impl DataScene {
    fn new() -> Self {
        Self::with(&[])
    }

    /// Makes the scene with these options of the module.
    fn with(options: &[(&'static str, Value)]) -> Self {
        let outside = Arc::new(DataOutside::default());
        let mut config = Config { source: Some(outside.clone()), ..Config::default() };
        // A module with an option is on.
        config.options.push(("data", "name", Value::Text("Outside".into())));
        config.options.extend(options.iter().map(|(key, value)| ("data", *key, value.clone())));
        let server = Server::with(config);
        let [hamlet, francisco] =
            [("hamlet", 0), ("francisco", 1)].map(|(stem, at)| format!("{}/r", server.name_at(stem, at)));
        let (hamlet, francisco) = (server.online(&hamlet), server.online(&francisco));
        Self { outside, server, hamlet, francisco }
    }

    /// Returns the names of the open nodes.
    fn open(&self) -> Vec<String> {
        let mut open: Vec<_> = self
            .outside
            .open
            .lock()
            .expect("no test panics here")
            .iter()
            .map(|(topic, _)| topic.node.clone())
            .collect();
        open.sort_unstable();
        open
    }

    /// Lets a reading come in from outside.
    fn read(&self, node: &str, text: &str) {
        let open = self.outside.open.lock().expect("no test panics here").clone();
        let (topic, shard) = open.into_iter().find(|(topic, _)| topic.node == node).expect("it is open");
        let payload = Element::new("reading", "urn:example:outside").with_text(text);
        self.server.run_at(shard, move |world| deliver(world, vec![(topic, Reading { payload, unix_ms: 0 })]));
    }
}

fn ask(client: &mut Client, type_: &str, ns: &str, action: &str) -> Element {
    client.ask(&format!("<iq type='{type_}' id='q' to='{SERVICE}'><pubsub xmlns='{ns}'>{action}</pubsub></iq>"))
}

/// Sends a request that succeeds.
fn succeed(client: &mut Client, type_: &str, action: &str) -> Element {
    let answer = ask(client, type_, PUBSUB, action);
    assert_eq!(answer.attr("type"), Some("result"), "{}", xml(&answer));
    answer
}

/// Returns the error of a request that fails, as `type condition specific`.
fn expect_refusal(client: &mut Client, type_: &str, ns: &str, action: &str) -> String {
    words(&ask(client, type_, ns, action))
}

fn words(answer: &Element) -> String {
    let error = answer.children().find(|child| child.name() == "error").unwrap_or_else(|| panic!("{}", xml(answer)));
    let mut words = vec![error.attr("type").unwrap_or_default()];
    words.extend(error.children().filter(|child| child.name() != "text").map(Element::name));
    words.join(" ")
}

/// Subscribes the client's account, which succeeds.
fn subscribe(client: &mut Client, node: &str) -> Element {
    let action = format!("<subscribe node='{node}' jid='{}'/>", client.bare());
    succeed(client, "set", &action)
}

fn unsubscribe(client: &mut Client, node: &str) -> Element {
    let action = format!("<unsubscribe node='{node}' jid='{}'/>", client.bare());
    succeed(client, "set", &action)
}

/// Returns the form of a subscription's options.
fn options(fields: &[(&str, &str)]) -> String {
    let fields = fields.iter().map(|(var, value)| format!("<field var='pubsub#{var}'><value>{value}</value></field>"));
    format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
         <value>http://jabber.org/protocol/pubsub#subscribe_options</value></field>{}</x>",
        fields.collect::<String>()
    )
}

/// Returns a notification of the reading with that text; `more` stands behind it.
fn notification(node: &str, text: &str, more: &str) -> String {
    format!(
        "<message from='{SERVICE}' type='headline' id='*'><event xmlns='{EVENT}'><items node='{node}'><item id='current'>\
         <reading xmlns='urn:example:outside'>{text}</reading></item></items></event>{more}</message>"
    )
}
