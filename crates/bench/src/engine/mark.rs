//! The mark in the text of each stanza of a load: its sender, its number, and the time when it
//! should have been sent.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The mark of one stanza, from which its receiver learns its latency, and whether stanzas are
/// missing, repeated or out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The run, since stanzas that a server has stored from another one don't count.
    pub run: u32,
    /// The sender's number within the scenario.
    pub sender: u32,
    /// The number of the stanza among those of the sender to the same receivers, from 0.
    pub sequence: u32,
    /// The time when it should have been sent, in nanoseconds since the engine was made.
    pub intended: u64,
}

impl Mark {
    /// Appends the mark as text that needs no escaping.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(OPEN);
        hexadecimal(self.run.into(), out);
        for part in [self.sender.into(), self.sequence.into(), self.intended] {
            out.push(b':');
            hexadecimal(part, out);
        }
        out.push(b'~');
    }

    /// Returns the mark in a stanza; `None` if there is none, or an incomplete one.
    pub fn find(stanza: &[u8]) -> Option<Mark> {
        static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(OPEN));
        let at = FINDER.find(stanza)? + OPEN.len();
        let rest = stanza.get(at..)?;
        let text = std::str::from_utf8(rest.get(..memchr::memchr(b'~', rest.get(..MOST.min(rest.len()))?)?)?).ok()?;
        let mut parts = text.split(':');
        let mut small = || u32::from_str_radix(parts.next()?, 16).ok();
        let (run, sender, sequence) = (small()?, small()?, small()?);
        let intended = u64::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some(Mark { run, sender, sequence, intended })
    }
}

fn hexadecimal(value: u64, out: &mut Vec<u8>) {
    let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        let nibble = (value >> (4 * digit) & 15) as u8;
        out.push(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    }
}

const OPEN: &[u8] = b"~mark:";
/// The most bytes of a mark after its opening.
const MOST: usize = 3 * 9 + 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_again_and_broken_ones_are_not() {
        for (sequence, intended) in [(0, 0), (10, 16), (u32::MAX, u64::MAX), (255, 1 << 33)] {
            let mark = Mark { run: 0xabc, sender: u32::MAX, sequence, intended };
            let mut text = b"<body>".to_vec();
            mark.write(&mut text);
            let whole = text.len();
            text.extend_from_slice(b"</body>");
            assert_eq!(Mark::find(&text), Some(mark));
            (0..whole).for_each(|len| assert_eq!(Mark::find(&text[..len]), None));
        }
        for broken in
            ["~mark:1:2:3~", "~mark:1:2:3:4:5~", "~mark:1:2:x:4~", "~mark:123456789:1:1:1~", "~mark:::: ~", "~mark:"]
        {
            assert_eq!(Mark::find(broken.as_bytes()), None, "{broken}");
        }
    }
}
