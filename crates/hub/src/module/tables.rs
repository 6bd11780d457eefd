//! The tables of modules: the calls of each occasion.

use rookery_base::Map;
use rookery_observe::Bound;

use super::document::DocumentSpec;
use super::hook::{Hook, ModuleCall};
use super::terms::Target;

use crate::World;
use crate::calls::{
    AtHome, BeforeLogin, Border, CallServe, Carrying, DecodeMemo, DecodeQuestion, Everywhere, FeaturesCall, Filter,
    FindRemote, Heard, IqHandler, Lost, OfAccount, OfContact, OfLogin, OfSession, PresenceForm, ReadDocument, Resting,
    SharedContacts, ToDomain, Unattended, Undelivered,
};
use crate::label::Labels;
use crate::passage::{PassageWish, Passages};
use crate::settings::OptionSpec;
use crate::state::States;

/// A count of the state that a module has on a shard; the metrics show the sum of all shards.
#[derive(Debug, Clone, Copy)]
pub struct ModuleGauge {
    /// The name of the metric.
    pub name: &'static str,
    /// The meaning, for operators.
    pub help: &'static str,
    /// Counts. It may take time in proportion to what it counts: it runs once for each scrape.
    pub read: fn(&World) -> u64,
}

/// One feature of the server that an operator can switch.
pub trait Module {
    /// Returns the key below `[modules]`.
    fn name(&self) -> &'static str;

    /// Returns one line for operators: what users get from it.
    fn summary(&self) -> &'static str;

    /// Returns the standards that it implements, as `XEP-0199` with the version.
    fn standards(&self) -> &'static [(&'static str, &'static str)];

    /// Returns the parts of these standards that it leaves out: the standard with a few words for
    /// people. A standard that isn't named here is implemented completely, as far as it concerns a
    /// server.
    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns whether it is on where the configuration says nothing.
    fn on_by_default(&self) -> bool {
        true
    }

    /// Returns the options that an operator can set.
    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    /// Returns the bounds of all that anybody can make it keep or do. Operators read them in
    /// `doc/limits.md`, with the values in force.
    fn bounds(&self) -> &'static [Bound] {
        &[]
    }

    /// Returns the counts of its state on one shard, for the metrics.
    fn gauges(&self) -> &'static [ModuleGauge] {
        &[]
    }

    /// Returns the documents that it keeps for accounts, in addition to those in memory
    /// ([`Hooks::document`]). An undeclared one may not be written.
    fn documents(&self) -> &'static [DocumentSpec] {
        &[]
    }

    /// Declares the stanzas that the module handles and the features that it shows.
    fn install(&self, hooks: &mut Hooks<'_>);
}

/// Takes the declarations of a module, see [`Module::install`](crate::Module::install). A call is
/// a plain function: it finds everything that it needs in the world, see [`Hooks::state`].
pub struct Hooks<'a> {
    pub(crate) module: &'static str,
    pub(crate) registry: &'a mut Registry,
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("module", &self.module).finish_non_exhaustive()
    }
}

/// The tables of all modules.
#[derive(Default)]
pub struct Registry {
    pub(crate) modules: Vec<Box<dyn Module>>,
    pub(crate) labels: Labels,
    pub(crate) requests: RequestHooks,
    pub(crate) passing: PassingHooks,
    pub(crate) accounts: AccountHooks,
    pub(crate) sessions: SessionHooks,
    pub(crate) rounds: RoundHooks,
    pub(crate) shown: ShownHooks,
    pub(crate) kinds: Kinds,
    pub(crate) states: States,
}

/// Lists the modules that reply and serve.
#[derive(Default)]
pub(crate) struct RequestHooks {
    pub(crate) iqs: Map<Target, Map<&'static str, Hook<IqHandler>>>,
    pub(crate) before_login: Map<&'static str, ModuleCall<BeforeLogin>>,
    pub(crate) services: Hook<CallServe>,
    pub(crate) remote_services: Hook<FindRemote>,
}

/// Lists the calls that see stanzas on their way.
#[derive(Default)]
pub(crate) struct PassingHooks {
    pub(crate) borders: Hook<Border>,
    pub(crate) to_domain: Hook<ToDomain>,
    pub(crate) before_route: Passages<Filter>,
    pub(crate) before_delivery: Passages<Filter>,
    pub(crate) before_service: Passages<Filter>,
    pub(crate) undelivered: Hook<Undelivered>,
    pub(crate) abroad: Hook<PassageWish<Filter>>,
    pub(crate) heard: Hook<PassageWish<Heard>>,
    pub(crate) lost: Hook<Lost>,
}

/// Lists the data kept for accounts, and the calls about them.
#[derive(Default)]
pub(crate) struct AccountHooks {
    pub(crate) documents: Map<&'static str, ReadDocument>,
    /// All documents that modules keep, in memory or not.
    pub(crate) specs: Vec<DocumentSpec>,
    /// The document that decides about concealing, and the module that declares it.
    pub(crate) conceals: Option<(&'static str, &'static str)>,
    pub(crate) shared_contacts: Option<ModuleCall<SharedContacts>>,
    pub(crate) removed: Hook<OfAccount>,
    pub(crate) shown: Hook<OfContact>,
}

/// Lists the calls that hear of sessions.
#[derive(Default)]
pub(crate) struct SessionHooks {
    pub(crate) logins: Hook<OfLogin>,
    pub(crate) reachable: Hook<OfSession>,
    pub(crate) presence: Hook<OfSession>,
    pub(crate) own_presence: Hook<PresenceForm>,
    pub(crate) unattended: Hook<Unattended>,
    pub(crate) ended: Hook<OfSession>,
    pub(crate) carried: Hook<Carrying>,
}

/// Lists the calls that no stanza and no session causes.
#[derive(Default)]
pub(crate) struct RoundHooks {
    pub(crate) starting: Hook<Everywhere>,
    pub(crate) stopping: Hook<Everywhere>,
    /// Calls before sessions continue in another process.
    pub(crate) handing_on: Hook<Everywhere>,
    /// Calls that record the data that would continue in another process.
    pub(crate) journal: Hook<AtHome>,
    /// Calls after homes have moved.
    pub(crate) moved: Hook<Everywhere>,
    /// Calls that say whether everything that moves is at rest.
    pub(crate) resting: Hook<Resting>,
    /// Calls once everything has arrived that had its home on another node.
    pub(crate) arrived: Hook<Everywhere>,
    pub(crate) every: Vec<(u64, Everywhere)>,
}

/// Lists what clients are shown.
#[derive(Default)]
pub(crate) struct ShownHooks {
    pub(crate) features: Vec<(Target, ModuleCall<&'static str>)>,
    pub(crate) before_login: Hook<FeaturesCall>,
    pub(crate) after_login: Hook<FeaturesCall>,
}

/// Lists the kinds of memos and questions between shards.
#[derive(Default)]
pub(crate) struct Kinds {
    pub(crate) memos: Map<&'static str, DecodeMemo>,
    pub(crate) questions: Map<&'static str, DecodeQuestion>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.modules.iter().map(|module| module.name())).finish()
    }
}
