//! Users who may not see an account can't find out anything about it, not even if it exists, by any
//! request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rookery_hub::{Registry, Target};
use rookery_modules::{Shared, table};
use rookery_store::forward::{Forward, Owners};
use rookery_store::memory::Memory;
use rookery_store::{Pending, Stores, sqlite};
use rookery_testkit::engine::at_once;
use rookery_testkit::{Client, Config, Server, befriend};
use rookery_xml::ns;

/// The requests about an account: the type, the resource if it goes to one, and the payload.
const QUESTIONS: &[(&str, &str, &str)] = &[
    ("get", "", "<query xmlns='http://jabber.org/protocol/disco#info'/>"),
    ("get", "", "<query xmlns='http://jabber.org/protocol/disco#items'/>"),
    ("get", "", "<query xmlns='http://jabber.org/protocol/disco#items' node='urn:secret'/>"),
    ("get", "", "<query xmlns='http://jabber.org/protocol/disco#info' node='urn:secret'/>"),
    ("get", "", "<query xmlns='jabber:iq:last'/>"),
    ("get", "", "<query xmlns='jabber:iq:version'/>"),
    ("get", "", "<time xmlns='urn:xmpp:time'/>"),
    ("get", "", "<ping xmlns='urn:xmpp:ping'/>"),
    ("get", "", "<query xmlns='jabber:iq:roster'/>"),
    ("set", "", "<query xmlns='jabber:iq:roster'><item jid='a@b.example'/></query>"),
    ("get", "", "<query xmlns='jabber:iq:private'><n xmlns='urn:secret'/></query>"),
    ("get", "", "<query xmlns='jabber:iq:privacy'/>"),
    ("get", "", "<blocklist xmlns='urn:xmpp:blocking'/>"),
    ("set", "", "<block xmlns='urn:xmpp:blocking'><item jid='a@b.example'/></block>"),
    ("set", "", "<query xmlns='urn:xmpp:mam:2'/>"),
    ("get", "", "<query xmlns='urn:xmpp:mam:2'/>"),
    ("get", "", "<metadata xmlns='urn:xmpp:mam:2'/>"),
    ("get", "", "<prefs xmlns='urn:xmpp:mam:2'/>"),
    ("set", "", "<enable xmlns='urn:xmpp:carbons:2'/>"),
    ("set", "", "<enable xmlns='urn:xmpp:push:0' jid='push.example' node='n'/>"),
    ("get", "", "<query xmlns='jabber:iq:register'/>"),
    ("set", "", "<query xmlns='jabber:iq:register'><remove/></query>"),
    ("set", "", "<query xmlns='jabber:iq:register'><username>x</username><password>long enough</password></query>"),
    ("get", "", "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:secret'/></pubsub>"),
    ("get", "", "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:friends'/></pubsub>"),
    ("get", "", "<pubsub xmlns='http://jabber.org/protocol/pubsub'><subscriptions/></pubsub>"),
    ("get", "", "<pubsub xmlns='http://jabber.org/protocol/pubsub'><affiliations/></pubsub>"),
    (
        "set",
        "",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:secret'><item id='x'><n xmlns='urn:n'/></item></publish></pubsub>",
    ),
    ("set", "", "<pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='urn:new'/></pubsub>"),
    ("get", "", "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='urn:secret'/></pubsub>"),
    ("get", "", "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><affiliations node='urn:friends'/></pubsub>"),
    ("set", "", "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><delete node='urn:secret'/></pubsub>"),
    ("set", "", "<command xmlns='http://jabber.org/protocol/commands' node='x'/>"),
    ("get", "", "<address xmlns='urn:xmpp:sic:1'/>"),
    ("get", "", "<services xmlns='urn:xmpp:extdisco:2'/>"),
    ("get", "", "<q xmlns='urn:example:unknown'/>"),
    ("get", "/r", "<query xmlns='jabber:iq:last'/>"),
    ("get", "/gone", "<query xmlns='jabber:iq:last'/>"),
    ("get", "/gone", "<query xmlns='jabber:iq:version'/>"),
    ("get", "/gone", "<query xmlns='http://jabber.org/protocol/disco#info'/>"),
];

#[test]
fn strangers_cannot_tell_who_is_there() {
    learn_nothing(&Config::default(), QUESTIONS);
}

/// A request for each namespace of a module, with a payload that the module doesn't know.
#[test]
fn no_namespace_tells_strangers_who_is_there() {
    let namespaces = Registry::new(table(&Shared::default())).requests(Target::Account);
    assert!(namespaces.len() > 10, "{namespaces:?}");
    let payloads: Vec<_> = namespaces.iter().map(|namespace| format!("<x xmlns='{namespace}'/>")).collect();
    let asked = payloads.iter().flat_map(|payload| [("get", "", payload.as_str()), ("set", "", payload.as_str())]);
    learn_nothing(&Config::default(), &asked.collect::<Vec<_>>());
}

/// A stranger's stanzas that aren't requests.
const STANZAS: &[&str] = &[
    "<presence type='probe' TO/>",
    "<presence type='subscribe' TO/>",
    "<presence type='unsubscribe' TO/>",
    "<presence type='subscribed' TO/>",
    "<presence type='unsubscribed' TO/>",
    "<presence TO/>",
    "<presence type='unavailable' TO/>",
    "<message type='chat' id='q' TO><body>hi</body></message>",
    "<message id='q' TO><body>hi</body></message>",
    "<message type='headline' id='q' TO><body>hi</body></message>",
    "<message type='groupchat' id='q' TO><body>hi</body></message>",
    "<message type='error' id='q' TO><error type='cancel'/></message>",
    "<iq type='result' id='q' TO/>",
];

/// The time until a reply comes depends on the store's operations and the statements that they
/// take. Both numbers must be the same for an account that exists and is away as for one that
/// doesn't exist, at the first request and later. For stanzas without a reply, the operations must
/// be the same.
#[test]
fn an_answer_takes_as_long_with_and_without_an_account() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = sqlite::open(&folder.path().join("rookery.db"), &sqlite::SqliteOptions::default());
    let database = Arc::new(database.expect("a new database"));
    let store = Counting { stores: at_once(Stores::of(database.clone()), folder), operations: AtomicUsize::new(0) };
    let store = Arc::new(store);
    let server = Server::with(Config { federates: true, stores: Stores::of(store.clone()), ..Config::default() });
    let counts = || (store.operations.load(Ordering::Relaxed), database.statements());
    let questions = QUESTIONS.iter().filter(|(_, resource, _)| *resource != "/r");
    let questions = questions.map(|(kind, resource, payload)| {
        (true, format!("<iq type='{kind}' id='q' from='s@far.example/s' to='ACCOUNT{resource}'>{payload}</iq>"))
    });
    let stanzas = STANZAS.iter().map(|stanza| (false, stanza.replace("TO", "from='s@far.example/s' to='ACCOUNT'")));
    let (mut differences, mut total) = (Vec::new(), 0);
    for (number, (is_question, stanza)) in questions.chain(stanzas).enumerate() {
        for shard in [0, 1] {
            let name = |stem: &str| server.name_at(&format!("{stem}{number}-"), shard);
            let whom = ["nobody", "away"].map(name);
            server.account(&whom[1]);
            for time in ["first", "second"] {
                let asked = whom.each_ref().map(|name| {
                    server.settle();
                    let before = counts();
                    server.incoming(&stanza.replace("ACCOUNT", server.address(name).as_str()));
                    server.take_left();
                    let after = counts();
                    // To store such a stanza takes more statements, but still one operation.
                    (after.0 - before.0, if is_question { after.1 - before.1 } else { 0 })
                });
                total += asked[0].0;
                if asked[0] != asked[1] {
                    differences.push(format!("the {time} time {asked:?}: {stanza}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "of nobody, and of somebody who is away:\n{}", differences.join("\n"));
    assert!(total > 0, "nothing was asked");
}

/// Stores that count their operations.
struct Counting {
    stores: Stores,
    operations: AtomicUsize,
}

impl Forward for Counting {
    fn inner(&self) -> &Stores {
        &self.stores
    }

    fn forward<T: Send + 'static>(
        &self,
        _: Owners,
        call: impl FnOnce(&Stores) -> Pending<T> + Send + 'static,
    ) -> Pending<T> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        call(&self.stores)
    }
}

/// Sends requests as strangers, from this server and another one, to an account that is online, one
/// that is away, and one that doesn't exist. All of them must get the same replies, on whatever
/// shard the accounts' home is.
///
/// A request is the type of the IQ, the resource that it is for (or nothing), and the payload.
pub fn learn_nothing(config: &Config, questions: &[(&str, &str, &str)]) {
    for shard in [0, 1] {
        from_here(config, shard, questions);
    }
    from_elsewhere(config, questions);
}

fn from_here(config: &Config, shard: usize, questions: &[(&str, &str, &str)]) {
    let server = Server::with(Config { stores: Memory::stores(), ..config.clone() });
    let [here, away, nobody] = ["here", "away", "nobody"].map(|stem| server.name_at(stem, shard));
    let mut here = server.online(&format!("{here}/r"));
    let mut friend = server.online("friend/f");
    befriend(&mut here, &mut friend);
    keep_something(&mut here);
    let mut gone = server.online(&format!("{away}/r"));
    keep_something(&mut gone);
    gone.close();
    let here = here.bare().to_owned();
    let accounts = [here.clone(), server.address(&away).to_string(), server.address(&nobody).to_string()];
    let mut stranger = server.online("stranger/s");
    for question @ (kind, resource, payload) in questions {
        let ask = |account: &String| {
            stranger.send(&format!("<iq type='{kind}' id='q' to='{account}{resource}'>{payload}</iq>"));
            format!("{:?}", stranger.all()).replace(account, "ACCOUNT")
        };
        check(question, accounts.each_ref().map(ask));
    }
    for stanza in [
        "<presence type='probe' to='TO'/>",
        "<presence type='unsubscribe' to='TO'/>",
        "<presence type='unsubscribed' to='TO'/>",
    ] {
        for to in &accounts {
            stranger.send(&stanza.replace("TO", to));
            stranger.expect_nothing();
        }
    }
}

/// Sends the requests as users of another server.
fn from_elsewhere(config: &Config, questions: &[(&str, &str, &str)]) {
    let server = Server::with(Config { federates: true, stores: Memory::stores(), ..config.clone() });
    let mut here = server.online("here/r");
    keep_something(&mut here);
    server.account("away");
    for question @ (kind, resource, payload) in questions {
        let ask = |account: &str| {
            server.incoming(&format!(
                "<iq type='{kind}' id='q' from='s@far.example/s' to='{account}{resource}'>{payload}</iq>"
            ));
            let left: Vec<_> =
                server.take_left().into_iter().map(|left| left.text.replace(account, "ACCOUNT")).collect();
            left.join("")
        };
        check(question, ["here@example.org", "away@example.org", "nobody@example.org"].map(ask));
    }
}

fn check((kind, resource, payload): &(&str, &str, &str), [here, away, nobody]: [String; 3]) {
    assert!(away == nobody, "{kind} {resource} {payload}: away {away}\nnobody {nobody}");
    // Anyone who guesses an existing resource may send it requests.
    assert!(*resource == "/r" || here == nobody, "{kind} {resource} {payload}: here {here}\nnobody {nobody}");
}

/// Stores a vCard and an open node, both of which are for anyone who knows the address (XEP-0054
/// §3.3). Everything else that it stores is closed.
fn keep_something(client: &mut Client) {
    for payload in [
        "<query xmlns='jabber:iq:private'><n xmlns='urn:secret'>mine</n></query>",
        "<block xmlns='urn:xmpp:blocking'><item jid='x@far.example'/></block>",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:friends'><item id='1'><n xmlns='urn:n'/></item></publish></pubsub>",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:secret'><item id='1'><n xmlns='urn:n'/></item></publish>\
         <publish-options><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
         <field var='pubsub#access_model'><value>whitelist</value></field></x></publish-options></pubsub>",
    ] {
        client.send(&format!("<iq type='set' id='k'>{payload}</iq>"));
        let answered = client.all().into_iter().find(|answer| answer.attr("id") == Some("k")).expect("an answer");
        assert!(answered.child("error", ns::CLIENT).is_none(), "{answered:?}");
    }
}
