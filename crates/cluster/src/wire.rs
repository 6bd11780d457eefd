//! The wire format of an entry: the content of one append to a node's inbox.
//!
//! An entry is a header and letters, each after its length, so that a version can skip kinds that
//! it doesn't know. Numbers are little-endian; lengths are LEB128. The letters themselves are
//! decoded on the shard that they are for: here they are bytes.
//!
//! # Invariants
//!
//! * Whatever the bytes, reading them neither panics nor takes more memory than their size.
//! * Anything that is written is read back unchanged.

use rookery_fanout::Station;

/// A process, identified by the number of its node and the count of the node's starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeProcess {
    /// The number of the node.
    pub node: u16,
    /// The number of the node's processes so far.
    pub incarnation: u32,
}

impl std::fmt::Display for NodeProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.node, self.incarnation)
    }
}

impl NodeProcess {
    /// Returns the process that a shard is in.
    pub fn of(station: Station) -> Self {
        Self { node: station.node, incarnation: station.incarnation }
    }
}

/// The beginning of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// The process that has written it.
    pub from: NodeProcess,
    /// The number of the entry among those of this writer for this reader, from 1; 0 for an entry
    /// without letters.
    pub seq: u64,
    /// The number of the oldest entry that the writer still has for the reader, or of the next one:
    /// all earlier ones were handled, or given up.
    pub first: u64,
    /// The number of the reader's last entry that the writer has handled, together with all earlier
    /// ones.
    pub read: u64,
    /// True if the writer waits until this entry is handled, and wants to know soon.
    pub is_urgent: bool,
    /// The writer's time of day, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// A letter within an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedMail<'a> {
    /// The kind; further ones may be added.
    pub kind: u8,
    /// The writer's shard.
    pub from: u16,
    /// The reader's shard.
    pub to: u16,
    /// The content.
    pub body: &'a [u8],
}

/// The reason why bytes aren't an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes don't begin like an entry.
    Magic,
    /// The bytes are in another version.
    Version(u8),
    /// The bytes end too early, or a length is too large.
    Short,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Magic => f.write_str("it doesn't begin like an entry"),
            Self::Version(version) => write!(f, "its version is {version}; this server reads version {VERSION}"),
            Self::Short => f.write_str("it ends too early"),
        }
    }
}

/// Appends the header of an entry.
pub fn begin(header: &EntryHeader, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    out.push(VERSION);
    out.push(u8::from(header.is_urgent));
    out.extend_from_slice(&header.from.node.to_le_bytes());
    out.extend_from_slice(&header.from.incarnation.to_le_bytes());
    out.extend_from_slice(&header.seq.to_le_bytes());
    out.extend_from_slice(&header.first.to_le_bytes());
    out.extend_from_slice(&header.read.to_le_bytes());
    out.extend_from_slice(&header.unix_ms.to_le_bytes());
}

/// Appends a letter.
pub fn push(letter: &CarriedMail<'_>, out: &mut Vec<u8>) {
    let mut rest = letter.body.len() + FIXED;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out.push(letter.kind);
    out.extend_from_slice(&letter.from.to_le_bytes());
    out.extend_from_slice(&letter.to.to_le_bytes());
    out.extend_from_slice(letter.body);
}

/// Reads an entry.
///
/// # Errors
/// The bytes are in another version, or aren't an entry.
pub fn read(bytes: &[u8]) -> Result<(EntryHeader, Vec<CarriedMail<'_>>), Malformed> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(Malformed::Magic)?;
    let (version, rest) = rest.split_first().ok_or(Malformed::Short)?;
    if *version != VERSION {
        return Err(Malformed::Version(*version));
    }
    let (flags, rest) = rest.split_first().ok_or(Malformed::Short)?;
    let (node, rest) = take(rest)?;
    let (incarnation, rest) = take(rest)?;
    let (seq, rest) = take(rest)?;
    let (first, rest) = take(rest)?;
    let (read, rest) = take(rest)?;
    let (unix_ms, mut rest) = take(rest)?;
    let header = EntryHeader {
        from: NodeProcess { node: u16::from_le_bytes(node), incarnation: u32::from_le_bytes(incarnation) },
        seq: u64::from_le_bytes(seq),
        first: u64::from_le_bytes(first),
        read: u64::from_le_bytes(read),
        is_urgent: flags & 1 != 0,
        unix_ms: u64::from_le_bytes(unix_ms),
    };
    let mut letters = Vec::new();
    while !rest.is_empty() {
        let (letter, behind) = letter(rest)?;
        letters.push(letter);
        rest = behind;
    }
    Ok((header, letters))
}

fn letter(bytes: &[u8]) -> Result<(CarriedMail<'_>, &[u8]), Malformed> {
    let (len, rest) = length(bytes)?;
    let (whole, behind) = rest.split_at_checked(len).ok_or(Malformed::Short)?;
    let (kind, whole) = whole.split_first().ok_or(Malformed::Short)?;
    let (from, whole) = take(whole)?;
    let (to, body) = take(whole)?;
    let (from, to) = (u16::from_le_bytes(from), u16::from_le_bytes(to));
    Ok((CarriedMail { kind: *kind, from, to, body }, behind))
}

fn length(bytes: &[u8]) -> Result<(usize, &[u8]), Malformed> {
    let mut len = 0;
    for (at, byte) in bytes.iter().enumerate().take(4) {
        len |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((len, bytes.get(at + 1..).unwrap_or_default()));
        }
    }
    Err(Malformed::Short)
}

fn take<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), Malformed> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(Malformed::Short)?;
    Ok((*taken, rest))
}

/// The first bytes of every entry.
const MAGIC: &[u8] = b"rk";
/// The version of the header and of letters' heads. The content of a letter has a version of its
/// own.
pub const VERSION: u8 = 1;
/// The bytes of a letter in addition to its length and its body.
const FIXED: usize = 5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(seq: u64) -> EntryHeader {
        let from = NodeProcess { node: 3, incarnation: 7 };
        EntryHeader { from, seq, first: 2, read: 5, is_urgent: seq & 1 == 1, unix_ms: 1_767_225_600_000 }
    }

    proptest! {
        #[test]
        fn entries_are_read_as_they_were_written(
            seq: u64,
            letters in prop::collection::vec((any::<u8>(), any::<u16>(), any::<u16>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20),
        ) {
            let letters: Vec<_> = letters.iter().map(|(kind, from, to, body)| CarriedMail { kind: *kind, from: *from, to: *to, body }).collect();
            let mut bytes = Vec::new();
            begin(&header(seq), &mut bytes);
            letters.iter().for_each(|letter| push(letter, &mut bytes));
            prop_assert_eq!(read(&bytes), Ok((header(seq), letters.clone())));
            for end in 0..bytes.len() {
                if let Ok((_, found)) = read(&bytes[..end]) {
                    prop_assert!(found.len() < letters.len() || letters.is_empty(), "cut between two letters");
                }
            }
        }

        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut whole = b"rk\x01".to_vec();
            whole.extend_from_slice(&bytes);
            _ = read(&whole);
            _ = read(&bytes);
        }
    }

    #[test]
    fn other_versions_and_other_writers_are_told_apart() {
        let mut bytes = Vec::new();
        begin(&header(1), &mut bytes);
        bytes[2] = 9;
        assert_eq!(read(&bytes), Err(Malformed::Version(9)));
        assert_eq!(read(b"hello"), Err(Malformed::Magic));
        assert_eq!(read(b"rk"), Err(Malformed::Short));
    }
}
