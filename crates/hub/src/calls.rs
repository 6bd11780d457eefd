//! The kinds of functions that a world calls: those of modules, and those of values of unknown
//! types.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use rookery_fanout::{Link, Packet};
use rookery_jid::{Jid, JidRef};
use rookery_store::{RosterItem, Subscription};
use rookery_xml::Built;

use crate::World;
use crate::iq::Iq;
use crate::module::{Carry, Guest, LoginSeen, Registry, Verdict};
use crate::passage::{Delivery, Passage};
use crate::remote::RemoteService;
use crate::reply::AnswerPlace;
use crate::roll::Roll;
use crate::settings::Domain;

/// Handles an IQ of type get or set.
pub(crate) type IqHandler = fn(&mut World, Iq);
/// Handles an IQ that came before login.
pub(crate) type BeforeLogin = fn(&mut World, Guest, Iq);
/// Sees a stanza for a domain itself.
pub(crate) type ToDomain = fn(&mut World, &Packet, JidRef<'_>) -> Verdict;
/// Sees a message that nobody accepted.
pub(crate) type Undelivered = fn(&mut World, Passage<'_>) -> Verdict;
/// Gets every stanza for a service of a domain.
pub(crate) type CallServe = fn(&mut World, &Packet, JidRef<'_>, &Domain);
/// Tells the multicast service of a remote domain for one of ours, if one is known: our domain, the
/// remote one.
pub(crate) type FindRemote = fn(&mut World, &str, &str) -> Option<RemoteService>;
/// Decides whether an address of another server and one of our domains may communicate.
pub(crate) type Border = fn(&World, JidRef<'_>, &str) -> bool;
/// Gives presence of a session another form, or leaves it.
pub(crate) type PresenceForm = fn(&mut World, &Packet) -> Option<Packet>;
/// Hears of a stanza that has come from elsewhere.
pub(crate) type Heard = fn(&mut World, &Packet, JidRef<'_>);
/// Hears of another server.
pub(crate) type Lost = fn(&mut World, &str);
/// Hears of an account and one of its contacts.
pub(crate) type OfContact = fn(&mut World, JidRef<'_>, JidRef<'_>);
/// Hears of an account.
pub(crate) type OfAccount = fn(&mut World, JidRef<'_>);
/// Hears of a session.
pub(crate) type OfSession = fn(&mut World, Link);
/// Saves a module's data about a session for another process, and restores it there.
pub(crate) type Carrying = (fn(&World, Link) -> Carry, fn(&mut World, Link, Option<&[u8]>));
/// Hears of a stanza that a session gets while its client is inactive or not connected.
pub(crate) type Unattended = fn(&mut World, &Packet, Link);
/// Adds to the stream features of a domain. The registry tells which modules are on there.
pub(crate) type FeaturesCall = fn(&Registry, &Domain) -> Vec<Built>;
/// Hears of a login.
pub(crate) type OfLogin = fn(&World, &LoginSeen<'_>);
/// Sees a stanza that passes.
pub(crate) type Filter = fn(&mut World, Passage<'_>) -> Delivery;
/// Returns whether everything that moves to another node has come to rest.
pub(crate) type Resting = fn(&World) -> bool;
/// Runs on a shard, for no domain in particular.
pub(crate) type Everywhere = fn(&mut World);
/// Does something at the home of an account or a room, which the text names.
pub(crate) type AtHome = fn(&mut World, &str);

/// A memo of any kind.
pub(crate) trait CarriedMemo: fmt::Debug + Send {
    fn name(&self) -> &'static str;
    fn since(&self) -> u16;
    fn home(&self) -> Option<Jid>;
    fn open(self: Box<Self>, world: &mut World);
    fn again(self: Box<Self>, world: &mut World);
    fn refused(self: Box<Self>, world: &mut World);
    fn encode(&self) -> Result<Vec<u8>, postcard::Error>;
}

/// Reads a memo of one kind.
pub(crate) type DecodeMemo = fn(&[u8]) -> Result<Box<dyn CarriedMemo>, postcard::Error>;

/// A question of any kind.
pub(crate) trait CarriedQuestion: fmt::Debug + Send {
    fn name(&self) -> &'static str;
    fn ask(self: Box<Self>, world: &mut World, asker: AnswerPlace);
    fn encode(&self) -> Result<Vec<u8>, postcard::Error>;
}

/// Reads a question of one kind.
pub(crate) type DecodeQuestion = fn(&[u8]) -> Result<Box<dyn CarriedQuestion>, postcard::Error>;

/// A document of any type.
pub(crate) trait AnyDocument: Any {
    fn needs_roster(&self) -> bool;
    fn may_reach(&self, world: &World, link: Link, packet: &Packet) -> bool;
    fn conceals(&self, world: &World, link: Option<Link>, owner: JidRef<'_>, contact: JidRef<'_>) -> bool;
}

/// Reads documents of one type.
pub(crate) type ReadDocument = fn(&[u8]) -> Option<Rc<dyn AnyDocument>>;

/// The functions of the module that keeps contacts by group. Each takes the bare JID of an account
/// first.
#[derive(Debug, Clone, Copy)]
pub struct SharedContacts {
    /// Returns the relation between the account and a contact, from the account's view.
    pub relation: fn(&World, JidRef<'_>, JidRef<'_>) -> Subscription,
    /// Returns the circle of accounts that see the account's presence; `None` if nobody does.
    pub watchers: fn(&mut World, JidRef<'_>) -> Option<Circle>,
    /// Returns the circle of accounts whose presence the account sees; `None` if there are none.
    pub watched: fn(&mut World, JidRef<'_>) -> Option<Circle>,
    /// Returns whether the account sees anybody's presence.
    pub has_watched: fn(&World, JidRef<'_>) -> bool,
    /// Returns the members of the circle of watchers one by one. For the circle of everybody these
    /// are the accounts that are online, on whatever shard.
    pub each_watcher: fn(&World, JidRef<'_>) -> Vec<Jid>,
    /// Returns the roster items of the account, each contact once.
    pub items: fn(&World, JidRef<'_>) -> Vec<RosterItem>,
    /// Returns the roster item of one contact.
    pub item: fn(&World, JidRef<'_>, JidRef<'_>) -> Option<RosterItem>,
}

/// Members of groups.
#[derive(Debug, Clone)]
pub struct Circle {
    /// Accounts by name, perhaps including the account that was asked about.
    pub members: Rc<Roll>,
    /// A domain of which every account that is online belongs to the circle as well.
    pub everybody_of: Option<String>,
}
