//! The demonstration: simulated front-ends in a process of their own, which ends with ours.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Simulated front-ends. Their process ends when this is dropped or our process ends in any way,
/// because its standard input is then closed.
#[derive(Debug)]
pub struct Simulated {
    child: Child,
    address: SocketAddr,
}

impl Simulated {
    /// Starts this program again with `dpm simulate`, for the front-ends of a database file or of
    /// the built-in one.
    ///
    /// # Errors
    /// The error of the system, and `InvalidData` if the program doesn't report its address.
    pub fn start(database: Option<&Path>) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?);
        process.args(["dpm", "simulate", "--attached", "--listen", "127.0.0.1:0"]);
        if let Some(path) = database {
            process.arg("--database").arg(path);
        }
        let mut child = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().parse();
        let address = address.map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "they did not report the address on which they listen")
        })?;
        Ok(Self { child, address })
    }

    /// Returns the address at which all of them listen over UDP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
