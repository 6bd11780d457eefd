//! Threads without which the process is useless: a panic in one of them ends the process.
//!
//! A dead shard keeps its clients connected but unserved, and their contacts get no errors. A dead
//! process is restarted by its supervisor, and its clients get their messages again within seconds.
//! Where work can fail alone, such as one request of the web front-end or one piece of background
//! work, its panic is caught there and doesn't get here.

use std::backtrace::Backtrace;
use std::io::Write;
use std::mem;
use std::panic;
use std::process;
use std::thread;

/// Runs the work of a vital thread. If the work panics, the process ends by SIGABRT.
pub fn vital<T>(work: impl FnOnce() -> T) -> T {
    let guard = Guard;
    let done = work();
    mem::forget(guard);
    done
}

/// Reports every panic from now on with its thread and its backtrace on standard error, regardless
/// of `RUST_BACKTRACE`: bug reports need them.
pub fn tell_panics() {
    panic::set_hook(Box::new(|panic| {
        let current = thread::current();
        let name = current.name().unwrap_or("without a name");
        let backtrace = Backtrace::force_capture();
        // If standard error is closed, nothing can be done about it.
        let _ = writeln!(std::io::stderr(), "rookery: the thread {name} has {panic}\n{backtrace}");
    }));
}

/// A guard that is dropped only while the thread unwinds.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        let current = thread::current();
        let name = current.name().unwrap_or("without a name");
        // As above, a closed standard error is ignored.
        let _ = writeln!(
            std::io::stderr(),
            "rookery: the process ends, since it is of no use without the thread {name}; this is a bug, please report it"
        );
        process::abort();
    }
}
