//! Dates in readable form, and the current time.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

/// Returns the seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the whole days from now until a time, negative if that has passed.
pub fn days_until(then: i64) -> i64 {
    then.saturating_sub_unsigned(now()).div_euclid(DAY)
}

/// Returns the day in UTC, as `2026-11-21`.
pub fn date(unix: i64) -> String {
    OffsetDateTime::from_unix_timestamp(unix)
        .map_or_else(|_| format!("second {unix} of the epoch"), |time| time.date().to_string())
}

const DAY: i64 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_whole() {
        let now = now() as i64;
        assert_eq!(days_until(now + 2 * DAY + 100), 2);
        assert_eq!(days_until(now - 100), -1);
        assert_eq!(date(0), "1970-01-01");
    }
}
