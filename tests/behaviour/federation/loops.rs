//! Domains whose DNS leads to the wrong server: two that point to each other, to this one, or to
//! themselves. Nobody calls on somebody else's behalf for ever, and no attempt makes more of them.

use rookery_federation::{FederationSettings, PeerPolicy};
use rookery_testkit::client::xml;
use rookery_testkit::{Client, Internet, Server};

use super::proofs::{own_certificate, server_with};
use super::{chat, plain, server};

/// Two servers with a user each, which accept each other without proof or by dialback.
struct LoopedServers {
    internet: Internet,
    a: Server,
    romeo: Client,
    juliet: Client,
}

impl LoopedServers {
    fn new(policy: PeerPolicy) -> Self {
        let internet = Internet::default();
        let [a, b] = ["a.example", "b.example"].map(|domain| match policy {
            PeerPolicy::Certificate => server(&internet, domain, plain),
            // Nobody trusts its certificate, so keys have to be verified by dialback.
            _ => server_with(&internet, domain, &own_certificate(domain), |settings: &mut FederationSettings| {
                settings.rules.policy = policy;
            }),
        });
        let romeo = a.online("romeo@a.example/orchard");
        let juliet = b.online("juliet@b.example/balcony");
        Self { internet, a, romeo, juliet }
    }

    /// Lets DNS say that each of these domains is where the other one is.
    fn swap(&self, one: &str, other: &str) {
        let (here, there) = (self.internet.says(one), self.internet.says(other));
        self.internet.say(one, there);
        self.internet.say(other, here);
    }

    /// Has both write to these addresses every ten seconds for an hour, and returns how often a
    /// server has called another one. Each message comes back once, and nothing else comes.
    fn writes_for_an_hour(&mut self, to: [&str; 2]) -> usize {
        let before = self.internet.calls();
        for round in 0..360 {
            for (client, to) in [(&mut self.romeo, to[0]), (&mut self.juliet, to[1])] {
                chat(client, to, &round.to_string());
            }
            self.a.advance(10_000);
            for client in [&mut self.romeo, &mut self.juliet] {
                let heard: String = client.all().iter().map(xml).collect();
                assert_eq!(heard.matches("type='error'").count(), 1, "{round}: {heard}");
                assert!(heard.contains("remote-server-timeout") && !heard.contains("<body>other"), "{heard}");
            }
        }
        self.internet.calls() - before
    }
}

const POLICIES: [PeerPolicy; 2] = [PeerPolicy::Certificate, PeerPolicy::Dialback];

/// The pauses after failures double up to five minutes, of which two thirds are certain: after six
/// calls there are 18 in an hour at most.
const IN_AN_HOUR: usize = 24;

/// Each server reaches itself at the address where it expects the other.
#[test]
fn two_domains_that_point_to_each_other_are_called_seldom() {
    for policy in POLICIES {
        let mut pair = LoopedServers::new(policy);
        pair.swap("a.example", "b.example");
        for number in 0..10 {
            chat(&mut pair.romeo, "juliet@b.example/balcony", &number.to_string());
        }
        assert_eq!(pair.romeo.all().len(), 10, "each message comes back");
        assert_eq!(pair.internet.calls(), 1, "{policy:?}: the loop ends at once");
        let calls = pair.writes_for_an_hour(["juliet@b.example/balcony", "romeo@a.example/orchard"]);
        assert!(calls <= 2 * IN_AN_HOUR, "{policy:?}: {calls} calls");
    }
}

/// Neither server serves the domain whose DNS leads to it, and each gets requests for the other's
/// domain.
#[test]
fn names_that_nobody_serves_lead_two_servers_nowhere() {
    for policy in POLICIES {
        let mut pair = LoopedServers::new(policy);
        pair.internet.say("x.example", pair.internet.says("b.example"));
        pair.internet.say("y.example", pair.internet.says("a.example"));
        let calls = pair.writes_for_an_hour(["somebody@x.example", "somebody@y.example"]);
        assert!(calls <= 2 * IN_AN_HOUR, "{policy:?}: {calls} calls");
    }
}

/// A key of the first server is asked for at the second one, which is where DNS says that it is
/// itself: that one asks itself, says no, and has called nobody.
#[test]
fn a_question_of_dialback_that_comes_home_asks_nobody_further() {
    let mut pair = LoopedServers::new(PeerPolicy::Dialback);
    pair.internet.say("a.example", pair.internet.says("b.example"));
    chat(&mut pair.romeo, "juliet@b.example/balcony", "1");
    assert!(xml(&pair.romeo.expect_element()).contains("remote-server-timeout"));
    assert_eq!(pair.internet.calls(), 2, "one for the stanza, and one for the question");
    pair.juliet.expect_nothing();
    let calls = pair.writes_for_an_hour(["juliet@b.example/balcony", "romeo@a.example/orchard"]);
    // Each connection that brings a key causes one request for verification at most.
    assert!(calls <= 3 * IN_AN_HOUR, "{calls} calls");
}

/// A stranger names domains that lead from each server to the other one, again and again.
#[test]
fn a_stranger_has_two_servers_ask_each_other_seldom() {
    let pair = LoopedServers::new(PeerPolicy::Dialback);
    for number in 0..40 {
        let there = pair.internet.says(if number % 2 == 0 { "b.example" } else { "a.example" });
        pair.internet.say(&format!("x{number}.example"), there);
    }
    let mut calls = Vec::new();
    for round in 0..10 {
        for number in 0..40 {
            let mut stranger = pair.a.connect_server([198, 51, 100, number].into());
            stranger.send(&format!(
                "<stream:stream xmlns='jabber:server' xmlns:db='jabber:server:dialback' \
                 xmlns:stream='http://etherx.jabber.org/streams' from='x{number}.example' to='a.example' version='1.0'>\
                 <db:result from='x{number}.example' to='a.example'>key</db:result>"
            ));
            stranger.pump();
            stranger.vanish();
        }
        pair.a.advance(1_000);
        calls.push(pair.internet.calls());
        assert!(pair.internet.calls() <= 40, "round {round}: {calls:?}");
    }
}
