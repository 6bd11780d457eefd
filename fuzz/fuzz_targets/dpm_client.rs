//! What clients and front-ends send to a service, in whatever pieces.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rookery_dpm::database::Database;
use rookery_dpm::service::{Dpm, Options};
use rookery_dpm::time::Moment;

fuzz_target!(|pieces: Vec<(u8, Vec<u8>)>| {
    let database = Database::read(DEMO).expect("a good file");
    let mut dpm = Dpm::new(Options::default(), Arc::new(database));
    let clients = [dpm.connect(), dpm.connect()];
    let start = Moment { millis: 0, unix_millis: 0 };
    let _ = dpm.receive(clients[0], b"GET /dpm HTTP/1.1\r\n\r\n", start);
    let _ = dpm.receive(clients[1], b"RAW\r\n\r\n", start);
    let from = "127.0.0.1:6801".parse().expect("an address");
    for (number, (kind, bytes)) in pieces.into_iter().enumerate() {
        let now = Moment { millis: number as u64 * 500, unix_millis: 0 };
        let framed = [&(bytes.len() as u32).to_be_bytes()[..], &bytes].concat();
        match kind % 4 {
            0 => drop(dpm.receive(clients[0], &framed, now)),
            1 => drop(dpm.receive(clients[1], &framed, now)),
            2 => dpm.datagram(from, &mut bytes.clone(), now),
            _ => dpm.tick(now),
        }
        dpm.datagrams(now).for_each(drop);
        for client in dpm.take_dirty() {
            dpm.render(client, &mut Vec::new(), usize::MAX);
        }
    }
});

const DEMO: &str = include_str!("../../crates/dpm/src/database/demo.toml");
