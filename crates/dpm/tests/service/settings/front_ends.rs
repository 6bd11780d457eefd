//! Front-ends that are silent or late, or send invalid answers.

use rookery_dpm::acnet::{AcnetHeader, PacketKind};
use rookery_dpm::status::Status;

use super::*;

#[test]
fn a_silent_front_end_is_asked_once_and_reported() {
    let (mut world, log) = world();
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.add(&client, 2, "M:OUTTMP.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.cut = true;
    send(&mut world, &client, &[(1, 1.0), (2, 40.0)]);
    let asked = headers(&world.datagrams);
    assert_eq!(asked.iter().map(|header| header.task.to_string()).collect::<Vec<_>>(), ["SETS32", "SETDAT"]);
    // One announces an answer in time, and sends it; the other is silent.
    world.pass(4000);
    world.cut = false;
    deliver(&mut world, asked[1].answer(Status::PEND, true).datagram(&[]));
    world.cut = true;
    world.pass(4000);
    assert_eq!(outcomes(&world.replies(&client)), [], "one batch, one answer");
    deliver(&mut world, asked[1].answer(Status::SUCCESS, false).datagram(&[0, 0]));
    assert_eq!(outcomes(&world.replies(&client)), [(1, Status::UTIME), (2, Status::SUCCESS)]);
    let set = headers(&world.datagrams).into_iter().filter(|header| header.kind == PacketKind::Request).count();
    assert_eq!(set, 2, "nothing is sent twice");
    // A late answer no longer belongs to a request.
    deliver(&mut world, asked[0].answer(Status::SUCCESS, false).datagram(&[0; 36]));
    deliver(&mut world, asked[1].answer(Status::SUCCESS, false).datagram(&[0, 0]));
    assert_eq!(outcomes(&world.replies(&client)), []);
    assert_eq!(lines(&log).len(), 2);
}

#[test]
fn stray_answers_are_not_believed() {
    let (mut world, _) = world();
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "M:OUTTMP.SETTING@N");
    world.start(&client);
    world.replies(&client);
    for (status, body, expected) in [
        (Status::SUCCESS, &[][..], Status::TRUNC_REPLY),
        (Status::NO_TASK, &[], Status::NODE_DOWN),
        (Status::BUSY, &[], Status::BUSY),
        (Status::SUCCESS, &[0x10, 0xf3], Status::NOPROP),
    ] {
        world.cut = true;
        world.datagrams.clear();
        send(&mut world, &client, &[(1, 40.0)]);
        let header = headers(&world.datagrams)[0];
        world.cut = false;
        // From another node, to another client, for another request.
        deliver(&mut world, AcnetHeader { server: 0x0c24, ..header }.answer(Status::SUCCESS, false).datagram(&[0, 0]));
        deliver(&mut world, AcnetHeader { client: 0x0a06, ..header }.answer(Status::SUCCESS, false).datagram(&[0, 0]));
        deliver(
            &mut world,
            AcnetHeader { message: header.message ^ 0x4000, ..header }.answer(Status::SUCCESS, false).datagram(&[0, 0]),
        );
        assert_eq!(outcomes(&world.replies(&client)), []);
        deliver(&mut world, header.answer(status, false).datagram(body));
        assert_eq!(outcomes(&world.replies(&client)), [(1, expected)]);
    }
}

#[test]
fn settings_of_a_client_that_left_are_done_and_logged() {
    let (mut world, log) = world();
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "M:OUTTMP.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.cut = true;
    send(&mut world, &client, &[(1, 40.0)]);
    world.dpm.disconnect(client.key);
    let header = *headers(&world.datagrams).last().expect("a request");
    world.cut = false;
    // The number may belong to another client by now.
    let other = world.client();
    deliver(&mut world, header.answer(Status::SUCCESS, false).datagram(&[0, 0]));
    assert!(world.replies(&other).is_empty());
    assert!(lines(&log)[0].ends_with("M:OUTTMP.SETTING@N = 40.0: [0 0]"), "{:?}", lines(&log));
}

#[test]
fn a_silent_device_hides_other_settings_once_at_most() {
    let (mut world, _) = world();
    let clients = [operator(&mut world, "everything"), operator(&mut world, "everything")];
    for (client, drf) in clients.iter().zip(["Z:CUBE_X.SETTING@N", "B:ARRAY.SETTING@N"]) {
        world.add(client, 1, drf);
        world.start(client);
        world.replies(client);
    }
    // Both in one turn, and so in one request: it is unknown whether either was set.
    let set_both = |world: &mut ServiceWorld, is_answered: &dyn Fn(usize) -> bool| {
        world.cut = true;
        world.datagrams.clear();
        let now = world.moment();
        for client in &clients {
            let settings = ApplySettings { list_id: client.list_id, ..scaled_settings(&[(1, 1.0)]) };
            world.dpm.receive(client.key, &crate::world::frame(&settings.into()), now).expect("the connection stays");
        }
        world.pass(0);
        let asked = headers(&world.datagrams);
        for (number, header) in asked.iter().enumerate().filter(|(number, _)| is_answered(*number)) {
            let body = [&[0; 34][..], &[0, 0]].concat();
            assert!(number < 2);
            deliver(world, header.answer(Status::SUCCESS, false).datagram(&body));
        }
        world.pass(5000);
        let told = clients.iter().map(|client| outcomes(&world.replies(client))[0].1).collect::<Vec<_>>();
        (asked.len(), told)
    };
    assert_eq!(set_both(&mut world, &|_| false), (1, vec![Status::UTIME; 2]));
    // From then on they are sent separately: one is silent, the other is set.
    for _ in 0..3 {
        assert_eq!(set_both(&mut world, &|number| number == 1), (2, vec![Status::UTIME, Status::SUCCESS]));
    }
    // Once it has answered, it is sent with the others again.
    assert_eq!(set_both(&mut world, &|_| true), (2, vec![Status::SUCCESS; 2]));
    assert_eq!(set_both(&mut world, &|_| false).0, 1);
}
