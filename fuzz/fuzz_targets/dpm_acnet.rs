//! Datagrams of front-ends and what they carry: nothing panics, and a packet that was read reads
//! the same once it is written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_dpm::acnet::{ftpman, gets32, packet, retdat, split};

fuzz_target!(|bytes: &[u8]| {
    for packet in packet::packets(bytes) {
        let mut again = Vec::new();
        packet.header.write(packet.body, &mut again);
        let read = packet::packets(&again).next().expect("a packet");
        assert_eq!((read.header, read.body), (packet.header, packet.body));
        let _ = split(packet.body, [1, 2, 20].into_iter());
    }
    if let Some(request) = retdat::RetdatRequest::decode(bytes) {
        assert_eq!(retdat::RetdatRequest::decode(&request.encode()), Some(request));
    }
    if let Some(request) = gets32::Gets32Request::decode(bytes) {
        assert_eq!(gets32::Gets32Request::decode(&request.encode()), Some(request));
    }
    if let Ok(reply) = ftpman::Reply::decode(bytes, true) {
        assert_eq!(ftpman::Reply::decode(&reply.encode(true), true), Ok(reply));
    }
    if let Ok(
        request @ (ftpman::PlotRequest::Snapshot(_)
        | ftpman::PlotRequest::Retrieve(_)
        | ftpman::PlotRequest::Control(_)),
    ) = ftpman::PlotRequest::decode(bytes)
    {
        assert_eq!(ftpman::PlotRequest::decode(&request.encode()), Ok(request));
    }
    let _ = (ftpman::PlotRequest::decode(bytes), ftpman::Class::decode(bytes), ftpman::Reply::decode(bytes, false));
    let _ = (retdat::decode_settings(bytes), gets32::ReplyHead::decode(bytes));
});
