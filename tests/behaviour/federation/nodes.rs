//! A cluster and other servers: the streams to a domain are at its home, and its own server may
//! call any node.

use rookery_testkit::client::xml;
use rookery_testkit::{Client, Config, Internet, Security, Server};

use super::{chat, names, plain, server, start};

/// Returns a cluster of two nodes of two shards each, and two other servers: the home of the first
/// one's domain is on the first node, that of the second one's on the second.
fn scene() -> (Server, Server, Server) {
    let internet = Internet::default();
    let config = Config { shards: 4, nodes: 2, ..Config::default() };
    let cluster = start("a.example", config, internet.meeting(&names("a.example"), plain));
    let at = |node: usize| {
        let domains = (0..).map(|number| format!("b{number}.example"));
        let domain = domains.into_iter().find(|domain| cluster.home_of_domain(domain) / 2 == node);
        server(&internet, &domain.expect("some domain is at home there"), plain)
    };
    let (one, other) = (at(0), at(1));
    (cluster, one, other)
}

/// Logs a user in whose home is a shard, and who connects to another one.
fn at_home(cluster: &Server, stem: &str, home: usize) -> Client {
    let account = cluster.account(&cluster.name_at(stem, home));
    let mut client = cluster.connect_at((home + 3) % 4);
    client.log_in(&account, Security::Plain);
    client.bind("phone");
    client.send("<presence/>");
    client.expect_presence_of_itself();
    client
}

fn juliet(server: &Server) -> Client {
    server.online(&format!("juliet@{}/balcony", server.domain()))
}

#[test]
fn users_of_all_nodes_chat_with_other_servers_whichever_node_these_call() {
    let (cluster, one, other) = scene();
    for server in [&one, &other] {
        let mut juliet = juliet(server);
        // Idle streams end, and the next ones are with the next shard of the next node.
        for round in 0..6 {
            let mut romeos: Vec<Client> = (0..4).map(|home| at_home(&cluster, "romeo", home)).collect();
            for (home, romeo) in romeos.iter_mut().enumerate() {
                for number in 0..5 {
                    chat(&mut juliet, romeo.full(), &format!("{round}.{home}.{number}"));
                }
                let expected: Vec<_> = (0..5).map(|number| format!("{round}.{home}.{number}")).collect();
                assert_eq!(romeo.bodies(), expected);
                chat(romeo, juliet.full(), "yes");
                juliet.expect_message(romeo.full(), "yes");
                romeo.close();
            }
            cluster.advance(3_600_000);
            juliet.all();
        }
    }
}

#[test]
fn contacts_of_a_cluster_and_another_server_see_each_other() {
    let (cluster, one, other) = scene();
    for (server, home) in [(&one, 2), (&other, 0), (&other, 3)] {
        let mut romeo = at_home(&cluster, "mercutio", home);
        let mut juliet = juliet(server);
        let (romeos, juliets) = (romeo.bare().to_owned(), juliet.bare().to_owned());
        for client in [&mut romeo, &mut juliet] {
            client.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        }
        romeo.send(&format!("<presence type='subscribe' to='{juliets}'/>"));
        juliet.all();
        juliet.send(&format!("<presence type='subscribed' to='{romeos}'/>"));
        let seen = |client: &mut Client| client.all().iter().map(xml).collect::<String>();
        let told = seen(&mut romeo);
        assert!(told.contains("type='subscribed'") && told.contains(&format!("from='{juliets}/balcony'")), "{told}");
        juliet.send("<presence><show>away</show></presence>");
        assert!(seen(&mut romeo).contains("<show>away</show>"));
        juliet.vanish();
        assert!(seen(&mut romeo).contains("type='unavailable'"));
        romeo.close();
    }
}

#[test]
fn a_room_of_a_cluster_has_occupants_of_other_servers() {
    let (cluster, one, other) = scene();
    let mut all = vec![at_home(&cluster, "romeo", 0), at_home(&cluster, "romeo", 3), juliet(&one), juliet(&other)];
    let room = "verona@conference.a.example";
    for (at, client) in all.iter_mut().enumerate() {
        client.send(&format!("<presence to='{room}/nick{at}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        client.all();
        if at == 0 {
            client.send(&format!(
                "<iq type='set' id='c' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
                 <x xmlns='jabber:x:data' type='submit'/></query></iq>"
            ));
            client.all();
        }
    }
    all.iter_mut().for_each(|client| drop(client.all()));
    for at in 0..4 {
        let text = format!("from {at}");
        all[at].send(&format!("<message type='groupchat' to='{room}'><body>{text}</body></message>"));
        for client in &mut all {
            assert_eq!(client.bodies(), std::slice::from_ref(&text));
        }
    }
}

#[test]
fn requests_of_a_cluster_are_answered_and_a_dead_server_is_told_of() {
    let (cluster, one, other) = scene();
    for (server, home) in [(&one, 3), (&other, 1)] {
        let mut romeo = at_home(&cluster, "romeo", home);
        let there = server.domain();
        for number in 0..3 {
            let answer =
                romeo.ask(&format!("<iq type='get' id='p{number}' to='{there}'><ping xmlns='urn:xmpp:ping'/></iq>"));
            assert_eq!((answer.attr("type"), answer.attr("from")), (Some("result"), Some(&*there)));
            cluster.advance(3_600_000);
        }
        server.stop();
        server.advance(20_000);
        let gone = romeo.ask(&format!("<iq type='get' id='g' to='{there}'><ping xmlns='urn:xmpp:ping'/></iq>"));
        assert_eq!(gone.attr("type"), Some("error"), "{}", xml(&gone));
    }
}

#[test]
fn another_server_goes_on_with_the_nodes_that_are_left() {
    let (cluster, one, other) = scene();
    let mut romeo = at_home(&cluster, "romeo", 0);
    for server in [&one, &other] {
        let mut juliet = juliet(server);
        chat(&mut romeo, juliet.full(), "1");
        juliet.expect_message(romeo.full(), "1");
        chat(&mut juliet, romeo.full(), "2");
        romeo.expect_message(juliet.full(), "2");
    }
    cluster.remove(1);
    romeo.all();
    for server in [&one, &other] {
        let mut juliet = juliet(server);
        chat(&mut romeo, juliet.full(), "3");
        juliet.expect_message(romeo.full(), "3");
        chat(&mut juliet, romeo.full(), "4");
        romeo.expect_message(juliet.full(), "4");
    }
}
