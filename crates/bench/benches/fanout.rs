//! Measures the cost of one more recipient of a packet: `cargo bench -p rookery-bench --bench
//! fanout`.
//!
//! The figures are per packet; divan's `item/s` column counts recipients. Nothing may be allocated
//! or formatted per recipient.

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use rookery_bench::chat;
use rookery_bench::network::{DOMAIN, Parts};
use rookery_fanout::{Link, Outboxes, Packet, PushOutcome, To};
use rookery_hub::{Event, World};
use rookery_jid::Jid;
use rookery_xml::{Limits, Stanza};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const RECIPIENTS: [u32; 3] = [10, 1_000, 10_000];

/// Measures queueing, rendering and forgetting for known links, as for a room or a pubsub node.
#[divan::bench(args = RECIPIENTS)]
fn links(bencher: Bencher<'_, '_>, recipients: u32) {
    let (mut outboxes, packet, mut out) = (outboxes(recipients), packet(), Vec::with_capacity(1 << 16));
    bencher.counter(ItemsCount::new(recipients)).bench_local(|| {
        push(&mut outboxes, &packet, recipients);
        flush(&mut outboxes, &mut out);
    });
}

/// Measures the first half of that: a copy into each outbox. Emptying the outboxes isn't measured,
/// so each queue grows from empty, which is included.
#[divan::bench(args = RECIPIENTS)]
fn push_only(bencher: Bencher<'_, '_>, recipients: u32) {
    let packet = packet();
    bencher.counter(ItemsCount::new(recipients)).with_inputs(|| outboxes(recipients)).bench_local_values(
        |mut outboxes| {
            push(&mut outboxes, &packet, recipients);
            outboxes
        },
    );
}

/// Measures eight packets for each link before one flush, as in a busy room. The figures are per
/// copy.
#[divan::bench(args = RECIPIENTS)]
fn links_8_packets(bencher: Bencher<'_, '_>, recipients: u32) {
    let (mut outboxes, packet, mut out) = (outboxes(recipients), packet(), Vec::with_capacity(1 << 16));
    bencher.counter(ItemsCount::new(8 * recipients)).bench_local(|| {
        for _ in 0..8 {
            push(&mut outboxes, &packet, recipients);
        }
        flush(&mut outboxes, &mut out);
    });
}

/// Measures the presence of an account for its contacts on the same shard: scan, audience, look-up
/// of each contact, queue, render.
#[divan::bench(args = RECIPIENTS)]
fn presence(bencher: Bencher<'_, '_>, recipients: u32) {
    let (mut world, mut out) = (world_of(recipients), Vec::with_capacity(1 << 16));
    bencher.counter(ItemsCount::new(recipients)).bench_local(|| {
        give(&mut world, Link(0), black_box(chat::PRESENCE));
        flush(&mut world.outboxes, &mut out);
    });
}

/// Returns a world with account 0, which has all others as its contacts, all of them available.
fn world_of(contacts: u32) -> World {
    let few = Parts::new(0, 0).expect("a thread");
    let all = Parts::new(contacts as usize + 1, contacts as usize).expect("a thread");
    let mut world = few.world(0, 1);
    let mut out = Vec::new();
    for number in (0..=contacts).rev() {
        if number == 0 {
            // Only this roster is needed: with all the others, this world would take longer to make
            // than to measure.
            world.stores.rosters = all.stores.rosters.clone();
        }
        let account = Jid::parse(&chat::account(number as usize, DOMAIN)).expect("an address");
        world.bind(Link(number), &account, Some("bench"));
        while world.run_tasks() {}
        assert!(matches!(world.next_event(), Some(Event::Bound(_, Ok(_)))));
        give(&mut world, Link(number), chat::PRESENCE);
        while world.run_tasks() {}
        flush(&mut world.outboxes, &mut out);
    }
    world
}

fn give(world: &mut World, link: Link, text: &str) {
    let stanza = Stanza::parse(text.as_bytes(), &Limits::AFTER_LOGIN).expect("a stanza");
    _ = world.stanza(link, stanza);
}

fn outboxes(recipients: u32) -> Outboxes {
    let mut outboxes = Outboxes::new(rookery_fanout::OutboxLimits::default());
    for number in 0..recipients {
        let jid = Jid::parse(&(chat::account(number as usize, DOMAIN) + "/bench")).expect("an address");
        outboxes.open(Link(number), jid);
    }
    outboxes
}

fn packet() -> Packet {
    let text = chat::message("room@conference.example.org/someone", "x@example.org/y");
    Packet::from_bytes(text.as_bytes()).expect("a stanza")
}

fn push(outboxes: &mut Outboxes, packet: &Packet, recipients: u32) {
    for number in 0..recipients {
        assert_eq!(outboxes.push(Link(number), black_box(packet), To::Full), PushOutcome::Queued);
    }
}

fn flush(outboxes: &mut Outboxes, out: &mut Vec<u8>) {
    let dirty = outboxes.take_dirty();
    for &link in &dirty {
        out.clear();
        outboxes.render(link, 65_536, out);
        outboxes.remove_sent(link, out.len());
        black_box(&*out);
    }
    outboxes.recycle(dirty);
}
