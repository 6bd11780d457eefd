//! Running scenarios.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::behind::{self, BEHIND};
use super::python::python;

/// Runs a scenario, named as script and function; it has to succeed.
#[track_caller]
pub fn run(scenario: &str) {
    run_as(&format!("clients.{scenario}"), scenario, false);
}

/// Runs a scenario in the same way with three nodes behind a balancer instead of one server.
#[track_caller]
pub fn run_behind(scenario: &str) {
    run_as(&format!("clients.behind.{scenario}"), scenario, true);
}

#[track_caller]
fn run_as(test: &str, scenario: &str, is_behind: bool) {
    if rookery_needs::skips(test) {
        return;
    }
    rookery_needs::programs(programs(scenario));
    rookery_needs::servers(servers(scenario));
    succeeds(test, || {
        let mut command = script(scenario);
        if is_behind {
            command.env(BEHIND, behind::place());
        }
        command.output().expect("Python")
    });
}

/// Runs the faults of `tests/load/night.py`; the server has to survive and report each.
#[track_caller]
pub fn run_night() {
    if rookery_needs::skips("clients.night") {
        return;
    }
    succeeds("clients.night", || on_server("../tests/load/night.py").output().expect("Python"));
}

/// Lets parts of a cluster of three nodes fail for a minute while people write to each other, as a
/// scenario of `tests/load/cluster.py`: nothing may be lost, and in one of two tries nothing may
/// come in another order, or twice with another id.
#[track_caller]
pub fn run_harm(scenario: &str) {
    let test = format!("clients.harm.{scenario}");
    if rookery_needs::skips(&test) {
        return;
    }
    rookery_needs::servers(&[("redis-server", "redis-server"), ("/usr/share/doc/postgresql/copyright", "postgresql")]);
    succeeds(&test, || {
        let mut command = on_server("../tests/load/cluster.py");
        // The usual lease tolerates a busy machine. A paused node may have delivered a message that
        // its journal lacks, which then comes twice.
        command.args([scenario, "--nodes", "3", "--users", "30", "--rate", "30", "--seconds", "60"]);
        command.args(["--lease", "4", "--most-twice", "1"]).output().expect("Python")
    });
}

/// Checks that a program succeeds. One that runs out of time is tried once more: real clients run
/// in real time, which is scarce on a busy machine.
#[track_caller]
fn succeeds(test: &str, program: impl Fn() -> Output) {
    let mut output = program();
    if output.status.code() == Some(OUT_OF_TIME) {
        rookery_needs::tried_again(test, &output_of(&output));
        output = program();
    }
    assert!(output.status.success(), "{test}: {}\n{}", output.status, output_of(&output));
}

fn output_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The exit code of `tests/clients/run.py` for a timeout, and of `tests/load/cluster.py` if
/// messages only came twice or out of order: `EX_TEMPFAIL` of sysexits.h.
const OUT_OF_TIME: i32 = 75;

/// Returns the programs that a scenario uses, each with its Debian package.
fn programs(scenario: &str) -> Packages {
    let (script, function) = scenario.split_once('.').unwrap_or_default();
    match script {
        "terminal" => &[("profanity", "profanity")],
        "others" if function.starts_with("go_sendxmpp") => &[("go-sendxmpp", "go-sendxmpp")],
        "operation" => &[("openssl", "openssl")],
        "certificates" => &[("openssl", "openssl"), ("pebble", "pebble")],
        "pages" | "guests" | "killed" => &[("chromium", "chromium")],
        _ => &[],
    }
}

/// Returns the other servers that a scenario uses, each with its Debian package.
fn servers(scenario: &str) -> Packages {
    match scenario {
        "foreign.accounts_come_from_ejabberd" => &[("ejabberdctl", "ejabberd"), ("erl", "erlang-base")],
        "foreign.accounts_come_from_prosody" => {
            &[("prosodyctl", "prosody"), ("prosody-migrator", "prosody"), ("lua5.4", "lua5.4")]
        }
        "federation.rookery_and_prosody_meet"
        | "federation.rookery_and_prosody_share_one_connection"
        | "federation.rookery_and_prosody_outlive_each_other"
        | "federation.somebody_on_prosody_is_a_push_service"
        | "federation.people_of_rookery_and_prosody_share_news_and_rooms_past"
        | "federation.a_certificate_that_proves_nothing_is_replaced"
        | "federation.our_own_certificate_is_replaced_while_streams_are_open"
        | "federation.a_server_without_a_certificate_is_proven_by_dialback_where_that_is_allowed"
        | "federation.a_server_without_dialback_is_proven_by_its_certificate" => PROSODY,
        "federation.a_signed_zone_decides_who_a_server_is" => &[
            ("prosodyctl", "prosody"),
            ("/usr/share/doc/lua-unbound/copyright", "lua-unbound"),
            ("unbound", "unbound"),
        ],
        "federation.rookery_and_ejabberd_meet"
        | "federation.rookery_and_ejabberd_outlive_each_other"
        | "federation.what_a_server_without_acknowledgements_has_not_read_comes_back"
        | "federation.people_of_rookery_and_ejabberd_share_news_and_rooms_past" => EJABBERD,
        "federation.one_message_reaches_300_addresses_on_rookery_prosody_and_ejabberd" => PROSODY_AND_EJABBERD,
        "components.biboumi_is_a_component" => &[("biboumi", "biboumi")],
        "components.slidge_is_a_privileged_component" => &[("/usr/share/doc/libmagic1/copyright", "libmagic1")],
        "foreign.accounts_come_from_the_database_of_ejabberd" => &[
            ("ejabberdctl", "ejabberd"),
            ("erl", "erlang-base"),
            ("/usr/share/doc/erlang-p1-sqlite3/copyright", "erlang-p1-sqlite3"),
        ],
        "foreign.accounts_come_from_the_database_of_prosody" => {
            &[("prosodyctl", "prosody"), ("/usr/share/doc/lua-dbi-sqlite3/copyright", "lua-dbi-sqlite3")]
        }
        _ => &[],
    }
}

/// Returns the names of all scenarios, one per line.
#[track_caller]
pub fn list() -> String {
    let output = script("--list").output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the command that runs a scenario.
fn script(argument: &str) -> Command {
    let mut command = on_server("../tests/clients/run.py");
    command.arg(argument).env_remove(BEHIND);
    if ["web.", "bosh.", "guests.", "gallery.", "pages."].iter().any(|script| argument.starts_with(script)) {
        command.env("ROOKERY_NODE", super::node::folder());
    }
    if ["guests.", "gallery.", "pages.", "killed."].iter().any(|script| argument.starts_with(script)) {
        command.env("ROOKERY_CONVERSE", super::converse::folder());
    }
    command
}

/// Returns the command that runs a script, which starts servers of the built binary.
fn on_server(script: &str) -> Command {
    let mut command = python("clients", REQUIREMENTS);
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(script));
    command.env("ROOKERY", env!("CARGO_BIN_EXE_rookery")).env_remove("ROOKERY_DATA_DIR");
    command
}

const REQUIREMENTS: &str = include_str!("../../../tests/clients/requirements.txt");

type Packages = &'static [(&'static str, &'static str)];

/// The packages of each of the other servers, and of both.
const PROSODY: Packages = PROSODY_AND_EJABBERD.split_at(2).0;
const EJABBERD: Packages = PROSODY_AND_EJABBERD.split_at(2).1;
const PROSODY_AND_EJABBERD: Packages = &[
    ("prosodyctl", "prosody"),
    ("/usr/share/doc/lua-unbound/copyright", "lua-unbound"),
    ("ejabberdctl", "ejabberd"),
    ("erl", "erlang-base"),
    ("/usr/share/doc/libnss-wrapper/copyright", "libnss-wrapper"),
];
