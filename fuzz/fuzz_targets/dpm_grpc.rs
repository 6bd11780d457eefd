//! Messages of clients by gRPC: nothing panics, and a message that was read is no larger than its
//! bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use rookery_dpm::grpc::generated::services::daq::SettingList;
use rookery_dpm::grpc::{daq, protocol};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(requests)) = daq::reading_list(bytes, 1000) {
        assert!(requests.iter().map(String::len).sum::<usize>() <= bytes.len());
    }
    if let Ok(list) = SettingList::decode(bytes) {
        assert!(daq::settings(list).len() <= bytes.len());
    }
    if let Ok(Some(message)) = protocol::message(bytes, true) {
        assert_eq!(protocol::frame(message), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (protocol::timeout(text), rookery_dpm::history::HistorySource::parse(text));
    }
});
