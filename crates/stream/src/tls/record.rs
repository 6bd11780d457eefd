//! Driving rustls's unbuffered connections, the same way for both sides.
//!
//! rustls asks to be called again and again with the remaining incoming bytes, and says each time
//! what has to be done and how many bytes it has finished with. The remaining bytes may be half
//! decrypted already, and rustls remembers positions in them: they have to come back at the front
//! of the next call, untouched. Hence the rule of this file: **every call passes the whole carry**,
//! even if it only wants to write.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedConnectionCommon, UnbufferedStatus,
    WriteTraffic,
};

use super::TlsError;

/// The effects of a call of `read` besides bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TlsProgress {
    /// True if the handshake ended in this call: channel bindings can be read and plain bytes
    /// written from now on.
    pub established: bool,
    /// True if the peer closed its direction properly; nothing more will come.
    pub closed: bool,
}

/// The most bytes of an incomplete record that are kept for one connection: the largest record
/// there is (RFC 5246 §6.2.3, header included). It bounds handshake messages too. A peer without a
/// client certificate has no reason to send longer ones.
pub const MAX_CARRY: usize = 5 + 16_384 + 2_048;

/// The same bound during a handshake with a peer that shows a certificate chain, which may take
/// several records: the default of OpenSSL.
pub const MAX_CHAIN: usize = 100 * 1024;

/// A connection with the bytes that it could not use yet.
pub(super) struct Records<C> {
    connection: C,
    carry: Vec<u8>,
    /// True if the connection has failed. It is never given to rustls again, which may have stopped
    /// in the middle of the peer's bytes.
    failed: bool,
}

/// The common part of the two kinds of rustls connection, which spell it differently.
pub(super) trait RecordSide {
    type Data;
    fn common(&self) -> &UnbufferedConnectionCommon<Self::Data>;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl RecordSide for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn common(&self) -> &UnbufferedConnectionCommon<ServerConnectionData> {
        self
    }

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.process_tls_records(incoming)
    }
}

impl RecordSide for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn common(&self) -> &UnbufferedConnectionCommon<ClientConnectionData> {
        self
    }

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.process_tls_records(incoming)
    }
}

impl<C: RecordSide> Records<C> {
    pub(super) fn new(connection: C) -> Records<C> {
        Records { connection, carry: Vec::new(), failed: false }
    }

    pub(super) fn side(&self) -> &C {
        &self.connection
    }

    pub(super) fn connection(&self) -> &UnbufferedConnectionCommon<C::Data> {
        self.connection.common()
    }

    pub(super) fn handshaking(&self) -> bool {
        self.connection().is_handshaking()
    }

    /// Returns the bytes that are kept of an incomplete record.
    #[cfg(test)]
    pub(super) fn carried_bytes(&self) -> usize {
        self.carry.capacity()
    }

    /// Reads as [`ServerTls::read`](super::ServerTls::read). `most` bytes of an incomplete record
    /// or message are kept.
    pub(super) fn read(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
        most: usize,
    ) -> Result<TlsProgress, TlsError> {
        if self.failed {
            return Err(TlsError::NotOpen);
        }
        let handshaking = self.handshaking();
        let closed = self.feed(incoming, plain, out, most).inspect_err(|_| self.failed = true)?;
        Ok(TlsProgress { established: handshaking && !self.handshaking(), closed })
    }

    /// Processes the carry and then `incoming`, and keeps the remaining bytes. Returns whether the
    /// peer has closed.
    fn feed(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
        most: usize,
    ) -> Result<bool, TlsError> {
        let closed = if self.carry.is_empty() {
            let (consumed, closed) = pump(&mut self.connection, incoming, plain, out)?;
            // Usually nothing is left, and an empty vector takes no memory.
            self.carry = incoming.get(consumed..).unwrap_or_default().to_vec();
            closed
        } else {
            self.carry.extend_from_slice(incoming);
            let (consumed, closed) = pump(&mut self.connection, &mut self.carry, plain, out)?;
            self.carry.drain(..consumed.min(self.carry.len()));
            self.carry.shrink_to(2 * self.carry.len());
            closed
        };
        if self.carry.len() > most { Err(TlsError::TooBig) } else { Ok(closed) }
    }

    /// Writes as [`ServerTls::write`](super::ServerTls::write).
    pub(super) fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        for fragment in plain.chunks(FRAGMENT) {
            self.when_open(out, |traffic, out| encrypt(traffic, fragment, out))?;
        }
        Ok(())
    }

    /// Closes as [`ServerTls::close_notify`](super::ServerTls::close_notify).
    pub(super) fn close_notify(&mut self, out: &mut Vec<u8>) {
        // Failure means that the connection is not open (any more): then there is nothing to close.
        let _ = self.when_open(out, |traffic, out| fill(out, OVERHEAD, |room| traffic.queue_close_notify(room)));
    }

    /// Sends pending records and then calls `act` with the connection in the state for writing.
    fn when_open(
        &mut self,
        out: &mut Vec<u8>,
        act: impl FnOnce(&mut WriteTraffic<'_, C::Data>, &mut Vec<u8>) -> Result<(), EncryptError>,
    ) -> Result<(), TlsError> {
        if self.failed || self.handshaking() {
            return Err(TlsError::NotOpen);
        }
        loop {
            // The carry holds no whole record, so nothing is discarded or decrypted here.
            match self.connection.process(&mut self.carry).state? {
                ConnectionState::EncodeTlsData(data) => encode(data, out)?,
                ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                ConnectionState::PeerClosed => {}
                ConnectionState::WriteTraffic(mut traffic) => {
                    return act(&mut traffic, out).map_err(|error| TlsError::Internal(error.to_string()));
                }
                _ => return Err(TlsError::NotOpen),
            }
        }
    }
}

/// Lets the connection process `incoming` until it needs more. Returns the number of bytes that it
/// has finished with, and whether the peer has closed.
fn pump<C: RecordSide>(
    connection: &mut C,
    incoming: &mut [u8],
    plain: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(usize, bool), TlsError> {
    let (mut consumed, mut closed) = (0, false);
    let mut failure = None;
    // After a failure only the alert is fetched: rustls must not look at the bytes after it any
    // more.
    while failure.is_none() || connection.common().wants_write() {
        let status = connection.process(incoming.get_mut(consumed..).unwrap_or_default());
        consumed += status.discard;
        match status.state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    consumed += record.discard;
                    plain.extend_from_slice(record.payload);
                }
            }
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, out)?,
            Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
            Ok(ConnectionState::PeerClosed) => closed = true,
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake | ConnectionState::Closed) => break,
            // Early data is switched off in the settings.
            Ok(other) => return Err(TlsError::Internal(format!("unexpected state {other:?}"))),
            Err(error) if failure.is_none() => failure = Some(error),
            Err(_) => break,
        }
    }
    match failure {
        Some(error) => Err(error.into()),
        None => Ok((consumed, closed)),
    }
}

/// Appends one handshake record to `out`.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) -> Result<(), TlsError> {
    let start = out.len();
    // Asked with no room at all, rustls says how much it takes.
    let needed = match data.encode(&mut []) {
        Ok(_) => return Ok(()),
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Err(error) => return Err(TlsError::Internal(error.to_string())),
    };
    out.resize(start + needed, 0);
    match data.encode(out.get_mut(start..).unwrap_or_default()) {
        Ok(written) => out.truncate(start + written),
        Err(error) => return Err(TlsError::Internal(error.to_string())),
    }
    Ok(())
}

/// Appends one record of application data to `out`.
fn encrypt<Data>(traffic: &mut WriteTraffic<'_, Data>, plain: &[u8], out: &mut Vec<u8>) -> Result<(), EncryptError> {
    fill(out, plain.len() + OVERHEAD, |room| traffic.encrypt(plain, room))
}

/// Lets `write` fill `room` bytes, or as many as it then asks for, at the end of `out`.
fn fill(
    out: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), EncryptError> {
    let start = out.len();
    out.resize(start + room, 0);
    let mut written = write(out.get_mut(start..).unwrap_or_default());
    if let Err(EncryptError::InsufficientSize(size)) = &written {
        out.resize(start + size.required_size, 0);
        written = write(out.get_mut(start..).unwrap_or_default());
    }
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ())
}

/// The most plain bytes in a record (RFC 8446 §5.1).
const FRAGMENT: usize = 16_384;

/// The bytes for the header, nonce, content type and tag of any cipher suite, and for a key update
/// before them. If they aren't enough, rustls says so.
const OVERHEAD: usize = 64;
