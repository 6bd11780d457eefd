//! Tests the layers of `ARCHITECTURE.md`: dependencies between our crates point downwards, and the
//! crates that must not touch the outside world depend on nothing that could.

use std::collections::BTreeMap;
use std::process::Command;

mod layers {
    pub mod picture;
}
use layers::picture::{CrateGraph, draw};

/// For each crate, the crates of ours that its library may use. All may use `base`.
const LAYERS: &[(&str, &str)] = &[
    ("base", ""),
    ("jid", ""),
    ("sasl", ""),
    ("observe", ""),
    ("gssapi", ""),
    ("profile", ""),
    ("tokens", ""),
    ("dpm", "gssapi observe tokens"),
    ("xml", "jid"),
    ("stream", "jid xml sasl"),
    ("client", "jid xml sasl stream"),
    ("fanout", "jid xml"),
    ("store", "jid sasl observe"),
    ("hub", "jid xml sasl stream fanout store observe"),
    ("federation", "jid xml stream fanout hub"),
    ("modkit", "jid xml stream fanout store hub"),
    ("archive", "jid xml stream fanout store hub modkit"),
    ("rooms", "jid xml stream fanout store hub modkit archive"),
    ("pubsub", "jid xml stream fanout store hub modkit"),
    ("operations", "jid xml sasl stream fanout store hub modkit archive rooms"),
    ("modules", "jid xml sasl stream fanout store observe hub modkit archive rooms pubsub operations"),
    ("shard", "jid xml sasl stream fanout store observe hub federation"),
    (
        "testkit",
        "jid xml sasl stream client fanout store observe hub federation archive pubsub operations modules shard needs",
    ),
    ("simulator", "jid xml sasl fanout store hub shard cluster testkit"),
    ("behaviour", ""),
    ("needs", ""),
    ("portability", "jid xml sasl store hub archive pubsub modules"),
    ("web", "jid xml sasl stream store observe hub operations modules portability profile shard"),
    ("relay", "observe hub modules"),
    ("logins", "jid hub tokens"),
    ("resolver", "stream observe federation shard"),
    ("cluster", "fanout store observe hub shard"),
    ("bench", "jid xml sasl stream client fanout store observe profile hub modules shard"),
    ("fuzz", "jid xml sasl stream fanout hub federation modules resolver cluster dpm"),
    ("xtask", ""),
];

/// Libraries with sockets, threads or a clock of their own: not for the crates below `shard`.
const OUTSIDE: &[&str] = &["tokio", "mio", "rustix", "socket2", "libc", "nix", "async-std", "polling", "io-uring"];

#[test]
fn dependencies_point_downwards() {
    let dependencies = dependencies();
    for (name, found) in &dependencies {
        let ours: Vec<&str> = found.iter().filter_map(|found| found.strip_prefix("rookery-")).collect();
        if name == "rookery" {
            continue;
        }
        let short = name.strip_prefix("rookery-").unwrap_or(name);
        let allowed = LAYERS.iter().find(|(layer, _)| *layer == short).map(|(_, allowed)| *allowed);
        let allowed = allowed.unwrap_or_else(|| panic!("{name} has no place in the layers: give it one here"));
        let allowed: Vec<&str> = allowed.split_whitespace().collect();
        let unused: Vec<_> = allowed.iter().filter(|allowed| !ours.contains(allowed)).collect();
        assert!(unused.is_empty(), "{name} does not depend on {unused:?} any more: take the arrows away here");
        for dependency in &ours {
            assert!(
                *dependency == "base" || allowed.contains(dependency),
                "{name} must not depend on rookery-{dependency}"
            );
        }
    }
    assert_eq!(dependencies.len(), LAYERS.len() + 1, "a layer of the table is no crate any more");
}

#[test]
fn the_protocol_crates_cannot_reach_the_outside() {
    for (name, found) in dependencies() {
        let is_protocol = !matches!(
            name.as_str(),
            "rookery"
                | "rookery-shard"
                | "rookery-web"
                | "rookery-relay"
                | "rookery-logins"
                | "rookery-resolver"
                | "rookery-cluster"
                | "rookery-bench"
                | "rookery-store"
                | "rookery-dpm"
                // It asks the kernel for clocks, to sample this process.
                | "rookery-profile"
                // Only tests use it: it starts the programs that they need.
                | "rookery-needs"
        );
        for dependency in found.iter().filter(|_| is_protocol) {
            assert!(!OUTSIDE.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_picture_of_the_crates_is_up_to_date() {
    let is_drawn = |name: &str| !matches!(name, "base" | "behaviour" | "needs" | "fuzz" | "xtask");
    let short = |name: &str| if name == "rookery" { "server" } else { name.trim_start_matches("rookery-") }.to_owned();
    let ours = |name: &&String| name.starts_with("rookery-");
    let graph: CrateGraph = dependencies()
        .iter()
        .map(|(name, used)| (short(name), used.iter().filter(ours).map(|used| short(used))))
        .filter(|(name, _)| is_drawn(name))
        .map(|(name, used)| (name, used.filter(|used| is_drawn(used)).collect()))
        .collect();
    let (file, picture) = (concat!(env!("CARGO_MANIFEST_DIR"), "/../doc/pictures/crates.svg"), draw(&graph));
    if std::env::var_os("UPDATE_DOC").is_some() {
        std::fs::write(file, &picture).expect("the picture can be written");
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert!(found == picture, "doc/pictures/crates.svg is old: run UPDATE_DOC=1 cargo test --workspace up_to_date");
}

/// Returns the crates of the workspace with the names of their normal dependencies.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path", manifest];
    let output = Command::new(cargo).args(arguments).output().expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().expect("there are packages");
    packages
        .iter()
        .map(|package| {
            let all = package["dependencies"].as_array().expect("there are dependencies");
            let normal = all.iter().filter(|dependency| dependency["kind"].is_null());
            (text(&package["name"]), normal.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

/// The crates that get time, randomness, files and connections by handle.
const BY_HANDLE: &[&str] = &[
    "jid",
    "xml",
    "sasl",
    "stream",
    "client",
    "fanout",
    "hub",
    "federation",
    "modkit",
    "archive",
    "rooms",
    "pubsub",
    "operations",
    "modules",
];

#[test]
fn the_protocol_crates_forbid_themselves_clocks_files_and_chance() {
    let line = "#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]";
    for name in BY_HANDLE {
        let head = format!("{}/../crates/{name}/src/lib.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&head).unwrap_or_else(|error| panic!("{head}: {error}"));
        assert!(text.lines().any(|found| found == line), "{head} lacks {line}");
    }
}
