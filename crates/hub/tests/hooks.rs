//! Tests the hooks of modules: the order is by phase and not by registration, a stanza that one
//! module takes is seen by no other, and a module that is off for a domain is not called for its
//! sessions.

use std::sync::Arc;

use rookery_fanout::{Link, Packet, StanzaType};
use rookery_hub::world::Place;
use rookery_hub::{
    Delivery, Domain, Event, Hooks, LoginBy, Module, Options, Passage, Phase, Registry, Settings, Stanzas, Target,
    Wakeups, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;
use rookery_store::memory::Memory;
use rookery_store::{Background, wait};
use rookery_xml::{Kind, Limits, Stanza, Writer};

/// The calls of all spies.
#[derive(Default)]
struct HookSeen(Vec<String>);

/// A module that records the calls that it gets, and takes stanzas for the address that has its
/// name.
struct Spy<const AT: usize>;

const NAMES: [&str; 3] = ["guard", "act", "record"];
const PHASES: [Phase; 3] = [Phase::Guard, Phase::Act, Phase::Record];

impl<const AT: usize> Module for Spy<AT> {
    fn name(&self) -> &'static str {
        NAMES[AT]
    }

    fn summary(&self) -> &'static str {
        "writes down what it sees"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        if AT == 0 {
            hooks.state(HookSeen::default());
        }
        hooks.before_route(PHASES[AT], Stanzas::MESSAGES, |world, Passage { packet, to, .. }| {
            note(world, format!("{} {to}", NAMES[AT]));
            pass(NAMES[AT], packet, to)
        });
        hooks.before_delivery(PHASES[AT], DELIVERIES, |world, Passage { packet, to, .. }| {
            let marked = String::from_utf8_lossy(packet.bytes()).matches("<mark").count();
            note(world, format!("{} delivers {marked} {to}", NAMES[AT]));
            pass(NAMES[AT], packet, to)
        });
        hooks.session_ended(|world, link| {
            let address = world.address(link).map(ToString::to_string).unwrap_or_default();
            note(world, format!("{} ended {address}", NAMES[AT]));
        });
        hooks.feature(Target::Server, NAMES[AT]);
    }
}

fn note(world: &mut World, seen: String) {
    world.state_mut::<HookSeen>().0.push(seen);
}

/// Takes stanzas for its name, and marks stanzas for the user.
fn pass(name: &str, packet: &Packet, to: JidRef<'_>) -> Delivery {
    match to.local() {
        Some(local) if local == name => Delivery::Taken,
        Some("user") => {
            let mut mark = Writer::with_ns("mark", "urn:example");
            mark.attr("by", name);
            Delivery::As(packet.with_child(&mark.finish()))
        }
        _ => Delivery::Pass,
    }
}

const DELIVERIES: Stanzas = Stanzas::of(Kind::Message, &[StanzaType::Normal]).and(Stanzas::PRESENCE);

struct HookStage {
    world: World,
}

impl HookStage {
    fn new(on: &[&'static str]) -> Self {
        Self::at(Place::alone(0, 1, [1, 2, 3, 4]), on)
    }

    /// Returns the first of two shards, without a module.
    fn of_two_shards() -> Self {
        Self::at(Place::alone(0, 2, [1, 2, 3, 4]), &[])
    }

    fn at(place: Place, on: &[&'static str]) -> Self {
        // In the wrong order on purpose.
        let modules: Vec<Box<dyn Module>> = vec![Box::new(Spy::<2>), Box::new(Spy::<1>), Box::new(Spy::<0>)];
        let modules_on = on.iter().map(|name| (*name, Options::default())).collect();
        let domain = Domain { name: "example.org".into(), modules: modules_on, login: LoginBy::Own };
        let settings = Settings { domains: vec![domain], ..Settings::default() };
        let stores = Memory::stores();
        let keys = Credentials::derive_with("password", 1, [[0; 16]; 3]).unwrap();
        assert_eq!(wait(stores.accounts.create(account().as_ref(), keys)), Ok(true));
        let background = Background::new(1).unwrap();
        let wakeups = Wakeups::new(|| {});
        let registry = Registry::new(modules);
        let mut world = World::new(place, Arc::new(settings), registry, stores, background, wakeups);
        world.bind(Link(0), &account(), Some("r"));
        while world.run_tasks() {}
        assert!(matches!(world.next_event(), Some(Event::Bound(Link(0), Ok(_)))));
        Self { world }
    }

    /// Returns the calls that the spies have recorded since the last call.
    fn take_seen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.world.state_mut::<HookSeen>().0)
    }

    fn available(&mut self) {
        let _ = self.world.stanza(Link(0), Stanza::parse(b"<presence/>", &Limits::AFTER_LOGIN).unwrap());
        while self.world.run_tasks() {}
        self.take_seen();
    }

    fn say(&mut self, to: &str) -> Vec<String> {
        let stanza = format!("<message type='headline' to='{to}'/>");
        let _ = self.world.stanza(Link(0), Stanza::parse(stanza.as_bytes(), &Limits::AFTER_LOGIN).unwrap());
        self.take_seen()
    }
}

fn account() -> Jid {
    Jid::parse("user@example.org").unwrap()
}

#[test]
fn phases_decide_the_order() {
    let mut stage = HookStage::new(&["guard", "act", "record"]);
    assert_eq!(stage.say("x@example.org"), ["guard x@example.org", "act x@example.org", "record x@example.org"]);
}

#[test]
fn what_one_takes_the_later_ones_do_not_see() {
    let mut stage = HookStage::new(&["guard", "act", "record"]);
    assert_eq!(stage.say("guard@example.org"), ["guard guard@example.org"]);
    assert_eq!(stage.say("act@example.org"), ["guard act@example.org", "act act@example.org"]);
}

#[test]
fn a_module_that_is_off_is_neither_called_nor_shown() {
    let mut stage = HookStage::new(&["act"]);
    assert_eq!(stage.say("x@example.org"), ["act x@example.org"]);
    let domain = stage.world.domain("example.org").unwrap();
    assert_eq!(stage.world.registry().features(Target::Server, domain), ["act"]);
}

#[test]
fn modules_hear_of_the_end_of_a_session_while_it_has_a_name() {
    let mut stage = HookStage::new(&["record"]);
    stage.world.closed(Link(0));
    assert_eq!(stage.take_seen(), ["record ended user@example.org/r"]);
    assert!(matches!(stage.world.next_event(), Some(Event::Released(Link(0)))));
}

#[test]
fn each_sees_a_delivery_as_the_one_before_left_it() {
    let mut stage = HookStage::new(&["guard", "act", "record"]);
    let packet = Packet::from_bytes(b"<message from='x@example.net/r'><body>hi</body></message>").unwrap();
    stage.world.route(&packet, account().as_ref());
    let user = "user@example.org";
    let expected = ["guard delivers 0", "act delivers 1", "record delivers 2"].map(|seen| format!("{seen} {user}"));
    assert_eq!(stage.take_seen(), expected);
    // It has another type, so no module wanted to see it.
    let packet = Packet::from_bytes(b"<message from='x@example.net/r' type='chat'><body>hi</body></message>").unwrap();
    stage.world.route(&packet, account().as_ref());
    assert_eq!(stage.take_seen(), Vec::<String>::new());
}

#[test]
fn a_delivery_that_one_takes_goes_no_further_and_needs_no_account() {
    let mut stage = HookStage::new(&["guard", "act"]);
    for stanza in [&b"<message from='x@example.net/r'/>"[..], b"<presence from='x@example.net/r'/>"] {
        let packet = Packet::from_bytes(stanza).unwrap();
        stage.world.route(&packet, Jid::parse("guard@example.org").unwrap().as_ref());
        assert_eq!(stage.take_seen(), ["guard delivers 0 guard@example.org"]);
        let to = Jid::parse("nobody@example.org").unwrap();
        stage.world.fan_out(&packet, [to.as_ref()]);
        assert_eq!(stage.take_seen(), ["guard delivers 0 nobody@example.org", "act delivers 0 nobody@example.org"]);
    }
}

#[test]
fn what_comes_back_from_a_session_is_not_seen_again() {
    let mut stage = HookStage::new(&["record"]);
    stage.available();
    let packet = Packet::from_bytes(b"<message from='x@example.net/r'><body>hi</body></message>").unwrap();
    stage.world.route(&packet, account().as_ref());
    assert_eq!(stage.take_seen(), ["record delivers 0 user@example.org"]);
    stage.world.closed(Link(0));
    assert_eq!(stage.take_seen(), ["record ended user@example.org/r"]);
}

/// Nobody knows how far its first home has processed it.
#[test]
fn mail_that_goes_to_a_new_home_is_marked() {
    let mut stage = HookStage::of_two_shards();
    let names = (0..).map(|number| Jid::parse(&format!("user{number}@example.org")).unwrap());
    let to: Vec<_> = names.filter(|name| stage.world.home_of(name.as_ref()) == 1).take(2).collect();
    let packet = Packet::from_bytes(b"<message from='x@example.net/r' id='1'><body>hi</body></message>").unwrap();
    stage.world.fan_out(&packet, to.iter().map(Jid::as_ref));
    stage.world.route(&packet, to[0].as_ref());
    stage.world.bundle(vec![packet], &to[0]);
    let posted = stage.world.take_mail(1);
    assert_eq!(posted.len(), 3);
    posted.iter().for_each(|parcel| stage.world.mail_again(&parcel.encode().unwrap(), None));
    let again = stage.world.take_mail(1);
    assert_eq!(again.len(), 3);
    for parcel in again {
        assert!(format!("{parcel:?}").contains("again: true"), "{parcel:?}");
    }
}
