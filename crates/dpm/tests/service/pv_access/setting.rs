//! Settings by pvAccess.

use rookery_dpm::link::{Came, LinkNetwork};
use rookery_dpm::pv_access::bytes::ByteOrder;
use rookery_dpm::pv_access::{command, step};
use rookery_dpm::status::Status;

use super::{CHOICE, DEVICES, VariableServer, commands, of, take_sent};
use crate::channels::{outcomes, set};
use crate::settings;

#[test]
fn a_setting_is_sent_once_within_what_the_server_allows() {
    let (mut world, _log) = settings::world_of(DEVICES);
    let client = settings::operator(&mut world, "everything");
    world.add(&client, 1, "E:BEAM.SETTING@N");
    set(&mut world, &client, 7.0);
    let mut server = VariableServer::find(&mut world, ByteOrder::Big);
    server.create();
    let limits = b"\x80\0\x01\x07control\x80\x09control_t\x02\x08limitLow\x43\x09limitHigh\x43";
    let (number, next) = server.describe(command::GET, limits);
    assert_eq!(commands(&next), [command::GET], "its limits come first");
    server.answer(command::GET, number, step::DESTROY, |payload| {
        payload.bytes.extend([0xff, 1, 1]);
        payload.double(-10.0);
        payload.double(10.0);
    });
    let value = b"\x80\0\x01\x05value\x43";
    let (number, written) = server.describe(command::PUT, value);
    assert_eq!((commands(&written), written[0].1[8]), (vec![command::PUT], step::DESTROY));
    assert_eq!(written[0].1[9..], [&[1, 2][..], &7.0f64.to_be_bytes()].concat());
    server.answer(command::PUT, number, step::DESTROY, |payload| payload.byte(0xff));
    let link = server.link;
    assert_eq!(outcomes(&mut world, &client), [Status::SUCCESS]);
    set(&mut world, &client, 11.0);
    assert_eq!(outcomes(&mut world, &client), [Status::RANGE]);
    assert!(take_sent(&mut world, link, ByteOrder::Big).is_empty(), "what is beyond its limits was not sent");
    // The server's refusal, for which it has only words.
    set(&mut world, &client, 8.0);
    let mut server = VariableServer { world: &mut world, link, order: ByteOrder::Big };
    let (number, _) = server.describe(command::PUT, value);
    server.answer(command::PUT, number, step::DESTROY, |payload| {
        payload.byte(2);
        payload.text(b"Put permission denied");
        payload.text(b"");
    });
    assert_eq!(outcomes(&mut world, &client), [Status::PRIV]);
    // The circuit is lost before the answer, so the device may have been set.
    set(&mut world, &client, 9.0);
    VariableServer { world: &mut world, link, order: ByteOrder::Big }.describe(command::PUT, value);
    let now = world.moment();
    world.dpm.link(LinkNetwork::PvAccess, Came::Down(link), now);
    world.pass(0);
    assert_eq!(outcomes(&mut world, &client), [Status::UTIME]);
    // No server has the variable any more, so it was not set.
    set(&mut world, &client, 9.0);
    world.pass(6000);
    assert_eq!(outcomes(&mut world, &client), [Status::NODE_DOWN]);
}

#[test]
fn a_setting_that_is_given_up_is_ended_at_its_server() {
    let (mut world, _log) = settings::world_of(DEVICES);
    let client = settings::operator(&mut world, "everything");
    world.add(&client, 1, "E:MODE.SETTING@N");
    settings::set_text(&mut world, &client, "TopUp");
    let mut server = VariableServer::find(&mut world, ByteOrder::Little);
    server.create();
    let begun = server.take_sent();
    assert_eq!(commands(&begun), [command::PUT], "a text has no limits");
    let [_, number] = server.numbers(&begun[0]);
    let link = server.link;
    world.pass(6000);
    assert_eq!(outcomes(&mut world, &client), [Status::UTIME]);
    let mut server = VariableServer { world: &mut world, link, order: ByteOrder::Little };
    let ended = server.take_sent();
    assert_eq!((commands(&ended), server.numbers(&ended[0])), (vec![command::DESTROY_REQUEST], [1001, number]));
    // A late description sets nothing.
    server.answer(command::PUT, number, step::INIT, |payload| {
        payload.byte(0xff);
        payload.bytes.extend(of(CHOICE));
    });
    assert!(server.take_sent().is_empty());
}

#[test]
fn a_choice_is_set_by_its_name() {
    for (name, written) in [("TopUp", Some(1)), ("Dump", None)] {
        let (mut world, _log) = settings::world_of(DEVICES);
        let client = settings::operator(&mut world, "everything");
        world.add(&client, 1, "E:MODE.SETTING@N");
        settings::set_text(&mut world, &client, name);
        let mut server = VariableServer::find(&mut world, ByteOrder::Little);
        server.create();
        let value = [b"\x80\0\x01\x05value", CHOICE].concat();
        let (number, next) = server.describe(command::PUT, &value);
        assert_eq!((commands(&next), next[0].1[8]), (vec![command::PUT], step::GET), "its names are read first");
        server.answer(command::PUT, number, step::GET, |payload| {
            payload.bytes.extend([0xff, 1, 1]);
            payload.int(0);
            payload.size(2);
            payload.text(b"Decay");
            payload.text(b"TopUp");
        });
        let sent = server.take_sent();
        match written {
            Some(index) => {
                assert_eq!(sent[0].1[8..], [&[step::DESTROY, 1, 4][..], &i32::to_le_bytes(index)].concat());
                server.answer(command::PUT, number, step::DESTROY, |payload| payload.byte(0xff));
            }
            None => assert_eq!(commands(&sent), [command::DESTROY_REQUEST]),
        }
        let expected = if written.is_some() { Status::SUCCESS } else { Status::SCALEFAIL };
        assert_eq!(outcomes(&mut world, &client), [expected]);
    }
}
