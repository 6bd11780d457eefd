//! `rookery bench` against the server: accounts come and go, and comparisons are of the same runs.

use super::rig::{CliRig, FREE_PORTS};

#[test]
fn what_watching_costs_is_measured_for_every_instrument() {
    let rig = CliRig::new();
    let said = rig.run(&["bench", "watch", "--pairs", "2", "--window", "1", "--seconds", "1", "--rounds", "1"]).fine();
    for instrument in
        ["top", "top --by stages", "top --by sessions", "top --by modules", "profile", "trace (of another)"]
    {
        let line = said.lines().find(|line| line.strip_prefix(instrument).is_some_and(|rest| rest.starts_with("  ")));
        assert!(line.is_some_and(|line| line.ends_with('%')), "{instrument}: {said}");
    }
}

#[test]
fn logins_are_measured_with_rosters() {
    let rig = CliRig::new();
    let said =
        rig.run(&["bench", "login", "--users", "6", "--contacts", "4", "--at-once", "3", "--rounds", "2"]).fine();
    for figure in ["logins per second", "ms of the server's CPU each"] {
        let line = said.lines().find_map(|line| line.strip_prefix(figure)).expect("a line");
        let number: f64 = line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number");
        assert!(number > 0.0, "{said}");
    }
    rig.run(&["bench", "login", "--users", "0"]).expect_failure(1, "--users and --contacts");
}

#[test]
fn accounts_of_a_load_are_made_and_removed_with_all_they_left() {
    let rig = CliRig::new();
    let tables = "[modules.register]\nallow_creation = true\nmin_password = 1\n";
    rig.write("rookery.toml", &format!("{FREE_PORTS}{tables}"));
    let (_server, said) = rig.serve();
    let host =
        said.split("Listening").nth(1).and_then(|line| line.trim().split(' ').next()).expect("an address").to_owned();
    let at = ["--host", &host, "--domain", "localhost", "--tls", "starttls"];
    let bench = |words: &[&str]| rig.run(&[&["bench"], words, &at[..]].concat());
    assert_eq!(bench(&["register", "--users", "4"]).fine(), "4 of 4 accounts are there\n");
    for name in ["one.json", "two.json"] {
        let load = ["run", "chat", "--pairs", "2", "--window", "1", "--seconds", "1", "--out", name];
        assert!(bench(&load).fine().contains("deliveries ↑"), "{name}");
    }
    let compared = rig.run(&["bench", "compare", "one.json", "two.json", "--markdown", "both.md"]).fine();
    assert!(compared.contains("a run was measured once, for 1.0 s: small differences mean nothing"), "{compared}");
    let written = std::fs::read_to_string(rig.path("both.md")).expect("the comparison");
    assert!(written.starts_with("## chat\n\n**deliveries: ") && written.contains("|  | one | two |"), "{written}");
    assert_eq!(bench(&["register", "--users", "4", "--remove"]).fine(), "4 of 4 accounts are removed\n");
    assert_eq!(rig.run(&["user", "list"]).fine(), "admin@localhost\n");
}
