//! Tests the scanner against an independent parser, over damaged stanzas.
//!
//! Forwarding raw bytes is only right if everything that the scanner accepts is XML to everybody
//! else. Reading the scanner doesn't show that; this does: seeds with one to three random edits,
//! each case judged by both. A case is a number, so a failure can be repeated.
//! `ROOKERY_DIFFERENTIAL_CASES` sets their number.
//!
//! Each case is also scanned in pieces, which has to give the same result, and what the scanner
//! and the tree reader report of an accepted stanza is compared with what the other parser saw.

mod edits;
mod oracle;
mod random;
mod seeds;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use oracle::OracleVerdict;
use random::DifferentialRandom;
use rookery_xml::{Element, Fault, Kind, Limits, Scan, Scanner, Stanza, Writer, ns};

/// The verdicts of the two judges, counted.
#[derive(Default)]
struct DifferentialCounts {
    both_accept: AtomicU64,
    both_refuse: AtomicU64,
    stricter: AtomicU64,
    unfinished: AtomicU64,
    rare: AtomicU64,
}

#[test]
fn nothing_is_accepted_that_another_parser_refuses() {
    let cases = std::env::var("ROOKERY_DIFFERENTIAL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let seeds = seeds::all();
    let counts = DifferentialCounts::default();
    thread::scope(|scope| {
        for first in 0..threads {
            let (seeds, counts) = (&seeds, &counts);
            scope.spawn(move || {
                for case in (first..cases).step_by(threads as usize) {
                    judge(case, seeds, counts);
                }
            });
        }
    });
    let DifferentialCounts { both_accept, both_refuse, stricter, unfinished, rare } = counts;
    let [both_accept, both_refuse, stricter, unfinished, rare] =
        [both_accept, both_refuse, stricter, unfinished, rare].map(AtomicU64::into_inner);
    println!(
        "{cases} cases: {both_accept} accepted by both, {both_refuse} refused by both, {stricter} refused by the \
         scanner alone, {unfinished} unfinished, {rare} with undeclared prefixes, 0 accepted by the scanner alone"
    );
    // A test that accepts or refuses nearly everything proves nothing.
    assert!(both_accept > cases / 50 && both_refuse > cases / 4, "the edits are too mild or too rough");
}

fn judge(case: u64, seeds: &[Vec<u8>], counts: &DifferentialCounts) {
    let mut random = DifferentialRandom::new(case);
    let bytes = edits::damage(&mut random, seeds);
    let mut scanner = Scanner::new();
    let answer = scanner.scan(&bytes, &Limits::AFTER_LOGIN);
    let split = random.below(bytes.len() + 1);
    assert_eq!(in_pieces(&bytes, &[split]), answer, "case {case}, split at {split}: {}", show(&bytes));
    let count = match answer {
        Ok(Scan::Stanza(len)) => {
            match oracle::read(&bytes[..len]) {
                OracleVerdict::Element(seen) => compare(&scanner.stanza(&bytes), &seen, case),
                OracleVerdict::Refused(reason) => panic!("case {case}: {reason} in {}", show(&bytes[..len])),
            }
            &counts.both_accept
        }
        Ok(Scan::Rare(len)) => {
            assert!(!matches!(oracle::read(&bytes[..len]), OracleVerdict::Element(_)), "case {case}: {}", show(&bytes));
            &counts.rare
        }
        Ok(Scan::Partial) => &counts.unfinished,
        Ok(Scan::Space(_) | Scan::Close(_)) => &counts.both_refuse,
        Err(fault) => match oracle::first_element(&bytes) {
            OracleVerdict::Element(_) => {
                assert!(is_deliberate(fault, &bytes), "case {case}: {fault:?} in {}", show(&bytes));
                &counts.stricter
            }
            OracleVerdict::Refused(_) => &counts.both_refuse,
        },
    };
    count.fetch_add(1, Ordering::Relaxed);
}

/// Returns whether the scanner refuses this deliberately though the other parser doesn't.
fn is_deliberate(fault: Fault, bytes: &[u8]) -> bool {
    let has = |part: &str| bytes.windows(part.len()).any(|window| window == part.as_bytes());
    let default_declarations =
        bytes.windows(6).filter(|window| window.starts_with(b"xmlns") && window[5] != b':').count();
    match fault {
        // Character data between stanzas, elements in the namespace of `xml`, and a raw carriage
        // return in an attribute are refused by choice. The other parser overlooks a prefix that is
        // bound to the namespace of `xmlns`, and an `xmlns` that is set twice.
        Fault::NotWellFormed if bytes.starts_with(b"<![") || has("<xml:") => true,
        Fault::NotWellFormed => has("\r") || has("www.w3.org/2000/xmlns/") || default_declarations > 1,
        _ => false,
    }
}

/// Compares what the scanner, the tree reader and the writer make of an accepted stanza with the
/// other parser's tree.
fn compare(stanza: &Stanza<'_>, seen: &Element, case: u64) {
    let context = || format!("case {case}: {}", show(stanza.bytes()));
    assert_eq!((stanza.name(), &*stanza.ns()), (seen.name(), seen.ns()), "{}", context());
    let attributes = [
        ("to", stanza.to()),
        ("from", stanza.from()),
        ("id", stanza.id()),
        ("type", stanza.type_()),
        ("xml:lang", stanza.lang()),
    ];
    for (name, value) in attributes {
        assert_eq!(value.as_deref(), seen.attr(name), "{name}, {}", context());
    }
    let kind = match seen.name() {
        "message" => Kind::Message,
        "presence" => Kind::Presence,
        "iq" => Kind::Iq,
        _ => Kind::Other,
    };
    assert_eq!(stanza.kind(), if ns::is_content(seen.ns()) { kind } else { Kind::Other }, "{}", context());
    let first = stanza.first_child();
    let first = first.as_ref().map(|child| (child.name(), child.ns()));
    let seen_first = seen.children().next();
    assert_eq!(first, seen_first.map(|child| (child.name(), child.ns().into())), "{}", context());
    assert_eq!(stanza.has_body(), seen.child("body", seen.ns()).is_some(), "{}", context());

    if stanza.bytes().windows(2).any(|pair| pair == b"]\r") {
        // The other parser forgets to normalise a carriage return after a bracket in CDATA.
        return;
    }
    assert!(oracle::same(&Element::read(stanza), seen), "{}", context());
    assert_eq!(stanza.children().count(), seen.children().count(), "{}", context());
    for (child, seen) in stanza.children().zip(seen.children()) {
        assert!(oracle::same(&child.element(), seen), "child {child:?}, {}", context());
    }
    if case.is_multiple_of(4) {
        check_rewritten(stanza, seen, &context);
    }
}

/// Checks that everything made from an accepted stanza is valid, too, and means what it should.
fn check_rewritten(stanza: &Stanza<'_>, seen: &Element, context: &dyn Fn() -> String) {
    let read_back = |bytes: &[u8]| match oracle::read(bytes) {
        OracleVerdict::Element(element) => {
            let scanned = Element::parse(bytes);
            assert!(scanned.is_ok_and(|scanned| oracle::same(&scanned, &element)), "{}, {}", show(bytes), context());
            element
        }
        OracleVerdict::Refused(reason) => panic!("{reason} in {}, {}", show(bytes), context()),
    };
    assert!(oracle::same(&read_back(Writer::write(seen).bytes()), seen), "{}", context());

    let mut copied = Writer::with_ns("copied", "urn:elsewhere");
    for child in stanza.children() {
        copied.copy(&child);
    }
    let copied = read_back(copied.finish().bytes());
    for (copy, child) in copied.children().zip(seen.children()) {
        assert!(oracle::same(copy, child), "{copy:?}, {}", context());
    }

    // The canonical form names no content namespace, so only a stanza that is in one means the same
    // afterwards.
    if ns::is_content(seen.ns()) {
        let canonical = stanza.canonical(Some("a'b@c.example/<&>"), None);
        let mut expected = seen.clone();
        expected.remove_attr("to");
        expected.set_attr("from", "a'b@c.example/<&>");
        assert!(oracle::same(&read_back(canonical.bytes()), &expected), "{}", context());
    }

    let mut delay = Writer::with_ns("delay", ns::DELAY);
    delay.attr("stamp", "2026-01-01T00:00:00Z");
    let delayed = read_back(stanza.with_child(&delay.finish()).bytes());
    assert_eq!(delayed.children().count(), seen.children().count() + 1, "{}", context());
    assert!(delayed.children().last().is_some_and(|child| child.is("delay", ns::DELAY)), "{}", context());
}

#[test]
fn any_split_gives_the_same_answer() {
    let mut inputs = seeds::all();
    let seeds = inputs.clone();
    inputs.extend((0..300).map(|case| edits::damage(&mut DifferentialRandom::new(1 << 40 | case), &seeds)));
    for bytes in inputs {
        let whole = Scanner::new().scan(&bytes, &Limits::AFTER_LOGIN);
        for split in 0..=bytes.len() {
            assert_eq!(in_pieces(&bytes, &[split]), whole, "split at {split}: {}", show(&bytes));
        }
        let drops: Vec<usize> = (0..=bytes.len()).collect();
        assert_eq!(in_pieces(&bytes, &drops), whole, "in drops: {}", show(&bytes));
    }
}

#[test]
fn the_view_is_the_same_however_the_bytes_came() {
    for bytes in seeds::all() {
        let mut whole = Scanner::new();
        assert_eq!(whole.scan(&bytes, &Limits::AFTER_LOGIN), Ok(Scan::Stanza(bytes.len())), "{}", show(&bytes));
        let mut drops = Scanner::new();
        for end in 1..=bytes.len() {
            assert!(drops.scan(&bytes[..end], &Limits::AFTER_LOGIN).is_ok());
        }
        let (whole, drops) = (whole.stanza(&bytes), drops.stanza(&bytes));
        assert_eq!(whole.head(), drops.head());
        assert_eq!(whole.insert_point(), drops.insert_point());
        assert_eq!(whole.raw_id(), drops.raw_id());
        match oracle::read(&bytes) {
            OracleVerdict::Element(seen) => compare(&drops, &seen, 0),
            OracleVerdict::Refused(reason) => panic!("{reason} in {}", show(&bytes)),
        }
    }
}

/// Returns the result when the bytes come in pieces that end at these places, and then all of them.
fn in_pieces(bytes: &[u8], ends: &[usize]) -> Result<Scan, Fault> {
    let mut scanner = Scanner::new();
    for &end in ends {
        match scanner.scan(&bytes[..end], &Limits::AFTER_LOGIN) {
            Ok(Scan::Partial) => {}
            // White space is reported as far as it has arrived.
            Ok(Scan::Space(_)) => break,
            answer => return answer,
        }
    }
    scanner.scan(bytes, &Limits::AFTER_LOGIN)
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
