//! One shard's world: users, sessions, presence, the delivery rules of RFC 6121, and the hooks that modules use.
//!
//! The hub opens no socket, spawns nothing and reads no clock: it is driven by calls and answers with events, mail for other
//! shards and filled outboxes. So the whole server runs in a test, with virtual time.
//!
//! # Layout
//!
//! * [`world`]: what a shard owns and how a driver talks to it; `parts`: in which parts.
//! * [`login`]: what a connection asks before it has a session; [`bind`]: the life of a session.
//! * [`inbound`]: what a session sends: checks, stamps, dispatch.
//! * [`route`]: where a stanza goes: RFC 6121 §8; [`destination`]: who gets a message. [`copies`]: one packet for many; [`roll`]: an audience
//!   that is kept ready. [`service`]: hosts that modules answer for. [`federation`]: other servers.
//! * [`presence`]: broadcasts, probes, directed presence: RFC 6121 §4. [`conceal`]: from whom an account conceals it.
//! * [`subscription`]: the state machine of Appendix A, pure; [`subscribe`] carries out what it says.
//! * [`roster`]: roster get, set and push: RFC 6121 §2. [`shared`]: contacts by the operator's groups.
//! * [`iq`]: requests that this server answers itself, and their replies; [`ask`]: requests that it makes.
//! * [`module`]: modules and hooks; [`passage`]: filters of what passes. [`settings`], [`network`]: what the operator decides; `served`: what follows
//!   from it for each domain.
//! * [`hold`]: stanzas for an account that wait for earlier ones; [`delay`]: stamps of late delivery.
//! * [`documents`]: what modules need of an account with every stanza; `known`: its roster, where they need that.
//! * [`management`]: streams whose stanzas are acknowledged, sessions that survive their connection; [`custody`]: when a stanza may be
//!   acknowledged.
//! * [`login`], [`tokens`]: what a connection needs before it has a session.
//! * [`state`]: what modules remember. [`letter`], [`question`]: what they tell and ask themselves on other shards; [`errand`]: work from other threads.
//!   [`mail`]: all that shards tell each other.
//! * [`rate`]: how fast a session may send. `pace`: how fast it gets what the server sends of its own accord. [`share`]: how much of a
//!   line one sender may fill.
//! * [`task`]: waiting for the store; `label`: under which name it is counted; [`timer`]: waiting for a time; [`session`], [`names`]: the data.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod ask;
pub mod bind;
pub mod conceal;
pub mod copies;
pub mod custody;
pub mod delay;
pub mod destination;
pub mod documents;
pub mod errand;
pub mod federation;
pub mod hold;
pub mod inbound;
pub mod iq;
pub(crate) mod known;
mod label;
pub mod letter;
pub mod login;
pub mod mail;
pub mod management;
pub mod module;
pub mod names;
pub mod network;
mod pace;
mod parts;
pub mod passage;
pub mod presence;
pub mod question;
pub mod rate;
pub mod roll;
pub mod roster;
pub mod route;
mod served;
pub mod service;
pub mod session;
pub mod settings;
pub mod share;
pub mod shared;
pub mod state;
pub mod subscribe;
pub mod subscription;
pub mod task;
pub mod timer;
pub mod tokens;
pub mod world;

pub use ask::Answer;
pub use bind::BindError;
pub use custody::Custody;
pub use destination::Destination;
pub use errand::Errand;
pub use federation::{Federation, RemoteService};
pub use hold::Hold;
pub use inbound::Intake;
pub use iq::Iq;
pub use letter::Letter;
pub use login::LoginAnswer;
pub use management::NotResumed;
pub use module::{
    Document, DocumentName, DocumentSpec, Exported, Guest, Hooks, LoginSeen, Module, Phase, Registry, Target, Verdict,
};
pub use network::{Network, household};
pub use passage::{Delivery, Notes, Passage, Stanzas, Wanted};
pub use question::{Question, Reply};
pub use roll::Roll;
pub use rookery_observe::bound::{Bound, Most, Per, Unit};
pub use session::{Session, SessionRef};
pub use settings::{Conflict, Domain, OptionSpec, Options, RosterLimits, Settings, Value};
pub use share::{Bounds, Share};
pub use shared::{Circle, SharedContacts};
pub use task::Wakeups;
pub use timer::Timer;
pub use tokens::TokenChange;
pub use world::{Event, Place, World};
