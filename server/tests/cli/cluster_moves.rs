//! Nodes of a cluster that are restarted one after the other, under traffic: their sessions and
//! rooms move to the others and back, and nothing is lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::cluster::{ClusterNodes, PATIENCE, USERS};
use super::cluster_client::ClusterClient;
use super::rig::RigServer;

rookery_needs::needing!("cli.cluster":
    all_nodes_are_restarted_one_after_the_other,
    a_node_is_drained_by_a_command,
    a_node_that_is_alone_keeps_its_sessions_for_its_next_start,
);

/// A client that resumes its session whenever its connection is lost (XEP-0198), and records
/// everything that it sends and receives.
pub(super) struct MovesClient {
    pub(super) client: ClusterClient,
    pub(super) user: &'static str,
    id: String,
    /// Stanzas that have been received in this session.
    handled: u32,
    /// Stanzas that were sent but are not yet acknowledged.
    pub(super) unacknowledged: Vec<String>,
    /// The number of acknowledged stanzas.
    acknowledged: u32,
    /// All received messages in their order.
    pub(super) got: Vec<String>,
    /// Their ids in the archive of the account, or of the room.
    pub(super) ids: Vec<String>,
    /// Presence from the room.
    pub(super) presence: Vec<String>,
    pub(super) resumptions: usize,
    pub(super) sent: usize,
}

/// The messages that a client sends in a row to an account, and to a room.
const PER_ROUND: usize = 5;
const ROOMS: [&str; 3] = ["hall@conference.localhost", "yard@conference.localhost", "attic@conference.localhost"];

impl MovesClient {
    pub(super) fn new(user: &'static str, port: u16) -> MovesClient {
        let mut client = ClusterClient::log_in(user, port);
        for room in ROOMS {
            client.send(&format!("<presence to='{room}/{user}'><x xmlns='http://jabber.org/protocol/muc'><history maxstanzas='0'/></x></presence>"));
            client.wait("code='110'");
            client.send(&format!(
                "<iq type='set' id='own' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
                 <x xmlns='jabber:x:data' type='submit'/></query></iq>"
            ));
            client.wait("id='own'");
        }
        MovesClient {
            client,
            user,
            id: String::new(),
            handled: 0,
            unacknowledged: Vec::new(),
            acknowledged: 0,
            got: Vec::new(),
            ids: Vec::new(),
            presence: Vec::new(),
            resumptions: 0,
            sent: 0,
        }
    }

    /// Drops the input from while others entered, and enables stream management.
    pub(super) fn enable(&mut self) {
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            assert!(self.client.exchange(""));
        }
        self.client.got.clear();
        self.client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        let enabled = self.client.wait("/>");
        let enabled =
            if enabled.contains("<enabled") { enabled } else { self.client.wait("<enabled") + &self.client.wait("/>") };
        self.id = between(&enabled, "id='", "'").expect("an id").to_owned();
    }

    /// Sends messages to an account, and to a room.
    fn write(&mut self, to: &str, room: &str) {
        for _ in 0..PER_ROUND {
            self.add(to, room);
        }
        self.exchange("");
    }

    fn add(&mut self, to: &str, room: &str) {
        let text = format!("{} {}", self.user, self.sent);
        self.sent += 1;
        let all = [
            format!("<message type='chat' id='c{text}' to='{to}'><body>{text}</body></message>"),
            format!("<message type='groupchat' id='g{text}' to='{room}'><body>{text}</body></message>"),
        ];
        self.unacknowledged.extend(all.iter().cloned());
        self.client.write(&format!("{}<r xmlns='urn:xmpp:sm:3'/>", all.concat()));
    }

    /// Sends text and processes the available input; `false` if the connection is lost.
    pub(super) fn exchange(&mut self, text: &str) -> bool {
        let is_there = self.client.exchange(text);
        self.take();
        is_there
    }

    /// Removes whole stanzas from the input.
    fn take(&mut self) {
        loop {
            let got = &self.client.got;
            let Some(start) = got.find('<') else { return };
            let rest = &got[start..];
            let name: String = rest[1..].chars().take_while(|c| c.is_ascii_alphabetic()).collect();
            let Some(head) = rest.find('>') else { return };
            let len = match rest[..head].ends_with('/') {
                true => head + 1,
                false => match rest.find(&format!("</{name}>")) {
                    Some(at) => at + name.len() + 3,
                    None => return,
                },
            };
            let stanza = rest[..len].to_owned();
            self.client.got.drain(..start + len);
            match name.as_str() {
                "message" | "presence" | "iq" => self.handled += 1,
                "a" => self.acknowledge(between(&stanza, "h='", "'").and_then(|h| h.parse().ok()).expect("a number")),
                "r" => drop(self.client.exchange(&format!("<a xmlns='urn:xmpp:sm:3' h='{}'/>", self.handled))),
                _ => panic!("{}: {stanza}", self.user),
            }
            if name == "presence" && stanza.contains("conference") {
                self.presence.push(stanza);
            } else if name == "message"
                && let Some(body) = between(&stanza, "<body>", "</body>")
            {
                let room = stanza.contains("type='groupchat'").then(|| between(&stanza, "from='", "/")).flatten();
                self.got.push(format!("{} {body}", room.unwrap_or("chat")));
                let id = between(&stanza, "<stanza-id", "/>").and_then(|id| between(id, " id='", "'"));
                self.ids.push(id.unwrap_or_default().to_owned());
            }
        }
    }

    fn acknowledge(&mut self, h: u32) {
        let new = h - self.acknowledged;
        self.unacknowledged.drain(..new as usize);
        self.acknowledged = h;
    }

    /// Resumes the session through one of these ports.
    pub(super) fn come_back(&mut self, ports: &[u16]) {
        let until = Instant::now() + PATIENCE;
        for port in ports.iter().cycle() {
            assert!(Instant::now() < until, "{} is let in again", self.user);
            let Some(mut client) = ClusterClient::try_log_in(self.user, *port) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='{}'/>", self.id, self.handled);
            let mut is_there = client.exchange(&resume);
            while is_there && !client.got.contains("<resumed") && !client.got.contains("<failed") {
                assert!(Instant::now() < until, "{}: neither resumed nor refused", self.user);
                is_there = client.exchange("");
            }
            if !is_there {
                continue;
            }
            assert!(!client.got.contains("<failed"), "{}: the session is lost: {}", self.user, client.got);
            let at = client.got.find("<resumed").expect("resumed");
            let end = at + client.got[at..].find('>').expect("its end") + 1;
            let h = between(&client.got[at..end], "h='", "'").and_then(|h| h.parse().ok()).expect("a number");
            client.got.drain(..end);
            self.acknowledge(h);
            self.resumptions += 1;
            client.jid.clone_from(&self.client.jid);
            self.client = client;
            self.exchange(&format!("{}<r xmlns='urn:xmpp:sm:3'/>", self.unacknowledged.concat()));
            return;
        }
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

/// Sends messages from all clients for a while, and resumes sessions as needed.
pub(super) fn write_while(
    clients: &mut [MovesClient],
    ports: &[u16],
    rounds: &mut usize,
    mut goes_on: impl FnMut() -> bool,
) {
    let until = Instant::now() + PATIENCE;
    loop {
        let is_last = !goes_on();
        assert!(Instant::now() < until, "it has not happened in {rounds} rounds");
        for at in 0..clients.len() {
            let to = clients[(at + *rounds) % clients.len()].client.jid.clone();
            clients[at].write(&to, ROOMS[(at + *rounds) % ROOMS.len()]);
            if !clients[at].exchange("") {
                clients[at].come_back(ports);
            }
        }
        *rounds += 1;
        if is_last {
            return;
        }
    }
}

mod test {
    use super::*;

    pub fn all_nodes_are_restarted_one_after_the_other() {
        let nodes = ClusterNodes::patient(3);
        let mut running: Vec<Option<(RigServer, u16)>> = (0..3).map(|node| Some(nodes.serve(node))).collect();
        ["n1", "n2", "n3"].iter().for_each(|node| nodes.wait_for(node, "up"));
        let ports = |running: &[Option<(RigServer, u16)>]| -> Vec<u16> {
            running.iter().flatten().map(|(_, port)| *port).collect()
        };
        let all = ports(&running);
        let mut clients: Vec<MovesClient> =
            USERS[..9].iter().enumerate().map(|(at, user)| MovesClient::new(user, all[at % 3])).collect();
        clients.iter_mut().for_each(MovesClient::enable);
        let mut rounds = 0;
        write_while(&mut clients, &all, &mut rounds, || false);
        for node in 0..3 {
            let begun = Instant::now();
            let (server, _) = running[node].take().expect("it runs");
            let others = ports(&running);
            let stopping = std::thread::spawn(move || server.stop());
            write_while(&mut clients, &others, &mut rounds, || !stopping.is_finished());
            assert_eq!(stopping.join().expect("a code"), 0);
            println!("n{} has ended after {:?}, round {rounds}", node + 1, begun.elapsed());
            let again = std::thread::scope(|scope| {
                let again = scope.spawn(|| nodes.serve(node));
                write_while(&mut clients, &others, &mut rounds, || !again.is_finished());
                again.join().expect("it starts")
            });
            running[node] = Some(again);
            println!("n{} is back after {:?}, round {rounds}", node + 1, begun.elapsed());
            write_while(&mut clients, &ports(&running), &mut rounds, || false);
        }
        let all = ports(&running);
        let until = Instant::now() + PATIENCE;
        let expected: usize = clients.iter().map(|client| client.sent).sum();
        let is_done = |clients: &[MovesClient]| {
            let chats: usize =
                clients.iter().flat_map(|client| &client.got).filter(|text| text.starts_with("chat ")).count();
            let said = clients.iter().all(|client| client.got.len() - chats_of(client) >= expected);
            chats >= expected && said && clients.iter().all(|client| client.unacknowledged.is_empty())
        };
        while !is_done(&clients) && Instant::now() < until {
            for client in &mut clients {
                if !client.exchange("<r xmlns='urn:xmpp:sm:3'/>") {
                    client.come_back(&all);
                }
            }
        }
        let resumptions: Vec<usize> = clients.iter().map(|client| client.resumptions).collect();
        println!("{rounds} rounds, {expected} messages to each of accounts and rooms; resumptions {resumptions:?}");
        for client in &clients {
            let mut last = HashMap::<(String, String), usize>::new();
            for text in &client.got {
                let mut parts = text.split(' ');
                let (place, user, number) = (parts.next(), parts.next(), parts.next());
                let number: usize = number.and_then(|number| number.parse().ok()).expect("a number");
                let key = (place.expect("a place").to_owned(), user.expect("a user").to_owned());
                let before = last.insert(key.clone(), number);
                assert!(
                    before.is_none_or(|before| before < number),
                    "{}: {key:?} {number} after {before:?}",
                    client.user
                );
            }
            let said = client.got.len() - chats_of(client);
            assert_eq!(said, expected, "{} has heard all that was said in rooms", client.user);
            assert_eq!(client.presence, [""; 0], "{}: nobody came or went", client.user);
        }
        let chats: usize = clients.iter().map(chats_of).sum();
        assert_eq!(chats, expected);
        assert!(resumptions.iter().sum::<usize>() > clients.len(), "{resumptions:?}");
    }

    fn chats_of(client: &MovesClient) -> usize {
        client.got.iter().filter(|text| text.starts_with("chat ")).count()
    }

    pub fn a_node_that_is_alone_keeps_its_sessions_for_its_next_start() {
        let nodes = ClusterNodes::patient(2);
        let (first, port) = nodes.serve(0);
        let mut clients: Vec<MovesClient> = USERS[..4].iter().map(|user| MovesClient::new(user, port)).collect();
        clients.iter_mut().for_each(MovesClient::enable);
        let mut rounds = 0;
        write_while(&mut clients, &[port], &mut rounds, || false);
        assert_eq!(first.stop(), 0);
        // Another node has joined meanwhile, and has some of the homes.
        let (_second, other) = nodes.serve(1);
        let (_first, port) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        let jids: Vec<String> = clients.iter().map(|client| client.client.jid.clone()).collect();
        for client in &mut clients {
            client.come_back(&[other, port]);
            client.write(&jids[0], ROOMS[0]);
        }
        let until = Instant::now() + PATIENCE;
        let heard = |client: &MovesClient| client.got.iter().filter(|text| text.ends_with(" 9")).count();
        while clients.iter().any(|client| heard(client) < jids.len()) {
            let heard: Vec<usize> = clients.iter().map(heard).collect();
            assert!(Instant::now() < until, "what is said in a room that has waited is heard: {heard:?}");
            for client in &mut clients {
                if !client.exchange("") {
                    client.come_back(&[other, port]);
                }
            }
        }
        assert!(clients.iter().all(|client| client.presence.is_empty()));
    }

    pub fn a_node_is_drained_by_a_command() {
        let nodes = ClusterNodes::patient(2);
        let (first, port) = nodes.serve(0);
        nodes.wait_for("n1", "up");
        nodes.run(0, &["node", "drain"]).expect_failure(1, "no other node is up");
        nodes.run(0, &["node", "drain", "n7"]).expect_failure(1, "no node \"n7\"");
        let (second, _) = nodes.serve(1);
        let mut clients: Vec<MovesClient> = USERS[..4].iter().map(|user| MovesClient::new(user, port)).collect();
        clients.iter_mut().for_each(MovesClient::enable);
        nodes.run(0, &["node", "drain", "n2"]).fine();
        let (code, log) = second.wait();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("other nodes of the cluster have taken over everything from this one"), "{log}");
        nodes.wait_until_taken_over("n2");
        let mut rounds = 0;
        write_while(&mut clients, &[port], &mut rounds, || false);
        assert_eq!(first.stop(), 0);
    }
}
