//! A node of a cluster that is killed under load: everything acknowledged is kept.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::cluster::{ClusterNodes, PATIENCE, USERS};
use super::cluster_client::ClusterClient;

rookery_needs::needing!("cli.cluster": a_node_is_killed_under_load, a_node_over_mariadb_is_killed_under_load);

/// A client that writes to all users, and counts the acknowledgements.
struct Sender {
    client: ClusterClient,
    name: usize,
    sent: Vec<(usize, String)>,
    acknowledged: usize,
    /// The ids of messages that came back as errors.
    refused: HashSet<String>,
    has_ended: bool,
}

impl Sender {
    fn new(name: usize, port: u16) -> Sender {
        let mut client = ClusterClient::bind(USERS[name], "sender", port);
        enter(&mut client, &format!("sender{name}"));
        client.send("<enable xmlns='urn:xmpp:sm:3'/>");
        client.wait("<enabled");
        Sender { client, name, sent: Vec::new(), acknowledged: 0, refused: HashSet::new(), has_ended: false }
    }

    /// Sends a message to each user, and a private one in each room, requests an acknowledgement
    /// and reads the available input.
    fn write(&mut self, round: usize) {
        let mut all = String::new();
        let mut write = |to: String, at| {
            let text = format!("{round} of {} to {to}", self.name);
            all.push_str(&format!("<message type='chat' id='{text}' to='{to}'><body>{text}</body></message>"));
            self.sent.push((at, text));
        };
        USERS.iter().enumerate().for_each(|(at, user)| write(format!("{user}@localhost"), at));
        let at = (round + self.name) % USERS.len();
        ROOMS.iter().for_each(|room| write(format!("{room}/{}", USERS[at]), at));
        self.exchange(&format!("{all}<r xmlns='urn:xmpp:sm:3'/>"));
    }

    fn exchange(&mut self, text: &str) {
        if self.has_ended {
            return;
        }
        self.has_ended = !self.client.exchange(text);
        if self.has_ended {
            println!("sender {}: the stream has ended behind {:?}", self.name, self.client.got);
        }
        for part in self.client.got.split("<a ").skip(1) {
            let count = part.split("h='").nth(1).and_then(|rest| rest.split('\'').next());
            self.acknowledged = count.and_then(|count| count.parse().ok()).unwrap_or(self.acknowledged);
        }
        for part in self.client.got.split("<message ").skip(1) {
            let start = part.split('>').next().unwrap_or_default();
            if start.contains("type='error'") {
                let id = start.split("id='").nth(1).and_then(|rest| rest.split('\'').next());
                self.refused.extend(id.map(str::to_owned));
            }
        }
        // An incomplete element is looked at again next time.
        let rest = self.client.got.rfind("<a ").unwrap_or_default();
        self.client.got.drain(..rest);
    }

    fn is_done(&self) -> bool {
        self.has_ended || self.acknowledged == self.sent.len()
    }
}

/// Enters all rooms under a nick, and configures those that are new.
fn enter(client: &mut ClusterClient, nick: &str) {
    for room in ROOMS {
        client.send(&format!("<presence to='{room}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        client.wait("code='110'");
        client.send(&format!(
            "<iq type='set' id='own' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'/></query></iq>"
        ));
        // Occupants other than the owner get an error.
        client.wait("id='own'");
    }
}

/// Enough that all are at home on one node in only one of nine runs.
const ROOMS: [&str; 3] = ["hall@conference.localhost", "yard@conference.localhost", "attic@conference.localhost"];

/// Returns the bodies in a client's input.
fn bodies(got: &str) -> impl Iterator<Item = String> {
    got.split("<body>").skip(1).filter_map(|rest| Some(rest.split_once("</body>")?.0.to_owned()))
}

/// Returns the bodies in the archive of an account.
fn archived_bodies(user: &str, port: u16) -> Vec<String> {
    let (mut client, mut found, mut after) = (ClusterClient::bind(user, "archive", port), Vec::new(), String::new());
    for page in 0.. {
        client.send(&format!(
            "<iq type='set' id='m{page}'><query xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'>\
             <max>100</max>{after}</set></query></iq>"
        ));
        let got = client.wait("</fin>");
        found.extend(bodies(&got));
        let last = got.split("<last>").nth(1).and_then(|rest| rest.split("</last>").next());
        match last.filter(|_| !got.contains("complete='true'")) {
            Some(last) => after = format!("<after>{last}</after>"),
            None => break,
        }
    }
    found
}

mod test {
    use super::*;

    /// Writes until a condition holds, and a few rounds more.
    fn write_until(
        senders: &mut [Sender],
        receivers: &mut [ClusterClient],
        rounds: &mut usize,
        mut has: impl FnMut() -> bool,
    ) {
        let until = Instant::now() + PATIENCE;
        let mut more = 5;
        while more > 0 {
            assert!(Instant::now() < until, "it has not happened in {rounds} rounds");
            senders.iter_mut().for_each(|sender| sender.write(*rounds));
            receivers.iter_mut().for_each(|receiver| _ = receiver.exchange(""));
            *rounds += 1;
            more -= usize::from(has());
        }
    }

    pub fn a_node_is_killed_under_load() {
        kill_one(&ClusterNodes::new(3));
    }

    pub fn a_node_over_mariadb_is_killed_under_load() {
        kill_one(&ClusterNodes::over_mariadb(3));
    }

    fn kill_one(nodes: &ClusterNodes) {
        let (first, second, third) = (nodes.serve(0), nodes.serve(1), nodes.serve(2));
        let ports = [first.1, second.1, third.1];
        ["n1", "n2", "n3"].iter().for_each(|node| nodes.wait_for(node, "up"));
        let mut receivers: Vec<ClusterClient> =
            USERS.iter().enumerate().map(|(at, user)| ClusterClient::log_in(user, ports[at % 3])).collect();
        USERS.iter().zip(&mut receivers).for_each(|(user, receiver)| enter(receiver, user));
        let mut senders: Vec<Sender> = (0..12).map(|at| Sender::new(at, ports[at % 3])).collect();
        let mut rounds = 0;
        write_until(&mut senders, &mut receivers, &mut rounds, || true);
        drop(third);
        let killed = Instant::now();
        write_until(&mut senders, &mut receivers, &mut rounds, || !nodes.lists("n3"));
        println!("taken over after {:?}, {rounds} rounds", killed.elapsed());
        let until = Instant::now() + PATIENCE;
        while senders.iter().any(|sender| !sender.is_done()) {
            assert!(Instant::now() < until, "what was sent to accounts of the dead node is acknowledged");
            senders.iter_mut().for_each(|sender| sender.exchange("<r xmlns='urn:xmpp:sm:3'/>"));
            receivers.iter_mut().for_each(|receiver| _ = receiver.exchange(""));
        }
        let survived = senders.iter().filter(|sender| !sender.has_ended).count();
        let acknowledged: usize = senders.iter().map(|sender| sender.acknowledged).sum();
        println!("{survived} senders are still there; {acknowledged} messages are acknowledged");
        assert!(survived > 0);

        let mut untouched = 0;
        let found: Vec<HashSet<String>> = receivers
            .into_iter()
            .enumerate()
            .map(|(at, receiver)| {
                let user = USERS[at];
                let mut so_far = receiver.got.clone();
                if let Some(receiver) = receiver.while_served() {
                    // Its home is on a surviving node: it has received everything itself.
                    untouched += 1;
                    return bodies(&receiver.got).collect();
                }
                let mut again = ClusterClient::log_in(user, ports[at % 2]);
                let until = Instant::now() + Duration::from_secs(1);
                while Instant::now() < until {
                    assert!(again.exchange(""), "{user} is served again");
                }
                so_far.push_str(&again.got);
                bodies(&so_far).chain(archived_bodies(user, ports[0])).collect()
            })
            .collect();
        println!("{untouched} of {} clients were not disconnected", USERS.len());
        assert!((1..USERS.len()).contains(&untouched));
        for sender in &senders {
            for (to, text) in sender.sent.iter().take(sender.acknowledged) {
                let is_told = sender.refused.contains(text) && text.contains("conference");
                assert!(is_told || found[*to].contains(text), "{text} was acknowledged and is lost");
            }
        }
        // The node returns, and everything is as before.
        let (_third, port) = nodes.serve(2);
        nodes.wait_for("n3", "up");
        let mut back = ClusterClient::log_in(USERS[0], port);
        let jid = back.jid.clone();
        let mut other = ClusterClient::log_in(USERS[1], ports[0]);
        other.send(&format!("<message type='chat' to='{jid}'><body>welcome back</body></message>"));
        back.wait("welcome back");
        drop((first, second));
    }
}
