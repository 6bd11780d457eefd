//! Parts of a file (RFC 9110 §14): one range in bytes. For several ranges, and for one that can't
//! be parsed, the whole file is sent, as §14.2 allows.

use hyper::StatusCode;
use hyper::header::{HeaderMap, RANGE};

/// The part of a file that a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// 200, 206 or 416.
    pub status: StatusCode,
    /// The first byte.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
}

/// Returns the requested part of a file of `size` bytes.
pub fn read_range(headers: &HeaderMap, size: u64) -> ByteRange {
    let text = headers.get(RANGE).and_then(|range| range.to_str().ok()).and_then(|range| range.strip_prefix("bytes="));
    let whole = ByteRange { status: StatusCode::OK, start: 0, len: size };
    let Some((first, last)) = text.and_then(|text| text.split_once('-')) else { return whole };
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let (start, end) = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(size)),
        (Some(first), None) if last.is_empty() => (first, size),
        (None, Some(suffix)) if first.is_empty() => {
            (if suffix == 0 { size } else { size.saturating_sub(suffix) }, size)
        }
        _ => return whole,
    };
    if start >= size {
        return ByteRange { status: StatusCode::RANGE_NOT_SATISFIABLE, start: 0, len: 0 };
    }
    ByteRange { status: StatusCode::PARTIAL_CONTENT, start, len: end - start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_standard() {
        let get = |range: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, range.parse().unwrap());
            let ByteRange { status, start, len } = read_range(&headers, 100);
            (status.as_u16(), start, len)
        };
        assert_eq!(get("bytes=0-9"), (206, 0, 10));
        assert_eq!(get("bytes=90-"), (206, 90, 10));
        assert_eq!(get("bytes=90-1000"), (206, 90, 10));
        assert_eq!(get("bytes=-10"), (206, 90, 10));
        assert_eq!(get("bytes=-1000"), (206, 0, 100));
        assert_eq!(get("bytes=100-"), (416, 0, 0));
        assert_eq!(get("bytes=-0"), (416, 0, 0));
        for whole in [
            "bytes=9-0",
            "bytes=a-b",
            "bytes=0-1,5-6",
            "lines=0-1",
            "bytes=-",
            "bytes=+1-2",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(get(whole), (200, 0, 100), "{whole}");
        }
    }
}
