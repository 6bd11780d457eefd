//! Sampled stacks as a picture.
//!
//! Stacks are walked by frame pointers, which is safe wherever the signal comes; so the build has to keep them (`.cargo/config.toml`).

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use crate::Outcome;

/// Samples this process until it is finished.
pub struct Sampler {
    guard: ProfilerGuard<'static>,
    file: PathBuf,
}

impl Sampler {
    /// Begins to sample, for a picture in that file.
    ///
    /// # Errors
    /// When the file can't be written, or the system gives no timer.
    pub fn start(file: &Path) -> Outcome<Sampler> {
        // Now rather than after a long run.
        File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let guard = ProfilerGuardBuilder::default().frequency(PER_SECOND).build()?;
        Ok(Sampler { guard, file: file.to_owned() })
    }

    /// Writes the picture; answers where it is.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn finish(self) -> Outcome<PathBuf> {
        let report = self.guard.report().build()?;
        report.flamegraph(BufWriter::new(File::create(&self.file)?))?;
        Ok(self.file)
    }
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Not a round number, so that it doesn't beat with what the program does at round ones.
const PER_SECOND: i32 = 997;
