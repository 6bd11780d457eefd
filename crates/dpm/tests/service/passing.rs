//! Requests of acnetd's clients to tasks of other nodes.

use rookery_dpm::acnet::ftpman::{self, PlotRequest, Retrieval, SnapshotControl, SnapshotSetup};
use rookery_dpm::acnet::{AcnetHeader, DeviceItem, PacketKind, gets32, packet, retdat};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::service::{ServiceOptions, read_passed_task};
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::raw::{RawConnection, unhex};
use crate::world::{ServiceWorld, frames, front_end_address, statuses};

#[test]
fn a_device_is_read_from_its_node() {
    let mut raw = raw();
    let (id, answers) = raw.ask(MUONFE, "RETDAT", 0, 1000, &read(0)).expect("it is passed on");
    let [(header, body)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((header.kind, header.status, header.message), (PacketKind::Reply, Status::SUCCESS, id));
    assert_eq!((header.server, header.client, header.task), (MUONFE, 0x0ad6, name("RETDAT")));
    assert!(header.task_id > 1, "not a number of the node's own tasks: {}", header.task_id);
    assert_eq!((body.len(), &body[..2]), (4, &[0, 0][..]));
    // A ping, and a task that the front-end does not have.
    let (_, answers) = raw.ask(MUONFE, "ACNET", 0, 1000, &[0, 0]).expect("it is passed on");
    assert_eq!(answers[0].1, [0, 0]);
    assert_eq!(raw.world.statistics().passed, 0);
}

#[test]
fn many_replies_come_until_they_are_cancelled() {
    let mut raw = raw();
    let (id, _) = raw.ask(MUONFE, "RETDAT", 1, 10_000, &read(30)).expect("it is passed on");
    let (other, _) = raw.ask(MUONFE, "RETDAT", 1, 10_000, &read(60)).expect("it is passed on");
    assert_ne!(id, other);
    raw.world.pass(3000);
    let replies = raw.replies();
    let of = |id: u16| replies.iter().filter(|(header, _)| header.message == id).count();
    assert!(of(id) >= 6 && of(other) >= 3 && of(id) > of(other), "{} {}", of(id), of(other));
    assert!(replies.iter().all(|(header, body)| header.kind == PacketKind::ReplyWithMore && body.len() == 4));
    assert_eq!((raw.world.simulator.streams(), raw.world.statistics().passed), (2, 2));
    raw.command(8, &id.to_be_bytes());
    assert_eq!((raw.world.simulator.streams(), raw.world.statistics().passed), (1, 1));
    raw.world.pass(3000);
    assert!(raw.replies().iter().all(|(header, _)| header.message == other));
    // The replies to a client that has disconnected are cancelled.
    raw.command(3, &[]);
    assert_eq!((raw.world.simulator.streams(), raw.world.statistics().passed), (0, 0));
    raw.ask(MUONFE, "RETDAT", 1, 10_000, &read(30)).expect("it is passed on");
    raw.world.dpm.disconnect(raw.key);
    raw.world.pass(0);
    assert_eq!((raw.world.simulator.streams(), raw.world.statistics().passed), (0, 0));
}

#[test]
fn no_request_that_is_passed_on_sets_anything() {
    let mut raw = raw();
    raw.world.datagrams.clear();
    for task in ["SETDAT", "SETS32", "SETSDB", "LMBRJK", "DPMD"] {
        assert_eq!(raw.ask(MUONFE, task, 0, 1000, &[0; 40]).map(|_| ()), Err(Status::REQREJ), "{task}");
    }
    let read = gets32::Gets32Request { node: DEMOFE, repetitive: false, ftd: 0, event: "i".into(), items: vec![ITEM] };
    let mut set = read.encode();
    set[5] = 1;
    assert_eq!(raw.ask(DEMOFE, "GETS32", 0, 1000, &set).map(|_| ()), Err(Status::REQREJ));
    assert_eq!(raw.ask(0x1234, "RETDAT", 0, 1000, &[]).map(|_| ()), Err(Status::NO_NODE));
    assert_eq!(raw.world.datagrams.len(), 0, "nothing is sent");
    raw.world.dpm.pass_on_to(vec![name("LMBRJK")]);
    assert_eq!(raw.ask(MUONFE, "RETDAT", 0, 1000, &[]).map(|_| ()), Err(Status::REQREJ));
    let (_, answers) = raw.ask(MUONFE, "LMBRJK", 0, 1000, &[]).expect("it is passed on");
    assert_eq!(answers[0].0.status, Status::NO_TASK, "as the front-end says");
    assert!(
        read_passed_task("SETDAT").is_err() && read_passed_task("sets32").is_err() && read_passed_task("").is_err()
    );
    assert_eq!(read_passed_task("FTPMAN"), Ok(ftpman::TASK));
}

#[test]
fn a_silent_node_has_as_long_as_its_client_allows() {
    let mut raw = raw();
    raw.world.cut = true;
    let (single, _) = raw.ask(MUONFE, "RETDAT", 0, 1000, &read(0)).expect("it is passed on");
    let (many, _) = raw.ask(MUONFE, "RETDAT", 1, 2000, &read(30)).expect("it is passed on");
    // acnetd's shortest time limit is 400 ms.
    let (short, _) = raw.ask(MUONFE, "RETDAT", 0, 1, &read(0)).expect("it is passed on");
    let mut told = |millis| {
        raw.world.pass(millis);
        raw.replies().iter().map(|(header, _)| (header.message, header.kind, header.status)).collect::<Vec<_>>()
    };
    assert_eq!(told(399), []);
    assert_eq!(told(1), [(short, PacketKind::Reply, Status::REQTMO)]);
    assert_eq!(told(600), [(single, PacketKind::Reply, Status::REQTMO)]);
    let pending = [(many, PacketKind::ReplyWithMore, Status::PEND)];
    assert_eq!((told(1000), told(1999), told(1)), (pending.to_vec(), vec![], pending.to_vec()));
    let cancelled = kinds(&raw.world.datagrams).into_iter().filter(|kind| *kind == PacketKind::Cancel).count();
    assert_eq!((cancelled, raw.world.statistics().passed), (2, 1));
}

#[test]
fn replies_count_once_and_from_the_node_that_was_asked() {
    let mut raw = raw();
    raw.world.cut = true;
    let (id, _) = raw.ask(MUONFE, "RETDAT", 0, 1000, &read(0)).expect("it is passed on");
    raw.world.cut = false;
    let asked = headers(&raw.world.datagrams).last().copied().expect("a request");
    let mut answer = |header: AcnetHeader| {
        let now = raw.world.moment();
        raw.world.dpm.datagram(front_end_address(), &mut header.datagram(&[1, 2, 3, 4]), now);
        raw.world.pass(0);
        raw.replies()
    };
    for wrong in [
        AcnetHeader { server: DEMOFE, ..asked },
        AcnetHeader { message: asked.message ^ 1, ..asked },
        AcnetHeader { client: 0x0ad7, ..asked },
        AcnetHeader { task_id: asked.task_id + 1, ..asked },
    ] {
        assert_eq!(answer(wrong.answer(Status::SUCCESS, false)), [], "{wrong:?}");
    }
    // "Pending" keeps the request; the first other reply ends it.
    assert_eq!(answer(asked.answer(Status::PEND, true))[0].0.status, Status::PEND);
    let replies = answer(asked.answer(Status::SUCCESS, true));
    assert_eq!(
        (replies[0].0.kind, replies[0].0.message, &replies[0].1[..]),
        (PacketKind::Reply, id, &[1, 2, 3, 4][..])
    );
    assert_eq!(answer(asked.answer(Status::SUCCESS, false)), []);
}

#[test]
fn requests_have_bounds_for_clients_and_addresses() {
    let options = ServiceOptions { passed_of_client: 3, passed_of_address: 5, ..ServiceOptions::default() };
    let mut raw = RawConnection::connect_to(ServiceWorld::with(DEMO, options));
    raw.world.cut = true;
    let open = |raw: &mut RawConnection, host: u8| {
        let now = raw.world.moment();
        let key = raw.world.dpm.connect_from(([10, 0, 0, host], 1000).into(), now).expect("a place");
        raw.world.send(key, b"RAW\r\n\r\n").expect("a greeting");
        raw.key = key;
        raw.command(1, &[0; 6]);
        key
    };
    let many = |raw: &mut RawConnection| {
        let asked = (0..10).map(|_| raw.ask(MUONFE, "RETDAT", 0, 5000, &read(0)).map(|_| ()));
        let asked: Vec<_> = asked.collect();
        assert!(asked.iter().all(|asked| matches!(asked, Ok(()) | Err(Status::BUSY))), "{asked:?}");
        asked.iter().filter(|asked| asked.is_ok()).count()
    };
    let first = open(&mut raw, 1);
    assert_eq!(many(&mut raw), 3);
    let second = open(&mut raw, 1);
    assert_eq!(many(&mut raw), 2, "the address has five");
    open(&mut raw, 2);
    assert_eq!(many(&mut raw), 3, "another address has its own");
    raw.key = second;
    raw.world.dpm.disconnect(first);
    assert_eq!(many(&mut raw), 1, "one more of its own");
    raw.world.pass(5000);
    raw.replies();
    assert_eq!((raw.world.statistics().passed, many(&mut raw)), (0, 3));
}

#[test]
fn a_snapshot_is_set_up_watched_and_retrieved() {
    let mut raw = raw();
    let class = PlotRequest::Classes(vec![ITEM]).encode();
    let (_, answers) = raw.ask(MUONFE, "FTPMAN", 0, 1000, &class).expect("it is passed on");
    assert_eq!(answers[0].1, unhex("00000000 0c00 0c00".replace(' ', "").as_str()));
    let setup = SnapshotSetup {
        name: name("SNP001"),
        arm: 0x00c2,
        priority: 0,
        rate: 1000,
        delay: 500_000,
        // The generator's event 02, every 5001 ms.
        events: [2, 255, 255, 255, 255, 255, 255, 255],
        sample: [255; 4],
        points: 1000,
        items: vec![ITEM, DeviceItem { device: 1, ..ITEM }],
    };
    let (id, answers) =
        raw.ask(MUONFE, "FTPMAN", 1, 60_000, &PlotRequest::Snapshot(setup.clone()).encode()).expect("it is passed on");
    let stages = |replies: &[PassedPacket]| {
        let status = |body: &[u8], at: usize| Status(i16::from_le_bytes([body[at], body[at + 1]]));
        replies
            .iter()
            .filter(|(header, body)| header.message == id && !body.is_empty())
            .inspect(|(header, body)| assert_eq!((header.kind, body.len()), (PacketKind::ReplyWithMore, 60)))
            .inspect(|(_, body)| assert_eq!(status(body, 42), Status::FTP_UNSDEV))
            .map(|(_, body)| status(body, 24))
            .collect::<Vec<_>>()
    };
    assert_eq!(stages(&answers), [Status::FTP_WAIT_EVENT]);
    let retrieve = |raw: &mut RawConnection, item: u16, count: u16, from: Option<u32>| {
        let request = PlotRequest::Retrieve(Retrieval { name: name("SNP001"), item, count, from });
        let (id, answers) = raw.ask(MUONFE, "FTPMAN", 0, 1000, &request.encode()).expect("it is passed on");
        let (_, body) = answers.into_iter().find(|(header, _)| header.message == id).expect("an answer");
        match Status(i16::from_le_bytes([body[0], body[1]])) {
            Status::SUCCESS => {
                let points = body[4..].chunks_exact(4).map(|point| u16::from_le_bytes([point[0], point[1]]));
                Ok(points.collect::<Vec<_>>())
            }
            status => Err(status),
        }
    };
    assert_eq!(retrieve(&mut raw, 1, 512, None), Err(Status::FTP_NOTRDY));
    raw.world.pass(5001 - raw.world.moment().millis);
    assert_eq!(stages(&raw.replies()), [Status::FTP_WAIT_DELAY]);
    raw.world.pass(500);
    assert_eq!(stages(&raw.replies()), [Status::FTP_COLLECTING]);
    raw.world.pass(1001);
    assert_eq!(stages(&raw.replies()), [Status::SUCCESS]);
    // First a point that is no reading, then one each millisecond for a thousand milliseconds,
    // beginning half a second after the event.
    let mut points = Vec::new();
    let last = loop {
        match retrieve(&mut raw, 1, 512, None) {
            Ok(more) => points.extend(more),
            Err(status) => break status,
        }
    };
    assert_eq!((last, points.len()), (Status::FTP_ENDOFDATA, 1001));
    assert_eq!((points[1], points[2], points[1000]), (5000, 5010, 5000 + 9990));
    assert_eq!(retrieve(&mut raw, 1, 2, Some(1)), Ok(vec![5000, 5010]));
    assert_eq!(retrieve(&mut raw, 2, 512, None), Err(Status::FTP_UNSDEV));
    assert_eq!(retrieve(&mut raw, 3, 512, None), Err(Status::FTP_NO_SUCH_DEVICE));
    // Its points again, then the whole snapshot again.
    let control = |raw: &mut RawConnection, restarts: bool| {
        let request = PlotRequest::Control(SnapshotControl { name: name("SNP001"), restarts });
        raw.ask(MUONFE, "FTPMAN", 0, 1000, &request.encode()).expect("it is passed on").1
    };
    assert_eq!(control(&mut raw, false)[0].1, [0, 0]);
    assert_eq!(retrieve(&mut raw, 1, 512, None).map(|points| points.len()), Ok(512));
    let answers = control(&mut raw, true);
    assert_eq!(answers[0].1, [0, 0], "the answer comes before what follows from it");
    assert_eq!(stages(&answers), [Status::FTP_WAIT_EVENT]);
    raw.command(8, &id.to_be_bytes());
    assert_eq!((retrieve(&mut raw, 1, 1, None), raw.world.simulator.streams()), (Err(Status::FTP_NO_SETUP), 0));
    for (wrong, status) in [
        (SnapshotSetup { rate: 100_000, ..setup.clone() }, Status::FTP_FREQ_TOO_HIGH),
        (SnapshotSetup { arm: 0x00c3, ..setup.clone() }, Status::FTP_BADARM),
        (SnapshotSetup { arm: 0x00e2, ..setup.clone() }, Status::FTP_BAD_PLOT_MODE),
        (SnapshotSetup { rate: 0, ..setup }, Status::FTP_BADARG),
    ] {
        let (_, answers) =
            raw.ask(MUONFE, "FTPMAN", 1, 1000, &PlotRequest::Snapshot(wrong).encode()).expect("it is passed on");
        assert_eq!((answers[0].0.kind, &answers[0].1[..]), (PacketKind::Reply, &status.0.to_le_bytes()[..]));
        assert_eq!(answers[0].0.status, Status::ENDMULT);
    }
    assert_eq!(raw.world.statistics().passed, 0);
}

#[test]
fn tasks_of_clients_have_numbers_of_their_own() {
    let mut world = ServiceWorld::new(DEMO);
    let mut numbers = Vec::new();
    for _ in 0..300 {
        let key = world.dpm.connect();
        world.send(key, b"RAW\r\n\r\n").expect("a greeting");
        for (code, wide) in [(1, false), (16, true)] {
            let body = [&[0, 1, 0, code][..], &[0; 8], &[0; 6]].concat();
            let frame = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
            world.send(key, &frame).expect("the connection stays");
            let answer = world.bytes(key);
            let answer = frames(&answer)[0].to_vec();
            assert_eq!(answer[..6], [0, 2, 0, code, 0, 0]);
            match wide {
                false => assert!(answer[6] > 1, "not one of the node's own"),
                true => numbers.push(u16::from_be_bytes([answer[6], answer[7]])),
            }
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 300);
    assert!(numbers[0] > 1);
}

#[test]
fn nodes_and_loggers_have_other_names() {
    let database = DEMO.replacen("protocol = \"RETDAT\"", "protocol = \"RETDAT\"\naliases = [\"MUON1\"]", 1)
        + "\n[names]\naliases = [\"DPM01\"]\nloggers = [\"BACKUP\"]\n";
    let mut raw = RawConnection::connect_to(ServiceWorld::new(&database).with_archive());
    let mut found = |text: &str| {
        let answer = raw.command(11, &name(text).0.to_be_bytes()).remove(0);
        (i16::from_be_bytes([answer[4], answer[5]]) == 0).then(|| u16::from_be_bytes([answer[6], answer[7]]))
    };
    assert_eq!((found("MUON1"), found("MUONFE")), (Some(MUONFE), Some(MUONFE)));
    assert_eq!((found("DPM01"), found("DPM06"), found("DPM02")), (Some(0x0ad6), Some(0x0ad6), None));
    raw.world.pass(5000);
    let client = raw.world.client();
    for (ref_id, logger) in (0..).zip(["DPM06", "DPM01", "BACKUP", "backup", "ARKIVB"]) {
        raw.world.add(&client, ref_id, &format!("M:OUTTMP<-LOGGERDURATION:5000:{logger}"));
    }
    raw.world.start(&client);
    let replies = raw.world.replies(&client);
    for ref_id in 0..4 {
        let is_its = |reply: &&Reply| matches!(reply, Reply::TimedScalarArray(array) if array.ref_id == ref_id);
        assert_eq!(replies.iter().filter(is_its).count(), 2, "{ref_id}");
    }
    assert_eq!(statuses(&replies, 4), [Status::NO_NODE]);
}

/// A received packet.
type PassedPacket = (AcnetHeader, Vec<u8>);

fn raw() -> RawConnection {
    RawConnection::connect_to(ServiceWorld::new(DEMO))
}

impl RawConnection {
    /// Sends a request to a task of a node, with a time limit in milliseconds. Returns its id and
    /// the packets that arrived at once, or the status of the acknowledgement.
    fn ask(
        &mut self,
        node: u16,
        task: &str,
        flags: u16,
        patience: u32,
        body: &[u8],
    ) -> Result<(u16, Vec<PassedPacket>), Status> {
        let head = [&name(task).0.to_be_bytes()[..], &node.to_be_bytes(), &flags.to_be_bytes()].concat();
        let mut answers = self.command(18, &[&head[..], &patience.to_be_bytes(), body].concat());
        let ack = answers.remove(0);
        assert_eq!((ack.len(), &ack[..4]), (8, &[0, 2, 0, 2][..]));
        match Status(i16::from_be_bytes([ack[4], ack[5]])) {
            Status::SUCCESS => {
                let answers = answers.iter().map(|frame| data(frame)).collect();
                Ok((u16::from_be_bytes([ack[6], ack[7]]), answers))
            }
            status => Err(status),
        }
    }

    fn replies(&mut self) -> Vec<PassedPacket> {
        frames(&self.world.bytes(self.key)).into_iter().map(data).collect()
    }
}

fn data(frame: &[u8]) -> PassedPacket {
    assert_eq!(frame[..2], [0, 3]);
    let packet = packet::packets(&frame[2..]).next().expect("a packet");
    (packet.header, packet.body.to_vec())
}

fn headers(datagrams: &[Vec<u8>]) -> Vec<AcnetHeader> {
    let header = |datagram: &Vec<u8>| {
        let mut datagram = datagram.clone();
        packet::swap(&mut datagram);
        packet::packets(&datagram).next().expect("a packet").header
    };
    datagrams.iter().map(header).collect()
}

fn kinds(datagrams: &[Vec<u8>]) -> Vec<PacketKind> {
    headers(datagrams).iter().map(|header| header.kind).collect()
}

fn read(ftd: u16) -> Vec<u8> {
    retdat::RetdatRequest { ftd, items: vec![ITEM] }.encode()
}

fn name(text: &str) -> Rad50 {
    Rad50::parse(text).expect("a name")
}

const MUONFE: u16 = 0x0c23;
const DEMOFE: u16 = 0x0c24;
/// The reading of M:OUTTMP.
const ITEM: DeviceItem =
    DeviceItem { device: 27235, property: 12, ssdn: [0, 0, 0x42, 0, 0x3f, 0x21, 0, 0], length: 2, offset: 0 };
