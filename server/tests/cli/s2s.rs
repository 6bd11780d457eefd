//! `rookery s2s DOMAIN` and `rookery check` name the rules by which one of our domains reaches
//! another, or why it doesn't.

use super::rig::{CliRig, FREE_PORTS};
use super::setup::SetupDns;

/// Starts a server of three domains, two of which have rules of their own, and a name server
/// without records.
fn rig(dns: &SetupDns) -> CliRig {
    let rig = CliRig::new();
    let address = dns.address;
    let listen = FREE_PORTS.replace("[login]", "s2s = [\"127.0.0.1:0\"]\ns2s_tls = [\"127.0.0.1:0\"]\n[login]");
    rig.write(
        "rookery.toml",
        &format!(
            "domains = [\"a.example\", \"closed.example\", \"picky.example\"]\n{listen}\
             [federation]\nenabled = true\ndns = [\"{address}\"]\npolicy = \"dialback\"\n\
             deny = [\"bad.example: it floods rooms\", \"old.example\"]\n\
             [domain.\"closed.example\".federation]\nenabled = false\n\
             [domain.\"picky.example\".federation]\npolicy = \"certificate\"\nallow = [\"good.example: a partner\"]\n"
        ),
    );
    rig
}

#[test]
fn the_rules_of_the_domain_that_calls_are_told() {
    let dns = SetupDns::start();
    let rig = rig(&dns);
    let own = |domain: &str| format!("[federation] and [domain.\"{domain}\".federation]");
    let (closed, picky) = (own("closed.example"), own("picky.example"));
    let cases = [
        (
            &["bad.example"][..],
            "policy    a.example to bad.example: dialback",
            "fault     the domain is in `deny`: it floods rooms; see [federation]\n".to_owned(),
        ),
        (
            &["old.example"],
            "policy    a.example to old.example: dialback",
            "fault     the domain is in `deny`; see [federation]\n".to_owned(),
        ),
        // The lists of a domain replace those for all, key by key.
        (
            &["bad.example", "--from", "picky.example"],
            "policy    picky.example to bad.example: certificate",
            format!("fault     the domain is in `deny`: it floods rooms; see {picky}\n"),
        ),
        (
            &["other.example", "--from", "picky.example"],
            "policy    picky.example to other.example: certificate",
            format!("fault     the domain is not in `allow`; see {picky}\n"),
        ),
        // A service follows the rules of its domain.
        (
            &["good.example", "--from", "conference.picky.example"],
            "policy    the domain is in `allow`: a partner",
            "fault     conference.picky.example has only a self-signed certificate".to_owned(),
        ),
        (
            &["good.example", "--from", "closed.example"],
            &*format!("note      federation is off in the configuration (`enabled` in {closed})"),
            "fault     DNS lists no server for the domain".to_owned(),
        ),
        (
            &["good.example"],
            "dns       _xmpp-server._tcp.good.example. SRV: none",
            "fault     DNS lists no server for the domain".to_owned(),
        ),
    ];
    for (arguments, first, last) in cases {
        let ended = rig.run(&[&["s2s"], arguments].concat());
        assert_eq!(ended.code, 1, "{arguments:?}: {}", ended.all());
        assert!(ended.out.contains(first) && ended.out.contains(&last), "{arguments:?}: {}", ended.all());
    }
    rig.run(&["s2s", "good.example", "--from", "nobody.example"])
        .expect_failure(1, "\"nobody.example\" is neither a domain of this server nor a service of one");
}

#[test]
fn a_check_says_which_domains_are_closed_and_asks_dns_about_the_others() {
    let dns = SetupDns::start();
    let rig = rig(&dns);
    let checked = rig.run(&["check"]);
    for words in [
        "off for closed.example: see [federation] and [domain.\"closed.example\".federation]",
        "DNS: _xmpp-server._tcp.a.example. SRV: none",
        "DNS leads no other server to picky.example: add a record _xmpp-server._tcp.picky.example. SRV",
    ] {
        assert!(checked.out.contains(words), "{words:?} is not in:\n{}", checked.all());
    }
    assert!(!checked.out.contains("_tcp.closed.example"), "{}", checked.out);
    assert!(!checked.out.contains("names conference.closed.example"), "nobody hears from it: {}", checked.out);
}
