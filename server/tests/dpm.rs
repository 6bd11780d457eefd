//! Tests the built binary with clients of control rooms: pacsys, acsys-python and gRPC's own
//! library, and a Kerberos realm for settings.
//!
//! Each test is a scenario in `tests/dpm`, which starts a service with simulated front-ends on
//! free ports, and a KDC if it needs one. The clients' requirements are installed automatically:
//! Python packages below `target/`, programs by Debian's package system. acsys-python is in no
//! registry: it is fetched from its repository, or taken from the folder that `ROOKERY_ACSYS`
//! names.
//!
//! A scenario that can't be run fails, unless `ROOKERY_SKIP` names it: `dpm.acsys_clients` if
//! acsys-python isn't available.

#[macro_use]
mod clients {
    pub mod python;
    #[macro_use]
    pub mod scenarios;
}

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use clients::python::python;

scenarios! {
    pacsys_clients {
        one_device_is_read
        values_of_every_type_are_read_at_once
        readings_are_subscribed_to
        clock_and_state_events_are_followed
        the_acnet_transport_reads
        the_acnet_node_tells_of_itself_and_others
        front_ends_are_asked_by_way_of_the_node
        snapshots_are_taken
        commands_read_and_watch
        values_of_every_type_are_set_and_read_back
        alarm_limits_are_set_field_by_field
        alarm_blocks_are_set_whole
        what_was_set_is_told_to_the_log_of_settings
        who_has_no_ticket_or_no_role_sets_nothing
        a_command_sets
        rookery_sets_by_ticket
    }
    acsys_clients {
        devices_are_read
        readings_are_subscribed_to_and_lists_change
        clock_and_state_events_are_followed
        values_are_converted_by_the_task_scale
        events_are_reported_by_the_task_sync
        devices_are_set
        who_may_not_set_is_told
    }
    history_clients {
        numbers_are_read_back
        history_outlives_a_restart
        arrays_are_read_back
        what_was_not_recorded_has_a_status
        plots_come_in_batches
    }
    grpc_clients {
        pacsys_reads_one_and_many
        pacsys_subscribes
        pacsys_reads_history
        pacsys_plots
        pacsys_sets_nothing
        pacsys_sets_by_token
        pacsys_is_told_of_devices
        a_stream_ends_when_all_is_read
        deadlines_and_unknown_methods_have_their_codes
        many_streams_come_and_go
        the_interface_describes_itself
    }
    epics_clients {
        numbers_texts_and_choices_are_read
        a_server_of_caproto_is_read
        changes_are_told_as_they_come_and_periods_are_kept
        a_variable_is_monitored_once_for_all_readers
        what_nobody_has_is_silent_and_hides_nothing
        name_servers_are_asked_over_tcp
        a_server_that_dies_is_told_and_found_again
        variables_are_set_by_those_who_may
    }
    pva_clients {
        values_of_every_type_are_read
        changes_are_told_as_they_come_and_periods_are_kept
        a_variable_is_monitored_once_for_all_readers
        what_nobody_has_or_is_too_long_hides_nothing
        name_servers_are_asked_over_tcp
        a_server_that_dies_is_told_and_found_again
        variables_are_set_by_those_who_may
    }
    gateway_clients {
        the_library_of_epics_base_reads_and_monitors
        a_client_of_caproto_reads_and_monitors
        nothing_can_be_set
        many_clients_are_one_reader_of_the_front_end
    }
    pva_gateway_clients {
        a_client_of_p4p_reads_and_monitors
        searches_by_udp_find_devices
        the_commands_of_p4p_read_and_monitor
        the_commands_of_epics_base_read_and_monitor
        nothing_can_be_set
        many_clients_are_one_reader_of_the_front_end
    }
    mqtt_clients {
        numbers_texts_and_arrays_are_read_as_the_broker_keeps_them
        changes_are_told_as_they_come_once_subscribed_for_all_readers
        a_topic_of_which_nothing_comes_is_silent_and_hides_nothing
        a_broker_that_dies_is_told_and_found_again
        topics_are_set_by_those_who_may
        a_broker_that_asks_for_a_password_and_has_a_certificate_lets_us_in
    }
}

#[test]
fn every_scenario_is_a_test() {
    if rookery_needs::skips("dpm.every_scenario_is_a_test") {
        return;
    }
    let output = script("--list");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("text");
    let known = SCENARIOS.iter().filter(|scenario| acsys().is_some() || !scenario.starts_with("acsys_clients."));
    assert_eq!(listed.lines().collect::<Vec<_>>(), known.copied().collect::<Vec<_>>());
}

/// Runs a scenario, named as script and function; it has to succeed.
#[track_caller]
fn run(scenario: &str) {
    if rookery_needs::skips(&format!("dpm.{scenario}")) {
        return;
    }
    assert!(
        acsys().is_some() || !scenario.starts_with("acsys_clients."),
        "acsys-python is not to be had from {ACSYS}: ROOKERY_ACSYS may name its folder, or ROOKERY_SKIP=dpm.acsys_clients leave this out"
    );
    let output = script(scenario);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{scenario}: {}\n{said}", output.status);
}

fn script(argument: &str) -> Output {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/dpm/run.py");
    let mut command = interpreter();
    command.arg(script).arg(argument).envs(acsys().map(|folder| ("ACSYS", folder)));
    command.env("ROOKERY", env!("CARGO_BIN_EXE_rookery"));
    command.output().expect("Python")
}

/// Returns the folder of acsys-python, if it is available.
fn acsys() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| std::env::var_os("ROOKERY_ACSYS").map(PathBuf::from).or_else(fetch_acsys)).as_deref()
}

/// Fetches acsys-python once below `target/`.
fn fetch_acsys() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("acsys");
    if folder.join("acsys/__init__.py").exists() {
        return Some(folder);
    }
    let fetched = folder.with_extension(std::process::id().to_string());
    let mut pip = interpreter();
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--retries", "0", "--timeout", "20", "--target"]);
    let done = pip.arg(&fetched).arg(ACSYS).output().expect("Python");
    // Another run of the tests may have been quicker: its folder is as good.
    let _ = fs::rename(&fetched, &folder);
    let _ = fs::remove_dir_all(&fetched);
    (done.status.success() && folder.join("acsys/__init__.py").exists()).then_some(folder)
}

/// Returns a Python with the clients' requirements, once the programs are installed.
fn interpreter() -> Command {
    rookery_needs::programs(&[
        ("krb5kdc", "krb5-kdc"),
        ("kadmin.local", "krb5-admin-server"),
        ("kinit", "krb5-user"),
        // For building the Python package gssapi.
        ("krb5-config", "libkrb5-dev"),
        ("gcc", "gcc"),
        ("python3-config", "python3-dev"),
        ("mosquitto", "mosquitto"),
        ("mosquitto_pub", "mosquitto-clients"),
    ]);
    python("dpm", REQUIREMENTS)
}

const REQUIREMENTS: &str = include_str!("../../tests/dpm/requirements.txt");
/// acsys-python 0.12.8, as its authors publish it.
const ACSYS: &str = "https://github.com/fermi-ad/acsys-python/archive/d5a5c798a5746a1f7fbec2d8e664ac27bb6dc396.tar.gz";
