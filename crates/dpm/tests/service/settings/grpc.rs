//! Settings of clients by gRPC: each call is a client of its own, which sends its proof along with
//! its settings.

use prost::Message;
use rookery_dpm::authority::SetterProof;
use rookery_dpm::grpc::daq::SettingParts;
use rookery_dpm::grpc::generated::services::daq::SettingReply;
use rookery_dpm::setting::WantedValue;

use super::*;

#[test]
fn a_token_of_kerberos_lets_its_client_set_in_every_role_that_names_it() {
    let (mut world, log) = world();
    let ticket = SetterProof::Negotiate(b"operator@FNAL.GOV".to_vec());
    assert_eq!(set(&mut world, &[("Z:CUBE_X.SETTING@N", 45.5)], ticket), [(0, 0)]);
    assert_eq!(lines(&log).len(), 1);
    assert!(lines(&log)[0].starts_with("operator@FNAL.GOV role=- from=192.0.2.7:5000 Z:CUBE_X"), "{:?}", lines(&log));
    assert_eq!((world.statistics().clients, world.statistics().lists), (0, 0), "nothing stays of a call");
}

#[test]
fn an_invalid_proof_is_refused_with_its_reason_in_the_log() {
    let (mut world, log) = world();
    let expired = ProvenPeer { principal: "operator@FNAL.GOV".into(), good_for: Some(0) };
    for (proof, reason) in [
        (SetterProof::Nothing, ""),
        (SetterProof::Negotiate(b"nobody".to_vec()), "Set: no ticket"),
        (SetterProof::Failed("a token of nobody".into()), "Set: a token of nobody"),
        (SetterProof::Peer(expired), ""),
        (SetterProof::Peer(ProvenPeer { principal: "operator@ELSEWHERE.ORG".into(), good_for: None }), ""),
    ] {
        let before = lines(&log).len();
        assert_eq!(set(&mut world, &[("Z:CUBE_X.SETTING@N", 1.5)], proof.clone()), [(17, -17)], "{proof:?}");
        let told = lines(&log).split_off(before);
        assert!(
            told.iter().any(|line| line.contains(reason)) && told.iter().all(|line| line.contains("[17 -17]")),
            "{told:?}"
        );
    }
    assert!(world.datagrams.is_empty(), "no front-end hears of it");
}

/// Sets numbers in one call. Returns the facility and error of each.
fn set(world: &mut ServiceWorld, settings: &[(&str, f64)], proof: SetterProof) -> Vec<(i32, i32)> {
    let client = world.dpm.connect();
    let one = |(device, number): &(&str, f64)| -> SettingParts {
        vec![((*device).to_owned(), WantedValue::Scaled(vec![*number]))]
    };
    let settings = settings.iter().map(one).collect();
    let now = world.moment();
    let from = "192.0.2.7:5000".parse().expect("an address");
    world.dpm.set(client, settings, proof, from, now).expect("it is taken");
    world.pass(0);
    let bytes = world.bytes(client);
    assert!(world.dpm.is_served(client), "one message answers it");
    world.dpm.disconnect(client);
    let reply = SettingReply::decode(bytes.as_slice()).expect("a reply");
    reply.status.iter().map(|status| (status.facility_code, status.status_code)).collect()
}
