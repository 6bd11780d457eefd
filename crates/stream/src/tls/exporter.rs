//! Secrets and names that rustls only shows in passing during a handshake: the exporter secret and
//! the host name.
//!
//! The unbuffered connection can't export keying material and doesn't show the host name. But
//! rustls passes the exporter secret to its key log, and the host name to the certificate resolver,
//! both *while* it processes the client's records and on the same thread. So the call is wrapped: a
//! variable of this thread catches what the hooks see, and it is emptied before the call returns.
//! The secret itself goes nowhere; the one value that channel binding needs is derived inside the
//! hook.

use std::cell::RefCell;
use std::sync::Arc;

use rustls::KeyLog;
use rustls::crypto::aws_lc_rs::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384};
use rustls::crypto::tls13::{HkdfExpander, OkmBlock};

/// The values that rustls has shown during a call.
#[derive(Default)]
pub(super) struct SeenValues {
    pub(super) exporter: Option<[u8; 32]>,
    pub(super) server_end_point: Option<Arc<[u8]>>,
    pub(super) sni: Option<Box<str>>,
}

/// Runs a call into rustls and returns what its hooks saw meanwhile.
pub(super) fn capture<T>(call: impl FnOnce() -> T) -> (T, SeenValues) {
    SEEN.take();
    let result = call();
    (result, SEEN.take())
}

/// Notes the certificate that is shown; called by the certificate resolver.
pub(super) fn saw_certificate(server_end_point: Option<Arc<[u8]>>, sni: Option<&str>) {
    SEEN.with_borrow_mut(|seen| {
        seen.server_end_point = server_end_point;
        seen.sni = sni.map(Box::from);
    });
}

/// The key log that derives the value of `tls-exporter` (RFC 9266) and passes on no other secret.
#[derive(Debug)]
pub(super) struct ChannelBindingKeyLog;

impl KeyLog for ChannelBindingKeyLog {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if self.will_log(label) {
            SEEN.with_borrow_mut(|seen| seen.exporter = channel_binding(secret));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == "EXPORTER_SECRET"
    }
}

/// Exports the channel binding (RFC 8446 §7.5) with the label of RFC 9266 §2 and no context.
fn channel_binding(exporter_secret: &[u8]) -> Option<[u8; 32]> {
    // TLS 1.3 has two hashes, and their lengths tell them apart.
    let suite = match exporter_secret.len() {
        32 => TLS13_AES_128_GCM_SHA256,
        48 => TLS13_AES_256_GCM_SHA384,
        _ => return None,
    };
    let suite = suite.tls13()?;
    let of_nothing = suite.common.hash_provider.hash(&[]);
    let of_nothing = of_nothing.as_ref();
    let mut derived = vec![0; exporter_secret.len()];
    let expander = |secret: &[u8]| suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
    expand_label(&*expander(exporter_secret), b"EXPORTER-Channel-Binding", of_nothing, &mut derived)?;
    let mut value = [0; 32];
    expand_label(&*expander(&derived), b"exporter", of_nothing, &mut value)?;
    Some(value)
}

/// Fills `output` by `HKDF-Expand-Label` (RFC 8446 §7.1).
fn expand_label(expander: &dyn HkdfExpander, label: &[u8], context: &[u8], output: &mut [u8]) -> Option<()> {
    let length = u16::try_from(output.len()).ok()?.to_be_bytes();
    let label_length = [u8::try_from(PREFIX.len() + label.len()).ok()?];
    let context_length = [u8::try_from(context.len()).ok()?];
    let info: [&[u8]; 6] = [&length, &label_length, PREFIX, label, &context_length, context];
    expander.expand_slice(&info, output).ok()
}

const PREFIX: &[u8] = b"tls13 ";

thread_local! {
    static SEEN: RefCell<SeenValues> = RefCell::default();
}
