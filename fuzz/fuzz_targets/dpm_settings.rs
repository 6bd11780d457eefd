//! Requests that set devices, and settings of a client that proved who it is: nothing panics, and
//! every setting is answered once.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rookery_dpm::acnet::{retdat, sets32};
use rookery_dpm::authority::{ProofAcceptor, ProofConversation, ProvenPeer, Roles, SettingAuthority};
use rookery_dpm::database::Database;
use rookery_dpm::sdd::{Bytes, RawSetting, ScaledSetting, SddMessage, TextSetting, request};
use rookery_dpm::service::{Dpm, ServiceOptions};
use rookery_dpm::time::Moment;

/// A request for a device, and what it is set to: as bytes, as a number and as text.
type Setting = (String, Vec<u8>, f64, String);

fuzz_target!(|input: (Vec<u8>, Vec<Setting>, Vec<Vec<u8>>)| {
    let (body, settings, answers) = input;
    if let Some(read) = retdat::decode_settings(&body) {
        assert_eq!(retdat::decode_settings(&retdat::encode_settings(&read)), Some(read));
    }
    if let Some((node, read)) = sets32::decode(&body) {
        assert_eq!(sets32::decode(&sets32::encode(node, &read)), Some((node, read)));
    }
    let mut dpm = Dpm::new(ServiceOptions::default(), Arc::new(Database::read(DEVICES).expect("a good file")));
    let roles = Roles::read(ROLES).expect("good roles");
    dpm.set_authority(SettingAuthority { acceptor: Some(Box::new(OpenAcceptor)), roles, audit: None });
    let (client, start) = (dpm.connect(), Moment { millis: 0, unix_millis: 0 });
    let _ = dpm.receive(client, b"GET /dpm HTTP/1.1\r\n\r\n", start);
    let list_id = 4096;
    let mut requests: Vec<request::Request> = vec![
        request::Authenticate { list_id, token: Bytes(b"token".to_vec()) }.into(),
        request::EnableSettings { list_id, mic: Bytes(Vec::new()), message: Bytes(Vec::new()) }.into(),
        request::AddToList { list_id, ref_id: 0, drf_request: "#ROLE:all".into() }.into(),
    ];
    let (mut raw, mut scaled, mut text) = (Vec::new(), Vec::new(), Vec::new());
    for (ref_id, (drf_request, bytes, number, words)) in settings.into_iter().enumerate() {
        let ref_id = ref_id as i64;
        requests.push(request::AddToList { list_id, ref_id, drf_request }.into());
        raw.push(RawSetting { ref_id, data: Bytes(bytes) });
        scaled.push(ScaledSetting { ref_id, data: vec![number] });
        text.push(TextSetting { ref_id, data: vec![words] });
    }
    let all = (Some(raw), Some(scaled), Some(text));
    let (raw_array, scaled_array, text_array) = all;
    let user_name = String::new();
    requests.push(request::ApplySettings { user_name, list_id, raw_array, scaled_array, text_array }.into());
    for request in requests {
        let mut message = Vec::new();
        request.encode(&mut message);
        let _ = dpm.receive(client, &[&(message.len() as u32).to_be_bytes()[..], &message].concat(), start);
    }
    let from = "127.0.0.1:6801".parse().expect("an address");
    for mut answer in answers {
        dpm.datagrams(start).for_each(drop);
        dpm.datagram(from, &mut answer, start);
    }
    dpm.datagrams(start).for_each(drop);
    for millis in [6000, 12_000, 60_000] {
        dpm.tick(Moment { millis, unix_millis: 0 });
        dpm.datagrams(Moment { millis, unix_millis: 0 }).for_each(drop);
    }
    let mut written = Vec::new();
    while dpm.render(client, &mut written, usize::MAX) {}
    let applied = written.windows(3).filter(|window| *window == [0x12, 0x43, 0xc0]).count();
    assert!(applied >= 1, "settings were not answered");
});

/// Lets everybody in.
#[derive(Debug)]
struct OpenAcceptor;

impl ProofAcceptor for OpenAcceptor {
    fn service_name(&self) -> &str {
        "daeset@localhost"
    }

    fn converse(&self) -> Box<dyn ProofConversation> {
        Box::new(OpenAcceptor)
    }
}

impl ProofConversation for OpenAcceptor {
    fn step(&mut self, _token: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    fn peer(&self) -> Option<ProvenPeer> {
        Some(ProvenPeer { principal: "operator@FNAL.GOV".into(), good_for: None })
    }

    fn verify(&mut self, _message: &[u8], _mic: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

const DEVICES: &str = include_str!("../../crates/dpm/tests/service/settings.toml");
const ROLES: &str = "[[role]]\nname = 'all'\nprincipals = ['*@*']\ndevices = ['*']";
