//! Requests of DPM and names of nodes and tasks: the canonical form is read as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_dpm::drf::Request;
use rookery_dpm::rad50::Rad50;

fuzz_target!(|text: &str| {
    if let Ok(name) = Rad50::parse(text) {
        assert_eq!(Rad50::parse(&name.to_string()), Ok(name));
    }
    let Ok(request) = Request::parse(text) else { return };
    assert_eq!(Request::parse(&request.to_string()), Ok(request));
});
