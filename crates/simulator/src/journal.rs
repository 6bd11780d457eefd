//! The log of a simulation: always a hash, and the lines as well if they are to be read.

use std::cell::RefCell;
use std::fmt::{self, Write};

thread_local! {
    /// The lines of the last run on this thread, which remain after a panic.
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The log of a run.
#[derive(Debug)]
pub struct RunJournal {
    hash: u64,
    keeps_lines: bool,
}

impl RunJournal {
    /// Returns an empty log, which keeps its lines if they are to be read.
    pub fn new(keeps_lines: bool) -> Self {
        LINES.take();
        Self { hash: 0xcbf2_9ce4_8422_2325, keeps_lines }
    }

    /// Logs a line.
    pub fn note(&mut self, line: fmt::Arguments<'_>) {
        let _ = Hashing(&mut self.hash).write_fmt(line);
        if self.keeps_lines {
            LINES.with_borrow_mut(|lines| lines.push(line.to_string()));
        }
    }

    /// Returns the hash of all lines so far: it differs if any line did.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Returns the lines of the last run on this thread, if they were kept.
pub fn take_lines() -> Vec<String> {
    LINES.take()
}

struct Hashing<'a>(&'a mut u64);

impl Write for Hashing<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Hashes eight bytes at a time and the number of bytes at the end: a byte at a time took a
        // thirtieth of a run.
        let (words, rest) = text.as_bytes().as_chunks();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        for word in words.chain([u64::from_le_bytes(last), text.len() as u64]) {
            *self.0 = (*self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        Ok(())
    }
}
