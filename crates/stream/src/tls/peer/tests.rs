//! Tests handshakes of two servers, one of which may be an impostor.

use rustls::sign::CertifiedKey;

use super::*;
use crate::tls::client::ClientTls;
use crate::tls::{ServerTls, TlsError, certificate};

fn identity(names: &[&str]) -> Identity {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = certificate::self_signed(&names, 1_800_000_000).unwrap();
    Identity::from_pem(&names, made.certificate.as_bytes(), made.key.as_bytes()).unwrap()
}

fn settings(identities: &[Identity]) -> PeerSettings {
    let domains: Vec<String> = identities.iter().flat_map(|identity| identity.domains().to_vec()).collect();
    PeerSettings::new(identities, &domains).unwrap()
}

/// Returns the certificate of one server, which is public, with the key of another.
fn steal(shown: &Identity, own: &Identity) -> Arc<SingleCertAndKey> {
    let key = CertifiedKey::new(shown.key().cert.clone(), own.key().key.clone());
    Arc::new(SingleCertAndKey::from(key))
}

/// Returns the chain that each end has been shown, or the first error.
fn shake(calling: &ClientSettings, accepting: &TlsSettings, domain: &str) -> Result<[Vec<Vec<u8>>; 2], TlsError> {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut client = ClientTls::connect(calling, domain, &mut to_server)?;
    let mut server = ServerTls::accept_server(accepting)?;
    for _ in 0..10 {
        let mut bytes = std::mem::take(&mut to_server);
        server.read(&mut bytes, &mut Vec::new(), &mut to_client)?;
        let mut bytes = std::mem::take(&mut to_client);
        client.read(&mut bytes, &mut Vec::new(), &mut to_server)?;
    }
    let of = |chain: Vec<&[u8]>| chain.into_iter().map(<[u8]>::to_vec).collect();
    Ok([of(server.chain()), of(client.chain())])
}

fn leaf(identity: &Identity) -> Vec<u8> {
    identity.key().cert[0].to_vec()
}

#[test]
fn each_side_is_shown_the_certificate_of_the_other() {
    let (a, b) = (identity(&["a.example"]), identity(&["b.example"]));
    let (calling, accepting) = (settings(std::slice::from_ref(&a)), settings(std::slice::from_ref(&b)));
    let shown = shake(calling.connecting("a.example"), accepting.accepting(None), "b.example").unwrap();
    assert_eq!(shown, [vec![leaf(&a)], vec![leaf(&b)]]);
}

/// A certificate is public: a peer that shows it must have its key, on either side and in either
/// version.
#[test]
fn a_certificate_without_its_key_ends_the_handshake() {
    let (a, b, thief) = (identity(&["a.example"]), identity(&["b.example"]), identity(&["thief.example"]));
    let (own, peers) = (settings(std::slice::from_ref(&a)), settings(std::slice::from_ref(&b)));
    for version in [&TLS13, &TLS12] {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let calling = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustsAnyone { provider: provider.clone() }))
            .with_client_cert_resolver(steal(&a, &thief));
        let calling = ClientSettings::from_config(calling);
        assert!(shake(&calling, peers.accepting(None), "b.example").is_err(), "{version:?}: as a client");
        let accepting = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(steal(&b, &thief));
        let accepting = TlsSettings::from_config(accepting);
        assert!(shake(own.connecting("a.example"), &accepting, "b.example").is_err(), "{version:?}: as a server");
    }
}

/// Two ends of a connection between servers.
struct PeerPair {
    client: ClientTls,
    server: ServerTls,
}

impl PeerPair {
    /// Completes a handshake, and delivers the data that both send afterwards.
    fn shake(calling: &ClientSettings, accepting: &TlsSettings, domain: &str) -> Self {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut client = ClientTls::connect(calling, domain, &mut to_server).unwrap();
        let mut server = ServerTls::accept_server(accepting).unwrap();
        for _ in 0..10 {
            let mut bytes = std::mem::take(&mut to_server);
            server.read(&mut bytes, &mut Vec::new(), &mut to_client).unwrap();
            let mut bytes = std::mem::take(&mut to_client);
            client.read(&mut bytes, &mut Vec::new(), &mut to_server).unwrap();
        }
        assert!(!client.handshaking() && !server.handshaking());
        Self { client, server }
    }

    fn is_resumed(&self) -> bool {
        assert_eq!(self.client.is_resumed(), self.server.is_resumed());
        self.client.is_resumed()
    }

    fn certificates_shown(&self) -> [Vec<&[u8]>; 2] {
        [self.server.chain(), self.client.chain()]
    }
}

/// The certificates of both are there to be judged, each time.
#[test]
fn a_session_is_resumed_and_shows_the_certificates_again() {
    let (a, b) = (identity(&["a.example"]), identity(&["b.example"]));
    let (calling, accepting) = (settings(std::slice::from_ref(&a)), settings(std::slice::from_ref(&b)));
    for number in 0..4 {
        let pair = PeerPair::shake(calling.connecting("a.example"), accepting.accepting(None), "b.example");
        assert_eq!(pair.is_resumed(), number > 0);
        assert_eq!(pair.certificates_shown(), [vec![&leaf(&a)[..]], vec![&leaf(&b)[..]]]);
    }
}

/// A session belongs to one server and one certificate of ours, and is used with no others.
#[test]
fn a_session_is_resumed_by_nobody_else_and_with_nobody_else() {
    let (a, other) = (identity(&["a.example"]), identity(&["other.example"]));
    let (b, c) = (identity(&["b.example"]), identity(&["c.example"]));
    let calling = settings(&[a.clone(), other.clone()]);
    let accepting = settings(&[b.clone(), c.clone()]);
    let of_b = accepting.accepting(Some("b.example"));
    let first = PeerPair::shake(calling.connecting("a.example"), of_b, "b.example");
    assert!(!first.is_resumed());
    // These connections are in the name of another domain, to another domain, and to another
    // machine that says it is B.
    let pair = PeerPair::shake(calling.connecting("other.example"), of_b, "b.example");
    assert!(!pair.is_resumed() && pair.certificates_shown()[0] == [leaf(&other)]);
    let pair = PeerPair::shake(calling.connecting("a.example"), accepting.accepting(Some("c.example")), "c.example");
    assert!(!pair.is_resumed() && pair.certificates_shown() == [vec![&leaf(&a)[..]], vec![&leaf(&c)[..]]]);
    let liar = settings(&[identity(&["b.example"])]);
    let pair = PeerPair::shake(calling.connecting("a.example"), liar.accepting(None), "b.example");
    assert!(
        !pair.is_resumed() && pair.certificates_shown()[0] == [leaf(&a)] && pair.certificates_shown()[1] != [leaf(&b)]
    );
    // A ticket of the clients' port admits nobody either.
    let clients = TlsSettings::new(vec![b.clone()]).unwrap();
    let calling = ClientSettings::trusting_anyone(super::super::client::Newest::Tls13, &[], true).unwrap();
    for _ in 0..2 {
        PeerPair::shake(&calling, &clients, "b.example");
    }
    let pair = PeerPair::shake(&calling, of_b, "b.example");
    assert!(!pair.is_resumed() && pair.server.chain().is_empty());
}

/// New certificates of ours, as after a reload, begin without sessions.
#[test]
fn new_settings_resume_no_old_session() {
    let (a, b) = (identity(&["a.example"]), identity(&["b.example"]));
    let (calling, accepting) = (settings(std::slice::from_ref(&a)), settings(std::slice::from_ref(&b)));
    PeerPair::shake(calling.connecting("a.example"), accepting.accepting(None), "b.example");
    let renewed = settings(std::slice::from_ref(&b));
    let pair = PeerPair::shake(calling.connecting("a.example"), renewed.accepting(None), "b.example");
    assert!(!pair.is_resumed());
    let renewed = settings(std::slice::from_ref(&a));
    let pair = PeerPair::shake(renewed.connecting("a.example"), accepting.accepting(None), "b.example");
    assert!(!pair.is_resumed());
}

/// Some servers end a handshake that brings back a certificate: they are asked for that three times
/// at most.
#[test]
fn a_server_that_cannot_resume_is_greeted_as_a_stranger() {
    let (a, b) = (identity(&["a.example"]), identity(&["b.example"]));
    let (calling, accepting) = (settings(std::slice::from_ref(&a)), settings(std::slice::from_ref(&b)));
    let calling = calling.connecting("a.example");
    let hello = || {
        let mut hello = Vec::new();
        ClientTls::connect(calling, "b.example", &mut hello).unwrap();
        hello.len()
    };
    let fresh = hello();
    let mut refused = 0;
    for _ in 0..20 {
        // A session in it, of which nothing comes, makes it longer (RFC 8446 §4.2.11).
        refused += usize::from(hello() > fresh + 100);
        let pair = PeerPair::shake(calling, accepting.accepting(None), "b.example");
        assert!(!pair.is_resumed());
    }
    assert!((1..=3).contains(&refused), "{refused}");
}

/// A ticket holds the caller's chain, which is a stranger's: the longest one harms nobody.
#[test]
fn the_longest_chain_that_is_read_fits_or_is_refused() {
    let (a, b) = (identity(&["a.example"]), identity(&["b.example"]));
    let accepting = settings(std::slice::from_ref(&b));
    let size = leaf(&a).len() + 5;
    for room in [60_000, 64_000, 65_000, 65_300, 65_500, 70_000] {
        let chain = vec![a.key().cert[0].clone(); room / size];
        let key = CertifiedKey::new(chain, a.key().key.clone());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let calling = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustsAnyone { provider }))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::new(key))));
        let calling = ClientSettings::from_config(calling);
        for _ in 0..3 {
            // Any error is a TLS error: nothing panics, on either side.
            _ = shake(&calling, accepting.accepting(None), "b.example");
        }
    }
}

/// The name in the handshake decides which certificate is shown or, if there is none, the name in
/// the stream's header.
#[test]
fn each_host_shows_its_own_certificate() {
    let domain = identity(&["example.org"]);
    let rooms = identity(&["conference.example.org"]);
    let accepting = settings(&[domain.clone(), rooms.clone()]);
    let caller = identity(&["a.example"]);
    let calling = settings(&[caller]);
    let shown = |asked: Option<&str>, named: &str| {
        shake(calling.connecting("a.example"), accepting.accepting(asked), named).unwrap()[1].clone()
    };
    assert_eq!(shown(None, "conference.example.org"), [leaf(&rooms)]);
    assert_eq!(shown(None, "example.org"), [leaf(&domain)]);
    // No domain here has this name, as with a peer that sends none: the header decides.
    assert_eq!(shown(Some("conference.example.org"), "192.0.2.1"), [leaf(&rooms)]);
    assert_eq!(shown(Some("example.org"), "192.0.2.1"), [leaf(&domain)]);
}
