//! Tests the built binary as `rookery bench peers`: each server that it compares starts with its
//! accounts, accepts logins, relays, and is gone afterwards.
//!
//! ejabberd and Prosody are Debian's, only installed if that doesn't start them. A test that can't
//! be run fails, unless `ROOKERY_SKIP` names it: `peers.ejabberd`.

use std::fs;
use std::process::Command;

use rookery_bench::result::RunResult;
use tempfile::TempDir;

fn relays(peer: &str, servers: &[(&str, &str)]) {
    if rookery_needs::skips(&format!("peers.{peer}")) {
        return;
    }
    rookery_needs::servers(servers);
    // Everything that a run leaves behind is below this folder, and its processes name it.
    let folder = TempDir::with_prefix("peers-").expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rookery"));
    command.args(["bench", "peers", "--quick", "--scenarios", "chat-1", "--only", peer, "--out"]);
    let output = command.arg(folder.path().join("out")).env("TMPDIR", folder.path()).output().expect("the binary");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");

    let mut results =
        fs::read_dir(folder.path().join("out")).expect("results").map(|entry| entry.expect("a file").path());
    let result = results.find(|path| path.extension().is_some_and(|end| end == "json")).expect("a result");
    let result = RunResult::read(&result).expect("a result");
    assert!(result.delivered > 0 && result.sessions == 200, "{said}");
    assert_eq!(result.lost + result.duplicated + result.reordered + result.errors, 0, "{said}");
    let memory = result.memory.expect("the memory of the server");
    assert!(memory.peak > 1 << 20, "this is the server's process, not its starter's");

    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1, "only results are left");
    let name = folder.path().to_str().expect("a path");
    let left: Vec<String> = processes().filter(|command| command.contains(name)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the command lines of all processes.
fn processes() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    // A process may end while it is read.
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
}

#[test]
fn rookery_comes_up_relays_and_goes() {
    relays("rookery", &[]);
}

#[test]
fn ejabberd_comes_up_relays_and_goes() {
    relays("ejabberd", &[("ejabberdctl", "ejabberd")]);
}

#[test]
fn prosody_comes_up_relays_and_goes() {
    relays("prosody", &[("prosody", "prosody")]);
}
