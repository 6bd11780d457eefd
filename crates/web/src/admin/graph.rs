//! Graphs: curves over an hour, a day or a month, as SVG. The values are included as text, so that
//! the script can read them out at the pointer, or with the arrow keys.

use std::collections::BTreeMap;

use rookery_base::date;

use crate::history::POINT_MS;
use crate::html::Html;
use crate::language::{Language, fill};
use crate::words::AdminWords;

/// Lines over a period, in one unit.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    /// The language of its texts.
    pub language: Language,
    /// Its title in the page.
    pub title: &'a str,
    /// Its id in the page.
    pub id: &'a str,
    /// The time of each value, in milliseconds since 1970, oldest first.
    pub times: &'a [u64],
    /// The curves, four at most; each has as many values as there are times.
    pub lines: Vec<GraphLine<'a>>,
    /// The unit of its values.
    pub unit: GraphUnit,
    /// The period that it spans.
    pub range: GraphRange,
}

/// A period that graphs can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphRange {
    /// Its name in addresses.
    pub name: &'static str,
    /// Its length, in milliseconds.
    pub ms: u64,
    /// The distance between two samples, in milliseconds, above which the server counts as having
    /// been away in between.
    gap_ms: u64,
}

/// The periods to choose from.
pub const RANGES: [GraphRange; 3] = [
    GraphRange { name: "1h", ms: 3_600_000, gap_ms: 60_000 },
    GraphRange { name: "24h", ms: 86_400_000, gap_ms: 3 * POINT_MS },
    GraphRange { name: "30d", ms: 30 * 86_400_000, gap_ms: 3 * POINT_MS },
];

impl GraphRange {
    /// Returns its name for display.
    pub(crate) fn label(self, words: &AdminWords) -> &'static str {
        match self.name {
            "1h" => words.last_hour,
            "24h" => words.last_day,
            _ => words.last_month,
        }
    }

    /// Returns the label of its beginning.
    fn begin(self, words: &AdminWords) -> String {
        match self.name {
            "1h" => "−1 h".to_owned(),
            "24h" => "−24 h".to_owned(),
            _ => format!("−30 {}", words.days_sign),
        }
    }
}

/// The unit of values, which determines their format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphUnit {
    /// Counts, or counts per second.
    Count,
    /// Bytes, shown in binary units.
    Bytes,
    /// Seconds, shown in a unit that suits the value.
    Seconds,
}

/// The values of one curve, with its name for display.
#[derive(Debug)]
pub struct GraphLine<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// Its values; `None` makes a gap in the curve.
    pub values: Vec<Option<f64>>,
}

impl Graph<'_> {
    /// Returns the figure: its title, the newest values, the curves with their axes, and an element
    /// for the values at the pointer.
    pub fn html(&self) -> Html {
        let newest = |line: &GraphLine<'_>| self.write(line.values.last().copied().flatten());
        let mut html = Html::of("<figure class=\"graph card\" id=\"{}\"><figcaption>{}", &[&self.id, &self.title]);
        if let [line] = &self.lines[..] {
            html.add("<span class=\"now\">{}</span>", &[&newest(line)]);
        }
        html.add("</figcaption>", &[]);
        html.push(&self.svg());
        html.add("<div class=\"key\">", &[]);
        if self.lines.len() > 1 {
            for (line, class) in self.lines.iter().zip(CLASSES) {
                html.add("<span class=\"{}\">{} <b>{}</b></span>", &[&class, &line.name, &newest(line)]);
            }
        }
        html.add("<output class=\"reading\"></output></div></figure>", &[]);
        html
    }

    /// Returns the length of the drawn period, in milliseconds. A graph of the shortest range
    /// begins with a shorter period that holds all samples, so that it is filled from the first
    /// minutes of a server on.
    fn span(&self) -> u64 {
        let (first, last) = (self.times.first().copied(), self.times.last().copied());
        let there = last.unwrap_or_default().saturating_sub(first.unwrap_or_default());
        let shorter = SPANS_MS.into_iter().find(|span| *span >= there).filter(|_| self.range == RANGES[0]);
        shorter.unwrap_or(self.range.ms)
    }

    fn write(&self, value: Option<f64>) -> String {
        value.filter(|value| value.is_finite()).map_or_else(|| "–".to_owned(), |value| self.amount(value))
    }

    fn amount(&self, value: f64) -> String {
        self.language.amount(&self.unit.write(value))
    }

    fn svg(&self) -> Html {
        let top = self
            .unit
            .ceiling(self.lines.iter().flat_map(|line| line.values.iter().flatten()).copied().fold(0.0, f64::max));
        let span = self.span();
        let end = self.times.last().copied().unwrap_or_default();
        let words = self.language.of_administrators();
        let past = match span == self.range.ms {
            true => self.range.label(words).to_owned(),
            false => fill(words.minutes, &[&(span / MINUTE_MS)]),
        };
        let label = fill(words.graph_label, &[&self.title, &past, &self.amount(top)]);
        let mut svg = Html::of("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"", &[&WIDTH, &HEIGHT, &label]);
        svg.push(&self.readings((end, span)));
        svg.add(">", &[]);
        for part in 0..=PARTS {
            let value = top * f64::from(part) / f64::from(PARTS);
            let y = place_y(value, top);
            svg.add("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", &[&LEFT, &WIDTH, &y, &y]);
            svg.add(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                &[&(LEFT - 6), &(y + 4.0), &self.amount(value)],
            );
        }
        for back in self.returns() {
            let x = place_x(back, end, span).round();
            svg.add(
                "<line class=\"mark\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>",
                &[&x, &x, &TOP, &(HEIGHT - BOTTOM)],
            );
        }
        let (bottom, right) = (HEIGHT - 4, WIDTH - 2);
        let begin = match span == self.range.ms {
            true => self.range.begin(words),
            false => format!("−{} min", span / MINUTE_MS),
        };
        svg.add("<text x=\"{}\" y=\"{}\">{}</text>", &[&LEFT, &bottom, &begin]);
        svg.add("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", &[&right, &bottom, &words.now]);
        for (line, class) in self.lines.iter().zip(CLASSES) {
            for points in self.pieces(line, (end, span), top) {
                svg.add("<polyline class=\"{}\" points=\"{}\"/>", &[&class, &points]);
            }
        }
        svg.add("<line class=\"cursor\" x1=\"0\" x2=\"0\" y1=\"{}\" y2=\"{}\"/></svg>", &[&TOP, &(HEIGHT - BOTTOM)]);
        svg
    }

    /// Returns attributes with the data for reading values: the positions from left to right, the
    /// time at each, and the values as text, in one list per curve. If several samples have one
    /// position, the last is used.
    fn readings(&self, (end, span): (u64, u64)) -> Html {
        let mut places = BTreeMap::new();
        for (at, &time) in self.times.iter().enumerate() {
            places.insert(place_x(time, end, span).round() as u64, at);
        }
        let listed = |text: &dyn Fn(usize) -> String| places.values().map(|at| text(*at)).collect::<Vec<_>>().join(";");
        let xs = places.keys().map(u64::to_string).collect::<Vec<_>>().join(";");
        let times = listed(&|at| self.times.get(at).map_or_else(String::new, |time| date::timestamp(*time)));
        let mut html = Html::of(" data-places=\"{}\" data-times=\"{}\" data-values=\"", &[&xs, &times]);
        for (number, line) in self.lines.iter().enumerate() {
            let values = listed(&|at| self.write(line.values.get(at).copied().flatten()));
            let name = if self.lines.len() > 1 { line.name } else { "" };
            html.add(if number > 0 { "|" } else { "" }, &[]);
            html.add("{};{}", &[&name, &values]);
        }
        html.add("\"", &[]);
        html
    }

    /// Returns the times of the first samples after the server was away.
    fn returns(&self) -> impl Iterator<Item = u64> {
        let later = self.times.iter().skip(1);
        let pairs =
            self.times.iter().zip(later).filter(|(before, then)| then.saturating_sub(**before) > self.range.gap_ms);
        pairs.map(|(_, then)| *then)
    }

    /// Returns the pieces of a curve between its gaps, as lists of points. If several samples have
    /// one position, the largest is drawn.
    fn pieces(&self, line: &GraphLine<'_>, (end, span): (u64, u64), top: f64) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut piece: Vec<(f64, f64)> = Vec::new();
        let mut before = None;
        for (&time, value) in self.times.iter().zip(&line.values) {
            if before.replace(time).is_some_and(|before| time.saturating_sub(before) > self.range.gap_ms) {
                pieces.push(std::mem::take(&mut piece));
            }
            let Some(value) = value.filter(|value| value.is_finite()) else {
                pieces.push(std::mem::take(&mut piece));
                continue;
            };
            let x = place_x(time, end, span).round();
            let y = place_y(value, top);
            match piece.last_mut() {
                Some((last, highest)) if *last == x => *highest = highest.min(y),
                _ => piece.push((x, y)),
            }
        }
        pieces.push(piece);
        let written = pieces.into_iter().filter(|piece| !piece.is_empty()).map(|mut piece| {
            // A single point would not be visible.
            if let [(x, y)] = piece[..] {
                piece.push((x + 1.0, y));
            }
            piece.iter().map(|(x, y)| format!("{x:.0},{y:.1}")).collect::<Vec<_>>().join(" ")
        });
        written.collect()
    }
}

/// Returns a whole number with spaces between thousands, or a small one with one decimal.
pub fn number(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202F}');
        }
        text.push(digit);
    }
    text
}

/// Returns a number of bytes as readable text.
pub fn bytes(value: f64) -> String {
    let (mut value, mut unit) = (value, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Returns a time in seconds as readable text.
pub fn seconds(value: f64) -> String {
    let (value, unit) = match value {
        _ if value >= 1.0 => (value, "s"),
        _ if value >= 1e-3 => (value * 1e3, "ms"),
        _ if value > 0.0 => (value * 1e6, "µs"),
        _ => return "0".to_owned(),
    };
    if value < 10.0 && (value.fract() * 10.0).round() != 0.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

impl GraphUnit {
    /// Returns a value as readable text.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Count => number(value),
            Self::Bytes => bytes(value),
            Self::Seconds => seconds(value),
        }
    }

    /// Returns the top of the axis: a round number not below the largest value, whose quarters are
    /// round as well.
    fn ceiling(self, most: f64) -> f64 {
        let least = match self {
            Self::Count => 4.0,
            Self::Bytes => 4096.0,
            Self::Seconds => 1e-3,
        };
        if !most.is_finite() || most <= least {
            return least;
        }
        if self == Self::Bytes {
            return most.log2().ceil().exp2();
        }
        let power = 10f64.powf(most.log10().floor());
        [1.0, 2.0, 4.0, 8.0, 10.0].into_iter().map(|step| step * power).find(|bound| *bound >= most).unwrap_or(most)
    }
}

fn place_x(time: u64, end: u64, span: u64) -> f64 {
    let share = 1.0 - (end.saturating_sub(time) as f64 / span as f64).min(1.0);
    f64::from(LEFT) + share * f64::from(WIDTH - LEFT - 2)
}

fn place_y(value: f64, top: f64) -> f64 {
    let share = (value / top).clamp(0.0, 1.0);
    ((1.0 - share) * f64::from(HEIGHT - TOP - BOTTOM) + f64::from(TOP)).round()
}

/// The CSS classes of the curves.
const CLASSES: [&str; 4] = ["one", "two", "three", "four"];
/// The width and height of the graph, and its margins.
const WIDTH: i32 = 360;
const HEIGHT: i32 = 160;
const LEFT: i32 = 58;
const TOP: i32 = 8;
const BOTTOM: i32 = 22;
/// The shorter periods that the graph of an hour can begin with, in milliseconds.
const SPANS_MS: [u64; 3] = [5 * MINUTE_MS, 15 * MINUTE_MS, 30 * MINUTE_MS];
const MINUTE_MS: u64 = 60_000;
/// The number of the grid's lines, not counting the one at zero.
const PARTS: i32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(values: Vec<Option<f64>>) -> String {
        let times: Vec<_> = (0..values.len() as u64).map(|at| 1_000_000_000 + at * 60_000).collect();
        over(&times, values)
    }

    fn over(times: &[u64], values: Vec<Option<f64>>) -> String {
        let lines = vec![GraphLine { name: "<lines>", values }];
        let language = Language::English;
        Graph { language, title: "A & B", id: "x", times, lines, unit: GraphUnit::Count, range: RANGES[0] }
            .html()
            .into_text()
    }

    #[test]
    fn values_can_be_read_out() {
        let drawn = graph(vec![Some(1.0), None, Some(2500.0)]);
        assert!(drawn.contains("data-values=\";1;–;2\u{202F}500\""), "{drawn}");
        assert!(drawn.contains("data-times=\"1970-01-12T13:46:40Z;1970-01-12T13:47:40Z;"), "{drawn}");
        assert_eq!(drawn.matches("<output class=\"reading\">").count(), 1);
    }

    #[test]
    fn the_time_without_a_server_is_a_gap_with_a_mark() {
        let hour = 3_600_000;
        let drawn = over(&[hour, hour + 5000, 2 * hour, 2 * hour + 5000], vec![Some(1.0); 4]);
        assert_eq!((drawn.matches("<polyline").count(), drawn.matches("class=\"mark\"").count()), (2, 1), "{drawn}");
    }

    #[test]
    fn lines_are_drawn_with_their_gaps() {
        let drawn = graph(vec![Some(1.0), Some(2.0), None, Some(4.0)]);
        assert_eq!(drawn.matches("<polyline").count(), 2, "{drawn}");
        assert!(drawn.contains("A &amp; B") && !drawn.contains("A & B"));
        assert!(!drawn.contains("NaN") && !drawn.contains("style="), "{drawn}");
    }

    #[test]
    fn nothing_and_odd_values_are_drawn_too() {
        for values in [vec![], vec![None], vec![Some(0.0)], vec![Some(f64::INFINITY), Some(f64::NAN), Some(1e300)]] {
            let drawn = graph(values);
            assert!(drawn.contains("</svg>") && !drawn.contains("NaN,") && !drawn.contains(",NaN"), "{drawn}");
        }
    }

    #[test]
    fn values_are_written_for_people() {
        let texts =
            [number(0.0), number(1234567.0), number(2.5), bytes(1536.0), bytes(0.0), seconds(0.00025), seconds(2.0)];
        assert_eq!(texts, ["0", "1\u{202F}234\u{202F}567", "2.5", "1.5 KiB", "0 B", "250 µs", "2 s"]);
        let tops =
            [(GraphUnit::Count, 0.0), (GraphUnit::Count, 41.0), (GraphUnit::Bytes, 5000.0), (GraphUnit::Seconds, 0.3)];
        assert_eq!(tops.map(|(unit, most)| unit.ceiling(most)), [4.0, 80.0, 8192.0, 0.4]);
    }
}
