//! `rookery dpm get` and `monitor`: readings on the terminal, by DPM over TCP.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::drf::{DrfEvent, Request};
use crate::history::HistorySource;
use crate::sdd::SddMessage;
use crate::sdd::reply::Reply;
use crate::sdd::request;
use crate::status::Status;
use crate::time::Utc;

/// The condition that ends the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Each request has been answered once.
    Answered,
    /// After this many readings; never if there is no number.
    Readings(Option<usize>),
}

/// Reads requests from the DPM at an address and writes each reading as a line, single ones in the
/// order of the requests. Returns true if none of them was an error.
///
/// # Errors
/// The error of the system; `InvalidInput` for a request that can't be read, `InvalidData` if the
/// server is no DPM, `TimedOut` if it is silent for too long.
pub fn ask(address: SocketAddr, requests: &[String], until: Until, out: &mut impl Write) -> io::Result<bool> {
    let requests = requests.iter().map(|request| with_default_event(request, until)).collect::<io::Result<Vec<_>>>()?;
    let (mut stream, list_id) = connect(address)?;
    for (ref_id, request) in (1..).zip(&requests) {
        let drf_request = request.clone();
        send(&mut stream, request::AddToList { list_id, ref_id, drf_request }.into())?;
    }
    send(&mut stream, request::StartList { list_id, model: None }.into())?;
    let (mut units, mut waiting) = (BTreeMap::new(), requests.len());
    let (mut readings, mut is_well, begun) = (0, true, Instant::now());
    let mut answered: Vec<Option<String>> = vec![None; requests.len()];
    let mut pieces: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    while match until {
        Until::Answered => waiting > 0,
        Until::Readings(most) => most.is_none_or(|most| readings < most),
    } {
        let reply = next(&mut stream)?;
        if let Reply::DeviceInfo(info) = &reply {
            units.insert(info.ref_id, info.units.clone().unwrap_or_default());
            continue;
        }
        let Some((ref_id, timestamp, text)) = line(&reply) else {
            // Heartbeats arrive even if there are no readings.
            if until == Until::Answered && begun.elapsed() > PATIENCE {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the DPM didn't answer in time"));
            }
            continue;
        };
        let place = usize::try_from(ref_id - 1).ok();
        let Some((request, answered)) = place.and_then(|place| Some((requests.get(place)?, answered.get_mut(place)?)))
        else {
            continue;
        };
        if let (Until::Answered, Reply::TimedScalarArray(piece)) = (until, &reply)
            && is_recording(request.split_once("<-").map(|(_, source)| source))
            && !piece.data.is_empty()
        {
            // The last piece of a recording is empty.
            pieces.entry(ref_id).or_default().push(text);
            continue;
        }
        let text = match (&reply, pieces.remove(&ref_id)) {
            (Reply::TimedScalarArray(_), Some(pieces)) => pieces.join(" "),
            _ => text,
        };
        let has_units =
            matches!(reply, Reply::Scalar(_) | Reply::ScalarArray(_) | Reply::TimedScalarArray(_)) && !text.is_empty();
        let units = units.get(&ref_id).filter(|units| has_units && !units.is_empty());
        let units = units.map(|units| format!(" {units}")).unwrap_or_default();
        match until {
            Until::Answered if answered.is_some() => continue,
            Until::Answered => *answered = Some(format!("{request} {text}{units}")),
            Until::Readings(_) => {
                writeln!(out, "{} {request} {text}{units}", Utc(timestamp))?;
                out.flush()?;
            }
        }
        waiting = waiting.saturating_sub(1);
        readings += 1;
        is_well &= !matches!(reply, Reply::Status(_));
    }
    answered.iter().flatten().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(is_well)
}

/// Connects to a DPM. Returns the connection with the number of its list.
pub(super) fn connect(address: SocketAddr) -> io::Result<(TcpStream, i32)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(GREETING)?;
    match next(&mut stream)? {
        Reply::OpenList(opened) => Ok((stream, opened.list_id)),
        _ => Err(stranger()),
    }
}

/// Returns a request; one without an event gets the default: now, or once a second.
pub(super) fn with_default_event(request: &str, until: Until) -> io::Result<String> {
    let wrong = |status| io::Error::new(io::ErrorKind::InvalidInput, format!("{request}: {status}"));
    let parsed = Request::parse(request).map_err(|error| wrong(error.status()))?;
    let is_recorded = is_recording(parsed.model.as_deref());
    let event = match (parsed.event, until) {
        // Without an event, history is that of the most frequent recording.
        (DrfEvent::Default, _) if is_recorded => "",
        (DrfEvent::Default, Until::Answered) => "@I",
        (DrfEvent::Default, Until::Readings(_)) => "@P,1000",
        _ => "",
    };
    // The event is in front of the source.
    let place = request.find("<-").unwrap_or(request.len());
    let (device, source) = request.split_at(place);
    Ok(format!("{device}{event}{source}"))
}

/// Returns whether the source of a request is a recording, whose readings come in several pieces.
fn is_recording(source: Option<&str>) -> bool {
    source.and_then(|source| HistorySource::parse(source).ok()).is_some_and(|source| source.selection(0).is_some())
}

/// Returns the number of a reading's request, its time, and its value as text.
fn line(reply: &Reply) -> Option<(i64, i64, String)> {
    let join = |texts: Vec<String>| texts.join(" ");
    Some(match reply {
        Reply::Status(reply) => (reply.ref_id, reply.timestamp, Status(reply.status).to_string()),
        Reply::Scalar(reply) => (reply.ref_id, reply.timestamp, number(reply.data)),
        Reply::ScalarArray(reply) => {
            (reply.ref_id, reply.timestamp, join(reply.data.iter().copied().map(number).collect()))
        }
        Reply::TimedScalarArray(reply) => {
            (reply.ref_id, reply.timestamp, join(reply.data.iter().copied().map(number).collect()))
        }
        Reply::Raw(reply) => {
            (reply.ref_id, reply.timestamp, reply.data.0.iter().map(|byte| format!("{byte:02x}")).collect())
        }
        Reply::Text(reply) => (reply.ref_id, reply.timestamp, reply.data.clone()),
        Reply::TextArray(reply) => (reply.ref_id, reply.timestamp, reply.data.join(", ")),
        Reply::AnalogAlarm(alarm) => {
            let (from, to) = (number(alarm.minimum), number(alarm.maximum));
            let words = format!("from {from} to {to}{}", state(alarm.alarm_enable, alarm.alarm_status));
            (alarm.ref_id, alarm.timestamp, words)
        }
        Reply::DigitalAlarm(alarm) => {
            let words = format!(
                "nominal {:#x} mask {:#x}{}",
                alarm.nominal,
                alarm.mask,
                state(alarm.alarm_enable, alarm.alarm_status)
            );
            (alarm.ref_id, alarm.timestamp, words)
        }
        Reply::BasicStatus(status) => {
            let all = [
                ("on", status.on),
                ("ready", status.ready),
                ("remote", status.remote),
                ("positive", status.positive),
                ("ramp", status.ramp),
            ];
            let told = all
                .iter()
                .filter_map(|(name, truth)| Some(if (*truth)? { (*name).to_owned() } else { format!("not {name}") }));
            (status.ref_id, status.timestamp, told.collect::<Vec<_>>().join(", "))
        }
        _ => return None,
    })
}

/// Writes a number for people. If it is a 32-bit float, this is the shortest decimal number for
/// that float, otherwise the shortest one that is equal up to rounding errors of arithmetic. Tiny
/// and huge numbers get an exponent.
fn number(value: f64) -> String {
    let shortest = |text: String| text.parse().unwrap_or(value);
    let is_float = value.is_finite() && f64::from(value as f32) == value;
    let near = match value {
        value if value.fract() == 0.0 || !value.is_finite() => value,
        _ if is_float => shortest((value as f32).to_string()),
        _ => Some(shortest(format!("{value:.*e}", DIGITS - 1)))
            .filter(|near| (near - value).abs() <= ROUNDING * value.abs())
            .unwrap_or(value),
    };
    let is_plain = near == 0.0 || !near.is_finite() || PLAIN.contains(&near.abs());
    if is_plain { near.to_string() } else { format!("{near:e}") }
}

fn state(is_enabled: bool, is_alarm: bool) -> &'static str {
    match (is_enabled, is_alarm) {
        (false, _) => ", not watched",
        (true, true) => ", in alarm",
        (true, false) => "",
    }
}

/// Sends a request.
pub(super) fn send(stream: &mut TcpStream, request: request::Request) -> io::Result<()> {
    let mut message = Vec::new();
    request.encode(&mut message);
    let length = u32::try_from(message.len()).map_err(|_| stranger())?;
    stream.write_all(&[&length.to_be_bytes()[..], &message].concat())
}

/// Returns the next message.
pub(super) fn next(stream: &mut TcpStream) -> io::Result<Reply> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LARGEST {
        return Err(stranger());
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Reply::decode(&message).map_err(|_| stranger())
}

/// Returns the error for a server that doesn't speak this protocol.
pub(super) fn stranger() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "whatever listens there is not a DPM")
}

pub(super) const GREETING: &[u8] = b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n";
/// The largest accepted message, in bytes.
pub(super) const LARGEST: usize = 1 << 20;
/// A number of digits that is greater than any front-end's raw value has.
const DIGITS: usize = 12;
/// The error of some operations with 64-bit floats, relative to the number.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// The numbers that are written without an exponent.
const PLAIN: std::ops::Range<f64> = 1e-4..1e15;
/// A DPM sends something every two seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_event_is_in_front_of_the_source() {
        for (request, until, expected) in [
            ("M:OUTTMP", Until::Answered, "M:OUTTMP@I"),
            ("M:OUTTMP", Until::Readings(None), "M:OUTTMP@P,1000"),
            ("M:OUTTMP@p,200", Until::Answered, "M:OUTTMP@p,200"),
            ("M:OUTTMP<-LIVEDATA", Until::Answered, "M:OUTTMP@I<-LIVEDATA"),
            ("M:OUTTMP@p,200<-FTP", Until::Readings(None), "M:OUTTMP@p,200<-FTP"),
            ("M:OUTTMP<-LOGGERDURATION:2000", Until::Answered, "M:OUTTMP<-LOGGERDURATION:2000"),
            ("M:OUTTMP<-LOGGER:1:2:DPM06", Until::Answered, "M:OUTTMP<-LOGGER:1:2:DPM06"),
        ] {
            assert_eq!(with_default_event(request, until).expect("a good request"), expected);
        }
    }

    #[test]
    fn numbers_have_the_digits_that_the_device_has() {
        for (value, text) in [
            (0.0, "0"),
            (75.0, "75"),
            (-3.25, "-3.25"),
            (74.746_874_999_999_99, "74.746875"),
            (0.1 + 0.2, "0.3"),
            (f64::from(0.1_f32), "0.1"),
            (f64::from(f32::from_bits(6)), "8e-45"),
            (123_456_792.0, "123456792"),
            (0.000_123, "0.000123"),
            (0.000_012_3, "1.23e-5"),
            (6.02e23, "6.02e23"),
            (std::f64::consts::PI, "3.141592653589793"),
            (1_700_000_000.123_456, "1700000000.123456"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), text, "{value:e}");
        }
    }
}
