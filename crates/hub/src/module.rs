//! Modules and their hooks: how an XEP joins the server without the hub knowing it.
//!
//! A module is one file; [`Module::install`] says what it handles. The tables are made once, at start, so that a stanza which no
//! module cares about passes by without a call. Order is by [`Phase`], within a phase by the module table; there are no magic numbers.
//! Whether a module is on is decided per domain, by the operator; one that is off is neither called nor shown in disco.

mod document;
mod registry;

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

pub use document::{DocumentName, DocumentSpec, Exported};
use rookery_base::Transport;
use rookery_fanout::{Link, Packet};
use rookery_jid::JidRef;
use rookery_observe::Bound;
use rookery_xml::{Built, Element};

use crate::World;
use crate::conceal::Conceal;
use crate::documents::Read;
use crate::federation::RemoteService;
use crate::iq::Iq;
use crate::label::Labels;
use crate::letter::{self, Letter};
use crate::passage::{self, Delivery, Passage, Passages, Stanzas, Wanted, Wish};
use crate::question::{self, Question};
use crate::settings::{Domain, OptionSpec};
use crate::shared::SharedContacts;
use crate::state::States;

/// One feature of the server that an operator can switch.
pub trait Module {
    /// The key below `[modules]`.
    fn name(&self) -> &'static str;

    /// One line for operators: what users get from it.
    fn summary(&self) -> &'static str;

    /// The standards that it implements, as `XEP-0199` with the version.
    fn standards(&self) -> &'static [(&'static str, &'static str)];

    /// What it leaves out of these standards: the standard with a few words for people. A standard that isn't here is there as far as it concerns a server.
    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether it is on where the configuration says nothing.
    fn on_by_default(&self) -> bool {
        true
    }

    /// The options that an operator can set.
    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    /// The bounds of what anybody can make it keep or do. Operators read them in `doc/limits.md`, with the values in force.
    fn bounds(&self) -> &'static [Bound] {
        &[]
    }

    /// The documents that it keeps for accounts. One that isn't here may not be written.
    fn documents(&self) -> &'static [DocumentSpec] {
        &[]
    }

    /// Declares what the module handles and shows.
    fn install(&self, hooks: &mut Hooks<'_>);
}

/// Who an IQ is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// A domain of this server.
    Server,
    /// An account: its bare JID, or no address at all (RFC 6120 §10.3.3).
    Account,
}

/// When a filter sees a stanza, relative to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// May refuse: blocking, access rules.
    Guard,
    /// May act on it or take it: the feature itself.
    Act,
    /// Looks, and may add what it has noted: archives, copies, counters.
    Record,
}

/// What a filter decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Pass,
    /// The module has dealt with the stanza: nobody else sees it.
    Taken,
}

/// Handles an IQ of type get or set.
pub type IqHandler = Box<dyn Fn(&mut World, Iq)>;
/// Sees a stanza with the address that it goes to.
pub type Filter = Box<dyn Fn(&mut World, &Packet, JidRef<'_>) -> Verdict>;
/// Sees a message that nobody took.
type Undelivered = Box<dyn Fn(&mut World, Passage<'_>) -> Verdict>;
/// Gets every stanza for a service of a domain.
pub type Serve = Box<dyn Fn(&mut World, &Packet, JidRef<'_>, &Domain)>;
/// Tells the multicast service of a remote domain for one of ours, if one is known: our domain, the remote one.
pub type FindRemote = Box<dyn Fn(&mut World, &str, &str) -> Option<RemoteService>>;
/// Whether a document asks for the roster.
type Asks = Box<dyn Fn(&dyn Any) -> bool>;
/// Whether a session may have a stanza.
type Screen = Box<dyn Fn(&World, Link, &Packet) -> bool>;
/// Decides whether an address of another server and one of our domains may communicate.
pub(crate) type Border = fn(&World, JidRef<'_>, &str) -> bool;
/// Runs again and again.
pub(crate) type Round = Box<dyn Fn(&mut World)>;
/// Gives presence of a session another form, or leaves it.
pub type PresenceForm = Box<dyn Fn(&mut World, &Packet) -> Option<Packet>>;
/// Hears of an account and a contact.
pub type ContactHook = Box<dyn Fn(&mut World, JidRef<'_>, JidRef<'_>)>;
/// Hears of an account.
pub type AccountHook = Box<dyn Fn(&mut World, JidRef<'_>)>;
/// Reads a letter of the same module on another shard.
pub type ReadLetter = Box<dyn Fn(&mut World, AnyLetter)>;
/// What a module on one shard tells itself on another.
pub type AnyLetter = Box<dyn Any + Send>;
/// Hears of a session.
pub type SessionHook = Box<dyn Fn(&mut World, Link)>;
/// Hears of a stanza that a session gets while nobody looks.
pub type Unattended = Box<dyn Fn(&mut World, &Packet, Link)>;
/// Adds to an answer or a stream feature list of a domain; the registry tells what else is there.
pub type Extras<T> = Box<dyn Fn(&Registry, &Domain) -> Vec<T>>;
/// Handles an IQ that came before login, from a connection of that address, for that domain; answers with the reply.
pub type BeforeLogin = Box<dyn Fn(&mut World, Guest, Iq)>;

/// Hears of a login.
pub type LoginHook = Box<dyn Fn(&World, &LoginSeen<'_>)>;

/// A login that has come to its end.
#[derive(Debug, Clone, Copy)]
pub struct LoginSeen<'a> {
    /// The full JID of the session, or the account that somebody failed to log in to; `None` if that is not known.
    pub who: Option<JidRef<'a>>,
    /// The domain that it was for.
    pub domain: &'a str,
    /// Where the client is.
    pub address: std::net::IpAddr,
    /// What carries the stream.
    pub transport: Transport,
    /// The mechanism, if one was chosen.
    pub mechanism: Option<&'static str>,
    /// The condition that the client was told (RFC 6120 §6.5) if it failed.
    pub failure: Option<&'static str>,
}

/// A connection without a session, as in-band registration sees it.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// The driver's number for the connection; handed back with the answer.
    pub connection: u64,
    /// Where it comes from.
    pub address: std::net::IpAddr,
    /// Whether what it says can't be read on the way.
    pub secure: bool,
}

pub(crate) struct Hook<T> {
    pub(crate) module: &'static str,
    pub(crate) phase: Phase,
    pub(crate) call: T,
}

/// The tables of all modules.
#[derive(Default)]
pub struct Registry {
    modules: Vec<Box<dyn Module>>,
    pub(crate) labels: Labels,
    iqs: HashMap<Target, HashMap<&'static str, Vec<Hook<IqHandler>>>>,
    before_login: HashMap<&'static str, Hook<BeforeLogin>>,
    services: Vec<Hook<Serve>>,
    remote_services: Vec<Hook<FindRemote>>,
    documents: Vec<(&'static str, Read)>,
    rounds: Vec<(u64, Round)>,
    starting: Vec<Round>,
    borders: Vec<Hook<Border>>,
    stopping: Vec<Round>,
    to_domain: Vec<Hook<Filter>>,
    before_route: Passages,
    before_delivery: Passages,
    before_service: Passages,
    conceal: Option<Hook<(&'static str, Conceal)>>,
    roster_with: Vec<(&'static str, Asks)>,
    screens: Vec<Hook<Screen>>,
    shared_contacts: Option<Hook<SharedContacts>>,
    undelivered: Vec<Hook<Undelivered>>,
    reachable: Vec<Hook<SessionHook>>,
    ended: Vec<Hook<SessionHook>>,
    logins: Vec<Hook<LoginHook>>,
    unattended: Vec<Hook<Unattended>>,
    presence: Vec<Hook<SessionHook>>,
    own_presence: Vec<Hook<PresenceForm>>,
    account_removed: Vec<Hook<AccountHook>>,
    shown: Vec<Hook<ContactHook>>,
    letters: HashMap<&'static str, ReadLetter>,
    letter_kinds: HashMap<&'static str, letter::Decode>,
    question_kinds: HashMap<&'static str, question::Decode>,
    pub(crate) states: States,
    features: Vec<(Target, Hook<&'static str>)>,
    forms: Vec<Hook<Extras<Element>>>,
    stream_features: Vec<Hook<Extras<Built>>>,
    login_features: Vec<Hook<Extras<Built>>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.modules.iter().map(|module| module.name())).finish()
    }
}

/// What a module declares, see [`Module::install`].
pub struct Hooks<'a> {
    module: &'static str,
    registry: &'a mut Registry,
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("module", &self.module).finish_non_exhaustive()
    }
}

impl Hooks<'_> {
    /// Counts the waits of a crate by its files instead of by its name, which is `module_path!()` at
    /// its root: for one that holds several modules.
    pub fn collection(&mut self, name: &'static str) {
        self.registry.labels.add(name);
    }

    /// Handles IQs whose payload has this namespace.
    pub fn iq(&mut self, target: Target, namespace: &'static str, call: impl Fn(&mut World, Iq) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as IqHandler);
        self.registry.iqs.entry(target).or_default().entry(namespace).or_default().push(hook);
    }

    /// Handles IQs that come before login and whose payload has this namespace. One module per namespace.
    pub fn before_login(&mut self, namespace: &'static str, call: impl Fn(&mut World, Guest, Iq) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as BeforeLogin);
        self.registry.before_login.insert(namespace, hook);
    }

    /// Serves a host of its own below each domain: the module's option `host`, in which `@` stands for the domain. Service discovery lists
    /// it with the option `name`. One service per module.
    pub fn service(&mut self, call: impl Fn(&mut World, &Packet, JidRef<'_>, &Domain) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as Serve);
        self.registry.services.push(hook);
    }

    /// Knows the multicast services of other servers.
    pub fn remote_service(&mut self, call: impl Fn(&mut World, &str, &str) -> Option<RemoteService> + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as FindRemote);
        self.registry.remote_services.push(hook);
    }

    /// Runs on every shard when it starts, whatever domains have the module.
    pub fn starting(&mut self, call: impl Fn(&mut World) + 'static) {
        self.registry.starting.push(Box::new(call));
    }

    /// Decides whether an address of another server and a domain of this one, which has the module, may communicate: for all that comes in from there and
    /// leaves for there.
    pub fn border(&mut self, call: fn(&World, JidRef<'_>, &str) -> bool) {
        let hook = self.hook(Phase::Guard, call);
        self.registry.borders.push(hook);
    }

    /// Runs on every shard each time that so many milliseconds have passed, whatever domains have the module: for sweeps, in small steps.
    pub fn every(&mut self, period_ms: u64, call: impl Fn(&mut World) + 'static) {
        self.registry.rounds.push((period_ms, Box::new(call)));
    }

    /// Hears on every shard that the server stops, before its sessions end: what was put off has to be done now, and nothing put off any more
    /// ([`World::is_stopping`]).
    pub fn stopping(&mut self, call: impl Fn(&mut World) + 'static) {
        self.registry.stopping.push(Box::new(call));
    }

    /// Keeps a document of every account at hand, see [`World::document`]. `read` makes of its bytes what [`World::document`] gives; `None` if they are
    /// not what the module writes.
    pub fn document<T: 'static>(&mut self, name: &'static str, read: impl Fn(&[u8]) -> Option<T> + 'static) {
        let read: Read = Box::new(move |bytes| read(bytes).map(|value| Rc::new(value) as Rc<dyn Any>));
        self.registry.documents.push((name, read));
    }

    /// Sees messages and presence for a domain itself, with or without a resource.
    pub fn to_domain(&mut self, phase: Phase, call: impl Fn(&mut World, &Packet, JidRef<'_>) -> Verdict + 'static) {
        let hook = self.hook(phase, Box::new(call) as Filter);
        insert(&mut self.registry.to_domain, hook);
    }

    /// Sees what a local session sends to an address, stamped with its full JID, before it is routed. A message without `to` counts as one
    /// to the sender's bare JID. A subscription stanza can be taken, but no other form of it counts. Not seen: broadcasts of presence, IQs to the server
    /// or the own account, and what modules send.
    pub fn before_route(
        &mut self,
        phase: Phase,
        wanted: impl Into<Wanted>,
        call: impl Fn(&mut World, Passage<'_>) -> Delivery + 'static,
    ) {
        self.registry.before_route.add(self.wish(phase, wanted, Box::new(call)));
    }

    /// Sees what comes for an account of this server, bare or full JID, at the home of the account and before the rules of RFC 6121 §8 are
    /// applied, whether the account exists or has a session there or not. The recipient's domain decides whether the module is on. Not seen:
    /// what a session's own account or server answers it, and presence that the account's own resources show each other.
    pub fn before_delivery(
        &mut self,
        phase: Phase,
        wanted: impl Into<Wanted>,
        call: impl Fn(&mut World, Passage<'_>) -> Delivery + 'static,
    ) {
        self.registry.before_delivery.add(self.wish(phase, wanted, Box::new(call)));
    }

    /// The same as [`Hooks::before_route`] for senders, and as [`Hooks::before_delivery`] for recipients, whose account has this document at
    /// hand: nobody else pays for the filter.
    pub fn before_passage_with(
        &mut self,
        document: &'static str,
        phase: Phase,
        before_route: impl Fn(&mut World, Passage<'_>) -> Delivery + 'static,
        before_delivery: impl Fn(&mut World, Passage<'_>) -> Delivery + 'static,
    ) {
        let wanted = Wanted::from(Stanzas::ALL).with_document(document);
        let wish = self.wish(phase, wanted, Box::new(before_route));
        self.registry.before_route.add(wish);
        let wish = self.wish(phase, wanted, Box::new(before_delivery));
        self.registry.before_delivery.add(wish);
    }

    /// Keeps the roster of an account at hand too, see [`World::roster_item`], where its document asks for it.
    pub fn roster_with<T: 'static>(&mut self, document: &'static str, asks: impl Fn(&T) -> bool + 'static) {
        let asks: Asks = Box::new(move |document| document.downcast_ref().is_some_and(&asks));
        self.registry.roster_with.push((document, asks));
    }

    /// Gives accounts contacts by groups. Of several modules that do, the last one counts.
    pub fn shared_contacts(&mut self, contacts: SharedContacts) {
        self.registry.shared_contacts = Some(self.hook(Phase::Act, contacts));
    }

    /// Decides which sessions of an account get what is for its bare JID, messages and presence, while the account is [screened](World::set_screened).
    pub fn screen(&mut self, call: impl Fn(&World, Link, &Packet) -> bool + 'static) {
        let hook = self.hook(Phase::Guard, Box::new(call) as Screen);
        self.registry.screens.push(hook);
    }

    /// Decides whether an account that has this document conceals its presence from a contact, see [`World::conceals`]. Of several modules that
    /// do, the last one counts.
    pub fn conceal<T: 'static>(
        &mut self,
        document: &'static str,
        call: impl Fn(&World, &T, Option<Link>, JidRef<'_>, JidRef<'_>) -> bool + 'static,
    ) {
        let call: Conceal = Box::new(move |world, document, link, owner, contact| {
            document.downcast_ref().is_some_and(|document| call(world, document, link, owner, contact))
        });
        self.registry.conceal = Some(self.hook(Phase::Guard, (document, call)));
    }

    /// Sees what comes for a service of a domain, or for anything on its host, before the service does; again on the shard that the service hands it to.
    pub fn before_service(
        &mut self,
        phase: Phase,
        wanted: impl Into<Wanted>,
        call: impl Fn(&mut World, Passage<'_>) -> Delivery + 'static,
    ) {
        self.registry.before_service.add(self.wish(phase, wanted, Box::new(call)));
    }

    /// Gets messages for an account that no resource takes (RFC 6121 §8.5.2.2.1), and for an account that doesn't exist.
    pub fn undelivered(&mut self, phase: Phase, call: impl Fn(&mut World, Passage<'_>) -> Verdict + 'static) {
        let hook = self.hook(phase, Box::new(call) as Undelivered);
        insert(&mut self.registry.undelivered, hook);
    }

    /// Hears when a resource starts to take messages: available with a priority that is not negative.
    pub fn reachable(&mut self, call: impl Fn(&mut World, Link) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as SessionHook);
        self.registry.reachable.push(hook);
    }

    /// Hears when the presence of a session has changed: it has become available, says something
    /// new while it is, or is available no more, be it only to those whom it has told so by
    /// directed presence. The call comes after the broadcast;
    /// [`Session::presence`](crate::Session::presence) is the state then.
    pub fn presence(&mut self, call: impl Fn(&mut World, Link) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as SessionHook);
        self.registry.presence.push(hook);
    }

    /// Sees available presence that a session broadcasts, before it is kept and sent, and may give it another form. Directed presence is seen by
    /// [`Hooks::before_route`].
    pub fn own_presence(&mut self, call: impl Fn(&mut World, &Packet) -> Option<Packet> + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as PresenceForm);
        self.registry.own_presence.push(hook);
    }

    /// Hears, at its home, that an account was removed: the store has nothing of it any more.
    pub fn account_removed(&mut self, call: impl Fn(&mut World, JidRef<'_>) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as AccountHook);
        self.registry.account_removed.push(hook);
    }

    /// Hears, at the home of an account, that a contact sees its presence from now on: the account, the contact.
    pub fn shown(&mut self, call: impl Fn(&mut World, JidRef<'_>, JidRef<'_>) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as ContactHook);
        self.registry.shown.push(hook);
    }

    /// Keeps a value for the module on every shard, which [`World::state`] gives by its type.
    ///
    /// # Panics
    /// Another module has declared the type already, at the start of the server.
    pub fn state<T: 'static>(&mut self, value: T) {
        self.registry.states.declare(value);
    }

    /// Reads letters of this kind, see [`World::send_letter`].
    ///
    /// # Panics
    /// A kind with that name has been declared already, at the start of the server.
    pub fn letter<L: Letter>(&mut self) {
        let before = self.registry.letter_kinds.insert(L::NAME, letter::decode::<L>);
        assert!(before.is_none(), "two kinds of letters are called {}", L::NAME);
    }

    /// Answers questions of this kind, see [`World::put_to`].
    ///
    /// # Panics
    /// A kind with that name has been declared already, at the start of the server.
    pub fn question<Q: Question>(&mut self) {
        let before = self.registry.question_kinds.insert(Q::NAME, question::decode::<Q>);
        assert!(before.is_none(), "two kinds of questions are called {}", Q::NAME);
    }

    /// Reads what the module on another shard has sent with [`World::tell`].
    pub fn letters(&mut self, call: impl Fn(&mut World, AnyLetter) + 'static) {
        self.registry.letters.insert(self.module, Box::new(call));
    }

    /// Hears of every login to a domain that has the module, whether it succeeded or failed.
    pub fn login(&mut self, call: impl Fn(&World, &LoginSeen<'_>) + 'static) {
        let hook = self.hook(Phase::Record, Box::new(call) as LoginHook);
        self.registry.logins.push(hook);
    }

    /// Hears when a session ends; its address is still known.
    pub fn session_ended(&mut self, call: impl Fn(&mut World, Link) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as SessionHook);
        self.registry.ended.push(hook);
    }

    /// Hears of a stanza of some urgency for a session whose client is inactive or has no connection.
    pub fn unattended(&mut self, call: impl Fn(&mut World, &Packet, Link) + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as Unattended);
        self.registry.unattended.push(hook);
    }

    /// Shows a feature in service discovery (XEP-0030).
    pub fn feature(&mut self, target: Target, namespace: &'static str) {
        let hook = self.hook(Phase::Act, namespace);
        self.registry.features.push((target, hook));
    }

    /// Adds data forms to the service discovery information of a domain (XEP-0128).
    pub fn forms(&mut self, call: impl Fn(&Registry, &Domain) -> Vec<Element> + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as Extras<Element>);
        self.registry.forms.push(hook);
    }

    /// Adds to the stream features before login (RFC 6120 §4.3.2).
    pub fn stream_features(&mut self, call: impl Fn(&Registry, &Domain) -> Vec<Built> + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as Extras<Built>);
        self.registry.stream_features.push(hook);
    }

    /// Adds to the stream features after login.
    pub fn login_features(&mut self, call: impl Fn(&Registry, &Domain) -> Vec<Built> + 'static) {
        let hook = self.hook(Phase::Act, Box::new(call) as Extras<Built>);
        self.registry.login_features.push(hook);
    }

    fn hook<T>(&self, phase: Phase, call: T) -> Hook<T> {
        Hook { module: self.module, phase, call }
    }

    fn wish(&self, phase: Phase, wanted: impl Into<Wanted>, call: passage::Filter) -> Hook<Wish> {
        self.hook(phase, Wish { wanted: wanted.into(), call })
    }
}

pub(crate) fn insert<T>(hooks: &mut Vec<Hook<T>>, hook: Hook<T>) {
    let at = hooks.partition_point(|other| other.phase <= hook.phase);
    hooks.insert(at, hook);
}
