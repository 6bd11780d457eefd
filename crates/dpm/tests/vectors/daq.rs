//! Messages of `services.daq.DAQ` as they were recorded with pacsys: clients' requests are read,
//! and replies are written, byte for byte.

use prost::Message;
use rookery_dpm::grpc::daq;
use rookery_dpm::grpc::generated::services::daq::reading_reply::Value;
use rookery_dpm::grpc::generated::services::daq::{ReadingReply, SettingList};
use rookery_dpm::sdd::reply::{Reply, Scalar, ScalarArray, Status as StatusReply};
use rookery_dpm::setting;
use rookery_dpm::status::Status;

use crate::unhex;

#[test]
fn requests_are_read() {
    for (hex, expected) in [
        ("0a124d3a4f5554544d502e52454144494e474049", &["M:OUTTMP.READING@I"][..]),
        (
            "0a124d3a4f5554544d502e52454144494e4740490a16423a41525241592e52454144494e475b303a335d40490a125a3a4e4f535543482e52454144494e474049",
            &["M:OUTTMP.READING@I", "B:ARRAY.READING[0:3]@I", "Z:NOSUCH.READING@I"],
        ),
        ("0a0e4d3a4f5554544d5040702c353030", &["M:OUTTMP@p,500"]),
    ] {
        let list = daq::reading_list(&unhex(hex), 10).expect("a message").expect("not too many");
        assert_eq!(list, expected);
    }
    assert_eq!(daq::reading_list(&unhex("0a01780a0178"), 1), Ok(None));
    let set = unhex("0a1f0a125a3a435542455f582e53455454494e47404e1209090000000000001240");
    let settings = daq::settings(SettingList::decode(set.as_slice()).expect("a message"));
    assert_eq!(settings, [[("Z:CUBE_X.SETTING@N".to_owned(), setting::WantedValue::Scaled(vec![4.5]))]]);
}

#[test]
fn replies_are_written() {
    // The recorded bytes, except for the microseconds: times of readings are milliseconds here.
    let scalar = Scalar { timestamp: 1_795_253_448_463, data: 72.5, ..Default::default() };
    let array = ScalarArray { timestamp: 1_795_253_448_465, data: vec![1.0, 2.5, -3.0, 4.0], ..Default::default() };
    for (index, reply, expected) in [
        (0, Reply::from(scalar), "121d121b0a0c08c8c985d80610c0a3e3dc0112090900000000002052401a00"),
        (
            1,
            Reply::from(array),
            "0801123812360a0c08c8c985d80610c0acdddd01\
             122412220a20000000000000f03f000000000000044000000000000008c000000000000010401a00",
        ),
    ] {
        let mut frame = Vec::new();
        daq::put_reading_reply(&mut frame, index, &daq::outcome(&reply, true).expect("it is something to clients"));
        assert_eq!(frame[..5], [0, 0, 0, 0, (frame.len() - 5) as u8]);
        assert_eq!(hex(&frame[5..]), expected, "{index}");
    }
    let status =
        StatusReply { status: Status::from_name("DPM_NO_SUCH_DEVICE").expect("a name").0, ..Default::default() };
    let mut frame = Vec::new();
    daq::put_reading_reply(&mut frame, 2, &daq::outcome(&status.into(), true).expect("it is something to clients"));
    // As recorded except for the text, which is free: "no such device" there, the status' name
    // here.
    let recorded = unhex("08021a1d081110e6ffffffffffffffff011a0e6e6f207375636820646576696365");
    let parts = |bytes: &[u8]| match ReadingReply::decode(bytes).expect("a message").value {
        Some(Value::Status(status)) => (status.facility_code, status.status_code),
        other => panic!("{other:?}"),
    };
    assert_eq!(parts(&frame[5..]), parts(&recorded));
    assert_eq!(hex(&daq::setting_reply([Status::SUCCESS].into_iter())), "1200");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
