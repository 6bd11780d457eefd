//! Files that users share (XEP-0363): receiving and serving them. The module `upload` hands out the
//! upload slots, called slots here.
//!
//! # Invariants
//!
//! - A file is named by its slot's token alone; no part of a path comes from the client.
//! - A file has exactly the bytes of its slot. An incomplete one is removed, and its slot can be
//!   filled again.
//! - One upload fills a slot; a second one is refused while it is in progress and afterwards.
//! - An upload may take as long as it needs, but it must not be silent for long, nor so slow that
//!   it never ends.
//! - A served file can't do anything in the name of this server: no file has a type that a page
//!   could use as script or style, no types are guessed, and anything but pictures, sound and
//!   films is downloaded rather than shown.
//! - A client without a slot's address learns nothing: a missing, an expired and another user's
//!   file look the same.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use rookery_store::{Slot, SlotStage, Slots};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::bucket::UploadBucket;
use crate::range::{self, ByteRange};
use crate::reply::{Body, text};
pub use crate::storage::place;
use crate::storage::{Growing, ShownFile, Storage, StorageFolder};

/// The storage of files, and the upload slots with their owners.
#[derive(Clone)]
pub struct UploadFiles {
    storage: Arc<dyn Storage>,
    slots: Arc<dyn Slots>,
    /// The bucket, if the storage is one.
    bucket: Option<UploadBucket>,
}

impl std::fmt::Debug for UploadFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl UploadFiles {
    /// Returns files in a folder, which is created with the first file.
    pub fn new(folder: PathBuf, slots: Arc<dyn Slots>) -> Self {
        Self { storage: Arc::new(StorageFolder::new(folder)), slots, bucket: None }
    }

    /// Returns files in a bucket, which all nodes of a cluster can share.
    pub fn in_bucket(bucket: UploadBucket, slots: Arc<dyn Slots>) -> Self {
        Self { storage: Arc::new(bucket.clone()), slots, bucket: Some(bucket) }
    }

    /// Returns the number of requests that a bucket has refused or not answered since the start,
    /// and the time of the last one in milliseconds since 1970; `None` without a bucket.
    pub(crate) fn failures(&self) -> Option<(u64, u64)> {
        self.bucket.as_ref().map(UploadBucket::failures)
    }

    /// Removes all files that have expired or whose owners were removed, when no server is running.
    /// It blocks.
    ///
    /// # Errors
    ///
    /// The error of the system or the store.
    pub fn clear(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            while self.sweep().await > 0 {}
            match self.slots.list_expired(now_ms(), 1).await {
                Ok(left) if left.is_empty() => Ok(()),
                Ok(_) => Err(io::Error::other("some files could not be removed")),
                Err(error) => Err(io::Error::other(error)),
            }
        })
    }

    /// Replies to a request below `/upload/`.
    pub(crate) async fn answer(&self, mut request: Request<Incoming>, rest: &str) -> Response<Body> {
        let responded = self.respond(&mut request, rest).await;
        if responded.is_err() {
            // A client that is still sending doesn't read. One that has sent everything learns why
            // it was refused.
            let _ = timeout(PATIENCE, drain(request.body_mut())).await;
        }
        let mut response = match responded {
            Ok(response) => response,
            Err(UploadFailed::Told(response)) => *response,
            Err(UploadFailed::Here(error)) => {
                warn!(%error, "a file can't be stored or served");
                text(StatusCode::INTERNAL_SERVER_ERROR, "the server has failed")
            }
        };
        // §7: pages of any origin may upload and show files, knowing their address.
        for (name, value) in CORS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn respond(&self, request: &mut Request<Incoming>, rest: &str) -> Result<Response<Body>, UploadFailed> {
        if request.method() == Method::OPTIONS {
            return Ok(text(StatusCode::OK, "OPTIONS, HEAD, GET, PUT"));
        }
        let slot = self.find(rest).await?;
        match *request.method() {
            Method::PUT => self.take(request, slot).await,
            Method::GET | Method::HEAD => self.give(request, &slot).await,
            _ => {
                let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and PUT are possible for a file");
                refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("OPTIONS, HEAD, GET, PUT"));
                Ok(refused)
            }
        }
    }

    /// Finds the slot of an address, which has the token and name of the slot.
    async fn find(&self, rest: &str) -> Result<Slot, UploadFailed> {
        let missing = || told_off(StatusCode::NOT_FOUND, "there is no such file");
        let (token, name) = rest.split_once('/').filter(|(token, _)| is_token(token)).ok_or_else(missing)?;
        let slot = self.slots.slot(token, now_ms()).await.map_err(store)?;
        slot.filter(|slot| rookery_modules::upload::encode(&slot.name) == name).ok_or_else(missing)
    }

    async fn take(&self, request: &mut Request<Incoming>, slot: Slot) -> Result<Response<Body>, UploadFailed> {
        judge(request.headers(), &slot)?;
        let now = now_ms();
        let until = now.saturating_add(millis(most_for(slot.size) + MARGIN));
        let begun = self.slots.advance(&slot.token, SlotStage::Reserved, SlotStage::Filling, now, until).await;
        if !begun.map_err(store)? {
            return Err(told_off(StatusCode::CONFLICT, "the file exists already, or is being uploaded"));
        }
        // However the connection and this future end, the slot is released.
        let mut filling = Filling { files: self.clone(), token: Some(slot.token.clone()), until: slot.expires_ms };
        write(request.body_mut(), self.storage.begin(&slot.token, slot.size).await?, slot.size).await?;
        let now = now_ms();
        let until = now.saturating_add(slot.keep_ms);
        let filled = self.slots.advance(&slot.token, SlotStage::Filling, SlotStage::Filled, now, until).await;
        if !filled.map_err(store)? {
            return Err(told_off(StatusCode::GONE, "the upload took too long"));
        }
        filling.token = None;
        info!(owner = slot.owner.as_str(), size = slot.size, "a file was uploaded");
        Ok(text(StatusCode::CREATED, "the file is there"))
    }

    async fn give(&self, request: &Request<Incoming>, slot: &Slot) -> Result<Response<Body>, UploadFailed> {
        if slot.stage != SlotStage::Filled {
            return Err(told_off(StatusCode::NOT_FOUND, "there is no such file"));
        }
        if request.method() == Method::GET
            && let Some(elsewhere) = self.elsewhere(slot)
        {
            return Ok(elsewhere);
        }
        let wanted = range::read_range(request.headers(), slot.size);
        let ByteRange { status, start, len } = wanted;
        let mut response = Response::new(Body::default());
        if status != StatusCode::RANGE_NOT_SATISFIABLE && request.method() == Method::GET {
            let read = self.storage.read(&slot.token, start, len).await?;
            *response.body_mut() = read.ok_or_else(|| told_off(StatusCode::NOT_FOUND, "there is no such file"))?;
        }
        *response.status_mut() = status;
        describe(response.headers_mut(), slot, &wanted);
        Ok(response)
    }

    /// Redirects a client to the storage's address of a file, if there is one.
    fn elsewhere(&self, slot: &Slot) -> Option<Response<Body>> {
        let (content_type, disposition) = (given_type_of(slot), disposition(slot));
        let shown = ShownFile { content_type, disposition: &disposition, cache_control: CACHED };
        let address = HeaderValue::from_str(&self.storage.address(&slot.token, shown)?).ok()?;
        let mut response = text(StatusCode::TEMPORARY_REDIRECT, "the file is elsewhere");
        response.headers_mut().insert(header::LOCATION, address);
        // The address is valid for an hour.
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Some(response)
    }

    /// Removes up to [`SWEEP`] expired files; returns their number.
    pub(crate) async fn sweep(&self) -> usize {
        let Ok(expired) = self.slots.list_expired(now_ms(), SWEEP).await else { return 0 };
        let mut count = 0;
        for token in expired.into_iter().filter(|token| is_token(token)) {
            match self.storage.remove(&token).await {
                // The file goes first: a slot without a file is harmless, but a file without a slot
                // would never be found again.
                Ok(()) => count += usize::from(self.slots.forget(&token).await.is_ok()),
                Err(error) => warn!(%error, "an expired file can't be removed"),
            }
        }
        count
    }
}

/// An upload in progress. If it is dropped before its end, it removes the partial file and releases
/// the slot.
struct Filling {
    files: UploadFiles,
    token: Option<String>,
    /// The time until which the slot then waits for another upload: the same as for this one.
    until: u64,
}

impl Drop for Filling {
    fn drop(&mut self) {
        let Some(token) = self.token.take() else { return };
        let (files, until) = (self.files.clone(), self.until);
        tokio::spawn(async move {
            if files.storage.remove(&token).await.is_ok() {
                let _ = files.slots.advance(&token, SlotStage::Filling, SlotStage::Reserved, now_ms(), until).await;
            }
        });
    }
}

/// The reason why a request fails.
enum UploadFailed {
    /// A mistake in the request, with the response for it.
    Told(Box<Response<Body>>),
    /// A failure of the server.
    Here(String),
}

impl From<io::Error> for UploadFailed {
    fn from(error: io::Error) -> Self {
        Self::Here(error.to_string())
    }
}

fn told_off(status: StatusCode, words: &str) -> UploadFailed {
    UploadFailed::Told(Box::new(text(status, words)))
}

/// Returns the response to a failure of the store: a client may try again later (RFC 9110 §15.6.4).
fn store(error: rookery_store::StoreError) -> UploadFailed {
    if !error.is_temporary() {
        return UploadFailed::Here(error.to_string());
    }
    warn!(%error, "a file can't be stored or served at present");
    told_off(StatusCode::SERVICE_UNAVAILABLE, "the server can't do it now")
}

/// Checks the headers: the length must be that of the slot, and so should the type (XEP-0363 §6).
fn judge(headers: &HeaderMap, slot: &Slot) -> Result<(), UploadFailed> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length {
        None => return Err(told_off(StatusCode::LENGTH_REQUIRED, "Content-Length is needed")),
        Some(length) if length != slot.size => {
            return Err(told_off(StatusCode::PAYLOAD_TOO_LARGE, "Content-Length isn't that of the upload slot"));
        }
        Some(_) => {}
    }
    let given = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    match (&slot.content_type, given) {
        (Some(wanted), Some(given)) if !given.eq_ignore_ascii_case(wanted.as_bytes()) => {
            Err(told_off(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type isn't that of the upload slot"))
        }
        _ => Ok(()),
    }
}

/// Writes a body of exactly `size` bytes, in chunks.
async fn write(body: &mut Incoming, mut file: Box<dyn Growing>, size: u64) -> Result<(), UploadFailed> {
    let broken = || told_off(StatusCode::BAD_REQUEST, "the upload broke off");
    let (mut run, mut taken, begun) = (Vec::new(), 0u64, Instant::now());
    loop {
        let patience = SILENCE.min(most_for(taken).saturating_sub(begun.elapsed()));
        let frame = timeout(patience, body.frame()).await;
        let frame = frame.map_err(|_| told_off(StatusCode::REQUEST_TIMEOUT, "the upload is too slow"))?;
        let is_end = frame.is_none();
        if let Some(frame) = frame {
            let data = frame.map_err(|_| broken())?.into_data().unwrap_or_default();
            taken += data.len() as u64;
            if taken > size {
                return Err(told_off(StatusCode::PAYLOAD_TOO_LARGE, "there is more data than the upload slot allows"));
            }
            run.extend_from_slice(&data);
        }
        if is_end || run.len() >= RUN {
            file.append(std::mem::take(&mut run)).await?;
        }
        if is_end {
            break;
        }
    }
    if taken != size {
        return Err(broken());
    }
    Ok(file.end().await?)
}

/// Returns the longest time that an upload of this size may take.
fn most_for(bytes: u64) -> Duration {
    SILENCE + Duration::from_secs(bytes / SLOWEST)
}

/// Reads the rest of a body, within bounds.
async fn drain(body: &mut Incoming) {
    let mut left = MOST_DRAINED;
    while left > 0
        && let Some(Ok(frame)) = body.frame().await
    {
        left = left.saturating_sub(frame.data_ref().map_or(1, |data| data.len().max(1)));
    }
}

/// Returns the media type to send for a file. A page uses a file of its own site as script or style
/// if its type is one of those, whatever the other headers say; so only types that browsers never
/// run are kept, and all others become plain bytes.
fn given_type(kind: &str) -> &str {
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (main, sub) = essence.split_once('/').unwrap_or_default();
    let is_harmless = match main {
        // XML can contain scripts, as SVG does.
        "image" | "audio" | "video" | "font" => !sub.contains("xml"),
        "text" => matches!(sub, "plain" | "vcard" | "x-vcard" | "calendar" | "csv" | "markdown"),
        "application" => {
            matches!(
                sub,
                "pdf"
                    | "zip"
                    | "gzip"
                    | "x-7z-compressed"
                    | "x-tar"
                    | "epub"
                    | "rtf"
                    | "msword"
                    | "pgp-keys"
                    | "pgp-encrypted"
            ) || (sub.starts_with("vnd.") && !sub.contains("xml") && !sub.contains("json"))
                || sub.starts_with("vnd.openxmlformats-officedocument.")
        }
        _ => false,
    };
    if is_harmless { kind } else { UNKNOWN_TYPE }
}

fn given_type_of(slot: &Slot) -> &str {
    given_type(slot.content_type.as_deref().unwrap_or(UNKNOWN_TYPE))
}

/// Returns the header that shows or downloads a file, with its name (RFC 6266).
fn disposition(slot: &Slot) -> String {
    let is_shown = SHOWN.iter().any(|shown| given_type_of(slot).eq_ignore_ascii_case(shown));
    let disposition = if is_shown { "inline" } else { "attachment" };
    format!("{disposition}; filename*=UTF-8''{}", rookery_modules::upload::encode(&slot.name))
}

/// Adds the headers that describe a served file.
fn describe(headers: &mut HeaderMap, slot: &Slot, wanted: &ByteRange) {
    let mut insert = |name: header::HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    insert(header::CONTENT_TYPE, given_type_of(slot));
    insert(header::CONTENT_DISPOSITION, &disposition(slot));
    insert(header::ACCEPT_RANGES, "bytes");
    insert(header::CACHE_CONTROL, CACHED);
    insert(header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox; frame-ancestors 'none'");
    insert(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    insert(header::REFERRER_POLICY, "no-referrer");
    match wanted.status {
        StatusCode::RANGE_NOT_SATISFIABLE => insert(header::CONTENT_RANGE, &format!("bytes */{}", slot.size)),
        StatusCode::PARTIAL_CONTENT => {
            let last = wanted.start + wanted.len.saturating_sub(1);
            insert(header::CONTENT_RANGE, &format!("bytes {}-{last}/{}", wanted.start, slot.size));
            insert(header::CONTENT_LENGTH, &wanted.len.to_string());
        }
        _ => insert(header::CONTENT_LENGTH, &wanted.len.to_string()),
    }
}

/// Returns whether a text can be a token of ours, and so the name of a file.
fn is_token(text: &str) -> bool {
    (16..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// §7.
const CORS: [(header::HeaderName, &str); 4] = [
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (header::ACCESS_CONTROL_ALLOW_METHODS, "OPTIONS, HEAD, GET, PUT"),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type, Range"),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Content-Range"),
];
/// Types that a browser may show. None of them can contain a script, as SVG and PDF can.
const SHOWN: [&str; 12] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
    "audio/mpeg",
    "audio/ogg",
    "audio/mp4",
    "audio/webm",
    "video/mp4",
    "video/webm",
    "video/ogg",
];
/// The time for which clients may cache a file: it never changes.
const CACHED: &str = "private, max-age=86400, immutable";
const UNKNOWN_TYPE: &str = "application/octet-stream";
/// The number of bytes that are written at a time.
const RUN: usize = 256 * 1024;
/// The time for which an upload may be silent.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// The fewest bytes per second, on average, of an upload; a bad telephone line has ten times as
/// many.
const SLOWEST: u64 = 2 * 1024;
/// The time that a slot waits beyond the longest upload, for the last bytes to be written.
const MARGIN: Duration = Duration::from_secs(60);
/// The time for which a refused upload may continue, and the most of its bytes that are read.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_DRAINED: usize = 1024 * 1024;
/// The number of files that are removed at a time.
const SWEEP: usize = 100;

#[cfg(test)]
mod tests {
    use rookery_jid::Jid;
    use rookery_sasl::Credentials;
    use rookery_store::memory::Memory;
    use rookery_store::{Reserved, SlotQuota};

    use super::*;

    #[test]
    fn what_browsers_run_is_bytes() {
        for kind in [
            "text/javascript",
            "Text/JavaScript; charset=utf-8",
            "application/javascript",
            "application/x-ecmascript",
            "text/jscript",
            "text/css",
            "text/html",
            "text/xml",
            "text/xsl",
            "image/svg+xml",
            "application/xhtml+xml",
            "application/json",
            "application/manifest+json",
            "application/wasm",
            "application/vnd.mozilla.xul+xml",
            "application/vnd.api+json",
            "multipart/x-mixed-replace",
            "message/rfc822",
            "text/vbscript",
            "",
            "rubbish",
        ] {
            assert_eq!(given_type(kind), UNKNOWN_TYPE, "{kind}");
        }
        for kind in [
            "image/png",
            "IMAGE/JPEG",
            "audio/ogg; codecs=opus",
            "video/mp4",
            "text/plain; charset=utf-8",
            "application/pdf",
            "application/vnd.oasis.opendocument.text",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ] {
            assert_eq!(given_type(kind), kind);
        }
    }

    #[test]
    fn uploads_may_take_long_and_not_for_ever() {
        assert_eq!(most_for(0), SILENCE, "who says nothing");
        assert!(most_for(100 << 20) > Duration::from_secs(3600), "a film over a bad line");
        assert!(most_for(1000) < SILENCE * 2, "byte by byte");
        assert!(most_for(u64::MAX) > most_for(1 << 40), "no size is too large to say");
    }

    #[test]
    fn what_has_expired_goes_with_its_file() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(expired_files_go());
    }

    async fn expired_files_go() {
        let place = tempfile::tempdir().unwrap();
        let stores = Memory::stores();
        let owner = Jid::parse("romeo@example.org").unwrap();
        let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).unwrap();
        assert!(stores.accounts.create(owner.as_ref(), credentials).await.unwrap());
        let files = UploadFiles::new(place.path().to_owned(), stores.slots.clone());
        let (old, new) = ("old-old-old-old-old-", "new-new-new-new-new-");
        for (token, expires_ms) in [(old, 1), (new, u64::MAX >> 1)] {
            let (token, owner, name) = (token.to_owned(), owner.clone(), "a.png".to_owned());
            let mut file = files.storage.begin(&token, 7).await.unwrap();
            file.append(b"picture".to_vec()).await.unwrap();
            file.end().await.unwrap();
            let (size, content_type, keep_ms, stage) = (7, None, 1, SlotStage::Filled);
            let slot = Slot { token, owner, name, size, content_type, expires_ms, keep_ms, stage };
            let quota = SlotQuota { bytes: 100, files: 9, waiting: 9 };
            assert_eq!(stores.slots.reserve(slot, quota).await.unwrap(), Reserved::Done);
        }
        assert!(files.find(&format!("{old}/a.png")).await.is_err(), "it is given out no more");
        assert!(files.find(&format!("{new}/a.png")).await.is_ok());
        assert_eq!(files.sweep().await, 1);
        assert!(files.storage.read(old, 0, 1).await.unwrap().is_none());
        assert!(files.storage.read(new, 0, 1).await.unwrap().is_some());
        assert_eq!(files.sweep().await, 0);
        assert!(stores.slots.list_expired(now_ms(), 9).await.unwrap().is_empty());
    }

    #[test]
    fn only_tokens_become_file_names() {
        assert!(is_token(&"aB3-_".repeat(10)));
        for bad in [
            "",
            "short",
            &"a".repeat(200),
            "../../../../etc/passwd",
            "aaaaaaaaaaaaaaaaaaaa\0",
            "%2e%2e%2faaaaaaaaaaaaaaa",
        ] {
            assert!(!is_token(bad), "{bad}");
        }
    }
}
