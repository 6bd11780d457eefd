//! Times of a plot's points, from ticks that restart every five seconds.

use crate::acnet::ftpman::{Point, WRAP};
use crate::time::Moment;

/// The position of a plot in time.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The last point: its ticks, and its time in microseconds since 1970.
    last: Option<(u16, i64)>,
}

impl Times {
    /// Returns the times at which points were taken, in microseconds since 1970, in rising order;
    /// the last one was just now or a little earlier.
    pub(super) fn place(&mut self, points: &[Point], now: Moment) -> Vec<i64> {
        let Some(newest) = points.last() else { return Vec::new() };
        let now = now.unix_millis.saturating_mul(1000);
        let mut span = 0;
        let mut offsets = Vec::with_capacity(points.len());
        for (number, point) in points.iter().enumerate() {
            if let Some(before) = number.checked_sub(1).and_then(|before| points.get(before)) {
                span += between(before.ticks, point.ticks);
            }
            offsets.push(span);
        }
        let first = points.first().map_or(0, |point| point.ticks);
        let continued = self.last.map(|(ticks, at)| at + between(ticks, first) + span);
        // This corrects for gaps of more than five seconds, and for drifting clocks.
        let end = continued.filter(|end| (end - now).abs() <= MOST_DRIFT).unwrap_or(now);
        self.last = Some((newest.ticks, end));
        offsets.into_iter().map(|offset| end - span + offset).collect()
    }
}

/// Returns the microseconds from one tick to a later one.
fn between(from: u16, to: u16) -> i64 {
    let (from, to) = (from % WRAP, to % WRAP);
    let ticks = if to >= from { to - from } else { WRAP - from + to };
    i64::from(ticks) * TICK
}

/// The length of a tick in microseconds.
const TICK: i64 = 100;
/// The largest drift in microseconds.
const MOST_DRIFT: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_keep_their_distances_over_the_wrap() {
        let points = |ticks: &[u16]| ticks.iter().map(|ticks| Point { ticks: *ticks, raw: 0 }).collect::<Vec<_>>();
        let at = |unix_millis| Moment { millis: 0, unix_millis };
        let mut times = Times::default();
        assert_eq!(times.place(&points(&[49_800, 49_900, 0]), at(1000)), [980_000, 990_000, 1_000_000]);
        // It arrives late, but the distance in ticks counts.
        assert_eq!(times.place(&points(&[100, 200]), at(1100)), [1_010_000, 1_020_000]);
        assert_eq!(times.place(&[], at(1200)), [] as [i64; 0]);
        // After seconds without points, the time of arrival counts.
        assert_eq!(times.place(&points(&[300, 400]), at(9000)), [8_990_000, 9_000_000]);
        // Ticks beyond the wrap count like ticks within it.
        assert_eq!(times.place(&points(&[50_500, 65_535]), at(9010)).len(), 2);
    }
}
