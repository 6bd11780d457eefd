//! Audiences: the addresses that get a packet, grouped by next hop.
//!
//! A next hop is a shard, of this process or of another node ([`crate::view`]). Addresses are
//! packed in one buffer per group, each with its hash, so that an audience of ten thousand bare
//! JIDs costs one allocation per group and no hashing at the far end.

/// JIDs in one buffer: for each, the keyed hash of the bare one, the length and the text. A JID is
/// bare if an account is meant, full if one of its sessions is.
#[derive(Debug, Default, Clone)]
pub struct Addresses {
    packed: Vec<u8>,
    count: usize,
}

impl Addresses {
    /// Appends a bare JID with its keyed hash. A text of more than 65 535 bytes isn't a JID and is
    /// left out.
    pub fn push(&mut self, hash: u64, bare: &str) {
        let Ok(len) = u16::try_from(bare.len()) else { return };
        self.packed.extend_from_slice(&hash.to_le_bytes());
        self.packed.extend_from_slice(&len.to_le_bytes());
        self.packed.extend_from_slice(bare.as_bytes());
        self.count += 1;
    }

    /// Returns the number of JIDs.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the hashes and bare JIDs, in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        let mut rest = self.packed.as_slice();
        std::iter::from_fn(move || {
            let (hash, tail) = rest.split_first_chunk::<8>()?;
            let (len, tail) = tail.split_first_chunk::<2>()?;
            let (text, tail) = tail.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            rest = tail;
            Some((u64::from_le_bytes(*hash), std::str::from_utf8(text).ok()?))
        })
    }
}

impl Addresses {
    /// Returns the buffer, for [`Addresses::unpack`].
    pub(crate) fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Reads a buffer of [`Addresses::packed`]; `None` if it holds anything but whole entries.
    pub(crate) fn unpack(packed: Vec<u8>) -> Option<Self> {
        let mut names = Self { packed, count: 0 };
        let (count, bytes) = names.iter().fold((0, 0), |(count, bytes), (_, text)| {
            (count + 1, bytes + size_of::<u64>() + size_of::<u16>() + text.len())
        });
        names.count = count;
        debug_assert!(bytes <= names.packed.len(), "entries are parts of the buffer");
        (bytes == names.packed.len()).then_some(names)
    }
}

/// An audience split by the hop to the home of each name.
#[derive(Debug)]
pub struct Audience {
    groups: Vec<Addresses>,
}

impl Audience {
    /// Returns an empty audience for this number of hops (at least one).
    pub fn new(hops: usize) -> Self {
        Self { groups: vec![Addresses::default(); hops.max(1)] }
    }

    /// Adds a bare JID by its keyed hash, whose home is behind a hop.
    pub fn add(&mut self, hop: usize, hash: u64, bare: &str) {
        debug_assert!(hop < self.groups.len(), "each hop has a group");
        if let Some(group) = self.groups.get_mut(hop) {
            group.push(hash, bare);
        }
    }

    /// Returns whether nobody was added.
    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(Addresses::is_empty)
    }

    /// Returns the groups that have members, each with its hop.
    pub fn into_groups(self) -> impl Iterator<Item = (usize, Addresses)> {
        self.groups.into_iter().enumerate().filter(|(_, names)| !names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reaches_its_home_once() {
        let mut audience = Audience::new(3);
        let hashes = [1u64 << 32, 5 << 40, 77 << 33, u64::MAX];
        for (at, hash) in hashes.into_iter().enumerate() {
            audience.add(at % 3, hash, &format!("u{hash}@example.org"));
        }
        let mut seen = 0;
        for (hop, names) in audience.into_groups() {
            for (hash, bare) in names.iter() {
                assert_eq!(hashes.iter().position(|other| *other == hash).map(|at| at % 3), Some(hop));
                assert_eq!(bare, format!("u{hash}@example.org"));
                seen += 1;
            }
        }
        assert_eq!(seen, hashes.len());
    }
}
