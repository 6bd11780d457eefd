//! Tests a server against a client in memory, and against bytes that aren't TLS.

use std::sync::OnceLock;

use proptest::prelude::*;
use rustls::pki_types::ServerName;

use super::client::{ClientSettings, ClientTls, Newest};
use super::*;

fn domains(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn identity(names: &[&str]) -> Identity {
    let made = certificate::self_signed(&domains(names), 1_800_000_000).unwrap();
    Identity::from_pem(&domains(names), made.certificate.as_bytes(), made.key.as_bytes()).unwrap()
}

/// Returns settings for two domains with a certificate each.
fn settings() -> &'static TlsSettings {
    static SETTINGS: OnceLock<TlsSettings> = OnceLock::new();
    SETTINGS.get_or_init(|| TlsSettings::new(vec![identity(&["example.org"]), identity(&["example.net"])]).unwrap())
}

fn client(newest: Newest) -> ClientSettings {
    ClientSettings::trusting_anyone(newest, &[], true).unwrap()
}

/// Both ends, with the bytes that are under way.
struct TlsPair {
    server: ServerTls,
    client: ClientTls,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    at_server: Vec<u8>,
    at_client: Vec<u8>,
    /// The most bytes that a call gets.
    piece: usize,
    established: usize,
    closed: usize,
}

impl TlsPair {
    fn new(settings: &ClientSettings, domain: &str, piece: usize) -> TlsPair {
        let mut to_server = Vec::new();
        let client = ClientTls::connect(settings, domain, &mut to_server).unwrap();
        let server = ServerTls::accept(self::settings()).unwrap();
        let [to_client, at_server, at_client] = [(); 3].map(|()| Vec::new());
        TlsPair { server, client, to_server, to_client, at_server, at_client, piece, established: 0, closed: 0 }
    }

    /// Returns a pair that has completed its handshake.
    fn open(settings: &ClientSettings, domain: &str) -> TlsPair {
        let mut pair = TlsPair::new(settings, domain, usize::MAX);
        pair.deliver().unwrap();
        assert!(!pair.server.handshaking() && !pair.client.handshaking());
        pair
    }

    /// Delivers until nothing is under way.
    fn deliver(&mut self) -> Result<(), TlsError> {
        while !self.to_server.is_empty() || !self.to_client.is_empty() {
            for piece in std::mem::take(&mut self.to_server).chunks_mut(self.piece) {
                let progress = self.server.read(piece, &mut self.at_server, &mut self.to_client)?;
                self.established += usize::from(progress.established);
                self.closed += usize::from(progress.closed);
            }
            for piece in std::mem::take(&mut self.to_client).chunks_mut(self.piece) {
                let progress = self.client.read(piece, &mut self.at_client, &mut self.to_server)?;
                self.established += usize::from(progress.established);
                self.closed += usize::from(progress.closed);
            }
        }
        Ok(())
    }

    fn send_both_ways(&mut self, bytes: &[u8]) {
        self.client.write(bytes, &mut self.to_server).unwrap();
        self.server.write(bytes, &mut self.to_client).unwrap();
        self.deliver().unwrap();
        assert!(std::mem::take(&mut self.at_server) == bytes && std::mem::take(&mut self.at_client) == bytes);
    }
}

#[test]
fn both_versions() {
    for (newest, version) in [(Newest::Tls12, "TLSv1_2"), (Newest::Tls13, "TLSv1_3")] {
        let mut pair = TlsPair::open(&client(newest), "example.org");
        assert_eq!(pair.established, 2);
        assert_eq!(pair.server.version(), Some(version));
        assert!(pair.server.cipher().unwrap().contains("AES"));
        assert_eq!(pair.server.sni(), Some("example.org"));
        pair.send_both_ways(b"<presence/>");
        pair.send_both_ways(b"");
    }
}

#[test]
fn byte_by_byte() {
    for newest in [Newest::Tls12, Newest::Tls13] {
        let mut pair = TlsPair::new(&client(newest), "example.org", 1);
        pair.deliver().unwrap();
        assert_eq!(pair.established, 2);
        pair.send_both_ways(&[7; 1000]);
        assert_eq!(pair.server.0.records.carried_bytes(), 0, "an idle connection keeps no buffer");
    }
}

#[test]
fn many_records_in_one_buffer() {
    let mut pair = TlsPair::open(&client(Newest::Tls13), "example.org");
    for number in 0..500_u32 {
        pair.client.write(&number.to_be_bytes(), &mut pair.to_server).unwrap();
    }
    pair.deliver().unwrap();
    assert_eq!(pair.at_server, (0..500_u32).flat_map(u32::to_be_bytes).collect::<Vec<_>>());
}

#[test]
fn large_writes_become_full_records() {
    let plain: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    for newest in [Newest::Tls12, Newest::Tls13] {
        let mut pair = TlsPair::open(&client(newest), "example.org");
        let mut out = b"before".to_vec();
        pair.server.write(&plain, &mut out).unwrap();
        assert!(out.starts_with(b"before"), "appended");
        let records = 1_000_000_usize.div_ceil(16_384);
        assert!((plain.len() + records * 20..plain.len() + records * 40).contains(&out.len()));
        pair.piece = 65_536;
        pair.send_both_ways_after(out.split_off(6), &plain);
    }
}

impl TlsPair {
    /// Continues with bytes that the server has written elsewhere.
    fn send_both_ways_after(&mut self, written: Vec<u8>, plain: &[u8]) {
        self.to_client.extend(written);
        self.deliver().unwrap();
        assert!(std::mem::take(&mut self.at_client) == plain);
        self.send_both_ways(plain);
    }
}

#[test]
fn close_notify_ends_one_direction() {
    for newest in [Newest::Tls12, Newest::Tls13] {
        let mut pair = TlsPair::open(&client(newest), "example.org");
        pair.client.write(b"last", &mut pair.to_server).unwrap();
        pair.client.close_notify(&mut pair.to_server);
        pair.deliver().unwrap();
        assert_eq!((pair.closed, &pair.at_server[..]), (1, &b"last"[..]));
        // The server may still answer, and close in turn.
        pair.server.write(b"bye", &mut pair.to_client).unwrap();
        pair.server.close_notify(&mut pair.to_client);
        pair.deliver().unwrap();
        assert_eq!((pair.closed, &pair.at_client[..]), (2, &b"bye"[..]));
        assert_eq!(pair.server.write(b"more", &mut Vec::new()), Err(TlsError::NotOpen));
    }
}

#[test]
fn nothing_is_written_before_the_handshake() {
    let mut server = ServerTls::accept(settings()).unwrap();
    let mut out = Vec::new();
    assert_eq!(server.write(b"early", &mut out), Err(TlsError::NotOpen));
    server.close_notify(&mut out);
    assert!(out.is_empty() && server.bindings().is_empty());
}

#[test]
fn garbage_gets_an_alert() {
    for garbage in [&b"<?xml version='1.0'?><stream:stream>"[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 100], &[0x16; 64]] {
        let mut server = ServerTls::accept(settings()).unwrap();
        let mut out = Vec::new();
        let error = server.read(&mut garbage.to_vec(), &mut Vec::new(), &mut out).unwrap_err();
        assert!(matches!(error, TlsError::PeerMisbehaved(_)), "{error}");
        assert_eq!(out.first(), Some(&21), "an alert record");
    }
}

#[test]
fn altered_records_get_an_alert() {
    let mut pair = TlsPair::open(&client(Newest::Tls13), "example.org");
    pair.client.write(b"good", &mut pair.to_server).unwrap();
    let good = pair.to_server.len();
    pair.client.write(b"altered", &mut pair.to_server).unwrap();
    pair.to_server[good + 8] ^= 1;
    let error = pair.deliver().unwrap_err();
    assert!(matches!(error, TlsError::PeerMisbehaved(_)), "{error}");
    assert_eq!(pair.at_server, b"good");
    let error = pair.client.read(&mut pair.to_client, &mut pair.at_client, &mut Vec::new()).unwrap_err();
    assert_eq!(error, TlsError::PeerRefused("BadRecordMac".into()));
}

#[test]
fn unfinished_handshake_messages_are_bounded() {
    let mut server = ServerTls::accept(settings()).unwrap();
    // A ClientHello that claims 60 000 bytes, in records of 1000.
    let mut record = vec![0x16, 3, 1, 0x03, 0xe8];
    record.resize(1005, 0);
    let mut first = record.clone();
    first[5..9].copy_from_slice(&[1, 0, 0xea, 0x60]);
    assert_eq!(server.read(&mut first, &mut Vec::new(), &mut Vec::new()), Ok(TlsProgress::default()));
    let feed = |_| server.read(&mut record.clone(), &mut Vec::new(), &mut Vec::new()).err();
    assert_eq!((0..100).find_map(feed), Some(TlsError::TooBig));
}

/// Both ends agree on the bindings, and with the exporter of rustls's own buffered connection.
#[test]
fn bindings_agree() {
    let pair = TlsPair::open(&client(Newest::Tls13), "example.org");
    let bindings = pair.server.bindings();
    assert!(bindings.exporter.is_some());
    assert_eq!(bindings.server_end_point.as_ref().map(Vec::len), Some(32));
    assert_eq!(bindings, pair.client.bindings());
    let other = TlsPair::open(&client(Newest::Tls13), "example.org");
    assert_ne!(bindings.exporter, other.server.bindings().exporter, "another connection, another value");
    let old = TlsPair::open(&client(Newest::Tls12), "example.org");
    assert_eq!(old.server.bindings().exporter, None);
    assert_eq!(old.server.bindings(), old.client.bindings());
}

#[test]
fn exporter_is_the_one_of_rustls() {
    use rustls::crypto::aws_lc_rs::cipher_suite::{TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
    for suite in [TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256] {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites = vec![suite];
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(client::trusts_anyone_for_tests())
            .with_no_client_auth();
        let name = ServerName::try_from("example.org").unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server = ServerTls::accept(settings()).unwrap();
        while server.handshaking() {
            let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
            client.write_tls(&mut to_server).unwrap();
            server.read(&mut to_server, &mut Vec::new(), &mut to_client).unwrap();
            client.read_tls(&mut &to_client[..]).unwrap();
            client.process_new_packets().unwrap();
        }
        let expected = client.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b"")).unwrap();
        assert_eq!(server.bindings().exporter, Some(expected));
    }
}

#[test]
fn handshake_facts_can_be_dropped() {
    let mut pair = TlsPair::open(&client(Newest::Tls13), "example.org");
    pair.server.forget_handshake();
    assert!(pair.server.bindings().is_empty() && pair.server.sni().is_none());
    pair.send_both_ways(b"goes on");
}

#[test]
fn tickets_resume() {
    for newest in [Newest::Tls12, Newest::Tls13] {
        let client = client(newest);
        let first = TlsPair::open(&client, "example.org");
        assert!(!first.server.is_resumed());
        let mut second = TlsPair::open(&client, "example.org");
        assert!(second.server.is_resumed() && second.client.is_resumed());
        assert_eq!(second.server.bindings(), second.client.bindings());
        assert!(second.server.bindings().server_end_point.is_some());
        second.send_both_ways(b"resumed");
    }
}

#[test]
fn sni_chooses_the_certificate() {
    let client = client(Newest::Tls13);
    let shown = |domain| {
        let pair = TlsPair::open(&client, domain);
        assert_eq!(pair.server.bindings(), pair.client.bindings());
        let der = pair.client.server_certificate().unwrap().to_vec();
        certificate::inspect_der(&der).unwrap().names
    };
    assert_eq!(shown("example.org"), ["example.org"]);
    assert_eq!(shown("EXAMPLE.net"), ["example.net"]);
    assert_eq!(shown("unknown.example"), ["example.org"], "the first one answers for strangers");
    assert_eq!(TlsPair::open(&client, "127.0.0.1").server.sni(), None);
}

#[test]
fn alpn() {
    let offering = |protocols: &[&[u8]]| ClientSettings::trusting_anyone(Newest::Tls13, protocols, false).unwrap();
    let pair = TlsPair::open(&offering(&[b"h2", b"xmpp-client"]), "example.org");
    assert_eq!(pair.server.alpn(), Some(&b"xmpp-client"[..]));
    assert_eq!(pair.client.alpn(), pair.server.alpn());
    assert_eq!(TlsPair::open(&offering(&[]), "example.org").server.alpn(), None);
    let mut web = TlsPair::new(&offering(&[b"h2"]), "example.org", usize::MAX);
    assert!(matches!(web.deliver(), Err(TlsError::PeerIncompatible(_))));
    assert!(!web.to_client.is_empty(), "the alert");
}

#[test]
fn settings_name_what_is_wrong() {
    let made = |name| certificate::self_signed(&domains(&[name]), 1_800_000_000).unwrap();
    let (one, two) = (made("example.org"), made("example.net"));
    let load =
        |chain: &str, key: &str| Identity::from_pem(&domains(&["example.org"]), chain.as_bytes(), key.as_bytes());
    assert!(matches!(load(&one.certificate, &two.key), Err(SettingsError::KeyMismatch)));
    assert!(matches!(load(&one.key, &one.key), Err(SettingsError::BadCertificate(_))));
    assert!(matches!(load(&one.certificate, &one.certificate), Err(SettingsError::BadKey(_))));
    assert!(matches!(TlsSettings::new(Vec::new()), Err(SettingsError::NoIdentity)));
    let missing = Identity::load(&[], "/nonexistent/chain.pem".as_ref(), "/nonexistent/key.pem".as_ref(), |path| {
        std::fs::read(path)
    });
    assert!(missing.unwrap_err().to_string().contains("/nonexistent/chain.pem"));
}

proptest! {
    /// Any alteration on the way, cut in any manner, leads to bytes or an error, never to a panic.
    #[test]
    fn altered_handshakes_never_panic(
        tls12: bool,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        piece in 1..2000_usize,
        flight in 0..2,
        tail: Vec<u8>,
    ) {
        let newest = if tls12 { Newest::Tls12 } else { Newest::Tls13 };
        let mut pair = TlsPair::new(&client(newest), "example.org", piece);
        if flight == 1 {
            for part in std::mem::take(&mut pair.to_server).chunks_mut(piece) {
                pair.server.read(part, &mut pair.at_server, &mut pair.to_client).unwrap();
            }
            pair.client.read(&mut pair.to_client, &mut pair.at_client, &mut pair.to_server).unwrap();
            pair.to_client.clear();
        }
        for (place, byte) in edits {
            let place = place.index(pair.to_server.len());
            pair.to_server[place] = byte;
        }
        pair.to_server.extend(tail);
        let _ = pair.deliver();
        let mut out = Vec::new();
        let _ = pair.server.write(b"x", &mut out);
        pair.server.close_notify(&mut out);
    }
}
