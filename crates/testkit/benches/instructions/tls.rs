//! The server's end of an encrypted connection.

use std::hint::black_box;

use rookery_stream::tls::client::{ClientSettings, ClientTls, Newest};
use rookery_stream::tls::{Identity, ServerTls, TlsSettings, certificate};

/// The bytes of a message: about as many as a chat message has with its `to`.
const BYTES: usize = 300;
/// The number of messages that are written, each in a record.
const RECORDS: usize = 64;

/// Both ends, after their handshake.
pub struct Encrypted {
    server: ServerTls,
    client: ClientTls,
    out: Vec<u8>,
}

impl Encrypted {
    /// Returns a connection of TLS 1.3.
    pub fn open() -> Self {
        let domains = ["example.org".to_owned()];
        let made = certificate::self_signed(&domains, 1_800_000_000).expect("a certificate");
        let identity = Identity::from_pem(&domains, made.certificate.as_bytes(), made.key.as_bytes());
        let settings = TlsSettings::new(vec![identity.expect("an identity")]).expect("settings");
        let wanted = ClientSettings::trusting_anyone(Newest::Tls13, &[], false).expect("client settings");
        let (mut to_server, mut to_client, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        let mut client = ClientTls::connect(&wanted, "example.org", &mut to_server).expect("a client");
        let mut server = ServerTls::accept(&settings).expect("a server");
        while !to_server.is_empty() || !to_client.is_empty() {
            server.read(&mut std::mem::take(&mut to_server), &mut plain, &mut to_client).expect("TLS");
            client.read(&mut std::mem::take(&mut to_client), &mut plain, &mut to_server).expect("TLS");
        }
        server.forget_handshake();
        Self { server, client, out: Vec::with_capacity(2 * BYTES * RECORDS) }
    }

    /// Writes the messages.
    pub fn write(&mut self) {
        for _ in 0..RECORDS {
            self.server.write(black_box(&[b'x'; BYTES]), &mut self.out).expect("TLS");
        }
    }

    /// Panics unless the client can read every message.
    pub fn check(mut self) {
        let mut plain = Vec::new();
        self.client.read(&mut self.out, &mut plain, &mut Vec::new()).expect("TLS");
        assert_eq!(plain.len(), BYTES * RECORDS);
    }
}
