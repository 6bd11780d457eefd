//! Messages of clients by gRPC: nothing panics, and what was read is no larger than what came.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_dpm::grpc::{daq, protobuf, protocol};

fuzz_target!(|bytes: &[u8]| {
    assert!(protobuf::fields(bytes).count() <= bytes.len());
    if let Ok(Some(requests)) = daq::reading_list(bytes, 1000) {
        assert!(requests.iter().map(String::len).sum::<usize>() <= bytes.len());
    }
    let _ = daq::setting_list(bytes);
    if let Ok(Some(message)) = protocol::message(bytes, true) {
        assert_eq!(protocol::framed(message), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (protocol::timeout(text), rookery_dpm::history::Source::parse(text));
    }
});
