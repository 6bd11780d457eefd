//! Measures user-space time and allocations of one routed chat stanza: `cargo bench -p
//! rookery-bench --bench route`.
//!
//! The steps are scanning, look-up, stamping, queueing and rendering. The kernel's part, which is
//! many times more, is in `sockets`.

use std::sync::Arc;

use divan::{AllocProfiler, Bencher, black_box};
use rookery_bench::engine::LoadTarget;
use rookery_bench::network::{BenchNetwork, DOMAIN, PASSWORD, Parts};
use rookery_bench::{BenchOutcome, chat};
use rookery_client::SessionTerms;
use rookery_fanout::Link;
use rookery_hub::{Event, World};
use rookery_jid::Jid;
use rookery_sasl::Mechanism;
use rookery_sasl::client::SaltedPasswords;
use rookery_stream::tls::client::{ClientSettings, Newest};
use rookery_xml::{Limits, Scan, Scanner};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Measures a message to the full JID of another account on the same shard.
#[divan::bench(sample_size = 64)]
fn to_full_jid(bencher: Bencher<'_, '_>) {
    same_shard(bencher, "/bench");
}

/// Measures a message to the bare JID of an account with one resource.
#[divan::bench(sample_size = 64)]
fn to_bare_jid(bencher: Bencher<'_, '_>) {
    same_shard(bencher, "");
}

fn same_shard(bencher: Bencher<'_, '_>, to: &str) {
    let mut world = world(0, 1);
    bind(&mut world, Link(0), 1);
    bind(&mut world, Link(1), 2);
    let stanza = message(to);
    let (mut scanner, mut out) = (Scanner::new(), Vec::new());
    bencher.bench_local(|| {
        give(&mut world, &mut scanner, black_box(stanza.as_bytes()));
        flush(&mut world, &mut out)
    });
}

/// Measures a message to an account whose home is another shard: the work of both shards, without
/// the mailbox between them.
#[divan::bench(sample_size = 64)]
fn to_another_shard(bencher: Bencher<'_, '_>) {
    let (mut here, mut there) = (world(0, 2), world(1, 2));
    let numbered = |number| Jid::parse(&chat::account(number, DOMAIN)).expect("an address");
    let at = |world: &World, number| world.home_of(numbered(number).as_ref());
    let own = (0..).find(|number| at(&here, *number) == 0).expect("a number");
    let other = (0..).find(|number| at(&here, *number) == 1).expect("a number");
    bind(&mut here, Link(0), own);
    bind(&mut there, Link(0), other);
    let from = chat::account(own, DOMAIN) + "/bench";
    let stanza = chat::message(&from, &(chat::account(other, DOMAIN) + "/bench"));
    let (mut scanner, mut out) = (Scanner::new(), Vec::new());
    bencher.bench_local(|| {
        give(&mut here, &mut scanner, black_box(stanza.as_bytes()));
        for mail in here.take_mail(1) {
            there.mail(mail);
        }
        flush(&mut there, &mut out)
    });
}

/// Measures a whole tick of a shard that handles one message: `to_full_jid`, with the two
/// connections in addition.
#[divan::bench(args = [1, 8, 64])]
fn tick(bencher: Bencher<'_, '_>, messages: usize) {
    ticks(bencher, messages, None);
}

/// Measures such ticks with TLS on both sides.
#[divan::bench(args = [1, 8, 64])]
fn tick_tls(bencher: Bencher<'_, '_>, messages: usize) {
    let tls = ClientSettings::trusting_anyone(Newest::Tls13, &[], false).expect("settings");
    ticks(bencher, messages, Some(tls));
}

/// Measures ticks in which `messages` connections get a message each, from as many others.
fn ticks(bencher: Bencher<'_, '_>, messages: usize, tls: Option<ClientSettings>) {
    let parts = Parts::new(1000, 0).expect("a thread");
    let target = LoadTarget {
        transport: rookery_bench::engine::Transport::Tcp,
        terms: Arc::new(SessionTerms {
            domain: DOMAIN.to_owned(),
            tls,
            mechanism: Some(Mechanism::ScramSha1),
            password: PASSWORD.to_owned(),
            resource: Some("bench".to_owned()),
            register: false,
            cache: SaltedPasswords::new(),
        }),
    };
    let mut network = BenchNetwork::new(&parts, target).expect("a network");
    let mut clients = network.log_in_and_keep(2 * messages, chat::PRESENCE).expect("logins");
    let jid = |number: u32| chat::account(number as usize, DOMAIN) + "/bench";
    let plain: Vec<String> =
        (0..messages).map(|at| chat::message(&jid(2 * at as u32), &jid(2 * at as u32 + 1))).collect();
    let (mut wire, sockets) = (Vec::new(), (0..2 * messages as u32).collect::<Vec<_>>());
    let network = std::cell::RefCell::new(&mut network);
    bencher
        .with_inputs(|| {
            let mut network = network.borrow_mut();
            for socket in &sockets {
                network.receive(*socket);
            }
            for (at, plain) in plain.iter().enumerate() {
                wire.clear();
                let (socket, client) = &mut clients[2 * at];
                client.write(plain.as_bytes(), &mut wire).expect("a bound stream");
                network.send(*socket, &wire);
            }
        })
        .bench_local_values(|()| network.borrow_mut().tick(sockets.iter().step_by(2).copied()));
    let mut network = network.borrow_mut();
    assert!(network.receive(1) >= chat::BYTES, "the message has arrived");
}

fn world(shard: usize, shards: usize) -> World {
    let parts = || -> BenchOutcome<Parts> { Parts::new(1000, 0) };
    parts().expect("a thread").world(shard, shards)
}

fn bind(world: &mut World, link: Link, number: usize) {
    let account = Jid::parse(&chat::account(number, DOMAIN)).expect("an address");
    world.bind(link, &account, Some("bench"));
    while world.run_tasks() {}
    assert!(matches!(world.next_event(), Some(Event::Bound(_, Ok(_)))));
    give_to(world, link, &mut Scanner::new(), chat::PRESENCE.as_bytes());
    while world.run_tasks() {}
    while world.next_event().is_some() {}
    flush(world, &mut Vec::new());
}

fn message(to: &str) -> String {
    let (from, other) = (chat::account(1, DOMAIN) + "/bench", chat::account(2, DOMAIN) + to);
    let message = chat::message(&from, &other);
    assert_eq!(message.len(), chat::BYTES);
    message
}

fn give(world: &mut World, scanner: &mut Scanner, bytes: &[u8]) {
    give_to(world, Link(0), scanner, bytes);
}

fn give_to(world: &mut World, link: Link, scanner: &mut Scanner, bytes: &[u8]) {
    match scanner.scan(bytes, &Limits::AFTER_LOGIN) {
        Ok(Scan::Stanza(_)) => _ = world.stanza(link, scanner.stanza(bytes)),
        other => panic!("{other:?}"),
    }
    scanner.reset();
}

fn flush(world: &mut World, out: &mut Vec<u8>) -> usize {
    out.clear();
    let dirty = world.outboxes.take_dirty();
    for &link in &dirty {
        let before = out.len();
        world.outboxes.render(link, 65_536, out);
        world.outboxes.remove_sent(link, out.len() - before);
    }
    world.outboxes.recycle(dirty);
    out.len()
}
