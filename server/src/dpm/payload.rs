//! A reading in the form for XMPP clients: `<reading xmlns='urn:rookery:reading:0'/>`, described
//! in `doc/book/operating/devices-chat-settings.md`.

use rookery_base::date::timestamp_ms;
use rookery_base::hex;
use rookery_dpm::sdd::reply::{DeviceInfo, Reply};
use rookery_dpm::status::Status;
use rookery_pubsub::data::Reading;
use rookery_xml::Element;

/// Returns the element for a reply about a device; `None` if the reply has no value to show.
pub fn reading(device: Option<&DeviceInfo>, reply: &Reply) -> Option<Reading> {
    let mut values = Vec::new();
    let (time, status) = match reply {
        Reply::Scalar(reply) => {
            values.push(number(reply.data));
            (reply.timestamp, reply.status)
        }
        Reply::ScalarArray(reply) => {
            values.extend(reply.data.iter().map(|data| number(*data)));
            (reply.timestamp, reply.status)
        }
        Reply::Text(reply) => {
            values.push(text(&reply.data));
            (reply.timestamp, reply.status)
        }
        Reply::TextArray(reply) => {
            values.extend(reply.data.iter().map(|data| text(data)));
            (reply.timestamp, reply.status)
        }
        Reply::Raw(reply) => {
            let digits: String = hex::encode(&reply.data.0);
            values.push(Element::new("raw", NAMESPACE).with_text(digits));
            (reply.timestamp, reply.status)
        }
        Reply::AnalogAlarm(reply) => {
            let block = Element::new("alarm", NAMESPACE).with_attr("kind", "analog");
            let block = block.with_attr("minimum", decimal(reply.minimum)).with_attr("maximum", decimal(reply.maximum));
            let tries = (reply.tries_needed, reply.tries_now);
            let flags = [reply.alarm_enable, reply.alarm_status, reply.abort, reply.abort_inhibit];
            values.push(alarm(block, flags, tries));
            (reply.timestamp, 0)
        }
        Reply::DigitalAlarm(reply) => {
            let block = Element::new("alarm", NAMESPACE).with_attr("kind", "digital");
            let bits = |bits: i32| format!("{:08x}", bits as u32);
            let block = block.with_attr("nominal", bits(reply.nominal)).with_attr("mask", bits(reply.mask));
            let tries = (reply.tries_needed, reply.tries_now);
            let flags = [reply.alarm_enable, reply.alarm_status, reply.abort, reply.abort_inhibit];
            values.push(alarm(block, flags, tries));
            (reply.timestamp, 0)
        }
        Reply::BasicStatus(reply) => {
            let attributes = [
                ("on", reply.on),
                ("ready", reply.ready),
                ("remote", reply.remote),
                ("positive", reply.positive),
                ("ramp", reply.ramp),
            ];
            let known = attributes.into_iter().filter_map(|(name, truth)| Some((name, truth?)));
            values.push(known.fold(Element::new("basic", NAMESPACE), |basic, (name, truth)| {
                basic.with_attr(name, truth.to_string())
            }));
            (reply.timestamp, 0)
        }
        // In a batch of a fast plot, the newest point stands for all: nobody in a chat can follow
        // each of them.
        Reply::TimedScalarArray(reply) => {
            let (data, micros) = (reply.data.last()?, reply.micros.last()?);
            values.push(number(*data));
            (micros / 1000, reply.status)
        }
        Reply::Status(reply) => (reply.timestamp, reply.status),
        _ => return None,
    };
    let unix_ms = u64::try_from(time).unwrap_or_default();
    let mut payload = Element::new("reading", NAMESPACE)
        .with_opt_attr("device", device.map(|device| device.name.as_str()))
        .with_attr("time", timestamp_ms(unix_ms))
        .with_opt_attr("units", device.and_then(|device| device.units.as_deref()).filter(|units| !units.is_empty()));
    let status = Status(status);
    if status != Status::SUCCESS {
        payload.set_attr("facility", status.facility().to_string());
        payload.set_attr("error", status.error().to_string());
        if let Some(name) = status.name() {
            payload.set_attr("status", name);
        }
    }
    values.into_iter().for_each(|value| payload.push_child(value));
    Some(Reading { payload, unix_ms })
}

fn alarm(block: Element, [enabled, bad, abort, inhibit]: [bool; 4], (needed, now): (i32, i32)) -> Element {
    block
        .with_attr("enabled", enabled.to_string())
        .with_attr("bad", bad.to_string())
        .with_attr("abort", abort.to_string())
        .with_attr("abort-inhibit", inhibit.to_string())
        .with_attr("tries-needed", needed.to_string())
        .with_attr("tries-now", now.to_string())
}

fn number(data: f64) -> Element {
    Element::new("number", NAMESPACE).with_text(decimal(data))
}

fn text(data: &str) -> Element {
    // A front-end may send characters that XML can't carry.
    let clean: String = data.chars().filter(|letter| !letter.is_control()).collect();
    Element::new("text", NAMESPACE).with_text(clean)
}

/// Formats a number as an XML Schema double (§3.2.5).
fn decimal(data: f64) -> String {
    match data {
        _ if data.is_nan() => "NaN".into(),
        f64::INFINITY => "INF".into(),
        f64::NEG_INFINITY => "-INF".into(),
        data => data.to_string(),
    }
}

/// The namespace of the payload.
pub const NAMESPACE: &str = "urn:rookery:reading:0";

#[cfg(test)]
mod tests {
    use rookery_dpm::sdd::reply;
    use rookery_xml::Writer;

    use super::*;

    fn show(reply: impl Into<Reply>) -> String {
        let device = DeviceInfo { name: "M:OUTTMP".into(), units: Some("DegF".into()), ..DeviceInfo::default() };
        let reading = reading(Some(&device), &reply.into()).expect("a reading");
        String::from_utf8(Writer::write(&reading.payload).into_bytes()).expect("text")
    }

    #[test]
    fn a_reading_says_what_when_and_of_what() {
        let timestamp = 1_600_000_000_123;
        let scalar = show(reply::Scalar { timestamp, data: 72.5, ..Default::default() });
        assert!(scalar.contains("device='M:OUTTMP' time='2020-09-13T12:26:40.123Z' units='DegF'"), "{scalar}");
        assert!(scalar.contains("<number>72.5</number>") && !scalar.contains("status"), "{scalar}");
        let array = show(reply::ScalarArray { data: vec![1.0, f64::NAN, f64::INFINITY], ..Default::default() });
        assert!(array.contains("<number>1</number><number>NaN</number><number>INF</number>"), "{array}");
        let text = show(reply::Text { data: "a\u{0}<b".into(), ..Default::default() });
        assert!(text.contains("<text>a&lt;b</text>"), "{text}");
        let failed = show(reply::Status { status: Status::UTIME.0, ..Default::default() });
        assert!(failed.contains("facility='1' error='-49'"), "{failed}");
    }
}
