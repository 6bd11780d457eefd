//! The log of a simulation: always as a hash, as text where somebody wants to read it.

use std::fmt::{self, Write};

/// Takes down what happens.
#[derive(Debug)]
pub struct Journal {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Journal {
    /// Returns an empty one, which keeps its lines if they are to be read.
    pub fn new(keeps_lines: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, lines: keeps_lines.then(Vec::new) }
    }

    /// Takes down a line.
    pub fn note(&mut self, line: fmt::Arguments<'_>) {
        let _ = Hashing(&mut self.hash).write_fmt(line);
        if let Some(lines) = &mut self.lines {
            lines.push(line.to_string());
        }
    }

    /// Returns a number that differs if any line did (FNV-1a).
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the lines, if they were kept.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

struct Hashing<'a>(&'a mut u64);

impl Write for Hashing<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            *self.0 = (*self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
