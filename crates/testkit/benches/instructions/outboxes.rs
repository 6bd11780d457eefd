//! Copies of one packet for many links, without a server around them.

use std::hint::black_box;

use rookery_fanout::{Link, OutboxLimits, Outboxes, Packet, PushOutcome, To};
use rookery_jid::Jid;

use crate::scene;

/// The number of the packet's recipients.
const RECIPIENTS: u32 = 1000;

/// Outboxes and a packet for all of them.
pub struct Copies {
    outboxes: Outboxes,
    packet: Packet,
    out: Vec<u8>,
    rendered: usize,
}

impl Copies {
    /// Returns empty outboxes.
    pub fn none() -> Self {
        let mut copies = Self {
            outboxes: Outboxes::new(OutboxLimits::default()),
            packet: packet(),
            out: Vec::with_capacity(1 << 16),
            rendered: 0,
        };
        for number in 0..RECIPIENTS {
            let address = scene::account(number as usize) + "/bench";
            copies.outboxes.open(Link(number), Jid::parse(&address).expect("an address"));
        }
        // After this, the lists of the outboxes have the capacity that those of older sessions
        // have.
        copies.push();
        copies.render();
        copies.rendered = 0;
        copies
    }

    /// Returns outboxes in which a copy waits for each recipient.
    pub fn with_queue() -> Self {
        let mut copies = Self::none();
        copies.push();
        copies
    }

    /// Queues a copy for each recipient.
    pub fn push(&mut self) {
        for number in 0..RECIPIENTS {
            assert_eq!(self.outboxes.push(Link(number), black_box(&self.packet), To::Full), PushOutcome::Queued);
        }
    }

    /// Renders the waiting copies, and counts them as written.
    pub fn render(&mut self) {
        let dirty = self.outboxes.take_dirty();
        for &link in &dirty {
            self.out.clear();
            self.outboxes.render(link, 65_536, &mut self.out);
            self.outboxes.remove_sent(link, self.out.len());
            self.rendered += black_box(&self.out).len();
        }
        self.outboxes.recycle(dirty);
    }

    /// Panics unless a copy waits for every recipient.
    pub fn check_queued(self) {
        assert!((0..RECIPIENTS).all(|number| self.outboxes.has_waiting(Link(number))), "a copy for everybody");
    }

    /// Panics if a copy still waits, or if the bytes are not those of all copies.
    pub fn check_rendered(self) {
        assert!((0..RECIPIENTS).all(|number| !self.outboxes.has_waiting(Link(number))), "nothing waits");
        assert!(self.rendered > scene::BYTES * RECIPIENTS as usize, "{} bytes", self.rendered);
    }
}

fn packet() -> Packet {
    let text = scene::message("room@conference.example.org/someone", "x@example.org/y");
    Packet::from_bytes(text.as_bytes()).expect("a stanza")
}
