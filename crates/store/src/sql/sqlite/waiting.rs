//! Waits of commands for a file that another process holds; the operator is informed about long
//! ones.

use crate::sql::queue::Patience;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// Sets the function that informs an operator that another process holds a file that a command
/// needs, and how long the command waits at most. It is called once for each long wait. Only the
/// first call has an effect.
pub fn tell_waits(tell: fn(Duration)) {
    let _ = TELL.set(tell);
}

/// Informs the operator that a command waits.
pub(super) fn tell() {
    if let Some(tell) = TELL.get() {
        tell(OF_COMMANDS);
    }
}

/// Waits before another attempt, longer after more failed ones. Returns whether to try again.
pub(super) fn wait_once_more(times: i32) -> bool {
    let waited = PAUSE * times.unsigned_abs();
    if waited == LONG {
        tell();
    }
    thread::sleep(PAUSE);
    waited < OF_COMMANDS
}

static TELL: OnceLock<fn(Duration)> = OnceLock::new();

/// The time that a command waits.
pub(super) const OF_COMMANDS: Duration = Patience::of_commands().other;

/// The wait after which the operator is informed.
pub(super) const LONG: Duration = Duration::from_secs(10);

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
