//! Modules and their hooks: how an XEP joins the server without the hub knowing it.
//!
//! A module is one file; [`Module::install`] says what it handles. The tables are made once, at start, so that a stanza which no
//! module cares about passes by without a call. Order is by [`Phase`], within a phase by the module table; there are no magic numbers.
//! Whether a module is on is decided per domain, by the operator; one that is off is neither called nor shown in disco.
//!
//! Some hooks have a single user. They are no calls, because the hub stands below all modules and knows none of them.

mod document;
mod hook;
mod hooks;
mod registry;
mod typed;

use rookery_base::{Map, Transport};
use rookery_fanout::{Link, Packet};
use rookery_jid::JidRef;
use rookery_observe::Bound;
use rookery_xml::Built;

use crate::World;
use crate::federation::RemoteService;
use crate::iq::Iq;
use crate::label::Labels;
use crate::passage::{Passage, Passages};
use crate::settings::{Domain, OptionSpec};
use crate::shared::SharedContacts;
use crate::state::States;
use crate::{letter, question};

pub use document::{DocumentName, DocumentSpec, Exported};
pub(crate) use hook::{Call, Everywhere, Hook};
pub use hooks::Hooks;
pub(crate) use typed::AnyDocument;
pub use typed::Document;

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

    /// The documents that it keeps for accounts, beside those that are at hand ([`Hooks::document`]). One that isn't
    /// declared may not be written.
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
pub(crate) type IqHandler = fn(&mut World, Iq);
/// Handles an IQ that came before login.
pub(crate) type BeforeLogin = fn(&mut World, Guest, Iq);
/// Sees a stanza for a domain itself.
pub(crate) type ToDomain = fn(&mut World, &Packet, JidRef<'_>) -> Verdict;
/// Sees a message that nobody took.
pub(crate) type Undelivered = fn(&mut World, Passage<'_>) -> Verdict;
/// Gets every stanza for a service of a domain.
pub(crate) type Serve = fn(&mut World, &Packet, JidRef<'_>, &Domain);
/// Tells the multicast service of a remote domain for one of ours, if one is known: our domain, the remote one.
pub(crate) type FindRemote = fn(&mut World, &str, &str) -> Option<RemoteService>;
/// Decides whether an address of another server and one of our domains may communicate.
pub(crate) type Border = fn(&World, JidRef<'_>, &str) -> bool;
/// Gives presence of a session another form, or leaves it.
pub(crate) type PresenceForm = fn(&mut World, &Packet) -> Option<Packet>;
/// Hears of an account and a contact.
pub(crate) type OfContact = fn(&mut World, JidRef<'_>, JidRef<'_>);
/// Hears of an account.
pub(crate) type OfAccount = fn(&mut World, JidRef<'_>);
/// Hears of a session.
pub(crate) type OfSession = fn(&mut World, Link);
/// Hears of a stanza that a session gets while nobody looks.
pub(crate) type Unattended = fn(&mut World, &Packet, Link);
/// Adds to the stream features of a domain; the registry tells what else is there.
pub(crate) type Features = fn(&Registry, &Domain) -> Vec<Built>;
/// Hears of a login.
pub(crate) type OfLogin = fn(&World, &LoginSeen<'_>);

/// A login that has come to its end.
#[derive(Debug, Clone, Copy)]
pub struct LoginSeen<'a> {
    /// The full JID of the session, or the account that somebody failed to log in to; `None` if that is not known.
    pub who: Option<JidRef<'a>>,
    /// The domain that it was for.
    pub domain: &'a str,
    /// Where the client is.
    pub address: std::net::IpAddr,
    /// The transport of the stream.
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

/// The tables of all modules.
#[derive(Default)]
pub struct Registry {
    modules: Vec<Box<dyn Module>>,
    pub(crate) labels: Labels,
    pub(crate) requests: Requests,
    pub(crate) passing: Passing,
    pub(crate) accounts: Accounts,
    pub(crate) sessions: Sessions,
    pub(crate) rounds: Rounds,
    shown: Shown,
    kinds: Kinds,
    pub(crate) states: States,
}

/// Lists who is asked, and who serves.
#[derive(Default)]
pub(crate) struct Requests {
    iqs: Map<Target, Map<&'static str, Hook<IqHandler>>>,
    before_login: Map<&'static str, Call<BeforeLogin>>,
    pub(crate) services: Hook<Serve>,
    pub(crate) remote_services: Hook<FindRemote>,
}

/// Lists the calls that see stanzas on their way.
#[derive(Default)]
pub(crate) struct Passing {
    pub(crate) borders: Hook<Border>,
    pub(crate) to_domain: Hook<ToDomain>,
    pub(crate) before_route: Passages,
    pub(crate) before_delivery: Passages,
    pub(crate) before_service: Passages,
    pub(crate) undelivered: Hook<Undelivered>,
}

/// Lists what is kept for accounts, and the calls that hear of them.
#[derive(Default)]
pub(crate) struct Accounts {
    documents: Map<&'static str, typed::Read>,
    /// All documents that modules keep, at hand or not.
    specs: Vec<DocumentSpec>,
    /// The document that decides about concealing, and whose it is.
    conceals: Option<(&'static str, &'static str)>,
    shared_contacts: Option<Call<SharedContacts>>,
    pub(crate) removed: Hook<OfAccount>,
    pub(crate) shown: Hook<OfContact>,
}

/// Lists the calls that hear of sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    pub(crate) logins: Hook<OfLogin>,
    pub(crate) reachable: Hook<OfSession>,
    pub(crate) presence: Hook<OfSession>,
    pub(crate) own_presence: Hook<PresenceForm>,
    pub(crate) unattended: Hook<Unattended>,
    pub(crate) ended: Hook<OfSession>,
}

/// Lists the calls that come without a cause.
#[derive(Default)]
pub(crate) struct Rounds {
    pub(crate) starting: Hook<Everywhere>,
    pub(crate) stopping: Hook<Everywhere>,
    pub(crate) every: Vec<(u64, Everywhere)>,
}

/// Lists what clients are shown.
#[derive(Default)]
struct Shown {
    features: Vec<(Target, Call<&'static str>)>,
    before_login: Hook<Features>,
    after_login: Hook<Features>,
}

/// Lists the kinds of letters and questions between shards.
#[derive(Default)]
struct Kinds {
    letters: Map<&'static str, letter::Decode>,
    questions: Map<&'static str, question::Decode>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.modules.iter().map(|module| module.name())).finish()
    }
}
