//! Stamps of late delivery (XEP-0203) and the date format of XMPP (XEP-0082).

use std::collections::VecDeque;

use rookery_xml::{Built, Writer, ns};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time of day in UTC as XEP-0082 §3.2 writes it, with seconds; from milliseconds since 1970.
pub fn timestamp(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(&Rfc3339).unwrap_or_default()
}

/// The same with milliseconds, where times are compared.
pub fn timestamp_ms(unix_ms: u64) -> String {
    let mut text = timestamp(unix_ms);
    if text.pop().is_some() {
        text.push_str(&format!(".{:03}Z", unix_ms % 1000));
    }
    text
}

/// Reads a time of day as XEP-0082 §3.2 writes it, into milliseconds since 1970; what was before counts as 0. `None` if it is none.
pub fn parse(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text.trim(), &Rfc3339).ok()?;
    Some(u64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap_or(0))
}

/// The `<delay/>` that tells when `from` received what is delivered only now.
pub fn element(from: &str, unix_ms: u64) -> Built {
    let mut delay = Writer::with_ns("delay", ns::DELAY);
    delay.attr("from", from).attr("stamp", &timestamp(unix_ms));
    delay.finish()
}

/// When copies were taken by the outboxes of a shard, to a second: what a copy costs for that is nothing.
#[derive(Debug, Default)]
pub(crate) struct Taken(VecDeque<(u64, u64)>);

impl Taken {
    /// From now on `number` copies have been taken.
    pub fn note(&mut self, number: u64, unix_ms: u64) {
        match self.0.back_mut() {
            Some((last, at)) if *last == number => *at = unix_ms,
            Some((_, at)) if unix_ms.saturating_sub(*at) < RESOLUTION_MS => {}
            _ => self.0.push_back((number, unix_ms)),
        }
        if self.0.len() > MOST_NOTES {
            self.0.pop_front();
        }
    }

    /// When a copy with that number was taken; `None` if that is too long ago.
    pub fn when(&self, number: u64) -> Option<u64> {
        let later = self.0.partition_point(|&(first, _)| first <= number);
        self.0.get(later.checked_sub(1)?).map(|&(_, at)| at)
    }
}

/// Milliseconds between two notes.
const RESOLUTION_MS: u64 = 1000;
/// Notes that are kept: more than an hour of seconds.
const MOST_NOTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_their_time() {
        let mut taken = Taken::default();
        assert_eq!(taken.when(0), None);
        for (number, at) in [(0, 1000), (0, 5000), (7, 5500), (9, 6100), (9, 9000)] {
            taken.note(number, at);
        }
        assert_eq!(
            [0, 6, 7, 8, 9, 100].map(|number| taken.when(number)),
            [5000, 5000, 5000, 5000, 9000, 9000].map(Some)
        );
        for at in 0..10_000 {
            taken.note(10 + at, 10_000 + at * 2000);
        }
        assert_eq!(taken.when(0), None);
        assert_eq!(taken.when(10_009), Some(10_000 + 9_999 * 2000));
    }

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
