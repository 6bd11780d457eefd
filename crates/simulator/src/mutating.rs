//! Builds the simulator with one mutant after the other, and tells which seed finds each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mutants::{MUTANTS, Mutant};

/// Tries all mutants whose name has this text in it, each on so many seeds from the first one on.
/// Returns whether all were found.
///
/// The sources are copied to a worktree of git below `target`, so that nobody's files change; what
/// was built there before is used again.
///
/// # Errors
/// A command or a file that failed.
pub fn try_all(wanted: &str, seeds: u64) -> Result<bool, String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let copy = Copy::of(&sources)?;
    let mut all = true;
    for mutant in MUTANTS.iter().filter(|mutant| mutant.name.contains(wanted)) {
        let found = copy.try_one(mutant, seeds)?;
        all &= found.is_some();
        println!("{:<70} {}", mutant.name, found.as_deref().unwrap_or("NOT FOUND"));
    }
    Ok(all)
}

struct Copy {
    folder: PathBuf,
}

impl Copy {
    fn of(sources: &Path) -> Result<Self, String> {
        let folder = sources.join("target/mutants/sources");
        if !folder.exists() {
            let folder = folder.to_string_lossy().into_owned();
            run(Command::new("git").args(["worktree", "add", "--detach", &folder, "HEAD"]).current_dir(sources))?;
        }
        let head = run(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(sources))?;
        run(Command::new("git").args(["checkout", "--force", "--detach", head.trim()]).current_dir(&folder))?;
        Ok(Self { folder })
    }

    /// Returns the words of the first failure.
    fn try_one(&self, mutant: &Mutant, seeds: u64) -> Result<Option<String>, String> {
        let file = self.folder.join(mutant.file);
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        if text.matches(mutant.guard).count() != 1 {
            return Err(format!("{}: the guard is not there once in {}", mutant.name, mutant.file));
        }
        let write = |text: &str| fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()));
        write(&text.replace(mutant.guard, mutant.instead))?;
        let target = self.folder.join("../build");
        let mut build = Command::new("cargo");
        build.args(["build", "--quiet", "--release", "-p", "rookery-simulator"]).current_dir(&self.folder);
        let built = run(build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "--cap-lints allow"));
        write(&text)?;
        built?;
        let binary = target.join("release/rookery-simulator");
        let number = seeds.to_string();
        let output = Command::new(&binary).args(["--from", "0", "--seeds", &number]).output();
        let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
        let told = String::from_utf8_lossy(&output.stdout);
        let line = told.lines().find(|line| line.starts_with("FAILED"));
        Ok(line.map(|line| line.chars().take(160).collect()))
    }
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
