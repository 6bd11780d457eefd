//! XEP-0198 §4: what is acknowledged is in the store, whatever way it took there; and a store that
//! is slow delays acknowledgements alone.

mod over;

use std::sync::Arc;

use rookery_store::StoreError;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::Element;

/// Romeo has stream management and writes, on shard 0; juliet is there, on shard 1. The store
/// answers at once until it is held.
struct CustodyScene {
    server: Server,
    held: Arc<HeldStores>,
    romeo: Client,
    juliet: Client,
    /// The id by which romeo resumes.
    id: String,
}

impl CustodyScene {
    /// Makes the scene without archives.
    fn new() -> Self {
        Self::with(Config { modules_off: vec!["archive"], ..Config::default() })
    }

    fn with(config: Config) -> Self {
        let held = HeldStores::new(Memory::stores());
        held.set_flowing(true);
        let server = Server::with(Config { stores: held.stores(), ..config });
        let [romeo, juliet] = [("romeo", 0), ("juliet", 1)].map(|(stem, at)| server.name_at(stem, at));
        let mut romeo = server.online(&format!("{romeo}/orchard")).with_name("romeo");
        let juliet = server.online(&format!("{juliet}/balcony")).with_name("juliet");
        let id = romeo.enable();
        Self { server, held, romeo, juliet, id }
    }

    /// Returns an account that is away, and whose home is that shard.
    fn away(&self, shard: usize) -> String {
        self.server.account(&self.server.name_at("mercutio", shard)).to_string()
    }

    fn write(&mut self, to: &str, body: &str) {
        self.romeo.send(&format!("<message to='{to}' type='chat'><body>{body}</body></message>"));
    }

    fn ask(&mut self) {
        self.romeo.send("<r xmlns='urn:xmpp:sm:3'/>");
    }

    /// Lets the store answer, step by step: romeo hears nothing before the last one. Returns how
    /// many steps there were.
    fn release_all(&mut self) -> usize {
        let mut steps = 0;
        self.server.settle();
        while self.held.waiting() > 0 {
            self.romeo.expect_nothing();
            self.held.release_one();
            self.server.settle();
            steps += 1;
        }
        steps
    }

    fn expect_acknowledged(&mut self, h: u32) {
        let got = self.answers();
        assert_eq!(got, [h]);
    }

    fn expect_nothing(&mut self) {
        assert!(self.answers().is_empty());
    }

    /// Returns the counts that romeo has heard; the server asks as well.
    fn answers(&mut self) -> Vec<u32> {
        let got = self.romeo.all().into_iter().filter(|element| !element.is("r", "urn:xmpp:sm:3"));
        let count = |element: Element| element.attr("h").unwrap_or_else(|| panic!("{element:?}")).parse();
        got.map(|element| count(element).expect("a number")).collect()
    }

    /// Lets romeo and juliet talk.
    fn chat(&mut self) {
        let to = self.juliet.full().to_owned();
        self.write(&to, "are you there?");
        assert_eq!(self.juliet.bodies(), ["are you there?"]);
        self.juliet.send(&format!("<message to='{}'><body>yes</body></message>", self.romeo.full()));
        assert_eq!(self.romeo.bodies(), ["yes"]);
    }
}

/// A message for somebody who is away, on the same shard and on another one: two questions to the
/// store each, one after the other.
#[test]
fn an_offline_message_is_acknowledged_when_it_is_stored() {
    for shard in [0, 1] {
        let mut scene = CustodyScene::new();
        let away = scene.away(shard);
        scene.held.set_flowing(false);
        scene.write(&away, "later");
        scene.ask();
        assert_eq!(scene.release_all(), 2);
        scene.expect_acknowledged(1);
        scene.held.set_flowing(true);
        scene.romeo.expect_alive();
        let account = scene.server.address(&away);
        assert_eq!(scene.server.finish(scene.server.stores().offline.count(account.as_ref())), Ok(1));
    }
}

/// Archives of both sides, which gather for a moment. Nobody waits for them but acknowledgements.
#[test]
fn an_archived_message_is_acknowledged_when_it_is_stored() {
    let mut scene = CustodyScene::with(Config::default());
    scene.held.set_flowing(false);
    let to = scene.juliet.full().to_owned();
    scene.write(&to, "hello");
    scene.ask();
    assert_eq!(scene.juliet.bodies(), ["hello"]);
    scene.expect_nothing();
    scene.server.advance(200);
    assert_eq!(scene.release_all(), 2, "one archive on each shard");
    scene.expect_acknowledged(1);
}

/// A store that is away has not done anything: nothing is acknowledged, and once it is back the
/// archives have everything.
#[test]
fn an_outage_delays_acknowledgements() {
    for outage in
        [StoreError::Busy, StoreError::Locked(engine()), StoreError::Io(engine()), StoreError::ReadOnly(engine())]
    {
        let mut scene = CustodyScene::with(Config::default());
        let (to, juliet) = (scene.juliet.full().to_owned(), scene.server.address(scene.juliet.bare()));
        scene.held.set_fault(Some(outage));
        scene.write(&to, "hello");
        scene.ask();
        assert_eq!(scene.juliet.bodies(), ["hello"], "chat goes on");
        for _ in 0..10 {
            scene.server.advance(6_000);
            assert!(scene.answers().iter().all(|count| *count == 0), "nothing is acknowledged");
        }
        scene.held.set_fault(None);
        scene.server.advance(30_000);
        scene.ask();
        assert_eq!(scene.answers().last(), Some(&1));
        assert!(matches!(scene.server.finish(scene.server.stores().archive.ends(juliet.as_ref())), Ok(Some(_))));
        assert_eq!(scene.server.counters().archive_lost, 0);
    }
}

/// A permanent refusal of the store is reported to the client before the acknowledgement.
#[test]
fn a_refusal_is_told_before_the_acknowledgement() {
    let mut scene = CustodyScene::with(Config::default());
    let to = scene.juliet.full().to_owned();
    scene.held.set_fault(Some(StoreError::Full(engine())));
    scene.romeo.send(&format!("<message to='{to}' type='chat' id='m'><body>hello</body></message>"));
    scene.ask();
    assert_eq!(scene.juliet.bodies(), ["hello"]);
    scene.server.advance(200);
    let got: Vec<_> = scene.romeo.all().into_iter().filter(|got| !got.is("r", "urn:xmpp:sm:3")).collect();
    let (acknowledgement, errors) = got.split_last().expect("an acknowledgement");
    assert_eq!(acknowledgement.attr("h"), Some("1"));
    assert_eq!(errors.len(), 2, "one for each archive");
    for error in errors {
        assert_eq!([error.attr("type"), error.attr("id")], [Some("error"), Some("m")]);
        let error = error.child("error", "jabber:client").expect("an error");
        assert!(error.child("resource-constraint", "urn:ietf:params:xml:ns:xmpp-stanzas").is_some(), "{error:?}");
    }
    assert_eq!(scene.server.counters().archive_lost, 2);
}

/// The stanzas that wait for a store that is away are bounded: the rest is refused, and is not
/// delivered. Nothing that was acknowledged is missing.
#[test]
fn what_waits_for_a_store_that_is_away_is_bounded() {
    let mut scene = CustodyScene::with(Config::default());
    let (to, juliet) = (scene.juliet.full().to_owned(), scene.server.address(scene.juliet.bare()));
    scene.held.set_fault(Some(StoreError::Busy));
    let body = "x".repeat(200_000);
    let (mut delivered, mut refused) = (0, 0);
    for number in 0..120 {
        scene.romeo.send(&format!("<message to='{to}' type='chat' id='{number}'><body>{body}</body></message>"));
        delivered += scene.juliet.bodies().len();
        let errors = scene.romeo.all().into_iter().filter(|got| got.attr("type") == Some("error")).inspect(|error| {
            let error = error.child("error", "jabber:client").expect("an error");
            assert!(error.child("resource-constraint", "urn:ietf:params:xml:ns:xmpp-stanzas").is_some(), "{error:?}");
        });
        refused += errors.count();
        scene.server.advance(100);
    }
    assert_eq!((delivered + refused, refused > 0), (120, true));
    scene.held.set_fault(None);
    scene.server.advance(60_000);
    scene.ask();
    assert_eq!(scene.answers().last(), Some(&120));
    let query = rookery_store::ArchiveQuery { limit: 200, max_bytes: 1 << 30, ..Default::default() };
    let page = scene.server.finish(scene.server.stores().archive.page(juliet.as_ref(), query));
    assert_eq!(page.map(|page| page.expect("an archive").messages.len()), Ok(delivered));
}

/// An account that is removed while the store is away leaves nothing to the next one of its name.
#[test]
fn what_waited_for_the_store_goes_with_its_account() {
    let mut scene = CustodyScene::with(Config::default());
    let (to, juliet) = (scene.juliet.full().to_owned(), scene.server.address(scene.juliet.bare()));
    scene.held.set_fault(Some(StoreError::Busy));
    scene.write(&to, "hello");
    scene.server.advance(200);
    scene.held.set_fault(None);
    let removed = juliet.clone();
    scene.server.run_at(1, move |world| {
        world.remove_account(removed, |_, removed| assert_eq!(removed, Ok(true)));
    });
    scene.server.account(juliet.as_str());
    scene.server.advance(60_000);
    assert_eq!(scene.server.finish(scene.server.stores().archive.ends(juliet.as_ref())), Ok(None));
}

fn engine() -> rookery_store::error::EngineWords {
    rookery_store::error::EngineWords { database: "of a test".into(), message: "on demand".into() }
}

/// An invitation goes from romeo's home to that of the room and from there to that of the invited
/// user.
#[test]
fn every_step_counts() {
    let mut scene = CustodyScene::new();
    let rooms = (0..).map(|number| format!("coven{number}@conference.example.org"));
    let room = rooms.into_iter().find(|room| scene.server.home_of(room) == 1).expect("a room there");
    scene.romeo.send(&format!("<presence to='{room}/r'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    scene.romeo.all();
    let away = scene.away(0);
    scene.held.set_flowing(false);
    scene.romeo.send(&format!(
        "<message to='{room}'><x xmlns='http://jabber.org/protocol/muc#user'><invite to='{away}'/></x></message>"
    ));
    scene.ask();
    assert!(scene.release_all() > 0);
    scene.expect_acknowledged(2);
}

/// A stanza that waits in the backlog is not worked off yet.
#[test]
fn a_backlog_is_waited_for() {
    let mut scene = CustodyScene::new();
    let away = scene.away(1);
    scene.held.set_flowing(false);
    scene
        .romeo
        .send("<iq type='set' id='1'><query xmlns='jabber:iq:roster'><item jid='nurse@example.org'/></query></iq>");
    scene.write(&away, "behind it");
    scene.ask();
    scene.expect_nothing();
    scene.held.release_one();
    scene.romeo.expect("<iq type='result' id='1' from='*'/>");
    assert_eq!(scene.release_all(), 2);
    scene.expect_acknowledged(2);
}

/// A message that waits until what was for the account before has been delivered.
#[test]
fn what_waits_for_others_is_waited_for() {
    let mut scene = CustodyScene::new();
    let away = scene.away(1);
    let account = scene.server.address(&away);
    let mut mercutio = scene.server.connect();
    mercutio.log_in(&account, rookery_testkit::Security::Plain);
    scene.held.set_flowing(false);
    // Binding loads what modules need of him; the message comes meanwhile, and he never says that
    // he is there.
    mercutio.send(&rookery_testkit::login::bind_request(Some("x")));
    mercutio.pump();
    scene.write(&away, "later");
    scene.ask();
    assert!(scene.release_all() > 1);
    scene.expect_acknowledged(1);
    scene.held.set_flowing(true);
    assert_eq!(scene.server.finish(scene.server.stores().offline.count(account.as_ref())), Ok(1));
}

/// Other accounts' requests to the store delay nobody.
#[test]
fn others_are_not_waited_for() {
    let mut scene = CustodyScene::new();
    let away = scene.away(0);
    scene.held.set_flowing(false);
    scene.juliet.send(&format!("<message to='{away}'><body>from juliet</body></message>"));
    scene.server.settle();
    assert_eq!(scene.held.waiting(), 1);
    scene.chat();
    scene.ask();
    scene.expect_acknowledged(1);
}

/// Nor is a client that has not read what waited for it.
#[test]
fn the_own_offline_messages_are_not_waited_for() {
    let mut scene = CustodyScene::new();
    scene.juliet.send(&format!("<message to='{}'><body>1</body></message>", scene.away(0)));
    let mut mercutio = scene.server.login(&format!("{}/x", scene.away(0)));
    mercutio.enable();
    mercutio.send("<presence/><r xmlns='urn:xmpp:sm:3'/>");
    let got = mercutio.all();
    assert!(got.iter().any(|element| element.is("a", "urn:xmpp:sm:3") && element.attr("h") == Some("1")), "{got:?}");
    let account = scene.server.address(mercutio.bare());
    let kept = || scene.server.finish(scene.server.stores().offline.count(account.as_ref()));
    assert_eq!(kept(), Ok(1));
    mercutio.send("<a xmlns='urn:xmpp:sm:3' h='2'/>");
    mercutio.pump();
    assert_eq!(kept(), Ok(0));
}

/// Requests that come while the store is waited for are answered together, and in order.
#[test]
fn requests_are_answered_together() {
    let mut scene = CustodyScene::new();
    let (away, other) = (scene.away(0), scene.away(1));
    scene.held.set_flowing(false);
    scene.ask();
    scene.expect_acknowledged(0);
    for _ in 0..3 {
        scene.write(&away, "1");
        scene.ask();
        scene.write(&other, "2");
        scene.ask();
        scene.ask();
    }
    // The first message is done long before the others.
    let mut heard = Vec::new();
    scene.server.settle();
    while scene.held.waiting() > 0 {
        scene.held.release_one();
        heard.extend(scene.answers());
    }
    assert!(heard.is_sorted() && heard.len() <= 3, "{heard:?}");
    assert_eq!((heard.first(), heard.last()), (Some(&1), Some(&6)));
    scene.ask();
    scene.expect_acknowledged(6);
}

/// While the store hangs everybody talks, and a client that asks hears how far it is rather than
/// nothing.
#[test]
fn a_store_that_hangs_delays_acknowledgements_only() {
    let mut scene = CustodyScene::new();
    let away = scene.away(1);
    scene.chat();
    scene.ask();
    scene.expect_acknowledged(1);
    scene.held.set_flowing(false);
    scene.write(&away, "later");
    scene.ask();
    for _ in 0..3 {
        scene.chat();
        scene.ask();
        scene.server.advance(2_500);
        scene.expect_acknowledged(1);
        scene.server.advance(20_000);
        scene.expect_nothing();
    }
    scene.held.set_flowing(true);
    scene.held.release_all();
    scene.server.settle();
    scene.held.release_all();
    scene.expect_acknowledged(5);
    scene.server.advance(20_000);
    scene.expect_nothing();
}

/// A refusal of the store is told as an error, and that comes first.
#[test]
fn an_error_comes_before_the_acknowledgement() {
    let mut scene = CustodyScene::new();
    let away = scene.away(1);
    scene.held.set_fault(Some(StoreError::Panicked("a test".into())));
    scene.write(&away, "lost");
    scene.ask();
    scene.romeo.expect(&format!(
        "<message type='error' from='{away}'><error type='cancel'>\
         <internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
    ));
    scene.expect_acknowledged(1);
}
