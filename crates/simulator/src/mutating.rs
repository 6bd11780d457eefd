//! Builds the simulator with all mutants, and finds the seeds that notice each of them; [`FOUND`]
//! records these.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mutants::{MUTANTS, Mutant, ON};
use crate::seeds::{FOUND_FAULTS, SeedFailure};

/// The file with the results, relative to the folder of the crate: a line for each mutant with its
/// name, the seed that found it, and the rule that the seed broke.
pub const FOUND: &str = "mutants.txt";

/// Tries all mutants whose name contains this text: each on this many seeds, counted from 0, and on
/// the seeds that have found faults before. Records in [`FOUND`] which mutants were noticed, and
/// returns whether all were.
///
/// The sources are copied to a worktree of git below `target`, so that no working files change;
/// earlier builds there are used again.
///
/// # Errors
/// The command that failed, or the file that can't be read or written.
pub fn try_all(wanted: &str, seeds: u64, threads: usize) -> Result<bool, String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let binary = build(&package.join("../.."))?;
    if let Some(broken) = try_one(&binary, None, 0..seeds, threads)? {
        return Err(format!("a seed fails without any mutant, which has to be mended first: {broken}"));
    }
    let mut all = true;
    for (number, mutant) in each().filter(|(_, mutant)| mutant.name.contains(wanted)) {
        let lacks = Some((number, mutant));
        let mut found = try_one(&binary, lacks, 0..seeds, threads)?;
        for seed in FOUND_FAULTS {
            if found.is_none() {
                found = try_one(&binary, lacks, seed..seed + 1, threads)?;
            }
        }
        all &= found.is_some();
        println!("{:<70} {}", mutant.name, found.as_deref().unwrap_or("NOT FOUND"));
        keep(&package.join(FOUND), mutant, found.as_deref())?;
    }
    Ok(all)
}

/// Returns each mutant's result in the file, by the mutant's name.
pub fn read(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(" | ")).collect()
}

/// Returns the page of the documentation that lists the mutants with the results in the file.
pub fn page(text: &str) -> String {
    let found = read(text);
    let row = |mutant: &Mutant| {
        let (seed, rule) = found.get(mutant.name).and_then(|found| found.split_once(": ")).unwrap_or(("none", ""));
        let seed = seed.trim_start_matches("seed ");
        format!("| {} | `{}` | {seed} | {} |\n", mutant.name, mutant.file, rule.replace('|', "\\|"))
    };
    let rows: String = each().map(|(_, mutant)| row(mutant)).collect();
    let head = "| Mutant | File | Seed | What it broke |\n| --- | --- | --- | --- |\n";
    format!("{PAGE_HEAD}{head}{rows}")
}

const PAGE_HEAD: &str = "\
# Mutants

A [simulation](book/developing/simulating.md) that never fails shows little. These are guards of the server that are taken away one by one, in a
copy of the sources, and for each the first seed that notices, of 1000 and of those that have found faults, with the rule that it broke. A mutant
that no seed notices shows a rule that is missing.

```
cargo run --profile simulation -p rookery-simulator -- --mutants \"\"      # all of them; a part of a name tries some
```

That command keeps what it found in `crates/simulator/mutants.txt`, from which `UPDATE_DOC=1 cargo test --workspace up_to_date` makes
this page.

";

/// Writes the result of a mutant to the file, in which all existing mutants are in order.
fn keep(path: &Path, mutant: &Mutant, found: Option<&str>) -> Result<(), String> {
    let before = fs::read_to_string(path).unwrap_or_default();
    let mut known = read(&before);
    known.remove(mutant.name);
    known.extend(found.map(|found| (mutant.name, found)));
    let lines = each().filter_map(|(_, mutant)| Some(format!("{} | {}\n", mutant.name, known.get(mutant.name)?)));
    fs::write(path, lines.collect::<String>()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns each mutant once, with its number.
fn each() -> impl Iterator<Item = (usize, &'static Mutant)> {
    let is_first = |at: usize| MUTANTS[..at].iter().all(|earlier| earlier.name != MUTANTS[at].name);
    MUTANTS.iter().enumerate().filter(move |(at, _)| is_first(*at))
}

/// Builds the simulator with all mutants, each behind its switch, and returns the path of the
/// binary.
fn build(sources: &Path) -> Result<PathBuf, String> {
    let folder = sources.join("target/mutants/sources");
    if !folder.exists() {
        let folder = folder.to_string_lossy().into_owned();
        run(Command::new("git").args(["worktree", "add", "--detach", &folder, "HEAD"]).current_dir(sources))?;
    }
    let head = run(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(sources))?;
    if run(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&folder))? != head {
        run(Command::new("git").args(["checkout", "--force", "--detach", head.trim()]).current_dir(&folder))?;
    }
    let texts = without_guards(&folder)?;
    for (file, text) in &texts {
        keep_text(&folder.join(file), text)?;
    }
    // Files that an earlier list of mutants changed are restored.
    let changed = run(Command::new("git").args(["diff", "--name-only"]).current_dir(&folder))?;
    for file in changed.lines().filter(|file| !texts.contains_key(file)) {
        run(Command::new("git").args(["checkout", "--", file]).current_dir(&folder))?;
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or(folder.join("../build"), PathBuf::from);
    // The build is optimised but has assertions, which notice some mutants before a client can.
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--locked", "--profile", "simulation", "-p", "rookery-simulator"]);
    // Cargo would read the compiler's flags twice in a folder within another one.
    build.arg("--manifest-path").arg(folder.join("Cargo.toml")).current_dir(sources);
    run(build.env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("simulation/rookery-simulator"))
}

/// Returns the files of the commit with a switch at each guard.
fn without_guards(folder: &Path) -> Result<BTreeMap<&'static str, String>, String> {
    let committed = |file: &str| run(Command::new("git").args(["show", &format!("HEAD:{file}")]).current_dir(folder));
    let mut texts = BTreeMap::from([(BASE, format!("{}\n{SWITCH}", committed(BASE)?))]);
    for mutant in MUTANTS {
        let number = MUTANTS.iter().position(|first| first.name == mutant.name).unwrap_or_default();
        let text = match texts.get(mutant.file) {
            Some(text) => text.clone(),
            None => committed(mutant.file)?,
        };
        if text.matches(mutant.guard).count() != 1 {
            return Err(format!("{}: the guard is not there once in {}", mutant.name, mutant.file));
        }
        let on = format!("rookery_base::lacks({number})");
        texts.insert(mutant.file, text.replace(mutant.guard, &mutant.instead.replace(ON, &on)));
    }
    Ok(texts)
}

/// Writes a file unless it has this text already, so that compiled code is used again.
fn keep_text(file: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(file).is_ok_and(|found| found == text) {
        return Ok(());
    }
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Returns the first seed that fails without this guard, or with all guards if `lacks` is `None`,
/// and the rule that the seed broke.
fn try_one(
    binary: &Path,
    lacks: Option<(usize, &Mutant)>,
    seeds: Range<u64>,
    threads: usize,
) -> Result<Option<String>, String> {
    let [from, seeds, threads] = [seeds.start, seeds.end - seeds.start, threads as u64].map(|value| value.to_string());
    let number = lacks.map_or(String::new(), |(number, _)| number.to_string());
    let mut arguments = vec!["--from", &*from, "--seeds", &seeds, "--threads", &threads];
    // A single server has no journal, and no homes that move.
    let is_of_nodes = |mutant: &Mutant| ["journal:", "moves:"].iter().any(|kind| mutant.name.starts_with(kind));
    if lacks.is_some_and(|(_, mutant)| is_of_nodes(mutant)) {
        arguments.push("--nodes");
    }
    let output = Command::new(binary).args(arguments).env(LACKS, number).output();
    let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let found = SeedFailure::read(&told);
    if found.is_none() && !output.status.success() {
        return Err(format!("{}: {}", binary.display(), String::from_utf8_lossy(&output.stderr)));
    }
    let words =
        |found: SeedFailure| format!("seed {}: {}", found.seed, found.broken.chars().take(120).collect::<String>());
    Ok(found.map(words))
}

/// The file for the switches.
const BASE: &str = "crates/base/src/lib.rs";
/// The environment variable with the number of the active mutant.
const LACKS: &str = "ROOKERY_LACKS";
/// The switches' code in the copy.
const SWITCH: &str = r#"
/// Returns whether the server is to lack a guard.
pub fn lacks(number: usize) -> bool {
    static LACKING: std::sync::LazyLock<Option<usize>> =
        std::sync::LazyLock::new(|| std::env::var("ROOKERY_LACKS").ok()?.parse().ok());
    *LACKING == Some(number)
}
"#;

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
