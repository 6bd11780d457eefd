//! Compressed responses (RFC 9110 §8.4.1): `gzip` and `deflate`, for clients that ask for them.
//!
//! The compressor takes a quarter of a megabyte, so there is one for all, which is cleared after
//! each response: responses contain one user's data, which must not leak into another user's.

use std::sync::Mutex;

use hyper::header::{ACCEPT_ENCODING, HeaderMap};
use miniz_oxide::deflate::core::create_comp_flags_from_zip_params;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output};
use rookery_base::lock::lock;

/// The compression of a response (RFC 9110 §8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950.
    Deflate,
}

/// The compressors.
#[derive(Default)]
pub struct Encoder {
    raw: Mutex<Option<Box<CompressorOxide>>>,
    zlib: Mutex<Option<Box<CompressorOxide>>>,
}

impl Coding {
    /// Returns the first of our codings that a client accepts. One with the weight 0 is refused.
    pub fn choose(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
        let accepted: Vec<&str> = lines.flat_map(|line| line.split(',')).filter_map(accepted_name).collect();
        let is_accepted = |name: &str| accepted.iter().any(|accepted| accepted.eq_ignore_ascii_case(name));
        [Self::Gzip, Self::Deflate].into_iter().find(|coding| is_accepted(coding.name()))
    }

    /// Returns the name of the coding in headers (RFC 9110 §8.4.1).
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }
}

/// Returns the name of a coding in a list, unless its weight is 0.
fn accepted_name(item: &str) -> Option<&str> {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next()?;
    let weight = parts.find_map(|part| part.strip_prefix("q=")).map(|weight| weight.trim().parse::<f32>());
    (weight.is_none_or(|weight| weight.is_ok_and(|weight| weight > 0.0))).then_some(name)
}

/// Compresses a response.
pub fn encode(coding: Coding, plain: &[u8], encoder: &Encoder) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len() / 2);
    match coding {
        Coding::Deflate => compress(&encoder.zlib, 1, plain, &mut out),
        Coding::Gzip => {
            out.extend_from_slice(GZIP_HEAD);
            compress(&encoder.raw, 0, plain, &mut out);
            out.extend_from_slice(&crc32(plain).to_le_bytes());
            out.extend_from_slice(&(plain.len() as u32).to_le_bytes());
        }
    }
    out
}

/// Compresses into `out`. `window_bits` has zlib's meaning: positive for a header and a checksum, 0
/// for none.
fn compress(compressor: &Mutex<Option<Box<CompressorOxide>>>, window_bits: i32, plain: &[u8], out: &mut Vec<u8>) {
    let mut compressor = lock(compressor);
    let new = || Box::new(CompressorOxide::new(create_comp_flags_from_zip_params(LEVEL, window_bits, 0)));
    let compressor = compressor.get_or_insert_with(new);
    compressor.reset();
    let (status, _) = compress_to_output(compressor, plain, TDEFLFlush::Finish, |bytes| {
        out.extend_from_slice(bytes);
        true
    });
    debug_assert_eq!(status, TDEFLStatus::Done);
    compressor.reset();
}

/// Returns the checksum of RFC 1952 §8.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < table.len() {
        let mut crc = at as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

static TABLE: [u32; 256] = table();
/// No name, no time, no specific system (RFC 1952 §2.3).
const GZIP_HEAD: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// Fast, since users wait for responses.
const LEVEL: i32 = 1;

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn what_is_compressed_can_be_read() {
        let encoder = Encoder::default();
        let plain = b"<body xmlns='http://jabber.org/protocol/httpbind'>".repeat(500);
        for _ in 0..3 {
            let deflated = encode(Coding::Deflate, &plain, &encoder);
            assert_eq!(miniz_oxide::inflate::decompress_to_vec_zlib(&deflated).unwrap(), plain);
            let zipped = encode(Coding::Gzip, &plain, &encoder);
            let raw = &zipped[GZIP_HEAD.len()..zipped.len() - 8];
            assert_eq!(miniz_oxide::inflate::decompress_to_vec(raw).unwrap(), plain);
            assert!(zipped.len() < plain.len() / 20);
        }
    }

    #[test]
    fn only_who_asks_gets_it() {
        let wanted = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            Coding::choose(&headers)
        };
        assert_eq!(Coding::choose(&HeaderMap::new()), None);
        assert_eq!(wanted("gzip, deflate, br"), Some(Coding::Gzip));
        assert_eq!(wanted("br, Deflate;q=0.5"), Some(Coding::Deflate));
        assert_eq!(wanted("gzip;q=0, deflate; q=0.0"), None);
        assert_eq!(wanted("identity"), None);
        assert_eq!(wanted("gzip;q=nothing"), None);
    }
}
