//! Inverses of common transforms: in closed form where there is one, otherwise by bisection.

use super::common::CommonTransform;
use crate::status::Status;

impl CommonTransform {
    /// Returns a number of primary units that scales to `y`; if it has to be searched for, between
    /// two limits.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) if no number was found, and for a `y` that isn't finite.
    pub fn unscale(&self, y: f64, limits: (f64, f64)) -> Result<f64, Status> {
        unscale(self, y, limits)
    }
}

/// Returns a number of primary units that scales to `y`.
fn unscale(common: &CommonTransform, y: f64, limits: (f64, f64)) -> Result<f64, Status> {
    if !y.is_finite() {
        return Err(Status::SCALEFAIL);
    }
    // Refuses transforms that are unknown or lack constants.
    common.scale(limits.0)?;
    let closed = closed_form(common, y);
    if closed.is_empty() {
        return bisect(common, y, limits);
    }
    let fits = |x: &f64| common.scale(*x).is_ok_and(|again| (again - y).abs() <= EXACT * (1.0 + y.abs()));
    let mut fitting = closed.iter().copied().filter(fits);
    let inside = fitting.clone().find(|x| (limits.0..=limits.1).contains(x));
    inside.or_else(|| fitting.next()).ok_or(Status::SCALEFAIL)
}

/// Returns the values that may scale to `y`; none if the transform has no inverse in closed form.
fn closed_form(common: &CommonTransform, y: f64) -> Vec<f64> {
    let c = common.first_constants();
    match common.index {
        0 | 80 => vec![y],
        2 | 40 => vec![(y - c[3]) * c[2] / c[1]],
        4 => vec![y * c[2] + c[1]],
        6 => vec![y * c[2] / c[1]],
        8 => vec![(y - c[4]) * c[3] / (c[1] - (y - c[4]) * c[2])],
        10 => vec![c[2] / (c[1] * (y - c[3]))],
        20 => {
            let d = y - c[3];
            let mut logs = roots(d * c[1] * c[1], 2.0 * d * c[1] * c[2] - 1.0, d * c[2] * c[2]);
            logs.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
            logs.into_iter().map(|log| 10f64.powf(log)).collect()
        }
        28 => vec![(c[3] / (y - c[4]) - c[2]) / c[1]],
        32 => vec![(((y - c[3]) / c[2]).exp() - c[4]) / c[1]],
        34 => vec![(c[2] - y * c[4]) / (y * c[3] - c[1])],
        36 => vec![((y - c[3]) / c[2]).powi(2) - c[1]],
        50 => vec![c[2] * (y / c[1]).cos()],
        62 => vec![c[1] * (y / c[2] - c[3]).log10()],
        66 => vec![((y - c[4]) / c[1]).log2() / c[2] - c[3]],
        74 => roots(y * c[6] - c[3], y * c[5] - c[2], y * c[4] - c[1]),
        76 => vec![(y / c[2]).powf(1.0 / c[3]), ((y / c[4]).ln() - c[6]) / c[5]],
        78 => vec![(((y - c[4]) / c[1]).log10() - c[3]) / c[2]],
        86 => {
            let (low, high) = (c[3] * c[1] + c[4], (c[5] * c[2] + c[6]).exp());
            let share = (y / low).ln() / (high / low).ln();
            vec![(y - c[4]) / c[3], (y.ln() - c[6]) / c[5], c[1] + share * (c[2] - c[1])]
        }
        _ => Vec::new(),
    }
}

/// Returns the real solutions of a x² + b x + c = 0.
fn roots(a: f64, b: f64, c: f64) -> Vec<f64> {
    if a == 0.0 {
        return vec![-c / b];
    }
    let root = (b * b - 4.0 * a * c).sqrt();
    if root.is_nan() { Vec::new() } else { vec![(-b + root) / (2.0 * a), (-b - root) / (2.0 * a)] }
}

/// Finds the lowest place between the limits at which the transform passes through `y`, first
/// roughly, then by halves.
fn bisect(common: &CommonTransform, y: f64, (lowest, highest): (f64, f64)) -> Result<f64, Status> {
    let distance = |x: f64| common.scale(x).map(|scaled| scaled - y);
    let step = (highest - lowest) / STEPS;
    let mut low = (lowest, distance(lowest)?);
    for number in 1..=STEPS as u32 {
        let x = lowest + f64::from(number) * step;
        let high = (x, distance(x)?);
        if low.1 == 0.0 {
            return Ok(low.0);
        }
        if low.1 * high.1 <= 0.0 {
            return halve(&distance, low, high, y);
        }
        low = high;
    }
    Err(Status::SCALEFAIL)
}

fn halve(
    distance: &dyn Fn(f64) -> Result<f64, Status>,
    mut low: (f64, f64),
    mut high: (f64, f64),
    y: f64,
) -> Result<f64, Status> {
    for _ in 0..HALVINGS {
        let x = low.0 + (high.0 - low.0) / 2.0;
        let middle = (x, distance(x)?);
        if low.1 * middle.1 <= 0.0 { high = middle } else { low = middle }
    }
    // The sign also changes at a jump, but no value there scales to `y`.
    let nearest = if low.1.abs() < high.1.abs() { low } else { high };
    if nearest.1.abs() <= CLOSE * (1.0 + y.abs()) { Ok(nearest.0) } else { Err(Status::SCALEFAIL) }
}

/// The largest error of a closed form, relative to the value: its numbers are rounded at every
/// step.
const EXACT: f64 = 1e-6;
/// The largest error of a bisection.
const CLOSE: f64 = 1e-6;
const STEPS: f64 = 2048.0;
const HALVINGS: u32 = 80;
