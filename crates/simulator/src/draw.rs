//! The only source of randomness of a simulation: a sequence that its seed determines on every
//! machine.

use rookery_base::chance::Sequence;

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub struct SeededDraw(Sequence);

impl SeededDraw {
    /// Returns the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Sequence::new(seed))
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    /// Returns a number from `from` up to and including `to`.
    pub fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to + 1 - from)
    }

    /// Returns true with this probability, in percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns the index of one of these weights; the probability of each is in proportion to its
    /// weight.
    pub fn by_weight(&mut self, weights: &[u32]) -> usize {
        let sum: u32 = weights.iter().sum();
        let mut left = self.below(sum as usize) as u32;
        let is_it = |weight: &u32| match left.checked_sub(*weight) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        weights.iter().position(is_it).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_decide_how_often_something_is_drawn() {
        let mut draw = SeededDraw::new(1);
        let mut counts = [0; 3];
        (0..1000).for_each(|_| counts[draw.by_weight(&[1, 0, 9])] += 1);
        assert!(counts[0] > 50 && counts[1] == 0 && counts[2] > 800, "{counts:?}");
    }
}
