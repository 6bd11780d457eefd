//! The right to set: proofs, roles, and the log of attempts.

use rookery_dpm::authority::Roles;
use rookery_dpm::sdd::reply::{self, Reply};
use rookery_dpm::sdd::request::{self, ApplySettings};
use rookery_dpm::status::Status;

use super::*;
use crate::world::{infos, numbers, statuses};

#[test]
fn without_a_keytab_everything_is_refused() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = world.client();
    authenticate(&mut world, &client, b"");
    assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    enable(&mut world, &client, b"1234");
    assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    world.replies(&client);
    assert_eq!(apply(&mut world, &client, &[(1, 5.0)]), [(1, Status::PRIV)]);
    assert!(world.datagrams.is_empty(), "no front-end hears of it");
}

#[test]
fn a_client_proves_who_it_is_and_sets_and_reads_back() {
    let (mut world, log) = world();
    let client = world.client();
    authenticate(&mut world, &client, b"");
    let asked = world.replies(&client);
    assert!(
        matches!(&asked[..], [Reply::Authenticate(reply)] if reply.service_name.as_deref() == Some("daeset@localhost") && reply.token.is_none()),
        "{asked:?}"
    );
    authenticate(&mut world, &client, b"operator@FNAL.GOV");
    assert_eq!(world.replies(&client), [reply::Authenticate::default().into()]);
    enable(&mut world, &client, b"1234");
    assert_eq!(statuses(&world.replies(&client), 0), [Status::SUCCESS]);
    world.ask(&client, request::StopList { list_id: client.list_id });
    world.ask(&client, request::ClearList { list_id: client.list_id });
    world.add(&client, 0, "#ROLE:testing");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    let started = world.replies(&client);
    assert_eq!((infos(&started), started.len()), (vec![(1, "Z:CUBE_X")], 2));
    assert_eq!(apply(&mut world, &client, &[(1, 45.5)]), [(1, Status::SUCCESS)]);
    world.add(&client, 2, "Z:CUBE_X@I");
    world.add(&client, 3, "Z:CUBE_X.SETTING.RAW@I");
    world.start(&client);
    let replies = world.replies(&client);
    assert_eq!(numbers(&replies, 2), [45.5]);
    assert!(replies.iter().any(|reply| matches!(reply, Reply::Raw(raw) if raw.data.0 == 4550i16.to_le_bytes())));
    let said = "operator@FNAL.GOV role=testing from=- Z:CUBE_X.SETTING@N = 45.5: [0 0]";
    assert_eq!(lines(&log), [said]);
}

#[test]
fn a_client_without_a_proof_or_with_a_wrong_signature_sets_nothing() {
    let (mut world, log) = world();
    for (token, mic) in [(&b"nobody"[..], &b"1234"[..]), (b"operator@FNAL.GOV", b"4321"), (b"operator@FNAL.GOV", b"")] {
        let client = world.client();
        world.add(&client, 0, "#ROLE:testing");
        world.add(&client, 1, "Z:CUBE_X.SETTING@N");
        world.start(&client);
        authenticate(&mut world, &client, token);
        world.replies(&client);
        assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)], "a proof alone is not enough");
        enable(&mut world, &client, mic);
        assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
        assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)]);
        // A wrong signature revokes the proof.
        enable(&mut world, &client, b"1234");
        assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    }
    assert!(world.datagrams.is_empty());
    let log = lines(&log);
    assert!(log.iter().any(|line| line.contains("Authenticate: no ticket")), "{log:?}");
    assert!(log.iter().any(|line| line.contains("EnableSettings: wrong signature")), "{log:?}");
    assert!(log.iter().all(|line| line.ends_with("[17 -17] DPM_PRIV")), "{log:?}");
}

#[test]
fn proofs_are_not_tried_for_ever() {
    let (mut world, log) = world();
    let client = world.client();
    for _ in 0..40 {
        authenticate(&mut world, &client, b"nobody");
        assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    }
    assert_eq!(lines(&log).len(), 16);
    authenticate(&mut world, &client, b"operator@FNAL.GOV");
    assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
}

#[test]
fn a_client_that_proves_nothing_does_not_fill_the_log() {
    let (mut world, log) = world();
    let client = world.client();
    let settings: Vec<(i64, f64)> = (0..300).map(|ref_id| (ref_id, 1.0)).collect();
    for _ in 0..10 {
        assert_eq!(apply(&mut world, &client, &settings).len(), 300);
    }
    assert_eq!(lines(&log).len(), 1000);
    let client = operator(&mut world, "testing");
    for _ in 0..10 {
        apply(&mut world, &client, &settings);
    }
    assert_eq!(lines(&log).len(), 4000, "of those whom we know everything is written down");
}

#[test]
fn a_proof_lasts_as_long_as_the_ticket() {
    let (mut world, _) = world();
    let client = operator(&mut world, "testing");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.pass(HOUR - 1);
    world.replies(&client);
    assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::SUCCESS)]);
    world.pass(1);
    world.replies(&client);
    assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)]);
}

#[test]
fn roles_and_classes_decide_which_devices_may_be_set() {
    let (mut world, _) = world();
    // In the role, in no role, in a role with other devices, in an unknown one; the last device is
    // for a class of users.
    for (role, expected) in [
        ("testing", [Status::SUCCESS, Status::PRIV, Status::SUCCESS]),
        ("", [Status::PRIV, Status::PRIV, Status::SUCCESS]),
        ("magnets", [Status::PRIV, Status::PRIV, Status::SUCCESS]),
        ("nothing", [Status::PRIV, Status::PRIV, Status::SUCCESS]),
    ] {
        let client = operator(&mut world, role);
        for (ref_id, drf) in [(1, "Z:CUBE_X.SETTING@N"), (2, "B:ARRAY.SETTING@N"), (3, "M:OUTTMP.SETTING@N")] {
            world.add(&client, ref_id, drf);
        }
        world.start(&client);
        world.replies(&client);
        let answered = apply(&mut world, &client, &[(1, 1.0), (2, 1.0), (3, 40.0)]);
        assert_eq!(answered.iter().map(|answer| answer.1).collect::<Vec<_>>(), expected, "{role}");
    }
    let client = operator(&mut world, "testing");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.dpm.set_roles(Roles::default());
    assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)], "roles count as they are now");
}

#[test]
fn a_proof_does_not_count_for_another_list() {
    let (mut world, _) = world();
    let (client, other) = (operator(&mut world, "testing"), world.client());
    world.add(&other, 0, "#ROLE:testing");
    world.add(&other, 1, "Z:CUBE_X.SETTING@N");
    world.start(&other);
    world.replies(&other);
    assert_eq!(apply(&mut world, &other, &[(1, 1.0)]), [(1, Status::PRIV)]);
    // With the number of the other client's list.
    world.ask(&other, ApplySettings { list_id: client.list_id, ..scaled_settings(&[(1, 1.0)]) });
    assert_eq!(statuses(&world.replies(&other), 0), [Status::NO_SUCH_LIST]);
}
