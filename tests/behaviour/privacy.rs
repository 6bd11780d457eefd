//! XEP-0191: Blocking Command, and XEP-0016: Privacy Lists, through the whole server.

mod blocking;
mod documents;
mod leaks;
mod lists;
mod reports;

use rookery_testkit::{Client, Config, Server, befriend};

/// Juliet, who blocks, on shard 0, and her contact Romeo, whom she blocks, on a shard that the test
/// chooses. Both are available.
struct PrivacyScene {
    server: Server,
    juliet: Client,
    romeo: Client,
}

impl PrivacyScene {
    fn at(shard: usize) -> Self {
        Self::with(shard, Config { federates: true, ..Config::default() })
    }

    fn with(shard: usize, config: Config) -> Self {
        let server = Server::with(config);
        let (one, other) = (server.name_at("juliet", 0), server.name_at("romeo", shard));
        let mut juliet = server.online(&format!("{one}/balcony")).with_name("juliet");
        let mut romeo = server.online(&format!("{other}/orchard")).with_name("romeo");
        befriend(&mut juliet, &mut romeo);
        Self { server, juliet, romeo }
    }

    /// Replaces the names of the scene in a text by its bare JIDs.
    fn with_names(&self, text: &str) -> String {
        text.replace("JULIET", self.juliet.bare()).replace("ROMEO", self.romeo.bare())
    }

    fn play(&mut self, dialogue: &str) {
        let dialogue = self.with_names(dialogue);
        rookery_testkit::play(&mut [&mut self.juliet, &mut self.romeo], &dialogue);
    }

    /// Makes Juliet block Romeo, and discards what both then get.
    fn block(&mut self) {
        let romeo = self.romeo.bare().to_owned();
        block(&mut self.juliet, &[&romeo]);
        self.juliet.all();
        self.romeo.all();
    }
}

/// Blocks addresses. The next element that the client gets is the reply.
fn block(client: &mut Client, jids: &[&str]) {
    let items: String = jids.iter().map(|jid| format!("<item jid='{jid}'/>")).collect();
    client.pump();
    client.send(&format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>{items}</block></iq>"));
    let all = client.all();
    let answer = all.iter().find(|element| element.attr("id") == Some("b")).expect("an answer");
    assert_eq!(answer.attr("type"), Some("result"));
}

const UNAVAILABLE: &str =
    "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
const BLOCKED: &str = "<error type='cancel'><not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
    <blocked xmlns='urn:xmpp:blocking:errors'/></error>";
