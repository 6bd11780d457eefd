//! Servers that call each other at the same moment: both keep their streams, and stanzas arrive
//! once and in order, whichever stream carries them (XEP-0288, RFC 6120 §10.1).

use rookery_federation::{FederationSettings, PeerPolicy};
use rookery_testkit::{Client, Config, Internet, Server};

use super::proofs::{own_certificate, server_with};
use super::{chat, names, plain, start};

/// Returns two servers of several shards each, the first with these settings.
fn both(internet: &Internet, change: fn(&mut FederationSettings)) -> [Server; 2] {
    let meet = |domain, change| {
        start(domain, Config { shards: 3, ..Config::default() }, internet.meeting(&names(domain), change))
    };
    [meet("a.example", change), meet("b.example", plain)]
}

/// Two people who write to each other in the same moment, again and again.
struct Talk {
    romeo: Client,
    juliet: Client,
    said: usize,
}

impl Talk {
    fn new([a, b]: &[Server; 2]) -> Self {
        let (romeo, juliet) = (a.online("romeo@a.example/orchard"), b.online("juliet@b.example/balcony"));
        Self { romeo, juliet, said: 0 }
    }

    /// Lets both say as much before either server has done anything: both hear all of it.
    fn at_once(&mut self, messages: usize) {
        let expected: Vec<String> = (self.said..self.said + messages).map(|number| number.to_string()).collect();
        self.said += messages;
        for number in &expected {
            chat(&mut self.romeo, "juliet@b.example/balcony", number);
            chat(&mut self.juliet, "romeo@a.example/orchard", number);
        }
        assert_eq!((self.juliet.bodies(), self.romeo.bodies()), (expected.clone(), expected));
    }
}

#[test]
fn both_get_through_and_nobody_calls_a_third_time() {
    let changes: [fn(&mut FederationSettings); 2] = [plain, |settings| settings.bidi = false];
    for change in changes {
        let internet = Internet::default();
        let servers = both(&internet, change);
        let mut talk = Talk::new(&servers);
        for _ in 0..20 {
            talk.at_once(10);
            servers[0].advance(20_000);
        }
        assert_eq!(internet.calls(), 2, "either server has called once");
        // Both streams end when they are idle, and both servers call again at the same moment.
        for round in 0..3 {
            servers[0].advance(3_600_000);
            talk.at_once(10);
            assert_eq!(internet.calls(), 4 + 2 * round);
        }
    }
}

/// The same with keys, about which each has to ask the other while it is asked itself.
#[test]
fn both_get_through_by_dialback() {
    let internet = Internet::default();
    let servers = ["a.example", "b.example"].map(|domain| {
        server_with(&internet, domain, &own_certificate(domain), |settings| {
            settings.rules.policy = PeerPolicy::Dialback
        })
    });
    let mut talk = Talk::new(&servers);
    for _ in 0..5 {
        talk.at_once(20);
        servers[0].advance(20_000);
    }
    assert_eq!(internet.calls(), 4, "either has called once with stanzas and once with a question");
}

/// All connections break at once, so that both servers call again, and may do so in the same
/// moment: what was on its way on either stream goes on, once.
#[test]
fn both_find_each_other_again() {
    let internet = Internet::default();
    let servers = both(&internet, plain);
    let mut talk = Talk::new(&servers);
    talk.at_once(10);
    let (mut there, mut back, first) = (Vec::new(), Vec::new(), talk.said);
    internet.live_for((0..60).map(|number| 9_000 + number * 1_373 % 9_000));
    for round in 0..60 {
        for _ in 0..20 {
            chat(&mut talk.romeo, "juliet@b.example/balcony", &talk.said.to_string());
            chat(&mut talk.juliet, "romeo@a.example/orchard", &talk.said.to_string());
            talk.said += 1;
        }
        servers[0].advance(if round % 3 == 0 { 700_000 } else { 6_000 });
        there.extend(talk.juliet.bodies());
        back.extend(talk.romeo.bodies());
    }
    servers[0].advance(120_000);
    there.extend(talk.juliet.bodies());
    back.extend(talk.romeo.bodies());
    let said: Vec<String> = (first..talk.said).map(|number| number.to_string()).collect();
    assert_eq!((there, back), (said.clone(), said));
    assert!(internet.calls() > 20, "{}", internet.calls());
}
