//! Debian's ejabberd.
//!
//! The Erlang machine is started directly, as `ejabberdctl` would, but without a name: then there
//! is no distribution, no `epmd`, and no conflict with another ejabberd on this machine.

use std::fs;
use std::path::Path;

use super::child::tied_command;
use super::population::{DOMAIN, ITERATIONS, PASSWORD, Population, fill_template, keys};
use super::started::{Ports, StartedReady};
use crate::BenchOutcome;

/// The program that identifies the Debian package, and knows where its code is.
pub(super) const CONTROL: &str = "/usr/sbin/ejabberdctl";

/// Writes configuration and accounts into the folder.
///
/// # Errors
/// The error of the system.
pub(super) fn prepare(folder: &Path, ports: Ports, population: Population) -> BenchOutcome<StartedReady> {
    let (config, accounts) = (folder.join("ejabberd.yml"), folder.join("accounts.erl"));
    let (spool, ready) = (folder.join("spool"), folder.join("ready"));
    fs::create_dir(&spool)?;
    fs::write(
        &config,
        fill_template(
            CONFIG,
            &[("DOMAIN", DOMAIN), ("PORT", &ports.streams.to_string()), ("WEB", &ports.web.to_string())],
        ),
    )?;
    let keys = keys()?;
    let values = [
        ("DOMAIN", DOMAIN),
        ("STORED", &keys.stored),
        ("SERVER", &keys.server),
        ("SALT", &keys.salt),
        ("ITERATIONS", &ITERATIONS.to_string()),
        ("COUNT", &population.accounts.to_string()),
        ("FRIENDS", &population.friends.to_string()),
        ("PASSWORD", PASSWORD),
        ("READY", &ready.to_string_lossy()),
    ];
    fs::write(&accounts, fill_template(ACCOUNTS, &values))?;
    let mut command = tied_command(ERL);
    // The schedulers don't spin when idle: see crates/bench/peers/README.md.
    command.args(["+K", "true", "+P", "1000000", "+Q", "262144"]);
    command.args(["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"]);
    command.args(["-noinput", "-mnesia", "dir"]).arg(format!("\"{}\"", spool.display()));
    command.args(["-s", "ejabberd", "-eval"]);
    let halt = "io:format(\"~p~n\", [Error]), halt(1)";
    command.arg(format!("case file:script(\"{}\") of {{ok, _}} -> ok; Error -> {halt} end.", accounts.display()));
    command.env("EJABBERD_CONFIG_PATH", &config).env("EJABBERD_LOG_PATH", folder.join("log"));
    command.env("HOME", folder).env("ERL_LIBS", libraries()?).env("ERL_MAX_PORTS", "262144");
    command.env("ERL_CRASH_DUMP_BYTES", "0").current_dir(folder);
    Ok(StartedReady { command, file: Some(ready) })
}

/// Returns the folder of the package's Erlang code, which differs between architectures.
fn libraries() -> BenchOutcome<String> {
    let script = fs::read_to_string(CONTROL).map_err(|error| format!("{CONTROL}: {error}"))?;
    let line = script.lines().find_map(|line| line.strip_prefix("ERL_LIBS="));
    let line = line.ok_or_else(|| format!("{CONTROL} doesn't say where the code is (ERL_LIBS)"))?;
    Ok(line.trim_matches(['\'', '"']).to_owned())
}

const ERL: &str = "/usr/bin/erl";
const CONFIG: &str = include_str!("../../peers/ejabberd.yml");
const ACCOUNTS: &str = include_str!("../../peers/ejabberd-accounts.erl");
