//! The CPU time and the memory of a process, read from `/proc`.

use std::fs;
use std::io;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of a process since its start, in all threads that still live.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    /// The time that threads spent on a CPU, in user mode and in the kernel, in nanoseconds.
    pub nanoseconds: u64,
    /// Ticks in user mode. With [`Cpu::system`] they are precise enough for a ratio.
    user: u64,
    /// Ticks in the kernel.
    system: u64,
}

impl Cpu {
    /// Returns the CPU time of a process so far. The nanoseconds are the scheduler's own, summed
    /// over the threads.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(pid: u32) -> io::Result<Cpu> {
        let mut nanoseconds = 0;
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread that has ended meanwhile has no file.
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            nanoseconds += number(text.split_whitespace().next());
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name of the program, in parentheses, may contain any character.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
        Ok(Cpu { nanoseconds, user: number(fields.next()), system: number(fields.next()) })
    }

    /// Returns the CPU time of this process so far, including threads that have ended.
    pub fn of_this_process() -> Cpu {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let ticks = Cpu::of(std::process::id()).unwrap_or_default();
        Cpu { nanoseconds: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64, ..ticks }
    }

    /// Returns the CPU time since `earlier`.
    pub fn since(&self, earlier: &Cpu) -> Cpu {
        Cpu {
            nanoseconds: self.nanoseconds.saturating_sub(earlier.nanoseconds),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    /// Returns the sum of both.
    pub fn plus(&self, other: &Cpu) -> Cpu {
        Cpu {
            nanoseconds: self.nanoseconds + other.nanoseconds,
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }

    /// Returns the CPU time of user mode and kernel together, in seconds.
    pub fn seconds(&self) -> f64 {
        self.nanoseconds as f64 / 1e9
    }

    /// Returns the share in user mode, 0 to 1.
    pub fn user_share(&self) -> f64 {
        self.user as f64 / (self.user + self.system).max(1) as f64
    }
}

/// Returns the bytes of a process's private resident memory.
///
/// # Errors
/// There is no such process.
pub fn private_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let private = text.lines().filter(|line| line.starts_with("Private_"));
    Ok(private.map(|line| number(line.split_whitespace().nth(1)) * 1024).sum())
}

/// Returns the slope of the straight line through points (x, y), by least squares.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let above: f64 = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum();
    let below: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
    if below == 0.0 { 0.0 } else { above / below }
}

/// Returns the median and the minimum of the values.
pub fn median_and_min(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = match (sorted.get(sorted.len() / 2), sorted.len() % 2, sorted.len().checked_sub(2)) {
        (Some(upper), 0, Some(_)) => (upper + sorted.get(sorted.len() / 2 - 1).unwrap_or(upper)) / 2.0,
        (Some(middle), ..) => *middle,
        _ => f64::NAN,
    };
    (median, sorted.first().copied().unwrap_or(f64::NAN))
}

fn number(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_consumption_is_seen() {
        let pid = std::process::id();
        let before = Cpu::of(pid).unwrap();
        let held = vec![1u8; 32 << 20];
        assert!(private_bytes(pid).unwrap() > held.iter().map(|byte| u64::from(*byte)).sum());
        // The system counts in ticks, and a fast machine needs less than one for this.
        while Cpu::of(pid).unwrap().since(&before).nanoseconds == 0 {
            assert_eq!(held.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 32 << 20);
        }
    }

    #[test]
    fn lines_and_middles() {
        assert_eq!(slope(&[(1.0, 5.0), (2.0, 7.0), (3.0, 9.0)]), 2.0);
        assert_eq!(median_and_min(&[3.0, 1.0, 2.0]), (2.0, 1.0));
        assert_eq!(median_and_min(&[4.0, 1.0, 2.0, 3.0]), (2.5, 1.0));
    }
}
