//! The messages of `services.daq.DAQ`, and the conversion of readings into them.

use bytes::Bytes;
use prost::encoding::{DecodeContext, decode_key, skip_field, uint32};
use prost::{DecodeError, Message};
use prost_types::Timestamp;

use super::generated::common::{device, status};
use super::generated::services::daq::{self, reading_reply};
use crate::drf::{self, Property, PropertyField};
use crate::sdd::reply::{self, Reply};
use crate::setting::WantedValue;
use crate::status::Status;

/// Returns the requests of a `ReadingList`, `limit` at most.
///
/// The error is for an invalid message; `Ok(None)` means that there are more than `limit`.
pub fn reading_list(message: &[u8], limit: usize) -> Result<Option<Vec<String>>, DecodeError> {
    // An empty request takes two bytes there and twelve times as many here, so requests are counted
    // first.
    let (mut rest, mut count) = (message, 0);
    while !rest.is_empty() {
        let (number, kind) = decode_key(&mut rest)?;
        skip_field(kind, number, &mut rest, DecodeContext::default())?;
        count += usize::from(number == 1);
    }
    if count > limit {
        return Ok(None);
    }
    Ok(Some(daq::ReadingList::decode(message)?.drf))
}

/// A setting in the service's form: the requests that it sets, each with its value. It is empty if
/// it has no value.
pub type SettingParts = Vec<(String, WantedValue)>;

/// Returns the settings of a `SettingList`, in their order. An alarm block is set by its parts; the
/// fields that belong to the front-end are left out.
pub fn settings(list: daq::SettingList) -> Vec<SettingParts> {
    list.setting.into_iter().map(parts).collect()
}

fn parts(setting: daq::Setting) -> SettingParts {
    use device::value::Value as Given;
    let Some(value) = setting.value.and_then(|value| value.value) else { return Vec::new() };
    let value = match value {
        Given::Scalar(number) => WantedValue::Scaled(vec![number]),
        Given::ScalarArr(array) => WantedValue::Scaled(array.value),
        Given::Raw(bytes) => WantedValue::Raw(bytes.to_vec()),
        Given::Text(text) => WantedValue::Text(vec![text]),
        Given::TextArr(array) => WantedValue::Text(array.value),
        Given::AnaAlarm(alarm) => {
            let limits = [(PropertyField::Min, alarm.minimum), (PropertyField::Max, alarm.maximum)];
            let flags = (alarm.alarm_enable, alarm.abort_inhibit);
            return block(&setting.device, Property::Analog, &limits, flags, alarm.tries_needed);
        }
        Given::DigAlarm(alarm) => {
            let limits = [(PropertyField::Nom, f64::from(alarm.nominal)), (PropertyField::Mask, f64::from(alarm.mask))];
            let flags = (alarm.alarm_enable, alarm.abort_inhibit);
            return block(&setting.device, Property::Digital, &limits, flags, alarm.tries_needed);
        }
        // A status is read-only.
        Given::BasicStatus(_) => return Vec::new(),
    };
    vec![(setting.device, value)]
}

/// Returns the parts of an alarm block. An invalid device name stays unchanged, and is refused
/// under that name.
fn block(
    device: &str,
    property: Property,
    limits: &[(PropertyField, f64)],
    (enable, inhibit): (bool, bool),
    tries: u32,
) -> SettingParts {
    let flags = [
        (PropertyField::AlarmEnable, f64::from(u8::from(enable))),
        (PropertyField::AbortInhibit, f64::from(u8::from(inhibit))),
    ];
    let all = limits.iter().chain(&flags).copied().chain([(PropertyField::TriesNeeded, f64::from(tries))]);
    let named = |field| match drf::Request::parse(device) {
        Ok(request) => drf::Request { property, field, ..request }.to_string(),
        Err(_) => device.to_owned(),
    };
    all.map(|(field, number)| (named(field), WantedValue::Scaled(vec![number]))).collect()
}

/// Returns a `SettingReply`: the outcome of each setting.
pub fn setting_reply(statuses: impl Iterator<Item = Status>) -> Vec<u8> {
    daq::SettingReply { status: statuses.map(encoded_status).collect() }.encode_to_vec()
}

/// Appends a `ReadingReply` for the request of a number, as a message of a stream: the compression
/// flag, its length, the number, the outcome.
pub fn put_reading_reply(out: &mut Vec<u8>, index: u32, outcome: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; 5]);
    if index != 0 {
        uint32::encode(1, &index, out);
    }
    out.extend_from_slice(outcome);
    let length = (out.len() - start - 5) as u32;
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

/// Returns the part of a `ReadingReply` that is the same for all readers of a device; `None` if a
/// reply has no meaning in this protocol.
///
/// A final status (`is_last`) is sent in place of readings; other statuses are sent as readings
/// without a value, because a status in place of readings means that no more will come.
pub fn outcome(reply: &Reply, is_last: bool) -> Option<Vec<u8>> {
    use device::value::{AnalogAlarm, BasicStatus, DigitalAlarm, ScalarArray, TextArray, Value};
    let one = |timestamp: i64, status: i16, value: Value| {
        Some(readings(vec![reading(timestamp.saturating_mul(1000), Some(value), Status(status))]))
    };
    match reply {
        Reply::Status(reply) if is_last => {
            Some(encode(reading_reply::Value::Status(encoded_status(Status(reply.status)))))
        }
        Reply::Status(reply) => {
            Some(readings(vec![reading(reply.timestamp.saturating_mul(1000), None, Status(reply.status))]))
        }
        Reply::Scalar(reply) => one(reply.timestamp, reply.status, Value::Scalar(reply.data)),
        Reply::ScalarArray(reply) => {
            one(reply.timestamp, reply.status, Value::ScalarArr(ScalarArray { value: reply.data.clone() }))
        }
        Reply::Raw(reply) => one(reply.timestamp, reply.status, Value::Raw(Bytes::copy_from_slice(&reply.data.0))),
        Reply::Text(reply) => one(reply.timestamp, reply.status, Value::Text(reply.data.clone())),
        Reply::TextArray(reply) => {
            one(reply.timestamp, reply.status, Value::TextArr(TextArray { value: reply.data.clone() }))
        }
        Reply::AnalogAlarm(alarm) => {
            let told = AnalogAlarm {
                minimum: alarm.minimum,
                maximum: alarm.maximum,
                alarm_enable: alarm.alarm_enable,
                alarm_status: alarm.alarm_status,
                abort: alarm.abort,
                abort_inhibit: alarm.abort_inhibit,
                tries_needed: alarm.tries_needed.max(0) as u32,
                tries_now: alarm.tries_now.max(0) as u32,
            };
            one(alarm.timestamp, 0, Value::AnaAlarm(told))
        }
        Reply::DigitalAlarm(alarm) => {
            let told = DigitalAlarm {
                nominal: alarm.nominal,
                mask: alarm.mask as u32,
                alarm_enable: alarm.alarm_enable,
                alarm_status: alarm.alarm_status,
                abort: alarm.abort,
                abort_inhibit: alarm.abort_inhibit,
                tries_needed: alarm.tries_needed.max(0) as u32,
                tries_now: alarm.tries_now.max(0) as u32,
            };
            one(alarm.timestamp, 0, Value::DigAlarm(told))
        }
        Reply::BasicStatus(status) => {
            one(status.timestamp, 0, Value::BasicStatus(BasicStatus { value: attributes(status) }))
        }
        Reply::TimedScalarArray(plot) => {
            let points = plot.data.iter().zip(&plot.micros);
            let points = points.map(|(data, micros)| reading(*micros, Some(Value::Scalar(*data)), Status(plot.status)));
            Some(readings(points.collect()))
        }
        _ => None,
    }
}

/// Returns the outcome with an array and a time in microseconds; if the array is empty, an empty
/// outcome, which ends a history.
pub fn recorded_array(micros: i64, data: &[f64]) -> Vec<u8> {
    use device::value::{ScalarArray, Value};
    let value = Value::ScalarArr(ScalarArray { value: data.to_vec() });
    let one = (!data.is_empty()).then(|| reading(micros, Some(value), Status::SUCCESS));
    readings(one.into_iter().collect())
}

fn readings(reading: Vec<daq::Reading>) -> Vec<u8> {
    encode(reading_reply::Value::Readings(daq::Readings { reading }))
}

/// Returns a `ReadingReply` without its number.
fn encode(value: reading_reply::Value) -> Vec<u8> {
    daq::ReadingReply { index: 0, value: Some(value) }.encode_to_vec()
}

/// Returns a `Reading`: its time in microseconds since 1970, its value, its status.
fn reading(micros: i64, value: Option<device::value::Value>, status: Status) -> daq::Reading {
    daq::Reading {
        timestamp: Some(Timestamp {
            seconds: micros.div_euclid(1_000_000),
            nanos: (micros.rem_euclid(1_000_000) * 1000) as i32,
        }),
        data: value.map(|value| device::Value { value: Some(value) }),
        status: Some(encoded_status(status)),
    }
}

fn encoded_status(status: Status) -> status::Status {
    if status == Status::SUCCESS {
        return status::Status::default();
    }
    status::Status {
        facility_code: i32::from(status.facility()),
        status_code: i32::from(status.error()),
        message: status.name().unwrap_or_default().to_owned(),
    }
}

/// Returns the attributes that are defined, each `True` or `False`.
fn attributes(status: &reply::BasicStatus) -> std::collections::BTreeMap<String, String> {
    let attributes = [
        ("on", status.on),
        ("ready", status.ready),
        ("remote", status.remote),
        ("positive", status.positive),
        ("ramp", status.ramp),
    ];
    let told =
        |(name, truth): (&str, Option<bool>)| Some((name.to_owned(), if truth? { "True" } else { "False" }.to_owned()));
    attributes.into_iter().filter_map(told).collect()
}
