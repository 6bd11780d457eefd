//! Refuses values that the device file does not allow, and floats that aren't numbers, in the bytes
//! that are about to be sent.

use crate::blocks::{ALARM_SIZE, AlarmBlock};
use crate::database::{DeviceRecord, DeviceValue, FrontRequest, PropertyLimits};
use crate::scaling::{self, Scaling};
use crate::status::Status;

/// Checks the bytes of a setting, one element after the other.
///
/// Errors: [`RANGE`](Status::RANGE) for an element that is not allowed,
/// [`SCALEFAIL`](Status::SCALEFAIL) for one that must be a number and isn't,
/// [`BAD_FRAMING`](Status::BAD_FRAMING) for parts of elements, whose result can't be checked.
pub(super) fn bytes(setting: &DeviceValue, wanted: &FrontRequest, bytes: &[u8]) -> Result<(), Status> {
    let element = setting.place.element;
    let is_whole = wanted.offset.is_multiple_of(element) && wanted.length.is_multiple_of(element);
    match is_whole {
        false if setting.limits.is_empty() => return Ok(()),
        false => return Err(Status::BAD_FRAMING),
        true => {}
    }
    for element in bytes.chunks_exact(element as usize) {
        self::element(setting, element)?;
    }
    Ok(())
}

fn element(setting: &DeviceValue, bytes: &[u8]) -> Result<(), Status> {
    let DeviceValue { scaling, limits, .. } = setting;
    if scaling.text().is_some() {
        return match scaling::raw(bytes) {
            Some(number) => limits.check(f64::from(number)),
            None if limits.is_empty() => Ok(()),
            None => Err(Status::RANGE),
        };
    }
    if scaling.to_primary(bytes).is_ok_and(|number| !number.is_finite()) {
        return Err(Status::SCALEFAIL);
    }
    number(scaling, limits, bytes)
}

/// Checks the bytes of one number. The bytes that a limit in the device file converts to are
/// allowed, even if they scale to a little less or more than it.
fn number(scaling: &Scaling, limits: &PropertyLimits, bytes: &[u8]) -> Result<(), Status> {
    if limits.is_empty() {
        return Ok(());
    }
    let is_it = |named: f64| {
        let own = scaling.common_bytes(named);
        own.is_ok_and(|own| bytes.starts_with(&own))
    };
    match limits.check(scaling.to_common(bytes)?) {
        Err(_) if limits.numbers().any(|named| limits.check(named).is_ok() && is_it(named)) => Ok(()),
        checked => checked,
    }
}

/// Checks the bytes of a command.
pub(super) fn command(limits: &PropertyLimits, bytes: &[u8]) -> Result<(), Status> {
    let mut word = [0; 4];
    let (number, above) = bytes.split_at(bytes.len().min(4));
    word[..number.len()].copy_from_slice(number);
    let is_large = above.iter().any(|byte| *byte != 0);
    match is_large && !limits.is_empty() {
        true => Err(Status::RANGE),
        false => limits.check(f64::from(u32::from_le_bytes(word))),
    }
}

/// Checks the limits that result from bytes of an analog alarm block.
pub(super) fn block(device: &DeviceRecord, offset: u32, bytes: &[u8]) -> Result<(), Status> {
    let Some(limits) = device.analog.as_ref().map(|alarm| &alarm.limits).filter(|limits| !limits.is_empty()) else {
        return Ok(());
    };
    if !(offset as usize).is_multiple_of(ALARM_SIZE) || !bytes.len().is_multiple_of(ALARM_SIZE) {
        return Err(Status::BAD_FRAMING);
    }
    let scaling = &device.reading.as_ref().ok_or(Status::NOSCALE)?.scaling;
    for block in bytes.chunks_exact(ALARM_SIZE) {
        let block = AlarmBlock::read(block).ok_or(Status::INVLEN)?;
        let raw = block.limits();
        for raw in [raw.minimum, raw.maximum] {
            number(scaling, limits, &scaling.bytes(raw.round() as i32)?)?;
        }
    }
    Ok(())
}
