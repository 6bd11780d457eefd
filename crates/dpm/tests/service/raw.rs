//! acnetd's client protocol, as acsys-python and pacsys speak it.

use rookery_dpm::acnet::{AcnetHeader, PacketKind, packet};
use rookery_dpm::sdd::SddMessage;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{self, Request};
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, frames, numbers};

#[test]
fn commands_are_acknowledged_with_the_codes_and_lengths_that_clients_want() {
    let mut raw = RawConnection::connect();
    for (code, rest, expected) in [
        (0, "", "00020000 0000"),
        (11, "79e051b9", "00020004 0000 00ff"),
        (11, "c1201b8d", "00020004 0000 0ad6"),
        (11, "58755497", "00020004 0000 0c23"),
        (11, "00000640", "00020004 01e2 0000"),
        (12, "0ad6", "00020005 0000 c1201b8d"),
        (12, "0001", "00020005 01e2 00000000"),
        (13, "", "00020004 0000 0ad6"),
        (14, "19001b8d", &format!("00020006 0000 {:08x}", std::process::id())),
        (14, "d389ba89", "00020006 0000 00001234"),
        (14, "58755497", "00020006 01df 00000000"),
        (15, "", &format!("00020007 0000 {}", "00".repeat(28))),
        (9, "6008", "00020000 01e9"),
        (6, "", "00020000 0000"),
        (3, "", "00020000 0000"),
        (99, "", "00020000 01dd"),
    ] {
        let answer = raw.command(code, &unhex(rest));
        let facility_last = |text: &str| {
            // Statuses are written here as they are read: facility, then error.
            let mut bytes = unhex(&text.replace(' ', ""));
            if bytes[4] == 1 {
                bytes.swap(4, 5);
            }
            bytes
        };
        assert_eq!(answer, [facility_last(expected)], "command {code} {rest}");
    }
}

#[test]
fn a_list_lives_on_a_request_for_many_replies() {
    let mut raw = RawConnection::connect();
    let found = raw.request(0x00ff, 0, &request::ServiceDiscovery {}.into());
    assert!(
        matches!(&found[..], [(header, Reply::ServiceDiscovery(_))] if header.kind == PacketKind::Reply && header.server == 0x0ad6)
    );
    let opened = raw.request(HERE, 1, &request::OpenList::default().into());
    let [(stream, Reply::OpenList(open))] = &opened[..] else { panic!("{opened:?}") };
    assert_eq!(stream.kind, PacketKind::ReplyWithMore);
    let (stream, list_id) = (stream.message, open.list_id);
    // A property of the list and a device with the same number.
    for drf in ["#USER:root", "G:COUNTR@p,500"] {
        let added = raw.request(HERE, 0, &request::AddToList { list_id, ref_id: 0, drf_request: drf.into() }.into());
        assert!(
            matches!(&added[..], [(header, Reply::AddToList(added))] if header.kind == PacketKind::Reply && added.status == 0)
        );
    }
    let started = raw.request(HERE, 0, &request::StartList { list_id, model: None }.into());
    assert!(matches!(&started[0], (header, Reply::StartList(_)) if header.kind == PacketKind::Reply), "first of all");
    assert!(matches!(&started[1], (header, Reply::DeviceInfo(_)) if header.message == stream));
    raw.world.pass(1000);
    let data = raw.data();
    assert!(data.iter().all(|(header, _)| (header.kind, header.message) == (PacketKind::ReplyWithMore, stream)));
    let replies: Vec<Reply> = data.into_iter().map(|(_, reply)| reply).collect();
    assert_eq!(numbers(&replies, 0), [2.0, 3.0]);
    let stopped = raw.request(HERE, 0, &request::StopList { list_id }.into());
    assert!(matches!(&stopped[..], [(_, Reply::Status(status))] if status.status == 0));
    raw.command(8, &stream.to_be_bytes());
    assert_eq!((raw.world.statistics().lists, raw.world.statistics().entries), (0, 0));
    let gone = raw.request(HERE, 0, &request::StartList { list_id, model: None }.into());
    assert!(matches!(&gone[..], [(_, Reply::StartList(start))] if Status(start.status) == Status::NO_SUCH_LIST));
}

#[test]
fn settings_are_answered_by_a_status_and_refused_on_the_stream() {
    let mut raw = RawConnection::connect();
    let opened = raw.request(HERE, 1, &request::OpenList::default().into());
    let [(_, Reply::OpenList(open))] = &opened[..] else { panic!("{opened:?}") };
    let scaled_array = Some(vec![rookery_dpm::sdd::ScaledSetting { ref_id: 5, data: vec![1.0] }]);
    let applied = raw.request(
        HERE,
        0,
        &request::ApplySettings { list_id: open.list_id, scaled_array, ..Default::default() }.into(),
    );
    let [(single, Reply::Status(_)), (stream, Reply::ApplySettings(settings))] = &applied[..] else {
        panic!("{applied:?}")
    };
    assert_eq!((single.kind, stream.kind), (PacketKind::Reply, PacketKind::ReplyWithMore));
    assert_eq!((settings.status[0].ref_id, Status(settings.status[0].status)), (5, Status::PRIV));
}

#[test]
fn lists_of_a_connection_are_apart_and_those_of_others_out_of_reach() {
    let mut raw = RawConnection::connect();
    let mut ids = Vec::new();
    for ref_id in 1..=2 {
        let opened = raw.request(HERE, 1, &request::OpenList::default().into());
        let [(header, Reply::OpenList(open))] = &opened[..] else { panic!("{opened:?}") };
        ids.push((header.message, open.list_id));
        raw.request(
            HERE,
            0,
            &request::AddToList { list_id: open.list_id, ref_id, drf_request: "G:COUNTR@p,1000".into() }.into(),
        );
        raw.request(HERE, 0, &request::StartList { list_id: open.list_id, model: None }.into());
    }
    raw.world.pass(1000);
    for (header, reply) in raw.data() {
        let Reply::Scalar(scalar) = reply else { continue };
        assert_eq!(header.message, ids[scalar.ref_id as usize - 1].0);
    }
    let other = raw.world.client();
    raw.world.ask(&other, request::StopList { list_id: ids[0].1 });
    raw.world.pass(1000);
    assert_eq!(raw.data().iter().filter(|(header, _)| header.message == ids[0].0).count(), 1);
    assert_eq!(raw.world.simulator.streams(), 1);
}

#[test]
fn the_lists_of_a_connection_are_bounded() {
    let mut raw = RawConnection::connect();
    let mut streams = Vec::new();
    for _ in 0..ServiceOptions::default().lists {
        let opened = raw.request(HERE, 1, &request::OpenList::default().into());
        assert!(matches!(&opened[..], [(_, Reply::OpenList(_))]), "{opened:?}");
        streams.push(opened[0].0.message);
    }
    let mut message = Vec::new();
    Request::from(request::OpenList::default()).encode(&mut message);
    let body = [&unhex("19001b8d")[..], &HERE.to_be_bytes(), &[0, 1], &1000u32.to_be_bytes(), &message].concat();
    let answers = raw.command(18, &body);
    let header = packet::packets(&answers[1][2..]).next().expect("a packet").header;
    assert_eq!((header.kind, header.status), (PacketKind::Reply, Status::BUSY));
    raw.command(8, &streams[7].to_be_bytes());
    let opened = raw.request(HERE, 1, &request::OpenList::default().into());
    assert!(matches!(&opened[..], [(_, Reply::OpenList(_))]), "{opened:?}");
}

#[test]
fn other_tasks_and_nodes_cannot_be_reached() {
    let mut raw = RawConnection::connect();
    let body = [&unhex("58755497")[..], &HERE.to_be_bytes(), &[0, 0], b"hi"].concat();
    let answers = raw.command(5, &body);
    let header = packet::packets(&answers[1][2..]).next().expect("a packet").header;
    assert_eq!((header.kind, header.status), (PacketKind::Reply, Status::NO_TASK));
    let body = [&unhex("19001b8d")[..], &[0x12, 0x34], &[0, 0], b"hi"].concat();
    assert_eq!(raw.command(5, &body), [unhex("00020002e2010000")]);
}

/// A connection that was greeted and has a name.
pub struct RawConnection {
    pub world: ServiceWorld,
    pub key: usize,
}

impl RawConnection {
    fn connect() -> Self {
        Self::connect_to(ServiceWorld::new(DEMO))
    }

    pub fn connect_to(mut world: ServiceWorld) -> Self {
        let key = world.dpm.connect();
        let mut raw = Self { world, key };
        raw.world.send(key, b"RAW\r\n\r\n").expect("a greeting");
        let [ack] = &raw.command(1, &[0, 0, 0x12, 0x34, 0, 0])[..] else { panic!("no acknowledgement") };
        assert_eq!((ack.len(), &ack[..6]), (11, &[0, 2, 0, 1, 0, 0][..]));
        raw
    }

    /// Sends a command and returns the frames that arrive.
    pub fn command(&mut self, code: u16, rest: &[u8]) -> Vec<Vec<u8>> {
        let body = [&[0, 1], &code.to_be_bytes()[..], &unhex("d389ba8900000000"), rest].concat();
        let frame = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
        self.world.send(self.key, &frame).expect("the connection stays");
        frames(&self.world.bytes(self.key)).into_iter().map(<[u8]>::to_vec).collect()
    }

    /// Sends a request to the task DPMD of a node, and returns the packets that arrive. The first
    /// frame is the acknowledgement with the request's id.
    fn request(&mut self, node: u16, flags: u16, request: &Request) -> Vec<(AcnetHeader, Reply)> {
        let mut message = Vec::new();
        request.encode(&mut message);
        let body =
            [&unhex("19001b8d")[..], &node.to_be_bytes(), &flags.to_be_bytes(), &1000u32.to_be_bytes(), &message]
                .concat();
        let answers = self.command(18, &body);
        assert_eq!(answers[0][..6], [0, 2, 0, 2, 0, 0]);
        answers[1..].iter().map(|frame| data(frame)).collect()
    }

    fn data(&mut self) -> Vec<(AcnetHeader, Reply)> {
        frames(&self.world.bytes(self.key)).into_iter().map(data).collect()
    }
}

fn data(frame: &[u8]) -> (AcnetHeader, Reply) {
    assert_eq!(frame[..2], [0, 3]);
    let packet = packet::packets(&frame[2..]).next().expect("a packet");
    (packet.header, Reply::decode(packet.body).expect("a reply"))
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
}

const HERE: u16 = 0x0ad6;
