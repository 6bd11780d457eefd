//! `rookery profile`: shows where the CPU time of the running server goes, and what has changed.
//!
//! The server samples its stacks as offsets in files. They are resolved to names here, by this
//! process, which has the same file mapped: the server doesn't read its own debugging information.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use rookery_profile::names::{self, Named};
use rookery_profile::profile::FunctionSamples;
use rookery_profile::{Profile, Sampled, compare, flamegraph, protobuf};
use serde::Deserialize;
use serde_json::json;

use crate::arguments::ShownAs;
use crate::columns::{self, Columns};
use crate::control::RunningServer;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// The options of `rookery profile`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ProfileWishes {
    #[command(subcommand)]
    command: Option<CompareCommand>,
    /// Seconds to sample stacks for
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=120))]
    seconds: u64,
    /// Samples per second of CPU time that the server takes
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// The file to write, or - for standard output [default: rookery-profile with the format's
    /// extension]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format [default: by the file's extension, or svg]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// The forms of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A flame graph for browsers, searchable with Ctrl+F
    Svg,
    /// One stack per line, outermost frame first, with its count
    Folded,
    /// The compressed format of `go tool pprof`, which many programs read
    Pprof,
}

/// The command for two profiles.
#[derive(Debug, Subcommand)]
enum CompareCommand {
    /// Compare two profiles (folded or pprof files): the functions whose share of the CPU time has
    /// changed
    Compare {
        /// The earlier profile
        #[arg(value_name = "BEFORE")]
        before: PathBuf,
        /// The later profile
        #[arg(value_name = "AFTER")]
        after: PathBuf,
        /// Also write the later profile as a flame graph: red takes a larger share now, blue a
        /// smaller one
        #[arg(long, short, value_name = "FILE.svg")]
        output: Option<PathBuf>,
        #[command(flatten)]
        shown: ShownAs,
    },
}

impl Format {
    fn of(file: &Path) -> Option<Format> {
        let name = file.file_name()?.to_str()?;
        let endings = [(".svg", Format::Svg), (".folded", Format::Folded), (".txt", Format::Folded)];
        let endings = endings.into_iter().chain([(".pb.gz", Format::Pprof), (".pprof", Format::Pprof)]);
        endings.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| format)
    }

    fn file(self) -> PathBuf {
        let name = match self {
            Format::Svg => "rookery-profile.svg",
            Format::Folded => "rookery-profile.folded",
            Format::Pprof => "rookery-profile.pb.gz",
        };
        PathBuf::from(name)
    }
}

/// Takes a profile of the running server, or compares two.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if no server runs, another profile is being taken, or a file can't be
/// read or written.
pub fn run(source: &ConfigSource, wishes: ProfileWishes) -> Result<(), CommandFailure> {
    if let Some(CompareCommand::Compare { before, after, output, shown }) = wishes.command {
        return compare(&before, &after, output.as_deref(), shown);
    }
    let format = wishes.format.or_else(|| wishes.output.as_deref().and_then(Format::of)).unwrap_or(Format::Svg);
    let file = wishes.output.unwrap_or_else(|| format.file());
    let server = RunningServer::in_folder(&source.folder)?;
    let body = json!({ "seconds": wishes.seconds, "rate": wishes.rate });
    let patience = Duration::from_secs(wishes.seconds) + MORE;
    let sampled = server.ask_for(patience, "POST", "/profile", Some(&body))?;
    let sampled = Sampled::deserialize(&sampled)
        .map_err(|error| CommandFailure::Failed(format!("the server's response can't be read: {error}")))?;
    let named = names::find(&sampled).map_err(|error| CommandFailure::Failed(format!("/proc/self/maps: {error}")))?;
    let title = format!("rookery, {:.1} s of CPU in {} s", cpu_seconds(&sampled), wishes.seconds);
    let bytes = match format {
        Format::Svg => flamegraph::draw(&named.profile, &title).into_bytes(),
        Format::Folded => named.profile.to_folded().into_bytes(),
        Format::Pprof => protobuf::write(&named.profile),
    };
    if file.as_os_str() == "-" {
        let mut out = std::io::stdout().lock();
        return out
            .write_all(&bytes)
            .and_then(|()| out.flush())
            .map_err(|error| CommandFailure::Failed(format!("standard output: {error}")));
    }
    fs::write(&file, bytes).map_err(|error| CommandFailure::file(&file, &error))?;
    say(&summary(&sampled, &named, server, &file));
    Ok(())
}

/// Returns the seconds of CPU that the server has taken: as the system counts them, or, if the
/// server doesn't say, those that the samples represent.
fn cpu_seconds(sampled: &Sampled) -> f64 {
    match sampled.cpu_milliseconds {
        0 => sampled.samples as f64 / f64::from(sampled.rate.max(1)),
        milliseconds => milliseconds as f64 / 1000.0,
    }
}

/// Returns whether the system has taken far fewer samples than the CPU time stands for.
fn lacks_samples(sampled: &Sampled) -> bool {
    let expected = cpu_seconds(sampled) * f64::from(sampled.rate);
    expected >= EXPECTED && (sampled.samples as f64) < expected / 2.0
}

/// Returns a summary of a few lines.
fn summary(sampled: &Sampled, named: &Named, server: RunningServer<'_>, file: &Path) -> String {
    let mut functions: Vec<_> = named.profile.functions().into_iter().collect();
    let mut table = |of: fn(&FunctionSamples) -> u64, is_shown: fn(&FunctionSamples) -> bool| {
        functions.sort_by(|(a, some), (b, others)| of(others).cmp(&of(some)).then(a.cmp(b)));
        let share = |samples: u64| format!("{:.1}", 100.0 * samples as f64 / sampled.samples.max(1) as f64);
        let mut columns = Columns::new(&["OWN %", "WITH CALLED %", "FUNCTION"]);
        for (name, samples) in functions.iter().filter(|(_, samples)| is_shown(samples)).take(SHOWN) {
            columns.row(vec![share(samples.own), share(samples.within), (*name).to_owned()]);
        }
        columns
    };
    let mut text = String::new();
    // Functions whose time is that of a single callee explain nothing.
    let tables = [
        table(|samples| samples.within, |samples| samples.own < samples.within && !samples.passes_on()),
        table(|samples| samples.own, |samples| samples.own > 0),
    ];
    for columns in tables.iter().filter(|columns| !columns.is_empty()) {
        text += &format!("{columns}\n");
    }
    text += &format!(
        "{} samples of {} threads, for {:.1} s of CPU in {:.1} s; written to {}\n",
        sampled.samples,
        threads(sampled),
        cpu_seconds(sampled),
        sampled.milliseconds as f64 / 1000.0,
        file.display()
    );
    if sampled.samples == 0 {
        text += "the server was idle: stacks are sampled only while it uses CPU\n";
    }
    if lacks_samples(sampled) {
        text += "these are fewer samples than that CPU time stands for";
        text += match sampled.is_by_ticks {
            true => {
                ": work that is done between two ticks of the system's clock is missed, unless kernel.perf_event_paranoid is at most 1\n"
            }
            false => "\n",
        };
    }
    let program = sampled.modules.first().map(|module| module.path.as_str());
    for unknown in &named.unknown {
        text += &format!("functions of {unknown} have no names: this command is a different binary");
        let is_program = unknown.contains("rookery") || Some(unknown.as_str()) == program;
        text += &match server.process().filter(|_| is_program) {
            Some(process) => format!("; run it as /proc/{process}/exe, which is the server's\n"),
            None => "\n".to_owned(),
        };
    }
    if sampled.samples > 0 && !named.has_inlined {
        text += "this build has only function names: inlined code counts towards the function that contains it\n";
    }
    text
}

fn threads(sampled: &Sampled) -> usize {
    let mut names: Vec<_> = sampled.stacks.iter().map(|stack| stack.thread.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

fn compare(before: &Path, after: &Path, output: Option<&Path>, shown: ShownAs) -> Result<(), CommandFailure> {
    let (old, new) = (read(before)?, read(after)?);
    let mut columns = Columns::new(&["OWN %", "BEFORE", "POINTS", "WITH CALLED %", "BEFORE", "FUNCTION"]);
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let differences = compare::compare(&old, &new);
    let changed = |difference: &&compare::Difference| {
        let within = (difference.after.within - difference.before.within).abs();
        difference.growth().abs() >= LEAST || within >= LEAST
    };
    if shown.json {
        let shares = |of: &compare::SampleShares| json!({ "own": of.own, "with_called": of.within });
        columns::objects(differences.iter().map(|difference| {
            let compare::Difference { name, before, after } = difference;
            json!({ "function": name, "before": shares(before), "after": shares(after) })
        }))?;
        return draw(&old, &new, before, after, output);
    }
    for difference in differences.iter().filter(changed).take(COMPARED) {
        let compare::Difference { name, before, after } = difference;
        columns.row(vec![
            percent(after.own),
            percent(before.own),
            format!("{:+.1}", 100.0 * difference.growth()),
            percent(after.within),
            percent(before.within),
            name.clone(),
        ]);
    }
    if columns.is_empty() {
        say("no function's share has changed by a tenth of a point\n");
    } else {
        say(&columns.to_string());
    }
    let samples = |profile: &Profile| match profile.milliseconds {
        0 => format!("{} samples", profile.samples()),
        milliseconds => format!("{} samples in {:.1} s", profile.samples(), milliseconds as f64 / 1000.0),
    };
    say(&format!("{} before, {} afterwards\n", samples(&old), samples(&new)));
    draw(&old, &new, before, after, output)
}

/// Draws the later profile, if that is requested.
fn draw(
    old: &Profile,
    new: &Profile,
    before: &Path,
    after: &Path,
    output: Option<&Path>,
) -> Result<(), CommandFailure> {
    let Some(file) = output else { return Ok(()) };
    let title = format!("{} compared with {}", after.display(), before.display());
    let picture = flamegraph::draw_difference(old, new, &title);
    fs::write(file, picture).map_err(|error| CommandFailure::file(file, &error))
}

/// Reads a profile in one of the forms that keep all of it.
fn read(file: &Path) -> Result<Profile, CommandFailure> {
    let bytes = fs::read(file).map_err(|error| CommandFailure::file(file, &error))?;
    let wrong = |words: String| {
        CommandFailure::Failed(format!(
            "{}: {words}; expected a profile written with --format folded or pprof",
            file.display()
        ))
    };
    match bytes.starts_with(GZIP) {
        true => protobuf::read(&bytes).map_err(wrong),
        false => Profile::from_folded(&String::from_utf8_lossy(&bytes)).map_err(wrong),
    }
}

/// The magic bytes of a gzip file (RFC 1952 §2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The additional time that the server may take for collecting.
const MORE: Duration = Duration::from_secs(30);
/// The number of functions in a summary or comparison.
const SHOWN: usize = 10;
const COMPARED: usize = 40;
/// The expected number of samples from which a lack of some isn't a coincidence.
const EXPECTED: f64 = 20.0;
/// The smallest change of a share that is shown.
const LEAST: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_from_the_name_of_the_file() {
        for (name, format) in [
            ("a.svg", Some(Format::Svg)),
            ("a/b.folded", Some(Format::Folded)),
            ("c.pb.gz", Some(Format::Pprof)),
            ("c.gz", None),
            ("-", None),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn samples_that_the_system_misses_are_told() {
        let of = |cpu_milliseconds, samples| Sampled { rate: 99, cpu_milliseconds, samples, ..Sampled::default() };
        assert_eq!(cpu_seconds(&of(1400, 44)), 1.4);
        assert_eq!(cpu_seconds(&of(0, 99)), 1.0, "an older server doesn't say");
        let lacks: Vec<_> = [of(1400, 44), of(1400, 130), of(100, 0), of(0, 40)].iter().map(lacks_samples).collect();
        assert_eq!(lacks, [true, false, false, false]);
    }
}
