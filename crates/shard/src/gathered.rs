//! Collects the session cards that the shards of a stopping server make.

use std::sync::Mutex;

use rookery_base::lock::lock;

/// The cards of a server that stops, as its shards add them; closed once somebody has taken them.
#[derive(Debug)]
pub struct GatheredCards(Mutex<Option<Vec<Vec<u8>>>>);

impl Default for GatheredCards {
    fn default() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }
}

impl GatheredCards {
    /// Adds the cards of a shard. Returns `false` if they were taken already, without these.
    pub(crate) fn add(&self, cards: Vec<Vec<u8>>) -> bool {
        lock(&self.0).as_mut().map(|gathered| gathered.extend(cards)).is_some()
    }

    /// Takes all cards. Shards that come later keep theirs.
    pub fn take(&self) -> Vec<Vec<u8>> {
        lock(&self.0).take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shard that answers after the cards were taken has to be told so.
    #[test]
    fn cards_are_taken_or_stay() {
        let gathered = GatheredCards::default();
        assert!(gathered.add(vec![vec![1]]) && gathered.add(vec![vec![2], vec![3]]));
        assert_eq!(gathered.take(), [[1], [2], [3]]);
        assert!(!gathered.add(vec![vec![4]]) && gathered.take().is_empty());
    }
}
