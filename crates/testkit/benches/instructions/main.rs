//! Instructions of the hot functions, counted by valgrind's callgrind: `.ci/instructions` runs this
//! and compares the counts with the table in `crates/testkit/benches/instructions/counts.txt`.
//!
//! A count is the same on a busy machine and on an idle one, so it can guard a commit where a time
//! can't. Each count covers a whole piece of work (one settling of a server, a thousand copies),
//! long enough that two per cent of it are many instructions. Each piece checks its result after
//! the count, since a server that refuses the stanzas would be fast.
//!
//! # Layout
//!
//! * [`scene`]: servers of the test kit, up to the moment at which the count begins, and the
//!   stanzas that must arrive.
//! * [`outboxes`]: copies without a server. [`tls`]: an encrypted connection.

#![allow(missing_docs, reason = "the macros make public items")]

mod outboxes;
mod scene;
mod tls;

use std::hint::black_box;

use gungraun::{Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use rookery_xml::{Limits, Scan, Scanner};

use outboxes::Copies;
use scene::Scene;
use tls::Encrypted;

// Scans the same stanza many times, as if the copies followed one another in a buffer.
#[library_benchmark]
#[bench::scan(scene::message("juliet@example.org/bench", "romeo@example.org/bench"))]
fn scanner(text: String) -> usize {
    let mut scanner = Scanner::new();
    let mut bytes = 0;
    for _ in 0..scene::MESSAGES {
        match scanner.scan(black_box(text.as_bytes()), &Limits::AFTER_LOGIN) {
            Ok(Scan::Stanza(len)) => bytes += len,
            other => panic!("{other:?}"),
        }
        scanner.reset();
    }
    bytes
}

// Makes a server process its clients' input: sockets are read, stanzas routed, copies written.
#[library_benchmark]
#[bench::route_to_a_full_jid(args = (scene::chat("/bench")), teardown = Scene::check)]
#[bench::route_beside_a_trace(args = (scene::beside_a_trace()), teardown = Scene::check)]
#[bench::route_to_a_bare_jid(args = (scene::chat("")), teardown = Scene::check)]
#[bench::presence_to_a_contact(args = (scene::presence()), teardown = Scene::check)]
#[bench::room_copy(args = (scene::room()), teardown = Scene::check)]
#[bench::multicast_address(args = (scene::multicast()), teardown = Scene::check)]
#[bench::roster_push(args = (scene::roster()), teardown = Scene::check)]
#[bench::archive_row(args = (scene::archive()), teardown = Scene::check)]
fn settle(scene: Scene) -> Scene {
    scene.server.settle();
    scene
}

// Queues one packet for many recipients.
#[library_benchmark]
#[bench::one_more_recipient(args = (Copies::none()), teardown = Copies::check_queued)]
fn push(mut copies: Copies) -> Copies {
    copies.push();
    copies
}

// Renders the queued copies for many recipients.
#[library_benchmark]
#[bench::render(args = (Copies::with_queue()), teardown = Copies::check_rendered)]
fn render(mut copies: Copies) -> Copies {
    copies.render();
    copies
}

// Encrypts messages, one record each.
#[library_benchmark]
#[bench::encrypted_write(args = (Encrypted::open()), teardown = Encrypted::check)]
fn encrypt(mut connection: Encrypted) -> Encrypted {
    connection.write();
    connection
}

library_benchmark_group!(name = hot, benchmarks = [scanner, settle, push, render, encrypt]);
main!(
    // Cache simulation is off, since caches differ between machines.
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = hot
);
