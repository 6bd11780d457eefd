//! Alarms of devices for clients: `getAllAlarmInfo` and `getAlarmText` of `services.devdb.DevDB`.
//!
//! Both are answered by the device file, which doesn't have the limits: they are in the front-end,
//! where clients read and set them as a property (`M:OUTTMP.ANALOG`). Their fields are 0 here.

use std::collections::HashMap;

use super::generated::services::devdb::{
    AlarmBlock, AlarmInfo, DeviceAlarmText, DeviceAnalogAlarm, DeviceDigitalAlarm,
};
use crate::database::{AlarmProperty, Database, DeviceRecord};
use crate::drf::Property;

/// Returns the alarms of a device, the analog one first.
pub(super) fn infos(device: &DeviceRecord) -> Vec<AlarmInfo> {
    let info = |(property, alarm): (Property, &AlarmProperty)| {
        let (di, alarm_text_id) = (device.index, text_id(device, property, alarm));
        let mut info = AlarmInfo {
            device_name: device.name.clone(),
            alarm_block: Some(AlarmBlock { di, pi: u32::from(property.index()), ..AlarmBlock::default() }),
            ..AlarmInfo::default()
        };
        match property {
            Property::Digital => {
                let digital = DeviceDigitalAlarm { di, alarm_text_id, ..DeviceDigitalAlarm::default() };
                info.device_digital_alarm = Some(digital);
            }
            _ => info.device_analog_alarm = Some(DeviceAnalogAlarm { di, alarm_text_id }),
        }
        info
    };
    alarms(device).map(info).collect()
}

/// Returns the texts with these numbers, in their order; unknown numbers are left out.
pub(super) fn texts(database: &Database, ids: &[u32]) -> Vec<DeviceAlarmText> {
    let mut found: HashMap<u32, Option<&AlarmProperty>, ahash::RandomState> =
        ids.iter().map(|id| (*id, None)).collect();
    for device in database.devices() {
        for (property, alarm) in alarms(device) {
            if let Some(place) = found.get_mut(&text_id(device, property, alarm)) {
                place.get_or_insert(alarm);
            }
        }
    }
    let text = |id: &u32| {
        let alarm = found.get(id).copied().flatten()?;
        Some(DeviceAlarmText {
            alarm_text_id: *id,
            length: u32::try_from(alarm.text.len()).unwrap_or(u32::MAX),
            priority: alarm.priority,
            text: alarm.text.clone(),
            url: alarm.url.clone(),
            ..DeviceAlarmText::default()
        })
    };
    ids.iter().filter_map(text).collect()
}

fn alarms(device: &DeviceRecord) -> impl Iterator<Item = (Property, &AlarmProperty)> {
    let analog = device.analog.as_ref().map(|alarm| (Property::Analog, alarm));
    let digital = device.digital.as_ref().map(|alarm| (Property::Digital, alarm));
    analog.into_iter().chain(digital)
}

/// Returns the number of an alarm's text: the one in the file, or else one made
/// of the device's number and the property.
fn text_id(device: &DeviceRecord, property: Property, alarm: &AlarmProperty) -> u32 {
    alarm.text_id.unwrap_or(device.index << PROPERTY_BITS | u32::from(property.index()))
}

/// The bits of a number that say which alarm of a device it is; the device's number has 24.
const PROPERTY_BITS: u32 = 8;
