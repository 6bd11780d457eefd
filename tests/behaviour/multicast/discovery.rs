//! Finding the multicast services of other servers (§2.1 to §2.3), and sending through them (§5).

use rookery_hub::Value;
use rookery_modules::multicast::discovery::{KEPT_MS, PATIENCE_MS};
use rookery_testkit::remote::Left;
use rookery_testkit::{Server, element};
use rookery_xml::ns;

use super::{MulticastScene, copies, to_pairs};

const FEATURE: &str = "<feature var='http://jabber.org/protocol/address'/>";
const OTHER: &str = "<feature var='urn:xmpp:ping'/>";

/// A question that left.
#[derive(Debug, Clone)]
struct DiscoveryQuestion {
    whom: String,
    id: String,
    items: bool,
}

/// A scene with a domain `d….net` of which `a` and `b` are users.
pub(crate) struct MulticastDiscovery {
    pub(crate) scene: MulticastScene,
    pub(crate) domain: String,
}

impl MulticastDiscovery {
    /// Makes the scene with a domain whose home is that shard.
    fn at(shard: usize) -> Self {
        let scene = MulticastScene::with_options(vec![("local_messages", Value::Number(0))]);
        let domain = domain(&scene.server, |server, domain| server.home_of_domain(domain) == shard);
        Self { scene, domain }
    }

    pub(crate) fn new() -> Self {
        Self::at(1)
    }

    /// Sends to `to:a bcc:b` of the domain. What left: the questions, and the copies with the
    /// domain left out.
    fn sends(&mut self) -> (Vec<DiscoveryQuestion>, Vec<(String, String)>) {
        let domain = &self.domain;
        self.scene.says(&format!("to:a@{domain} bcc:b@{domain}"));
        let left = self.scene.server.take_left();
        self.scene.sender.expect_nothing();
        (questions(&left), self.without_domain(copies(&left)))
    }

    fn without_domain(&self, copies: Vec<(String, String)>) -> Vec<(String, String)> {
        let short = |text: String| text.replace(&format!("@{}", self.domain), "").replace(&self.domain, "DOMAIN");
        copies.into_iter().map(|(to, header)| (short(to), short(header))).collect()
    }

    /// Sends, and expects one question.
    fn asks(&mut self) -> DiscoveryQuestion {
        let (mut asked, copies) = self.sends();
        assert_eq!(copies, individually(), "nothing waits for the answer");
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked.remove(0)
    }

    /// Answers a question with a result; returns the questions that follow.
    fn answers(&self, question: &DiscoveryQuestion, content: &str) -> Vec<DiscoveryQuestion> {
        let namespace = if question.items { ns::DISCO_ITEMS } else { ns::DISCO_INFO };
        let content = content.replace("DOMAIN", &self.domain);
        let DiscoveryQuestion { whom, id, .. } = question;
        self.comes(&format!("type='result' from='{whom}' id='{id}'><query xmlns='{namespace}'>{content}</query>"))
    }

    fn fails(&self, question: &DiscoveryQuestion) -> Vec<DiscoveryQuestion> {
        let DiscoveryQuestion { whom, id, .. } = question;
        self.comes(&format!(
            "type='error' from='{whom}' id='{id}'><error type='cancel'>\
             <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
        ))
    }

    /// Lets an IQ for the service come in, given without its name.
    fn comes(&self, iq: &str) -> Vec<DiscoveryQuestion> {
        self.scene.server.incoming(&format!("<iq to='multicast.example.org' {iq}</iq>"));
        questions(&self.scene.server.take_left())
    }

    /// Checks that nobody is asked, and returns the copies that leave.
    fn sends_without_asking(&mut self) -> Vec<(String, String)> {
        let (asked, copies) = self.sends();
        assert!(asked.is_empty(), "{asked:?}");
        copies
    }

    /// Makes the scene where the domain itself has the feature, with this form behind it.
    pub(crate) fn knows(form: &str) -> Self {
        let mut discovery = Self::new();
        let question = discovery.asks();
        assert!(discovery.answers(&question, &format!("{FEATURE}{form}")).is_empty());
        discovery
    }
}

fn questions(left: &[Left]) -> Vec<DiscoveryQuestion> {
    let iqs =
        left.iter().map(|left| (left.to.clone(), element(&left.text))).filter(|(_, stanza)| stanza.name() == "iq");
    let questions = iqs.map(|(whom, iq)| {
        assert_eq!((iq.attr("type"), iq.attr("from")), (Some("get"), Some("multicast.example.org")));
        let query = iq.children().next().expect("a payload");
        assert!(query.name() == "query" && [ns::DISCO_INFO, ns::DISCO_ITEMS].contains(&query.ns()), "{query:?}");
        DiscoveryQuestion { whom, id: iq.attr("id").expect("id").to_owned(), items: query.ns() == ns::DISCO_ITEMS }
    });
    questions.collect()
}

/// Returns some domain that is as a test needs it.
fn domain(server: &Server, is_it: impl Fn(&Server, &str) -> bool) -> String {
    (0..).map(|at| format!("d{at}.net")).find(|domain| is_it(server, domain)).expect("some domain")
}

/// Returns a form with limits.
fn form(type_: &str, limits: &[(&str, &str)]) -> String {
    let fields = limits.iter().map(|(var, value)| format!("<field var='{var}'><value>{value}</value></field>"));
    format!(
        "<x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE' type='hidden'><value>{type_}</value></field>{}</x>",
        fields.collect::<String>()
    )
}

pub(crate) fn limits(limits: &[(&str, &str)]) -> String {
    form(ns::ADDRESS, limits)
}

fn individually() -> Vec<(String, String)> {
    to_pairs([("a", "to!a"), ("b", "to!a bcc:b")])
}

fn through(service: &str) -> Vec<(String, String)> {
    to_pairs([(service, "to:a bcc:b")])
}

/// §2.1: the domain itself; §5: one stanza, in which the domain's own addresses are not marked and
/// its blind ones are shown.
#[test]
fn the_domain_itself_has_the_feature() {
    for shard in [0, 1] {
        let mut discovery = MulticastDiscovery::at(shard);
        let question = discovery.asks();
        assert_eq!((question.whom.as_str(), question.items), (discovery.domain.as_str(), false));
        // While the reply is awaited, nobody is asked again.
        assert_eq!(discovery.sends_without_asking(), individually());
        assert!(discovery.answers(&question, FEATURE).is_empty());
        assert_eq!(discovery.sends_without_asking(), through("DOMAIN"));
    }
}

/// The whole way: info, items, info of each item that can be a service of the domain; the first
/// that has the feature is it. Whichever shard the domain, and the service, is at home on.
#[test]
fn a_service_of_the_domain_has_the_feature() {
    for (shard, at) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut discovery = MulticastDiscovery::new();
        discovery.domain = domain(&discovery.scene.server, |server, domain| {
            (server.home_of_domain(domain), server.home_of_domain(&format!("all.{domain}"))) == (shard, at)
        });
        let question = discovery.asks();
        let followed = discovery.answers(&question, OTHER);
        let [items] = &followed[..] else { panic!("{followed:?}") };
        assert_eq!((items.whom.as_str(), items.items), (discovery.domain.as_str(), true));
        let listed = "<item jid='rooms.DOMAIN'/><item jid='all.DOMAIN' name='All'/><item jid='third.DOMAIN'/>\
             <item jid='multicast.elsewhere.net'/><item jid='evilDOMAIN'/><item jid='net'/><item jid='DOMAIN'/>\
             <item jid='user@DOMAIN'/><item jid='user@all.DOMAIN'/><item jid='all.DOMAIN/x'/>\
             <item jid='node.DOMAIN' node='n'/><item jid='@'/><item/>";
        let mut asked = discovery.answers(items, listed);
        asked.sort_by_key(|question| question.whom.clone());
        let whom: Vec<_> = asked.iter().map(|question| question.whom.replace(&discovery.domain, "DOMAIN")).collect();
        assert_eq!(whom, ["all.DOMAIN", "rooms.DOMAIN", "third.DOMAIN"]);
        assert!(asked.iter().all(|question| !question.items));
        assert!(discovery.answers(&asked[1], OTHER).is_empty());
        assert_eq!(discovery.sends_without_asking(), individually());
        assert!(discovery.answers(&asked[0], FEATURE).is_empty());
        assert_eq!(discovery.sends_without_asking(), through("all.DOMAIN"));
        // A reply that comes later is not wanted any more.
        discovery.answers(&asked[2], FEATURE);
        assert_eq!(discovery.sends_without_asking(), through("all.DOMAIN"));
    }
}

/// §2.3: none is kept for 24 hours as well, whatever way it was found that there is none.
#[test]
fn there_is_none() {
    type Way = fn(&MulticastDiscovery, DiscoveryQuestion);
    let ways: [(&str, Way); 7] = [
        ("the domain answers with an error", |discovery, question| {
            assert!(discovery.fails(&question).is_empty());
        }),
        ("the list of its services is an error", |discovery, question| {
            let items = discovery.answers(&question, OTHER).remove(0);
            assert!(discovery.fails(&items).is_empty());
        }),
        ("it has no services", |discovery, question| {
            let items = discovery.answers(&question, OTHER).remove(0);
            assert!(discovery.answers(&items, "").is_empty());
        }),
        ("none can be a service", |discovery, question| {
            let items = discovery.answers(&question, OTHER).remove(0);
            assert!(discovery.answers(&items, "<item jid='a@DOMAIN'/><item jid='elsewhere.net'/>").is_empty());
        }),
        ("none of them has the feature", |discovery, question| {
            let items = discovery.answers(&question, OTHER).remove(0);
            let asked = discovery.answers(&items, "<item jid='x.DOMAIN'/><item jid='y.DOMAIN'/>");
            assert!(discovery.fails(&asked[1]).is_empty());
            assert!(discovery.answers(&asked[0], OTHER).is_empty());
        }),
        ("the domain's answer is empty", |discovery, DiscoveryQuestion { whom, id, .. }| {
            assert!(discovery.comes(&format!("type='result' from='{whom}' id='{id}'>")).is_empty());
        }),
        ("the list of its services is none", |discovery, question| {
            let DiscoveryQuestion { whom, id, .. } = discovery.answers(&question, OTHER).remove(0);
            let domain = &discovery.domain;
            let content = format!("<x xmlns='urn:x'><item jid='x.{domain}'/></x>");
            assert!(discovery.comes(&format!("type='result' from='{whom}' id='{id}'>{content}")).is_empty());
        }),
    ];
    for (what, way) in ways {
        let mut discovery = MulticastDiscovery::new();
        let question = discovery.asks();
        way(&discovery, question);
        assert_eq!(discovery.sends_without_asking(), individually(), "{what}");
        discovery.scene.server.advance(KEPT_MS - 1);
        assert_eq!(discovery.sends_without_asking(), individually(), "{what}");
        discovery.scene.server.advance(1);
        assert!(!discovery.asks().items, "{what}");
    }
}

/// §2.3: a reply is kept for 24 hours; the old one serves until the new one has come, whatever
/// that is.
#[test]
fn the_old_answer_serves_while_a_new_one_is_awaited() {
    for (content, then) in [(FEATURE, through("DOMAIN")), ("", individually())] {
        let mut discovery = MulticastDiscovery::knows("");
        discovery.scene.server.advance(KEPT_MS - 1);
        assert_eq!(discovery.sends_without_asking(), through("DOMAIN"));
        discovery.scene.server.advance(1);
        let (asked, copies) = discovery.sends();
        assert_eq!((asked.len(), copies), (1, through("DOMAIN")));
        assert_eq!(discovery.sends_without_asking(), through("DOMAIN"));
        for items in discovery.answers(&asked[0], content) {
            assert_eq!(discovery.sends_without_asking(), through("DOMAIN"), "not before all is known");
            discovery.answers(&items, "");
        }
        assert_eq!(discovery.sends_without_asking(), then);
    }
}

/// A server that doesn't reply within ten minutes has no service until the next day; what comes
/// later is ignored.
#[test]
fn a_server_that_does_not_answer_has_none() {
    for known in [false, true] {
        let mut discovery = if known { MulticastDiscovery::knows("") } else { MulticastDiscovery::new() };
        let before = if known { through("DOMAIN") } else { individually() };
        discovery.scene.server.advance(KEPT_MS);
        let (asked, _) = discovery.sends();
        discovery.scene.server.advance(PATIENCE_MS - 1);
        assert_eq!(discovery.sends_without_asking(), before);
        discovery.scene.server.advance(1);
        assert_eq!(discovery.sends_without_asking(), individually());
        assert!(discovery.answers(&asked[0], FEATURE).is_empty());
        assert_eq!(discovery.sends_without_asking(), individually());
        discovery.scene.server.advance(KEPT_MS - 1);
        assert_eq!(discovery.sends_without_asking(), individually());
        discovery.scene.server.advance(1);
        discovery.asks();
    }
}

/// A reply counts only with the id of the query, and from the address that was asked.
#[test]
fn nobody_can_answer_for_another() {
    let mut discovery = MulticastDiscovery::new();
    let question = discovery.asks();
    let DiscoveryQuestion { whom, id, .. } = question.clone();
    let user = discovery.scene.sender.full().to_owned();
    let longer = format!("{id}x");
    let shardless = id.split_once('-').expect("a number").1.to_owned();
    let forged = [
        ("elsewhere.net", id.as_str()),
        (&format!("multicast.{whom}"), &id),
        (&format!("a@{whom}"), &id),
        (&format!("{whom}/x"), &id),
        (&user, &id),
        (&whom, &longer),
        (&whom, "1"),
        (&whom, &shardless),
        (&whom, "0-x"),
        (&whom, "77-x"),
        (&whom, "99999999999999999999999-x"),
    ];
    for (from, id) in forged {
        let query = format!("<query xmlns='{}'>{FEATURE}</query>", ns::DISCO_INFO);
        for type_ in ["result", "error"] {
            assert!(discovery.comes(&format!("type='{type_}' from='{from}' id='{id}'>{query}")).is_empty());
        }
        assert_eq!(discovery.sends_without_asking(), individually(), "{from} {id}");
    }
    discovery.answers(&question, FEATURE);
    assert_eq!(discovery.sends_without_asking(), through("DOMAIN"));
    // The same reply again, with something else in it, changes nothing.
    assert!(discovery.answers(&question, OTHER).is_empty());
    assert_eq!(discovery.sends_without_asking(), through("DOMAIN"));
}

/// Returns how many of `count` visible recipients each copy for the service names as its own.
fn chunks(discovery: &mut MulticastDiscovery, count: usize) -> Vec<usize> {
    let domain = discovery.domain.clone();
    discovery.scene.says(&(0..count).map(|at| format!("to:u{at}@{domain} ")).collect::<String>());
    let left = discovery.scene.server.take_left();
    let copies = copies(&left);
    if copies.iter().any(|(to, _)| *to != domain) {
        assert_eq!(copies.len(), count, "one by one");
        return Vec::new();
    }
    for (_, header) in &copies {
        assert_eq!(header.split(' ').count(), count, "each copy tells all of them");
    }
    copies.iter().map(|(_, header)| header.matches("to:").count()).collect()
}

/// §8: what the service says it takes is what it gets at once; where it says nothing it is 20.
/// Absurd numbers are bounded.
#[test]
fn chunks_are_as_large_as_the_service_takes() {
    let some = |value| limits(&[("presence", "1"), ("message", value)]);
    for (form, count, expected) in [
        (some("3"), 7, vec![3, 3, 1]),
        (some("3"), 6, vec![3, 3]),
        (some("100"), 60, vec![60]),
        (some(" 3 "), 4, vec![3, 1]),
        (some("infinite"), 1001, vec![1000, 1]),
        (some("99999999"), 1001, vec![1000, 1]),
        (some("-1"), 21, vec![20, 1]),
        (some("many"), 21, vec![20, 1]),
        (some("0"), 3, vec![]),
        (limits(&[]), 21, vec![20, 1]),
        (limits(&[("presence", "2")]), 21, vec![20, 1]),
        (String::new(), 41, vec![20, 20, 1]),
        // Somebody else's form, or none of ours.
        (form("http://jabber.org/network/serverinfo", &[("message", "3")]), 21, vec![20, 1]),
        (
            "<x xmlns='jabber:x:data' type='result'><field var='message'><value>3</value></field></x>".into(),
            21,
            vec![20, 1],
        ),
        (format!("{}{}", form("urn:x", &[("message", "3")]), some("4")), 5, vec![4, 1]),
    ] {
        let mut discovery = MulticastDiscovery::knows(&form);
        assert_eq!(chunks(&mut discovery, count), expected, "{form}");
    }
}

/// Messages and presence each have their limit.
#[test]
fn presence_has_its_own_limit() {
    let mut discovery = MulticastDiscovery::knows(&limits(&[("message", "50"), ("presence", "2")]));
    let domain = discovery.domain.clone();
    discovery.scene.shows("", &format!("bcc:a@{domain} bcc:b@{domain} bcc:c@{domain}"));
    let copies = copies(&discovery.scene.server.take_left());
    assert_eq!(discovery.without_domain(copies), to_pairs([("DOMAIN", "bcc:a bcc:b"), ("DOMAIN", "bcc:c")]));
}

/// §4.6.3: no blind address is shown to anybody but the service that serves it, and there in one
/// chunk only; §4.5: what this server delivers is marked, what the service has to is not.
#[test]
fn each_server_sees_its_own_blind_addresses() {
    let mut discovery = MulticastDiscovery::knows(&limits(&[("message", "2")]));
    let domain = discovery.domain.clone();
    let header = format!(
        "to:NEAR bcc:FAR cc:a@{domain} to!b@{domain} bcc!c@{domain} bcc:d@{domain} bcc:e@{domain} to:a@other.net bcc:b@other.net \
         replyto:SENDER"
    );
    discovery.scene.says(&header);
    let left = discovery.scene.server.take_left();
    let seen = discovery.scene.with_names(&format!("to!b@{domain} replyto:SENDER to!NEAR"));
    let there = format!("{seen} cc:a@{domain} to!a@other.net bcc:d@{domain}");
    let rest = format!("{seen} cc!a@{domain} to!a@other.net bcc:e@{domain}");
    let public = format!("{seen} cc!a@{domain} to!a@other.net");
    let mut found: Vec<_> = copies(&left).into_iter().map(|(to, header)| (to, sort_addresses(&header))).collect();
    found.sort();
    let blind = format!("{public} bcc:b@other.net");
    let mut expected: Vec<_> =
        to_pairs([("a@other.net", &public), ("b@other.net", &blind), (&domain, &there), (&domain, &rest)]);
    expected.iter_mut().for_each(|(_, header)| *header = sort_addresses(header));
    expected.sort();
    assert_eq!(found, expected);
    let text = discovery.scene.with_names("FAR");
    let named = left.iter().any(|left| left.text.contains(&text));
    assert!(!named, "nobody elsewhere hears of a blind recipient here");
    let own = format!("{public} bcc:FAR");
    discovery.scene.see(&public, &own);
}

/// Returns the addresses of a header in some order that doesn't depend on theirs.
fn sort_addresses(header: &str) -> String {
    let mut addresses: Vec<_> = header.split(' ').collect();
    addresses.sort_unstable();
    addresses.join(" ")
}

/// One recipient needs no service: it gets its own copy.
#[test]
fn one_recipient_gets_its_copy() {
    let mut discovery = MulticastDiscovery::knows("");
    let domain = discovery.domain.clone();
    discovery.scene.says(&format!("bcc:a@{domain}"));
    let copies = copies(&discovery.scene.server.take_left());
    assert_eq!(discovery.without_domain(copies), to_pairs([("a", "bcc:a")]));
}

/// A domain with endless services is asked about so many.
#[test]
fn the_services_that_are_asked_are_bounded() {
    let mut discovery = MulticastDiscovery::new();
    let question = discovery.asks();
    let items = discovery.answers(&question, "").remove(0);
    let listed: String = (0..500).map(|at| format!("<item jid='s{at}.DOMAIN'/>")).collect();
    assert_eq!(discovery.answers(&items, &listed).len(), 50);
}

/// A known service belongs to the domain, not to the user who was the first.
#[test]
fn what_is_known_serves_all() {
    let discovery = MulticastDiscovery::knows("");
    let server = &discovery.scene.server;
    for shard in [0, 1] {
        let mut other = server.login(&format!("{}/x", server.name_at("other", shard)));
        let domain = &discovery.domain;
        other.send(&super::message("multicast.example.org", &format!("to:a@{domain} bcc:b@{domain}")));
        let copies = copies(&server.take_left());
        assert_eq!(discovery.without_domain(copies), through("DOMAIN"));
    }
}
