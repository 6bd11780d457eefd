//! Export and import (XEP-0227).

use std::thread;
use std::time::{Duration, Instant};

use rookery_xml::Element;

use super::person::{self, PASSWORD, Person};
use super::rig::CliRig;

/// An export of another server: the examples of the standard, with the additions of ejabberd and
/// Prosody.
const FOREIGN: &str = "<?xml version='1.0' encoding='UTF-8'?>
<server-data xmlns='urn:xmpp:pie:0'>
  <!-- a comment -->
  <host jid='localhost'>
    <user name='juliet' password='secret'>
      <query xmlns='jabber:iq:roster'>
        <item jid='romeo@montague.net' name='Romeo' subscription='both'><group>Friends</group></item>
      </query>
      <presence xmlns='jabber:client' from='paris@montague.net' to='juliet@localhost' type='subscribe'/>
      <offline-messages>
        <message xmlns='jabber:client' from='romeo@montague.net/orchard' to='juliet@localhost/balcony' type='chat'>
          <body>Neither, fair saint</body>
          <delay xmlns='urn:xmpp:delay' from='localhost' stamp='2010-07-10T23:08:25Z'>Offline Storage</delay>
        </message>
      </offline-messages>
      <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='urn:xmpp:bookmarks:1'>
        <x xmlns='jabber:x:data' type='form'><field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#node_config</value></field>
        <field var='pubsub#access_model'><value>whitelist</value></field></x></configure>
        <affiliations node='urn:xmpp:bookmarks:1'><affiliation jid='mercutio@example.net' affiliation='member'/></affiliations></pubsub>
      <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:xmpp:bookmarks:1'><item id='a@b.example'><conference xmlns='urn:xmpp:bookmarks:1'/></item></items></pubsub>
      <archive xmlns='urn:xmpp:pie:0#mam'>
        <result xmlns='urn:xmpp:mam:2' id='28482-98726-73623'><forwarded xmlns='urn:xmpp:forward:0'>
          <delay xmlns='urn:xmpp:delay' stamp='2010-07-10T23:08:25Z'/>
          <message xmlns='jabber:client' to='juliet@localhost/balcony' from='romeo@montague.lit/orchard' type='chat'>
            <body>Call me but love</body></message></forwarded></result>
        <result xmlns='urn:xmpp:mam:2' id='5d398-28273-f7382'><forwarded xmlns='urn:xmpp:forward:0'>
          <delay xmlns='urn:xmpp:delay' stamp='2010-07-10T23:08:25Z'/>
          <message xmlns='jabber:client' to='romeo@montague.lit/orchard' from='juliet@localhost/balcony' type='chat' id='8a54s'>
            <body>What man art thou</body></message></forwarded></result>
        <result xmlns='urn:xmpp:mam:2' id='x'/>
      </archive>
      <query xmlns='jabber:iq:private'><exodus xmlns='exodus:prefs'><defaultnick>J</defaultnick></exodus></query>
      <vCard xmlns='vcard-temp'><FN>Juliet &amp; Co</FN></vCard>
      <odd xmlns='urn:odd'><deep/></odd>
    </user>
    <user name='ro meo'/>
    <user name='tybalt'>
      <scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-1'>
        <iter-count>10000</iter-count><salt>TmFDbA==</salt>
        <server-key>0pXWGK0GZJ6TR73AIUN3ITYtA1g=</server-key><stored-key>Q6qT/SbybblGCZz8e8eSfCJOQic=</stored-key>
      </scram-credentials>
    </user>
  </host>
  <host jid='elsewhere.example'><user name='x'/></host>
</server-data>
";

#[test]
fn what_others_export_is_imported_and_what_is_left_out_is_told() {
    let rig = CliRig::new();
    rig.write("all.xml", FOREIGN);
    let imported = rig.run(&["user", "import", "all.xml", "--allow-short"]);
    assert_eq!(imported.code, 1, "{imported:?}");
    assert!(imported.out.contains("2 accounts imported, 5 things left out"), "{imported:?}");
    for told in [
        "all.xml:30: an archived message",
        "all.xml:34: <odd xmlns='urn:odd'/> is unknown here",
        "all.xml:36: the account \"ro meo\"",
        "all.xml:37: tybalt@localhost has keys for SCRAM-SHA-1 only",
        "all.xml:44: the host \"elsewhere.example\" isn't a domain of this server",
    ] {
        assert!(imported.err.contains(told), "{told} is not in\n{}", imported.err);
    }
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\ntybalt@localhost\n");
    rig.run(&["user", "export", "juliet@localhost", "juliet.xml"]).fine();
    let exported = std::fs::read_to_string(rig.path("juliet.xml")).expect("an export");
    for there in [
        "<item jid='romeo@montague.net' name='Romeo' subscription='both'><group>Friends</group></item>",
        "<presence xmlns='jabber:client' from='paris@montague.net' to='juliet@localhost' type='subscribe'/>",
        "<body>Neither, fair saint</body>",
        "stamp='2010-07-10T23:08:25Z'",
        "<query xmlns='jabber:iq:private'><exodus xmlns='exodus:prefs'><defaultnick>J</defaultnick></exodus></query>",
        "<affiliation jid='mercutio@example.net' affiliation='member'/>",
        "<value>whitelist</value>",
        "<item xmlns='http://jabber.org/protocol/pubsub' id='a@b.example' publisher='juliet@localhost'><conference xmlns='urn:xmpp:bookmarks:1'/></item>",
        "<body>Call me but love</body>",
        "<body>What man art thou</body>",
        "<vCard xmlns='vcard-temp'><FN>Juliet &amp; Co</FN></vCard>",
        "mechanism='SCRAM-SHA-512'",
    ] {
        assert!(exported.contains(there), "{there} is not in\n{exported}");
    }
    assert_eq!(exported.matches("<delay").count(), 3, "{exported}");
    assert!(!exported.contains("secret"));
}

/// XEP-0402 §6: in private data or in a node, and without those that are nowhere.
#[test]
fn bookmarks_of_the_older_kind_become_items() {
    let storage = "<storage xmlns='storage:bookmarks'><conference jid='Coven@chat.example' name='C' autojoin='1'>\
                   <nick>t</nick></conference><conference name='nowhere'/></storage>";
    let node = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='storage:bookmarks'><item id='current'>";
    for kept in [
        format!("<query xmlns='jabber:iq:private'>{storage}</query>"),
        format!("{node}{storage}</item></items></pubsub>"),
    ] {
        let rig = CliRig::new();
        let data = "<server-data xmlns='urn:xmpp:pie:0'><host jid='localhost'><user name='tybalt' password='secret'>";
        rig.write("all.xml", &format!("{data}{kept}</user></host></server-data>"));
        rig.run(&["user", "import", "all.xml", "--allow-short"]).fine();
        rig.run(&["user", "export", "tybalt@localhost", "tybalt.xml"]).fine();
        let tybalt = std::fs::read_to_string(rig.path("tybalt.xml")).expect("an export");
        let bookmark = "<item xmlns='http://jabber.org/protocol/pubsub' id='coven@chat.example' publisher='tybalt@localhost'>\
                        <conference xmlns='urn:xmpp:bookmarks:1' name='C' autojoin='1'><nick>t</nick></conference></item>";
        assert!(tybalt.contains(bookmark) && tybalt.contains("<value>whitelist</value>"), "{tybalt}");
        assert!(!tybalt.contains("storage:bookmarks") && tybalt.matches("<item ").count() == 1, "{tybalt}");
    }
}

#[test]
fn an_export_is_imported_as_it_was() {
    let (one, other) = (CliRig::new(), CliRig::new());
    one.write("all.xml", FOREIGN);
    one.run(&["user", "import", "all.xml", "--allow-short"]);
    one.run(&["user", "export", "localhost", "first.xml"]).fine();
    let first = std::fs::read_to_string(one.path("first.xml")).expect("an export");
    other.write("first.xml", &first);
    let imported = other.run(&["user", "import", "first.xml", "--allow-short"]);
    assert_eq!(imported.out.as_str(), "2 accounts imported, 1 thing left out\n");
    // Keys that the export lacks are missing here, too.
    assert!(imported.err.contains("tybalt@localhost has keys for SCRAM-SHA-1 only"), "{imported:?}");
    other.run(&["user", "export", "localhost", "second.xml"]).fine();
    assert_eq!(std::fs::read_to_string(other.path("second.xml")).expect("an export"), first);
    // What exists is left alone, accounts as well as files.
    other
        .run(&["user", "import", "first.xml", "--allow-short"])
        .expect_failure(1, "juliet@localhost already exists and is left alone");
    other.run(&["user", "export", "localhost", "second.xml"]).expect_failure(1, "second.xml");
}

#[test]
fn files_may_include_others() {
    let rig = CliRig::new();
    let xi = "xmlns:xi='http://www.w3.org/2001/XInclude'";
    rig.write("main.xml", &format!("<server-data xmlns='urn:xmpp:pie:0' {xi}><xi:include href='local%68ost.xml'/><xi:include href='/etc/passwd'/></server-data>"));
    rig.write("localhost.xml", &format!("<host xmlns='urn:xmpp:pie:0' {xi} jid='localhost'><xi:include href='juliet.xml'/>\n<xi:include href='nobody.xml'/></host>"));
    rig.write("juliet.xml", "<user xmlns='urn:xmpp:pie:0' name='juliet' password='secret'/>");
    let imported = rig.run(&["user", "import", "main.xml", "--allow-short"]);
    assert!(imported.out.contains("1 account imported, 2 things left out"), "{imported:?}");
    assert!(imported.err.contains("localhost.xml:2: ") && imported.err.contains("/etc/passwd"), "{imported:?}");
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
}

#[test]
fn broken_files_are_told_with_their_line() {
    let rig = CliRig::new();
    rig.write(
        "broken.xml",
        "<server-data xmlns='urn:xmpp:pie:0'>\n<host jid='localhost'>\n<user name='a' password='secret'>\n</host>",
    );
    rig.run(&["user", "import", "broken.xml", "--allow-short"]).expect_failure(1, "broken.xml:4: ");
    rig.write("short.xml", "<server-data xmlns='urn:xmpp:pie:0'>\n<host jid='localhost'>\n");
    rig.run(&["user", "import", "short.xml", "--allow-short"]).expect_failure(1, "short.xml:3: ");
    rig.write("other.xml", "<html/>");
    rig.run(&["user", "import", "other.xml", "--allow-short"]).expect_failure(1, "this is not an export of accounts");
    rig.run(&["user", "export", "nobody@localhost", "nobody.xml"])
        .expect_failure(1, "there is no account nobody@localhost");
    assert!(!rig.path("nobody.xml").exists());
}

/// A running server looks for nodes only of those accounts that have some. It learns of what an
/// import has created, without a restart.
#[test]
fn nodes_that_are_imported_beside_a_running_server_are_found() {
    let rig = CliRig::fresh();
    let (_server, said) = rig.serve();
    person::add(&rig, "romeo");
    let certificate = person::certificate(&rig);
    // The server reads which accounts have nodes.
    wants_bookmarks(&mut Person::log_in(&said, &certificate, "romeo"));
    let with_password = FOREIGN.replace("password='secret'", &format!("password='{PASSWORD}'"));
    rig.write("all.xml", &with_password);
    rig.run(&["user", "import", "all.xml", "--allow-short"]);
    let until = Instant::now() + Duration::from_secs(60);
    while !wants_bookmarks(&mut Person::log_in(&said, &certificate, "juliet")) {
        assert!(Instant::now() < until, "her bookmarks never come");
    }
}

/// Announces an interest in bookmarks, and returns whether an item of them comes.
fn wants_bookmarks(person: &mut Person) -> bool {
    // Of a hash that is wrong, the server asks every client.
    person.say(
        "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:test' ver='AAAA'/></presence>",
    );
    let asked = person.hear(|stanza| stanza.attr("type") == Some("get"));
    let (id, from) = (asked.attr("id").expect("an id"), asked.attr("from").expect("a sender"));
    person.say(&format!(
        "<iq type='result' id='{id}' to='{from}'>\
         <query xmlns='http://jabber.org/protocol/disco#info' node='urn:test#AAAA'>\
         <identity category='client' type='pc' name='Test'/><feature var='urn:xmpp:bookmarks:1+notify'/></query></iq>\
         <iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>"
    ));
    // The answer may overtake an item that is read from the store, so a second one is waited for.
    let is_ping = |stanza: &Element| stanza.attr("id") == Some("p");
    let is_item =
        |stanza: &Element| stanza.name() == "message" && stanza.children().any(|child| child.name() == "event");
    let mut is_told = is_item(&person.hear(|stanza| is_ping(stanza) || is_item(stanza)));
    if !is_told {
        thread::sleep(Duration::from_millis(500));
        person.say("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
        is_told = is_item(&person.hear(|stanza| is_ping(stanza) || is_item(stanza)));
    }
    is_told
}
