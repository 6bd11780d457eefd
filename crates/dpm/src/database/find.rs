//! Translates a request into the bytes to read and the form to show them in.

use std::sync::Arc;

use super::{Database, DeviceRecord, DeviceValue, PropertyPlace};
use crate::drf::{self, DrfEvent, Property, PropertyField, Range, Request};
use crate::sdd::reply;
use crate::status::Status;

/// A request in terms of the database.
#[derive(Debug, Clone)]
pub struct FoundTarget {
    /// The record of the requested device.
    pub device: Arc<DeviceRecord>,
    /// The source of its value.
    pub stored: Stored,
    /// The form in which its value is shown.
    pub form: ValueForm,
    /// The event; the database's default if the request names none.
    pub event: DrfEvent,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// A front-end, which has to be asked.
    FrontEnd(FrontRequest),
    /// From the database, as a text.
    Text(String),
    /// From the database, as a number.
    Number(f64),
    /// None, since commands can't be read.
    Nothing,
}

/// The part of a request for the front-end. Equal parts become a single request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrontRequest {
    /// The number of its node in [`Database::nodes`].
    pub node: usize,
    /// The device's number.
    pub device: u32,
    /// The property's number.
    pub property: u8,
    /// The address within the front-end.
    pub ssdn: [u8; 8],
    /// The number of bytes.
    pub length: u32,
    /// The offset of the first byte.
    pub offset: u32,
}

/// The form in which a value is shown. Readers of the same value in the same form get the same
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ValueForm {
    /// The property, on which the meaning of the bytes depends.
    pub property: Property,
    /// The requested form.
    pub field: PropertyField,
}

impl Database {
    /// Finds the target of a request.
    ///
    /// Errors are the control system's: no such device or property, a range that splits elements or
    /// exceeds the property, no scaling.
    pub fn find(&self, request: &Request) -> Result<FoundTarget, Status> {
        let device = match &request.device {
            drf::Device::Name(name) => self.by_name(name),
            drf::Device::Index(index) => self.by_number(*index),
        };
        let device = Arc::clone(device.ok_or(Status::NOPROP)?);
        let form = ValueForm { property: request.property, field: request.field };
        let text = |text: &str| if text.is_empty() { Err(Status::NOPROP) } else { Ok(Stored::Text(text.to_owned())) };
        let stored = match request.property {
            Property::Description => text(&device.description)?,
            Property::LongName => text(&device.long_name)?,
            Property::AlarmListName => text(&device.alarm_list)?,
            Property::Index => Stored::Number(f64::from(device.index)),
            Property::Control => {
                device.control.as_ref().ok_or(Status::NOPROP)?;
                Stored::Nothing
            }
            property => {
                let place = device.place(property).ok_or(Status::NOPROP)?;
                device.check(form)?;
                let (offset, length) = extent(place, request.range)?;
                Stored::FrontEnd(FrontRequest {
                    node: place.node,
                    device: device.index,
                    property: property.index(),
                    ssdn: place.ssdn,
                    length,
                    offset,
                })
            }
        };
        let event = match &request.event {
            DrfEvent::Default => {
                device.place(request.property).map_or(DrfEvent::Immediate, |place| place.event.clone())
            }
            event => event.clone(),
        };
        Ok(FoundTarget { device, stored, form, event })
    }
}

impl DeviceRecord {
    /// Returns the place of a property; `None` if the device does not have it.
    pub fn place(&self, property: Property) -> Option<&PropertyPlace> {
        match property {
            Property::Reading | Property::Setting => self.value(property).map(|value| &value.place),
            Property::Status => self.status.as_ref().map(|status| &status.place),
            Property::Control => self.control.as_ref().map(|control| &control.place),
            Property::Analog => self.analog.as_ref().map(|alarm| &alarm.place),
            Property::Digital => self.digital.as_ref().map(|alarm| &alarm.place),
            _ => None,
        }
    }

    /// Returns the places of its properties in front-ends.
    pub fn places(&self) -> impl Iterator<Item = &PropertyPlace> {
        const ALL: [Property; 6] = [
            Property::Reading,
            Property::Setting,
            Property::Status,
            Property::Control,
            Property::Analog,
            Property::Digital,
        ];
        ALL.into_iter().filter_map(|property| self.place(property))
    }

    /// Returns its reading or setting.
    pub fn value(&self, property: Property) -> Option<&DeviceValue> {
        match property {
            Property::Reading => self.reading.as_ref(),
            Property::Setting => self.setting.as_ref(),
            _ => None,
        }
    }

    /// Returns the description of the device that precedes its data, with reference number 0.
    pub fn info(&self, form: ValueForm) -> reply::DeviceInfo {
        let units = self.value(form.property).map(|value| match form.field {
            PropertyField::Primary => value.primary_units.clone(),
            _ => value.units.clone(),
        });
        reply::DeviceInfo {
            ref_id: 0,
            di: self.index as i32,
            name: self.name.clone(),
            description: self.description.clone(),
            units,
            format_hint: None,
        }
    }

    /// Checks that the property can be shown in that form.
    fn check(&self, form: ValueForm) -> Result<(), Status> {
        match (form.property, form.field) {
            (Property::Analog, PropertyField::Raw | PropertyField::Text) => Ok(()),
            // Limits are scaled as readings are.
            (Property::Analog, _) if self.reading.is_none() => Err(Status::NOSCALE),
            _ => Ok(()),
        }
    }
}

/// Returns the offset and length in bytes.
fn extent(place: &PropertyPlace, range: Option<Range>) -> Result<(u32, u32), Status> {
    let element = place.element;
    let rest = |offset: u32| place.size.checked_sub(offset).filter(|rest| *rest > 0).ok_or(Status::OUT_OF_BOUNDS);
    let (offset, length) = match range {
        None => (0, place.default_size),
        Some(Range::All) => (0, place.size),
        Some(Range::Elements(from, to)) => {
            let offset = u32::from(from).checked_mul(element).ok_or(Status::OUT_OF_BOUNDS)?;
            match to {
                None => (offset, rest(offset)?),
                Some(to) => {
                    let count = u32::from(to).saturating_sub(u32::from(from)) + 1;
                    (offset, count.checked_mul(element).ok_or(Status::OUT_OF_BOUNDS)?)
                }
            }
        }
        Some(Range::Bytes(offset, None)) => (offset, rest(offset)?),
        Some(Range::Bytes(offset, Some(length))) => (offset, length),
    };
    if !place.unframed && (offset % element != 0 || length % element != 0) {
        return Err(Status::BAD_FRAMING);
    }
    let fits = offset.checked_add(length).is_some_and(|end| end <= place.size);
    if length == 0 || !fits { Err(Status::OUT_OF_BOUNDS) } else { Ok((offset, length)) }
}
