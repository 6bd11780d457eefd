//! Announces in rooms that a device on their list has gone into alarm, or has recovered.
//!
//! An alarm block is read once a second, regardless of the number of rooms, and counts as bad only
//! while the device is monitored. Alarms that exist when the server starts are announced then.

use std::collections::BTreeSet;
use std::sync::Arc;

use rookery_dpm::database::{Database, DeviceRecord};
use rookery_dpm::sdd::reply::Reply;
use rookery_jid::Jid;
use rookery_pubsub::data::say;
use rookery_shard::Door;

use crate::config::Alarms;

/// The alarm blocks that are watched.
pub struct AlarmWatch {
    blocks: Vec<DeviceAlarm>,
    /// The domain from which the announcements are sent.
    domain: String,
}

/// An alarm block of a device.
struct DeviceAlarm {
    device: Arc<DeviceRecord>,
    kind: AlarmKind,
    rooms: Vec<Jid>,
    is_bad: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlarmKind {
    Analog,
    Digital,
}

impl AlarmWatch {
    /// Watches the devices that are announced in rooms, on behalf of a domain.
    pub fn new(alarms: &[Alarms], database: &Database, domain: String) -> AlarmWatch {
        let names: BTreeSet<&String> = alarms.iter().flat_map(|alarms| &alarms.devices).collect();
        let devices = names.into_iter().filter_map(|name| database.by_name(name));
        let blocks = devices.flat_map(|device| {
            let wanting = alarms.iter().filter(|alarms| alarms.devices.contains(&device.name));
            let rooms: BTreeSet<&Jid> = wanting.map(|alarms| &alarms.room).collect();
            let rooms: Vec<Jid> = rooms.into_iter().cloned().collect();
            let kinds = [(AlarmKind::Analog, device.analog.is_some()), (AlarmKind::Digital, device.digital.is_some())];
            let kinds = kinds.into_iter().filter(|(_, has)| *has);
            kinds.map(move |(kind, _)| DeviceAlarm {
                device: device.clone(),
                kind,
                rooms: rooms.clone(),
                is_bad: false,
            })
        });
        AlarmWatch { blocks: blocks.collect(), domain }
    }

    /// Returns the request for each block, in their order.
    pub fn requests(&self) -> impl Iterator<Item = String> {
        self.blocks.iter().map(|block| match block.kind {
            AlarmKind::Analog => format!("{}.ANALOG@Q,1000", block.device.name),
            AlarmKind::Digital => format!("{}.DIGITAL@Q,1000", block.device.name),
        })
    }

    /// Processes a reading of an alarm block, and notifies the rooms if it has changed.
    pub fn take(&mut self, place: usize, reply: &Reply, door: &Door) {
        let Some(block) = self.blocks.get_mut(place) else { return };
        let is_bad = match reply {
            Reply::AnalogAlarm(reply) => reply.alarm_enable && reply.alarm_status,
            Reply::DigitalAlarm(reply) => reply.alarm_enable && reply.alarm_status,
            // The silence of a front-end says nothing about its devices.
            _ => return,
        };
        if std::mem::replace(&mut block.is_bad, is_bad) == is_bad {
            return;
        }
        let text = block.text(reply);
        for room in &block.rooms {
            let (domain, room, text) = (self.domain.clone(), room.clone(), text.clone());
            door.run_at(0, move |world| say(world, &domain, &room, text));
        }
    }
}

impl DeviceAlarm {
    fn text(&self, reply: &Reply) -> String {
        let DeviceRecord { name, description, .. } = &*self.device;
        let about = if description.is_empty() { String::new() } else { format!(" ({description})") };
        let alarm = match self.kind {
            AlarmKind::Analog => self.device.analog.as_ref(),
            AlarmKind::Digital => self.device.digital.as_ref(),
        };
        if !self.is_bad {
            return format!("{name}{about} is good again.");
        }
        let why = alarm.map(|alarm| alarm.text.as_str()).filter(|text| !text.is_empty()).unwrap_or("ALARM");
        let units = self.device.reading.as_ref().map_or("", |reading| &reading.units);
        match reply {
            Reply::AnalogAlarm(block) => {
                format!("{name}{about}: {why} (limits {:.2} to {:.2} {units})", block.minimum, block.maximum)
            }
            _ => format!("{name}{about}: {why}"),
        }
    }
}
