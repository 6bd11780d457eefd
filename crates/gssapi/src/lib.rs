//! Authentication by Kerberos: both sides of GSS-API (RFC 2743, RFC 4121).
//!
//! MIT's `libgssapi_krb5.so.2` does the work. It is loaded when the first [`Acceptor`] or
//! [`Initiator`] is opened, so that a program with this crate can be built without the headers of
//! Kerberos, and runs without the library: opening either then fails with a text that says what to
//! install.
//!
//! # Invariants
//!
//! - A [`Context`] that is not [complete](Context::is_complete) has no [peer](Context::peer) and
//!   verifies nothing.
//! - After an error a context is over: every further call is an error.
//! - `unsafe` is in `library` alone; everything here is safe to call with any input from a peer.

mod library;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use library::{Credential, Library, LibraryHandle, LibraryName};

/// An error in words for a log, which may tell more than a peer should learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssapiError(String);

/// A service's own identity, with which it accepts clients.
#[derive(Debug, Clone)]
pub struct Acceptor {
    library: &'static Library,
    credential: Arc<Credential>,
}

/// A conversation with a client: its tokens, then the messages that it signs.
#[derive(Debug)]
pub struct Context {
    acceptor: Acceptor,
    handle: LibraryHandle,
    peer: Option<GssapiPeer>,
    is_over: bool,
}

/// The side of a client that proves who it is, by the ticket that its user has.
#[derive(Debug)]
pub struct Initiator {
    library: &'static Library,
    service: LibraryName,
    handle: LibraryHandle,
    is_complete: bool,
}

/// A client that proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssapiPeer {
    /// Its principal, such as `operator@FNAL.GOV`.
    pub name: String,
    /// The time for which its ticket was still valid when it was shown; `None` if that has no
    /// limit.
    pub good_for: Option<Duration>,
}

impl Acceptor {
    /// Returns an acceptor for a principal, such as `daeset/localhost@FNAL.GOV`, whose key is in a
    /// keytab.
    ///
    /// # Errors
    ///
    /// [`GssapiError`] without the library, without the file, or without the principal's key in it.
    pub fn open(keytab: &Path, principal: &str) -> Result<Self, GssapiError> {
        let library = Library::get()?;
        let keytab = keytab.to_str().ok_or_else(|| GssapiError("the keytab's path isn't UTF-8".into()))?;
        let credential = library.acquire(principal, keytab)?;
        Ok(Self { library, credential: Arc::new(credential) })
    }

    /// Returns the start of a conversation.
    pub fn context(&self) -> Context {
        Context { acceptor: self.clone(), handle: LibraryHandle::none(), peer: None, is_over: false }
    }
}

impl Context {
    /// Takes a client's token (`GSS_Accept_sec_context`) and returns the reply to it, if there is
    /// any.
    pub fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, GssapiError> {
        if self.is_over || self.peer.is_some() {
            return Err(GssapiError("the conversation is over".into()));
        }
        let stepped = self.acceptor.library.accept(&mut self.handle, &self.acceptor.credential, token);
        self.is_over = stepped.is_err();
        let step = stepped?;
        self.peer = step.peer;
        Ok(step.answer)
    }

    /// Returns whether the client has proved its identity.
    pub fn is_complete(&self) -> bool {
        self.peer.is_some() && !self.is_over
    }

    /// Returns the client's identity, once it is proved.
    pub fn peer(&self) -> Option<&GssapiPeer> {
        self.peer.as_ref().filter(|_| !self.is_over)
    }

    /// Checks that the client signed a message (`GSS_VerifyMIC`). A signature that comes again or
    /// out of order is refused, too.
    pub fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> Result<(), GssapiError> {
        if !self.is_complete() {
            return Err(GssapiError("the client did not prove its identity".into()));
        }
        let verified = self.acceptor.library.verify(&mut self.handle, message, mic);
        self.is_over = verified.is_err();
        verified
    }
}

impl Initiator {
    /// Returns the start of a conversation with a service, such as `daeset/localhost`. Without a
    /// realm, the service is of the default realm of this machine.
    ///
    /// # Errors
    /// [`GssapiError`] without the library, or if the name isn't one.
    pub fn open(service: &str) -> Result<Self, GssapiError> {
        let library = Library::get()?;
        let service = library.import(service)?;
        Ok(Self { library, service, handle: LibraryHandle::none(), is_complete: false })
    }

    /// Takes a token of the service (`GSS_Init_sec_context`), none at first, and returns the one
    /// for it, if there is any.
    ///
    /// # Errors
    /// [`GssapiError`] if the user has no ticket, the service isn't known, or it doesn't prove who
    /// it is.
    pub fn step(&mut self, token: Option<&[u8]>) -> Result<Option<Vec<u8>>, GssapiError> {
        if self.is_complete {
            return Err(GssapiError("the conversation is over".into()));
        }
        let (answer, is_complete) = self.library.initiate(&mut self.handle, &self.service, token)?;
        self.is_complete = is_complete;
        Ok(answer)
    }

    /// Returns whether both sides have proved who they are.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Signs a message (`GSS_GetMIC`).
    ///
    /// # Errors
    /// [`GssapiError`] before the conversation is complete.
    pub fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>, GssapiError> {
        if !self.is_complete {
            return Err(GssapiError("the service did not prove its identity".into()));
        }
        self.library.sign(&mut self.handle, message)
    }
}

impl std::fmt::Display for GssapiError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for GssapiError {}
