//! Upload slots in the book (XEP-0363): the limits that the configuration has had, and the slots
//! that were handed out.

use std::collections::BTreeSet;

use super::Book;

/// The limits of the service for files, as an operator sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadLimits {
    /// The most bytes of one file.
    pub bytes: u64,
    /// The most files of one account.
    pub files: u64,
}

/// Requests for upload slots.
#[derive(Debug)]
pub struct BookedUploads {
    /// The limits that were ever in force, oldest first.
    limits: Vec<UploadLimits>,
    /// The place of the oldest limits that may still be in force on some shard.
    from: usize,
    requests: Vec<BookedUpload>,
    /// The addresses of all slots.
    addresses: BTreeSet<String>,
}

impl Default for BookedUploads {
    fn default() -> Self {
        let limits = vec![UploadLimits { bytes: 100 << 20, files: 5_000 }];
        Self { limits, from: 0, requests: Vec::new(), addresses: BTreeSet::new() }
    }
}

/// A request for an upload slot.
#[derive(Debug)]
struct BookedUpload {
    account: usize,
    bytes: u64,
    /// The place of the oldest limits by which the server may have decided.
    from: usize,
    sent_ms: u64,
    /// The time at which the client got the slot, in milliseconds.
    given_ms: Option<u64>,
}

impl Book {
    /// Records that these limits are in force from now on, or as soon as stalled shards and
    /// paused processes continue.
    pub fn limit_uploads(&mut self, limits: UploadLimits) {
        self.uploads.limits.push(limits);
    }

    /// Records that no shard goes by earlier limits any more.
    pub fn forget_upload_limits(&mut self) {
        self.uploads.from = self.uploads.limits.len().saturating_sub(1);
    }

    /// Records a request for a slot, and returns its number.
    pub fn request_slot(&mut self, account: usize, bytes: u64) -> usize {
        let (from, sent_ms) = (self.uploads.from, self.now_ms);
        self.uploads.requests.push(BookedUpload { account, bytes, from, sent_ms, given_ms: None });
        self.uploads.requests.len() - 1
    }

    /// Records that a client got a slot with the addresses for the upload and for the download.
    pub fn give_slot(&mut self, number: usize, put: &str, get: &str) {
        let (account, bytes, limits, sent_ms) = self.slot_terms(number);
        self.uploads.requests[number].given_ms = Some(self.now_ms);
        if !put.starts_with("https://") || !get.starts_with("https://") {
            self.break_rule(format!("u{account} got a slot at {put:?} and {get:?}, without TLS (XEP-0363 §4)"));
        }
        if !self.uploads.addresses.insert(put.to_owned()) {
            self.break_rule(format!("u{account} got the slot {put}, which was handed out before (XEP-0363 §4)"));
        }
        if limits.iter().all(|limits| bytes > limits.bytes) {
            self.break_rule(format!("u{account} got a slot for {bytes} bytes, by {limits:?} (XEP-0363 §5)"));
        }
        // Slots that the account had when it made the request, and still has now. Their time is
        // that of the day, and the slots of an account end with it.
        let is_held = |other: &BookedUpload| {
            let is_before = other.given_ms.is_some_and(|given_ms| given_ms < sent_ms);
            other.account == account && is_before && self.now_ms + MARGIN_MS < other.sent_ms + WAITS_MS
        };
        let held = self.uploads.requests.iter().filter(|other| is_held(other)).count() as u64;
        let is_sure = !self.jumped && !self.removed.contains(&account);
        if is_sure && limits.iter().all(|limits| held >= limits.files) {
            self.break_rule(format!("u{account} got a slot besides {held} others, by {limits:?} (XEP-0363 §5)"));
        }
    }

    /// Records that a client got an error instead of a slot.
    pub fn refuse_slot(&mut self, number: usize, condition: &str) {
        let (account, bytes, limits, _) = self.slot_terms(number);
        // Other clients of the account may have asked later, and were heard first.
        let asked = self.uploads.requests.iter().filter(|other| other.account == account).count() as u64;
        let is_wrong = match condition {
            "not-acceptable" => limits.iter().all(|limits| bytes <= limits.bytes),
            // A request that is repeated after a death may take a second slot.
            "resource-constraint" => {
                !self.store_failed && self.deaths == 0 && limits.iter().all(|limits| asked <= limits.files)
            }
            _ => false,
        };
        if is_wrong {
            self.break_rule(format!(
                "u{account} got no slot for {bytes} bytes: {condition}, by {limits:?} (XEP-0363 §5)"
            ));
        }
    }

    /// Returns the account and the bytes of a request, the limits by which the server may have
    /// decided, and the time of the request.
    fn slot_terms(&self, number: usize) -> (usize, u64, Vec<UploadLimits>, u64) {
        let BookedUpload { account, bytes, from, sent_ms, .. } = self.uploads.requests[number];
        let limits = self.uploads.limits.get(from..).unwrap_or_default();
        (account, bytes, limits.to_vec(), sent_ms)
    }
}

/// The time for which a slot waits for its upload, in milliseconds (XEP-0363 §7).
const WAITS_MS: u64 = 300_000;
/// The most by which nodes differ in their time of day, in milliseconds.
const MARGIN_MS: u64 = 2_000;
