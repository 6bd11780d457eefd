//! The table of the modules, and the data that their shards share.

use rookery_hub::Module;

use crate::{
    administration, bytestreams, caps, carbons, client_state, commands, contact, directory, disco, events,
    external_services, fast, last_activity, multicast, offline, ping, privacy, push, register, rtbl, sasl2,
    shared_roster, sic, strangers, stream_management, time, upload, version, visits,
};

/// The state that the modules of all shards share. It is made once per server; every shard's
/// [`table`] gets a clone.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    /// The parties that have created accounts recently.
    pub creations: register::Creations,
    /// The operator's groups, and the accounts that are online.
    pub groups: shared_roster::CommonGroups,
    /// Hashes of addresses that are kept out of rooms.
    pub block_lists: rtbl::Lists,
    /// The rooms that exist.
    pub rooms: rookery_rooms::Directory,
    /// The domains that each domain doesn't communicate with.
    pub borders: administration::border::Borders,
    /// The messages of the day.
    pub motds: rookery_operations::announce::Motds,
    /// The recent actions of administrators.
    pub action_log: rookery_operations::action_log::ActionLog,
    /// The latest logins and failures to log in.
    pub logins: rookery_operations::logins::Logins,
    /// The events for other programs.
    pub events: rookery_operations::events::EventLog,
    /// The source of outside items, and the subscriptions to them.
    pub data: rookery_pubsub::data::Data,
    /// Takes administrators' requests to stop or restart the server.
    pub process: rookery_operations::process::Process,
    /// Joins the connections of bytestreams.
    pub relay: bytestreams::Relay,
}

/// Returns all modules, for one shard.
pub fn table(shared: &Shared) -> Vec<Box<dyn Module>> {
    vec![
        Box::new(disco::Disco),
        Box::new(caps::Caps),
        Box::new(ping::PingModule),
        Box::new(version::Version),
        Box::new(time::TimeModule),
        Box::new(contact::Contact),
        Box::new(privacy::Privacy),
        Box::new(strangers::StrangersModule),
        Box::new(shared_roster::SharedRoster::new(shared.groups.clone())),
        Box::new(rtbl::Rtbl::new(shared.block_lists.clone())),
        Box::new(last_activity::LastActivity),
        Box::new(rookery_archive::ArchiveModule),
        Box::new(carbons::Carbons),
        Box::new(offline::OfflineModule),
        Box::new(stream_management::StreamManagement),
        Box::new(client_state::ClientState),
        Box::new(push::Push),
        Box::new(sasl2::Sasl2Module),
        Box::new(fast::Fast),
        Box::new(multicast::MulticastModule),
        Box::new(rookery_rooms::Rooms::new(shared.rooms.clone())),
        Box::new(visits::Visits),
        Box::new(commands::Commands),
        Box::new(administration::Administration::new(
            shared.borders.clone(),
            shared.action_log.clone(),
            shared.logins.clone(),
            shared.process.clone(),
        )),
        Box::new(events::EventsModule::new(shared.events.clone())),
        Box::new(rookery_operations::announce::Announce::new(shared.motds.clone())),
        Box::new(rookery_pubsub::PubsubModule),
        Box::new(rookery_pubsub::pep::PersonalEventing),
        Box::new(rookery_pubsub::data::DataService::new(shared.data.clone())),
        Box::new(rookery_pubsub::private::Private),
        Box::new(rookery_pubsub::vcard::Vcard),
        Box::new(directory::UserDirectory),
        Box::new(external_services::ExternalServices),
        Box::new(sic::Sic),
        Box::new(upload::Upload),
        Box::new(bytestreams::Bytestreams::new(shared.relay.clone())),
        Box::new(register::RegisterModule::new(shared.creations.clone())),
    ]
}
