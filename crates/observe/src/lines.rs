//! The newest lines of the process's log, in memory: commands that ask the running server show them
//! where there is no journal.
//!
//! # Invariants
//!
//! - Lines take a bounded number of bytes; new ones replace the oldest.
//! - Writers of lines never wait for readers: a reader fetches the lines that it hasn't seen, with
//!   the number of lines that it has missed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The newest lines. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Lines(Arc<Mutex<LineRing>>);

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The severity: 1 for errors to 5 for traces.
    pub severity: u8,
    /// The account that the line is about, if it names one.
    pub account: Option<Box<str>>,
    /// An object of JSON.
    pub text: Box<str>,
}

/// Lines that a reader has not seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// The number of lines that the reader has missed, because they are gone.
    pub left_out: u64,
    /// The lines that are still kept, oldest first.
    pub lines: Vec<Arc<Line>>,
    /// The number of lines that were written up to the last of `lines`.
    pub seen: u64,
}

#[derive(Debug, Default)]
struct LineRing {
    lines: VecDeque<Arc<Line>>,
    bytes: usize,
    /// The number of lines that were written since the start.
    written: u64,
}

impl Lines {
    /// Adds a line.
    pub fn push(&self, line: Line) {
        let mut ring = self.lock();
        ring.bytes += cost(&line);
        ring.written += 1;
        ring.lines.push_back(Arc::new(line));
        while ring.bytes > MOST_BYTES {
            let Some(oldest) = ring.lines.pop_front() else { break };
            ring.bytes -= cost(&oldest);
        }
    }

    /// Returns how many lines were written before the oldest line that is kept.
    pub fn before(&self) -> u64 {
        let ring = self.lock();
        ring.written - ring.lines.len() as u64
    }

    /// Returns up to `most` lines, without the first `seen` lines of the log.
    pub fn after(&self, seen: u64, most: usize) -> Unseen {
        let ring = self.lock();
        let before = ring.written - ring.lines.len() as u64;
        let from = seen.clamp(before, ring.written);
        let skipped = usize::try_from(from - before).unwrap_or(usize::MAX);
        let lines: Vec<_> = ring.lines.iter().skip(skipped).take(most).cloned().collect();
        Unseen { left_out: from.saturating_sub(seen), seen: from + lines.len() as u64, lines }
    }

    fn lock(&self) -> MutexGuard<'_, LineRing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of bytes that a line takes, including its overhead.
fn cost(line: &Line) -> usize {
    line.text.len() + line.account.as_ref().map_or(0, |account| account.len()) + PLACE
}

/// The most bytes that all lines may take.
pub const MOST_BYTES: usize = 2 * 1024 * 1024;
/// The bytes of a line besides its texts: its place in the list, its counts, and the overhead of
/// allocations.
const PLACE: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { severity: 3, account: None, text: text.into() }
    }

    fn texts(unseen: &Unseen) -> Vec<&str> {
        unseen.lines.iter().map(|line| &*line.text).collect()
    }

    #[test]
    fn each_line_is_seen_once() {
        let lines = Lines::default();
        ["a", "b", "c"].into_iter().for_each(|text| lines.push(line(text)));
        let first = lines.after(0, 2);
        assert_eq!((texts(&first), first.seen, first.left_out), (vec!["a", "b"], 2, 0));
        let second = lines.after(first.seen, 2);
        assert_eq!((texts(&second), second.seen), (vec!["c"], 3));
        assert_eq!(lines.after(second.seen, 2), Unseen { seen: 3, ..Unseen::default() });
    }

    #[test]
    fn slow_readers_hear_how_many_lines_are_gone() {
        let lines = Lines::default();
        let long = "x".repeat(MOST_BYTES / 4);
        (0..10).for_each(|_| lines.push(line(&long)));
        let unseen = lines.after(1, 100);
        assert_eq!((unseen.lines.len(), unseen.left_out, unseen.seen), (3, 6, 10));
        assert_eq!(lines.before(), 7);
        assert!(lines.lock().bytes <= MOST_BYTES);
    }

    #[test]
    fn a_line_above_the_bound_leaves_nothing() {
        let lines = Lines::default();
        lines.push(line(&"x".repeat(MOST_BYTES)));
        assert_eq!((lines.after(0, 9).left_out, lines.lock().bytes), (1, 0));
    }
}
