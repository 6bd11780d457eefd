//! Graphs: lines over the last hour, as SVG.

use crate::html::Html;

/// A graph.
#[derive(Debug)]
pub struct Graph<'a> {
    /// Its title in the page.
    pub title: &'a str,
    /// Its id in the page.
    pub id: &'a str,
    /// The time of each value, in milliseconds since 1970, oldest first.
    pub times: &'a [u64],
    /// The lines, four at most; each has as many values as there are times.
    pub lines: Vec<GraphLine<'a>>,
    /// The unit of its values.
    pub unit: Unit,
}

/// The unit of values, and so the form in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things, or things per second.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// A line.
#[derive(Debug)]
pub struct GraphLine<'a> {
    /// Its name in the key.
    pub name: &'a str,
    /// Its values; `None` where there is none, and the line has a gap.
    pub values: Vec<Option<f64>>,
}

impl Graph<'_> {
    /// Returns the figure: its title, the newest values, the lines with their axes.
    pub fn html(&self) -> Html {
        let mut html = Html::of(
            "<figure class=\"graph card\" id=\"{}\"><figcaption>{}<span class=\"now\">",
            &[&self.id, &self.title],
        );
        let newest: Vec<_> = self.lines.iter().map(|line| line.values.last().copied().flatten()).collect();
        let written: Vec<_> =
            newest.iter().map(|value| value.map_or("–".to_owned(), |value| self.unit.write(value))).collect();
        html.add("{}</span></figcaption>", &[&written.join(" · ")]);
        html.push(&self.svg());
        if self.lines.len() > 1 {
            html.add("<div class=\"key\">", &[]);
            for (line, class) in self.lines.iter().zip(CLASSES) {
                html.add("<span class=\"{}\">{}</span>", &[&class, &line.name]);
            }
            html.add("</div>", &[]);
        }
        html.add("</figure>", &[]);
        html
    }

    /// Returns the length of the past that is shown, in milliseconds: from five minutes to an hour,
    /// as much as there is.
    fn span(&self) -> u64 {
        let (first, last) = (self.times.first().copied(), self.times.last().copied());
        let there = last.unwrap_or_default().saturating_sub(first.unwrap_or_default());
        SPANS_MS.into_iter().find(|span| *span >= there).unwrap_or(3_600_000)
    }

    fn svg(&self) -> Html {
        let top = self
            .unit
            .ceiling(self.lines.iter().flat_map(|line| line.values.iter().flatten()).copied().fold(0.0, f64::max));
        let span = self.span();
        let label = format!("{}, the last {} minutes, up to {}", self.title, span / 60_000, self.unit.write(top));
        let mut svg =
            Html::of("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", &[&WIDTH, &HEIGHT, &label]);
        for part in 0..=PARTS {
            let value = top * f64::from(part) / f64::from(PARTS);
            let y = place_y(value, top);
            svg.add("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", &[&LEFT, &WIDTH, &y, &y]);
            svg.add(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                &[&(LEFT - 6), &(y + 4.0), &self.unit.write(value)],
            );
        }
        let end = self.times.last().copied().unwrap_or_default();
        let (bottom, right) = (HEIGHT - 4, WIDTH - 2);
        svg.add("<text x=\"{}\" y=\"{}\">−{} min</text>", &[&LEFT, &bottom, &(span / 60_000)]);
        svg.add("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">now</text>", &[&right, &bottom]);
        for (line, class) in self.lines.iter().zip(CLASSES) {
            for points in self.pieces(line, (end, span), top) {
                svg.add("<polyline class=\"{}\" points=\"{}\"/>", &[&class, &points]);
            }
        }
        svg.add("</svg>", &[]);
        svg
    }

    /// Returns the points of a line, without its gaps. Several samples in one place of the graph
    /// count as their largest.
    fn pieces(&self, line: &GraphLine<'_>, (end, span): (u64, u64), top: f64) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut piece: Vec<(f64, f64)> = Vec::new();
        for (&time, value) in self.times.iter().zip(&line.values) {
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
            // A single point would not be seen.
            if let [(x, y)] = piece[..] {
                piece.push((x + 1.0, y));
            }
            piece.iter().map(|(x, y)| format!("{x:.0},{y:.1}")).collect::<Vec<_>>().join(" ")
        });
        written.collect()
    }
}

/// Returns a whole number with blanks between thousands, or a small one with a digit behind the
/// point.
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

/// Returns a number of bytes as people read it.
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

/// Returns a time in seconds as people read it.
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

impl Unit {
    /// Returns a value as people read it.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Count => number(value),
            Self::Bytes => bytes(value),
            Self::Seconds => seconds(value),
        }
    }

    /// Returns a round number that is not below the largest value, and whose quarters are round as
    /// well.
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

/// Classes of the lines.
const CLASSES: [&str; 4] = ["one", "two", "three", "four"];
/// The width and height of the graph, and its margins.
const WIDTH: i32 = 360;
const HEIGHT: i32 = 160;
const LEFT: i32 = 58;
const TOP: i32 = 8;
const BOTTOM: i32 = 22;
/// Lines of the grid, but for the zero.
const PARTS: i32 = 4;
/// The lengths of the past that may be shown, in milliseconds.
const SPANS_MS: [u64; 4] = [300_000, 900_000, 1_800_000, 3_600_000];

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(values: Vec<Option<f64>>) -> String {
        let times: Vec<_> = (0..values.len() as u64).map(|at| 1_000_000_000 + at * 60_000).collect();
        let lines = vec![GraphLine { name: "<lines>", values }];
        Graph { title: "A & B", id: "x", times: &times, lines, unit: Unit::Count }.html().into_text()
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
        let tops = [(Unit::Count, 0.0), (Unit::Count, 41.0), (Unit::Bytes, 5000.0), (Unit::Seconds, 0.3)];
        assert_eq!(tops.map(|(unit, most)| unit.ceiling(most)), [4.0, 80.0, 8192.0, 0.4]);
    }
}
