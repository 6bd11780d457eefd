//! The demonstration: simulated front-ends in a process of their own, which ends with ours.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Front-ends that are simulated. They end when this is dropped or this process ends, however that
/// happens: then their standard input is closed.
#[derive(Debug)]
pub struct Simulated {
    child: Child,
    address: SocketAddr,
}

impl Simulated {
    /// Starts this very program with `dpm simulate` for the front-ends of a database file, or of
    /// the small one within.
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
        let address =
            address.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "they do not say where they listen"))?;
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
