//! Messages of DPM: what is read can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_dpm::sdd::{SddMessage, reply::Reply, request::Request};

fuzz_target!(|bytes: &[u8]| {
    again::<Request>(bytes);
    again::<Reply>(bytes);
});

fn again<M: SddMessage>(bytes: &[u8]) {
    let Ok(message) = M::decode(bytes) else { return };
    let mut written = Vec::new();
    message.encode(&mut written);
    let read = M::decode(&written).expect("what was written can be read");
    let mut twice = Vec::new();
    read.encode(&mut twice);
    assert_eq!(written, twice);
}
