//! A non-blocking connection to a server, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::link::LinkTrust;

/// The connection.
#[derive(Debug)]
pub(super) struct LinkStream {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl LinkStream {
    /// Returns a connection; with `trust`, the other side has to prove its identity.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name or invalid authorities.
    pub(super) fn new(tcp: TcpStream, trust: Option<&LinkTrust>) -> io::Result<Self> {
        let tls = trust.map(begin).transpose()?.map(Box::new);
        Ok(Self { tcp, tls })
    }

    /// Returns the error that kept the connection from being made, if there is one.
    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.tcp.take_error()
    }

    /// Returns whether the other side still has to prove its identity.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Returns whether it has TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns whether bytes of TLS wait for the socket.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads from the socket once. [`read`](Self::read) then returns the bytes.
    ///
    /// # Errors
    /// The system's or, as `InvalidData`, those of TLS; `UnexpectedEof` if the other side has ended
    /// the connection.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        if tls.read_tls(&mut self.tcp)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let done = tls.process_new_packets().map(drop).map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
        // The other side may still have to get an alert.
        let _ = self.flush();
        done
    }

    /// Sends TLS's output to the socket.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.tcp) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for LinkStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.tcp.read(buffer),
            Some(tls) => tls.reader().read(buffer),
        }
    }
}

impl Write for LinkStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.tcp.write(bytes),
            Some(tls) => {
                let taken = tls.writer().write(bytes)?;
                self.flush()?;
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::flush(self)
    }
}

impl AsFd for LinkStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

fn begin(trust: &LinkTrust) -> io::Result<ClientConnection> {
    let wrong = |words: String| io::Error::new(ErrorKind::InvalidInput, words);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&trust.authorities) {
        let certificate = certificate.map_err(|error| wrong(format!("authority: {error}")))?;
        roots.add(certificate).map_err(|error| wrong(format!("authority: {error}")))?;
    }
    let name =
        ServerName::try_from(trust.host.clone()).map_err(|_| wrong(format!("{} is not a host name", trust.host)))?;
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    ClientConnection::new(Arc::new(config), name).map_err(|error| wrong(error.to_string()))
}
