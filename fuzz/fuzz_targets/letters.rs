//! Entries between nodes: any bytes are an entry or refused, whatever a courier knows, and an entry
//! that was read reads the same once it is written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_cluster::courier::Courier;
use rookery_cluster::wire::{self, NodeProcess};

fuzz_target!(|bytes: &[u8]| {
    let Ok((header, letters)) = wire::read(bytes) else { return };
    let mut written = Vec::new();
    wire::begin(&header, &mut written);
    letters.iter().for_each(|letter| wire::push(letter, &mut written));
    assert_eq!(wire::read(&written), Ok((header, letters)));
    let mut courier = Courier::<()>::new(NodeProcess { node: 1, incarnation: 1 });
    courier.meet(header.from, 2);
    _ = courier.arrived(bytes).expect("an entry");
});
