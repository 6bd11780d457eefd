//! The messages of `services.daq.DAQ`, and how readings become such.

use super::protobuf::{
    Malformed, Value, fields, put_boolean, put_bytes, put_double, put_doubles, put_integer, put_message, text,
};
use crate::sdd::reply::{self, Reply};
use crate::status::Status;

/// The requests of a `ReadingList`, at most as many as `limit`.
///
/// Errors: no message. `Ok(None)`: there are more than `limit`.
pub fn reading_list(message: &[u8], limit: usize) -> Result<Option<Vec<String>>, Malformed> {
    let mut requests = Vec::new();
    for field in fields(message) {
        if let (1, value) = field? {
            if requests.len() >= limit {
                return Ok(None);
            }
            requests.push(text(value)?.to_owned());
        }
    }
    Ok(Some(requests))
}

/// The devices that a `SettingList` sets, in its order. What they are set to is checked to be a message and not looked at: nothing can be set.
pub fn setting_list(message: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut devices = Vec::new();
    for field in fields(message) {
        let (1, Value::Bytes(setting)) = field? else { continue };
        let mut device = String::new();
        for field in fields(setting) {
            match field? {
                (1, value) => text(value)?.clone_into(&mut device),
                (2, Value::Bytes(value)) => fields(value).try_for_each(|field| field.map(|_| ()))?,
                _ => {}
            }
        }
        devices.push(device);
    }
    Ok(devices)
}

/// A `SettingReply`: what became of each setting.
pub fn setting_reply(statuses: impl Iterator<Item = Status>) -> Vec<u8> {
    let mut message = Vec::new();
    for status in statuses {
        put_message(&mut message, 2, |out| put_status(out, status));
    }
    message
}

/// Appends a `ReadingReply` for the request of a number, as a message of a stream: that it is not compressed, its length, the number, the outcome.
pub fn put_reading_reply(out: &mut Vec<u8>, index: u32, outcome: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; 5]);
    put_integer(out, 1, i64::from(index));
    out.extend_from_slice(outcome);
    let length = (out.len() - start - 5) as u32;
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

/// The part of a `ReadingReply` that is the same for all who read a device. `None` if a reply is nothing to clients of this protocol.
///
/// A status that nothing follows (`is_last`) stands in place of readings; otherwise it is that of a reading without a value, because a status in place
/// of readings promises that nothing more will come.
pub fn outcome(reply: &Reply, is_last: bool) -> Option<Vec<u8>> {
    let one = |timestamp: i64, status: i16, write: Write<'_>| {
        Some(readings(|out| put_reading(out, timestamp.saturating_mul(1000), Some(write), Status(status))))
    };
    match reply {
        Reply::Status(reply) if is_last => {
            let mut message = Vec::new();
            put_message(&mut message, 3, |out| put_status(out, Status(reply.status)));
            Some(message)
        }
        Reply::Status(reply) => Some(readings(|out| {
            put_reading(out, reply.timestamp.saturating_mul(1000), None, Status(reply.status));
        })),
        Reply::Scalar(reply) => one(reply.timestamp, reply.status, &|out| put_double(out, 1, reply.data)),
        Reply::ScalarArray(reply) => one(reply.timestamp, reply.status, &|out| put_array(out, &reply.data)),
        Reply::Raw(reply) => one(reply.timestamp, reply.status, &|out| put_bytes(out, 3, &reply.data.0)),
        Reply::Text(reply) => one(reply.timestamp, reply.status, &|out| put_bytes(out, 4, reply.data.as_bytes())),
        Reply::TextArray(reply) => one(reply.timestamp, reply.status, &|out| {
            put_message(out, 5, |out| reply.data.iter().for_each(|text| put_bytes(out, 1, text.as_bytes())));
        }),
        Reply::AnalogAlarm(alarm) => one(alarm.timestamp, 0, &|out| put_message(out, 6, |out| put_analog(out, alarm))),
        Reply::DigitalAlarm(alarm) => {
            one(alarm.timestamp, 0, &|out| put_message(out, 7, |out| put_digital(out, alarm)))
        }
        Reply::BasicStatus(status) => {
            one(status.timestamp, 0, &|out| put_message(out, 8, |out| put_basic_status(out, status)))
        }
        Reply::TimedScalarArray(plot) => Some(readings(|out| {
            for (data, micros) in plot.data.iter().zip(&plot.micros) {
                put_reading(out, *micros, Some(&|out| put_double(out, 1, *data)), Status(plot.status));
            }
        })),
        _ => None,
    }
}

/// The outcome that is an array with a time in microseconds; nothing at all, which ends a history, if the array is empty.
pub fn recorded_array(micros: i64, data: &[f64]) -> Vec<u8> {
    readings(|out| {
        if !data.is_empty() {
            put_reading(out, micros, Some(&|out| put_array(out, data)), Status::SUCCESS);
        }
    })
}

fn readings(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = Vec::new();
    put_message(&mut message, 2, write);
    message
}

/// What writes a value.
type Write<'a> = &'a dyn Fn(&mut Vec<u8>);

/// A `Reading`: its time in microseconds since 1970, its value, its status.
fn put_reading(out: &mut Vec<u8>, micros: i64, value: Option<Write<'_>>, status: Status) {
    put_message(out, 2, |out| {
        put_message(out, 1, |out| {
            put_integer(out, 1, micros.div_euclid(1_000_000));
            put_integer(out, 2, micros.rem_euclid(1_000_000) * 1000);
        });
        if let Some(write) = value {
            put_message(out, 2, write);
        }
        put_message(out, 3, |out| put_status(out, status));
    });
}

fn put_status(out: &mut Vec<u8>, status: Status) {
    if status == Status::SUCCESS {
        return;
    }
    put_integer(out, 1, i64::from(status.facility()));
    put_integer(out, 2, i64::from(status.error()));
    if let Some(name) = status.name() {
        put_bytes(out, 3, name.as_bytes());
    }
}

fn put_array(out: &mut Vec<u8>, data: &[f64]) {
    put_message(out, 2, |out| put_doubles(out, 1, data));
}

fn put_analog(out: &mut Vec<u8>, alarm: &reply::AnalogAlarm) {
    for (number, limit) in [(1, alarm.minimum), (2, alarm.maximum)] {
        if limit != 0.0 {
            put_double(out, number, limit);
        }
    }
    let flags = [alarm.alarm_enable, alarm.alarm_status, alarm.abort, alarm.abort_inhibit];
    put_alarm(out, flags, alarm.tries_needed, alarm.tries_now);
}

fn put_digital(out: &mut Vec<u8>, alarm: &reply::DigitalAlarm) {
    put_integer(out, 1, i64::from(alarm.nominal));
    put_integer(out, 2, i64::from(alarm.mask as u32));
    let flags = [alarm.alarm_enable, alarm.alarm_status, alarm.abort, alarm.abort_inhibit];
    put_alarm(out, flags, alarm.tries_needed, alarm.tries_now);
}

/// The fields 3 to 8 of both kinds of alarm.
fn put_alarm(out: &mut Vec<u8>, flags: [bool; 4], tries_needed: i32, tries_now: i32) {
    for (number, flag) in (3..).zip(flags) {
        put_boolean(out, number, flag);
    }
    put_integer(out, 7, i64::from(tries_needed.max(0)));
    put_integer(out, 8, i64::from(tries_now.max(0)));
}

/// A map from the names of the attributes that are defined to `True` or `False`.
fn put_basic_status(out: &mut Vec<u8>, status: &reply::BasicStatus) {
    let attributes = [
        ("on", status.on),
        ("ready", status.ready),
        ("remote", status.remote),
        ("positive", status.positive),
        ("ramp", status.ramp),
    ];
    for (name, truth) in attributes {
        let Some(truth) = truth else { continue };
        put_message(out, 1, |out| {
            put_bytes(out, 1, name.as_bytes());
            put_bytes(out, 2, if truth { b"True" } else { b"False" });
        });
    }
}
