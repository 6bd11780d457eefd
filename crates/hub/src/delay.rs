//! Stamps of late delivery (XEP-0203) and the date format of XMPP (XEP-0082).

use rookery_xml::{Built, Writer, ns};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time of day in UTC as XEP-0082 §3.2 writes it, with seconds; from milliseconds since 1970.
pub fn timestamp(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(&Rfc3339).unwrap_or_default()
}

/// The `<delay/>` that tells when `from` received what is delivered only now.
pub fn element(from: &str, unix_ms: u64) -> Built {
    let mut delay = Writer::with_ns("delay", ns::DELAY);
    delay.attr("from", from).attr("stamp", &timestamp(unix_ms));
    delay.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_xep_0082_says() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(1_031_684_908_999), "2002-09-10T19:08:28Z");
        assert_eq!(timestamp(u64::MAX), "1970-01-01T00:00:00Z");
    }
}
