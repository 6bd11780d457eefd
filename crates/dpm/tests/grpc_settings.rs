//! Settings by gRPC on real sockets: a client that proves by a token that a role allows them may
//! set, over TLS or from this machine; any other is refused and logged.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Response};
use prost::Message;
use rookery_dpm::authority::{AuditFile, IssuerKeys, Roles, SettingAuthority};
use rookery_dpm::database::Database;
use rookery_dpm::driver::{Certificate, CertificateKeys, DpmServer, ServeSettings, SimulatorFront, put};
use rookery_dpm::grpc::generated::common::device::value::{AnalogAlarm, Value};
use rookery_dpm::grpc::generated::common::{device, status};
use rookery_dpm::grpc::generated::services::daq::{
    ReadingList, ReadingReply, Setting, SettingList, SettingReply, reading_reply,
};
use rookery_dpm::grpc::generated::services::devdb::{
    AlarmInfoReply, AlarmTextIdList, DeviceAlarmTextList, DeviceInfoReply, DeviceList, PlotConfig, PlotConfigResult,
    PlotConfigResults, PlotConfigSpecification, PlotSelector, info_entry, plot_config_result,
};
use rookery_dpm::grpc::plots::PlotStore;
use rookery_dpm::grpc::protocol::frame;
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::simulator::Simulator;
use tokio::io::{AsyncRead, AsyncWrite};

const DEMO: &str = include_str!("../src/database/demo.toml");
const ROLES: &str = "
[[role]]
name = 'cubes'
principals = ['operator@EXAMPLE.ORG']
devices = ['Z:CUBE_*', 'M:OUTTMP']
";
/// The octets of `secret-of-the-issuer-for-this-test`.
const KEYS: &str =
    r#"{"keys":[{"kty":"oct","kid":"one","alg":"HS256","k":"c2VjcmV0LW9mLXRoZS1pc3N1ZXItZm9yLXRoaXMtdGVzdA"}]}"#;
const SECRET: &[u8] = b"secret-of-the-issuer-for-this-test";
const ISSUER: &str = "https://sso.example.org";
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[test]
fn a_client_with_a_token_and_a_role_may_set() {
    with_service(false, |service| {
        on_runtime(async {
            let mut client = connect(service.address).await;
            let good = token("operator", ISSUER, 600);
            let settings = [("Z:CUBE_X.SETTING@N", Value::Scalar(4.5)), ("G:COUNTR.SETTING@N", Value::Scalar(1.0))];
            assert_eq!(set(&mut client, &settings, Some(&good)).await, [(0, 0), (16, -13)]);
            assert_eq!(read(&mut client, "Z:CUBE_X.SETTING@I").await, 4.5);
            // An alarm block, by its parts.
            let alarm = AnalogAlarm { minimum: 41.0, maximum: 88.0, alarm_enable: true, ..AnalogAlarm::default() };
            let settings = [("M:OUTTMP.ANALOG@N", Value::AnaAlarm(alarm))];
            assert_eq!(set(&mut client, &settings, Some(&good)).await, [(0, 0)]);
            let minimum = read(&mut client, "M:OUTTMP.ANALOG.MIN@I").await;
            assert!((minimum - 41.0).abs() < 0.1, "{minimum}");
        });
        let log = std::fs::read_to_string(&service.audit).expect("a log");
        let lines: Vec<_> = log.lines().collect();
        assert!(lines[0].contains("operator@EXAMPLE.ORG") && lines[0].contains("127.0.0.1:"), "{log}");
    });
}

#[test]
fn settings_are_made_from_the_command_line() {
    for has_certificate in [false, true] {
        with_service(has_certificate, |service| {
            let good = token("operator", ISSUER, 600).trim_start_matches("Bearer ").to_owned();
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("authority.pem");
            let authority = service.certificate.as_ref().map(|certificate| {
                let lines = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, certificate);
                let pem = format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n");
                std::fs::write(&file, pem).expect("a file");
                (file.clone(), "localhost".to_owned())
            });
            let to = rookery_dpm::driver::PutService { address: service.address, authority, token: good };
            let set = |service: &rookery_dpm::driver::PutService, setting: &str| {
                let done = put(service, &[setting.to_owned()], false).expect("an answer");
                (done[0].1.facility(), done[0].1.error())
            };
            assert_eq!(set(&to, "Z:CUBE_X=6.5"), (0, 0));
            assert_eq!(set(&to, "Z:CUBE_X=1e39"), (14, -20));
            let nobody = rookery_dpm::driver::PutService { token: "nothing".to_owned(), ..to.clone() };
            assert_eq!(set(&nobody, "Z:CUBE_X=7.5"), (17, -17));
            // A token doesn't leave the machine unencrypted.
            let abroad = SocketAddr::from(([192, 0, 2, 1], 50_051));
            let open = rookery_dpm::driver::PutService { address: abroad, authority: None, ..to };
            let refused = put(&open, &["Z:CUBE_X=7.5".to_owned()], false).expect_err("it is a secret");
            assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
        });
    }
}

#[test]
fn a_client_without_a_proof_sets_nothing_and_is_logged() {
    with_service(false, |service| {
        on_runtime(async {
            let mut client = connect(service.address).await;
            let settings = [("Z:CUBE_X.SETTING@N", Value::Scalar(7.5))];
            let others_key =
                sign(br#"{"alg":"HS256","kid":"one"}"#, &claims("operator", ISSUER, 600), b"a secret of nobody");
            let unsigned =
                format!("{}.{}.", base64(br#"{"alg":"none"}"#), base64(claims("operator", ISSUER, 600).as_bytes()));
            for proof in [
                None,
                Some("Bearer".to_owned()),
                Some("Basic b3BlcmF0b3I6".to_owned()),
                Some("Negotiate YWJj".to_owned()),
                Some(format!("Bearer {others_key}")),
                Some(format!("Bearer {unsigned}")),
                Some(token("operator", ISSUER, -600)),
                Some(token("operator", "https://elsewhere.example.org", 600)),
                Some(token("operator@FNAL.GOV", ISSUER, 600)),
                Some(token("somebody", ISSUER, 600)),
            ] {
                assert_eq!(set(&mut client, &settings, proof.as_deref()).await, [(17, -17)], "{proof:?}");
            }
            assert!(read(&mut client, "Z:CUBE_X.SETTING@I").await != 7.5);
            // A setting without a value is refused, regardless of the sender.
            let nothing = SettingList { setting: vec![Setting { device: "Z:CUBE_X".to_owned(), value: None }] };
            let good = token("operator", ISSUER, 600);
            let (reply, code) = call(&mut client, SET, &nothing.encode_to_vec(), Some(&good)).await;
            assert_eq!((statuses(&reply), code), (vec![(17, -24)], 0));
            // After repeated attempts on a connection, further ones are refused unchecked.
            let mut last = 0;
            for _ in 0..20 {
                last = call(&mut client, SET, &nothing.encode_to_vec(), None).await.1;
            }
            assert_eq!(last, 8);
        });
        let log = std::fs::read_to_string(&service.audit).expect("a log");
        assert!(log.contains("without") || log.contains("signature") || log.contains("Signature"), "{log}");
    });
}

#[test]
fn a_certificate_makes_it_speak_tls_only() {
    with_service(true, |service| {
        on_runtime(async {
            let certificate = service.certificate.clone().expect("a certificate");
            let mut roots = rustls::RootCertStore::empty();
            roots.add(certificate).expect("a root");
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider);
            let config = config.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
            let mut config = config.with_no_client_auth();
            config.alpn_protocols = vec![b"h2".to_vec()];
            let stream = tokio::net::TcpStream::connect(service.address).await.expect("a connection");
            let name = "localhost".try_into().expect("a name");
            let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
            let stream = connector.connect(name, stream).await.expect("a handshake");
            let mut client = over(stream).await;
            let good = token("operator", ISSUER, 600);
            assert_eq!(set(&mut client, &[("Z:CUBE_X.SETTING@N", Value::Scalar(2.5))], Some(&good)).await, [(0, 0)]);
            // A connection without TLS gets no answer.
            let stream = tokio::net::TcpStream::connect(service.address).await.expect("a connection");
            let (mut client, connection) = h2::client::handshake(stream).await.expect("our own half");
            tokio::spawn(connection);
            let request =
                Request::builder().method("POST").uri(format!("http://dpm{SET}")).body(()).expect("a request");
            let sent = client.send_request(request, true);
            let is_refused = match sent {
                Ok((response, _)) => response.await.is_err(),
                Err(_) => true,
            };
            assert!(is_refused);
        });
    });
}

#[test]
fn devices_health_and_the_interface_can_be_looked_up() {
    with_service(false, |service| {
        on_runtime(async {
            let mut client = connect(service.address).await;
            let asked = DeviceList { device: vec!["M:OUTTMP".to_owned(), "0:27235".to_owned(), "Z:NOSUCH".to_owned()] };
            let (reply, code) =
                call(&mut client, "/services.devdb.DevDB/getDeviceInfo", &asked.encode_to_vec(), None).await;
            let reply = DeviceInfoReply::decode(reply.as_slice()).expect("a reply");
            assert_eq!((code, reply.set.len()), (0, 3));
            let told: Vec<_> = reply.set.into_iter().map(|entry| entry.result).collect();
            let Some(info_entry::Result::Device(device)) = &told[0] else { panic!("{told:?}") };
            assert_eq!((device.device_index, device.description.as_str()), (27235, "Outdoor temperature"));
            let reading = device.reading.as_ref().expect("a reading");
            assert_eq!(reading.common_units.as_deref(), Some("DegF"));
            let bits = &device.status.as_ref().expect("a status").bits;
            let names: Vec<_> = bits.iter().map(|bit| bit.short_name.as_str()).collect();
            assert_eq!(names, ["On", "Ready", "Remote", "Positive", "Ramp"]);
            let ready = &bits[1];
            assert_eq!((ready.mask_val, ready.match_val, ready.invert), (2, 2, false));
            assert_eq!((ready.true_str.as_str(), ready.false_str.as_str()), ("Ready", "Tripped"));
            assert_eq!((ready.true_char.as_str(), ready.false_char.as_str()), (".", "T"));
            assert_eq!(told[0], told[1], "by name and by number");
            assert!(matches!(&told[2], Some(info_entry::Result::ErrMsg(_))));
            let (reply, code) =
                call(&mut client, "/services.devdb.DevDB/getAllAlarmInfo", &asked.encode_to_vec(), None).await;
            let reply = AlarmInfoReply::decode(reply.as_slice()).expect("a reply");
            let alarm = &reply.alarm_info[0];
            assert_eq!((code, reply.alarm_info.len(), alarm.device_name.as_str()), (0, 4, "M:OUTTMP"));
            let block = alarm.alarm_block.as_ref().expect("a block");
            assert_eq!((block.di, block.pi), (27235, 1));
            let analog = alarm.device_analog_alarm.as_ref().expect("an analog alarm").alarm_text_id;
            let digital = reply.alarm_info[1].device_digital_alarm.as_ref().expect("a digital alarm").alarm_text_id;
            let asked = AlarmTextIdList { alarm_text_id: vec![digital, 1, analog] };
            let (reply, code) =
                call(&mut client, "/services.devdb.DevDB/getAlarmText", &asked.encode_to_vec(), None).await;
            let reply = DeviceAlarmTextList::decode(reply.as_slice()).expect("a reply");
            let texts: Vec<_> =
                reply.device_alarm_text.iter().map(|text| (text.alarm_text_id, text.priority)).collect();
            assert_eq!((code, texts), (0, vec![(digital, 0), (analog, 3)]));
            let text = &reply.device_alarm_text[1];
            assert_eq!((text.text.as_str(), text.length), ("TEMPERATURE OUT OF RANGE", 24));
            assert_eq!(text.url, "https://wiki.example.org/outtmp");
            for (service, expected) in [("", 0), ("services.daq.DAQ", 0), ("services.nothing", 5)] {
                let asked = tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
                let (reply, code) =
                    call(&mut client, "/grpc.health.v1.Health/Check", &asked.encode_to_vec(), None).await;
                assert_eq!(code, expected, "{service}");
                if code == 0 {
                    assert_eq!(reply, [8, 1], "serving");
                }
            }
            // "List services" is field 7 of a request for reflection.
            let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
            let (reply, code) = call(&mut client, path, &[0x3a, 0], None).await;
            let names = String::from_utf8_lossy(&reply);
            assert!(
                code == 0 && names.contains("services.daq.DAQ") && names.contains("services.devdb.DevDB"),
                "{names}"
            );
            let (_, code) = call(&mut client, "/services.daq.DAQ/Nothing", &[], None).await;
            assert_eq!(code, 12);
        });
    });
}

#[test]
fn configurations_of_plots_are_saved_with_a_token_and_read_by_anyone() {
    with_service(false, |service| {
        on_runtime(async {
            let mut client = connect(service.address).await;
            let (anna, bert) = (token("anna", ISSUER, 600), token("bert", ISSUER, 600));
            let ring = PlotConfigSpecification { id: 0, name: "ring".to_owned(), config: "{}".to_owned() };
            let wrong = plot(&mut client, "savePlotConfiguration", &ring, None).await;
            assert_eq!(wrong, plot_config_result::Result::ErrMsg("a token is missing".to_owned()));
            let saved = plot(&mut client, "savePlotConfiguration", &ring, Some(&anna)).await;
            let id = match &saved {
                plot_config_result::Result::Config(PlotConfigResults { data }) => data[0].id,
                other => panic!("{other:?}"),
            };
            let all = plot(&mut client, "getPlotConfiguration", &PlotSelector { id: None }, None).await;
            assert_eq!(all, saved);
            let one = PlotSelector { id: Some(id) };
            for proof in [None, Some(bert.as_str())] {
                let refused = plot(&mut client, "deletePlotConfiguration", &one, proof).await;
                assert!(matches!(refused, plot_config_result::Result::ErrMsg(_)), "{refused:?}");
            }
            assert_eq!(plot(&mut client, "getPlotConfiguration", &one, None).await, saved);
            // Each user has a further one of its own, which nobody else gets.
            let own = PlotConfig { config: "[1]".to_owned() };
            let kept = plot(&mut client, "saveUserPlotConfiguration", &own, Some(&anna)).await;
            assert_eq!(kept, plot_config_result::Result::UserConfig(own.clone()));
            for (proof, expected) in [(&anna, own), (&bert, PlotConfig::default())] {
                let found = plot(&mut client, "getUserPlotConfiguration", &(), Some(proof)).await;
                assert_eq!(found, plot_config_result::Result::UserConfig(expected));
            }
            assert_eq!(plot(&mut client, "deletePlotConfiguration", &one, Some(&anna)).await, saved);
            let gone = plot(&mut client, "getPlotConfiguration", &PlotSelector { id: None }, None).await;
            assert_eq!(gone, plot_config_result::Result::Config(PlotConfigResults::default()));
        });
    });
}

/// Returns the result of a call about plots.
async fn plot(
    client: &mut SendRequest<Bytes>,
    method: &str,
    asked: &impl Message,
    proof: Option<&str>,
) -> plot_config_result::Result {
    let path = format!("/services.devdb.DevDB/{method}");
    let (reply, code) = call(client, &path, &asked.encode_to_vec(), proof).await;
    assert_eq!(code, 0);
    PlotConfigResult::decode(reply.as_slice()).expect("a reply").result.expect("a result")
}

struct SettingsService {
    address: SocketAddr,
    audit: std::path::PathBuf,
    certificate: Option<rustls::pki_types::CertificateDer<'static>>,
}

fn with_service(has_certificate: bool, test: impl FnOnce(SettingsService)) {
    let folder = tempfile::tempdir().expect("a folder");
    let read = || Database::read(DEMO).expect("a good file");
    let stop = Arc::new(AtomicBool::new(false));
    let front = SimulatorFront::open(LOCAL, Simulator::new(read())).expect("a free port");
    let database = read().with_nodes_at(front.address().expect("an address"));
    let settings = ServeSettings { clients: vec![LOCAL], front_ends: LOCAL, options: ServiceOptions::default() };
    let plots = PlotStore::in_memory().expect("a store");
    let server = DpmServer::open(settings, Arc::new(database)).expect("free ports");
    let mut server = server.with_grpc(LOCAL, Some(plots)).expect("a free port");
    let audit = folder.path().join("audit.log");
    server.set_authority(SettingAuthority {
        acceptor: None,
        roles: Roles::read(ROLES).expect("good roles"),
        audit: Some(Box::new(AuditFile::open(audit.clone()).expect("a log"))),
    });
    let tokens = IssuerKeys::read(KEYS, ISSUER, None, Some("EXAMPLE.ORG")).expect("good keys");
    let made = has_certificate.then(|| identity(folder.path()));
    let (certificate, der) = made.unzip();
    server.grpc_keys().expect("gRPC").replace(CertificateKeys { certificate, tokens: Some(tokens) });
    let address = server.grpc_address().expect("gRPC");
    let (front_stop, server_stop) = (Arc::clone(&stop), Arc::clone(&stop));
    let front = thread::spawn(move || front.run(|| front_stop.load(Ordering::Relaxed)));
    let server = thread::spawn(move || server.run(|_, _| server_stop.load(Ordering::Relaxed)));
    test(SettingsService { address, audit, certificate: der });
    stop.store(true, Ordering::Relaxed);
    front.join().expect("no panic").expect("no error");
    server.join().expect("no panic").expect("no error");
}

fn identity(folder: &Path) -> (Certificate, rustls::pki_types::CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
    std::fs::write(&chain, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    (Certificate::open(&chain, &key).expect("an identity"), made.cert.der().clone())
}

fn claims(subject: &str, issuer: &str, good_for: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs() as i64;
    format!(r#"{{"sub":"{subject}","iss":"{issuer}","exp":{}}}"#, now + good_for)
}

fn token(subject: &str, issuer: &str, good_for: i64) -> String {
    let signed = sign(br#"{"alg":"HS256","kid":"one"}"#, &claims(subject, issuer, good_for), SECRET);
    format!("Bearer {signed}")
}

fn sign(header: &[u8], claims: &str, secret: &[u8]) -> String {
    let text = format!("{}.{}", base64(header), base64(claims.as_bytes()));
    let key = jsonwebtoken::EncodingKey::from_secret(secret);
    let signature =
        jsonwebtoken::crypto::sign(text.as_bytes(), &key, jsonwebtoken::Algorithm::HS256).expect("a signature");
    format!("{text}.{signature}")
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

fn on_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("it ends") });
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    over(tokio::net::TcpStream::connect(address).await.expect("a connection")).await
}

async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> SendRequest<Bytes> {
    let (client, connection) = h2::client::handshake(stream).await.expect("a handshake");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

async fn set(client: &mut SendRequest<Bytes>, settings: &[(&str, Value)], proof: Option<&str>) -> Vec<(i32, i32)> {
    let setting = settings.iter().map(|(device, value)| Setting {
        device: (*device).to_owned(),
        value: Some(device::Value { value: Some(value.clone()) }),
    });
    let list = SettingList { setting: setting.collect() };
    let (reply, code) = call(client, SET, &list.encode_to_vec(), proof).await;
    assert_eq!(code, 0);
    statuses(&reply)
}

fn statuses(reply: &[u8]) -> Vec<(i32, i32)> {
    let reply = SettingReply::decode(reply).expect("a reply");
    reply.status.iter().map(|status: &status::Status| (status.facility_code, status.status_code)).collect()
}

async fn read(client: &mut SendRequest<Bytes>, request: &str) -> f64 {
    let list = ReadingList { drf: vec![request.to_owned()] }.encode_to_vec();
    let (reply, code) = call(client, "/services.daq.DAQ/Read", &list, None).await;
    assert_eq!(code, 0);
    let Some(reading_reply::Value::Readings(readings)) = ReadingReply::decode(reply.as_slice()).expect("a reply").value
    else {
        panic!("{request}")
    };
    match readings.reading[0].data.as_ref().and_then(|data| data.value.clone()) {
        Some(Value::Scalar(number)) => number,
        other => panic!("{other:?}"),
    }
}

/// Calls a method. Returns its last message and the code with which it ends.
async fn call(client: &mut SendRequest<Bytes>, path: &str, message: &[u8], proof: Option<&str>) -> (Vec<u8>, u32) {
    *client = client.clone().ready().await.expect("a place");
    let request = Request::builder().method("POST").uri(format!("http://dpm{path}"));
    let mut request = request.header("content-type", "application/grpc").header("te", "trailers");
    if let Some(proof) = proof {
        request = request.header("authorization", proof);
    }
    let (response, mut stream) = client.send_request(request.body(()).expect("a request"), false).expect("it is sent");
    stream.send_data(frame(message).into(), true).expect("it is sent");
    let response: Response<h2::RecvStream> = response.await.expect("a response");
    let code = |headers: &http::HeaderMap| headers["grpc-status"].to_str().expect("text").parse().expect("a number");
    if response.headers().contains_key("grpc-status") {
        return (Vec::new(), code(response.headers()));
    }
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        bytes.extend_from_slice(&data.expect("it is not reset"));
    }
    let trailers = poll_fn(|cx: &mut Context<'_>| -> Poll<_> { Pin::new(&mut body).poll_trailers(cx) });
    let trailers = trailers.await.expect("it is not reset").expect("trailers");
    (bytes.get(5..).unwrap_or_default().to_vec(), code(&trailers))
}

const SET: &str = "/services.daq.DAQ/Set";
