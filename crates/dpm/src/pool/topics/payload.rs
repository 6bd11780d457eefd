//! Messages of topics: numbers and texts, plain or in JSON.

use serde_json::{Map, Value};

use super::state::TopicView;
use crate::database::TopicPlace;
use crate::show::Sample;
use crate::status::Status;
use crate::time::Moment;

/// Returns the sample in a message. A message that doesn't match the device file has the status
/// [`INVDATA`](Status::INVDATA).
pub(super) fn sample(view: &TopicView, message: &[u8], now: Moment) -> Sample {
    let bytes = bytes(view, message);
    let status = if bytes.is_some() { Status::SUCCESS } else { Status::INVDATA };
    Sample { status, bytes: bytes.unwrap_or_default().into(), timestamp: now.unix_millis, cycle: 0 }
}

/// Returns the elements of a message as the bytes of a property.
fn bytes(view: &TopicView, message: &[u8]) -> Option<Vec<u8>> {
    let value = match &view.pointer {
        Some(pointer) => serde_json::from_slice::<Value>(message).ok()?.pointer(pointer)?.clone(),
        None if view.is_text() => Value::String(std::str::from_utf8(message).ok()?.to_owned()),
        None => serde_json::from_slice(message)
            .or_else(|_| std::str::from_utf8(message).map(|text| Value::String(text.to_owned())))
            .ok()?,
    };
    let elements = match &value {
        Value::Array(elements) => elements.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut bytes = Vec::new();
    for element in elements.iter().take(view.elements as usize) {
        match view.is_text() {
            true => bytes.extend(text(element)?.bytes().chain(std::iter::repeat(0)).take(view.element as usize)),
            false => bytes.extend_from_slice(&number(element)?.to_le_bytes()),
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// Returns the number in a JSON value, which is a number or the text of one.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::Bool(is_on) => f64::from(u8::from(*is_on)),
        Value::String(text) => {
            let text = text.trim();
            let named = NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, number)| *number);
            named.map_or_else(|| text.parse().ok(), Some)?
        }
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    number.is_finite().then_some(number)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the message that sets a topic to the elements of a property.
pub(super) fn message(place: &TopicPlace, bytes: &[u8], element: usize) -> Vec<u8> {
    let is_text = element != size_of::<f64>();
    let mut elements: Vec<Value> = bytes
        .chunks(element.max(1))
        .map(|bytes| match bytes.first_chunk().filter(|_| !is_text) {
            Some(number) => whole(f64::from_le_bytes(*number)),
            None => {
                let text: Vec<u8> = bytes.iter().copied().take_while(|byte| *byte != 0).collect();
                Value::String(String::from_utf8_lossy(&text).into_owned())
            }
        })
        .collect();
    let value = if elements.len() == 1 { elements.remove(0) } else { Value::Array(elements) };
    match (&place.pointer, value) {
        (None, Value::String(text)) => text.into_bytes(),
        (None, value) => value.to_string().into_bytes(),
        (Some(pointer), value) => within(pointer, value).to_string().into_bytes(),
    }
}

/// Returns a JSON number, without a fraction if it is whole.
fn whole(number: f64) -> Value {
    match number {
        number if number.fract() == 0.0 && number.abs() < LARGEST_WHOLE => Value::from(number as i64),
        number => Value::from(number),
    }
}

/// Returns a value within JSON objects, at the place that a pointer names (RFC 6901 §4).
fn within(pointer: &str, value: Value) -> Value {
    pointer.split('/').skip(1).collect::<Vec<_>>().into_iter().rev().fold(value, |value, key| {
        let key = key.replace("~1", "/").replace("~0", "~");
        Value::Object(Map::from_iter([(key, value)]))
    })
}

/// The texts of switches, with their numbers.
const NAMES: [(&str, f64); 4] = [("ON", 1.0), ("OFF", 0.0), ("TRUE", 1.0), ("FALSE", 0.0)];
/// The number below which whole numbers are exact.
const LARGEST_WHOLE: f64 = (1u64 << 53) as f64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn read(element: u32, elements: u32, pointer: Option<&str>, text: &str) -> Option<Vec<u8>> {
        bytes(&TopicView { pointer: pointer.map(Arc::from), elements, element }, text.as_bytes())
    }

    fn numbers(elements: u32, pointer: Option<&str>, text: &str) -> Option<Vec<f64>> {
        let bytes = read(8, elements, pointer, text)?;
        Some(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }

    #[test]
    fn numbers_are_read_plain_and_in_json() {
        for (pointer, text, expected) in [
            (None, "72.5", &[72.5][..]),
            (None, " -3e2\n", &[-300.0]),
            (None, "\"7\"", &[7.0]),
            (None, "ON", &[1.0]),
            (None, "false", &[0.0]),
            (None, "[1, 2.5, true]", &[1.0, 2.5, 1.0]),
            (None, "[1, 2, 3, 4]", &[1.0, 2.0, 3.0]),
            (Some("/temp"), r#"{"temp": 21.5, "hum": 40}"#, &[21.5]),
            (Some("/a/1/b~1c"), r#"{"a": [0, {"b/c": "9"}]}"#, &[9.0]),
        ] {
            assert_eq!(numbers(3, pointer, text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_numbers_have_no_value() {
        for (pointer, text) in [
            (None, ""),
            (None, "warm"),
            (None, "NaN"),
            (None, "1e999"),
            (None, "null"),
            (None, "[]"),
            (None, "{\"temp\": 1}"),
            (None, "[1, [2]]"),
            (Some("/temp"), "21.5"),
            (Some("/temp"), "{\"hum\": 1}"),
            (Some("/temp"), "{\"temp\": "),
        ] {
            assert_eq!(numbers(3, pointer, text), None, "{text}");
        }
        assert_eq!(bytes(&TopicView { pointer: None, elements: 1, element: 8 }, b"\xff\xfe"), None);
        let deep = "[".repeat(100_000);
        assert_eq!(numbers(1, None, &deep), None);
    }

    #[test]
    fn texts_fill_their_elements() {
        assert_eq!(read(6, 1, None, "open").as_deref(), Some(&b"open\0\0"[..]));
        assert_eq!(read(3, 1, None, "open").as_deref(), Some(&b"ope"[..]));
        assert_eq!(read(3, 2, Some("/m"), r#"{"m": ["a", 5]}"#).as_deref(), Some(&b"a\0\x005\0\0"[..]));
    }

    #[test]
    fn settings_are_written_as_they_are_read() {
        let place = |pointer: Option<&str>| TopicPlace {
            name: "t".into(),
            pointer: pointer.map(Arc::from),
            is_retained: false,
        };
        let written =
            |pointer, bytes: &[u8], element| String::from_utf8(message(&place(pointer), bytes, element)).expect("text");
        let two = [5.0f64, 2.5].map(f64::to_le_bytes).concat();
        assert_eq!(written(None, &two[..8], 8), "5");
        assert_eq!(written(None, &two[8..], 8), "2.5");
        assert_eq!(written(None, &two, 8), "[5,2.5]");
        assert_eq!(written(Some("/set/a~1b"), &two[..8], 8), r#"{"set":{"a/b":5}}"#);
        assert_eq!(written(None, b"open\0\0", 6), "open");
        assert_eq!(written(Some("/state"), b"open\0\0", 6), r#"{"state":"open"}"#);
    }
}
