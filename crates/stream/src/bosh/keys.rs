//! Keys that prove that a request comes from the sender of the previous one, even though others
//! can read both (XEP-0124 §15).

use aws_lc_rs::digest;
use rookery_base::hex;

use super::request::BoshBody;

/// A key as 160 bits: case doesn't matter (§15.3).
pub(super) type BoshKey = [u8; 20];

/// The key that the next request must hash to, if the client uses any.
#[derive(Default)]
pub(super) struct BoshKeys(pub(super) Option<BoshKey>);

impl BoshKeys {
    /// Checks the key of a request and turns to the next (§15.4, §15.5).
    pub fn fit(&mut self, request: &BoshBody) -> bool {
        let key = request.key.as_deref();
        if let Some(expected) = self.0 {
            let Some(key) = key else { return false };
            if digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()).as_ref() != expected {
                return false;
            }
        }
        if request.newkey.is_none() && self.0.is_none() {
            return true;
        }
        self.0 = key_to_follow(request);
        self.0.is_some()
    }

    /// Returns the key that the newest request has shown, for the case that it comes again.
    pub fn last(&self) -> Option<Box<BoshKey>> {
        self.0.map(Box::new)
    }
}

/// Returns the key of a request that the next one must hash to: that of a new sequence, if it
/// begins one.
pub(super) fn key_to_follow(request: &BoshBody) -> Option<BoshKey> {
    read(request.newkey.as_deref().or(request.key.as_deref())?)
}

fn read(text: &str) -> Option<BoshKey> {
    hex::decode(text)
}
