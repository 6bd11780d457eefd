//! Changing a part of an alarm block.

use super::{AlarmPart, limit};
use crate::blocks::{ALARM_SIZE, AlarmBlock};
use crate::database::DeviceRecord;
use crate::drf::{Property, PropertyField};
use crate::scaling::Scaling;
use crate::status::Status;

/// Sets a part of a block as its front-end sent it.
pub(super) fn apply(device: &DeviceRecord, part: AlarmPart, bytes: &mut [u8]) -> Result<(), Status> {
    let mut block = AlarmBlock::read(bytes).ok_or(Status::INVLEN)?;
    let number = part.number;
    let is_true = number != 0.0;
    match part.field {
        PropertyField::AlarmEnable => block.set_enabled(is_true),
        PropertyField::AbortInhibit => block.set_abort_inhibited(is_true),
        PropertyField::TriesNeeded => block.tries_needed = whole(number, u8::MAX.into())? as u8,
        field if part.property == Property::Digital => {
            let (nominal, mask) = block.bits();
            let bits = whole(number, u32::MAX)?;
            match field {
                PropertyField::Nom => block.set_bits(bits, mask)?,
                PropertyField::Mask => block.set_bits(nominal, bits)?,
                _ => return Err(Status::NOSET),
            }
        }
        field => {
            let (minimum, maximum) = limits(device, &block, field, number)?;
            block.set_limits(minimum, maximum)?;
            // A percentage of a nominal value is rounded, so the value in the resulting block
            // counts.
            let mut changed: [u8; ALARM_SIZE] = *bytes.first_chunk().ok_or(Status::INVLEN)?;
            block.write(&mut changed);
            limit::block(device, 0, &changed)?;
        }
    }
    let bytes: &mut [u8; ALARM_SIZE] = bytes.first_chunk_mut().ok_or(Status::INVLEN)?;
    block.write(bytes);
    Ok(())
}

/// Returns the raw limits of an analog block with one of them changed.
fn limits(device: &DeviceRecord, block: &AlarmBlock, field: PropertyField, number: f64) -> Result<(f64, f64), Status> {
    let now = block.limits();
    let scaling = || device.reading.as_ref().map(|reading| &reading.scaling).ok_or(Status::NOSCALE);
    let raw = || Ok(f64::from(scaling()?.from_common(number)?));
    Ok(match field {
        PropertyField::Min => (raw()?, now.maximum),
        PropertyField::Max => (now.minimum, raw()?),
        PropertyField::Nom => around(raw()?, now.tolerance),
        PropertyField::Tol => around(now.nominal, distance(scaling()?, now.nominal, number)?),
        PropertyField::RawMin => (number, now.maximum),
        PropertyField::RawMax => (now.minimum, number),
        PropertyField::RawNom => around(number, now.tolerance),
        PropertyField::RawTol => around(now.nominal, number),
        _ => return Err(Status::NOSET),
    })
}

fn around(nominal: f64, tolerance: f64) -> (f64, f64) {
    (nominal - tolerance, nominal + tolerance)
}

/// Returns the raw distance from a nominal value that corresponds to a tolerance in engineering
/// units.
fn distance(scaling: &Scaling, nominal: f64, tolerance: f64) -> Result<f64, Status> {
    let middle = scaling.to_common(&scaling.bytes(nominal as i32)?)?;
    Ok((f64::from(scaling.from_common(middle + tolerance)?) - nominal).abs())
}

fn whole(number: f64, most: u32) -> Result<u32, Status> {
    let fits = number.fract() == 0.0 && (0.0..=f64::from(most)).contains(&number);
    if fits { Ok(number as u32) } else { Err(Status::SCALEFAIL) }
}
