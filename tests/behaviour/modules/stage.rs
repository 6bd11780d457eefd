//! One shard's world with all modules, driven by hand.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rookery_fanout::Link;
use rookery_hub::world::Place;
use rookery_hub::{Domain, Event, Guest, Iq, LoginBy, OptionSpec, Options, Registry, Settings, Value, Wakeups, World};
use rookery_jid::Jid;
use rookery_modules::{Shared, table};
use rookery_sasl::Credentials;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_store::{Background, Edit, RosterItem, Stores, Subscription, wait};
use rookery_stream::error::StreamError;
use rookery_xml::{Element, Limits, Scan, Scanner, Stanza, ns};

pub const DOMAIN: &str = "example.org";

pub struct ModuleStage {
    pub world: World,
    pub stores: Stores,
    pub events: Vec<Event>,
    bell: Arc<(Mutex<bool>, Condvar)>,
    links: u32,
}

impl ModuleStage {
    /// Returns a stage with the modules that are on by default, and with stores in memory.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Returns a stage with other settings than the default ones.
    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let stores = Memory::stores();
        Self::over(stores.clone(), stores, change)
    }

    /// Returns a stage whose world sees a store that can be slow or broken; it flows at first. The
    /// stage's own `stores` are always well.
    pub fn with_held_store(change: impl FnOnce(&mut Settings)) -> (Self, Arc<HeldStores>) {
        let stores = Memory::stores();
        let held = HeldStores::new(stores.clone());
        held.set_flowing(true);
        (Self::over(stores, held.stores(), change), held)
    }

    /// Returns a stage whose world sees `seen` in front of `stores`.
    fn over(stores: Stores, seen: Stores, change: impl FnOnce(&mut Settings)) -> Self {
        let modules = table(&Shared::default());
        let on = modules.iter().filter(|module| module.on_by_default());
        let on = on.map(|module| (module.name(), Options::defaults(module.options()))).collect();
        let mut settings = Settings {
            domains: vec![Domain { name: DOMAIN.into(), modules: on, login: LoginBy::Own }],
            ..Settings::default()
        };
        change(&mut settings);
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let wakeups = Wakeups::new({
            let bell = bell.clone();
            move || {
                *bell.0.lock().unwrap() = true;
                bell.1.notify_all();
            }
        });
        let place = Place::alone(0, 1, [1, 2, 3, 4]);
        let background = Background::new(1).unwrap();
        let mut world = World::new(place, Arc::new(settings), Registry::new(modules), seen, background, wakeups);
        world.set_time(0, NOON);
        Self { world, stores, events: Vec::new(), bell, links: 0 }
    }

    /// Creates an account of the stage's domain, and returns its bare JID.
    pub fn account(&self, name: &str) -> Jid {
        let jid = Jid::parse(&format!("{name}@{DOMAIN}")).unwrap();
        let credentials = Credentials::derive_with("a long password", 1, [[0; 16]; 3]).unwrap();
        assert_eq!(wait(self.stores.accounts.create(jid.as_ref(), credentials)), Ok(true));
        jid
    }

    /// Lets `contact` see the presence of `owner`.
    pub fn shows(&self, owner: &Jid, contact: &Jid) {
        let item = RosterItem { subscription: Subscription::From, ..RosterItem::new(contact.clone()) };
        let edit = Box::new(move |_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| Edit::Put(item.clone()));
        wait(self.stores.rosters.change(owner.as_ref(), contact.as_ref(), edit)).unwrap();
    }

    /// Binds a resource of an account.
    pub fn bind(&mut self, account: &Jid, resource: &str) -> Link {
        let link = Link(self.links);
        self.links += 1;
        self.world.bind(link, account, Some(resource));
        self.settle();
        let bound = self.events.iter().any(|event| matches!(event, Event::Bound(of, Ok(_)) if *of == link));
        assert!(bound, "{:?}", self.events);
        link
    }

    /// Lets a session say a stanza.
    pub fn say(&mut self, link: Link, stanza: &str) {
        let stanza = Stanza::parse(stanza.as_bytes(), &Limits::AFTER_LOGIN).unwrap();
        let _ = self.world.stanza(link, stanza);
        self.settle();
    }

    /// Lets a session ask something; the payload's reply, or the whole iq of type error.
    pub fn ask(&mut self, link: Link, type_: &str, to: &str, payload: &str) -> Element {
        let to = if to.is_empty() { String::new() } else { format!(" to='{to}'") };
        self.say(link, &format!("<iq type='{type_}' id='q'{to}>{payload}</iq>"));
        self.answer(link)
    }

    /// Returns the one reply that a session hears.
    pub fn answer(&mut self, link: Link) -> Element {
        let mut heard = self.hear(link);
        assert_eq!(heard.len(), 1, "{heard:?}");
        let answer = heard.remove(0);
        assert_eq!(answer.attr("id"), Some("q"));
        answer
    }

    /// Returns everything that a session hears, with its outbox emptied.
    pub fn hear(&mut self, link: Link) -> Vec<Element> {
        let mut heard = Vec::new();
        while self.world.outboxes.has_waiting(link) {
            heard.extend(self.read(link, usize::MAX));
            self.settle();
        }
        heard
    }

    /// Takes about so many bytes out of a session's outbox, at least one stanza.
    pub fn read(&mut self, link: Link, max: usize) -> Vec<Element> {
        let mut out = Vec::new();
        self.world.outboxes.render(link, max, &mut out);
        self.world.outboxes.remove_sent(link, out.len());
        stanzas(&out)
    }

    /// Runs what can be run now.
    pub fn settle(&mut self) {
        while self.world.run_tasks() {}
        while let Some(event) = self.world.next_event() {
            self.events.push(event);
        }
    }

    /// Runs until nothing is outstanding, background work included.
    pub fn finish(&mut self) {
        loop {
            *self.bell.0.lock().unwrap() = false;
            self.settle();
            if self.world.tasks_waiting() == 0 {
                return;
            }
            let rung = self.bell.0.lock().unwrap();
            let (_rung, late) = self.bell.1.wait_timeout_while(rung, PATIENCE, |rung| !*rung).unwrap();
            assert!(!late.timed_out(), "something never answers");
        }
    }

    /// Lets a connection without login ask something; the reply, when all work is done.
    pub fn guest(&mut self, guest: Guest, type_: &str, payload: &str) -> Element {
        let stanza = format!("<iq type='{type_}' id='q' to='{DOMAIN}'>{payload}</iq>");
        let stanza = Stanza::parse(stanza.as_bytes(), &Limits::BEFORE_LOGIN).unwrap();
        let domain = Jid::parse(DOMAIN).unwrap();
        let iq = Iq::read(stanza, domain.clone(), domain, None).unwrap();
        assert!(self.world.guest_iq(guest, iq), "nobody handles it");
        self.finish();
        let at =
            self.events.iter().position(|event| matches!(event, Event::GuestReply(of, _) if *of == guest.connection));
        match self.events.remove(at.expect("an answer")) {
            Event::GuestReply(_, reply) => Element::parse(reply.bytes()).unwrap(),
            _ => unreachable!(),
        }
    }

    /// Returns the error with which a session has to be closed, if it has to be.
    pub fn closes(&self, link: Link) -> Option<StreamError> {
        self.events.iter().find_map(|event| match event {
            Event::Close(of, error, _) if *of == link => Some(error.clone()),
            _ => None,
        })
    }
}

/// Sets an option of a module, which is then on.
pub fn set(settings: &mut Settings, module: &'static str, key: &str, value: Value) {
    let modules = table(&Shared::default());
    let specs: &[OptionSpec] = modules.iter().find(|other| other.name() == module).unwrap().options();
    let spec = specs.iter().find(|spec| spec.key == key).unwrap();
    assert_eq!((spec.check)(&value), Ok(()));
    let options = settings.domains[0].modules.entry(module).or_insert_with(|| Options::defaults(specs));
    options.set(spec, value);
}

/// Takes a module out.
pub fn switch_off(settings: &mut Settings, module: &str) {
    assert!(settings.domains[0].modules.remove(module).is_some());
}

/// Returns the condition and type of a reply that is an error.
pub fn error(answer: &Element) -> (String, String) {
    assert_eq!(answer.attr("type"), Some("error"), "{answer:?}");
    let error = answer.child("error", ns::CLIENT).unwrap();
    let condition = error.children().find(|child| child.ns() == ns::STANZA_ERRORS && child.name() != "text").unwrap();
    (condition.name().to_owned(), error.attr("type").unwrap_or_default().to_owned())
}

/// Asserts that a reply is this error.
#[track_caller]
pub fn assert_refusal(answer: &Element, condition: &str, type_: &str) {
    assert_eq!(error(answer), (condition.to_owned(), type_.to_owned()));
}

/// Returns the payload of a reply that is a result.
#[track_caller]
pub fn result(answer: &Element) -> Option<&Element> {
    assert_eq!(answer.attr("type"), Some("result"), "{answer:?}");
    answer.children().next()
}

fn stanzas(mut bytes: &[u8]) -> Vec<Element> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let mut scanner = Scanner::new();
        let Ok(Scan::Stanza(len)) = scanner.scan(bytes, &Limits::AFTER_LOGIN) else {
            panic!("no stanza: {}", String::from_utf8_lossy(bytes));
        };
        found.push(Element::read(&scanner.stanza(&bytes[..len])));
        bytes = &bytes[len..];
    }
    found
}

/// 2009-02-13T23:31:30Z.
pub const NOON: u64 = 1_234_567_890_000;

/// Far longer than any work takes; only a test that would hang notices it.
const PATIENCE: Duration = Duration::from_secs(60);
