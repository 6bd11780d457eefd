//! Running scenarios.

use std::io::{Write, stderr};
use std::path::PathBuf;
use std::process::Output;
use std::sync::Once;

use super::debian;
use super::others;
use super::python::python;

/// Runs a scenario, named as script and function; it has to succeed.
#[track_caller]
pub fn run(scenario: &str) {
    // cargo runs tests on several threads; the package system works for one at a time.
    static PROGRAMS: Once = Once::new();
    PROGRAMS.call_once(|| {
        debian::need(&[
            ("profanity", "profanity"),
            ("go-sendxmpp", "go-sendxmpp"),
            ("openssl", "openssl"),
            ("chromium", "chromium"),
            ("npm", "npm"),
            ("pebble", "pebble"),
        ]);
    });
    let servers: &[_] = match scenario.strip_prefix("foreign.accounts_come_from_") {
        Some("ejabberd") => &[("ejabberdctl", "ejabberd"), ("erl", "erlang-base")],
        Some("prosody") => &[("prosodyctl", "prosody"), ("prosody-migrator", "prosody"), ("lua5.4", "lua5.4")],
        _ => &[],
    };
    if let Err(missing) = others::need(servers) {
        // Not by a macro: that would show it only if the test failed.
        let _ = writeln!(stderr(), "{scenario} is skipped: {missing}");
        return;
    }
    let output = script(scenario);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{scenario}: {}\n{said}", output.status);
}

/// The names of all scenarios, a line each.
#[track_caller]
pub fn list() -> String {
    let output = script("--list");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn script(argument: &str) -> Output {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/clients/run.py");
    let mut command = python("clients", REQUIREMENTS);
    command.arg(script).arg(argument);
    if ["web.", "bosh."].iter().any(|script| argument.starts_with(script)) {
        command.env("ROOKERY_NODE", super::node::folder());
    }
    if argument.starts_with("pages.") {
        command.env("ROOKERY_CONVERSE", super::converse::folder());
    }
    command.env("ROOKERY", env!("CARGO_BIN_EXE_rookery")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env_remove("ROOKERY_DATA_DIR");
    command.output().expect("Python")
}

const REQUIREMENTS: &str = include_str!("../../../tests/clients/requirements.txt");
