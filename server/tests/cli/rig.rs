//! A temporary folder and the commands that run in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// A folder with a configuration that listens on free ports of this machine alone, and a data
/// folder.
pub struct CliRig {
    folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub struct RigEnded {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A running server; stopped when it goes out of scope.
pub struct RigServer {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl CliRig {
    pub fn new() -> CliRig {
        let rig = CliRig::fresh();
        fs::DirBuilder::new().mode(0o700).create(rig.path("rookery-data")).expect("a folder");
        rig
    }

    /// Creates a rig without a data folder, as before a first start.
    pub fn fresh() -> CliRig {
        let rig = CliRig::empty();
        rig.write("rookery.toml", FREE_PORTS);
        rig
    }

    /// Creates an empty folder: the defaults hold, and there is no data folder.
    pub fn empty() -> CliRig {
        CliRig { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a written file");
    }

    /// Gives the commands a secret in the way of systemd's `LoadCredential=`.
    pub fn credential(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(CREDENTIALS)).expect("a folder");
        self.write(&format!("{CREDENTIALS}/{name}"), text);
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> RigEnded {
        self.run_with(arguments, "")
    }

    /// Runs a command with this on its standard input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> RigEnded {
        self.run_in(&BTreeMap::new(), arguments, input)
    }

    /// Runs a command with these environment variables and this on its standard input.
    pub fn run_in(&self, environment: &BTreeMap<String, String>, arguments: &[&str], input: &str) -> RigEnded {
        let mut child = self.command(arguments).envs(environment).spawn().expect("a process");
        // A command that doesn't read its input may have ended already.
        let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("its output");
        RigEnded {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Starts a server and waits until it reports that it runs; returns the output until then.
    pub fn serve(&self) -> (RigServer, String) {
        self.serve_in(&[])
    }

    /// Starts a server like [`CliRig::serve`], with additional environment variables.
    pub fn serve_in(&self, environment: &[(&str, &str)]) -> (RigServer, String) {
        let mut child = self.command(&[]).envs(environment.iter().copied()).spawn().expect("a process");
        let mut server = RigServer { out: BufReader::new(child.stdout.take().expect("its output")), child };
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("Rookery") && line.contains("is running")) {
            if server.out.read_line(&mut said).expect("text") == 0 {
                let mut err = String::new();
                let _ = server.child.stderr.take().expect("its errors").read_to_string(&mut err);
                panic!("the server ended: {said}{err}");
            }
        }
        (server, said)
    }

    /// Returns a command that isn't run yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rookery"));
        command.args(arguments).current_dir(self.folder.path()).env_remove("ROOKERY_DATA_DIR");
        command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        if self.path("rookery.toml").exists() {
            command.args(["--config", "rookery.toml"]);
        }
        if self.path(CREDENTIALS).exists() {
            command.env("CREDENTIALS_DIRECTORY", self.path(CREDENTIALS));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl RigServer {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by its name.
    pub fn signal(&self, name: &str) {
        let killed = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(killed.expect("kill").success());
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(mut self) -> i32 {
        self.signal("TERM");
        self.child.wait().expect("an end").code().expect("an exit code")
    }

    /// Waits until the server has ended by itself, and returns its exit code and log.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stderr.take().expect("its errors").read_to_string(&mut text).expect("text");
        (self.child.wait().expect("an end").code(), text)
    }

    /// Stops the server, and returns its log.
    pub fn log(mut self) -> String {
        let mut log = self.child.stderr.take().expect("its errors");
        assert_eq!(self.stop(), 0);
        let mut text = String::new();
        log.read_to_string(&mut text).expect("text");
        text
    }
}

impl Drop for RigServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RigEnded {
    /// Checks that the command succeeded, and returns its output.
    #[track_caller]
    pub fn fine(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Checks that `rookery check` found nothing that keeps a server from starting, and returns its
    /// output. There may be warnings: other programs may listen on the machine that runs the tests,
    /// and its disk may be nearly full.
    #[track_caller]
    pub fn starts(self) -> String {
        assert!(matches!(self.code, 0 | 3), "{}{}", self.out, self.err);
        self.out
    }

    /// Checks that the command failed with this code, and with this on standard error.
    #[track_caller]
    pub fn expect_failure(self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.contains(words), "{:?} is not in:\n{}", words, self.err);
    }

    /// Returns standard output and standard error.
    pub fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// The folder of secrets.
const CREDENTIALS: &str = "credentials";

/// Hashing ten thousand times is the slowest part of these tests, so they use the smallest count
/// that is allowed.
pub const FREE_PORTS: &str = "\
[listen]
c2s = [\"127.0.0.1:0\"]
c2s_tls = [\"127.0.0.1:0\"]
web = [\"127.0.0.1:0\"]
web_tls = [\"127.0.0.1:0\"]
bytestreams = [\"127.0.0.1:0\"]
[login]
scram_iterations = 4096
";
