//! Limits of settings, which are narrower than the range of a property's bytes.

use crate::status::Status;

/// The values to which a property may be set, in engineering units; raw numbers for texts and
/// commands.
///
/// They are checked before anything is sent, whether a client gives the value in engineering units,
/// in primary units, or as bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PropertyLimits {
    /// The lowest value.
    pub min: Option<f64>,
    /// The highest value.
    pub max: Option<f64>,
    /// The only permitted values; if the list is empty, all are.
    pub allowed: Vec<f64>,
}

impl PropertyLimits {
    /// Returns true if every value is allowed.
    pub fn is_empty(&self) -> bool {
        self.min.is_none() && self.max.is_none() && self.allowed.is_empty()
    }

    /// Fails with [`RANGE`](Status::RANGE) for a value that is not allowed. NaN never is.
    pub fn check(&self, value: f64) -> Result<(), Status> {
        let is_between = self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max);
        let is_allowed = self.allowed.is_empty() || self.allowed.contains(&value);
        if self.is_empty() || is_between && is_allowed { Ok(()) } else { Err(Status::RANGE) }
    }

    /// Returns all numbers that the device file names as limits.
    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        self.min.into_iter().chain(self.max).chain(self.allowed.iter().copied())
    }

    /// Returns the mistake in limits of a device file, if there is one.
    pub(super) fn mistake(&self) -> Option<(&'static str, &'static str)> {
        let is_finite = |number: &f64| number.is_finite();
        let (low, high) = (self.min.unwrap_or(f64::NEG_INFINITY), self.max.unwrap_or(f64::INFINITY));
        match self {
            _ if !self.min.iter().all(is_finite) => Some(("min", "must be a number")),
            _ if !self.max.iter().all(is_finite) => Some(("max", "must be a number")),
            _ if low > high => Some(("max", "cannot be below min")),
            _ if !self.allowed.iter().all(|allowed| (low..=high).contains(allowed) && allowed.is_finite()) => {
                Some(("allowed", "numbers between min and max"))
            }
            _ => None,
        }
    }
}
