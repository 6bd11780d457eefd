//! A Redis of the test's own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::{free_port, guard, servers};

/// A Redis on a free port of the loopback interface, which keeps nothing on disk. It ends, and its
/// folder goes, when the test's process ends, however that happens.
pub struct Redis {
    folder: PathBuf,
    /// The process that ends it: it waits for the end of its standard input.
    guard: Child,
    port: u16,
}

impl Redis {
    /// Installs Redis if it is missing, and starts one.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn start() -> Redis {
        servers(&[("redis-server", "redis-server")]);
        let folder = guard::folder("redis");
        let port = free_port();
        let mut server = Command::new("redis-server");
        server.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
        server.arg("--dir").arg(&folder);
        let redis = Redis { guard: guard::guard(&folder, "TERM", &server), folder, port };
        let until = Instant::now() + PATIENCE;
        while redis.try_command(&["PING"]).is_none() {
            assert!(Instant::now() < until, "Redis does not answer on port {port}");
            thread::sleep(Duration::from_millis(50));
        }
        redis
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Carries out a command, and returns the beginning of the answer.
    ///
    /// # Panics
    /// If Redis does not answer.
    pub fn command(&self, words: &[&str]) -> String {
        self.try_command(words).expect("an answer of Redis")
    }

    fn try_command(&self, words: &[&str]) -> Option<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        connection.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut command = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| command.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        connection.write_all(command.as_bytes()).ok()?;
        let mut answer = vec![0; 16 * 1024];
        let len = connection.read(&mut answer).ok().filter(|len| *len > 0)?;
        answer.truncate(len);
        String::from_utf8(answer).ok()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        guard::end(&mut self.guard);
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// The time within which it answers.
const PATIENCE: Duration = Duration::from_secs(10);
