//! The declarations of a module: its calls, its state, its features.

use rookery_fanout::{Link, Packet};
use rookery_jid::JidRef;
use rookery_xml::Built;

use super::document::{DocumentName, DocumentSpec};
use super::hook::ModuleCall;
use super::tables::Hooks;
use super::terms::{Carry, Guest, LoginSeen, Phase, Target, Verdict};
use super::typed::{self, Document};
use crate::World;
use crate::calls::{
    AtHome, BeforeLogin, Border, CallServe, Carrying, Everywhere, FeaturesCall, Filter, FindRemote, Heard, IqHandler,
    Lost, OfAccount, OfContact, OfLogin, OfSession, PresenceForm, Resting, SharedContacts, ToDomain, Unattended,
    Undelivered,
};
use crate::iq::Iq;
use crate::memo::{self, Memo};
use crate::passage::{Delivery, Passage, PassageWish, Wanted};
use crate::question::{self, Question};
use crate::remote::RemoteService;
use crate::settings::Domain;

/// Declarations of state.
impl Hooks<'_> {
    /// Counts the waits of a crate by its files instead of by its name, for a crate that holds
    /// several modules. The name is `module_path!()` at the root of the crate.
    pub fn collection(&mut self, name: &'static str) {
        self.registry.labels.add(name);
    }

    /// Keeps a value for the module on every shard, which [`World::state`] finds by its type.
    ///
    /// # Panics
    /// Another module has declared the type already, at the start of the server.
    pub fn state<T: 'static>(&mut self, value: T) {
        self.registry.states.declare(value);
    }

    /// Keeps a document of every account in memory while stanzas for it may come, see
    /// [`World::document`]. It is exported as [`Document::EXPORT`] says.
    ///
    /// # Panics
    /// A document with that name has been declared already, at the start of the server.
    pub fn document<D: Document>(&mut self) {
        let accounts = &mut self.registry.accounts;
        let before = accounts.documents.insert(D::NAME, typed::read::<D>);
        assert!(before.is_none(), "two documents are called {}", D::NAME);
        accounts.specs.push(DocumentSpec { name: DocumentName::AtHand(D::NAME), export: D::EXPORT });
        if D::MAY_CONCEAL {
            accounts.conceals = Some((D::NAME, self.module));
        }
    }

    /// Gives accounts contacts by groups. Of several modules that do, the last one counts.
    pub fn shared_contacts(&mut self, contacts: SharedContacts) {
        self.registry.accounts.shared_contacts = Some(self.call(Phase::Act, contacts));
    }

    /// Reads memos of this kind, see [`World::send_memo`].
    ///
    /// # Panics
    /// A kind with that name has been declared already, at the start of the server.
    pub fn memo<L: Memo>(&mut self) {
        let before = self.registry.kinds.memos.insert(L::NAME, memo::decode::<L>);
        assert!(before.is_none(), "two kinds of memos are called {}", L::NAME);
    }

    /// Answers questions of this kind, see [`World::put_to`].
    ///
    /// # Panics
    /// A kind with that name has been declared already, at the start of the server.
    pub fn question<Q: Question>(&mut self) {
        let before = self.registry.kinds.questions.insert(Q::NAME, question::decode::<Q>);
        assert!(before.is_none(), "two kinds of questions are called {}", Q::NAME);
    }
}

/// Declarations of requests and services.
impl Hooks<'_> {
    /// Handles IQs whose payload has this namespace.
    pub fn iq(&mut self, target: Target, namespace: &'static str, call: fn(&mut World, Iq)) {
        let call = self.call(Phase::Act, call as IqHandler);
        self.registry.requests.iqs.entry(target).or_default().entry(namespace).or_default().add(call);
    }

    /// Handles IQs that come before login and whose payload has this namespace. One module per
    /// namespace.
    pub fn before_login(&mut self, namespace: &'static str, call: fn(&mut World, Guest, Iq)) {
        let call = self.call(Phase::Act, call as BeforeLogin);
        self.registry.requests.before_login.insert(namespace, call);
    }

    /// Serves a separate host below each domain: the module's option `host`, in which `@` stands
    /// for the domain. Service discovery lists it with the option `name`. One service per module.
    pub fn service(&mut self, call: fn(&mut World, &Packet, JidRef<'_>, &Domain)) {
        let call = self.call(Phase::Act, call as CallServe);
        self.registry.requests.services.add(call);
    }

    /// Tells the hub of multicast services of other servers.
    pub fn remote_service(&mut self, call: fn(&mut World, &str, &str) -> Option<RemoteService>) {
        let call = self.call(Phase::Act, call as FindRemote);
        self.registry.requests.remote_services.add(call);
    }
}

/// Declarations about stanzas on their way.
impl Hooks<'_> {
    /// Decides whether an address of another server and a domain of this one that has the module
    /// may communicate, for all stanzas in both directions.
    pub fn border(&mut self, call: fn(&World, JidRef<'_>, &str) -> bool) {
        let call = self.call(Phase::Guard, call as Border);
        self.registry.passing.borders.add(call);
    }

    /// Sees messages and presence for a domain itself, with or without a resource.
    pub fn to_domain(&mut self, phase: Phase, call: fn(&mut World, &Packet, JidRef<'_>) -> Verdict) {
        let call = self.call(phase, call as ToDomain);
        self.registry.passing.to_domain.add(call);
    }

    /// Sees stanzas that a local session sends to an address, stamped with its full JID, before
    /// they are routed. A message without `to` counts as one to the sender's bare JID. A
    /// subscription stanza can be taken, but another form of it is ignored. Not seen: broadcasts
    /// of presence, IQs to the server or the sender's own account, and stanzas of modules.
    pub fn before_route(
        &mut self,
        phase: Phase,
        wanted: impl Into<Wanted>,
        call: fn(&mut World, Passage<'_>) -> Delivery,
    ) {
        let wish = self.call(phase, PassageWish { wanted: wanted.into(), call });
        self.registry.passing.before_route.add(wish);
    }

    /// Sees stanzas for an account of this server, bare or full JID, at the home of the account
    /// and before the rules of RFC 6121 §8 are applied, whether the account exists or has a
    /// session there or not. The recipient's domain decides whether the module is on. Not seen:
    /// replies to a session from its own account or server, and presence that the account's own
    /// resources show each other.
    pub fn before_delivery(
        &mut self,
        phase: Phase,
        wanted: impl Into<Wanted>,
        call: fn(&mut World, Passage<'_>) -> Delivery,
    ) {
        let wish = self.call(phase, PassageWish { wanted: wanted.into(), call });
        self.registry.passing.before_delivery.add(wish);
    }

    /// Sees stanzas for a service of a domain, or for anything on its host, before the service
    /// does; again on the shard that the service hands them to.
    pub fn before_service(
        &mut self,
        phase: Phase,
        wanted: impl Into<Wanted>,
        call: fn(&mut World, Passage<'_>) -> Delivery,
    ) {
        let wish = self.call(phase, PassageWish { wanted: wanted.into(), call });
        self.registry.passing.before_service.add(wish);
    }

    /// Gets messages for an account that no resource takes (RFC 6121 §8.5.2.2.1), and for an
    /// account that doesn't exist.
    pub fn undelivered(&mut self, phase: Phase, call: fn(&mut World, Passage<'_>) -> Verdict) {
        let call = self.call(phase, call as Undelivered);
        self.registry.passing.undelivered.add(call);
    }
}

/// Declarations about other servers.
impl Hooks<'_> {
    /// Hears of a stanza of another server, or of a component, for an account or a domain of this
    /// one that has the module, before it continues. The call is made at the home of the sender's
    /// domain, where the stanzas of that domain keep their order. Only kinds, types and namespaces
    /// of the declared wishes count.
    pub fn heard(&mut self, wanted: impl Into<Wanted>, call: fn(&mut World, &Packet, JidRef<'_>)) {
        let wish = self.call(Phase::Record, PassageWish { wanted: wanted.into(), call: call as Heard });
        self.registry.passing.heard.add(wish);
    }

    /// Sees stanzas that an account of this server sends to other servers and to components, at the
    /// home of the account. The sender's domain decides whether the module is on. Only kinds and
    /// types of the declared wishes count.
    pub fn abroad(&mut self, wanted: impl Into<Wanted>, call: fn(&mut World, Passage<'_>) -> Delivery) {
        let wish = self.call(Phase::Guard, PassageWish { wanted: wanted.into(), call: call as Filter });
        self.registry.passing.abroad.add(wish);
    }

    /// Hears, at the home of a remote domain, that a stream with its server has broken or that the
    /// server can't be reached. A stream that ends because it was idle isn't reported.
    pub fn lost(&mut self, call: fn(&mut World, &str)) {
        let call = self.call(Phase::Act, call as Lost);
        self.registry.passing.lost.add(call);
    }
}

/// Declarations about sessions and accounts.
impl Hooks<'_> {
    /// Hears of every login to a domain that has the module, whether it succeeded or failed.
    pub fn login(&mut self, call: fn(&World, &LoginSeen<'_>)) {
        let call = self.call(Phase::Record, call as OfLogin);
        self.registry.sessions.logins.add(call);
    }

    /// Hears when a resource starts to take messages: available with a priority that is not
    /// negative.
    pub fn reachable(&mut self, call: fn(&mut World, Link)) {
        let call = self.call(Phase::Act, call as OfSession);
        self.registry.sessions.reachable.add(call);
    }

    /// Hears when the presence of a session has changed: it has become available, announces
    /// something new while it is, or has become unavailable, even if only to recipients of its
    /// directed presence. The call comes after the broadcast;
    /// [`Session::presence`](crate::Session::presence) is the state then.
    pub fn presence(&mut self, call: fn(&mut World, Link)) {
        let call = self.call(Phase::Act, call as OfSession);
        self.registry.sessions.presence.add(call);
    }

    /// Sees available presence that a session broadcasts, before it is kept and sent, and may give
    /// it another form. Directed presence is seen by [`Hooks::before_route`].
    pub fn own_presence(&mut self, call: fn(&mut World, &Packet) -> Option<Packet>) {
        let call = self.call(Phase::Act, call as PresenceForm);
        self.registry.sessions.own_presence.add(call);
    }

    /// Hears of an urgent stanza for a session whose client is inactive or has no connection.
    pub fn unattended(&mut self, call: fn(&mut World, &Packet, Link)) {
        let call = self.call(Phase::Act, call as Unattended);
        self.registry.sessions.unattended.add(call);
    }

    /// Hears when a session ends; its address is still known.
    pub fn session_ended(&mut self, call: fn(&mut World, Link)) {
        let call = self.call(Phase::Act, call as OfSession);
        self.registry.sessions.ended.add(call);
    }

    /// Takes along the module's data about a session that continues in another process: `save`
    /// returns it when the server stops, and `restore` takes it up at the next start, silently; it
    /// gets `None` if there was none. A session whose module returns [`Carry::Impossible`] ends
    /// with its process.
    pub fn session_carried(&mut self, save: fn(&World, Link) -> Carry, restore: fn(&mut World, Link, Option<&[u8]>)) {
        let call = self.call(Phase::Act, (save, restore) as Carrying);
        self.registry.sessions.carried.add(call);
    }

    /// Hears, at its home, that an account was removed: the store has nothing of it any more.
    pub fn account_removed(&mut self, call: fn(&mut World, JidRef<'_>)) {
        let call = self.call(Phase::Act, call as OfAccount);
        self.registry.accounts.removed.add(call);
    }

    /// Hears, at the home of an account, that a contact sees its presence from now on: the account,
    /// the contact.
    pub fn shown(&mut self, call: fn(&mut World, JidRef<'_>, JidRef<'_>)) {
        let call = self.call(Phase::Act, call as OfContact);
        self.registry.accounts.shown.add(call);
    }
}

/// Declarations of calls for every shard, whatever domains have the module.
impl Hooks<'_> {
    /// Runs when the shard starts.
    pub fn starting(&mut self, call: fn(&mut World)) {
        let call = self.call(Phase::Act, call as Everywhere);
        self.registry.rounds.starting.add(call);
    }

    /// Runs periodically, with this number of milliseconds in between. It is meant for sweeps in
    /// small steps.
    pub fn every(&mut self, period_ms: u64, call: fn(&mut World)) {
        self.registry.rounds.every.push((period_ms, call));
    }

    /// Hears when the server stops, before its sessions end: deferred work has to be done now, and
    /// nothing may be deferred any more ([`World::is_stopping`]).
    pub fn stopping(&mut self, call: fn(&mut World)) {
        let call = self.call(Phase::Act, call as Everywhere);
        self.registry.rounds.stopping.add(call);
    }

    /// Runs when it is known which sessions of the shard continue in another process, and nothing
    /// else is under way: the module hands on the data that continues with them, see
    /// [`World::hand_on`]. Between nodes that is only the data that the shard [parts
    /// with](World::parts_with), and the module forgets it.
    pub fn handing_on(&mut self, call: fn(&mut World)) {
        let call = self.call(Phase::Act, call as Everywhere);
        self.registry.rounds.handing_on.add(call);
    }

    /// Runs when the data that the module would hand on at the home of a text, which it has
    /// [noted](World::note_home), is to be recorded in case the process dies: see
    /// [`World::hand_on`]. None of it is forgotten.
    pub fn on_journal(&mut self, call: fn(&mut World, &str)) {
        let call = self.call(Phase::Act, call as AtHome);
        self.registry.rounds.journal.add(call);
    }

    /// Calls back when the homes of addresses have changed. Data at a home that has moved to
    /// another node stays, and is served, until it leaves ([`Hooks::handing_on`]); the module has
    /// to drop cached data that is in the store.
    pub fn moved(&mut self, call: fn(&mut World)) {
        let call = self.call(Phase::Act, call as Everywhere);
        self.registry.rounds.moved.add(call);
    }
}

/// Declarations about moves between nodes.
impl Hooks<'_> {
    /// Says whether everything that leaves for another node has come to rest
    /// ([`World::parts_with`]). The move waits for that, up to some seconds.
    pub fn resting(&mut self, call: fn(&World) -> bool) {
        let call = self.call(Phase::Act, call as Resting);
        self.registry.rounds.resting.add(call);
    }

    /// Runs when everything that had its home on another node before has arrived, or begins to
    /// continue here.
    pub fn arrived(&mut self, call: fn(&mut World)) {
        let call = self.call(Phase::Act, call as Everywhere);
        self.registry.rounds.arrived.add(call);
    }
}

/// Declarations of features.
impl Hooks<'_> {
    /// Shows a feature in service discovery (XEP-0030).
    pub fn feature(&mut self, target: Target, namespace: &'static str) {
        let call = self.call(Phase::Act, namespace);
        self.registry.shown.features.push((target, call));
    }

    /// Adds to the stream features before login (RFC 6120 §4.3.2).
    pub fn stream_features(&mut self, call: fn(&super::tables::Registry, &Domain) -> Vec<Built>) {
        let call = self.call(Phase::Act, call as FeaturesCall);
        self.registry.shown.before_login.add(call);
    }

    /// Adds to the stream features after login.
    pub fn login_features(&mut self, call: fn(&super::tables::Registry, &Domain) -> Vec<Built>) {
        let call = self.call(Phase::Act, call as FeaturesCall);
        self.registry.shown.after_login.add(call);
    }

    fn call<F>(&self, phase: Phase, call: F) -> ModuleCall<F> {
        ModuleCall { module: self.module, phase, call }
    }
}
