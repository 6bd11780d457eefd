//! XEP-0280: Message Carbons, through the whole server. Section numbers are those of the standard.

mod received;
mod sent;
mod switching;

use rookery_testkit::{Client, Server};
use rookery_xml::{Element, ns};

/// Romeo has two devices that want copies and one that doesn't. Juliet's home is the other shard.
struct CarbonScene {
    server: Server,
    garden: Client,
    home: Client,
    plain: Client,
    juliet: Client,
}

impl CarbonScene {
    fn new() -> Self {
        let server = Server::new();
        let [romeo, juliet] = [("romeo", 0), ("juliet", 1)].map(|(stem, at)| server.name_at(stem, at));
        let mut devices = ["garden", "home", "plain"].map(|resource| server.online(&format!("{romeo}/{resource}")));
        devices.iter_mut().for_each(|device| drop(device.all()));
        let [mut garden, mut home, plain] = devices;
        enable(&mut garden);
        enable(&mut home);
        let juliet = server.online(&format!("{juliet}/balcony"));
        Self { server, garden, home, plain, juliet }
    }

    /// Puts the names of the scene into a text: `ROMEO` is bare, `GARDEN` and `JULIET` are full.
    fn with_names(&self, text: &str) -> String {
        text.replace("ROMEO", self.garden.bare())
            .replace("GARDEN", self.garden.full())
            .replace("JULIET", self.juliet.full())
    }

    fn juliet_sends(&mut self, message: &str) {
        let message = self.with_names(message);
        self.juliet.send(&message);
    }

    fn garden_sends(&mut self, message: &str) {
        let message = self.with_names(message);
        self.garden.send(&message);
    }
}

fn enable(client: &mut Client) {
    let done = client.ask("<iq type='set' id='enable1'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    assert_eq!((done.attr("type"), done.children().count()), (Some("result"), 0));
}

/// Returns the message that a copy has, which is the next stanza of that client.
fn copy(client: &mut Client, name: &str) -> Element {
    let carbon = client.expect_element();
    assert_eq!((carbon.attr("from"), carbon.attr("to")), (Some(client.bare()), Some(client.full())), "{carbon:?}");
    let wrapped = carbon.child(name, ns::CARBONS).and_then(|copy| copy.child("forwarded", ns::FORWARD));
    let message = wrapped.and_then(|forwarded| forwarded.child("message", ns::CLIENT));
    let message = message.unwrap_or_else(|| panic!("no {name} copy: {carbon:?}")).clone();
    assert_eq!(carbon.attr("type"), message.attr("type"));
    message
}

fn body(message: &Element) -> String {
    message.child_text("body", ns::CLIENT).unwrap_or_default()
}
