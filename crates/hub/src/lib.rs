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
//! * [`subscription`]: the state machine of Appendix A, pure; [`subscribe`] carries out what it
//!   says.
//! * [`roster`]: roster get, set and push: RFC 6121 §2. [`shared`]: contacts by the operator's
//!   groups. [`removal`]: the end of an account.
//! * [`iq`]: requests; `answer`: those that this server replies to itself; [`ask`]: those that it
//!   makes.
//! * [`module`]: modules and hooks; [`passage`]: filters of what passes, `filter`: their passage.
//!   [`settings`], [`network`]: what the operator decides; `served`: what follows from it for each
//!   domain, `domains`: where that is looked up.
//! * [`failure`]: what a sender is told when the store failed.
//! * [`hold`]: stanzas for an account that wait for earlier ones, `held`: those; [`delay`]: stamps
//!   of delayed delivery.
//! * [`documents`]: what modules need of an account with every stanza, `at_hand`: where it is kept;
//!   `known`: its roster, where they need that.
//! * [`management`]: streams whose stanzas are acknowledged, sessions that survive their
//!   connection, `managed`: their data; [`custody`]: when a stanza may be acknowledged. `carry`:
//!   sessions that survive their process, `going_on`: how they do in the next, [`moves`], `acting`,
//!   `parting`, `arriving`: in another node while both live, `returning`: those
//!   that have still to; [`card`]: what they take along. `journal`: what is written down so that
//!   they survive the death of a node, `journaled`: its data; `recovering`: how they do.
//!   [`readings`]: the journals that are still needed for that.
//!   [`following`]: whose connections do, too.
//! * [`login`], [`fast`]: what a connection needs before it has a session. [`source`]: who vouches
//!   for logins where the store doesn't, `admission`: how they are let in.
//! * `driver`: questions to the drivers of shards of other nodes, `driver_news`: what these tell
//!   each other.
//! * [`state`]: what modules remember. [`memo`], [`question`]: what they tell and ask themselves
//!   on other shards, `letter_versions`: which of it older nodes understand, `reply`: the right to
//!   answer; [`errand`]: work from other threads. [`mail`]: all that shards tell each other;
//!   `post`: how it goes out and comes in.
//! * [`rate`]: how fast a session may send, `throttle`: what happens to one that is faster. `pace`:
//!   how fast it gets what the server sends of its own accord. [`share`]: how much of a queue one
//!   sender may fill.
//! * [`task`]: waiting for the store, `wakeups`: who ends that; `label`: under which name it is
//!   counted; [`timer`]: waiting for a time; `waiting`: all that waits; [`session`], [`names`]: the
//!   data, `whole`: what must hold of it; `census`: what is in hand.
//! * [`trace`]: what an operator wants to see of the way of stanzas; `sight`: the places on it that
//!   tell. `tally`: what modules take while somebody watches.
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
mod tally;
pub mod task;
mod throttle;
pub mod timer;
pub mod trace;
mod waiting;
mod wakeups;
mod whole;
pub mod world;

pub use calls::{Circle, SharedContacts};
pub use card::{Card, CardError, SessionCard};
pub use census::Census;
pub use contact::{ContactOutcome, WantedContact};
pub use custody::Custody;
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
pub use trace::{Sighting, Step, Subject, Trace};
pub use waiting::Timer;
pub use wakeups::Wakeups;
pub use world::World;
