//! Findings of checks, for the operator: `rookery check`.

use std::cmp::Ordering;
use std::fmt;

use crate::StoreError;

/// A finding of a check of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The consequence for the server, by which findings are sorted and counted.
    pub severity: Severity,
    /// The finding as a text and, unless it is good, the remedy.
    pub text: String,
}

/// The consequence of a [`Finding`] for the server, from the least to the most severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be, or good to know.
    Note,
    /// The server starts, but something wants attention.
    Warning,
    /// The server wouldn't start now, but will once the obstacle is gone, which may happen by
    /// itself.
    Blocked,
    /// The server wouldn't start, however often it was tried.
    Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "ok",
            Severity::Warning => "warning",
            Severity::Blocked => "blocked",
            Severity::Fault => "fault",
        };
        write!(f, "{severity}: {}", self.text)
    }
}

/// Returns the finding for an error that ended a check.
pub(crate) fn for_error(error: &StoreError) -> Finding {
    let severity = if error.is_temporary() { Severity::Blocked } else { Severity::Fault };
    Finding { severity, text: error.to_string() }
}

/// Returns the finding about the version of the schema.
pub(crate) fn schema(found: i64, known: i64) -> Finding {
    if found == 0 {
        let text = format!("the database is empty; the server will create schema version {known}");
        return Finding { severity: Severity::Note, text };
    }
    let more = match found.cmp(&known) {
        Ordering::Less => format!("; the server will update it to {known}"),
        Ordering::Equal => String::new(),
        Ordering::Greater => format!(" of a newer server; this one knows {known} and can use it"),
    };
    Finding { severity: Severity::Note, text: format!("schema version {found}{more}") }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use remote::{clock, connections, distance, host, partitions};

/// Findings about databases in other processes.
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod remote {
    use super::{Finding, Severity};
    use crate::StoreError;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    fn finding(is_good: bool, text: String) -> Finding {
        let severity = if is_good { Severity::Note } else { Severity::Warning };
        Finding { severity, text }
    }

    /// Returns the number of partitions of archives, and how to divide them if that is wanted and
    /// hasn't happened.
    pub(crate) fn partitions(parts: usize, is_wanted: bool) -> Option<Finding> {
        let (severity, text) = match (parts, is_wanted) {
            (0, false) => return None,
            (0, true) => {
                (Severity::Warning, "its archives aren't divided into months: run `rookery store migrate`".to_owned())
            }
            (parts, _) => (Severity::Note, format!("archives in {parts} parts by months")),
        };
        Some(Finding { severity, text })
    }

    /// Returns the finding about one of several hosts, and whether it can only be read.
    pub(crate) fn host(name: &str, found: &Result<bool, StoreError>) -> Finding {
        match found {
            Ok(false) => finding(true, format!("{name} can be written to")),
            Ok(true) => finding(true, format!("{name} can only be read, as a replica that may take over")),
            Err(error) => finding(
                false,
                format!(
                    "{name} can't be used: {}; the others are used meanwhile; check whether it runs and accepts connections, or take it out of \
                     `url` under [store]",
                    error.message()
                ),
            ),
        }
    }

    /// Returns whether a database accepts the connections of `servers` servers, each with `owners`
    /// connections for owners.
    pub(crate) fn connections(most: usize, owners: usize, servers: usize) -> Finding {
        let (each, servers) = (owners + BESIDES, servers.max(1));
        let wanted = each * servers;
        let of = if servers > 1 { format!(", the {servers} nodes of the cluster {wanted}") } else { String::new() };
        let more = match most >= wanted + RESERVED {
            true => String::new(),
            false => {
                format!("; set it to {} or more, because administrators and backups need some, too", wanted + RESERVED)
            }
        };
        finding(more.is_empty(), format!("max_connections {most}; each server makes {each}{of}{more}"))
    }

    /// Returns the difference between a database's clock, in milliseconds of Unix time, and this
    /// machine's, if it is significant.
    pub(crate) fn clock(theirs_ms: i64) -> Option<Finding> {
        let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ahead = theirs_ms.saturating_sub(i64::try_from(ours.as_millis()).unwrap_or(i64::MAX)) / 1000;
        let direction = if ahead > 0 { "ahead of" } else { "behind" };
        let text = format!(
            "its clock is {} seconds {direction} this machine's: no stored data depends on it, but logs can't be compared, and the clocks of nodes have to agree; have all use the same source of time",
            ahead.unsigned_abs()
        );
        (ahead.unsigned_abs() > CLOCK_S).then(|| finding(false, text))
    }

    /// Measures the distance of a database.
    ///
    /// # Errors
    ///
    /// The errors of a round trip.
    pub(crate) fn distance(
        owners: usize,
        mut trip: impl FnMut() -> Result<(), StoreError>,
    ) -> Result<Finding, StoreError> {
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let start = Instant::now();
            trip()?;
            trips.push(start.elapsed());
        }
        trips.sort_unstable();
        Ok(finding(true, describe_trips(&trips, owners)))
    }

    /// Returns the times of round trips in their order, and their effect on logins.
    pub(super) fn describe_trips(trips: &[Duration], owners: usize) -> String {
        let at = |percent: usize| trips.get(trips.len() * percent / 100).copied().unwrap_or_default();
        let ms = |trip: Duration| trip.as_secs_f64() * 1000.0;
        let logins = owners as f64 / (at(50).as_secs_f64().max(1e-6) * TRIPS_PER_LOGIN);
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

    /// The number of round trips of a login: at most eight statements, and the beginnings of their
    /// transactions.
    const TRIPS_PER_LOGIN: f64 = 10.0;

    /// The number of round trips that are measured.
    const TRIPS: usize = 200;

    /// The number of a server's connections other than those for owners.
    const BESIDES: usize = 2;

    /// The number of connections that others need: the administrator and backups.
    const RESERVED: usize = 10;

    /// The seconds by which clocks may differ.
    const CLOCK_S: u64 = 30;
}

#[cfg(test)]
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn the_distance_is_told_in_logins() {
        let trips: Vec<_> = (1..=100).map(|at| Duration::from_micros(at * 10)).collect();
        let told = remote::describe_trips(&trips, 8);
        assert!(
            told.contains("0.51 ms (half of 100), 0.91 ms (90 %), 1.00 ms (99 %), which leaves time for 1569 logins"),
            "{told}"
        );
    }

    #[test]
    fn connections_of_all_nodes_are_counted() {
        for (most, servers, expected) in [
            (20, 0, (Severity::Note, "max_connections 20; each server makes 10")),
            (19, 1, (Severity::Warning, "set it to 20 or more")),
            (40, 3, (Severity::Note, "the 3 nodes of the cluster 30")),
            (39, 3, (Severity::Warning, "the 3 nodes of the cluster 30; set it to 40 or more")),
        ] {
            let found = connections(most, 8, servers);
            assert!(found.severity == expected.0 && found.text.contains(expected.1), "{found:?}");
        }
    }

    #[test]
    fn a_clock_that_differs_is_told() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_millis() as i64;
        assert_eq!(clock(now), None);
        for (theirs, words) in [(now + 3_600_000, " seconds ahead of this"), (now - 3_600_000, " seconds behind this")]
        {
            let told = clock(theirs).expect("a difference");
            assert!(told.severity == Severity::Warning && told.text.contains(words), "{told:?}");
        }
        assert!(clock(i64::MAX).is_some() && clock(i64::MIN).is_some());
    }
}
