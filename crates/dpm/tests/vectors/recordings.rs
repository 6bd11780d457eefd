//! Recorded sessions: every message in them is read, and written again to the same bytes.

use std::fmt::Debug;

use rookery_dpm::acnet::packet;
use rookery_dpm::acnet::{DeviceItem, gets32, retdat, split};
use rookery_dpm::sdd::{SddMessage, reply::Reply, request::Request};

use crate::{rows, unhex};

#[test]
fn sessions_over_tcp() {
    let mut seen = 0;
    for recording in TCP {
        for row in rows(recording) {
            let (bytes, name) = (unhex(row[1]), row[2]);
            if bytes.starts_with(b"GET ") {
                assert_eq!(bytes, b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n");
                continue;
            }
            match row[0] {
                "client" => check::<Request>(name, frame_of(&bytes)),
                _ => check::<Reply>(name, frame_of(&bytes)),
            }
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn sessions_of_acnets_clients() {
    let mut seen = 0;
    for recording in RAW {
        for row in rows(recording) {
            let (bytes, name) = (unhex(row[1]), row[2]);
            if bytes == b"RAW\r\n\r\n" {
                continue;
            }
            let frame = frame_of(&bytes);
            match (frame[1], name) {
                // A request with its time-out: task, node, flags and time precede the message.
                (1, name) if !name.is_empty() => check::<Request>(name, &frame[24..]),
                (3, name) => {
                    let body = repack(&frame[2..]);
                    if !name.is_empty() {
                        check::<Reply>(name, &body);
                    }
                }
                _ => continue,
            }
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn a_session_of_a_task_on_its_node() {
    let mut seen = 0;
    for row in rows(include_str!("recordings/acnetd-udp-local-dpmd.tsv")) {
        let (bytes, name) = (unhex(row[1]), row[2]);
        if name.is_empty() {
            continue;
        }
        match row[0] {
            // A reply: code, handle, node, id, flags and status precede the message.
            "client" => check::<Reply>(name, &bytes[16..]),
            _ => check::<Request>(name, &repack(&bytes)),
        }
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn datagrams_between_nodes() {
    for recording in NETWORK {
        for row in rows(recording) {
            let wire = unhex(row[1]);
            let mut datagram = wire.clone();
            packet::swap(&mut datagram);
            let packets: Vec<_> = packet::packets(&datagram).collect();
            assert!(!packets.is_empty(), "{}", row[1]);
            let mut again = Vec::new();
            packets.iter().for_each(|packet| packet.header.write(packet.body, &mut again));
            packet::swap(&mut again);
            assert_eq!(again, wire);
            for packet in packets.iter().filter(|packet| packet.body.starts_with(b"SDD")) {
                assert!(Request::decode(packet.body).is_ok() || Reply::decode(packet.body).is_ok(), "{}", row[1]);
            }
        }
    }
}

#[test]
fn requests_to_front_ends_and_their_answers() {
    let commands: Vec<Vec<u8>> = rows(include_str!("recordings/acnetd-raw-retdat-gets32.tsv"))
        .map(|row| unhex(row[1]))
        .filter(|bytes| !bytes.starts_with(b"RAW"))
        .map(|bytes| frame_of(&bytes).to_vec())
        .collect();
    let asked: Vec<&[u8]> =
        commands.iter().filter(|frame| frame[..4] == [0, 1, 0, 18]).map(|frame| &frame[24..]).collect();
    let answered: Vec<Vec<u8>> =
        commands.iter().filter(|frame| frame[1] == 3).map(|frame| repack(&frame[2..])).collect();
    let outdoor =
        DeviceItem { device: 27235, property: 12, ssdn: [0, 0, 0x42, 0, 0x3f, 0x21, 0, 0], length: 2, offset: 0 };
    let setting = DeviceItem { property: 13, ssdn: [0; 8], length: 4, ..outdoor };
    for (body, ftd, items) in [(asked[0], 0, vec![outdoor, setting]), (asked[1], 30, vec![outdoor])] {
        let request = retdat::RetdatRequest { ftd, items };
        assert_eq!(retdat::RetdatRequest::decode(body), Some(request.clone()));
        assert_eq!(request.encode(), body);
    }
    for (body, repetitive, ftd, event) in [(asked[2], false, 0, "I"), (asked[3], true, 30, "P,500,true")] {
        let request =
            gets32::Gets32Request { node: 0x0c23, repetitive, ftd, event: event.into(), items: vec![outdoor] };
        assert_eq!(gets32::Gets32Request::decode(body), Some(request.clone()));
        // The priority is the recorded client's own.
        let mut ours = request.encode();
        ours[6] = 1;
        assert_eq!(ours, body);
    }
    let read = split(&answered[0], [2, 4].into_iter()).expect("two readings");
    assert_eq!(read.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [&[0xd8, 0x59][..], &[0xd8, 0x59, 0, 0]]);
    let (head, rest) = gets32::ReplyHead::decode(answered.last().expect("an answer")).expect("a head");
    assert!(head.sequence == 1 && head.collected > head.cycle, "{head:?}");
    assert_eq!(split(rest, [2].into_iter()).expect("a reading")[0].1, [0xd8, 0x59]);
    let mut again = Vec::new();
    head.encode(&mut again);
    assert_eq!([&again, rest].concat(), *answered.last().expect("an answer"));
}

/// Reads a message and writes it again. An odd one may have been padded.
fn check<M: SddMessage + Debug>(name: &str, bytes: &[u8]) {
    let message = M::decode(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(format!("{message:?}").starts_with(name), "{message:?} is no {name}");
    let mut written = Vec::new();
    message.encode(&mut written);
    let padded = [&written[..], &[0]].concat();
    assert!(written == bytes || padded == bytes, "{name}: {written:02x?}");
}

/// Returns the one frame of these bytes, without its length.
fn frame_of(bytes: &[u8]) -> &[u8] {
    let (length, frame) = bytes.split_first_chunk::<4>().expect("a length");
    assert_eq!(u32::from_be_bytes(*length) as usize, frame.len());
    frame
}

/// Reads a packet, writes it again, and returns its body. Some servers in the recordings did not
/// pad odd bodies.
fn repack(bytes: &[u8]) -> Vec<u8> {
    let even = [bytes, &[0][..bytes.len() % 2]].concat();
    let mut fixed = even.clone();
    fixed[16..18].copy_from_slice(&(even.len() as u16).to_le_bytes());
    let packet = packet::packets(&fixed).next().expect("a packet");
    let mut again = Vec::new();
    packet.header.write(packet.body, &mut again);
    assert_eq!(again, fixed);
    packet.body.to_vec()
}

macro_rules! recordings {
    ($($name:literal),* $(,)?) => { &[$(include_str!(concat!("recordings/", $name, ".tsv"))),*] };
}

const TCP: &[&str] = recordings![
    "dpm-tcp-read",
    "dpm-tcp-subscribe",
    "dpm-tcp-get-many",
    "dpm-tcp-heartbeat",
    "dpm-tcp-logger",
    "dpm-tcp-write-kerberos",
    "dpm-tcp-write-many",
    "dpm-tcp-denied-auth",
    "dpm-tcp-denied-mic",
    "dpm-tcp-denied-apply",
];
const RAW: &[&str] = recordings![
    "acnetd-raw-acsys-write",
    "acnetd-raw-real-acsys-read",
    "acnetd-raw-real-acsys-subscribe",
    "acnetd-raw-real-pacsys-read",
];
const NETWORK: &[&str] = recordings!["acnet-udp6801-wire", "acnet-udp6801-odd-and-pend"];
