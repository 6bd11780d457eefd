//! Servers of Channel Access: whatever they send on a circuit or in answer to a search, nothing
//! panics, and what is kept for them is one variable.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rookery_dpm::channel_access::data::ChannelData;
use rookery_dpm::channel_access::message::{ChannelHeader, messages, next};
use rookery_dpm::channel_access::{command, data::Native};
use rookery_dpm::database::Database;
use rookery_dpm::gateway::{GatewayCircuit, search};
use rookery_dpm::link::{Came, Goes, LinkNetwork::ChannelAccess};
use rookery_dpm::service::{Dpm, ServiceOptions};
use rookery_dpm::time::Moment;

const DEVICES: &str = "[[node]]\nname='EPICS'\nprotocol='CA'\nsearch=['127.0.0.1:5064']\n\
                       [[device]]\nindex=1\nname='E:BEAM'\n[device.reading]\nnode='EPICS'\npv='BEAM'";

fuzz_target!(|bytes: &[u8]| {
    for message in messages(bytes) {
        let ChannelHeader { data_type, count, .. } = message.header;
        if let Some(data) = ChannelData::decode(data_type, count, message.payload) {
            assert_eq!(data.numbers().count(), data.len());
        }
        let mut again = Vec::new();
        message.header.write(message.payload, &mut again);
        let (read, length) = next(&again, usize::MAX).expect("small enough").expect("a whole one");
        assert_eq!((read.header, length), (message.header, again.len()));
    }
    let database = Database::read(DEVICES).expect("a good database");
    // The other side: a client of EPICS.
    let _ = GatewayCircuit::new().received(bytes, &database, 5064);
    let _ = search(bytes, &database, 5064);
    let mut dpm = Dpm::new(ServiceOptions::default(), Arc::new(database));
    let at = |millis| Moment { millis, unix_millis: 1_700_000_000_000 + millis as i64 };
    let client = dpm.connect();
    // The device is read as by a client of gRPC, which needs no frames.
    let _ = dpm.read(client, &["E:BEAM@Q,100".to_owned()], at(0));
    let _ = dpm.take_link_orders(ChannelAccess, at(0));
    let mut found = Vec::new();
    ChannelHeader { command: command::SEARCH, data_type: 5064, count: 0, first: u32::MAX, second: 1 }
        .write(&[0; 8], &mut found);
    let from = "127.0.0.1:5064".parse().expect("an address");
    dpm.link(ChannelAccess, Came::Datagram(from, &found), at(1));
    let link = dpm.take_link_orders(ChannelAccess, at(1)).into_iter().find_map(|goes| match goes {
        Goes::Connect(link, _) => Some(link),
        _ => None,
    });
    let link = link.expect("a circuit");
    dpm.link(ChannelAccess, Came::Up(link), at(2));
    let mut made = Vec::new();
    let native = Native::Double as u16;
    ChannelHeader { command: command::CREATE_CHAN, data_type: native, count: 1, first: 1, second: 1 }
        .write(&[], &mut made);
    dpm.link(ChannelAccess, Came::Bytes(link, &made), at(3));
    let _ = dpm.take_link_orders(ChannelAccess, at(3));
    for (round, part) in bytes.chunks(61).enumerate() {
        let now = at(4 + round as u64);
        dpm.link(ChannelAccess, Came::Bytes(link, part), now);
        dpm.link(ChannelAccess, Came::Datagram(from, part), now);
        dpm.tick(now);
        let _ = dpm.take_link_orders(ChannelAccess, now);
    }
    assert_eq!(dpm.statistics().variables, 1);
});
