//! The load of "Profiling DPM": 1, 10, 100 and 1000 clients read the same 100 devices fifteen times
//! a second, then 10 000 different devices from 100 front-ends at once.
//!
//! `cargo bench -p rookery-dpm` prints tables; with `-- --markdown FILE --html FILE` it also writes
//! them to files. They show the requests to front-ends, the CPU time of the service's thread for
//! each delivered reading, the latency of readings at clients and, for comparison, the cost of only
//! writing the same bytes to as many sockets, and the delay with which a sleeping thread wakes on
//! this machine.
//!
//! Service, simulated front-ends and clients are threads of one process and share its cores; the
//! sockets between them are real. Front-ends and clients share a clock; timestamps of readings are
//! whole milliseconds, so a latency may be reported up to one too long.

mod load;
mod machine;
mod readers;
mod report;

use std::path::PathBuf;

use load::{Load, LoadRun};
use report::ReportRow;

fn main() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
    let arguments: Vec<String> = std::env::args().collect();
    let file = |flag: &str| {
        let place = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(place + 1).map(PathBuf::from)
    };
    let same = [1, 10, 100, 1000].map(|clients| row(Load { clients, front_ends: 1, devices: 100, stages: false }));
    let different = [1, 10].map(|clients| row(Load { clients, front_ends: 100, devices: 10_000, stages: false }));
    let measured = load::run(Load { clients: 100, front_ends: 1, devices: 100, stages: true });
    let markdown = report::markdown(&same, &different, &measured);
    println!("{markdown}");
    for (flag, text) in [("--markdown", markdown), ("--html", report::html(&same, &different, &measured))] {
        if let Some(path) = file(flag) {
            std::fs::write(&path, text).expect("a file that can be written");
        }
    }
}

fn row(load: Load) -> ReportRow {
    let run: LoadRun = load::run(load);
    let bare = machine::bare_writes(load.clients, run.bytes_per_write, run.readings_per_write);
    ReportRow { load, run, bare }
}
