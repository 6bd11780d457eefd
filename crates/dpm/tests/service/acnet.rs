//! Packets and front-end requests, byte for byte as they were recorded between real nodes and
//! clients.

use proptest::prelude::*;
use rookery_dpm::acnet::{AcnetHeader, DeviceItem, PacketKind, RequestsById, gets32, packet, retdat, split};
use rookery_dpm::database::Database;
use rookery_dpm::rad50::Rad50;
use rookery_dpm::simulator::Simulator;
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

use crate::DEMO;

#[test]
fn datagrams_are_swapped_and_padded() {
    let recorded = unhex("00030000d10a060a78af8fc000016000001602010003");
    let mut datagram = recorded.clone();
    packet::swap(&mut datagram);
    let packet = packet::packets(&datagram).next().expect("a packet");
    assert_eq!(
        (packet.header.kind, packet.header.server, packet.header.client),
        (PacketKind::MultipleRequest, 0x0ad1, 0x0a06)
    );
    assert_eq!(
        (packet.header.task, packet.header.task_id, packet.header.message),
        (Rad50::parse("SLOW").expect("a name"), 1, 0x6000)
    );
    assert_eq!(packet.body, [1, 2, 3, 0]);
    assert_eq!(packet.header.datagram(&[1, 2, 3]), recorded);
    let mut pend = unhex("00050101d10a060a78af8fc0000160000012");
    packet::swap(&mut pend);
    let pend = packet::packets(&pend).next().expect("a packet").header;
    assert_eq!((pend.kind, pend.status), (PacketKind::ReplyWithMore, Status::PEND));
}

#[test]
fn a_datagram_has_several_packets_and_ends_at_a_broken_one() {
    let header = AcnetHeader {
        kind: PacketKind::Request,
        status: Status::SUCCESS,
        server: 0x0c23,
        client: 0x0ad6,
        task: retdat::TASK,
        task_id: 1,
        message: 0x2001,
    };
    let mut datagram = Vec::new();
    header.write(b"ab", &mut datagram);
    AcnetHeader { message: 0x2002, ..header }.write(b"", &mut datagram);
    let messages: Vec<u16> = packet::packets(&datagram).map(|packet| packet.header.message).collect();
    assert_eq!(messages, [0x2001, 0x2002]);
    datagram.truncate(datagram.len() - 2);
    assert_eq!(packet::packets(&datagram).count(), 1);
    datagram.push(0);
    assert_eq!(packet::packets(&datagram).count(), 0, "odd datagrams are none");
    datagram.pop();
    datagram[16] = 17;
    assert_eq!(packet::packets(&datagram).count(), 0, "a length shorter than the header");
}

#[test]
fn retdat_is_as_recorded() {
    let items = vec![
        DeviceItem { device: 27235, property: 12, ssdn: [0, 0, 0x42, 0, 0x3f, 0x21, 0, 0], length: 2, offset: 0 },
        DeviceItem { device: 27235, property: 13, ssdn: [0; 8], length: 4, offset: 0 },
    ];
    let recorded = unhex("0a0002000000636a000c000042003f21000002000000636a000d000000000000000004000000");
    let request = retdat::RetdatRequest { ftd: 0, items };
    assert_eq!(request.encode(), recorded);
    assert_eq!(retdat::RetdatRequest::decode(&recorded), Some(request));
    let reply = unhex("0000d8590000d8590000");
    let readings = split(&reply, [2, 4].into_iter()).expect("readings");
    assert_eq!(readings, [(Status::SUCCESS, &[0xd8, 0x59][..]), (Status::SUCCESS, &[0xd8, 0x59, 0, 0][..])]);
    assert_eq!(split(&reply, [2, 5].into_iter()), None);
}

#[test]
fn gets32_is_as_recorded() {
    // The recorded client sets the priority to 1 where the control system sends 0.
    let recorded =
        unhex("0101000c23000001260000000100 1e000a00502c3530302c74727565636a000c000042003f2100000200000000000000");
    let item =
        DeviceItem { device: 27235, property: 12, ssdn: [0, 0, 0x42, 0, 0x3f, 0x21, 0, 0], length: 2, offset: 0 };
    let request = gets32::Gets32Request {
        node: 0x0c23,
        repetitive: true,
        ftd: 30,
        event: "P,500,true".into(),
        items: vec![item],
    };
    assert_eq!(request.encode(), recorded);
    assert_eq!(gets32::Gets32Request::decode(&recorded), Some(request));
    let reply = unhex("000001010000010000009e8072fda1010000928272fda1010000928272fda10100000000d859");
    let (head, rest) = gets32::ReplyHead::decode(&reply).expect("a head");
    assert_eq!(
        (head.status, head.sequence, head.cycle, head.collected),
        (Status::SUCCESS, 1, 0x01a1_fd72_809e, 0x01a1_fd72_8292)
    );
    assert_eq!(split(rest, [2].into_iter()), Some(vec![(Status::SUCCESS, &[0xd8, 0x59][..])]));
    let mut written = Vec::new();
    head.encode(&mut written);
    assert_eq!(written, reply[..34]);
}

#[test]
fn false_lengths_take_no_memory() {
    // Two devices of 4 GiB each, requested from a simulated front-end, whose answer can't have that
    // size.
    let item = DeviceItem { device: 27235, property: 12, ssdn: [0; 8], length: u32::MAX, offset: u32::MAX };
    let request =
        gets32::Gets32Request { node: 0x0c23, repetitive: false, ftd: 0, event: "i".into(), items: vec![item, item] };
    let body = request.encode();
    assert_eq!(gets32::Gets32Request::decode(&body), Some(request));
    let mut simulator = Simulator::new(Database::read(DEMO).expect("a good file"));
    let header = AcnetHeader {
        kind: PacketKind::Request,
        status: Status::SUCCESS,
        server: 0x0c23,
        client: 0x0ad6,
        task: gets32::TASK,
        task_id: 1,
        message: 0x2001,
    };
    let from = "127.0.0.1:5000".parse().expect("an address");
    simulator.datagram(from, &mut header.datagram(&body), Moment { millis: 0, unix_millis: 0 });
    let [(_, answer)] = &mut simulator.flush().collect::<Vec<_>>()[..] else { panic!("one answer") };
    packet::swap(answer);
    let answer = packet::packets(answer).next().expect("a packet");
    assert_eq!((answer.header.status, answer.body.len()), (Status::TRUNC_REPLY, 0));
}

#[test]
fn ids_find_their_request_and_no_other() {
    let mut requests = RequestsById::default();
    let first = requests.open("first").expect("an id");
    let second = requests.open("second").expect("an id");
    assert_eq!((requests.get(first), requests.get(second), requests.len()), (Some(&"first"), Some(&"second"), 2));
    assert!(first & 0x2000 != 0 && first != second);
    assert_eq!(requests.close(first), Some("first"));
    assert_eq!(requests.get(first), None);
    assert_eq!(requests.close(first), None);
    // All places, then the freed one again with another id.
    while requests.len() < 8192 {
        let id = requests.open("more").expect("an id");
        assert_ne!(id, first);
    }
    assert_eq!(requests.open("too many"), None);
}

proptest! {
    #[test]
    fn invalid_bodies_are_refused_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (retdat::RetdatRequest::decode(&bytes), retdat::decode_settings(&bytes), gets32::Gets32Request::decode(&bytes));
        let _ = (gets32::ReplyHead::decode(&bytes), split(&bytes, [3, 70_000, u32::MAX].into_iter()));
        for packet in packet::packets(&bytes) {
            let mut again = Vec::new();
            packet.header.write(packet.body, &mut again);
            let read = packet::packets(&again).next();
            prop_assert_eq!(read.map(|read| (read.header, read.body)), Some((packet.header, packet.body)));
        }
    }

    #[test]
    fn settings_survive(all in prop::collection::vec((0u32..0xff_ffff, any::<u8>(), prop::collection::vec(any::<u8>(), 0..9)), 0..5)) {
        let settings: Vec<(DeviceItem, &[u8])> = all
            .iter()
            .map(|(device, property, data)| {
                let length = data.len() as u32;
                (DeviceItem { device: *device, property: *property, ssdn: [7; 8], length, offset: 2 }, data.as_slice())
            })
            .collect();
        let body = retdat::encode_settings(&settings);
        prop_assert_eq!(retdat::decode_settings(&body), Some(settings));
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let text = text.replace(' ', "");
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
}
