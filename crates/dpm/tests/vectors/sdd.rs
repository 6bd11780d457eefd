//! Messages and their encoding.

use proptest::prelude::*;
use rookery_dpm::sdd::{
    Bytes, FieldKind, RawSetting, ScaledSetting, SddError, SddMessage, SettingStatus, SharedReply, TextSetting, reply,
    request,
};
use serde_json::Value;

use crate::{rows, unhex};

#[test]
fn every_message_is_read_and_written_as_recorded() {
    let mut seen = 0;
    for row in rows(include_str!("sdd.tsv")) {
        let (kind, name, fields, bytes) = (row[0], row[1], row[3], unhex(row[4]));
        match kind {
            "request" => check::<request::Request>(name, fields, &bytes),
            _ => check::<reply::Reply>(name, fields, &bytes),
        }
        seen += 1;
    }
    assert!(seen >= request::Request::TABLE.len() + reply::Reply::TABLE.len());
}

fn check<M: SddMessage + std::fmt::Debug + PartialEq>(name: &str, fields: &str, bytes: &[u8]) {
    let message = M::decode(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut written = Vec::new();
    message.encode(&mut written);
    assert_eq!(written, bytes, "{name}");
    let fields: Value = serde_json::from_str(fields).expect("JSON");
    let shown = format!("{message:?}").to_lowercase();
    for value in fields.as_object().expect("fields").values().filter(|value| value.is_i64() || value.is_f64()) {
        let value = value
            .as_i64()
            .map_or_else(|| format!("{:?}", value.as_f64().expect("a number")), |value| value.to_string());
        assert!(shown.contains(&value), "{name} has no {value}: {shown}");
    }
    // A zero that ACNET pads with doesn't belong to the message; any other byte is an error.
    let padded = |byte| M::decode(&[bytes, &[byte]].concat());
    assert_eq!(padded(0).as_ref(), Ok(&message), "{name}");
    assert_eq!(padded(1), Err(SddError::Trailing), "{name}");
    for length in 0..bytes.len() {
        assert!(M::decode(&bytes[..length]).is_err(), "{name} cut at {length}");
    }
}

#[test]
fn fields_come_in_any_order_and_once() {
    let forward = unhex("53444402510314b13a703a12f121510412e82012012c121eab12012c");
    let backward = unhex("53444402510314b13a703a12f1215104121eab12012c12e82012012c");
    assert_eq!(request::Request::decode(&forward), request::Request::decode(&backward));
    assert!(request::Request::decode(&forward).is_ok());
    let twice = unhex("53444402510314b13a703a12f121510412e82012012c12e82012012c");
    assert_eq!(request::Request::decode(&twice), Err(SddError::Field(0xe820)));
    let missing = unhex("53444402510314b13a703a12f121510212e82012012c");
    assert_eq!(request::Request::decode(&missing), Err(SddError::Missing("ref_id")));
}

#[test]
fn numbers_may_be_longer_than_needed_but_not_than_their_field() {
    let with_list =
        |list: &str| request::Request::decode(&unhex(&format!("53444402510314b13a703a1253a9510212e820{list}")));
    let stop = |list_id| Ok(request::StopList { list_id }.into());
    assert_eq!(with_list("110a"), stop(10));
    assert_eq!(with_list("18000000000000000a"), stop(10));
    assert_eq!(with_list("18ffffffffffffffff"), stop(-1));
    assert_eq!(with_list("150100000000"), Err(SddError::Range));
    assert_eq!(with_list("10"), Err(SddError::Tag(0x10)));
    assert_eq!(with_list("19000000000000000000"), Err(SddError::Tag(0x19)));
    assert_eq!(with_list("28000000000000000a"), Err(SddError::Tag(0x28)));
}

#[test]
fn false_lengths_are_refused_before_memory_is_allocated() {
    // A string of 2 GiB, an array of 2^40 items, a negative length.
    for tail in ["6324447fffffff41", "632446010000000000", "632441ff"] {
        let bytes = unhex(&format!("53444402510314b13a703a1161510612e8201101121eab110112{tail}"));
        assert!(request::Request::decode(&bytes).is_err());
    }
    let settings = unhex("53444402510314b13a703a12c6785106125648410012e820110112030155010000000000");
    assert!(request::Request::decode(&settings).is_err());
}

#[test]
fn one_encoding_serves_all_readers() {
    let scalar =
        |ref_id| reply::Scalar { ref_id, timestamp: 1_700_000_000_123, cycle: -1, status: -6639, data: -0.5 }.into();
    let shared = SharedReply::new(&scalar(0)).expect("a reply with a reference number");
    for ref_id in [0, 1, 127, 128, -1, i64::MAX, i64::MIN] {
        let mut expected = Vec::new();
        let message: reply::Reply = scalar(ref_id);
        message.encode(&mut expected);
        let mut spliced = Vec::new();
        shared.write(ref_id, &mut spliced);
        assert_eq!(spliced, expected);
        assert!(spliced.len() <= shared.size());
    }
    assert_eq!(SharedReply::new(&reply::OpenList { list_id: 0 }.into()), None);
}

#[test]
fn the_table_names_every_field_once() {
    let tables = [request::Request::TABLE, reply::Reply::TABLE];
    for (name, _, fields) in tables.into_iter().flatten() {
        let mut ids: Vec<u16> = fields.iter().map(|field| field.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), fields.len(), "{name}");
    }
    let (_, id, fields) = reply::Reply::TABLE.iter().find(|row| row.0 == "Scalar").expect("a row");
    assert_eq!((*id, fields[4].name, fields[4].kind, fields[4].optional), (0xd6ab, "data", FieldKind::Double, false));
}

fn reading() -> impl Strategy<Value = reply::Reply> {
    let text = || "[ -~ä]{0,300}";
    let head = (any::<i64>(), any::<i64>(), any::<i64>(), any::<i16>());
    let scalar = (head, any::<f64>()).prop_map(|((ref_id, timestamp, cycle, status), data)| {
        reply::Scalar { ref_id, timestamp, cycle, status, data: if data.is_nan() { 0.0 } else { data } }.into()
    });
    let array = prop::collection::vec((-1e9..1e9f64, any::<i64>()), 0..300).prop_map(|points| {
        let (data, micros) = points.into_iter().unzip();
        reply::TimedScalarArray { data, micros, ..Default::default() }.into()
    });
    let texts =
        prop::collection::vec(text(), 0..5).prop_map(|data| reply::TextArray { data, ..Default::default() }.into());
    let statuses = prop::collection::vec((any::<i64>(), any::<i16>()), 0..5).prop_map(|all| {
        let status = all.into_iter().map(|(ref_id, status)| SettingStatus { ref_id, status }).collect();
        reply::ApplySettings { status }.into()
    });
    let basic = prop::array::uniform5(any::<Option<bool>>()).prop_map(|[on, ready, remote, positive, ramp]| {
        reply::BasicStatus { on, ready, remote, positive, ramp, ..Default::default() }.into()
    });
    prop_oneof![scalar, array, texts, statuses, basic]
}

fn settings() -> impl Strategy<Value = request::Request> {
    let raw = prop::collection::vec((any::<i64>(), prop::collection::vec(any::<u8>(), 0..200)), 0..4);
    let scaled = prop::collection::vec((any::<i64>(), prop::collection::vec(-1e300..1e300f64, 0..4)), 0..4);
    let texts = prop::collection::vec((any::<i64>(), prop::collection::vec("[a-zÀ-ÿ]{0,9}", 0..3)), 0..4);
    let all =
        (prop::option::of(raw), prop::option::of(scaled), prop::option::of(texts), "[a-z@.]{0,200}", any::<i32>());
    all.prop_map(|(raw, scaled, texts, user_name, list_id)| {
        request::ApplySettings {
            user_name,
            list_id,
            raw_array: raw
                .map(|all| all.into_iter().map(|(ref_id, data)| RawSetting { ref_id, data: Bytes(data) }).collect()),
            scaled_array: scaled
                .map(|all| all.into_iter().map(|(ref_id, data)| ScaledSetting { ref_id, data }).collect()),
            text_array: texts.map(|all| all.into_iter().map(|(ref_id, data)| TextSetting { ref_id, data }).collect()),
        }
        .into()
    })
}

proptest! {
    #[test]
    fn replies_survive(message in reading()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert_eq!(reply::Reply::decode(&bytes), Ok(message));
    }

    #[test]
    fn settings_survive(message in settings()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        prop_assert_eq!(request::Request::decode(&bytes), Ok(message));
    }

    #[test]
    fn a_changed_byte_is_an_error_or_another_message(message in settings(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = request::Request::decode(&bytes) {
            let mut written = Vec::new();
            read.encode(&mut written);
            prop_assert_eq!(request::Request::decode(&written).map(|again| format!("{again:?}")), Ok(format!("{read:?}")));
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let framed = [&b"SDD\x02\x51\x03\x14\xb1\x3a\x70\x3a\x12"[..], &bytes].concat();
        let _ = (request::Request::decode(&bytes), reply::Reply::decode(&framed), request::Request::decode(&framed));
    }
}
