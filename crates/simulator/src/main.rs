//! Runs seeds, and shows what broke: `rookery-simulator --help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_simulator::progress::RunProgress;
use rookery_simulator::seeds::SeedResults;
use rookery_simulator::statistics::RunStatistics;
use rookery_simulator::{RunPlan, mutating, seeds, shrink};

/// Each run creates a server and drops it, and spends a seventh of its time in the allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const HELP: &str = "\
Runs the whole server from seeds, and tells which of them break a rule.

  --seed N        runs one seed and prints its log
  --seeds N       runs so many seeds
  --from N        begins with this seed; without it, with one that is drawn and printed
  --seconds N     stops after so long
  --progress FILE keeps how far it has come in this file, and continues from there: goes on when a
                  seed has failed, and lists all failures at the end
  --events N      events of a run (400)
  --only N,N…     with --seed: leaves out all events but these, as a run that was made short says
  --threads N     threads (as many as there are cores)
  --nodes         leaves out seeds whose server is one process alone
  --alone         leaves out seeds with several nodes
  --all           goes on when a seed has failed
  --quiet         with --seed: prints no log
  --mutants TEXT  builds the server without each of the guards whose name has the text in it (all
                  with \"\"), tells which seed notices, and keeps that in mutants.txt
  --no-shrink     leaves the schedule of a failing seed as it is";

struct WantedRun {
    seed: Option<u64>,
    seeds: u64,
    from: Option<u64>,
    seconds: Option<u64>,
    events: usize,
    threads: usize,
    nodes: bool,
    alone: bool,
    all: bool,
    quiet: bool,
    shrinks: bool,
    only: Option<Vec<usize>>,
    mutants: Option<String>,
    progress: Option<PathBuf>,
}

impl WantedRun {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut wanted = Self {
            seed: None,
            seeds: 1000,
            from: None,
            seconds: None,
            events: 400,
            threads,
            nodes: false,
            alone: false,
            all: false,
            quiet: false,
            shrinks: true,
            only: None,
            mutants: None,
            progress: None,
        };
        let mut has_number = false;
        while let Some(argument) = arguments.next() {
            if argument == "--mutants" {
                wanted.mutants = Some(arguments.next().unwrap_or_default());
                continue;
            }
            if argument == "--progress" {
                let file = arguments.next().ok_or("--progress needs a file")?;
                (wanted.progress, wanted.all) = (Some(file.into()), true);
                continue;
            }
            if argument == "--only" {
                let numbers = arguments.next().unwrap_or_default();
                let numbers: Result<Vec<usize>, _> = numbers.split(',').map(str::parse).collect();
                wanted.only = Some(numbers.map_err(|error| format!("--only: {error}"))?);
                continue;
            }
            let mut number = || {
                let value = arguments.next().ok_or(format!("{argument} needs a number"))?;
                value.parse::<u64>().map_err(|error| format!("{argument} {value}: {error}"))
            };
            match &*argument {
                "--seed" => wanted.seed = Some(number()?),
                "--seeds" => (wanted.seeds, has_number) = (number()?, true),
                "--from" => wanted.from = Some(number()?),
                "--seconds" => wanted.seconds = Some(number()?),
                "--events" => wanted.events = number()? as usize,
                "--threads" => wanted.threads = number()? as usize,
                "--nodes" => wanted.nodes = true,
                "--alone" => wanted.alone = true,
                "--all" => wanted.all = true,
                "--quiet" => wanted.quiet = true,
                "--no-shrink" => wanted.shrinks = false,
                _ => return Err(HELP.into()),
            }
        }
        if wanted.seconds.is_some() && !has_number {
            wanted.seeds = u64::MAX / 2;
        }
        Ok(wanted)
    }

    /// Returns whether the seed of this plan is to be run.
    fn is_wanted(&self, plan: &RunPlan) -> bool {
        if plan.nodes > 1 { !self.alone } else { !self.nodes }
    }
}

fn main() -> ExitCode {
    let wanted = match WantedRun::read(std::env::args().skip(1)) {
        Ok(wanted) => wanted,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if let Some(mutants) = &wanted.mutants {
        return match mutating::try_all(mutants, wanted.seeds, wanted.threads) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(2)
            }
        };
    }
    match (wanted.seed, &wanted.progress) {
        (Some(seed), _) => show(seed, &wanted),
        (None, None) => run_many(&wanted),
        (None, Some(file)) => run_on(&wanted, file).unwrap_or_else(|error| {
            eprintln!("{error}");
            ExitCode::from(2)
        }),
    }
}

/// Continues a long run, and records how far it has come.
fn run_on(wanted: &WantedRun, file: &Path) -> Result<ExitCode, String> {
    let from = wanted.from.unwrap_or_default();
    let begun = RunProgress { from, next: from, events: wanted.events, ..RunProgress::default() };
    let mut progress = RunProgress::load(file)?.unwrap_or(begun);
    if wanted.from.is_some_and(|from| from != progress.from) || wanted.events != progress.events {
        let RunProgress { from, events, .. } = progress;
        return Err(format!("{}: is of seeds from {from}, of {events} events each", file.display()));
    }
    let before = progress.seconds;
    let (begin, last) = (Instant::now(), progress.from.saturating_add(wanted.seeds));
    let end = wanted.seconds.map(|seconds| begin + Duration::from_secs(seconds));
    let goes_on = || end.is_none_or(|end| Instant::now() < end);
    let mut all = RunStatistics::default();
    while progress.next < last && goes_on() {
        let part = progress.next..last.min(progress.next + PART);
        let SeedResults { failures, statistics, next } =
            seeds::run_many(part, wanted.events, wanted.threads, false, goes_on, |plan| wanted.is_wanted(plan));
        all.add(&statistics);
        progress.next = next;
        progress.runs += statistics.runs;
        progress.seconds = before + begin.elapsed().as_secs();
        progress.failures.extend(failures);
        progress.store(file)?;
    }
    print!("{all}");
    let RunProgress { next, runs, seconds, failures, .. } = progress;
    let speed = runs as f64 / seconds.max(1) as f64;
    println!("seeds from {from} to {next} of {last}: {runs} runs in {seconds} s, {speed:.1} each second");
    failures.iter().for_each(|failure| println!("{}{failure}", seeds::FAILED));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_many(wanted: &WantedRun) -> ExitCode {
    let drawn = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64 >> 10);
    let from = wanted.from.unwrap_or_else(drawn);
    println!("seeds from {from}, {} events each", wanted.events);
    let begin = Instant::now();
    let end = wanted.seconds.map(|seconds| begin + Duration::from_secs(seconds));
    let goes_on = || end.is_none_or(|end| Instant::now() < end);
    let seeds = from..from.saturating_add(wanted.seeds);
    let SeedResults { failures, statistics, .. } =
        seeds::run_many(seeds, wanted.events, wanted.threads, !wanted.all, goes_on, |plan| wanted.is_wanted(plan));
    let seconds = begin.elapsed().as_secs_f64();
    print!("{statistics}");
    println!("{:.1} seeds per second on {} threads", statistics.runs as f64 / seconds, wanted.threads);
    for failure in &failures {
        println!("{}{failure}", seeds::FAILED);
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(seed: u64, wanted: &WantedRun) -> ExitCode {
    let mut plan = RunPlan::new(seed, wanted.events);
    let mut only = wanted.only.clone();
    only.iter().for_each(|only| plan = plan.only(only));
    let first = seeds::run(&plan, false);
    if let Some(broken) = first.broken.filter(|_| wanted.shrinks && only.is_none()) {
        println!("{broken}\nlooks for a shorter schedule");
        let kept = shrink::shrink(&plan, &broken, 3000);
        plan = plan.only(&kept);
        only = Some(kept);
    }
    let outcome = seeds::run(&plan, !wanted.quiet);
    outcome.lines.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}, {} events, hash {:016x}", plan.events.len(), outcome.hash);
    match outcome.broken {
        Some(broken) => {
            println!("{}{broken}", seeds::FAILED);
            let numbers = only.map(|only| only.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
            numbers.into_iter().for_each(|numbers| println!("made short: --events {} --only {numbers}", wanted.events));
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// The number of seeds after which the progress of a long run is recorded.
const PART: u64 = 1_000;
