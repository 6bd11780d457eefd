//! Tests the order across lanes, without threads: each test plays the workers.

use super::*;
use crate::sql::lanes::Lanes;
use crate::sql::operation::{StoreAccess, operation};

#[test]
fn what_many_have_a_part_in_keeps_its_place_with_each() {
    let queues = queues(2, None);
    let (lanes, [zero, one]) = owners(2);
    push(&queues, lanes.owner(&one), 1);
    push(&queues, lanes.write_of([zero.as_str(), one.as_str()].into_iter()), 2);
    push(&queues, lanes.owner(&one), 3);
    push(&queues, lanes.owner(&zero), 4);
    assert_eq!(took(&queues, 0), None, "it waits for the other lane");
    assert_eq!(took(&queues, 1), Some(1));
    assert_eq!(took(&queues, 0), None, "that isn't done yet");
    assert_eq!(finish_and_take(&queues, 1), None, "what is behind it waits");
    assert_eq!(took(&queues, 0), Some(2));
    assert_eq!(finish_and_take(&queues, 1), None, "until it is done");
    assert_eq!(finish_and_take(&queues, 0), Some(4));
    assert_eq!(finish_and_take(&queues, 1), Some(3));
}

#[test]
fn archives_come_behind_their_owners_and_hold_nobody_up() {
    let queues = queues(4, None);
    let lanes = Lanes::new(2, true, true);
    push(&queues, lanes.owner("romeo"), 1);
    push(&queues, lanes.archive(["romeo"].into_iter()), 2);
    push(&queues, lanes.page("romeo"), 3);
    push(&queues, lanes.list(), 4);
    push(&queues, lanes.owner("romeo"), 5);
    let own = lanes.owner("romeo").on;
    assert_eq!((took(&queues, 2), took(&queues, 3)), (None, Some(4)), "a list waits for nothing");
    assert_eq!(took(&queues, own), Some(1));
    assert_eq!(finish_and_take(&queues, own), Some(5), "it waits for no archive");
    assert_eq!((took(&queues, 2), took(&queues, 3)), (Some(2), None));
    assert_eq!(finish_and_take(&queues, 2), None);
    assert_eq!((took(&queues, 3), took(&queues, 3)), (Some(3), None));
}

#[test]
fn a_page_waits_for_its_owner_and_for_nobody_else() {
    let queues = queues(4, None);
    let lanes = Lanes::new(2, true, true);
    let append = |owners: &[&'static str]| lanes.archive(owners.iter().copied());
    push(&queues, append(&["romeo", "juliet"]), 1);
    push(&queues, lanes.page("romeo"), 2);
    push(&queues, append(&["nurse"]), 3);
    push(&queues, lanes.page("nurse"), 4);
    push(&queues, lanes.page("tybalt"), 5);
    push(&queues, lanes.page("nurse"), 6);
    assert_eq!((took(&queues, 3), took(&queues, 3)), (Some(5), None), "nothing is written for tybalt");
    assert_eq!(took(&queues, 2), Some(1));
    assert_eq!(finish_and_take(&queues, 2), Some(3));
    assert_eq!((took(&queues, 3), took(&queues, 3)), (Some(2), None), "nurse's is not done yet");
    push(&queues, append(&["romeo"]), 7);
    push(&queues, lanes.page("romeo"), 8);
    assert_eq!(finish_and_take(&queues, 2), Some(7));
    assert_eq!((took(&queues, 3), took(&queues, 3), took(&queues, 3)), (Some(4), Some(6), None), "in their order");
    assert_eq!(finish_and_take(&queues, 2), None);
    assert_eq!(took(&queues, 3), Some(8));
}

#[test]
fn owners_whose_writes_are_done_are_forgotten() {
    let queues = queues(4, None);
    let lanes = Lanes::new(2, true, true);
    for number in 0..20_000 {
        push(&queues, lanes.archive([format!("user{number}").as_str()].into_iter()), number);
        assert_eq!(if number == 0 { took(&queues, 2) } else { finish_and_take(&queues, 2) }, Some(number));
    }
    assert!(queues.state().last.of.len() <= 2 * LEAST_TIDIED);
}

#[test]
fn what_is_removed_for_everybody_runs_alone() {
    let queues = queues(3, None);
    let lanes = Lanes::new(2, true, false);
    let (_, [zero, one]) = owners(2);
    push(&queues, lanes.owner(&zero), 1);
    push(&queues, lanes.everybody(), 2);
    push(&queues, lanes.owner(&zero), 3);
    push(&queues, lanes.owner(&one), 4);
    assert_eq!((took(&queues, 0), took(&queues, 1), took(&queues, 2)), (Some(1), None, None));
    assert_eq!(finish_and_take(&queues, 0), None);
    assert_eq!(took(&queues, 2), Some(2));
    assert_eq!((finish_and_take(&queues, 0), finish_and_take(&queues, 1)), (None, None));
    assert_eq!(finish_and_take(&queues, 2), None);
    assert_eq!((finish_and_take(&queues, 0), finish_and_take(&queues, 1)), (Some(3), Some(4)));
}

#[test]
fn what_waits_for_too_long_holds_nobody_up_any_more() {
    let (login, other) = (Duration::from_secs(20), Duration::from_secs(10));
    let patience = Patience { login, other, ..Patience::default() };
    let queues = queues(2, Some(patience));
    let (lanes, [zero, one]) = owners(2);
    push(&queues, lanes.owner(&zero), 1);
    push(&queues, lanes.write_of([zero.as_str(), one.as_str()].into_iter()), 2);
    push(&queues, lanes.login(&one), 3);
    assert_eq!(took(&queues, 0), Some(1), "and it hangs");
    let start = Instant::now();
    assert_eq!(queues.overdue(start).len(), 0);
    assert_eq!(queues.overdue(start + Duration::from_secs(11)).len(), 1);
    assert_eq!(finish_and_take(&queues, 1), None, "the lane that hangs may still be at what was in front");
    assert_eq!(finish_and_take(&queues, 0), None);
    assert_eq!(finish_and_take(&queues, 1), Some(3), "a login may wait for longer");
}

#[test]
fn a_lane_that_hangs_takes_only_its_share() {
    let bounds = QueueBounds { operations: 100, bytes: usize::MAX };
    let queues = Queues::new(10, bounds, None);
    let lanes = Lanes::new(10, false, false);
    let names: Vec<_> = (0..40).map(|n| n.to_string()).collect();
    let busy = |name: &str| {
        let (operation, _) = operation(StoreAccess::Read, |_| Ok(()));
        queues.push(lanes.owner(name), 0, operation).is_err()
    };
    let taken = std::iter::repeat_with(|| busy(&names[0])).take_while(|is_busy| !is_busy).count();
    assert_eq!(taken, 40, "four times its share");
    let other = names.iter().find(|name| lanes.owner(name) != lanes.owner(&names[0])).expect("another lane");
    assert!(!busy(other));
    while names.iter().any(|name| !busy(name)) {}
    assert!(busy(other), "all together have their bound, too");
}

fn queues(lanes: usize, patience: Option<Patience>) -> Queues {
    Queues::new(lanes, QueueBounds::default(), patience)
}

/// Returns lanes, and an owner for each of the first two.
fn owners(lanes: usize) -> (Lanes, [String; 2]) {
    let lanes = Lanes::new(lanes, false, false);
    let of = |lane| (0..).map(|n: u32| n.to_string()).find(|name| lanes.owner(name).on == lane).expect("an owner");
    (lanes, [of(0), of(1)])
}

/// Queues an operation that is identified by the bytes that it carries.
fn push(queues: &Queues, route: LaneRoute, bytes: usize) {
    let (operation, _) = operation(StoreAccess::Write, |_| Ok(()));
    assert!(queues.push(route, bytes, operation).is_ok());
}

fn took(queues: &Queues, lane: usize) -> Option<usize> {
    queues.take(lane).map(|queued| queued.bytes)
}

/// Reports that a lane has done everything that it took, and takes its next operation.
fn finish_and_take(queues: &Queues, lane: usize) -> Option<usize> {
    match queues.wait(lane, Some(Duration::ZERO)) {
        Next::Operation(queued) => Some(queued.bytes),
        Next::Nothing | Next::Closed => None,
    }
}
