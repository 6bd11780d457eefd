//! gRPC on real sockets: the client uses HTTP/2 directly, and nothing of the service.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, StatusCode};
use prost::Message;
use rookery_dpm::database::Database;
use rookery_dpm::driver::{DpmServer, ServeSettings, SimulatorFront};
use rookery_dpm::grpc::generated::common::device;
use rookery_dpm::grpc::generated::services::daq::{ReadingList, Setting, SettingList, SettingReply};
use rookery_dpm::grpc::protocol::frame;
use rookery_dpm::history::{HistoryArchive, HistoryBounds};
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::simulator::Simulator;

const DEMO: &str = include_str!("../src/database/demo.toml");

#[test]
fn calls_end_as_grpc_says() {
    with_service(|address, lists| {
        let counted = Arc::clone(&lists);
        on_runtime(async move {
            let lists = counted;
            let mut client = connect(address).await;
            // Single readings: the stream ends with success.
            let (head, mut body) = call(&mut client, READ, &list(&["M:OUTTMP@I", "Z:NOSUCH@I"]), &[]).await;
            assert_eq!(
                (head.status, head.headers["content-type"].as_bytes()),
                (StatusCode::OK, &b"application/grpc"[..])
            );
            let (messages, trailers) = all(&mut body).await.expect("it is not reset");
            assert_eq!((messages.len(), code(&trailers)), (2, 0));
            // The client's own deadline passes.
            let (_, mut body) = call(&mut client, READ, &list(&["G:COUNTR@p,100"]), &[("grpc-timeout", "700m")]).await;
            let (messages, trailers) = all(&mut body).await.expect("it is not reset");
            assert!(!messages.is_empty());
            assert_eq!(code(&trailers), 4);
            // Each setting is refused.
            let setting = |device: &&str| Setting {
                device: (*device).to_owned(),
                value: Some(device::Value { value: Some(device::value::Value::Scalar(4.5)) }),
            };
            let setting = ["Z:CUBE_X.SETTING@N", "M:OUTTMP.SETTING@N"].iter().map(setting).collect();
            let settings = SettingList { setting }.encode_to_vec();
            let (_, mut body) = call(&mut client, SET, &settings, &[("authorization", "Bearer x.y.z")]).await;
            let (messages, trailers) = all(&mut body).await.expect("it is not reset");
            assert_eq!((messages.len(), code(&trailers)), (1, 0));
            let reply = SettingReply::decode(messages[0].as_slice()).expect("a reply");
            let refused: Vec<_> = reply.status.iter().map(|status| status.message.as_str()).collect();
            assert_eq!(refused, ["DPM_PRIV"; 2]);
            for (path, message, headers, expected) in [
                ("/services.daq.DAQ/Nothing", list(&[]), &[][..], 12),
                ("/dpm.DPM/OpenSession", list(&[]), &[], 12),
                (READ, vec![0x0a, 9, 1], &[], 13),
                (READ, vec![0x0a, 2, 0xff, 0xfe], &[], 13),
                (SET, vec![0x0b], &[], 13),
                (READ, list(&[]), &[("grpc-timeout", "soon")], 13),
                (READ, list(&["x"; 60_000]), &[], 8),
                (READ, vec![0; (4 << 20) + 1], &[], 8),
                (READ, list(&["G:COUNTR@p,100"]), &[("grpc-timeout", "0m")], 4),
            ] {
                let (head, mut body) = call(&mut client, path, &message, headers).await;
                let trailers = match head.headers.contains_key("grpc-status") {
                    true => head.headers.clone(),
                    false => all(&mut body).await.expect("it is not reset").1,
                };
                assert_eq!(code(&trailers), expected, "{path} {headers:?}");
            }
            // An empty list is over at once; a cancelled stream leaves nothing behind.
            let (_, mut body) = call(&mut client, READ, &list(&[]), &[]).await;
            assert_eq!(code(&all(&mut body).await.expect("it is not reset").1), 0);
            wait_for(&lists, 0).await;
            let (_, body) = call(&mut client, READ, &list(&["G:COUNTR@p,100"]), &[]).await;
            wait_for(&lists, 1).await;
            drop(body);
            wait_for(&lists, 0).await;
            // Neither does a lost connection.
            let (_, _body) = call(&mut client, READ, &list(&["G:COUNTR@p,100"]), &[]).await;
            wait_for(&lists, 1).await;
        });
        // The runtime has ended, and with it the connection.
        on_runtime(wait_for(&lists, 0));
    });
}

#[test]
fn requests_that_are_not_grpc_are_refused_as_http_says() {
    with_service(|address, _| {
        on_runtime(async move {
            let mut client = connect(address).await;
            for (method, kind, status) in [
                ("GET", "application/grpc", StatusCode::METHOD_NOT_ALLOWED),
                ("POST", "text/plain", StatusCode::UNSUPPORTED_MEDIA_TYPE),
                ("POST", "application/grpc-web", StatusCode::UNSUPPORTED_MEDIA_TYPE),
            ] {
                client = client.ready().await.expect("a place");
                let request =
                    Request::builder().method(method).uri(format!("http://dpm{READ}")).header("content-type", kind);
                let (response, _) =
                    client.send_request(request.body(()).expect("a request"), true).expect("it is sent");
                assert_eq!(response.await.expect("a response").status(), status);
            }
            // A connection with bytes other than HTTP/2, and a silent one, are ended.
            use std::io::{Read, Write};
            let mut stream = std::net::TcpStream::connect(address).expect("a connection");
            stream.write_all(b"GET /dpm HTTP/1.1\r\n\r\n").expect("it is sent");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
            let mut said = Vec::new();
            let _ = stream.read_to_end(&mut said);
            assert!(said.len() < 200, "{said:?}");
            // Other connections are still served.
            let (_, mut body) = call(&mut client, READ, &list(&["M:OUTTMP@I"]), &[]).await;
            assert_eq!(all(&mut body).await.expect("it is not reset").0.len(), 1);
        });
    });
}

#[test]
fn a_client_that_does_not_read_harms_nobody() {
    with_service(|address, lists| {
        on_runtime(async move {
            let mut slow = connect(address).await;
            let requests: Vec<String> = (0..500).map(|n| format!("B:ARRAY[]@p,{}", 50 + n % 5)).collect();
            let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
            let (_, stuck) = call(&mut slow, READ, &list(&requests), &[]).await;
            let mut quick = connect(address).await;
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let (_, mut body) = call(&mut quick, READ, &list(&["M:OUTTMP@I"]), &[]).await;
                assert_eq!(all(&mut body).await.expect("it is not reset").0.len(), 1);
                // So is the same connection, as far as its own window allows.
                assert!(lists.load(Ordering::Relaxed) >= 1);
            }
            drop(stuck);
        });
    });
}

#[test]
fn connections_and_calls_have_bounds_for_each_address() {
    let options = ServiceOptions { grpc_clients_of_address: 3, grpc_calls_of_address: 2, ..ServiceOptions::default() };
    with_options(options, |address, lists| {
        let is_closed = |stream: &mut std::net::TcpStream| {
            use std::io::Read;
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
            matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_))
        };
        let idle: Vec<_> = (0..2).map(|_| std::net::TcpStream::connect(address).expect("a connection")).collect();
        on_runtime(async move {
            let mut client = connect(address).await;
            let mut fourth = std::net::TcpStream::connect(address).expect("a connection");
            assert!(is_closed(&mut fourth), "an address gets three connections");
            let mut other = connect_from([127, 0, 0, 2].into(), address).await;
            let (_, _one) = call(&mut client, READ, &list(&["G:COUNTR@p,100"]), &[]).await;
            let (_, _two) = call(&mut client, READ, &list(&["G:COUNTR@p,100"]), &[]).await;
            wait_for(&lists, 2).await;
            let (head, _) = call(&mut client, READ, &list(&["M:OUTTMP@I"]), &[]).await;
            assert_eq!(code(&head.headers), 8);
            let (_, mut body) = call(&mut other, READ, &list(&["M:OUTTMP@I"]), &[]).await;
            assert_eq!(all(&mut body).await.expect("it is not reset").0.len(), 1);
            drop(idle);
        });
        // All of that is freed: sooner or later a connection from this address is accepted again.
        let is_greeted = || {
            use std::io::{Read, Write};
            let mut stream = std::net::TcpStream::connect(address).expect("a connection");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
            let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
            stream.write_all(preface).is_ok() && matches!(stream.read(&mut [0; 9]), Ok(1..))
        };
        while !is_greeted() {
            thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn messages_have_a_bound_in_bytes_for_each_address() {
    with_options(ServiceOptions { grpc_bytes_of_address: 3 << 20, ..ServiceOptions::default() }, |address, _| {
        on_runtime(async move {
            // Two messages of two megabytes that never end exceed the bound together, so one of
            // them is refused.
            let begin = async || {
                let mut client = connect(address).await;
                client = client.ready().await.expect("a place");
                let request = Request::builder().method("POST").uri(format!("http://dpm{READ}"));
                let request = request.header("content-type", "application/grpc").body(()).expect("a request");
                let (response, mut stream) = client.send_request(request, false).expect("it is sent");
                let head = [&[0][..], &(4u32 << 20).to_be_bytes()].concat();
                let mut bytes = Bytes::from([head, vec![0; 2 << 20]].concat());
                while !bytes.is_empty() {
                    stream.reserve_capacity(bytes.len());
                    let Some(Ok(capacity)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { break };
                    if stream.send_data(bytes.split_to(capacity.min(bytes.len())), false).is_err() {
                        break;
                    }
                }
                (client, response, stream)
            };
            let (_first, mut first, _held) = begin().await;
            let (_second, mut second, _open) = begin().await;
            let refused = poll_fn(|cx| match Pin::new(&mut first).poll(cx) {
                Poll::Pending => Pin::new(&mut second).poll(cx),
                ready => ready,
            });
            let refused = refused.await;
            assert_eq!(code(&refused.expect("a response").headers().clone()), 8);
            let mut other = connect_from([127, 0, 0, 2].into(), address).await;
            let (_, mut body) = call(&mut other, READ, &list(&["M:OUTTMP@I"]), &[]).await;
            assert_eq!(all(&mut body).await.expect("it is not reset").0.len(), 1);
        });
    });
}

#[test]
fn connections_without_calls_end() {
    with_options(ServiceOptions { grpc_idle: 300, ..ServiceOptions::default() }, |address, _| {
        on_runtime(async move {
            let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
            let (mut client, connection) = h2::client::handshake(stream).await.expect("a handshake");
            let connection = tokio::spawn(connection);
            // A long call keeps the connection.
            let (_, mut body) = call(&mut client, READ, &list(&["G:COUNTR@p,100"]), &[("grpc-timeout", "2S")]).await;
            let (messages, trailers) = all(&mut body).await.expect("it is not reset");
            assert!(messages.len() > 10, "{}", messages.len());
            assert_eq!(code(&trailers), 4);
            connection.await.expect("no panic").expect("it ends in order");
        });
    });
}

#[test]
fn calls_that_take_nothing_end() {
    with_options(ServiceOptions { stuck: 300, ..ServiceOptions::default() }, |address, lists| {
        on_runtime(async move {
            let mut client = connect(address).await;
            let requests: Vec<String> = (0..500).map(|n| format!("B:ARRAY[]@p,{}", 50 + n % 5)).collect();
            let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
            let (_, _stuck) = call(&mut client, READ, &list(&requests), &[]).await;
            wait_for(&lists, 1).await;
            wait_for(&lists, 0).await;
        });
    });
}

/// Starts front-ends and a service, and passes the service's address and the current number of
/// lists to a test.
fn with_service(test: impl FnOnce(SocketAddr, Arc<AtomicUsize>)) {
    with_options(ServiceOptions::default(), test);
}

fn with_options(options: ServiceOptions, test: impl FnOnce(SocketAddr, Arc<AtomicUsize>)) {
    let read = || Database::read(DEMO).expect("a good file");
    let stop = Arc::new(AtomicBool::new(false));
    let front = SimulatorFront::open(LOCAL, Simulator::new(read())).expect("a free port");
    let database = read().with_nodes_at(front.address().expect("an address"));
    let settings = ServeSettings { clients: vec![LOCAL], front_ends: LOCAL, options };
    let server = DpmServer::open(settings, Arc::new(database)).expect("free ports");
    let archive = HistoryArchive::in_memory(HistoryBounds::default()).expect("memory");
    let server = server.with_history(archive).expect("a thread").with_grpc(LOCAL, None).expect("a free port");
    let address = server.grpc_address().expect("gRPC");
    let lists = Arc::new(AtomicUsize::new(usize::MAX));
    let (front_stop, server_stop, told) = (Arc::clone(&stop), Arc::clone(&stop), Arc::clone(&lists));
    let front = thread::spawn(move || front.run(|| front_stop.load(Ordering::Relaxed)));
    let server = thread::spawn(move || {
        server.run(|dpm, _| {
            told.store(dpm.statistics().lists, Ordering::Relaxed);
            server_stop.load(Ordering::Relaxed)
        })
    });
    test(address, lists);
    stop.store(true, Ordering::Relaxed);
    front.join().expect("no panic").expect("no error");
    server.join().expect("no panic").expect("no error");
}

fn on_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("it ends") });
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    connect_from([127, 0, 0, 1].into(), address).await
}

async fn connect_from(from: IpAddr, address: SocketAddr) -> SendRequest<Bytes> {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind((from, 0).into()).expect("an address of this machine");
    let stream = socket.connect(address).await.expect("a connection");
    let (client, connection) = h2::client::handshake(stream).await.expect("a handshake");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

/// Calls a method with a message, in pieces as the service reads them. The answer is also returned
/// if the service ends the call early.
async fn call(
    client: &mut SendRequest<Bytes>,
    path: &str,
    message: &[u8],
    headers: &[(&str, &str)],
) -> (http::response::Parts, RecvStream) {
    *client = client.clone().ready().await.expect("a place");
    let mut request = Request::builder()
        .method("POST")
        .uri(format!("http://dpm{path}"))
        .header("content-type", "application/grpc+proto");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (response, mut stream) = client.send_request(request.body(()).expect("a request"), false).expect("it is sent");
    let mut bytes = Bytes::from(frame(message));
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let Some(Ok(capacity)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { break };
        let piece = bytes.split_to(capacity.min(bytes.len()));
        if stream.send_data(piece, bytes.is_empty()).is_err() {
            break;
        }
    }
    let (head, body) = response.await.expect("a response").into_parts();
    (head, body)
}

/// Returns all messages of a stream, and its trailers.
async fn all(body: &mut RecvStream) -> Result<(Vec<Vec<u8>>, HeaderMap), Reason> {
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| error.reason().unwrap_or(Reason::INTERNAL_ERROR))?;
        bytes.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len()).expect("it was taken");
    }
    let trailers = body.trailers().await.expect("trailers").unwrap_or_default();
    let (mut rest, mut messages) = (bytes.as_slice(), Vec::new());
    while let Some(([0, length @ ..], after)) = rest.split_first_chunk::<5>() {
        let (message, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        messages.push(message.to_vec());
        rest = after;
    }
    assert!(rest.is_empty());
    Ok((messages, trailers))
}

async fn wait_for(lists: &AtomicUsize, count: usize) {
    while lists.load(Ordering::Relaxed) != count {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn list(requests: &[&str]) -> Vec<u8> {
    ReadingList { drf: requests.iter().map(|request| (*request).to_owned()).collect() }.encode_to_vec()
}

fn code(trailers: &HeaderMap) -> u32 {
    trailers["grpc-status"].to_str().expect("text").parse().expect("a number")
}

const READ: &str = "/services.daq.DAQ/Read";
const SET: &str = "/services.daq.DAQ/Set";
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
