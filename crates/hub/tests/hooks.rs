//! The hooks of modules: order by phase and not by registration, a stanza that one takes is seen by nobody else, and a module that is
//! off for a domain is not called for its sessions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use rookery_fanout::Link;
use rookery_hub::world::Place;
use rookery_hub::{Domain, Event, Hooks, Module, Options, Phase, Registry, Settings, Target, Verdict, Wakeups, World};
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::memory::Memory;
use rookery_store::{Background, wait};
use rookery_xml::{Limits, Stanza};

type Seen = Rc<RefCell<Vec<String>>>;

/// A module that writes down what it is called with, and takes stanzas to whoever is called like its name.
struct Spy {
    name: &'static str,
    phase: Phase,
    seen: Seen,
}

impl Module for Spy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        "writes down what it sees"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        let (name, seen) = (self.name, self.seen.clone());
        hooks.before_route(self.phase, move |_, _, to| {
            seen.borrow_mut().push(format!("{name} {to}"));
            if to.local() == Some(name) { Verdict::Taken } else { Verdict::Pass }
        });
        let seen = self.seen.clone();
        hooks.session_ended(move |world, link| {
            let address = world.outboxes.address(link).map(ToString::to_string).unwrap_or_default();
            seen.borrow_mut().push(format!("{name} ended {address}"));
        });
        hooks.feature(Target::Server, self.name);
    }
}

struct Stage {
    world: World,
    seen: Seen,
}

impl Stage {
    fn new(on: &[&'static str]) -> Self {
        let seen = Seen::default();
        let spy = |name, phase| Box::new(Spy { name, phase, seen: seen.clone() }) as Box<dyn Module>;
        // In the wrong order on purpose.
        let modules = vec![spy("record", Phase::Record), spy("act", Phase::Act), spy("guard", Phase::Guard)];
        let modules_on: HashMap<_, _> = on.iter().map(|name| (*name, Options::default())).collect();
        let domain = Domain { name: "example.org".into(), modules: modules_on };
        let settings = Settings { domains: vec![domain], ..Settings::default() };
        let stores = Memory::stores();
        let keys = Credentials::derive_with("password", 1, [[0; 16]; 3]).unwrap();
        assert_eq!(wait(stores.accounts.create(account().as_ref(), keys)), Ok(true));
        let place = Place { shard: 0, shards: 1, keys: [1, 2, 3, 4] };
        let background = Background::new(1).unwrap();
        let wakeups = Wakeups::new(|| {});
        let registry = Registry::new(modules);
        let mut world = World::new(place, Arc::new(settings), registry, stores, background, wakeups);
        world.bind(Link(0), &account(), Some("r"));
        while world.run_tasks() {}
        assert!(matches!(world.next_event(), Some(Event::Bound(Link(0), Ok(_)))));
        Self { world, seen }
    }

    fn say(&mut self, to: &str) -> Vec<String> {
        let stanza = format!("<message type='headline' to='{to}'/>");
        let _ = self.world.stanza(Link(0), Stanza::parse(stanza.as_bytes(), &Limits::AFTER_LOGIN).unwrap());
        self.seen.take()
    }
}

fn account() -> Jid {
    Jid::parse("user@example.org").unwrap()
}

#[test]
fn phases_decide_the_order() {
    let mut stage = Stage::new(&["guard", "act", "record"]);
    assert_eq!(stage.say("x@example.org"), ["guard x@example.org", "act x@example.org", "record x@example.org"]);
}

#[test]
fn what_one_takes_the_later_ones_do_not_see() {
    let mut stage = Stage::new(&["guard", "act", "record"]);
    assert_eq!(stage.say("guard@example.org"), ["guard guard@example.org"]);
    assert_eq!(stage.say("act@example.org"), ["guard act@example.org", "act act@example.org"]);
}

#[test]
fn a_module_that_is_off_is_neither_called_nor_shown() {
    let mut stage = Stage::new(&["act"]);
    assert_eq!(stage.say("x@example.org"), ["act x@example.org"]);
    let domain = stage.world.domain("example.org").unwrap();
    assert_eq!(stage.world.registry().features(Target::Server, domain), ["act"]);
}

#[test]
fn modules_hear_of_the_end_of_a_session_while_it_has_a_name() {
    let mut stage = Stage::new(&["record"]);
    stage.world.closed(Link(0));
    assert_eq!(stage.seen.take(), ["record ended user@example.org/r"]);
    assert!(matches!(stage.world.next_event(), Some(Event::Released(Link(0)))));
}
