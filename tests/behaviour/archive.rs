//! XEP-0313: Message Archive Management, with XEP-0059, XEP-0359, XEP-0424, XEP-0431 and XEP-0441,
//! through the whole server. Section numbers are those of XEP-0313.

mod ids;
mod paging;
mod preferences;
mod recording;
mod retracting;
mod searching;
mod store;

use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

/// Juliet, and Romeo, whose home is the other shard.
struct ArchiveScene {
    server: Server,
    juliet: Client,
    romeo: Client,
}

/// A page of an archive, as a client has received it.
struct ArchivedPage {
    /// The `id` of each result, with the body of its message.
    messages: Vec<(String, String)>,
    fin: Element,
}

impl ArchiveScene {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let server = Server::with(config);
        let [juliet, romeo] = [("juliet", 0), ("romeo", 1)].map(|(stem, at)| server.name_at(stem, at));
        let juliet = server.online(&format!("{juliet}/balcony"));
        let romeo = server.online(&format!("{romeo}/orchard"));
        Self { server, juliet, romeo }
    }

    /// Puts the names of the scene into a text: `JULIET` and `ROMEO` are bare.
    fn with_names(&self, text: &str) -> String {
        text.replace("JULIET", self.juliet.bare()).replace("ROMEO", self.romeo.bare())
    }

    /// Lets Romeo say something to Juliet, who gets it.
    fn romeo_says(&mut self, body: &str) -> Element {
        let (from, to) = (self.romeo.full().to_owned(), self.juliet.bare().to_owned());
        self.romeo.send(&format!("<message type='chat' to='{to}'><body>{body}</body></message>"));
        self.juliet.expect_message(&from, body)
    }

    /// Lets Romeo say this many things, some time apart: `1`, `2` and so on.
    fn romeo_says_many(&mut self, count: usize) {
        for number in 1..=count {
            self.romeo_says(&number.to_string());
            self.server.advance(1000);
        }
    }
}

/// Asks for a page of the client's own archive, with these fields in the form, then `rest` in the
/// query.
fn page(client: &mut Client, fields: &[(&str, &str)], rest: &str) -> ArchivedPage {
    read_page(client, &query(fields, rest))
}

fn query(fields: &[(&str, &str)], rest: &str) -> String {
    let fields = fields.iter().map(|(var, value)| format!("<field var='{var}'><value>{value}</value></field>"));
    let form = format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'><value>urn:xmpp:mam:2</value></field>{}</x>",
        fields.collect::<String>()
    );
    format!("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2' queryid='f27'>{form}{rest}</query></iq>")
}

fn read_page(client: &mut Client, iq: &str) -> ArchivedPage {
    client.send(iq);
    let mut messages = Vec::new();
    loop {
        let stanza = client.expect_element();
        if stanza.name() == "iq" {
            assert_eq!(stanza.attr("type"), Some("result"), "{stanza:?}");
            let fin = stanza.child("fin", ns::MAM).expect("the end of a page").clone();
            return ArchivedPage { messages, fin };
        }
        assert_eq!(stanza.attr("from"), Some(client.bare()), "{stanza:?}");
        let result = stanza.child("result", ns::MAM).expect("a result");
        assert_eq!(result.attr("queryid"), Some("f27"));
        let forwarded = result.child("forwarded", ns::FORWARD).expect("a forwarded message");
        assert!(forwarded.child("delay", ns::DELAY).is_some_and(|delay| delay.attr("stamp").is_some()));
        let message = forwarded.child("message", ns::CLIENT).expect("a message");
        let body = message.child_text("body", ns::CLIENT).unwrap_or_default();
        messages.push((result.attr("id").expect("an id").to_owned(), body));
    }
}

/// Sends a query, and checks that it fails with this condition.
fn expect_refusal(client: &mut Client, iq: &str, condition: &str) {
    let answer = client.ask(iq);
    let error = answer.child("error", ns::CLIENT).unwrap_or_else(|| panic!("an error was expected, not {answer:?}"));
    assert!(error.child(condition, ns::STANZA_ERRORS).is_some(), "{condition} was expected: {answer:?}");
}

/// Returns a request of RSM with this content.
fn set(content: &str) -> String {
    format!("<set xmlns='http://jabber.org/protocol/rsm'>{content}</set>")
}

impl ArchivedPage {
    fn bodies(&self) -> Vec<&str> {
        self.messages.iter().map(|(_, body)| body.as_str()).collect()
    }

    fn id(&self, at: usize) -> &str {
        &self.messages[at].0
    }

    fn is_complete(&self) -> bool {
        self.fin.attr("complete") == Some("true")
    }

    fn rsm(&self, name: &str) -> Option<String> {
        self.fin.child("set", ns::RSM).expect("a set").child_text(name, ns::RSM)
    }
}
