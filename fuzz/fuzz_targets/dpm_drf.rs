//! Requests of DPM: the canonical form is read as the same request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_dpm::drf::Request;

fuzz_target!(|text: &str| {
    let Ok(request) = Request::parse(text) else { return };
    assert_eq!(Request::parse(&request.to_string()), Ok(request));
});
