//! MIT's GSS-API library: how it is found, and its functions behind types that clean up.
//!
//! All `unsafe` of the workspace that calls C is here. Every block relies on the following:
//! - [`Functions`] holds addresses of functions of `libgssapi_krb5.so.2` under the types with
//!   which `gssapi.h` declares them (RFC 2744 names them). The library is never unloaded, so they
//!   stay valid.
//! - Structures are passed by pointers to places that live for the whole call and that the library
//!   does not keep.
//! - Memory that the library allocates is released by the library, once, by the `Drop` of the type
//!   that holds it.
#![allow(unsafe_code, reason = "the system's library is C")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::{GssapiError, GssapiPeer};

/// The loaded library.
#[derive(Debug)]
pub(crate) struct Library {
    functions: Functions,
}

/// A credential of an acceptor.
#[derive(Debug)]
pub(crate) struct Credential {
    library: &'static Library,
    handle: *mut c_void,
}

/// A security context; none at first.
#[derive(Debug)]
pub(crate) struct LibraryHandle {
    library: Option<&'static Library>,
    context: *mut c_void,
}

/// The result of a step of the acceptor.
pub(crate) struct LibraryStep {
    pub(crate) answer: Option<Vec<u8>>,
    /// The client, if this step was the last.
    pub(crate) peer: Option<GssapiPeer>,
}

// SAFETY: MIT's library lets any thread use a credential; it locks what it changes inside.
unsafe impl Send for Credential {}
// SAFETY: as above: several threads may use one credential at once. Nothing but the library reads
// through the pointer.
unsafe impl Sync for Credential {}
// SAFETY: MIT's library lets any thread use a context, one at a time. `LibraryHandle` isn't `Sync`,
// and is changed only through `&mut`.
unsafe impl Send for LibraryHandle {}

impl Library {
    /// Returns the library, loaded when it is asked for first.
    pub(crate) fn get() -> Result<&'static Self, GssapiError> {
        static LOADED: OnceLock<Result<Library, GssapiError>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, GssapiError> {
        // SAFETY: loading runs the library's own initialisation. It is the system's library, which
        // other programs load as well.
        let loaded = unsafe { libloading::Library::new(NAME) };
        let loaded = loaded.map_err(|error| {
            GssapiError(format!("{NAME} cannot be loaded ({error}); on Debian it is in the package libgssapi-krb5-2"))
        })?;
        // It lives as long as the process, so the addresses that are copied out of it stay valid.
        Functions::find(Box::leak(Box::new(loaded))).map(|functions| Self { functions })
    }

    /// Returns the credential of a principal whose key is in a keytab.
    pub(crate) fn acquire(&'static self, principal: &str, keytab: &str) -> Result<Credential, GssapiError> {
        let name = self.import(principal)?;
        let no_zeros = |text: &str| CString::new(text).map_err(|_| GssapiError("a zero in a path".into()));
        let (key, value) = (no_zeros("keytab")?, no_zeros(keytab)?);
        let mut element = KeyValue { key: key.as_ptr(), value: value.as_ptr() };
        let store = KeyValueSet { count: 1, elements: &mut element };
        let mut oid = Oid::of(KERBEROS);
        let mut mechanisms = OidSet { count: 1, elements: &mut oid };
        let (mut minor, mut handle) = (0, ptr::null_mut());
        // SAFETY: every pointer is to a local that outlives the call, or null where the header says
        // "may be null"; `name` is a live name of this library.
        let major = unsafe {
            (self.functions.acquire_cred_from)(
                &mut minor,
                name.handle,
                INDEFINITE,
                &mut mechanisms,
                ACCEPT,
                &store,
                &mut handle,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check(major, minor)?;
        Ok(Credential { library: self, handle })
    }

    /// Takes a token of a client.
    pub(crate) fn accept(
        &'static self,
        context: &mut LibraryHandle,
        credential: &Credential,
        token: &[u8],
    ) -> Result<LibraryStep, GssapiError> {
        context.library = Some(self);
        let mut input = Buffer::of(token);
        let mut output = Owned::new(self);
        let mut source = LibraryName { library: self, handle: ptr::null_mut() };
        let (mut minor, mut seconds) = (0, 0);
        // SAFETY: the context is null or one of this library, and nobody else has it; the other
        // pointers are to locals that outlive the call, or null where the header says "may be
        // null". The library reads `input` and writes to the others.
        let major = unsafe {
            (self.functions.accept_sec_context)(
                &mut minor,
                &mut context.context,
                credential.handle,
                &mut input,
                ptr::null_mut(),
                &mut source.handle,
                ptr::null_mut(),
                &mut output.buffer,
                ptr::null_mut(),
                &mut seconds,
                ptr::null_mut(),
            )
        };
        self.check(major, minor)?;
        let answer = Some(output.bytes()).filter(|bytes| !bytes.is_empty());
        if major & CONTINUE_NEEDED != 0 {
            return Ok(LibraryStep { answer, peer: None });
        }
        let good_for = (seconds != INDEFINITE).then(|| Duration::from_secs(seconds.into()));
        Ok(LibraryStep { answer, peer: Some(GssapiPeer { name: self.display(&source)?, good_for }) })
    }

    /// Checks a signature. Warnings (a repeated or late one) count as errors.
    pub(crate) fn verify(
        &'static self,
        context: &mut LibraryHandle,
        message: &[u8],
        mic: &[u8],
    ) -> Result<(), GssapiError> {
        if context.context.is_null() {
            return Err(GssapiError("there is no context".into()));
        }
        let (mut message, mut mic) = (Buffer::of(message), Buffer::of(mic));
        let mut minor = 0;
        // SAFETY: the context is a live one of this library that nobody else has; both buffers are
        // only read, and outlive the call.
        let major = unsafe {
            (self.functions.verify_mic)(&mut minor, context.context, &mut message, &mut mic, ptr::null_mut())
        };
        if major == 0 { Ok(()) } else { Err(self.error(major, minor)) }
    }

    /// Takes a token of a service, none at first. Returns the token for it, if there is one, and
    /// whether the context is complete.
    pub(crate) fn initiate(
        &'static self,
        context: &mut LibraryHandle,
        service: &LibraryName,
        token: Option<&[u8]>,
    ) -> Result<(Option<Vec<u8>>, bool), GssapiError> {
        context.library = Some(self);
        let mut input = token.map(Buffer::of);
        let input = input.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        let mut output = Owned::new(self);
        let mut oid = Oid::of(KERBEROS);
        let mut minor = 0;
        // SAFETY: the context is null or one of this library, and nobody else has it; `service` is
        // a live name of this library; the other pointers are to locals that outlive the call, or
        // null where the header says "may be null". The library reads `input`, and writes to the
        // context, `output` and the minor code. A null credential is the user's own.
        let major = unsafe {
            (self.functions.init_sec_context)(
                &mut minor,
                ptr::null_mut(),
                &mut context.context,
                service.handle,
                &mut oid,
                MUTUAL | REPLAY | SEQUENCE | INTEGRITY,
                0,
                ptr::null_mut(),
                input,
                ptr::null_mut(),
                &mut output.buffer,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check(major, minor)?;
        let answer = Some(output.bytes()).filter(|bytes| !bytes.is_empty());
        Ok((answer, major & CONTINUE_NEEDED == 0))
    }

    /// Returns the signature of a message.
    pub(crate) fn sign(&'static self, context: &mut LibraryHandle, message: &[u8]) -> Result<Vec<u8>, GssapiError> {
        if context.context.is_null() {
            return Err(GssapiError("there is no context".into()));
        }
        let mut message = Buffer::of(message);
        let mut output = Owned::new(self);
        let mut minor = 0;
        // SAFETY: the context is a live one of this library that nobody else has; the message is
        // only read, and outlives the call, as does the buffer that the library writes to.
        let major =
            unsafe { (self.functions.get_mic)(&mut minor, context.context, 0, &mut message, &mut output.buffer) };
        self.check(major, minor)?;
        Ok(output.bytes())
    }

    /// Returns the library's name of a principal; one without a realm is of the default realm.
    pub(crate) fn import(&'static self, principal: &str) -> Result<LibraryName, GssapiError> {
        let mut text = Buffer::of(principal.as_bytes());
        let mut oid = Oid::of(PRINCIPAL);
        let mut name = LibraryName { library: self, handle: ptr::null_mut() };
        let mut minor = 0;
        // SAFETY: the pointers are to locals that outlive the call; the library copies the text.
        let major = unsafe { (self.functions.import_name)(&mut minor, &mut text, &mut oid, &mut name.handle) };
        self.check(major, minor).map(|()| name)
    }

    fn display(&'static self, name: &LibraryName) -> Result<String, GssapiError> {
        let mut text = Owned::new(self);
        let mut minor = 0;
        // SAFETY: `name` is a live name of this library (it refuses a null one); the other pointers
        // are to locals, and null where that is allowed.
        let major =
            unsafe { (self.functions.display_name)(&mut minor, name.handle, &mut text.buffer, ptr::null_mut()) };
        self.check(major, minor)?;
        String::from_utf8(text.bytes()).map_err(|_| GssapiError("the client's name isn't UTF-8".into()))
    }

    fn check(&'static self, major: u32, minor: u32) -> Result<(), GssapiError> {
        if major & ERRORS == 0 { Ok(()) } else { Err(self.error(major, minor)) }
    }

    /// Returns the error that a pair of codes means: in the mechanism's words if it has some, else
    /// in the general ones.
    fn error(&'static self, major: u32, minor: u32) -> GssapiError {
        let specific = if minor == 0 { String::new() } else { self.words(minor, BY_MECHANISM) };
        let general = self.words(major, BY_GSS);
        GssapiError(if specific.is_empty() { general } else { format!("{general} ({specific})") })
    }

    fn words(&'static self, code: u32, kind: c_int) -> String {
        let mut text = Owned::new(self);
        let mut oid = Oid::of(KERBEROS);
        let (mut minor, mut more) = (0, 0);
        // SAFETY: the pointers are to locals that outlive the call; the library writes the text,
        // the counter and the minor code.
        let major =
            unsafe { (self.functions.display_status)(&mut minor, code, kind, &mut oid, &mut more, &mut text.buffer) };
        if major & ERRORS == 0 {
            String::from_utf8_lossy(&text.bytes()).into_owned()
        } else {
            format!("code {code:#x}")
        }
    }
}

impl LibraryHandle {
    pub(crate) fn none() -> Self {
        Self { library: None, context: ptr::null_mut() }
    }
}

impl Drop for LibraryHandle {
    fn drop(&mut self) {
        if let Some(library) = self.library.filter(|_| !self.context.is_null()) {
            let mut minor = 0;
            // SAFETY: the context is a live one of this library, nobody else has it, and it is not
            // used after this.
            unsafe { (library.functions.delete_sec_context)(&mut minor, &mut self.context, ptr::null_mut()) };
        }
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the credential is a live one of this library, the last owner drops it, and it is
        // not used after this.
        unsafe { (self.library.functions.release_cred)(&mut minor, &mut self.handle) };
    }
}

/// A name that the library made.
#[derive(Debug)]
pub(crate) struct LibraryName {
    library: &'static Library,
    handle: *mut c_void,
}

impl Drop for LibraryName {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            let mut minor = 0;
            // SAFETY: the name is a live one of this library and is not used after this.
            unsafe { (self.library.functions.release_name)(&mut minor, &mut self.handle) };
        }
    }
}

/// Bytes that the library made.
struct Owned {
    library: &'static Library,
    buffer: Buffer,
}

impl Owned {
    fn new(library: &'static Library) -> Self {
        Self { library, buffer: Buffer { length: 0, value: ptr::null_mut() } }
    }

    fn bytes(&self) -> Vec<u8> {
        if self.buffer.value.is_null() || self.buffer.length == 0 {
            return Vec::new();
        }
        // SAFETY: the library has set this length; the bytes are copied before it releases them.
        unsafe { std::slice::from_raw_parts(self.buffer.value.cast::<u8>(), self.buffer.length) }.to_vec()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is empty or one that this library allocated, and is not used after
        // this.
        unsafe { (self.library.functions.release_buffer)(&mut minor, &mut self.buffer) };
    }
}

/// `gss_buffer_desc`.
#[repr(C)]
struct Buffer {
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    /// Lends bytes that the library only reads, as all its input.
    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

/// `gss_OID_desc`.
#[repr(C)]
struct Oid {
    length: u32,
    elements: *mut c_void,
}

impl Oid {
    fn of(bytes: &'static [u8]) -> Self {
        Self { length: bytes.len() as u32, elements: bytes.as_ptr().cast_mut().cast() }
    }
}

/// `gss_OID_set_desc`.
#[repr(C)]
struct OidSet {
    count: usize,
    elements: *mut Oid,
}

/// `gss_key_value_element_desc`.
#[repr(C)]
struct KeyValue {
    key: *const c_char,
    value: *const c_char,
}

/// `gss_key_value_set_desc`.
#[repr(C)]
struct KeyValueSet {
    count: u32,
    elements: *mut KeyValue,
}

macro_rules! functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The library's functions, typed as `gssapi.h` and `gssapi_ext.h` have them. All return a
        /// major status.
        #[derive(Debug)]
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl Functions {
            fn find(library: &'static libloading::Library) -> Result<Self, GssapiError> {
                let missing = |symbol: &str| GssapiError(format!("{NAME} has no {symbol}: it is too old"));
                Ok(Self {
                    $($field: {
                        // SAFETY: the type is that of the function of this name in the library's
                        // headers.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> u32>($symbol.as_bytes())
                        };
                        *found.map_err(|_| missing($symbol))?
                    },)*
                })
            }
        }
    };
}

functions! {
    import_name = "gss_import_name" (*mut u32, *mut Buffer, *mut Oid, *mut *mut c_void);
    display_name = "gss_display_name" (*mut u32, *mut c_void, *mut Buffer, *mut *mut Oid);
    release_name = "gss_release_name" (*mut u32, *mut *mut c_void);
    acquire_cred_from = "gss_acquire_cred_from"
        (*mut u32, *mut c_void, u32, *mut OidSet, c_int, *const KeyValueSet, *mut *mut c_void, *mut *mut OidSet, *mut u32);
    release_cred = "gss_release_cred" (*mut u32, *mut *mut c_void);
    accept_sec_context = "gss_accept_sec_context"
        (*mut u32, *mut *mut c_void, *mut c_void, *mut Buffer, *mut c_void, *mut *mut c_void, *mut *mut Oid, *mut Buffer, *mut u32, *mut u32,
         *mut *mut c_void);
    init_sec_context = "gss_init_sec_context"
        (*mut u32, *mut c_void, *mut *mut c_void, *mut c_void, *mut Oid, u32, u32, *mut c_void, *mut Buffer, *mut *mut Oid, *mut Buffer,
         *mut u32, *mut u32);
    get_mic = "gss_get_mic" (*mut u32, *mut c_void, u32, *mut Buffer, *mut Buffer);
    delete_sec_context = "gss_delete_sec_context" (*mut u32, *mut *mut c_void, *mut Buffer);
    verify_mic = "gss_verify_mic" (*mut u32, *mut c_void, *mut Buffer, *mut Buffer, *mut u32);
    release_buffer = "gss_release_buffer" (*mut u32, *mut Buffer);
    display_status = "gss_display_status" (*mut u32, u32, c_int, *mut Oid, *mut u32, *mut Buffer);
}

const NAME: &str = "libgssapi_krb5.so.2";
/// The mechanism Kerberos 5, 1.2.840.113554.1.2.2 (RFC 4121 §1).
const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// Names that are principals, 1.2.840.113554.1.2.2.1 (RFC 1964 §2.1.1).
const PRINCIPAL: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01];
/// `GSS_C_INDEFINITE`.
const INDEFINITE: u32 = u32::MAX;
/// `GSS_C_MUTUAL_FLAG`: the service proves who it is, too.
const MUTUAL: u32 = 2;
/// `GSS_C_REPLAY_FLAG`.
const REPLAY: u32 = 4;
/// `GSS_C_SEQUENCE_FLAG`.
const SEQUENCE: u32 = 8;
/// `GSS_C_INTEG_FLAG`.
const INTEGRITY: u32 = 32;
/// `GSS_C_ACCEPT`.
const ACCEPT: c_int = 2;
/// Calling and routine errors: what stands above the supplementary bits of a major status.
const ERRORS: u32 = 0xffff_0000;
/// `GSS_S_CONTINUE_NEEDED`.
const CONTINUE_NEEDED: u32 = 1;
/// `GSS_C_GSS_CODE`.
const BY_GSS: c_int = 1;
/// `GSS_C_MECH_CODE`.
const BY_MECHANISM: c_int = 2;
