//! Measurements of the process and of its stored data, for the metrics.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use crate::ServedCertificate;
use crate::health::Space;

/// Measurements other than the shards' counts.
#[derive(Debug, Clone, Default)]
pub struct MachineReadings {
    /// The process; `None` if the system doesn't report it.
    pub process: Option<ProcessReadings>,
    /// The time of the start, in milliseconds since 1970.
    pub started_ms: u64,
    /// The disk of the data folder.
    pub space: Option<Space>,
    /// Bytes of files, by purpose.
    pub files: Vec<(&'static str, u64)>,
    /// Accounts by domain.
    pub accounts: Vec<(String, u64)>,
    /// Waiting reports of abuse, by domain.
    pub reports: Vec<(String, u64)>,
    /// The certificates that are shown, with the times at which they expire.
    pub certificates: Vec<ServedCertificate>,
    /// The failures of the bucket of uploads since the start.
    pub bucket_failures: u64,
    /// The counts of posted events.
    pub posted: std::sync::Arc<crate::events::post::PostCounts>,
    /// The counts of posted spans.
    pub traced: std::sync::Arc<crate::traces::TraceCounts>,
}

/// Measurements of a process, the usual ones of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessReadings {
    /// Seconds of CPU since its start.
    pub cpu_seconds: f64,
    /// The resident memory in bytes.
    pub resident_bytes: u64,
    /// The virtual memory in bytes.
    pub virtual_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// The most descriptors; `None` for no limit.
    pub most_descriptors: Option<u64>,
}

impl ProcessReadings {
    /// Reads the measurements of this process (proc_pid_stat(5)).
    pub fn read() -> Option<ProcessReadings> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let descriptors = open_descriptors()?;
        let (ticks, virtual_bytes, pages) = fields(&stat)?;
        Some(ProcessReadings {
            cpu_seconds: ticks as f64 / clock_ticks_per_second() as f64,
            resident_bytes: pages * page_size() as u64,
            virtual_bytes,
            descriptors,
            most_descriptors: getrlimit(Resource::Nofile).current,
        })
    }
}

/// Returns the number of open descriptors. Linux has it as the size of the folder since 6.2, which
/// costs the same for any number; before, they are counted.
fn open_descriptors() -> Option<u64> {
    let folder = "/proc/self/fd";
    match fs::metadata(folder).map_or(0, |found| found.len()) {
        // The folder itself is open meanwhile.
        0 => Some((fs::read_dir(folder).ok()?.count() as u64).saturating_sub(1)),
        size => Some(size),
    }
}

/// Returns the ticks of CPU, the bytes of virtual and the pages of resident memory. The program's
/// name comes before them, in parentheses, and may contain any character.
fn fields(stat: &str) -> Option<(u64, u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first field here is the third in the manual.
    let number = |place: usize| fields.get(place - 3)?.parse::<u64>().ok();
    Some((number(14)? + number(15)?, number(23)?, number(24)?))
}

/// Returns the bytes of the embedded database, of its log, and of uploaded files.
pub fn files(folder: &Path) -> Vec<(&'static str, u64)> {
    let size = |name: &str| fs::metadata(folder.join(name)).map_or(0, |found| found.len());
    vec![("database", size("rookery.db")), ("log", size("rookery.db-wal")), ("uploads", below(folder.join("uploads")))]
}

/// Returns the bytes of all files below a folder.
fn below(folder: PathBuf) -> u64 {
    let (mut folders, mut bytes) = (vec![folder], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_read_whatever_its_name() {
        let tail = (4..=52).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(fields(&format!("1 (a) b (c) R {tail}")), Some((14 + 15, 23, 24)));
        assert_eq!(fields("1 (cut) R 4 5"), None);
        let read = ProcessReadings::read().expect("a reading");
        assert!(
            read.resident_bytes > 0 && read.virtual_bytes >= read.resident_bytes && read.descriptors > 2,
            "{read:?}"
        );
    }

    #[test]
    fn files_are_summed_up() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(files(folder.path()), [("database", 0), ("log", 0), ("uploads", 0)]);
        fs::create_dir_all(folder.path().join("uploads/a/b")).expect("folders");
        fs::write(folder.path().join("uploads/a/b/c"), "four").expect("written");
        fs::write(folder.path().join("uploads/d"), "12").expect("written");
        fs::write(folder.path().join("rookery.db"), "1").expect("written");
        assert_eq!(files(folder.path()), [("database", 1), ("log", 0), ("uploads", 6)]);
    }
}
