//! Input from clients and front-ends to a service, in pieces of any size: answers to what was
//! asked, other nodes' questions, greetings and commands.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rookery_dpm::acnet::{ACNET, AcnetHeader, PacketKind, packet};
use rookery_dpm::database::Database;
use rookery_dpm::sdd::{SddMessage, request};
use rookery_dpm::service::{Dpm, PASSED_ON, ServiceOptions};
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

fuzz_target!(|pieces: Vec<(u8, Vec<u8>)>| {
    let database = Database::read(DEMO).expect("a good file");
    let mut dpm = Dpm::new(ServiceOptions::default(), Arc::new(database));
    let mut clients = vec![dpm.connect(), dpm.connect()];
    let start = Moment { millis: 0, unix_millis: 0 };
    let _ = dpm.receive(clients[0], b"GET /dpm HTTP/1.1\r\n\r\n", start);
    let _ = dpm.receive(clients[1], b"RAW\r\n\r\n", start);
    // It connects with a name: the command's code, its handle, no virtual node, its process and no
    // port.
    let connect = [&[0, 0, 0, 18, 0, 1, 0, 1, 1, 2, 3, 4][..], &[0; 10]].concat();
    let _ = dpm.receive(clients[1], &connect, start);
    for (ref_id, drf) in (0..).zip(READ) {
        ask(&mut dpm, clients[0], request::AddToList { list_id: LIST, ref_id, drf_request: (*drf).into() }.into());
    }
    ask(&mut dpm, clients[0], request::StartList { list_id: LIST, model: None }.into());
    let from = "127.0.0.1:6801".parse().expect("an address");
    let mut asked: Vec<AcnetHeader> = Vec::new();
    for (number, (kind, bytes)) in pieces.into_iter().enumerate() {
        let now = Moment { millis: number as u64 * 500, unix_millis: 0 };
        let framed = [&(bytes.len() as u32).to_be_bytes()[..], &bytes].concat();
        match kind % 8 {
            0 => drop(dpm.receive(clients[0], &framed, now)),
            1 => drop(dpm.receive(clients[1], &framed, now)),
            2 => dpm.datagram(from, &mut bytes.clone(), now),
            3 => dpm.tick(now),
            // An answer to something that was asked: the first byte says to what, the next two with
            // which status.
            4 => {
                if let ([place, low, high, body @ ..], false) = (&bytes[..], asked.is_empty()) {
                    let header = asked[usize::from(*place) % asked.len()];
                    let status = Status(i16::from_le_bytes([*low, *high]));
                    dpm.datagram(from, &mut header.answer(status, place & 0x80 != 0).datagram(body), now);
                }
            }
            5 => {
                let question = AcnetHeader {
                    kind: PacketKind::Request,
                    status: Status::SUCCESS,
                    server: 0x0ad6,
                    client: 0x0c23,
                    task: ACNET,
                    task_id: 1,
                    message: 0x2000,
                };
                dpm.datagram(from, &mut question.datagram(&bytes), now);
            }
            6 => {
                // A request to another node, passed on: the first byte says to which task, the rest
                // is what it is asked.
                let ([task, body @ ..], [_, client, ..]) = (&bytes[..], &clients[..]) else { continue };
                let task = PASSED_ON[usize::from(*task) % PASSED_ON.len()].0.to_be_bytes();
                let command = [0, 1, 0, 18, 0, 0, 0, 0, 0, 0, 0, 0];
                let rest = [&task[..], &[0x0c, 0x23], &[0, task[0] & 1], &[0, 0, 2, 0], body].concat();
                let framed = [&((command.len() + rest.len()) as u32).to_be_bytes()[..], &command, &rest].concat();
                let _ = dpm.receive(*client, &framed, now);
            }
            _ => {
                let client = dpm.connect();
                match dpm.receive(client, &bytes, now) {
                    Ok(()) => clients.push(client),
                    Err(_) => dpm.disconnect(client),
                }
            }
        }
        for (_, mut datagram) in dpm.datagrams(now) {
            packet::swap(&mut datagram);
            asked.extend(packet::packets(&datagram).map(|packet| packet.header));
        }
        for client in dpm.take_dirty() {
            dpm.render(client, &mut Vec::new(), usize::MAX);
        }
    }
});

fn ask(dpm: &mut Dpm, client: usize, request: request::Request) {
    let mut message = Vec::new();
    request.encode(&mut message);
    let framed = [&(message.len() as u32).to_be_bytes()[..], &message].concat();
    let _ = dpm.receive(client, &framed, Moment { millis: 0, unix_millis: 0 });
}

const DEMO: &str = include_str!("../../crates/dpm/src/database/demo.toml");
/// The first list of a service.
const LIST: i32 = 4096;
/// Something of each kind, from nodes of both protocols; the last is a plot.
const READ: &[&str] = &[
    "M:OUTTMP@p,1000",
    "M|OUTTMP@p,1000",
    "M@OUTTMP@p,1000",
    "M@OUTTMP.TEXT@p,1000",
    "M$OUTTMP@p,1000",
    "B:ARRAY[]@p,500",
    "G:TEXT@q,1000",
    "G:WATER.ANALOG.TOL@p,1000",
    "Z:CUBE_X@E,0F",
    "M:OUTTMP@p,100H",
];
