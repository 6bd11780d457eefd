//! XEP-0045: Multi-User Chat. A service `conference.DOMAIN` with rooms, and what has grown around
//! them: self-ping (0410), pseudonyms of occupants (0421), hats (0317), retraction and moderation
//! (0424, 0425), avatars (0486), stable ids (0359).
//!
//! # Layout
//!
//! * [`actor`]: one room, one stanza at a time, at its home shard; loading. [`directory`]: which
//!   rooms there are; `spread`: how all nodes hear of them. `holdings`: what each account has of
//!   all rooms. `absent`: those that there are not.
//! * [`room`]: the data, and which part deals with what. `occupant`, `role`, `config`, `limits`,
//!   `history`, `rate`: what it is made of.
//! * `refusal`: how a room says no. `join`, `nick`, `leave`: presence; `lost`: those who can't be
//!   reached any more; `ghosts`: those who are gone without a word; `shown`: how presence is
//!   written. `speak`: messages; `invite`: those that are requests to the room.
//! * `ask`: which request goes where: `admin`, `owner`, `register`, `info`, `avatar`, `moderate`,
//!   `hats`. `change`: what becomes of roles and affiliations; `notices`: who else hears of that;
//!   `voices`: what of it counts at the next visit. `application`: requests to register; `approve`:
//!   those that wait for an admin. `items`: long lists. `requests`: IQs between occupants. `stir`:
//!   how fast all that may go. `service`: the service itself.
//! * [`operate`]: what operators see and do; [`arrange`] and [`affiliates`]: the settings and
//!   affiliations that they change; `work`: what a room does that is no stanza. `whole`: what must
//!   hold of it. `bounds`: what rooms may hold. `unsaved`: rooms whose changes the store did not
//!   take. `keep`, `kept`: what the store has; `continued`: what the next process gets; `said`:
//!   what others know of messages when a node dies; `past`: the archive and the history; `logs`:
//!   files for people.
//!
//! # Invariants
//!
//! * A room is touched by its home shard only, by one stanza at a time. What comes while it is at
//!   work, or on its way from the store, waits in order.
//! * A packet for all is built once for each form: with the real JID for those who may see it,
//!   without it for all others. The audience stands ready.
//! * Only the room says what is in `muc#user`, `stanza-id` by the room, `occupant-id`, hats and
//!   moderation: what occupants write of it is cut out.
//! * What a change needs is checked before anything is changed: it happens as a whole or not at
//!   all.
//!
//! # Choices
//!
//! * Sessions of one account share a nick (§7.2.9). Nicks that differ in case or spaces only are
//!   one.
//! * A list that doesn't fit one stanza comes in parts (XEP-0059), also to clients that don't ask
//!   for parts: they get the first one.
//! * A change is seen at once; its request is answered when it is in the store. If the store
//!   refuses it, the one who asked gets an error to wait (`unsaved`), the change holds, and the
//!   room is written again until the store has it.
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
use rookery_hub::{Bound, Domain, Hooks, Module, OptionSpec, World};
use rookery_jid::JidRef;

use actor::Actors;
pub use directory::Directory;
pub use limits::NAME;
pub use refusal::turn_away;

/// Rooms in which many talk to each other.
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

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(self.directory.clone());
        hooks.state(Actors::default());
        hooks.state(unsaved::Unsaved::default());
        hooks.state(logs::Logs::default());
        hooks.state(ghosts::Ghosts::default());
        hooks.letter::<ghosts::ServerLost>();
        hooks.lost(ghosts::lost);
        hooks.letter::<speak::Whisper>();
        hooks.question::<operate::Describe>();
        hooks.question::<operate::Destroy>();
        hooks.question::<arrange::Arrange>();
        hooks.question::<affiliates::ListAffiliations>();
        hooks.question::<affiliates::SetAffiliation>();
        hooks.question::<operate::Largest>();
        hooks.service(serve);
        // The store has forgotten what the account was to rooms; those that are here do so too.
        hooks.account_removed(|world, user| world.state::<Directory>().account_removed(user.bare().to_jid()));
        hooks.stopping(actor::shut_down);
        hooks.handing_on(continued::hand_on);
        hooks.handing_on(said::hand_on);
        hooks.on_journal(continued::write_down);
        hooks.letter::<continued::Continued>();
        hooks.letter::<continued::Recovered>();
        hooks.state(said::SaidMessages::default());
        hooks.letter::<said::NotedMessage>();
        hooks.every(said::PERIOD_MS, said::forget);
        hooks.letter::<continued::Seated>();
        hooks.letter::<spread::Noted>();
        hooks.moved(actor::sort_again);
        hooks.moved(actor::spread_again);
        hooks.resting(continued::are_resting);
        hooks.arrived(actor::spread_again);
        hooks.every(unsaved::RETRY_MS, actor::save_again);
        hooks.every(HEED_MS, actor::heed_removals);
        hooks.every(rookery_archive::PERIOD_MS, actor::expire_archives);
    }
}

/// Gives a stanza to the service, or to the room that it is for.
fn serve(world: &mut World, packet: &Packet, to: JidRef<'_>, _: &Domain) {
    if to.local().is_none() {
        return actor::when_listed(world, packet, to, service::receive);
    }
    if world.serve_at_home(to.bare_str(), packet, to) {
        return;
    }
    // A room that is here needs no list: it hears who leaves, whatever the store does.
    if world.state::<Actors>().has(to.bare_str()) {
        return actor::receive(world, packet, to);
    }
    actor::when_listed(world, packet, to, actor::receive);
}

/// The milliseconds after which rooms that nobody speaks to hear again of accounts that were
/// removed.
const HEED_MS: u64 = 5000;
