//! Servers and clients of pvAccess: whatever they send on a circuit, in a search or in answer to
//! one, nothing panics, and what is kept for servers is one variable.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rookery_dpm::database::Database;
use rookery_dpm::gateway::GatewayWire;
use rookery_dpm::gateway::pva::PvaGatewayCircuit;
use rookery_dpm::link::{Came, Goes, LinkNetwork::PvAccess};
use rookery_dpm::pv_access::bytes::{ByteOrder, PvaInput};
use rookery_dpm::pv_access::frame::{PvaFrames, search_responses};
use rookery_dpm::pv_access::message::SearchAnswer;
use rookery_dpm::pv_access::types::{PvaType, TypeRegistry};
use rookery_dpm::pv_access::value::{self, PvaBits};
use rookery_dpm::service::{Dpm, ServiceOptions};
use rookery_dpm::time::Moment;

const DEVICES: &str = "[[node]]\nname='EPICS'\nprotocol='PVA'\nsearch=['127.0.0.1:5076']\n\
                       [[device]]\nindex=1\nname='E:BEAM'\n[device.reading]\nnode='EPICS'\npv='BEAM'";

/// A greeting, and the channel of the variable.
const OPENED: &[u8] = b"\xca\x02\x41\x02\0\0\0\0\xca\x02\x40\x01\x0a\0\0\0\0\0\x01\0\0\0\x01\x02ca\
    \xca\x02\x40\x09\x01\0\0\0\xff\xca\x02\x40\x07\x09\0\0\0\x01\0\0\0\x09\0\0\0\xff";
/// The type of the variable's monitor.
const DESCRIBED: &[u8] =
    b"\xca\x02\x40\x0d\x23\0\0\0\x01\0\0\0\x08\xff\x80\0\x02\x05value\x43\x05alarm\x80\0\x01\x08severity\x22";

fuzz_target!(|bytes: &[u8]| {
    let (mut frames, mut rest) = (PvaFrames::default(), bytes);
    while let Ok(Some((_, length))) = frames.next(rest) {
        assert!(length > 0);
        rest = &rest[length..];
    }
    for mut answer in search_responses(bytes) {
        let _ = SearchAnswer::read(&mut answer);
    }
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let (mut input, mut registry) = (PvaInput::new(bytes, order), TypeRegistry::default());
        // A type, and then values of it.
        while let Ok(Some(PvaType::Structure(of))) = PvaType::read(&mut input, &mut registry) {
            let Ok(bits) = PvaBits::read(&mut input) else { break };
            let _ = value::read(&of, Some(&bits), &mut input, &mut registry, |bit, _| assert!(bit < of.bits));
        }
    }
    let database = Database::read(DEVICES).expect("a good database");
    let _ = PvaGatewayCircuit::search(&Default::default(), bytes, &database, 5076);
    let mut circuit = PvaGatewayCircuit::begin(&Arc::default());
    for part in bytes.chunks(61) {
        if circuit.received(part, &database, 5076).is_err() {
            break;
        }
        let _ = circuit.take_changes();
    }
    let mut dpm = Dpm::new(ServiceOptions::default(), Arc::new(database));
    let at = |millis| Moment { millis, unix_millis: 1_700_000_000_000 + millis as i64 };
    let client = dpm.connect();
    // The device is read as by a client of gRPC, which needs no frames.
    let _ = dpm.read(client, &["E:BEAM@Q,100".to_owned()], at(0));
    let _ = dpm.take_link_orders(PvAccess, at(0));
    dpm.link(PvAccess, Came::Bound(40_000), at(0));
    let _ = dpm.take_link_orders(PvAccess, at(0));
    let mut found = b"\xca\x02\xc0\x04\0\0\0\x2e".to_vec();
    found.extend([0; 32]);
    found.extend(b"\x13\xd3\x03tcp\x01\0\x01\0\0\0\x01");
    found[7] = (found.len() - 8) as u8;
    let from = "127.0.0.1:5076".parse().expect("an address");
    dpm.link(PvAccess, Came::Datagram(from, &found), at(1));
    let link = dpm.take_link_orders(PvAccess, at(1)).into_iter().find_map(|goes| match goes {
        Goes::Connect(link, _) => Some(link),
        _ => None,
    });
    let link = link.expect("a circuit");
    dpm.link(PvAccess, Came::Up(link), at(2));
    for opening in [OPENED, DESCRIBED] {
        dpm.link(PvAccess, Came::Bytes(link, opening), at(3));
        let _ = dpm.take_link_orders(PvAccess, at(3));
    }
    for (round, part) in bytes.chunks(61).enumerate() {
        let now = at(4 + round as u64);
        dpm.link(PvAccess, Came::Bytes(link, part), now);
        dpm.link(PvAccess, Came::Datagram(from, part), now);
        dpm.tick(now);
        let _ = dpm.take_link_orders(PvAccess, now);
    }
    assert_eq!(dpm.statistics().variables, 1);
});
