//! The plots of a scenario: latency; deliveries and the server's consumption over time; for sweeps
//! the cost per destination.

use std::collections::BTreeSet;

use crate::report::plot::{Curve, Marks, ReportPlot};
use crate::result::{Latency, RunResult, RunSample, SweepPoint};

/// A plot with its title.
pub(super) struct Figure {
    /// The title, which may come from a result and has to be escaped.
    pub title: String,
    /// The drawing.
    pub svg: String,
}

/// Returns the plots of a scenario's runs; `colours` has the colour of each run. Those without data
/// are left out.
pub(super) fn figures(runs: &[&RunResult], colours: &[usize]) -> Vec<Figure> {
    let each = || runs.iter().copied().zip(colours.iter().copied());
    let mut figures = sweep(runs, colours);
    let latency = each().filter_map(|(run, colour)| Some(line(colour, distribution(run.latency.as_ref()?)))).collect();
    figures.extend(figure(ReportPlot {
        title: "Latency by percentile",
        x_name: "share of the deliveries",
        y_name: "milliseconds",
        x: Marks::Percentiles,
        y: Marks::Log,
        curves: latency,
    }));
    for (title, y_name, of) in SERIES {
        let curve = |(run, colour): (&RunResult, usize)| {
            line(colour, run.series.iter().map(|sample| (sample.t_s, of(sample).unwrap_or(f64::NAN))).collect())
        };
        let curves: Vec<Curve> = each().map(curve).filter(says_something).collect();
        figures.extend(figure(ReportPlot {
            title,
            x_name: "seconds",
            y_name,
            x: Marks::Linear,
            y: Marks::Linear,
            curves,
        }));
    }
    figures
}

/// Returns whether a curve is meaningful: a series that is always zero, such as deliveries in a
/// load that sends nothing, is left out.
fn says_something(curve: &Curve) -> bool {
    curve.points.iter().any(|(_, value)| value.is_finite() && *value != 0.0)
}

/// Returns the cost per destination: for each curve (bcc, to, single) time and CPU, all servers in
/// each.
fn sweep(runs: &[&RunResult], colours: &[usize]) -> Vec<Figure> {
    let names: BTreeSet<&str> = runs.iter().flat_map(|run| &run.parts).map(|part| part.curve.as_str()).collect();
    let mut figures = Vec::new();
    for name in names {
        for (what, of) in COSTS {
            let curve = |(run, colour): (&&RunResult, &usize)| {
                let parts = run.parts.iter().filter(|part| part.curve == name && part.delivered > 0);
                let mut points: Vec<(f64, f64)> = parts.map(|part| (part.n as f64, of(part))).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                Curve { colour: *colour, points, dots: true }
            };
            let curves = runs.iter().zip(colours).map(curve).collect();
            let plot = ReportPlot {
                title: "Cost per destination",
                x_name: "destinations",
                y_name: "µs per destination",
                x: Marks::Log,
                y: Marks::Log,
                curves,
            };
            figures.extend(plot.svg().map(|svg| Figure { title: format!("{name}: {what}"), svg }));
        }
    }
    figures
}

fn figure(plot: ReportPlot) -> Option<Figure> {
    Some(Figure { title: plot.title.to_owned(), svg: plot.svg()? })
}

fn line(colour: usize, points: Vec<(f64, f64)>) -> Curve {
    Curve { colour, points, dots: false }
}

/// Returns the distribution as a curve: for each bucket, `1 / (1 - share)` of the times up to it,
/// and its bound in milliseconds.
fn distribution(latency: &Latency) -> Vec<(f64, f64)> {
    let total: u64 = latency.histogram.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let (mut below, mut points) = (0u64, Vec::new());
    for (bound, count) in &latency.histogram {
        // The times of this bucket are longer than those of all earlier buckets: the curve begins
        // at a share of zero.
        points.push((total as f64 / (total - below.min(total)).max(1) as f64, bound / 1e3));
        below = below.saturating_add(*count);
    }
    if let Some((bound, _)) = latency.histogram.last() {
        // The slowest of all is at the right end.
        let slowest = if latency.max_us.is_finite() { latency.max_us } else { *bound };
        points.push((total as f64, slowest.min(*bound) / 1e3));
    }
    points
}

type PlotSeries = (&'static str, &'static str, fn(&RunSample) -> Option<f64>);

const SERIES: [PlotSeries; 6] = [
    ("Deliveries over time", "per second", |sample| Some(sample.delivered_per_s)),
    ("Latency p99 over time", "milliseconds", |sample| sample.p99_us.map(|p99| p99 / 1e3)),
    ("Server CPU over time", "cores", |sample| sample.server_cpu_share),
    ("Server memory over time", "MiB", |sample| sample.server_rss_bytes.map(|bytes| bytes as f64 / (1024.0 * 1024.0))),
    ("Sessions over time", "sessions", |sample| Some(sample.sessions as f64)),
    ("Generator CPU over time", "cores", |sample| Some(sample.generator_cpu_share)),
];

type PlottedCost = (&'static str, fn(&SweepPoint) -> f64);

const COSTS: [PlottedCost; 2] = [
    ("server CPU per destination", |part| part.us_cpu_per_destination.unwrap_or(f64::NAN)),
    ("time per destination", |part| part.us_per_destination_wall),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_begins_at_nought_and_ends_with_the_slowest() {
        let latency =
            Latency { histogram: vec![(1000.0, 90), (2000.0, 9), (5000.0, 1)], max_us: 4500.0, ..Latency::default() };
        let points = distribution(&latency);
        assert_eq!(points, [(1.0, 1.0), (10.0, 2.0), (100.0, 5.0), (100.0, 4.5)]);
        assert!(distribution(&Latency::default()).is_empty());
    }
}
