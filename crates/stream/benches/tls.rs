//! Measures the cost of TLS: run with `cargo bench -p rookery-stream --bench tls`.
//!
//! The memory of an idle session is measured twice. The growth of resident memory over many of
//! them is printed first: it is the true value, rounded by the allocator. `idle` drops a
//! connection after its handshake: what divan counts as deallocated is Rust's part of it, and the
//! rest belongs to the C library underneath.

use divan::{AllocProfiler, Bencher, black_box};
use rookery_stream::tls::client::{ClientSettings, ClientTls, Newest};
use rookery_stream::tls::{Identity, ServerTls, TlsSettings, certificate};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    // Skipped when the bench is only built and run once as a test.
    if std::env::args().any(|argument| argument == "--bench") {
        println!("resident memory per idle TLS 1.3 session: {} bytes", resident_per_session());
    }
    divan::main();
}

fn resident_per_session() -> usize {
    const WARM: usize = 1_000;
    const SESSIONS: usize = 8_000;
    let (settings, client) = (settings(), client(Newest::Tls13, false));
    let mut sessions = Vec::with_capacity(WARM + SESSIONS);
    let mut more = |count| {
        sessions.extend((0..count).map(|_| idle_session(&settings, &client)));
        resident()
    };
    let before = more(WARM);
    (more(SESSIONS) - before) / SESSIONS
}

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    let kibibytes: usize = line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    kibibytes * 1024
}

/// Returns the server's end of a session that has logged in.
fn idle_session(settings: &TlsSettings, client: &ClientSettings) -> ServerTls {
    let (mut server, _client) = open(settings, client);
    server.forget_handshake();
    server
}

fn settings() -> TlsSettings {
    let domains = ["example.org".to_owned()];
    let made = certificate::self_signed(&domains, 1_800_000_000).expect("a certificate");
    let identity = Identity::from_pem(&domains, made.certificate.as_bytes(), made.key.as_bytes()).expect("an identity");
    TlsSettings::new(vec![identity]).expect("settings")
}

fn client(newest: Newest, resume: bool) -> ClientSettings {
    ClientSettings::trusting_anyone(newest, &[], resume).expect("client settings")
}

/// Returns a pair that has completed its handshake.
fn open(settings: &TlsSettings, client: &ClientSettings) -> (ServerTls, ClientTls) {
    let (mut to_server, mut to_client, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let mut client = ClientTls::connect(client, "example.org", &mut to_server).expect("a client");
    let mut server = ServerTls::accept(settings).expect("a server");
    while !to_server.is_empty() || !to_client.is_empty() {
        server.read(&mut std::mem::take(&mut to_server), &mut plain, &mut to_client).expect("TLS");
        client.read(&mut std::mem::take(&mut to_client), &mut plain, &mut to_server).expect("TLS");
    }
    (server, client)
}

const VERSIONS: [&str; 2] = ["1.2", "1.3"];

fn newest(version: &str) -> Newest {
    if version == "1.2" { Newest::Tls12 } else { Newest::Tls13 }
}

/// Measures Rust's part of an idle session.
#[divan::bench(args = VERSIONS)]
fn idle(bencher: Bencher, version: &str) {
    let (settings, client) = (settings(), client(newest(version), false));
    bencher.with_inputs(|| idle_session(&settings, &client)).bench_values(drop);
}

/// Measures both sides of a full handshake.
#[divan::bench(args = VERSIONS)]
fn handshake(bencher: Bencher, version: &str) {
    let (settings, client) = (settings(), client(newest(version), false));
    bencher.bench(|| open(&settings, &client));
}

/// Measures the server's part of a full TLS 1.3 handshake up to its Finished, which is nearly all
/// of it.
#[divan::bench]
fn server_hello(bencher: Bencher) {
    let (settings, client) = (settings(), client(Newest::Tls13, false));
    let input = || {
        let mut hello = Vec::new();
        ClientTls::connect(&client, "example.org", &mut hello).expect("a client");
        hello
    };
    bencher.with_inputs(input).bench_values(|mut hello| {
        let mut server = ServerTls::accept(&settings).expect("a server");
        let mut out = Vec::new();
        server.read(&mut hello, &mut Vec::new(), &mut out).expect("TLS");
        (server, out)
    });
}

/// Measures the encryption of a record of a chat message.
#[divan::bench(args = [300, 3_000, 16_384])]
fn write(bencher: Bencher, bytes: usize) {
    let (settings, client) = (settings(), client(Newest::Tls13, false));
    let (mut server, _client) = open(&settings, &client);
    let plain = vec![b'x'; bytes];
    let mut out = Vec::with_capacity(32_768);
    bencher.bench_local(|| {
        out.clear();
        server.write(black_box(&plain), &mut out).expect("TLS");
    });
}

/// Measures the decryption of a record of a chat message.
#[divan::bench(args = [300, 3_000, 16_384])]
fn read(bencher: Bencher, bytes: usize) {
    let (settings, client) = (settings(), client(Newest::Tls13, false));
    let (mut server, client) = open(&settings, &client);
    let (message, client) = (vec![b'x'; bytes], std::cell::RefCell::new(client));
    let input = || {
        let mut record = Vec::new();
        client.borrow_mut().write(&message, &mut record).expect("TLS");
        record
    };
    let (mut plain, mut out) = (Vec::with_capacity(32_768), Vec::new());
    bencher.with_inputs(input).bench_local_refs(|record| {
        plain.clear();
        server.read(record, &mut plain, &mut out).expect("TLS");
    });
}
