//! Tests that a shard that panics ends the process at once. Such a process is a child: this test
//! program itself, whose environment tells it to play that part.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rookery_base::AddressHash;
use rookery_fanout::View;
use rookery_hub::{Registry, Settings};
use rookery_sasl::server::Decoy;
use rookery_shard::{Generation, LoginTerms, ShardThreads, Start, SystemInterface, start};
use rookery_store::Background;
use rookery_store::memory::Memory;
use rookery_stream::bosh::Terms;
use rookery_stream::c2s::Policy;
use rookery_xml::Limits;

/// The variable that tells the child its part.
const CHILD: &str = "ROOKERY_TEST_OF_PANICS_CHILD";

#[test]
fn a_shard_that_panics_ends_the_process_with_its_backtrace() {
    if std::env::var_os(CHILD).is_some() {
        return panic_on_a_shard();
    }
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_shard_that_panics_ends_the_process_with_its_backtrace", "--nocapture"])
        .env(CHILD, "1")
        .env_remove("RUST_BACKTRACE")
        .output()
        .expect("the child");
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert_eq!(child.status.signal(), Some(6), "SIGABRT, not {}: {said}", child.status);
    for words in ["the thread shard 1 has panicked at", "a bug of the test", "panic_on_a_shard", "of no use without"] {
        assert!(said.contains(words), "{words:?} is not in:\n{said}");
    }
}

/// Runs two shards, of which one panics, and waits for ever: nothing but that ends the process.
fn panic_on_a_shard() {
    rookery_observe::vital::tell_panics();
    let generation = Generation {
        settings: Arc::new(Settings::default()),
        policy: Arc::new(Policy {
            hosts: Vec::new(),
            limits_before: Limits::BEFORE_LOGIN,
            limits_after: Limits::AFTER_LOGIN,
            idle_before: None,
            idle_after: None,
            mechanisms: Vec::new(),
            plain_without_tls: false,
            decoy: Decoy::new([1; 32], 4096),
            max_auth_failures: 5,
        }),
        tls: None,
        plaintext: Vec::new(),
        limits: Limits::AFTER_LOGIN,
        login_seconds: 60,
        connections_per_address: 0,
        logins: LoginTerms::default(),
        bosh: Terms::default(),
        federation: None,
    };
    let parts = Start {
        threads: ShardThreads { shards: 2, interface: SystemInterface::Auto },
        listeners: Vec::new(),
        connections: 0,
        generation: Arc::new(generation),
        stores: Memory::stores(),
        background: Background::in_place(),
        registry: Arc::new(|| Registry::new(Vec::new())),
        ids: Arc::new(|| 7),
        view: View::alone(2),
        addresses: AddressHash::of_process([1, 2, 3, 4]),
        outlet: None,
        secrets: [1, 2, 3, 4],
    };
    let running = start(parts, Vec::new());
    let running = running.expect("shards");
    running.door().run_at(1, |_| panic!("a bug of the test"));
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
