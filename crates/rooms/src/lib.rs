//! XEP-0045: Multi-User Chat. A service `conference.DOMAIN` with rooms, and extensions of them:
//! self-ping (0410), occupant ids (0421), hats (0317), retraction and moderation (0424, 0425),
//! avatars (0486), stable ids (0359).
//!
//! # Layout
//!
//! * [`actor`]: one room, one stanza at a time, at its home shard; loading. [`directory`]: the
//!   list of rooms; `spread`: its distribution to all nodes. `holdings`: each account's share of
//!   all rooms. `absent`: rooms that don't exist.
//! * [`room`]: the data, and dispatch to the parts. `occupant`, `role`, `config`, `limits`,
//!   `history`, `rate`: its parts.
//! * `refusal`: a room's refusals. `join`, `nick`, `leave`: presence; `lost`: occupants that can't
//!   be reached any more; `ghosts`: those who disappeared silently; `shown`: presence as the room
//!   sends it. `speak`: messages; `invite`: those that are requests to the room.
//! * `ask`: dispatch of requests: `admin`, `owner`, `register`, `info`, `avatar`, `moderate`,
//!   `hats`. `change`: changes of roles and affiliations; `notices`: notifications of others;
//!   `voices`: what remains at the next visit. `application`: requests to register; `approve`:
//!   those that wait for an admin. `items`: long lists. `requests`: IQs between occupants. `stir`:
//!   rate limits of all that. `service`: the service itself.
//! * [`operate`]: operators' view and actions; [`arrange`] and [`affiliates`]: settings and
//!   affiliations that they change; `work`: a room's work other than stanzas. `whole`: its
//!   invariants. `bounds`: its bounds. `gauges`: counts for metrics. `unsaved`: rooms whose changes
//!   the store refused. `keep`, `kept`: the stored form; `continued`: the data for the next
//!   process; `seated`: occupants whose home is in another process; `said`: the ids of messages,
//!   for when a node dies; `past`: the archive and the history; `logs`: files for people.
//!
//! # Invariants
//!
//! * Only a room's home shard touches it, one stanza at a time. Stanzas that arrive while it is
//!   busy, or being loaded, wait in order.
//! * A packet for all is built once for each form: with the real JID for those who may see it,
//!   without it for all others. The audience is kept ready.
//! * Only the room writes `muc#user`, its own `stanza-id`, `occupant-id`, hats and moderation:
//!   those that occupants write are cut out.
//! * The conditions of a change are checked before anything is changed: it happens as a whole or
//!   not at all.
//!
//! # Choices
//!
//! * Sessions of one account share a nickname (§7.2.9). Nicknames that only differ in case or
//!   spaces are the same.
//! * A list that doesn't fit into one stanza comes in parts (XEP-0059), also to clients that don't
//!   ask for parts: they get the first one.
//! * A change is visible at once; its request gets its reply when it is in the store. If the store
//!   refuses it, the requester gets an error to wait (`unsaved`), the change remains in effect, and
//!   the room is written again until the store has it.
//!
//! Left out: groupchat 1.0 (§7.2.17 has it removed), the `ldapgroup` field, codes 102 and 103 (no
//! configuration shows unavailable members), unique room names, the hash of the list of hats
//! (XEP-0317 §4).

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod absent;
pub mod actor;
mod admin;
pub mod affiliates;
mod application;
mod approve;
pub mod arrange;
mod ask;
mod avatar;
mod bounds;
mod change;
mod config;
mod continued;
pub mod directory;
mod gauges;
mod ghosts;
mod hats;
mod history;
mod holdings;
mod info;
mod invite;
mod items;
mod join;
mod keep;
mod kept;
mod leave;
mod limits;
mod logs;
mod lost;
mod moderate;
mod nick;
mod notices;
mod occupant;
pub mod operate;
mod owner;
mod past;
mod rate;
mod refusal;
mod register;
mod requests;
mod role;
pub mod room;
mod said;
mod seated;
mod service;
mod shown;
mod speak;
mod spread;
mod stir;
mod unsaved;
mod voices;
mod whole;
mod work;

use rookery_fanout::Packet;
use rookery_hub::{Bound, Domain, Hooks, Module, ModuleGauge, OptionSpec, World};
use rookery_jid::JidRef;

use actor::Actors;
pub use directory::Directory;
pub use limits::NAME;
pub use refusal::turn_away;

/// The module for rooms in which many users talk.
#[derive(Debug)]
pub struct Rooms {
    directory: Directory,
}

impl Rooms {
    /// Makes the module for one shard. All shards share the directory.
    pub fn new(directory: Directory) -> Self {
        Self { directory }
    }
}

impl Module for Rooms {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users can talk to each other in rooms"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("XEP-0045", "1.35.5"),
            ("XEP-0249", "1.2"),
            ("XEP-0313", "1.1.3"),
            ("XEP-0317", "0.3.1"),
            ("XEP-0359", "0.7.0"),
            ("XEP-0410", "1.1.0"),
            ("XEP-0421", "1.0.1"),
            ("XEP-0424", "0.4.2"),
            ("XEP-0425", "0.3.0"),
            ("XEP-0486", "0.1.0"),
        ]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "XEP-0045",
                "groupchat 1.0 (§7.2.17), the field `ldapgroup`, codes 102 and 103 (no configuration shows unavailable members)",
            ),
            ("XEP-0317", "the hash of the list of hats (§4)"),
        ]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &limits::OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        bounds::BOUNDS
    }

    fn gauges(&self) -> &'static [ModuleGauge] {
        &gauges::GAUGES
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(self.directory.clone());
        hooks.state(Actors::default());
        hooks.state(unsaved::Unsaved::default());
        hooks.state(logs::Logs::default());
        hooks.state(ghosts::Ghosts::default());
        hooks.memo::<ghosts::ServerLost>();
        hooks.lost(ghosts::lost);
        hooks.memo::<speak::Whisper>();
        hooks.question::<operate::Describe>();
        hooks.question::<operate::Destroy>();
        hooks.question::<arrange::Arrange>();
        hooks.question::<affiliates::ListAffiliations>();
        hooks.question::<affiliates::SetAffiliation>();
        hooks.question::<operate::Largest>();
        hooks.service(serve);
        hooks.account_removed(spread::account_removed);
        hooks.memo::<spread::RemovedElsewhere>();
        hooks.stopping(actor::upkeep::shut_down);
        hooks.handing_on(continued::hand_on);
        hooks.handing_on(said::hand_on);
        hooks.on_journal(continued::write_down);
        hooks.memo::<continued::Continued>();
        hooks.memo::<continued::Recovered>();
        hooks.state(said::SaidMessages::default());
        hooks.memo::<said::NotedMessage>();
        hooks.every(said::PERIOD_MS, said::forget);
        hooks.memo::<seated::Seated>();
        hooks.memo::<spread::Noted>();
        hooks.moved(actor::upkeep::sort_again);
        hooks.moved(actor::upkeep::spread_again);
        hooks.resting(continued::are_resting);
        hooks.arrived(actor::upkeep::spread_again);
        hooks.every(unsaved::RETRY_MS, actor::upkeep::save_again);
        hooks.every(HEED_MS, actor::upkeep::heed_removals);
        hooks.every(rookery_archive::PERIOD_MS, actor::upkeep::expire_archives);
    }
}

/// Passes a stanza to the service, or to the room that it is for.
fn serve(world: &mut World, packet: &Packet, to: JidRef<'_>, _: &Domain) {
    if to.local().is_none() {
        return actor::when_listed(world, packet, to, service::receive);
    }
    if world.serve_at_home(to.bare_str(), packet, to) {
        return;
    }
    // A loaded room needs no list: it must see who leaves, whatever the store does.
    if world.state::<Actors>().has(to.bare_str()) {
        return actor::receive(world, packet, to);
    }
    actor::when_listed(world, packet, to, receive_at_home);
}

/// Passes a stanza to the room that it is for, whose home may have moved while it waited.
fn receive_at_home(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    if !world.serve_at_home(to.bare_str(), packet, to) {
        actor::receive(world, packet, to);
    }
}

/// The milliseconds after which rooms without traffic forget removed accounts.
const HEED_MS: u64 = 5000;
