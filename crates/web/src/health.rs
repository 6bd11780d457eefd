//! The state of the machine, as far as the server depends on it: space on the disk of the data
//! folder, and file descriptors.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rookery_base::lock::lock;
use rustix::fs::statvfs;
use tracing::{error, info, warn};

use crate::WebShared;
use crate::ask::now_ms;

/// The space on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the server may still write.
    pub free: u64,
    /// The total bytes.
    pub total: u64,
}

/// The grade of a disk's fill level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskFill {
    /// There is enough space.
    Fine,
    /// It needs attention: less than a tenth is free, and less than 2 GiB.
    Low,
    /// Nothing can be relied on to be stored: less than a hundredth is free, and less than 64 MiB.
    Full,
}

impl Space {
    /// Reads the space on the file system of a folder.
    ///
    /// # Errors
    /// The error of the system, as when the folder doesn't exist.
    pub fn of(folder: &Path) -> io::Result<Space> {
        let read = statvfs(folder)?;
        let bytes = |blocks: u64| blocks.saturating_mul(read.f_frsize);
        Ok(Space { free: bytes(read.f_bavail), total: bytes(read.f_blocks) })
    }

    /// Returns the grade.
    pub fn fill(self) -> DiskFill {
        let Space { free, total } = self;
        match free {
            _ if free < (total / 100).min(FULL_BYTES) => DiskFill::Full,
            _ if free < (total / 10).min(LOW_BYTES) => DiskFill::Low,
            _ => DiskFill::Fine,
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} free", ShownBytes(self.free), ShownBytes(self.total))
    }
}

/// A number of bytes, for display.
pub(crate) struct ShownBytes(pub(crate) u64);

impl fmt::Display for ShownBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64 / 1024.0;
        let mut at = 0;
        while value >= 1024.0 && at + 1 < units.len() {
            value /= 1024.0;
            at += 1;
        }
        write!(f, "{value:.1} {}", units.get(at).unwrap_or(&"TiB"))
    }
}

/// The free space at each full hour since the start, for two days.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<VecDeque<(u64, u64)>>);

impl Disk {
    /// Notes the free space at a time, in milliseconds since 1970, if an hour has passed.
    fn note(&self, unix_ms: u64, free: u64) {
        let mut past = lock(&self.0);
        if past.back().is_none_or(|(last, _)| last + HOUR_MS <= unix_ms) {
            past.push_back((unix_ms, free));
        }
        if past.len() > HOURS {
            past.pop_front();
        }
    }

    /// Returns the times with the free space, oldest first.
    pub(crate) fn all(&self) -> Vec<(u64, u64)> {
        lock(&self.0).iter().copied().collect()
    }
}

/// Checks the disk now and then, and logs what an operator has to do about it.
pub(crate) async fn watch(shared: Arc<WebShared>) {
    let mut told = DiskFill::Fine;
    let mut looks = 0u32;
    loop {
        let folder = shared.instance.folder.clone();
        let space = tokio::task::spawn_blocking(move || Space::of(&folder)).await;
        if let Ok(Ok(space)) = space {
            shared.disk.note(now_ms(), space.free);
            let fill = space.fill();
            if fill != told || looks.is_multiple_of(BETWEEN_LINES) {
                tell(space, told, &shared.instance.folder);
                looks = 0;
            }
            told = fill;
        }
        looks = looks.wrapping_add(1);
        tokio::time::sleep(LOOK).await;
    }
}

fn tell(space: Space, before: DiskFill, folder: &Path) {
    let (folder, free_bytes) = (folder.display(), space.free);
    match space.fill() {
        DiskFill::Full => {
            error!(%folder, free_bytes, "the disk is full ({space}): messages and changes are lost until there is room again")
        }
        DiskFill::Low => {
            warn!(%folder, free_bytes, "the disk is nearly full ({space}): make room, or move the data folder")
        }
        DiskFill::Fine if before > DiskFill::Fine => info!(%folder, free_bytes, "the disk has room again ({space})"),
        DiskFill::Fine => {}
    }
}

/// The free bytes below which, and below a tenth of the disk, it is nearly full.
const LOW_BYTES: u64 = 2 << 30;
/// The free bytes below which, and below a hundredth of the disk, it is full.
const FULL_BYTES: u64 = 64 << 20;
const HOUR_MS: u64 = 3_600_000;
/// The number of hours for which the space is remembered.
const HOURS: usize = 48;
/// The pause between two checks, and the number of checks between two equal log lines.
const LOOK: Duration = Duration::from_secs(5);
const BETWEEN_LINES: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_disks_are_judged_by_what_is_left() {
        let (mib, gib) = (1 << 20, 1 << 30);
        for (free, total, fill) in [
            (0, 12 * mib, DiskFill::Full),
            (mib, 12 * mib, DiskFill::Low),
            (2 * mib, 12 * mib, DiskFill::Fine),
            (50 * mib, 20 * gib, DiskFill::Full),
            (gib, 20 * gib, DiskFill::Low),
            (3 * gib, 20 * gib, DiskFill::Fine),
            (3 * gib, 4096 * gib, DiskFill::Fine),
            (0, 0, DiskFill::Fine),
        ] {
            assert_eq!(Space { free, total }.fill(), fill, "{free} of {total}");
        }
    }

    #[test]
    fn the_room_of_two_days_is_remembered_by_the_hour() {
        let disk = Disk::default();
        (0..HOUR_MS * 60).step_by(1_800_000).for_each(|at| disk.note(at, at));
        let all = disk.all();
        assert_eq!((all.len(), all.last().copied()), (HOURS, Some((59 * HOUR_MS, 59 * HOUR_MS))));
    }

    #[test]
    fn room_is_read_and_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let space = Space::of(folder.path()).expect("a reading");
        assert!(space.total > 0 && space.free <= space.total, "{space:?}");
        assert!(Space::of(&folder.path().join("nowhere")).is_err());
        assert_eq!(Space { free: 1536 << 10, total: 3 << 30 }.to_string(), "1.5 MiB of 3.0 GiB free");
    }
}
