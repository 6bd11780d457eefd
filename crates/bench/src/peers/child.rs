//! Servers as child processes that end with this one, however it ends.
//!
//! Dropping a [`ServerChild`] ends it, also when a panic unwinds. Signals that end this process
//! end the children first ([`end_all_on_signals`]); they have their own process groups, so that a
//! terminal's Ctrl-C doesn't reach them before. For the one signal that can't be caught, `setpriv`
//! (util-linux), if it is installed, asks the kernel to end the child with its parent.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rookery_base::lock::lock;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::BenchOutcome;

/// A running server with its folder.
#[derive(Debug)]
pub(super) struct ServerChild {
    process: std::process::Child,
    folder: TempDir,
}

impl ServerChild {
    /// Starts a program whose output goes to `log` in the folder.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(folder: TempDir, mut command: Command) -> BenchOutcome<ServerChild> {
        let log = fs::File::options().create(true).append(true).open(folder.path().join(OUTPUT))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let process = command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        living().push((process.id(), folder.path().to_owned()));
        Ok(ServerChild { process, folder })
    }

    /// Returns the number of the process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the server accepts connections and, if a file is given, until it has written
    /// that.
    ///
    /// # Errors
    /// The server has ended, or takes longer than [`PATIENCE`]; with the end of its output.
    pub fn wait_until_ready(&mut self, address: SocketAddr, ready: Option<&Path>) -> BenchOutcome<()> {
        let patience = Instant::now() + PATIENCE;
        while ready.is_some_and(|ready| !ready.exists()) || TcpStream::connect(address).is_err() {
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("it ended while it started ({status}): {}", self.last_output()).into());
            }
            if Instant::now() > patience {
                return Err(format!("it isn't ready after {} s: {}", PATIENCE.as_secs(), self.last_output()).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Returns the last output of the server.
    fn last_output(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        let text = read(OUTPUT) + &read("log");
        let start = text.char_indices().rev().nth(TOLD).map_or(0, |(at, _)| at);
        text.get(start..).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for ServerChild {
    fn drop(&mut self) {
        let pid = self.process.id();
        // If the child has ended by itself, the wait below shows it.
        let _ = signal(pid, Signal::TERM);
        let patience = Instant::now() + GRACE;
        while Instant::now() < patience && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        living().retain(|(other, _)| *other != pid);
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP end all children and remove their folders before they end this
/// process.
///
/// # Errors
/// The system provides no signals or threads.
pub(super) fn end_all_on_signals() -> BenchOutcome<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let wait = move || {
        let Some(number) = signals.forever().next() else { return };
        for (pid, folder) in living().drain(..) {
            // This process ends now; the error can't be reported.
            let _ = signal(pid, Signal::KILL);
            let _ = fs::remove_dir_all(folder);
        }
        std::process::exit(128 + number);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// Returns a command that ends when the thread that starts it ends, if `setpriv` is installed.
pub(super) fn tied_command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !Path::new(SETPRIV).exists() {
        return Command::new(program);
    }
    let mut command = Command::new(SETPRIV);
    // `setpriv` executes the program in its own place, so the number of the process stays the same.
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn signal(pid: u32, signal: Signal) -> rustix::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
    kill_process(pid, signal)
}

/// Returns the numbers and folders of the children. A number is removed as soon as its process has
/// been waited for: until then it can't belong to another process.
fn living() -> MutexGuard<'static, Vec<(u32, PathBuf)>> {
    lock(&LIVING)
}

static LIVING: Mutex<Vec<(u32, PathBuf)>> = Mutex::new(Vec::new());
const OUTPUT: &str = "output";
const SETPRIV: &str = "/usr/bin/setpriv";
const PATIENCE: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(3);
/// The most characters of a server's output that are shown.
const TOLD: usize = 600;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_child_ends_with_its_owner_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let mut command = tied_command("/bin/sleep");
        command.arg("600");
        let child = ServerChild::start(folder, command).unwrap();
        let status = format!("/proc/{}/status", child.pid());
        assert!(fs::exists(&status).unwrap() && path.exists());
        drop(child);
        assert!(!fs::exists(&status).unwrap() && !path.exists());
    }

    #[test]
    fn a_child_that_does_not_come_up_says_why() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo there is no bread; exit 3"]);
        let mut child = ServerChild::start(tempfile::tempdir().unwrap(), command).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let error = child.wait_until_ready(address, None).unwrap_err().to_string();
        assert!(error.contains("there is no bread") && error.contains("exit status: 3"), "{error}");
    }
}
