//! Nodes of a cluster that are killed one after the other, under traffic: sessions continue on the
//! others, rooms keep their occupants, and nothing is lost.

use std::collections::HashMap;
use std::time::Instant;

use super::cluster::{ClusterNodes, PATIENCE, USERS};
use super::cluster_moves::{MovesClient, write_while};
use super::rig::RigServer;

rookery_needs::needing!("cli.cluster":
    sessions_and_rooms_survive_the_nodes_that_are_killed,
    nobody_on_the_other_nodes_is_disconnected,
);

mod test {
    use super::*;

    pub fn sessions_and_rooms_survive_the_nodes_that_are_killed() {
        let nodes = ClusterNodes::new(3);
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
            let name = format!("n{}", node + 1);
            drop(running[node].take());
            let others = ports(&running);
            let killed = Instant::now();
            write_while(&mut clients, &others, &mut rounds, || nodes.lists(&name));
            println!("{name} was taken over from after {:?}, round {rounds}", killed.elapsed());
            write_while(&mut clients, &others, &mut rounds, || false);
            let again = std::thread::scope(|scope| {
                let again = scope.spawn(|| nodes.serve(node));
                write_while(&mut clients, &others, &mut rounds, || !again.is_finished());
                again.join().expect("it starts")
            });
            running[node] = Some(again);
            nodes.wait_for(&name, "up");
        }
        let all = ports(&running);
        let expected: usize = clients.iter().map(|client| client.sent).sum();
        let until = Instant::now() + PATIENCE;
        while !is_done(&clients, expected) && Instant::now() < until {
            for client in &mut clients {
                if !client.exchange("<r xmlns='urn:xmpp:sm:3'/>") {
                    client.come_back(&all);
                }
            }
        }
        let resumptions: Vec<usize> = clients.iter().map(|client| client.resumptions).collect();
        println!("{rounds} rounds, {expected} messages to each of accounts and rooms; resumptions {resumptions:?}");
        let mut again = 0;
        for client in &clients {
            let (chats, said) = different(client);
            assert!(client.unacknowledged.is_empty(), "{}: all is acknowledged", client.user);
            assert_eq!(said, expected, "{} has heard all that was said in rooms", client.user);
            assert_eq!(client.presence, [""; 0], "{}: nobody came or went", client.user);
            again += client.got.len() - chats - said;
            let mut known = HashMap::<&str, &str>::new();
            for (text, id) in client.got.iter().zip(&client.ids) {
                let first = known.entry(text).or_insert(id);
                assert!(first == id && !id.is_empty(), "{}: {text} has the ids {first} and {id}", client.user);
            }
        }
        println!("{again} came again");
        let chats: usize = clients.iter().map(|client| different(client).0).sum();
        assert_eq!(chats, expected, "all has come that was sent to accounts");
        assert!(resumptions.iter().sum::<usize>() >= clients.len(), "{resumptions:?}");
    }

    /// Connects all to the first node, with homes on three; kills one of those, which returns, and
    /// restarts the other one in order.
    pub fn nobody_on_the_other_nodes_is_disconnected() {
        let nodes = ClusterNodes::new(3);
        let mut running: Vec<Option<(RigServer, u16)>> = (0..3).map(|node| Some(nodes.serve(node))).collect();
        ["n1", "n2", "n3"].iter().for_each(|node| nodes.wait_for(node, "up"));
        let port = running[0].as_ref().map_or(0, |(_, port)| *port);
        let mut clients: Vec<MovesClient> = USERS.iter().map(|user| MovesClient::new(user, port)).collect();
        clients.iter_mut().for_each(MovesClient::enable);
        let mut rounds = 0;
        write_while(&mut clients, &[port], &mut rounds, || false);
        for (node, name) in [(1, "n2"), (2, "n3")] {
            match running[node].take() {
                Some((server, _)) if node == 2 => assert_eq!(server.stop(), 0),
                killed => drop(killed),
            }
            write_while(&mut clients, &[port], &mut rounds, || nodes.lists(name));
            write_while(&mut clients, &[port], &mut rounds, || false);
            running[node] = Some(nodes.serve(node));
            nodes.wait_for(name, "up");
            write_while(&mut clients, &[port], &mut rounds, || false);
        }
        let expected: usize = clients.iter().map(|client| client.sent).sum();
        let until = Instant::now() + PATIENCE;
        while !is_done(&clients, expected) && Instant::now() < until {
            for client in &mut clients {
                assert!(client.exchange("<r xmlns='urn:xmpp:sm:3'/>"), "{} is connected", client.user);
            }
        }
        let resumptions: Vec<usize> = clients.iter().map(|client| client.resumptions).collect();
        println!("{rounds} rounds, {expected} messages to each of accounts and rooms");
        assert_eq!(resumptions, vec![0; clients.len()], "nobody was disconnected");
        assert!(is_done(&clients, expected), "all has come, and is acknowledged");
        for client in &clients {
            assert_eq!(client.presence, [""; 0], "{}: nobody came or went", client.user);
        }
    }

    /// Counts the different messages to a client, and in its rooms.
    fn different(client: &MovesClient) -> (usize, usize) {
        let all: std::collections::HashSet<&str> = client.got.iter().map(String::as_str).collect();
        let chats = all.iter().filter(|text| text.starts_with("chat ")).count();
        (chats, all.len() - chats)
    }

    fn is_done(clients: &[MovesClient], expected: usize) -> bool {
        let chats: usize = clients.iter().map(|client| different(client).0).sum();
        let have_heard = clients.iter().all(|client| different(client).1 >= expected);
        chats >= expected && have_heard && clients.iter().all(|client| client.unacknowledged.is_empty())
    }
}
