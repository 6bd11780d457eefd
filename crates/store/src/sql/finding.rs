//! Findings of checks, for the operator: `rookery check`.

use std::fmt;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::time::Duration;

/// Something that a check of a database found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is and, unless it is good, what mends it.
    pub text: String,
}

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be, or good to know.
    Note,
    /// The server starts, but something wants attention.
    Warning,
    /// The server wouldn't start or would fail.
    Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "ok",
            Severity::Warning => "warning",
            Severity::Fault => "fault",
        };
        write!(f, "{severity}: {}", self.text)
    }
}

/// Says how far away a database is, by the times of round trips in their order.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn distance(trips: &[Duration], connections: usize) -> String {
    let at = |percent: usize| trips.get(trips.len() * percent / 100).copied().unwrap_or_default();
    let ms = |trip: Duration| trip.as_secs_f64() * 1000.0;
    let logins = connections as f64 / (at(50).as_secs_f64().max(1e-6) * TRIPS_PER_LOGIN);
    format!(
        "a round trip takes {:.2} ms (half of {}), {:.2} ms (90 %), {:.2} ms (99 %), which leaves time for {:.0} logins a second, as \
         far as both sides can compute them",
        ms(at(50)),
        trips.len(),
        ms(at(90)),
        ms(at(99)),
        logins
    )
}

/// The round trips that a login takes: at most eight statements, and what begins their transactions.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const TRIPS_PER_LOGIN: f64 = 10.0;

#[cfg(test)]
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_told_in_logins() {
        let trips: Vec<_> = (1..=100).map(|at| Duration::from_micros(at * 10)).collect();
        let told = distance(&trips, 8);
        assert!(
            told.contains("0.51 ms (half of 100), 0.91 ms (90 %), 1.00 ms (99 %), which leaves time for 1569 logins"),
            "{told}"
        );
    }
}
