//! Runs seeds, and shows what broke: `rookery-simulator --help`.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
        };
        while let Some(argument) = arguments.next() {
            if argument == "--mutants" {
                wanted.mutants = Some(arguments.next().unwrap_or_default());
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
                "--seeds" => wanted.seeds = number()?,
                "--from" => wanted.from = Some(number()?),
                "--seconds" => (wanted.seconds, wanted.seeds) = (Some(number()?), u64::MAX / 2),
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
        Ok(wanted)
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
    match wanted.seed {
        Some(seed) => show(seed, &wanted),
        None => run_many(&wanted),
    }
}

fn run_many(wanted: &WantedRun) -> ExitCode {
    let drawn = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64 >> 10);
    let from = wanted.from.unwrap_or_else(drawn);
    println!("seeds from {from}, {} events each", wanted.events);
    let begin = Instant::now();
    let end = wanted.seconds.map(|seconds| begin + Duration::from_secs(seconds));
    let goes_on = || end.is_none_or(|end| Instant::now() < end);
    let is_wanted = |plan: &RunPlan| if plan.nodes > 1 { !wanted.alone } else { !wanted.nodes };
    let seeds = from..from.saturating_add(wanted.seeds);
    let (failures, statistics) = seeds::run_many(seeds, wanted.events, wanted.threads, !wanted.all, goes_on, is_wanted);
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
