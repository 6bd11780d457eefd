//! Two servers shake hands, one of which may not be who it says.

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

/// Everybody's certificate of one with the key of another.
fn stolen(shown: &Identity, own: &Identity) -> Arc<SingleCertAndKey> {
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

/// A certificate is public: who shows it must have its key, on either side and in either version.
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
            .with_client_cert_resolver(stolen(&a, &thief));
        let calling = ClientSettings::from_config(calling);
        assert!(shake(&calling, peers.accepting(None), "b.example").is_err(), "{version:?}: as a client");
        let accepting = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(stolen(&b, &thief));
        let accepting = TlsSettings::from_config(accepting);
        assert!(shake(own.connecting("a.example"), &accepting, "b.example").is_err(), "{version:?}: as a server");
    }
}

/// A ticket would bring an identity back that nobody has judged again: there is none to be had, and
/// the second handshake shows the certificates as the first one did.
#[test]
fn no_session_is_resumed() {
    let (a, b) = (identity(&["a.example"]), identity(&["b.example"]));
    let ends = Ends::new(&BySni::new(vec![b.clone()]).unwrap(), &b).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    // A client that would resume.
    let calling = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustsAnyone { provider }))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(a.key())));
    let calling = ClientSettings::from_config(calling);
    for _ in 0..3 {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut client = ClientTls::connect(&calling, "b.example", &mut to_server).unwrap();
        let mut server = ServerTls::accept_server(&ends.accepting).unwrap();
        for _ in 0..5 {
            let mut bytes = std::mem::take(&mut to_server);
            server.read(&mut bytes, &mut Vec::new(), &mut to_client).unwrap();
            let mut bytes = std::mem::take(&mut to_client);
            client.read(&mut bytes, &mut Vec::new(), &mut to_server).unwrap();
        }
        assert!(!server.resumed() && !client.resumed() && server.chain() == [leaf(&a)]);
    }
}

/// The name of the handshake says which certificate is shown, and where there is none by that of
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
    // A name that nobody here has, as of a peer that sends none: the header decides.
    assert_eq!(shown(Some("conference.example.org"), "192.0.2.1"), [leaf(&rooms)]);
    assert_eq!(shown(Some("example.org"), "192.0.2.1"), [leaf(&domain)]);
}
