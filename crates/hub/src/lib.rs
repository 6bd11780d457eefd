//! One shard's world: users, sessions, presence, the delivery rules of RFC 6121, and the hooks that
//! modules use.
//!
//! The hub opens no socket, spawns nothing and reads no clock: it is driven by calls and answers
//! with events, mail for other shards and filled outboxes. So the whole server runs in a test, with
//! virtual time.
//!
//! # Layout
//!
//! * [`world`]: the data that a shard owns and the driver's interface to it; `parts`: its parts.
//!   `event`: instructions to the driver. `calls`: functions that it calls without knowing their
//!   owners.
//! * [`login`]: queries of a connection before it has a session; [`bind`]: the life of a session.
//! * [`inbound`]: stanzas of a session: checks, stamps, dispatch.
//! * [`route`]: the way of a stanza: RFC 6121 §8; [`destination`]: the recipients of a message.
//!   [`copies`]: one packet for many; [`roll`]: an audience that is kept ready, `enroll`: its
//!   members. [`service`]: hosts that modules answer for. [`federation`]: other servers, `remote`:
//!   knowledge of them; `attached`: the nodes of components; [`bridged`]: presence of their users;
//!   [`privileged`]: their actions on behalf of others; [`elsewhere`]: remote contacts that they
//!   see.
//! * [`presence`]: broadcasts, probes, directed presence: RFC 6121 §4. [`conceal`]: addresses from
//!   which an account conceals it. `contact`: contacts that operators change.
//! * [`subscription`]: the state machine of Appendix A, pure; [`subscribe`] carries out its
//!   decisions.
//! * [`roster`]: roster get, set and push: RFC 6121 §2. [`shared`]: contacts by the operator's
//!   groups. [`removal`]: the end of an account.
//! * [`iq`]: requests; `answer`: those that this server replies to itself; [`ask`]: those that it
//!   makes.
//! * [`module`]: modules and hooks; [`passage`]: filters of what passes, `filter`: their passage.
//!   [`settings`], [`network`]: the operator's decisions; `served`: their consequences for each
//!   domain, `domains`: the look-up of these.
//! * [`failure`]: the errors for senders when the store failed.
//! * [`hold`]: waiting for earlier stanzas for an account, `held`: the stanzas that wait;
//!   [`delay`]: stamps of delayed delivery.
//! * [`documents`]: an account's data that modules need with every stanza, `at_hand`: its place in
//!   memory; `known`: the account's roster, if they need that as well.
//! * [`management`]: streams whose stanzas are acknowledged, sessions that survive their
//!   connection, `managed`: their data; [`custody`]: the moment when a stanza may be acknowledged.
//!   `carry`: sessions that survive their process; `going_on`: their return in the next one,
//!   `returning`: those that have yet to return. [`moves`], `acting`, `parting`, `arriving`:
//!   sessions that move from one live node to another. [`card`]: the data that sessions take along.
//!   `journal`: the data by which they survive the death of a node, `journaled`: its form in
//!   memory; `recovering`: their return from it, [`readings`]: the journals that are still needed
//!   for that. [`following`]: connections that follow their sessions.
//! * [`fast`]: tokens with which clients log in. [`source`]: outside sources that vouch for logins
//!   in place of the store, `admission`: the logins that they vouch for.
//! * `driver`: questions to the drivers of other nodes' shards, `driver_news`: the news that
//!   drivers tell each other.
//! * [`state`]: the state of modules. [`memo`], [`question`]: their messages and questions to
//!   themselves on other shards, `letter_versions`: the versions of these that older nodes
//!   understand, `reply`: the right to answer; [`errand`]: work from other threads. [`mail`]:
//!   everything that shards tell each other; `post`: its dispatch and arrival, `untold`: errors
//!   for senders that can't be reached.
//! * [`rate`]: the rate at which a session may send, `throttle`: delays for one that is faster.
//!   `pace`: the pace of stanzas that the server sends of its own accord. [`share`]: the part of a
//!   queue that one sender may fill.
//! * [`task`]: waiting for the store, `wakeups`: the end of such waits, `label`: the names under
//!   which they are counted; [`timer`]: waiting for a time; `waiting`: everything that waits;
//!   [`session`], [`names`]: the data, `whole`: its invariants; `census`: the counts of it.
//! * [`trace`]: the way of stanzas, as shown to an operator; `sight`: the reports from the places
//!   on it. `tally`: each module's share in the work and the stanzas that sessions
//!   send, while somebody watches.
//!
//! Files import what lies below them: first plain data, then the world, then its actions (`impl
//! World` in the file of the topic). Only the world and those of its fields that take the world
//! again, the functions of modules and of continuations, know each other.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod acting;
mod admission;
mod answer;
mod arriving;
pub mod ask;
mod at_hand;
mod attached;
pub mod bind;
pub mod bridged;
mod calls;
pub mod card;
mod carry;
mod census;
pub mod conceal;
mod contact;
pub mod copies;
pub mod custody;
pub mod delay;
pub mod destination;
pub mod documents;
mod domains;
mod driver;
mod driver_news;
pub mod elsewhere;
mod enroll;
pub mod errand;
mod event;
pub mod failure;
pub mod fast;
pub mod federation;
mod filter;
pub mod following;
mod going_on;
mod held;
pub mod hold;
pub mod inbound;
pub mod iq;
mod journal;
mod journaled;
pub(crate) mod known;
mod label;
mod letter_versions;
pub mod login;
pub mod mail;
mod managed;
pub mod management;
pub mod memo;
pub mod module;
pub mod moves;
pub mod names;
pub mod network;
mod pace;
mod parting;
mod parts;
pub mod passage;
mod post;
pub mod presence;
pub mod privileged;
pub mod question;
pub mod rate;
pub mod readings;
mod recovering;
mod remote;
pub mod removal;
mod reply;
mod returning;
pub mod roll;
pub mod roster;
pub mod route;
mod served;
pub mod service;
pub mod session;
pub mod settings;
pub mod share;
pub mod shared;
mod sight;
pub mod source;
pub mod state;
pub mod subscribe;
pub mod subscription;
pub mod tally;
pub mod task;
mod throttle;
pub mod timer;
pub mod trace;
mod untold;
mod waiting;
mod wakeups;
mod whole;
pub mod world;

pub use calls::{Circle, SharedContacts};
pub use card::{Card, CardError, SessionCard};
pub use census::Census;
pub use contact::{ContactOutcome, WantedContact};
pub use custody::{Custody, ReturnedMail};
pub use destination::Destination;
pub use driver::DriverQuestion;
pub use driver_news::DriverNews;
pub use errand::Errand;
pub use event::{BindError, Event, LoginAnswer, Peer};
pub use fast::TokenChange;
pub use following::FollowedSession;
pub use held::Hold;
pub use inbound::Intake;
pub use iq::{Answer, Iq};
pub use journaled::{JournalBatch, JournalFields, JournalLookup, JournalWrite};
pub use letter_versions::{BEGUN_AGAIN, LETTERS, OLDEST_LETTERS};
pub use management::NotResumed;
pub use memo::Memo;
pub use module::{
    Carry, Document, DocumentName, DocumentSpec, Exported, Guest, Hooks, LoginSeen, Module, ModuleGauge, Phase,
    Registry, Target, Verdict,
};
pub use network::{Network, household};
pub use parts::Place;
pub use passage::{Delivery, Notes, Passage, Stanzas, Wanted};
pub use question::Question;
pub use remote::{Federation, RemoteService};
pub use reply::QuestionReply;
pub use roll::Roll;
pub use rookery_observe::bound::{Bound, Most, Per, Unit};
pub use rookery_observe::{Slow, slow};
pub use session::{Session, SessionRef};
pub use settings::{
    Component, Conflict, Domain, OptionSpec, Options, Privileges, RequestTypes, RosterLimits, Settings, Steering,
    ToldAddresses, Value,
};
pub use share::{Bounds, Share};
pub use source::{Entrance, Group, Judgement, Judging, LoginBy, Proof, SignIn, Source, SourceSeen, Takes};
pub use trace::{Sighting, Step, Subject, Trace, TraceExtent};
pub use waiting::Timer;
pub use wakeups::Wakeups;
pub use world::World;
