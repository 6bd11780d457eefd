//! The text after `<-` in a request: the source of its readings.

use super::WantedReadings;
use crate::status::Status;

/// The source of readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistorySource {
    /// From front-ends, now.
    Live,
    /// From front-ends by fast plots.
    FastPlot,
    /// All readings of a period, from the recording.
    Span {
        /// The beginning, in milliseconds since 1970.
        from: i64,
        /// The end.
        to: i64,
        /// The named logger; any if there is none.
        logger: Option<String>,
    },
    /// All readings of the last milliseconds, from the recording.
    Last {
        /// The number of milliseconds.
        millis: i64,
        /// The named logger.
        logger: Option<String>,
    },
    /// The reading nearest to a time, from the recording.
    Single {
        /// The named logger.
        logger: String,
        /// The time, in seconds since 1970.
        at: i64,
        /// The largest distance from that time, in seconds.
        within: i64,
    },
}

impl HistorySource {
    /// Reads `LOGGER:from:to[:logger]`, `LOGGERDURATION:millis[:logger]`,
    /// `LOGGERSINGLE:logger:seconds:seconds`, `FTP` or `LIVEDATA`.
    ///
    /// Errors are for a source that is not served, and for invalid numbers.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| Status::BAD_DATASOURCE_FORMAT);
        let words: Vec<&str> = text.split(':').map(str::trim).collect();
        let (name, rest) = words.split_first().ok_or(Status::INVALID_DATASOURCE)?;
        let logger = |word: Option<&&str>| word.map(|word| word.to_ascii_uppercase());
        match (name.to_ascii_uppercase().as_str(), rest) {
            ("" | "LIVEDATA", []) => Ok(Self::Live),
            ("FTP", []) => Ok(Self::FastPlot),
            ("LOGGER", [from, to, rest @ ..]) if rest.len() < 2 => {
                Ok(Self::Span { from: number(from)?, to: number(to)?, logger: logger(rest.first()) })
            }
            ("LOGGERDURATION", [millis, rest @ ..]) if rest.len() < 2 => {
                Ok(Self::Last { millis: number(millis)?, logger: logger(rest.first()) })
            }
            ("LOGGERSINGLE", [name, at, within]) => {
                Ok(Self::Single { logger: name.to_ascii_uppercase(), at: number(at)?, within: number(within)? })
            }
            ("LOGGER" | "LOGGERDURATION" | "LOGGERSINGLE" | "FTP" | "LIVEDATA", _) => {
                Err(Status::BAD_DATASOURCE_FORMAT)
            }
            _ => Err(Status::INVALID_DATASOURCE),
        }
    }

    /// Returns the selected recorded readings, if the source is a recording; `now` is in
    /// milliseconds since 1970.
    pub fn selection(&self, now: i64) -> Option<WantedReadings> {
        let micros = |millis: i64| millis.saturating_mul(1000);
        match self {
            Self::Live | Self::FastPlot => None,
            Self::Span { from, to, .. } => Some(WantedReadings::Span { from: micros(*from), to: micros(*to) }),
            Self::Last { millis, .. } => {
                Some(WantedReadings::Span { from: micros(now.saturating_sub(*millis)), to: micros(now) })
            }
            Self::Single { at, within, .. } => {
                let micros = |seconds: i64| seconds.saturating_mul(1_000_000);
                Some(WantedReadings::Nearest { at: micros(*at), within: micros(*within) })
            }
        }
    }

    /// Returns the named logger, if there is one.
    pub fn logger(&self) -> Option<&str> {
        match self {
            Self::Live | Self::FastPlot => None,
            Self::Span { logger, .. } | Self::Last { logger, .. } => logger.as_deref(),
            Self::Single { logger, .. } => Some(logger),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read() {
        for (text, source) in [
            ("LIVEDATA", HistorySource::Live),
            ("ftp", HistorySource::FastPlot),
            ("LOGGER:1:2", HistorySource::Span { from: 1, to: 2, logger: None }),
            ("logger:1:2:backup", HistorySource::Span { from: 1, to: 2, logger: Some("BACKUP".into()) }),
            ("LOGGERDURATION:60000", HistorySource::Last { millis: 60_000, logger: None }),
            ("LOGGERSINGLE:DPM06:17:2", HistorySource::Single { logger: "DPM06".into(), at: 17, within: 2 }),
        ] {
            assert_eq!(HistorySource::parse(text), Ok(source), "{text}");
        }
        for text in
            ["LOGGER", "LOGGER:1", "LOGGER:a:b", "LOGGER:1:2:3:4", "LOGGERSINGLE:1:2", "FTP:1", "LOGGERDURATION:"]
        {
            assert_eq!(HistorySource::parse(text), Err(Status::BAD_DATASOURCE_FORMAT), "{text}");
        }
        for text in ["SRFILE:300", "MIRROR", "REDIR:A->B", "SDAFILE:1:2:3:4", "NOSUCH"] {
            assert_eq!(HistorySource::parse(text), Err(Status::INVALID_DATASOURCE), "{text}");
        }
    }

    #[test]
    fn times_that_no_clock_has_do_no_harm() {
        let source = HistorySource::parse(&format!("LOGGER:{}:{}", i64::MIN, i64::MAX)).expect("numbers");
        assert_eq!(source.selection(0), Some(WantedReadings::Span { from: i64::MIN, to: i64::MAX }));
        assert!(
            HistorySource::parse(&format!("LOGGERDURATION:{}", i64::MIN))
                .expect("a number")
                .selection(i64::MAX)
                .is_some()
        );
    }
}
