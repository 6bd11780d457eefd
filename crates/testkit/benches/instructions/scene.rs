//! Servers of the test kit: one shard, no threads, a store in memory, and clients that have just
//! sent something.
//!
//! Every scene has already run once in the same way when the count begins, so that tables have
//! grown and caches are filled.

use std::sync::Arc;

use rookery_hub::{Subject, Trace, TraceExtent};
use rookery_testkit::{Client, Config, Server, befriend};

/// The messages of a chat.
pub const MESSAGES: usize = 64;
/// The number of contacts, occupants and addresses.
const OTHERS: usize = 50;
/// The number of roster changes, and of sessions that get each.
const CHANGES: usize = 8;

/// A server with work to do.
pub struct Scene {
    /// The server, whose work is measured.
    pub server: Server,
    /// The clients that get the results.
    recipients: Vec<Client>,
    /// The number of stanzas that each of them gets.
    stanzas: usize,
}

impl Scene {
    /// Makes one client send a text twice. The first one is handled; the count begins before the
    /// server reads the second.
    fn of(server: Server, sender: &mut Client, recipients: Vec<Client>, stanzas: usize, said: &str) -> Self {
        Self::of_two(server, sender, recipients, stanzas, [said, said])
    }

    /// Makes one client send two texts, for one that would have another effect the second time. The
    /// count begins before the server reads the second.
    fn of_two(server: Server, sender: &mut Client, recipients: Vec<Client>, stanzas: usize, said: [&str; 2]) -> Self {
        let mut scene = Self { server, recipients, stanzas };
        sender.send(said[0]);
        sender.all();
        scene.hear();
        sender.send(said[1]);
        scene
    }

    /// Panics unless every recipient got all stanzas.
    pub fn check(mut self) {
        self.hear();
    }

    fn hear(&mut self) {
        for recipient in &mut self.recipients {
            assert_eq!(recipient.all().len(), self.stanzas, "stanzas for {}", recipient.full());
        }
    }
}

/// Returns a scene in which one account chats with another. `end` is what follows the bare JID in
/// the recipient's address.
pub fn chat(end: &str) -> Scene {
    chats(server(&["archive"]), end)
}

/// Returns a scene in which one account chats with another while an operator traces a third.
pub fn beside_a_trace() -> Scene {
    let server = server(&["archive"]);
    let subject = Subject::parse(&account(0)).expect("an address");
    let extent = TraceExtent { has_contents: false, most_stanzas: 100 };
    server.run_at(0, move |world| {
        world.trace(Arc::new(Trace::new(1, subject, extent, u64::MAX, 1)));
    });
    chats(server, "/bench")
}

/// Returns a scene in which one account chats with another, and both archive the messages.
pub fn archive() -> Scene {
    chats(server(&[]), "/bench")
}

fn chats(server: Server, end: &str) -> Scene {
    let [mut sender, recipient] = [1, 2].map(|number| online(&server, number));
    let text = message(sender.full(), &(recipient.bare().to_owned() + end));
    Scene::of(server, &mut sender, vec![recipient], MESSAGES, &text.repeat(MESSAGES))
}

/// Returns a scene in which an account becomes away and tells all its contacts.
pub fn presence() -> Scene {
    let server = server(&["archive"]);
    let mut sender = online(&server, 0);
    let mut contacts = others(&server);
    for contact in &mut contacts {
        befriend(&mut sender, contact);
    }
    for contact in &mut contacts {
        contact.all();
    }
    Scene::of(server, &mut sender, contacts, 1, PRESENCE)
}

/// Returns a scene in which an occupant sends a message.
pub fn room() -> Scene {
    const ROOM: &str = "room@conference.example.org";
    let server = server(&["archive"]);
    let mut sender = online(&server, 0);
    let mut occupants = others(&server);
    let enter = |client: &mut Client| {
        let nick = client.name.clone();
        client.send(&format!("<presence to='{ROOM}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        client.all();
    };
    enter(&mut sender);
    sender.ask(&format!(
        "<iq type='set' id='open' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>"
    ));
    occupants.iter_mut().for_each(enter);
    for occupant in &mut occupants {
        occupant.all();
    }
    let said = message(sender.full(), ROOM).replace("type='chat'", "type='groupchat'");
    Scene::of(server, &mut sender, occupants, 1, &said)
}

/// Returns a scene in which a message goes to many addresses (XEP-0033).
pub fn multicast() -> Scene {
    let server = server(&["archive"]);
    let mut sender = online(&server, 0);
    let recipients = others(&server);
    let addresses = recipients.iter().map(|client| format!("<address type='to' jid='{}'/>", client.full()));
    let header = "<addresses xmlns='http://jabber.org/protocol/address'>".to_owned();
    let header = header + &addresses.collect::<String>() + "</addresses>";
    let said = message(sender.full(), "multicast.example.org").replace("<body>", &format!("{header}<body>"));
    Scene::of(server, &mut sender, recipients, 1, &said)
}

/// Returns a scene in which a client changes its roster, and all resources of the account get
/// pushes.
pub fn roster() -> Scene {
    let server = server(&["archive"]);
    let resource = |at| {
        let mut client = server.online(&format!("{}/{at}", local(0)));
        client.ask("<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>");
        client
    };
    let mut clients: Vec<_> = (0..=CHANGES).map(resource).collect();
    for client in &mut clients {
        client.all();
    }
    let mut sender = clients.remove(0);
    let change = |at, name| {
        let jid = account(at + 1);
        format!(
            "<iq type='set' id='set{at}'><query xmlns='jabber:iq:roster'><item jid='{jid}' name='{name} {at}'>\
             <group>Friends</group></item></query></iq>"
        )
    };
    let said = ["Contact", "Colleague"].map(|name| (0..CHANGES).map(|at| change(at, name)).collect::<String>());
    Scene::of_two(server.clone(), &mut sender, clients, CHANGES, [&said[0], &said[1]])
}

fn server(off: &[&'static str]) -> Server {
    Server::with(Config { shards: 1, modules_off: off.to_vec(), ..Config::default() })
}

fn online(server: &Server, number: usize) -> Client {
    let mut client = server.online(&(local(number) + "/bench")).with_name(&local(number));
    client.all();
    client
}

fn others(server: &Server) -> Vec<Client> {
    (1..=OTHERS).map(|number| online(server, number)).collect()
}

/// Returns a chat message as clients send it, of [`BYTES`] bytes: it has a body with an entity, a
/// chat state and a request for a receipt.
pub fn message(from: &str, to: &str) -> String {
    let head = format!("<message to='{to}' from='{from}' type='chat' id='9b2f6a1e-5c1d-4f5e'><body>Wherefore &amp; ");
    let tail =
        "</body><active xmlns='http://jabber.org/protocol/chatstates'/><request xmlns='urn:xmpp:receipts'/></message>";
    let room = BYTES.checked_sub(head.len() + tail.len()).expect("short addresses");
    head + &"x".repeat(room) + tail
}

/// Returns the address of an account.
pub fn account(number: usize) -> String {
    local(number) + "@example.org"
}

fn local(number: usize) -> String {
    format!("user{number:04}")
}

/// The bytes of a [`message`].
pub const BYTES: usize = 288;

/// Available presence as clients send it, with entity capabilities (XEP-0115).
const PRESENCE: &str = "<presence><priority>5</priority><show>away</show>\
    <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='https://client.example' ver='QgayPKawpkPSDYmwbVO6khIbUKE='/>\
    </presence>";
