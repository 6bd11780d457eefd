//! RFC 6121 §3: subscriptions from their beginning to their end, on one shard, across shards and
//! across local domains.

use rookery_testkit::{Client, Config, Server, befriend, play};
use rookery_xml::Element;

/// Returns a client that is available and has requested its roster.
fn online(server: &Server, address: &str) -> Client {
    let mut client = server.login(address);
    client.ask("<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>");
    client.send("<presence/>");
    client.expect_presence_of_itself();
    client
}

/// Goes through the whole life of a subscription between two accounts, wherever their homes are.
fn subscribe_and_unsubscribe(server: &Server, one: &str, other: &str) {
    let mut juliet = online(server, &format!("{one}/balcony")).with_name("juliet");
    let mut romeo = online(server, &format!("{other}/orchard")).with_name("romeo");
    let dialogue = "
        # §3.1.2: the request, from the bare JID; and the push that shows that it is pending.
        juliet C: <presence type='subscribe' to='ROMEO/orchard' id='s1'><status>May I?</status></presence>
        juliet S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='ROMEO' subscription='none' ask='subscribe'/></query></iq>
        romeo  S: <presence type='subscribe' from='JULIET' to='ROMEO' id='s1'><status>May I?</status></presence>
        # §3.1.5 and §3.1.6: 'subscribed', then the push, then presence; to the one who asked in this order.
        romeo  C: <presence type='subscribed' to='JULIET'/>
        romeo  S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='JULIET' subscription='from'/></query></iq>
        juliet S: <presence type='subscribed' from='ROMEO'/>
                  <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='ROMEO' subscription='to'/></query></iq>
                  <presence from='ROMEO/orchard'/>
        # The presence of the one who asked is still nobody's business.
        juliet C: <presence><status>1</status></presence>
        juliet S: <presence from='JULIET/balcony'><status>1</status></presence>
        romeo  S:
        romeo  C: <presence><status>2</status></presence>
        romeo  S: <presence from='ROMEO/orchard'><status>2</status></presence>
        juliet S: <presence from='ROMEO/orchard'><status>2</status></presence>
        # The other way round.
        romeo  C: <presence type='subscribe' to='JULIET'/>
        romeo  S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='JULIET' subscription='from' ask='subscribe'/></query></iq>
        juliet S: <presence type='subscribe' from='ROMEO'/>
        juliet C: <presence type='subscribed' to='ROMEO'/>
        juliet S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='ROMEO' subscription='both'/></query></iq>
        romeo  S: <presence type='subscribed' from='JULIET'/>
                  <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='JULIET' subscription='both'/></query></iq>
                  <presence from='JULIET/balcony'><status>1</status></presence>
        # §3.1.3: asked again, the server answers by itself.
        juliet C: <presence type='subscribe' to='ROMEO'/>
        juliet S: <presence from='ROMEO/orchard'><status>2</status></presence>
        romeo  S:
        # §3.3: unsubscribing. The contact hears it, the user sees the contact go away.
        juliet C: <presence type='unsubscribe' to='ROMEO'/>
        juliet S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='ROMEO' subscription='from'/></query></iq>
                  <presence type='unavailable' from='ROMEO/orchard'/>
        romeo  S: <presence type='unsubscribe' from='JULIET'/>
                  <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='JULIET' subscription='to'/></query></iq>
        # §3.2: cancelling what was granted.
        juliet C: <presence type='unsubscribed' to='ROMEO'/>
        juliet S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='ROMEO' subscription='none'/></query></iq>
        romeo  S: <presence type='unsubscribed' from='JULIET'/>
                  <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                    <item jid='JULIET' subscription='none'/></query></iq>
                  <presence type='unavailable' from='JULIET/balcony'/>
        juliet C: <presence><status>3</status></presence>
        juliet S: <presence from='JULIET/balcony'><status>3</status></presence>
        romeo  S:";
    let dialogue = dialogue.replace("JULIET", juliet.bare()).replace("ROMEO", romeo.bare());
    play(&mut [&mut juliet, &mut romeo], &dialogue);
    juliet.close();
    romeo.close();
}

#[test]
fn subscriptions_work_on_one_shard() {
    let server = Server::with(Config { shards: 1, ..Config::default() });
    subscribe_and_unsubscribe(&server, "juliet", "romeo");
}

#[test]
fn subscriptions_work_across_shards() {
    let server = Server::with(Config { shards: 4, ..Config::default() });
    for shard in 0..4 {
        let one = server.name_at("juliet", shard);
        let other = server.name_at("romeo", (shard + 1) % 4);
        subscribe_and_unsubscribe(&server, &one, &other);
    }
}

#[test]
fn subscriptions_work_across_domains_of_one_server() {
    let domains = vec!["example.org".into(), "example.net".into()];
    let server = Server::with(Config { domains, ..Config::default() });
    subscribe_and_unsubscribe(&server, "juliet", "romeo@example.net");
    subscribe_and_unsubscribe(&server, "juliet@example.net", "juliet");
}

/// §3.1.3: a request waits for a contact who is away, also across restarts. It is delivered each
/// time the contact becomes available, until the contact answers it.
#[test]
fn requests_wait_for_those_who_are_away() {
    let server = Server::new();
    server.account("romeo");
    let mut juliet = online(&server, "juliet/balcony");
    // Of several requests from one user, only the last one waits.
    juliet.send("<presence type='subscribe' to='romeo@example.org' id='7'/>");
    juliet.send("<presence type='subscribe' to='romeo@example.org' id='8'><status>May I?</status></presence>");
    juliet.all();
    for _ in 0..2 {
        let mut romeo = server.login("romeo/orchard");
        let roster = romeo.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        let items = roster.children().next().expect("a roster").children().count();
        assert_eq!(items, 0, "a contact who only asked is not shown (§A.1)");
        romeo.send("<presence/>");
        romeo.expect_presence_of_itself();
        romeo.expect("<presence type='subscribe' from='juliet@example.org' id='8'><status>May I?</status></presence>");
        romeo.expect_nothing();
        // An update isn't initial presence.
        romeo.send("<presence><show>away</show></presence>");
        romeo.expect_presence_of_itself();
        romeo.expect_nothing();
        server.restart();
    }
    let mut juliet = online(&server, "juliet/balcony");
    let mut romeo = online(&server, "romeo/orchard");
    romeo.all();
    romeo.send("<presence type='unsubscribed' to='juliet@example.org'/>");
    romeo.expect_nothing();
    juliet.expect("<presence type='unsubscribed' from='romeo@example.org'/>");
    juliet.expect(
        "<iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>\
         <item jid='romeo@example.org' subscription='none'/></query></iq>",
    );
    romeo.close();
    let mut romeo = online(&server, "romeo/orchard");
    romeo.expect_nothing();
}

/// §3.1.6: an answer for a user who is away changes the roster, as the user sees at the next login.
#[test]
fn an_answer_finds_a_user_who_is_away() {
    let server = Server::new();
    let mut juliet = online(&server, "juliet/balcony");
    let mut romeo = online(&server, "romeo/orchard");
    juliet.send("<presence type='subscribe' to='romeo@example.org'/>");
    juliet.all();
    juliet.close();
    romeo.all();
    romeo.send("<presence type='subscribed' to='juliet@example.org'/>");
    romeo.all();
    let mut juliet = server.login("juliet/balcony");
    juliet.send("<presence/>");
    juliet.expect_presence_of_itself();
    juliet.expect("<presence from='romeo@example.org/orchard'/>");
    juliet.expect_nothing();
}

/// §3.4: approving a subscription before it is requested.
#[test]
fn a_pre_approved_request_is_granted_at_once() {
    let server = Server::new();
    let mut juliet = online(&server, "juliet/balcony");
    let mut romeo = online(&server, "romeo/orchard");
    play(
        &mut [&mut juliet, &mut romeo],
        "romeo  C: <presence type='subscribed' to='juliet@example.org'/>
         romeo  S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                     <item jid='juliet@example.org' subscription='none' approved='true'/></query></iq>
         juliet S:
         juliet C: <presence type='subscribe' to='romeo@example.org'/>
         juliet S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                     <item jid='romeo@example.org' subscription='none' ask='subscribe'/></query></iq>
                   <presence type='subscribed' from='romeo@example.org'/>
                   <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                     <item jid='romeo@example.org' subscription='to'/></query></iq>
                   <presence from='romeo@example.org/orchard'/>
         romeo  S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                     <item jid='juliet@example.org' subscription='from' approved='true'/></query></iq>",
    );
}

/// §3.1.3 and §8.5.1: a request doesn't show whether an account exists.
#[test]
fn requests_to_nobody_wait_like_others() {
    let server = Server::new();
    let mut juliet = online(&server, "juliet/balcony");
    server.account("romeo");
    for name in ["romeo", "nobody"] {
        play(
            &mut [&mut juliet],
            &format!(
                "C: <presence type='subscribe' to='{name}@example.org'/>
                 S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='{name}@example.org' subscription='none' ask='subscribe'/></query></iq>"
            ),
        );
    }
}

/// §3.1.2: a user's own account isn't a contact, and a request needs a 'to'. Answers without a
/// request change nothing.
#[test]
fn subscription_stanzas_without_sense_change_nothing() {
    let server = Server::new();
    let mut juliet = online(&server, "juliet/balcony");
    let mut romeo = online(&server, "romeo/orchard");
    play(
        &mut [&mut juliet, &mut romeo],
        "juliet C: <presence type='subscribe' to='juliet@example.org' id='1'/>
         juliet S: <presence type='error' id='1' from='juliet@example.org'><error type='cancel'>
                     <not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>
         juliet C: <presence type='unsubscribe' to='romeo@example.org'/>
         juliet C: <presence type='unsubscribed' to='romeo@example.org'/>
         romeo  S:
         juliet S:",
    );
}

/// If a user's roster is full, the user gets an error, and the request isn't sent.
#[test]
fn a_full_roster_asks_nobody() {
    let mut config = Config::default();
    config.settings.roster.items = 1;
    let server = Server::with(config);
    let mut juliet = online(&server, "juliet/balcony");
    let mut romeo = online(&server, "romeo/orchard");
    befriend(&mut juliet, &mut romeo);
    server.account("nurse");
    juliet.send("<presence type='subscribe' to='nurse@example.org' id='1'/>");
    juliet.expect(
        "<presence type='error' id='1' from='nurse@example.org'><error type='wait'>\
         <resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
    );
    juliet.expect_nothing();
}

/// RFC 6121 §3.2.2, §4.5.2: if a contact loses the right to see a user who goes offline at the same
/// time, the contact gets unavailable presence.
#[test]
fn nobody_stays_on_the_screen_of_a_former_contact() {
    let taken_back = "<presence type='unsubscribed' to='romeo@example.org'/>";
    let removed = "<iq type='set' id='r'><query xmlns='jabber:iq:roster'>\
                   <item jid='romeo@example.org' subscription='remove'/></query></iq>";
    let blocked = "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='romeo@example.org'/></block></iq>";
    for last_deed in [taken_back, removed, blocked] {
        let server = Server::new();
        let mut juliet = server.online("juliet/balcony");
        let mut romeo = server.online("romeo/orchard");
        befriend(&mut juliet, &mut romeo);
        romeo.all();
        juliet.send(&format!("{last_deed}</stream:stream>"));
        let heard = romeo.all();
        let is_gone = |stanza: &&Element| {
            stanza.attr("from") == Some("juliet@example.org/balcony") && stanza.attr("type") == Some("unavailable")
        };
        assert_eq!(heard.iter().filter(is_gone).count(), 1, "{last_deed}: {heard:?}");
    }
}

/// RFC 6121 §3.1.3, §3.1.5: after a refusal that crosses a second request, the contact's approval
/// is for no open request. If the user then asks again, the server replies that the subscription
/// exists, and the user sees the contact on every resource, also on those that have logged in
/// since.
#[test]
fn a_resource_that_came_before_the_second_request_sees_the_contact() {
    for shard in [0, 1] {
        let server = Server::new();
        let [juliet, romeo] = [("juliet", 0), ("romeo", shard)].map(|(stem, at)| server.name_at(stem, at));
        let mut romeo = online(&server, &format!("{romeo}/orchard"));
        let mut balcony = online(&server, &format!("{juliet}/balcony"));
        let ask = format!("<presence type='subscribe' to='{}'/>", romeo.bare());
        let [refuse, approve] =
            ["unsubscribed", "subscribed"].map(|kind| format!("<presence type='{kind}' to='{}'/>", balcony.bare()));
        balcony.send(&ask);
        balcony.pump();
        // As far as Romeo knows, the refusal answers one request, and the approval another one.
        romeo.send(&refuse);
        romeo.pump();
        server.incoming(&format!("<presence type='subscribe' from='{}' to='{}'/>", balcony.bare(), romeo.bare()));
        romeo.send(&approve);
        romeo.all();
        balcony.all();
        let mut chamber = online(&server, &format!("{juliet}/chamber"));
        let is_romeo = |stanza: &&Element| stanza.attr("from") == Some(romeo.full());
        assert_eq!(chamber.all().iter().filter(is_romeo).count(), 0, "nobody has told Juliet that she may");
        balcony.send(&ask);
        balcony.all();
        let shown = chamber.all();
        assert_eq!(shown.iter().filter(is_romeo).count(), 1, "{shown:?}");
    }
}
