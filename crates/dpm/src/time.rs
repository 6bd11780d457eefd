//! Time as the core sees it: passed in, never read from a clock.

use std::fmt;

/// A moment, by the monotonic clock and by that of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since some start, which never decrease.
    pub millis: u64,
    /// Milliseconds since 1970, by the machine's clock.
    pub unix_millis: i64,
}

/// A time in milliseconds since 1970, displayed as ISO 8601 in UTC.
#[derive(Debug, Clone, Copy)]
pub struct Utc(pub i64);

impl fmt::Display for Utc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, of_day) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        // In years that begin in March the leap day comes last: 146 097 days are 400 such years.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, is_next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let (hours, minutes) = (of_day / 3_600_000, of_day / 60_000 % 60);
        let (seconds, millis) = (of_day / 1000 % 60, of_day % 1000);
        write!(formatter, "{:04}-{month:02}-{day:02}T", year + 400 * era + is_next)?;
        write!(formatter, "{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
    }
}

const DAY: i64 = 86_400_000;
