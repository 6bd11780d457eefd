//! The operator's settings, as the hub needs them: domains, their modules and limits.
//!
//! Settings are created by the reader of the configuration, shared by all shards and replaced as a
//! whole on reload.

use rookery_base::Map;
use rookery_fanout::OutboxLimits;
use rookery_jid::Jid;
use rookery_sasl::DEFAULT_ITERATIONS;
use rookery_store::RosterSize;

use crate::rate::Rate;
use crate::source::LoginBy;

/// One generation of settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The domains that this server serves.
    pub domains: Vec<Domain>,
    /// The components (XEP-0114). No name of one is that of a domain or a service.
    pub components: Vec<Component>,
    /// Connected resources that one account may have (RFC 6120 §7.6.2.1). Default 10.
    pub max_resources: usize,
    /// The treatment of a client that binds a resource which is in use.
    pub conflict: Conflict,
    /// Limits of a roster.
    pub roster: RosterLimits,
    /// Bounds of a session's outbox.
    pub outbox: OutboxLimits,
    /// Bytes of stanzas that may wait behind one that is not finished, before reading pauses.
    pub backlog_bytes: usize,
    /// True if the stages of a multicast are measured.
    pub profile: bool,
    /// Addresses that one session may have sent directed presence to (RFC 6121 §4.6).
    pub max_directed: usize,
    /// The rate at which a session may send.
    pub rate: Rate,
    /// The iterations of PBKDF2 for every password that is set while the server runs. The command
    /// line and decoys use the same number of the configuration.
    pub scram_iterations: u32,
    /// The addresses of this server that clients are told.
    pub told: ToldAddresses,
}

/// The addresses of this server that clients are told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToldAddresses {
    /// The address at which browsers reach the web front over TLS, with `@` for a domain, such as
    /// `https://@:5443`; `None` if they don't.
    pub pages: Option<String>,
    /// The address of this node, if clients may be sent to it; `None` without a cluster.
    pub steering: Option<Steering>,
}

/// Sends clients to the node that is home to their account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steering {
    /// The host under which clients reach this node and no other, with a port if that is not 5222.
    pub host: String,
    /// True if a client that logs in at another node is sent here at once (RFC 6120 §4.9.3.19), and
    /// not only told where to resume its session (XEP-0198 §3).
    pub logins: bool,
}

/// A component of this server (XEP-0114).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Component {
    /// Its name, prepared.
    pub name: String,
    /// Its rights beyond speaking for its own name.
    pub privileges: Privileges,
}

/// The rights of a component to act on behalf of accounts (XEP-0356), and in place of this server
/// (XEP-0355).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Privileges {
    /// The requests that it may make about the rosters of accounts.
    pub roster: RequestTypes,
    /// True if it hears of changes of the rosters that it may read.
    pub roster_pushes: bool,
    /// True if it may send messages in the name of accounts.
    pub messages: bool,
    /// True if it sees the presence of accounts.
    pub presence: bool,
    /// True if it sees the presence of the accounts' contacts on other servers as well, where it
    /// may read rosters.
    pub roster_presence: bool,
    /// The requests that it may make in the name of accounts, by their namespaces.
    pub requests: Vec<(String, RequestTypes)>,
    /// The namespaces of requests to domains and accounts that it replies to.
    pub delegated: Vec<String>,
}

/// Says whether requests of type get, set or both are meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTypes {
    /// Requests of type `get`.
    pub get: bool,
    /// Requests of type `set`.
    pub set: bool,
}

impl Privileges {
    /// Returns whether the component sees the presence of accounts.
    pub fn sees_accounts(&self) -> bool {
        self.presence || self.sees_contacts()
    }

    /// Returns whether the component sees the presence of accounts and of all their contacts. Only
    /// one that may read rosters can be allowed that (XEP-0356 §7.2).
    pub fn sees_contacts(&self) -> bool {
        self.roster_presence && self.roster.get
    }

    /// Returns whether the component hears of changes of rosters.
    pub fn hears_of_rosters(&self) -> bool {
        self.roster_pushes && self.roster.get
    }
}

impl RequestTypes {
    /// Requests of type `get` and of type `set`.
    pub const BOTH: Self = Self { get: true, set: true };

    /// Returns whether the set contains requests of a type: `set` if the request changes something,
    /// otherwise `get`.
    pub fn allow(self, set: bool) -> bool {
        if set { self.set } else { self.get }
    }

    /// Returns the name of the set as XEP-0356 §4 has it.
    pub fn name(self) -> &'static str {
        match (self.get, self.set) {
            (false, false) => "none",
            (true, false) => "get",
            (false, true) => "set",
            (true, true) => "both",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            domains: Vec::new(),
            components: Vec::new(),
            max_resources: 10,
            conflict: Conflict::EndOlder,
            roster: RosterLimits::default(),
            outbox: OutboxLimits::default(),
            backlog_bytes: 256 * 1024,
            profile: false,
            max_directed: 1000,
            rate: Rate::default(),
            scram_iterations: DEFAULT_ITERATIONS,
            told: ToldAddresses::default(),
        }
    }
}

impl Settings {
    /// Returns the name of the default domain, whose administrators look after the server as a
    /// whole; empty if there is no domain.
    pub fn default_domain(&self) -> &str {
        self.domains.first().map_or("", |domain| domain.name.as_str())
    }

    /// Returns all accounts that the configuration names, in any option of any domain. Each of them
    /// has some right, or speaks for the operator, even before the account exists.
    pub fn accounts_named(&self) -> impl Iterator<Item = Jid> + '_ {
        let modules = self.domains.iter().flat_map(|domain| domain.modules.values());
        let texts = modules.flat_map(|options| options.values.values()).flat_map(Value::texts);
        // A text may be an address, or have some among other words, as groups have.
        let words = texts.flat_map(|text| std::iter::once(text).chain(text.split(is_between)));
        words.filter_map(|word| Jid::parse(word).ok()).filter(|jid| jid.local().is_some())
    }
}

/// Returns whether a character ends an address in a text.
fn is_between(letter: char) -> bool {
    letter.is_whitespace() || ",;:()<>'\"".contains(letter)
}

/// A domain with its own users and modules.
#[derive(Debug, Clone)]
pub struct Domain {
    /// The domainpart, prepared.
    pub name: String,
    /// Its modules by name; a module that is missing here is off.
    pub modules: Map<&'static str, Options>,
    /// The way in which clients log in to its accounts.
    pub login: LoginBy,
}

impl Domain {
    /// Returns the options of a module, if it is on.
    pub fn module(&self, name: &str) -> Option<&Options> {
        self.modules.get(name)
    }
}

/// The resource conflict policy (RFC 6120 §7.7.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conflict {
    /// The older session ends with the stream error `conflict`.
    #[default]
    EndOlder,
    /// The newer one gets the stanza error `conflict`.
    RefuseNewer,
}

/// Limits of one account's roster (RFC 6121 §2.3.3 leaves them to the server).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RosterLimits {
    /// The number of contacts.
    pub items: usize,
    /// Bytes of all contacts' addresses, names and groups together.
    pub bytes: usize,
    /// Subscription requests of people who aren't contacts that wait for an answer.
    pub requests: usize,
    /// Bytes of a contact's name.
    pub name_bytes: usize,
    /// Groups of one contact.
    pub groups: usize,
    /// Bytes of a group's name.
    pub group_bytes: usize,
}

impl RosterLimits {
    /// Returns whether a roster of this size accepts one more contact of this many bytes.
    pub fn take(&self, size: &RosterSize, bytes: usize) -> bool {
        size.items < self.items && size.bytes.saturating_add(bytes) <= self.bytes
    }
}

impl Default for RosterLimits {
    fn default() -> Self {
        Self { items: 3000, bytes: 1024 * 1024, requests: 500, name_bytes: 1023, groups: 50, group_bytes: 1023 }
    }
}

/// The options of one module in one domain: every option that the module declares, with its value
/// or default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    values: Map<&'static str, Value>,
}

impl Options {
    /// Returns the defaults of the declared options.
    pub fn defaults(specs: &[OptionSpec]) -> Self {
        Self { values: specs.iter().map(|spec| (spec.key, (spec.default)())).collect() }
    }

    /// Sets a declared option.
    pub fn set(&mut self, spec: &OptionSpec, value: Value) {
        self.values.insert(spec.key, value);
    }

    /// Returns a switch; off if the module declares no such key.
    pub fn switch(&self, key: &str) -> bool {
        matches!(self.values.get(key), Some(Value::Switch(true)))
    }

    /// Returns a number; 0 if the module declares no such key.
    pub fn number(&self, key: &str) -> u64 {
        match self.values.get(key) {
            Some(Value::Number(number)) => *number,
            _ => 0,
        }
    }

    /// Returns a text; empty if the module declares no such key.
    pub fn text(&self, key: &str) -> &str {
        match self.values.get(key) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns a list of texts; empty if the module declares no such key.
    pub fn list(&self, key: &str) -> &[String] {
        match self.values.get(key) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }
}

/// The value of an option of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`, for options that switch something.
    Switch(bool),
    /// A whole number, zero or more.
    Number(u64),
    /// A text, which may be empty.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

impl Value {
    /// Returns the text, or those of the list.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = match self {
            Self::Text(text) => std::slice::from_ref(text),
            Self::List(texts) => texts,
            Self::Switch(_) | Self::Number(_) => &[],
        };
        texts.iter().map(String::as_str)
    }
}

/// An option as a module declares it; the example configuration and the errors of a wrong one come
/// from here.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// The key below `[modules.NAME]`.
    pub key: &'static str,
    /// The default value of the option; it also determines the kind of value that may be set.
    pub default: fn() -> Value,
    /// One line for the example configuration, with the unit.
    pub doc: &'static str,
    /// Checks a value; the error says why it is not acceptable.
    pub check: fn(&Value) -> Result<(), String>,
}
