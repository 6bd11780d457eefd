//! One file per XEP, and the table of all of them.
//!
//! A module says what it handles, what it shows and what an operator can set, all in its own file; the hub's registry is made from
//! the [`table`], and so are service discovery, the example configuration and the list of standards. A new XEP is a new file and one
//! line in the table.
//!
//! # Invariants
//!
//! * A module answers for an account that exists exactly as for one that doesn't, unless the asker may see the account's presence
//!   (`rookery_modkit::asker`): nobody learns from here who has an account (XEP-0030 §8).
//! * A module opens no socket, spawns nothing and reads no clock. What takes milliseconds runs in the world's background.
//! * What peers can make grow is bounded, and every bound is an option or a constant at the end of its file.
//!
//! # Layout
//!
//! The modules of the [`table`] have a file or a folder each, or a crate (archive, rooms, pubsub, and announcements among the operations).
//! Besides: [`standards`] lists what is implemented; `entity` says what a domain and its accounts are; `caps2` hashes
//! that.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod administration;
pub mod bytestreams;
pub mod caps;
mod caps2;
pub mod carbons;
pub mod client_state;
pub mod commands;
pub mod contact;
pub mod disco;
mod entity;
pub mod external_services;
pub mod fast;
pub mod last_activity;
pub mod multicast;
pub mod offline;
pub mod ping;
pub mod privacy;
pub mod push;
pub mod register;
pub mod rtbl;
pub mod sasl2;
pub mod shared_roster;
pub mod sic;
pub mod standards;
pub mod strangers;
pub mod stream_management;
pub mod time;
pub mod upload;
pub mod version;

pub use standards::xep_table;

/// The name of this crate in paths.
const CRATE: &str = module_path!();

use rookery_hub::Module;

/// What the modules of all shards have in common. Made once per server; every shard's [`table`] gets a clone.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    /// Who has created accounts of late.
    pub creations: register::Creations,
    /// The groups of the operator, and who is there.
    pub groups: shared_roster::Common,
    /// Hashes of those who are kept out of rooms.
    pub block_lists: rtbl::Lists,
    /// Which rooms there are.
    pub rooms: rookery_rooms::Directory,
    /// With whom domains don't communicate.
    pub borders: administration::border::Borders,
    /// The messages of the day.
    pub motds: rookery_operations::announce::Motds,
    /// What administrators did.
    pub journal: rookery_operations::journal::Journal,
    /// Who logged in of late, and who failed to.
    pub logins: rookery_operations::logins::Logins,
    /// What gives items from outside, and who is subscribed to them.
    pub data: rookery_pubsub::data::Data,
    /// Who hears when an administrator wants the server to stop.
    pub process: rookery_operations::process::Process,
    /// Who joins the connections of bytestreams.
    pub relay: bytestreams::Relay,
}

/// All modules, for one shard.
pub fn table(shared: &Shared) -> Vec<Box<dyn Module>> {
    vec![
        Box::new(disco::Disco),
        Box::new(caps::Caps),
        Box::new(ping::Ping),
        Box::new(version::Version),
        Box::new(time::Time),
        Box::new(contact::Contact),
        Box::new(privacy::Privacy),
        Box::new(strangers::Strangers),
        Box::new(shared_roster::SharedRoster::new(shared.groups.clone())),
        Box::new(rtbl::Rtbl::new(shared.block_lists.clone())),
        Box::new(last_activity::LastActivity),
        Box::new(rookery_archive::Archive),
        Box::new(carbons::Carbons),
        Box::new(offline::Offline),
        Box::new(stream_management::StreamManagement),
        Box::new(client_state::ClientState),
        Box::new(push::Push),
        Box::new(sasl2::Sasl2Module),
        Box::new(fast::Fast),
        Box::new(multicast::Multicast),
        Box::new(rookery_rooms::Rooms::new(shared.rooms.clone())),
        Box::new(commands::Commands),
        Box::new(administration::Administration::new(
            shared.borders.clone(),
            shared.journal.clone(),
            shared.logins.clone(),
            shared.process.clone(),
        )),
        Box::new(rookery_operations::announce::Announce::new(shared.motds.clone())),
        Box::new(rookery_pubsub::Pubsub),
        Box::new(rookery_pubsub::pep::PersonalEventing),
        Box::new(rookery_pubsub::data::DataService::new(shared.data.clone())),
        Box::new(rookery_pubsub::private::Private),
        Box::new(rookery_pubsub::vcard::Vcard),
        Box::new(external_services::ExternalServices),
        Box::new(sic::Sic),
        Box::new(upload::Upload),
        Box::new(bytestreams::Bytestreams::new(shared.relay.clone())),
        Box::new(register::Register::new(shared.creations.clone())),
    ]
}
