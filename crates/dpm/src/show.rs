//! Turns the bytes of a front-end into replies for clients, by property and field.

use crate::blocks::{AlarmBlock, Attribute, Bit};
use crate::database::{DeviceRecord, DeviceValue, ValueForm};
use crate::drf::{Property, PropertyField};
use crate::sdd::{Bytes, reply};
use crate::status::Status;

/// The answer of a front-end for a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The status. If it is fatal, there are no bytes.
    pub status: Status,
    /// The bytes, little endian.
    pub bytes: Box<[u8]>,
    /// The time when it was read, in milliseconds since 1970.
    pub timestamp: i64,
    /// The cycle's time of a GETS32 reply, or 0.
    pub cycle: i64,
}

/// Returns the reply for a sample, with reference number 0; a status if the sample can't be shown.
pub fn reply(device: &DeviceRecord, form: ValueForm, sample: &Sample) -> reply::Reply {
    let shown = if sample.status.is_fatal() { Err(sample.status) } else { show(device, form, sample) };
    shown.unwrap_or_else(|status| self::status(status, sample.timestamp, sample.cycle))
}

/// Returns a reply that is only a status, with reference number 0.
pub fn status(status: Status, timestamp: i64, cycle: i64) -> reply::Reply {
    reply::Status { ref_id: 0, timestamp, cycle, status: status.0 }.into()
}

/// Returns the reply for a text from the database.
pub fn text(data: String, timestamp: i64) -> reply::Reply {
    reply::Text { timestamp, data, ..Default::default() }.into()
}

/// Returns the reply for a number from the database.
pub fn number(data: f64, timestamp: i64) -> reply::Reply {
    reply::Scalar { timestamp, data, ..Default::default() }.into()
}

fn show(device: &DeviceRecord, form: ValueForm, sample: &Sample) -> Result<reply::Reply, Status> {
    if form.field == PropertyField::Raw {
        let data = Bytes(sample.bytes.to_vec());
        let Sample { timestamp, cycle, status, .. } = *sample;
        return Ok(reply::Raw { ref_id: 0, timestamp, cycle, status: status.0, data }.into());
    }
    match form.property {
        Property::Reading | Property::Setting => {
            value(device.value(form.property).ok_or(Status::NOPROP)?, form.field, sample)
        }
        Property::Status => basic_status(device, form.field, sample),
        Property::Analog => analog(device, form.field, sample),
        Property::Digital => digital(device, form.field, sample),
        _ => Err(Status::NOPROP),
    }
}

fn value(value: &DeviceValue, field: PropertyField, sample: &Sample) -> Result<reply::Reply, Status> {
    let size = value.place.element as usize;
    let elements = sample.bytes.chunks_exact(size);
    if sample.bytes.is_empty() || !elements.remainder().is_empty() {
        return Err(Status::BAD_FRAMING);
    }
    if let Some(kind) = value.scaling.text() {
        let texts: Result<Vec<String>, Status> = elements.map(|bytes| kind.read(bytes, &value.names)).collect();
        return Ok(match <[String; 1]>::try_from(texts?) {
            Ok([one]) => text_of(one, sample),
            Err(data) => {
                let Sample { timestamp, cycle, status, .. } = *sample;
                reply::TextArray { ref_id: 0, timestamp, cycle, status: status.0, data }.into()
            }
        });
    }
    let number = |bytes: &[u8]| match field {
        PropertyField::Primary => value.scaling.to_primary(bytes),
        _ => value.scaling.to_common(bytes),
    };
    if sample.bytes.len() == size {
        return Ok(scalar(number(&sample.bytes)?, sample));
    }
    let data = elements.map(number).collect::<Result<Vec<f64>, Status>>()?;
    let Sample { timestamp, cycle, status, .. } = *sample;
    Ok(reply::ScalarArray { ref_id: 0, timestamp, cycle, status: status.0, data }.into())
}

fn basic_status(device: &DeviceRecord, field: PropertyField, sample: &Sample) -> Result<reply::Reply, Status> {
    let property = device.status.as_ref().ok_or(Status::NOPROP)?;
    let bits = &property.bits;
    let mut word = [0; 4];
    for (place, byte) in word.iter_mut().zip(&sample.bytes) {
        *place = *byte;
    }
    let word = u32::from_le_bytes(word);
    let truth = |attribute: Option<Attribute>| attribute.map(|attribute| attribute.of(word));
    let one = |attribute| truth(attribute).map(|truth| flag(truth, sample)).ok_or(Status::NOPROP);
    let Sample { timestamp, cycle, status, .. } = *sample;
    let texts = |data| Ok(reply::TextArray { ref_id: 0, timestamp, cycle, status: status.0, data }.into());
    match field {
        PropertyField::All => Ok(reply::BasicStatus {
            ref_id: 0,
            timestamp,
            cycle,
            on: truth(bits.on),
            ready: truth(bits.ready),
            remote: truth(bits.remote),
            positive: truth(bits.positive),
            ramp: truth(bits.ramp),
        }
        .into()),
        PropertyField::On => one(bits.on),
        PropertyField::Ready => one(bits.ready),
        PropertyField::Remote => one(bits.remote),
        PropertyField::Positive => one(bits.positive),
        PropertyField::Ramp => one(bits.ramp),
        PropertyField::Text => Ok(text_of(bits.text(word), sample)),
        PropertyField::ExtendedText => texts(Bit::names_and_meanings(&property.names, word)),
        PropertyField::BitValue => Ok(scalar(f64::from(word), sample)),
        PropertyField::BitNames => texts(Bit::texts(&property.names, |bit| &bit.name)),
        PropertyField::BitValues => texts(Bit::texts(&property.names, |bit| bit.value(word))),
        _ => Err(Status::NO_SUCH_FIELD),
    }
}

fn analog(device: &DeviceRecord, field: PropertyField, sample: &Sample) -> Result<reply::Reply, Status> {
    let block = AlarmBlock::read(&sample.bytes).ok_or(Status::INVLEN)?;
    let raw = block.limits();
    let number = |number: f64| Ok(scalar(number, sample));
    let scaled = |raw: f64| -> Result<f64, Status> {
        let scaling = &device.reading.as_ref().ok_or(Status::NOSCALE)?.scaling;
        scaling.common.scale(crate::scaling::primary::scale(scaling.primary, scaling.input, raw as i32)?)
    };
    match field {
        PropertyField::All => {
            let Sample { timestamp, cycle, .. } = *sample;
            Ok(reply::AnalogAlarm {
                ref_id: 0,
                timestamp,
                cycle,
                minimum: scaled(raw.minimum)?,
                maximum: scaled(raw.maximum)?,
                alarm_enable: block.is_enabled(),
                alarm_status: block.is_bad(),
                abort: block.aborts(),
                abort_inhibit: block.is_abort_inhibited(),
                tries_needed: i32::from(block.tries_needed),
                tries_now: i32::from(block.tries_now),
            }
            .into())
        }
        PropertyField::Min => number(scaled(raw.minimum)?),
        PropertyField::Max => number(scaled(raw.maximum)?),
        PropertyField::Nom => number(scaled(raw.nominal)?),
        // This is a distance, so constants that are added to every value cancel out.
        PropertyField::Tol => number((scaled(raw.maximum)? - scaled(raw.minimum)?).abs() / 2.0),
        PropertyField::RawMin => number(raw.minimum),
        PropertyField::RawMax => number(raw.maximum),
        PropertyField::RawNom => number(raw.nominal),
        PropertyField::RawTol => number(raw.tolerance),
        field => alarm_field(device.analog.as_ref().map(|alarm| &*alarm.text), field, &block, sample),
    }
}

fn digital(device: &DeviceRecord, field: PropertyField, sample: &Sample) -> Result<reply::Reply, Status> {
    let block = AlarmBlock::read(&sample.bytes).ok_or(Status::INVLEN)?;
    let (nominal, mask) = block.bits();
    match field {
        PropertyField::All => {
            let Sample { timestamp, cycle, .. } = *sample;
            Ok(reply::DigitalAlarm {
                ref_id: 0,
                timestamp,
                cycle,
                nominal: nominal as i32,
                mask: mask as i32,
                alarm_enable: block.is_enabled(),
                alarm_status: block.is_bad(),
                abort: block.aborts(),
                abort_inhibit: block.is_abort_inhibited(),
                tries_needed: i32::from(block.tries_needed),
                tries_now: i32::from(block.tries_now),
            }
            .into())
        }
        PropertyField::Nom => Ok(scalar(f64::from(nominal), sample)),
        PropertyField::Mask => Ok(scalar(f64::from(mask), sample)),
        field => alarm_field(device.digital.as_ref().map(|alarm| &*alarm.text), field, &block, sample),
    }
}

/// Returns the fields that both kinds of alarm block have.
fn alarm_field(
    text: Option<&str>,
    field: PropertyField,
    block: &AlarmBlock,
    sample: &Sample,
) -> Result<reply::Reply, Status> {
    Ok(match field {
        PropertyField::AlarmEnable => flag(block.is_enabled(), sample),
        PropertyField::AlarmStatus => flag(block.is_bad(), sample),
        PropertyField::Abort => flag(block.aborts(), sample),
        PropertyField::AbortInhibit => flag(block.is_abort_inhibited(), sample),
        PropertyField::TriesNeeded => scalar(f64::from(block.tries_needed), sample),
        PropertyField::TriesNow => scalar(f64::from(block.tries_now), sample),
        PropertyField::AlarmFtd => scalar(f64::from(block.ftd), sample),
        PropertyField::Flags => scalar(f64::from(block.flags), sample),
        PropertyField::Text if !block.is_enabled() => text_of("BYPASSED".into(), sample),
        PropertyField::Text if !block.is_bad() => text_of(String::new(), sample),
        PropertyField::Text => text_of(text.unwrap_or_default().into(), sample),
        _ => return Err(Status::NO_SUCH_FIELD),
    })
}

fn scalar(data: f64, sample: &Sample) -> reply::Reply {
    let Sample { timestamp, cycle, status, .. } = *sample;
    reply::Scalar { ref_id: 0, timestamp, cycle, status: status.0, data }.into()
}

fn flag(truth: bool, sample: &Sample) -> reply::Reply {
    scalar(f64::from(u8::from(truth)), sample)
}

fn text_of(data: String, sample: &Sample) -> reply::Reply {
    let Sample { timestamp, cycle, status, .. } = *sample;
    reply::Text { ref_id: 0, timestamp, cycle, status: status.0, data }.into()
}
