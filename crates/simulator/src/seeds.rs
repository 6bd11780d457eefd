//! Runs many seeds, and collects their results.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::journal;
use crate::plan::RunPlan;
use crate::run::{self, RunOutcome};
use crate::statistics::RunStatistics;

/// A seed that broke a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedFailure {
    /// The seed, from which the run can be repeated.
    pub seed: u64,
    /// The rule.
    pub broken: String,
    /// The events of the run.
    pub events: usize,
}

impl fmt::Display for SeedFailure {
    /// Writes the rule, and the command that repeats the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, broken, events } = self;
        write!(f, "{broken}{AGAIN}{seed} --events {events}")
    }
}

impl SeedFailure {
    /// Returns the first failure in the output of a process, which writes it after [`FAILED`] as
    /// [`Display`](fmt::Display) does.
    pub fn read(told: &str) -> Option<Self> {
        let (_, rest) = told.split_once(FAILED)?;
        let (broken, rest) = rest.split_once(AGAIN)?;
        let (seed, rest) = rest.split_once(" --events ")?;
        let events = rest.lines().next()?;
        Some(Self { seed: seed.parse().ok()?, broken: broken.to_owned(), events: events.parse().ok()? })
    }
}

/// The words before each failure in a process's output.
pub const FAILED: &str = "FAILED: ";
const AGAIN: &str = "\n  again: cargo run -p rookery-simulator -- --seed ";

/// The seeds of faults that are mended.
///
/// * Presence in a room overtook stanzas that waited for the newcomer's account. An ended session
///   counted messages that its archives lack. A session that came before a second subscription
///   request never saw the contact. A request that was approved in advance while the account was
///   being removed outlived the account. A session got offline messages again after another one had
///   come and gone. The simulator took the effect of a crossed refusal for a fault.
/// * A count was below an earlier one. There were two copies of a message that two resources had
///   not got. A session ended twice when the server stopped. An occupant stayed although its
///   session was over. A last acknowledgement counted a message that an archive lacks.
/// * A new session got old pushes. A message came back from a stream that carried it to its end. A
///   client believed an occupant to be there, since it did not know that it had left the room
///   itself. A room continued without a change. Two messages counted although they were refused,
///   after another one.
/// * Among nodes: mail went back and forth. Two connections had no clients. An error was given up.
///   A count included a message that another node had refused. Sessions left without stanzas that
///   they had sent, or were not found where they went, since their answers waited for them.
/// * Journals were read although other nodes had had the homes in between. Letters came twice,
///   since a node had left before it confirmed that it had handled them.
/// * Occupants whose sessions had ended with another node stayed in silent rooms. A room had just
///   arrived when its node died. A login that was under way made a session after its node had said
///   that all that leave it were at rest. A room's archive had a message twice, since the dead home
///   had left no note of it.
/// * Offline messages were removed although the session had ended before it got them, and the store
///   was asked for them without end while their session had no room. An overflow hid a refusal.
/// * A client that entered a room again under another nick was told of nobody in it. Messages that
///   were sent again got a second id, since the sender's return had been in vain. A session left
///   before a command of its own had asked all nodes.
/// * Sessions that could not be resumed went on by new homes while others came to rest. Mail that
///   came back made a node use new homes too early. A login was lost whose home had been silent for
///   a while. Clients that read late that they were back repeated messages, which got second ids.
///   Messages for accounts without a session waited for the store while their homes moved. Cards
///   went back and forth between a node that used the new homes and one that didn't yet. A room
///   continued from a journal although its next home had sent it on, or was about to.
/// * A request got lost with the process that had just given its room away, since it waited for the
///   list of rooms there. A message in a room got a second id, since its sender had changed nicks.
///   The simulator expected messages from journals that had never had their sessions.
/// * A room's message got a second id: a client had it from another shard of the room's node before
///   that shard's note was in the journal. Two messages had the same id in an archive, since the
///   homes before and after a death counted on from the same one. Presence that a dead node had not
///   handled came behind later presence. The simulator let dead processes work when their
///   configuration changed, missed messages in archives of rooms that had refused them, expected a
///   journal to be read that Redis had forgotten, and took a login that had broken off for nothing.
/// * The simulator expected paused processes to know a new configuration. A room whose creator's
///   account was removed while it had no home was taken for another room of that name. A
///   node left whose confirmations Redis had forgotten, and requests were carried out twice.
/// * The simulator took a session that began after a request for one that had been there before.
/// * The simulator took a room's replies for an earlier session at the same address for those for
///   the present one, expected sessions to go on whose clients had been gone for ten minutes, and
///   forgot that a paused node had been told to leave. A change of a room's occupants waited a
///   second for the journal behind a message there, and a node died meanwhile.
/// * The presence of an older session counted as that of a newer one with its full JID. Clients
///   that came while others were not yet back from a restart never saw these, and replaced what
///   their account had blocked if the others were their own account's. The simulator took the
///   effect of a refusal for a fault that crossed a request after a withdrawn one.
///
/// The meaning of a seed changes with the simulator, so each fault also has a test of its own.
#[rustfmt::skip]
pub const FOUND_FAULTS: [u64; 94] = [
    31_506, 31_843, 1_002_108, 1_007_539, 1_006_586, 1_006_264, 2_003_850, 2_000_952, 2_002_724, 2_000_724, 2_006_419,
    2_009_180, 3_037_785, 3_029_185, 3_011_300, 3_033_203, 3_034_242, 3_021_087, 43, 79, 3_759, 8_019_599, 943, 41_355,
    65_275, 65_515, 64_955, 13_000_171, 40_731, 73_995, 75_471, 88_191, 100_207, 13_002_011, 527, 623, 895, 1343,
    30_014_779, 60_009_503, 70_004_507, 80_775, 96_712, 22_984, 6_207, 30_018_171, 91_017_499,
    70_005_435, 91_010_783, 1_753_783_341_225_243, 91_016_831, 1_753_783_341_222_239, 91_012_779,
    1_753_783_341_221_551, 91_021_983, 96_121_835, 91_006_735, 96_102_843,
    96_228_923, 96_230_619, 96_302_399, 96_310_203, 91_006_699, 96_247_035,
    96_415_903, 96_444_795, 96_206_207, 96_430_351, 96_446_159, 96_409_951, 91_030_015, 97_033_423,
    96_426_219, 96_129_247, 1_753_780_619_768_843, 97_058_667, 97_056_171, 99_102_111, 99_105_951, 99_106_251,
    99_008_267, 99_015_835, 99_134_831, 96_458_795, 200_043_780,
    120_009_967, 99_029_323, 99_132_651, 122_015_979, 97_111_803,
    200_244_435, 200_247_826, 201_146_912, 300_002_084,
];

thread_local! {
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Runs a plan. A panic counts as a broken rule, too.
pub fn run(plan: &RunPlan, keeps_lines: bool) -> RunOutcome {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| match RUNS.get() {
            true => PANICKED.set(Some(info.to_string().replace('\n', " "))),
            false => usual(info),
        }));
    });
    RUNS.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| run::run(plan, keeps_lines))).unwrap_or_else(|_| {
        let broken = PANICKED.take().unwrap_or_default();
        RunOutcome { hash: 0, broken: Some(broken), lines: journal::take_lines(), statistics: RunStatistics::default() }
    });
    RUNS.set(false);
    outcome
}

/// The outcome of many runs.
#[derive(Debug, Clone)]
pub struct SeedResults {
    /// The failures, by seed.
    pub failures: Vec<SeedFailure>,
    /// The statistics of all runs.
    pub statistics: RunStatistics,
    /// The first seed that was not tried.
    pub next: u64,
}

/// Runs seeds on this many threads, until one of them fails if `stops` is true, or until `goes_on`
/// returns false. Seeds with unwanted plans are skipped.
pub fn run_many(
    seeds: std::ops::Range<u64>,
    events: usize,
    threads: usize,
    stops: bool,
    goes_on: impl Fn() -> bool + Sync,
    is_wanted: impl Fn(&RunPlan) -> bool + Sync,
) -> SeedResults {
    let next = AtomicU64::new(seeds.start);
    let has_failed = AtomicBool::new(false);
    let found = Mutex::new((Vec::new(), RunStatistics::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = RunStatistics::default();
                while goes_on() && !(stops && has_failed.load(Ordering::Relaxed)) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let plan = RunPlan::new(seed, events);
                    if !is_wanted(&plan) {
                        continue;
                    }
                    let outcome = run(&plan, false);
                    own.add(&outcome.statistics);
                    if let Some(broken) = outcome.broken {
                        found.lock().unwrap_or_else(PoisonError::into_inner).0.push(SeedFailure {
                            seed,
                            broken,
                            events,
                        });
                        has_failed.store(true, Ordering::Relaxed);
                    }
                }
                found.lock().unwrap_or_else(PoisonError::into_inner).1.add(&own);
            });
        }
    });
    let (mut failures, statistics) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|failure| failure.seed);
    SeedResults { failures, statistics, next: next.into_inner().min(seeds.end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read_as_it_is_told() {
        let failure = |seed| SeedFailure { seed, broken: "a: rule (RFC 6120)".into(), events: 400 };
        let told = format!("12 seeds\n{FAILED}{}\n{FAILED}{}\n", failure(7), failure(9));
        assert_eq!(SeedFailure::read(&told), Some(failure(7)));
        assert_eq!(SeedFailure::read("12 seeds\n"), None);
    }
}
