//! One plot as SVG: curves over two axes, each linear or logarithmic.
//!
//! Drawn by `plotters` with only its SVG backend, which brings in three small crates. Colours are
//! written as fixed codes ([`INK`], [`GRID`], [`CURVES`]) which the page's style sheet maps to its
//! own, so that one drawing serves dark and light. No text of a result appears in it: curves are
//! named by the legend beside the plot.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

/// A plot to be drawn.
pub(super) struct ReportPlot {
    /// The description, as alternative text.
    pub title: &'static str,
    /// Name and unit of the horizontal axis.
    pub x_name: &'static str,
    /// Name and unit of the vertical axis.
    pub y_name: &'static str,
    /// True if the horizontal axis is logarithmic, and the marks on it if they aren't at round
    /// numbers.
    pub x: Marks,
    /// The same for the vertical axis.
    pub y: Marks,
    /// The curves to draw; if none has a point that the axes can show, there is no plot.
    pub curves: Vec<Curve>,
}

/// One curve of a plot.
pub(super) struct Curve {
    /// The number of its colour; they repeat.
    pub colour: usize,
    /// Its points from left to right. The curve is interrupted at a point that isn't finite, is
    /// absurdly large, or isn't positive on a logarithmic axis.
    pub points: Vec<(f64, f64)>,
    /// True if each point is marked, because there are few.
    pub dots: bool,
}

/// A curve's colour, whether its points are marked, and its drawable pieces.
type Pieces = (usize, bool, Vec<Vec<(f64, f64)>>);

/// The division of an axis.
#[derive(Clone, Copy)]
pub(super) enum Marks {
    /// Linear, from zero.
    Linear,
    /// Logarithmic.
    Log,
    /// Logarithmic in `1 / (1 - share)`, marked with shares: 0 %, 50 %, 90 %, 99 %, and so on.
    Percentiles,
}

impl ReportPlot {
    /// Returns the drawing; `None` if no curve has a point that can be drawn.
    pub fn svg(&self) -> Option<String> {
        let curves: Vec<Pieces> =
            self.curves.iter().map(|curve| (curve.colour, curve.dots, self.runs_of(curve))).collect();
        let all = || curves.iter().flat_map(|(_, _, lines)| lines.iter().flatten());
        let x = self.x.axis(all().map(|point| point.0), false)?;
        let y = self.y.axis(all().map(|point| point.1), true)?;
        let mut text = String::new();
        // Writing to a string can't fail by itself; a plot that can't be drawn is left out.
        self.draw(&mut text, x, y, &curves).ok()?;
        let open = format!("<svg role=\"img\" aria-label=\"{}\" ", self.title);
        Some(text.replacen("<svg ", &open, 1))
    }

    /// Returns the drawable pieces of a curve.
    fn runs_of(&self, curve: &Curve) -> Vec<Vec<(f64, f64)>> {
        let fits = |(x, y): &(f64, f64)| self.x.takes(*x) && self.y.takes(*y);
        let pieces = curve.points.split(|point| !fits(point)).filter(|piece| !piece.is_empty());
        pieces.map(thin_out).collect()
    }

    fn draw(&self, text: &mut String, x: Axis, y: Axis, curves: &[Pieces]) -> Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_top(8)
            .margin_right(44)
            .x_label_area_size(44)
            .y_label_area_size(70)
            .build_cartesian_2d(x, y)?;
        let (x_marks, y_marks) = (self.x, self.y);
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .x_desc(self.x_name)
            .y_desc(self.y_name)
            .label_style(("sans-serif", 13, &INK))
            .axis_desc_style(("sans-serif", 13, &INK))
            .x_label_formatter(&|value| x_marks.label(*value))
            .y_label_formatter(&|value| y_marks.label(*value))
            .draw()?;
        for (colour, dots, lines) in curves {
            let colour = CURVES.get(colour % CURVES.len()).copied().unwrap_or(INK);
            for line in lines {
                chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))?;
                if *dots || line.len() == 1 {
                    chart.draw_series(line.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
                }
            }
        }
        root.present()?;
        Ok(())
    }
}

impl Marks {
    fn takes(self, value: f64) -> bool {
        match self {
            Marks::Linear => value.abs() <= GREATEST,
            Marks::Log | Marks::Percentiles => (1.0 / GREATEST..=GREATEST).contains(&value),
        }
    }

    /// Returns an axis that has room for these values; `None` if there are none.
    fn axis(self, values: impl Iterator<Item = f64>, vertical: bool) -> Option<Axis> {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return None;
        }
        Some(match self {
            Marks::Linear => {
                let low = if vertical { low.min(0.0) } else { low };
                let high = if high > low { high } else { low + 1.0 };
                let high = if vertical { high + (high - low) * 0.05 } else { high };
                Axis { range: low..high, logarithmic: false, marks: round_numbers(low, high) }
            }
            Marks::Percentiles => {
                let high = high.max(10.0);
                // Over many powers of ten there is no room for both kinds of marks.
                let mut marks = if high > 1e4 { vec![1.0] } else { vec![1.0, 2.0] };
                marks.extend((1..=9).map(|power| 10f64.powi(power)).filter(|mark| *mark <= high));
                Axis { range: 1.0..high, logarithmic: true, marks }
            }
            Marks::Log => {
                let (low, high) = if vertical { (low / 1.15, high * 1.15) } else { (low, high) };
                let (low, high) = if high > low * 1.5 { (low, high) } else { (low / 2.0, high * 2.0) };
                Axis { range: low..high, logarithmic: true, marks: round_factors(low, high) }
            }
        })
    }

    fn label(self, value: f64) -> String {
        match self {
            Marks::Linear | Marks::Log => short(value),
            Marks::Percentiles => short(100.0 * (1.0 - 1.0 / value)) + " %",
        }
    }
}

/// Returns multiples of 1, 2 or 5 times a power of ten, about half a dozen.
fn round_numbers(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
    let Some(step) = step else { return Vec::new() };
    let first = (low / step).ceil();
    (0..20).map(|number| (first + f64::from(number)) * step).take_while(|mark| *mark <= high).collect()
}

/// Returns powers of ten, and 1, 2 and 5 times those if there are few.
fn round_factors(low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let few = high / low < 2000.0;
    let factors: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
    all.filter(|mark| (low..=high).contains(mark)).collect()
}

/// Returns a number for an axis, with no more digits than necessary.
fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "" | "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// Returns at most [`MOST`] points, each with the greatest value of its section, so that peaks
/// don't vanish.
fn thin_out(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(MOST).max(1);
    let highest = |stretch: &[(f64, f64)]| stretch.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1));
    points.chunks(stretch).filter_map(highest).collect()
}

/// An axis of the kinds that these plots need, with the marks of [`Marks`].
struct Axis {
    range: Range<f64>,
    logarithmic: bool,
    marks: Vec<f64>,
}

impl Axis {
    fn scale(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(f64::MIN_POSITIVE).ln() } else { value }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (low, high) = (self.scale(self.range.start), self.scale(self.range.end));
        let share = (self.scale(*value) - low) / (high - low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// The width and height of the drawing, which scales.
const SIZE: (u32, u32) = (600, 300);
/// The number of points beyond which pixels show no more.
const MOST: usize = 520;

/// The greatest value that is drawn: a larger axis would show nothing else.
const GREATEST: f64 = 1e15;

/// Text.
pub(super) const INK: RGBColor = RGBColor(0x11, 0x11, 0x11);
/// Lines of the grid.
pub(super) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Curves, which colour-blind readers can distinguish, too.
pub(super) const CURVES: [RGBColor; 12] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x01),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0x80, 0x80, 0x80),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x9a, 0x80, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x7a, 0x3e, 0xb1),
    RGBColor(0xb0, 0x1e, 0x4f),
    RGBColor(0x0a, 0x4f, 0x5c),
    RGBColor(0x5f, 0x7d, 0x1a),
    RGBColor(0x6b, 0x44, 0x2a),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>, y: Marks) -> ReportPlot {
        let curves = vec![Curve { colour: 0, points, dots: false }];
        ReportPlot { title: "t", x_name: "x", y_name: "y", x: Marks::Linear, y, curves }
    }

    #[test]
    fn nothing_to_draw_is_no_plot() {
        assert!(plot(Vec::new(), Marks::Linear).svg().is_none());
        assert!(plot(vec![(0.0, f64::NAN), (f64::INFINITY, 1.0)], Marks::Linear).svg().is_none());
        assert!(plot(vec![(1.0, 0.0), (2.0, -5.0)], Marks::Log).svg().is_none());
    }

    #[test]
    fn a_gap_interrupts_the_line() {
        let svg = plot(vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 2.0)], Marks::Linear).svg();
        let svg = svg.unwrap();
        assert_eq!(svg.matches("#0072B2").count(), 2, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn one_point_and_level_lines_are_drawn() {
        for y in [Marks::Linear, Marks::Log] {
            assert!(plot(vec![(1.0, 5.0)], y).svg().unwrap().contains("<circle"));
            assert!(plot(vec![(1.0, 5.0), (2.0, 5.0)], y).svg().unwrap().contains("<polyline"));
        }
        assert!(plot(vec![(1.0, 0.0), (2.0, 0.0)], Marks::Linear).svg().is_some());
        assert!(plot(vec![(1.0, f64::MAX), (2.0, f64::MIN_POSITIVE)], Marks::Log).svg().is_none());
        assert!(plot(vec![(1.0, GREATEST), (2.0, 1.0 / GREATEST)], Marks::Log).svg().is_some());
        assert!(plot(vec![(1.0, GREATEST), (2.0, -GREATEST)], Marks::Linear).svg().is_some());
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(round_numbers(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(round_factors(3.0, 60.0), [5.0, 10.0, 20.0, 50.0]);
        assert_eq!(round_factors(0.5, 9000.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Marks::Percentiles.label(1000.0), "99.9 %");
        assert_eq!(Marks::Percentiles.label(1.0), "0 %");
        assert_eq!(short(1500.0), "1500");
    }

    #[test]
    fn thinning_keeps_peaks() {
        let points: Vec<(f64, f64)> = (0..5000).map(|x| (f64::from(x), if x == 4321 { 9.0 } else { 1.0 })).collect();
        let thin = thin_out(&points);
        assert!((MOST / 2..=MOST).contains(&thin.len()), "{}", thin.len());
        assert!(thin.contains(&(4321.0, 9.0)));
    }
}
