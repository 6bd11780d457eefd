//! The counts of rooms, for metrics.

use rookery_hub::ModuleGauge;

use super::actor::Actors;

/// Rooms and their occupants.
pub(super) const GAUGES: [ModuleGauge; 2] = [
    ModuleGauge {
        name: "rookery_rooms",
        help: "Rooms in memory: those with occupants, and some that were used recently.",
        read: |world| world.state::<Actors>().count(|_| 1),
    },
    ModuleGauge {
        name: "rookery_room_occupants",
        help: "Occupants of rooms; one may have several sessions.",
        read: |world| world.state::<Actors>().count(|room| room.occupants.len()),
    },
];
