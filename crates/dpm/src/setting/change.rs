//! Changes: from the value that a client wants to the bytes for the front-end.

use super::limit;
use crate::acnet::DeviceItem;
use crate::blocks::{ALARM_SIZE, ControlCommand};
use crate::database::{self, FoundTarget, PropertyPlace, Stored};
use crate::drf::{Property, PropertyField};
use crate::status::Status;

/// The value for a client's setting.
#[derive(Debug, Clone, PartialEq)]
pub enum WantedValue {
    /// Bytes in the front-end's format.
    Raw(Vec<u8>),
    /// Numbers in the units of the request's field.
    Scaled(Vec<f64>),
    /// Texts: names of commands, values of enumerations.
    Text(Vec<String>),
}

/// A change of a property, ready for its front-end or for the block that has to be read first.
#[derive(Debug, Clone, PartialEq)]
pub enum PropertyChange {
    /// The bytes to write, whose number is that of the request.
    Bytes(Vec<u8>),
    /// A part of an alarm block is set.
    Part(AlarmPart),
}

/// A part of an alarm block, and its new value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlarmPart {
    /// The block: analog or digital.
    pub property: Property,
    /// The part of the block.
    pub field: PropertyField,
    /// The number in the units of a reading; 1 or 0 for a flag.
    pub number: f64,
}

/// Converts a setting: returns the number of the node, the item there, and its change.
///
/// Errors: [`NOSET`](Status::NOSET) for properties that cannot be set,
/// [`BAD_LENGTH`](Status::BAD_LENGTH) for more or fewer values than the request names,
/// [`NOSCALE`](Status::NOSCALE) and [`SCALEFAIL`](Status::SCALEFAIL) for values without a meaning
/// for the device, [`RANGE`](Status::RANGE) for values that the device file does not allow.
pub fn change(target: &FoundTarget, value: &WantedValue) -> Result<(usize, DeviceItem, PropertyChange), Status> {
    let device = &*target.device;
    let (property, field) = (target.form.property, target.form.field);
    match (property, &target.stored) {
        (Property::Setting, Stored::FrontEnd(wanted)) => {
            let setting = device.setting.as_ref().ok_or(Status::NOPROP)?;
            let bytes = match value {
                WantedValue::Raw(bytes) => bytes.clone(),
                WantedValue::Scaled(numbers) => of_numbers(setting, field, numbers)?,
                WantedValue::Text(texts) => of_texts(setting, texts)?,
            };
            let bytes = whole(bytes, wanted.length)?;
            if !matches!(value, WantedValue::Scaled(_)) {
                limit::bytes(setting, wanted, &bytes)?;
            }
            Ok((wanted.node, item(wanted), PropertyChange::Bytes(bytes)))
        }
        (Property::Control, _) => {
            let control = device.control.as_ref().ok_or(Status::NOPROP)?;
            let bytes = match value {
                WantedValue::Raw(bytes) => bytes.clone(),
                WantedValue::Scaled(numbers) => {
                    command(ControlCommand::by_number(&control.commands, one(numbers)?)?, &control.place)?
                }
                WantedValue::Text(texts) => {
                    command(ControlCommand::by_text(&control.commands, &one(texts)?)?, &control.place)?
                }
            };
            let place = &control.place;
            let bytes = whole(bytes, place.element)?;
            limit::command(&control.limits, &bytes)?;
            let item = DeviceItem {
                device: device.index,
                property: property.index(),
                ssdn: place.ssdn,
                length: place.element,
                offset: 0,
            };
            Ok((place.node, item, PropertyChange::Bytes(bytes)))
        }
        (Property::Analog | Property::Digital, Stored::FrontEnd(wanted)) => match value {
            WantedValue::Raw(bytes) if matches!(field, PropertyField::Raw | PropertyField::All) => {
                let bytes = whole(bytes.clone(), wanted.length)?;
                if property == Property::Analog {
                    limit::block(device, wanted.offset, &bytes)?;
                }
                Ok((wanted.node, item(wanted), PropertyChange::Bytes(bytes)))
            }
            WantedValue::Scaled(numbers) if is_part(property, field) => {
                let part = AlarmPart { property, field, number: one(numbers)? };
                let block = DeviceItem { length: ALARM_SIZE as u32, ..item(wanted) };
                Ok((wanted.node, block, PropertyChange::Part(part)))
            }
            _ => Err(Status::NOSET),
        },
        _ => Err(Status::NOSET),
    }
}

/// Returns whether this part of a block may be set.
fn is_part(property: Property, field: PropertyField) -> bool {
    use PropertyField::{
        AbortInhibit, AlarmEnable, Mask, Max, Min, Nom, RawMax, RawMin, RawNom, RawTol, Tol, TriesNeeded,
    };
    match field {
        AlarmEnable | AbortInhibit | TriesNeeded => true,
        Min | Max | Nom | Tol | RawMin | RawMax | RawNom | RawTol if property == Property::Analog => true,
        Nom | Mask => property == Property::Digital,
        _ => false,
    }
}

fn of_numbers(setting: &database::DeviceValue, field: PropertyField, numbers: &[f64]) -> Result<Vec<u8>, Status> {
    // An element contains more than its number, in an unknown form: it can only be set as raw
    // bytes.
    if setting.scaling.text().is_some() || setting.scaling.input != setting.place.element as usize {
        return Err(Status::NOSCALE);
    }
    let mut bytes = Vec::with_capacity(numbers.len() * setting.scaling.input);
    for number in numbers {
        bytes.extend(match field {
            PropertyField::Primary => {
                setting.limits.check(setting.scaling.common.scale(*number)?)?;
                setting.scaling.primary_bytes(*number)?
            }
            PropertyField::Scaled => {
                setting.limits.check(*number)?;
                setting.scaling.common_bytes(*number)?
            }
            _ => return Err(Status::NOSCALE),
        });
    }
    Ok(bytes)
}

fn of_texts(setting: &database::DeviceValue, texts: &[String]) -> Result<Vec<u8>, Status> {
    let kind = setting.scaling.text().ok_or(Status::NOSCALE)?;
    let size = setting.place.element as usize;
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend(kind.write(text, size, &setting.names)?);
    }
    Ok(bytes)
}

/// Returns the bytes of a command, as many as its place has.
fn command(command: &ControlCommand, place: &PropertyPlace) -> Result<Vec<u8>, Status> {
    let bytes = command.value.to_le_bytes();
    let size = (place.element as usize).min(bytes.len());
    let (bytes, above) = bytes.split_at(size);
    if above.iter().any(|byte| *byte != 0) {
        return Err(Status::SCALEFAIL);
    }
    let mut bytes = bytes.to_vec();
    bytes.resize(place.element as usize, 0);
    Ok(bytes)
}

fn one<T: Clone>(values: &[T]) -> Result<T, Status> {
    match values {
        [one] => Ok(one.clone()),
        _ => Err(Status::BAD_LENGTH),
    }
}

fn whole(bytes: Vec<u8>, length: u32) -> Result<Vec<u8>, Status> {
    if bytes.len() == length as usize { Ok(bytes) } else { Err(Status::BAD_LENGTH) }
}

fn item(wanted: &database::FrontRequest) -> DeviceItem {
    DeviceItem {
        device: wanted.device,
        property: wanted.property,
        ssdn: wanted.ssdn,
        length: wanted.length,
        offset: wanted.offset,
    }
}
