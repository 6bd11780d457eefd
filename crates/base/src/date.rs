//! The date format of XMPP (XEP-0082), which the server's pages and files use as well.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Returns a date and time in UTC to the second, in the form of XEP-0082 §3.2; from milliseconds
/// since 1970.
pub fn timestamp(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(&Rfc3339).unwrap_or_default()
}

/// Returns a date and time as [`timestamp`] does, but to the millisecond, for times that are
/// compared.
pub fn timestamp_ms(unix_ms: u64) -> String {
    let mut text = timestamp(unix_ms);
    if text.pop().is_some() {
        text.push_str(&format!(".{:03}Z", unix_ms % 1000));
    }
    text
}

/// Reads a date and time in the form of XEP-0082 §3.2 as milliseconds since 1970; earlier times
/// count as 0. Returns `None` if the text has another form.
pub fn parse(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text.trim(), &Rfc3339).ok()?;
    Some(u64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_xep_0082_says() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(1_031_684_908_999), "2002-09-10T19:08:28Z");
        assert_eq!(timestamp(u64::MAX), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp_ms(1_031_684_908_007), "2002-09-10T19:08:28.007Z");
    }

    #[test]
    fn dates_are_read_as_xep_0082_says() {
        for text in ["2002-09-10T19:08:28.5Z", " 2002-09-10T21:08:28.5+02:00", "2002-09-10T19:08:28.500000Z"] {
            assert_eq!(parse(text), Some(1_031_684_908_500), "{text}");
        }
        assert_eq!(parse("1969-07-21T02:56:15Z"), Some(0));
        for text in ["", "2002-09-10", "2002-13-10T19:08:28Z", "yesterday", "1' OR '1'='1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
