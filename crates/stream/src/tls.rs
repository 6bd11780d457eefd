//! TLS by rustls, and the only module that names it.
//!
//! The *unbuffered* API of rustls decrypts in the buffer that the caller lends, so an idle
//! connection holds no buffer of its own, while the usual API always keeps 4 KiB. In exchange the
//! calls are more delicate, which is why they are all in `record`, written once for [`ServerTls`]
//! and [`client::ClientTls`].
//!
//! An idle TLS 1.3 session takes 2.15 KiB of Rust's heap and some 1.4 KiB that aws-lc allocates in
//! C for the two directions' cipher contexts, which counting allocators don't see: 3.6 KiB resident
//! (`cargo bench --bench tls` measures both).
//!
//! STARTTLS (RFC 6120 §5) and direct TLS (XEP-0368) look the same from here: bytes from the wire
//! go in, plain bytes and bytes to send come out.
//!
//! # Invariants
//!
//! - A carry exists only while a record is incomplete and never grows above [`MAX_CARRY`]. An idle
//!   connection has none.
//! - Any input from the peer results in bytes or in a [`TlsError`], with the alert to send already
//!   in `out`.
//! - No secret is kept for channel binding: the exporter value is derived while rustls hands its
//!   secret over.
//! - A [`TlsSettings`] never changes. Reloading certificates makes a new one; connections keep what
//!   they were accepted with.
//!
//! # Layout
//!
//! This file: [`ServerTls`], one connection. `settings`: the data that all connections share.
//! `record` drives rustls, `exporter` catches the values that rustls only shows in passing, `error`
//! says which side caused a failure. [`certificate`] makes and reads certificates, [`client`] is
//! the client's side, for other servers, load generators and tests. [`peer`] is TLS between
//! servers, [`sessions`] are those that are resumed there, [`trust`] judges the certificates that
//! they show.

pub mod certificate;
pub mod client;
mod error;
mod exporter;
pub mod peer;
mod record;
pub mod sessions;
mod settings;
pub mod trust;

use std::fmt;
use std::sync::Arc;

use rookery_sasl::ChannelBindings;
use rustls::HandshakeKind;
use rustls::server::UnbufferedServerConnection;

pub use error::TlsError;
pub use record::{MAX_CARRY, MAX_CHAIN, TlsProgress};
pub use settings::{Identity, Oldest, SettingsError, TlsSettings};

use record::Records;

/// The server's end of one TLS connection. One pointer wide.
pub struct ServerTls(Box<ServerTlsInner>);

struct ServerTlsInner {
    records: Records<UnbufferedServerConnection>,
    facts: Option<Box<HandshakeFacts>>,
}

/// Data of the handshake that only the following negotiation needs.
#[derive(Default)]
struct HandshakeFacts {
    exporter: Option<[u8; 32]>,
    server_end_point: Option<Arc<[u8]>>,
    sni: Option<Box<str>>,
    /// True if the peer is a server, whose certificate chain may take several records.
    shows_chain: bool,
}

impl ServerTls {
    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] if rustls finds the settings unusable, which [`TlsSettings::new`]
    /// would have found before.
    pub fn accept(settings: &TlsSettings) -> Result<ServerTls, TlsError> {
        let connection = UnbufferedServerConnection::new(settings.config())?;
        Ok(ServerTls(Box::new(ServerTlsInner { records: Records::new(connection), facts: None })))
    }

    /// Accepts a connection of another server, which is asked for its certificate: settings of
    /// [`peer::PeerSettings`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn accept_server(settings: &TlsSettings) -> Result<ServerTls, TlsError> {
        let mut tls = Self::accept(settings)?;
        tls.0.facts = Some(Box::new(HandshakeFacts { shows_chain: true, ..HandshakeFacts::default() }));
        Ok(tls)
    }

    /// Returns the certificates that the other server has shown, its own first; none if it has
    /// shown none. Nobody has judged them: see [`trust::Trust`].
    pub fn chain(&self) -> Vec<&[u8]> {
        peer::chain(self.0.records.side())
    }

    /// Takes bytes from the wire. Appends the decrypted ones to `plain`, and those that have to be
    /// sent in return (handshake, alerts, key updates) to `out`.
    ///
    /// `incoming` is used as scratch. All of it is consumed: an incomplete record at its end is
    /// kept until the rest comes.
    ///
    /// # Errors
    ///
    /// Any [`TlsError`] is final. Send `out`, which has the alert, then close the connection.
    /// `plain` may have got bytes that came before the fault.
    pub fn read(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<TlsProgress, TlsError> {
        let inner = &mut *self.0;
        if !inner.records.handshaking() {
            return inner.records.read(incoming, plain, out, MAX_CARRY);
        }
        let most = if inner.facts.as_ref().is_some_and(|facts| facts.shows_chain) { MAX_CHAIN } else { MAX_CARRY };
        let (result, seen) = exporter::capture(|| inner.records.read(incoming, plain, out, most));
        if seen.sni.is_some() || seen.server_end_point.is_some() || seen.exporter.is_some() {
            let facts = inner.facts.get_or_insert_default();
            facts.exporter = seen.exporter.or(facts.exporter);
            facts.server_end_point = seen.server_end_point.or(facts.server_end_point.take());
            facts.sni = seen.sni.or(facts.sni.take());
        }
        result
    }

    /// Encrypts `plain` and appends the records, of at most 16 KiB each, to `out`. One call per
    /// flush is cheapest: a record costs 22 bytes and some 250 ns.
    ///
    /// # Errors
    ///
    /// [`TlsError::NotOpen`] before the handshake is complete or after [`ServerTls::close_notify`];
    /// [`TlsError::Internal`] if the keys are exhausted.
    pub fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.0.records.write(plain, out)
    }

    /// Appends the alert that ends our direction in good order (RFC 8446 §6.1) to `out`. Nothing is
    /// appended before the handshake is complete, when there is nothing to end.
    pub fn close_notify(&mut self, out: &mut Vec<u8>) {
        self.0.records.close_notify(out);
    }

    /// Returns whether the handshake is still going on.
    pub fn handshaking(&self) -> bool {
        self.0.records.handshaking()
    }

    /// Returns the channel bindings of this connection, empty while [`ServerTls::handshaking`] and
    /// after [`ServerTls::forget_handshake`].
    ///
    /// `tls-exporter` exists under TLS 1.3 only: RFC 9266 §3 has conditions for 1.2 that rustls
    /// doesn't show here.
    pub fn bindings(&self) -> ChannelBindings {
        match &self.0.facts {
            Some(facts) if !self.handshaking() => ChannelBindings {
                exporter: facts.exporter,
                server_end_point: facts.server_end_point.as_deref().map(<[u8]>::to_vec),
            },
            _ => ChannelBindings::default(),
        }
    }

    /// Returns the host name that the client asked for (RFC 6066 §3), until
    /// [`ServerTls::forget_handshake`].
    pub fn sni(&self) -> Option<&str> {
        self.0.facts.as_ref()?.sni.as_deref()
    }

    /// Frees the data that only [`ServerTls::bindings`] and [`ServerTls::sni`] need. Call it when
    /// the client has logged in.
    pub fn forget_handshake(&mut self) {
        self.0.facts = None;
    }

    /// Returns the negotiated application protocol: `xmpp-client`, or `None` if the client named
    /// none.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.0.records.connection().alpn_protocol()
    }

    /// Returns the version as rustls spells it, `TLSv1_3`; `None` before the handshake.
    pub fn version(&self) -> Option<&'static str> {
        self.0.records.connection().protocol_version()?.as_str()
    }

    /// Returns the cipher suite by its registered name, such as `TLS13_AES_128_GCM_SHA256`; `None`
    /// before the handshake.
    pub fn cipher(&self) -> Option<&'static str> {
        self.0.records.connection().negotiated_cipher_suite()?.suite().as_str()
    }

    /// Returns whether the client resumed an earlier session by its ticket.
    pub fn is_resumed(&self) -> bool {
        self.0.records.connection().handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("version", &self.version()).field("sni", &self.sni()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
