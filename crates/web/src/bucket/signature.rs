//! Signatures of requests to a bucket: AWS Signature Version 4 in the query of the address, which
//! all S3-compatible storages support.
//!
//! The signature covers method, host, path and query. It doesn't cover the body, as usual for
//! presigned addresses: TLS protects that.

use hmac::{Hmac, KeyInit, Mac};
use rookery_base::date::timestamp;
use rookery_base::hex;
use sha2::{Digest, Sha256};

/// The key that a storage has issued, and its region.
#[derive(Clone)]
pub struct BucketKey {
    /// The region of the bucket, such as `us-east-1`.
    pub region: String,
    /// The name of the key.
    pub access_key: String,
    /// Its secret part.
    pub secret_key: String,
}

impl std::fmt::Debug for BucketKey {
    /// Hides the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BucketKey").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// The signed parts of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignedParts<'a> {
    pub method: &'a str,
    /// The host, as in the header `Host`.
    pub host: &'a str,
    /// The path, as in the request.
    pub path: &'a str,
    /// Further parameters of the query, before encoding.
    pub query: &'a [(&'a str, &'a str)],
    /// The time of the signature, in milliseconds since 1970, and its validity in seconds.
    pub now_ms: u64,
    pub seconds: u64,
}

impl BucketKey {
    /// Returns the query of a signed request.
    pub(super) fn query(&self, parts: SignedParts<'_>) -> String {
        let time: String = timestamp(parts.now_ms).chars().filter(|letter| !"-:".contains(*letter)).collect();
        let day = time.get(..8).unwrap_or_default();
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let (credential, seconds) = (format!("{}/{scope}", self.access_key), parts.seconds.to_string());
        let own = [
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &time),
            ("X-Amz-Expires", &seconds),
            ("X-Amz-SignedHeaders", "host"),
        ];
        let encoded = own.iter().chain(parts.query).map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        let mut encoded: Vec<String> = encoded.collect();
        encoded.sort_unstable();
        let query = encoded.join("&");
        let SignedParts { method, host, path, .. } = parts;
        let request = format!("{method}\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hex::encode(Sha256::digest(request)));
        let signature = hex::encode(hmac(&self.key(day), &text));
        format!("{query}&X-Amz-Signature={signature}")
    }

    /// Returns the signing key of a day.
    fn key(&self, day: &str) -> [u8; 32] {
        let first = hmac(format!("AWS4{}", self.secret_key).as_bytes(), day);
        [self.region.as_str(), "s3", "aws4_request"].iter().fold(first, |key, part| hmac(&key, part))
    }
}

/// Returns the HMAC of a text.
fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    // HMAC takes keys of any length.
    let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(key) else { return [0; 32] };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

/// Returns a text as in the query of a signed address: percent-encoded, except for unreserved
/// characters (RFC 3986 §2.3).
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the documentation of Amazon S3, "Authenticating Requests: Using Query
    /// Parameters".
    #[test]
    fn signatures_are_those_of_the_published_example() {
        let key = BucketKey {
            region: "us-east-1".into(),
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        };
        let query = key.query(SignedParts {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt",
            query: &[],
            now_ms: 1_369_353_600_000,
            seconds: 86_400,
        });
        let (signed, signature) = query.split_once("&X-Amz-Signature=").expect("a signature");
        assert_eq!(signature, "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
        assert!(signed.contains("X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"));
        assert!(!format!("{key:?}").contains("wJalr"), "the secret is shown nowhere");
    }
}
