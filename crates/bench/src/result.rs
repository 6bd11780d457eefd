//! The measurements of a run: the one thing that the engine and the reports share, and the JSON
//! file of a run.
//!
//! Times are microseconds where a name ends in `_us`, seconds where it ends in `_s` or is
//! `seconds`; memory is bytes; a share of CPU is cores, so that 1.0 is one core kept busy. A value
//! that could not be measured is `None`, never zero.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The number of the format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// The value of [`RunResult::ended`] when nothing went wrong.
pub const DONE: &str = "done";

/// One run of one scenario against one server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// The version of the format that the file was written in, which is [`FORMAT`] in files of this
    /// version.
    pub format: u32,
    /// The scenario's name, such as `chat`.
    pub scenario: String,
    /// The server's name for a legend.
    pub server: String,
    /// The version that the server reports (XEP-0092).
    pub version: Option<String>,
    /// The time when the run began, in seconds since 1970.
    pub started_unix: u64,
    /// The length of the measured part.
    pub seconds: f64,
    /// The values of the scenario's flags.
    pub settings: BTreeMap<String, String>,
    /// The machine on which it ran.
    pub machine: RunMachine,
    /// Sessions that were logged in when the measurement began.
    pub sessions: u64,
    /// The logins before, or in, the measurement.
    pub login: Option<LoginSeries>,
    /// Stanzas that the generator sent.
    pub sent: u64,
    /// Stanzas that arrived, without repetitions.
    pub delivered: u64,
    /// Stanzas that should have arrived.
    pub expected: u64,
    /// Expected stanzas that never arrived.
    pub lost: u64,
    /// Stanzas that arrived more than once.
    pub duplicated: u64,
    /// Stanzas that arrived after a later one from the same sender to the same receiver.
    pub reordered: u64,
    /// Error stanzas that arrived.
    pub errors: u64,
    /// Deliveries per second, if that is meaningful.
    pub throughput: Option<f64>,
    /// The time from sending, in open loops from the intended time of sending, to arrival.
    pub latency: Option<Latency>,
    /// The CPU time of the server in the measured part.
    pub server_cpu: Option<ServerCpu>,
    /// The CPU time of the generator in the measured part.
    pub generator_cpu: ServerCpu,
    /// The reason why the generator, and not the server, was the limit.
    pub generator_limit: Option<String>,
    /// The server's resident memory.
    pub memory: Option<ServerMemory>,
    /// The course over time.
    pub series: Vec<RunSample>,
    /// The points of a sweep.
    pub parts: Vec<SweepPoint>,
    /// Other facts for the reader.
    pub notes: Vec<String>,
    /// The rounds of which this one is the median: their figures, without the course over time.
    pub rounds: Vec<RunResult>,
    /// [`DONE`], or the failure.
    pub ended: String,
    /// The path of the file that the run was read from, which the file itself doesn't contain.
    #[serde(skip)]
    pub file: Option<String>,
}

/// The machine on which a run was made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunMachine {
    /// Cores that the generator may use.
    pub cores: u32,
    /// The processor.
    pub model: String,
    /// The kernel's release.
    pub kernel: String,
}

/// A series of logins, each from connecting to a bound resource.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LoginSeries {
    /// The number of successful ones.
    pub count: u64,
    /// The number of failed ones.
    pub failed: u64,
    /// The seconds from the first to the last.
    pub seconds: f64,
    /// `count` divided by `seconds`.
    pub per_second: f64,
    /// Logins per second of the server's CPU.
    pub per_cpu_second: Option<f64>,
}

/// A distribution of latencies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Half were faster.
    pub p50_us: f64,
    /// 90 % were faster.
    pub p90_us: f64,
    /// 99 % were faster.
    pub p99_us: f64,
    /// 99.9 % were faster.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
    /// The arithmetic mean.
    pub mean_us: f64,
    /// Upper bound of a bucket in µs, and how many fell in it; rising, without empty buckets.
    pub histogram: Vec<(f64, u64)>,
}

/// CPU time of a process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerCpu {
    /// The total seconds.
    pub total_s: f64,
    /// The part outside of the kernel.
    pub user_s: f64,
    /// Microseconds per operation of the scenario: a delivery, a login.
    pub us_per_operation: f64,
}

/// Resident memory of the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerMemory {
    /// Before the first login.
    pub start: u64,
    /// At the end of the measurement.
    pub end: u64,
    /// The most that was seen.
    pub peak: u64,
    /// The slope over the number of sessions, if the scenario measures it.
    pub per_session: Option<f64>,
}

/// One moment of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSample {
    /// Seconds since the measurement began; negative in the preparation.
    pub t_s: f64,
    /// Deliveries per second since the sample before.
    pub delivered_per_s: f64,
    /// Stanzas sent per second since the sample before.
    pub sent_per_s: f64,
    /// Sessions that are logged in.
    pub sessions: u64,
    /// Cores that the server kept busy since the sample before.
    pub server_cpu_share: Option<f64>,
    /// The server's resident memory.
    pub server_rss_bytes: Option<u64>,
    /// Cores that the generator kept busy since the sample before.
    pub generator_cpu_share: f64,
    /// The 99th percentile of the latency since the sample before.
    pub p99_us: Option<f64>,
}

/// The result of one step of a sweep, such as one number of recipients.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepPoint {
    /// The curve that the point belongs to, such as `bcc`.
    pub curve: String,
    /// The point with its curve, such as `bcc 101`.
    pub label: String,
    /// The varied number, such as that of recipients.
    pub n: u64,
    /// The number of measurements.
    pub rounds: u64,
    /// Deliveries, over all rounds.
    pub delivered: u64,
    /// Expected deliveries, over all rounds.
    pub expected: u64,
    /// Time from sending to the last arrival, divided by recipients; the median of the rounds.
    pub us_per_destination_wall: f64,
    /// The server's CPU time divided by recipients; over all rounds.
    pub us_cpu_per_destination: Option<f64>,
    /// Latency of the single deliveries.
    pub latency: Option<Latency>,
}

impl RunResult {
    /// Returns whether the run has completed.
    pub fn is_done(&self) -> bool {
        self.ended == DONE
    }

    /// Returns the figures without the course over time.
    pub fn without_course(&self) -> RunResult {
        let latency = self.latency.clone().map(|latency| Latency { histogram: Vec::new(), ..latency });
        RunResult { latency, series: Vec::new(), parts: Vec::new(), notes: Vec::new(), ..self.clone() }
    }

    /// Reads a file that [`RunResult::write`] has written.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::InvalidData`] if the file isn't one or has another
    /// format.
    pub fn read(file: &Path) -> io::Result<RunResult> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text}", file.display()));
        let result: RunResult = serde_json::from_slice(&fs::read(file)?)
            .map_err(|error| invalid(format!("not the result of a run: {error}")))?;
        let name = file.file_stem().map(|name| name.to_string_lossy().into_owned());
        match result.format {
            FORMAT => Ok(RunResult { file: name, ..result }),
            other => Err(invalid(format!("format {other}, this version knows {FORMAT}"))),
        }
    }

    /// Writes the result as JSON.
    ///
    /// # Errors
    /// The error of the system.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        text.push('\n');
        fs::write(file, text)
    }
}

impl RunMachine {
    /// Returns the machine that this process runs on.
    pub fn this() -> RunMachine {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')).map(|(_, name)| name);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        RunMachine {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            model: model.unwrap_or("unknown").trim().to_owned(),
            kernel: kernel.trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_survives_its_file_and_another_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        let latency = Latency { p50_us: 1.5, histogram: vec![(2.0, 7)], ..Latency::default() };
        let part =
            SweepPoint { label: "bcc 101".into(), n: 101, us_cpu_per_destination: Some(0.25), ..SweepPoint::default() };
        let mut result = RunResult {
            format: FORMAT,
            scenario: "chat".into(),
            settings: BTreeMap::from([("pairs".to_owned(), "1000".to_owned())]),
            latency: Some(latency),
            series: vec![RunSample { t_s: -1.0, ..RunSample::default() }],
            parts: vec![part],
            ended: DONE.into(),
            ..RunResult::default()
        };
        result.write(&file).unwrap();
        let read = RunResult::read(&file).unwrap();
        assert_eq!(read.file.as_deref(), Some("a"));
        assert_eq!(RunResult { file: None, ..read }, result);
        result.format = 2;
        result.write(&file).unwrap();
        assert!(RunResult::read(&file).unwrap_err().to_string().contains("format 2"));
        fs::write(&file, "{").unwrap();
        assert!(RunResult::read(&file).is_err());
    }

    #[test]
    fn this_machine_has_cores() {
        assert!(RunMachine::this().cores > 0);
    }
}
