//! The index that connection, session and outbox of one client share within a shard, and lists with
//! a place for each of them.

/// Index of a connection and its session within one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u32);

const _: () = assert!(size_of::<usize>() >= size_of::<u32>(), "every link is an index");

impl Link {
    /// Returns the link of a place in a list; the last link for places beyond it, for which no
    /// shard has the memory.
    #[inline]
    pub fn at(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok(), "no shard has the memory for place {index}");
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Returns the place in a list.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A list with a place for each link: plain data, as long as the highest link has ever been.
#[derive(Debug)]
pub struct LinkPlaces<T>(Vec<T>);

impl<T> Default for LinkPlaces<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> LinkPlaces<T> {
    /// Returns the entry of a link; `None` for a link that never had a place.
    #[inline]
    pub fn get(&self, link: Link) -> Option<&T> {
        self.0.get(link.index())
    }

    /// Returns the entry of a link, for a change.
    #[inline]
    pub fn get_mut(&mut self, link: Link) -> Option<&mut T> {
        self.0.get_mut(link.index())
    }

    /// Returns all places in the order of their links.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Returns every link up to the highest one that was opened, whether its session still exists
    /// or not.
    pub fn links(&self) -> impl Iterator<Item = Link> + use<T> {
        (0..self.0.len()).map(Link::at)
    }
}

impl<T: Default> LinkPlaces<T> {
    /// Returns the entry of a link, which is created if there is none yet.
    #[inline]
    pub fn open(&mut self, link: Link) -> Option<&mut T> {
        if self.0.len() <= link.index() {
            self.0.resize_with(link.index() + 1, T::default);
        }
        self.get_mut(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_made_with_those_before_it_and_stays() {
        let mut places = LinkPlaces::<u8>::default();
        assert!(places.get(Link(0)).is_none() && places.get_mut(Link(2)).is_none());
        *places.open(Link(2)).unwrap() = 7;
        *places.open(Link(0)).unwrap() = 1;
        assert_eq!(places.iter().copied().collect::<Vec<_>>(), [1, 0, 7]);
        assert_eq!(places.links().collect::<Vec<_>>(), [Link(0), Link(1), Link(2)]);
        assert_eq!(places.get(Link(3)), None);
    }
}
