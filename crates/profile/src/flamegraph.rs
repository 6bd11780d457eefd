//! A profile as a picture (SVG): each function as wide as its share of the samples, above its
//! caller. The drawing is our own, since the usual library has a licence that is incompatible with
//! ours.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::Profile;

/// Returns the picture of a profile.
pub fn draw(profile: &Profile, title: &str) -> String {
    let mut root = FlameFrame::default();
    for (stack, samples) in &profile.stacks {
        root.add(stack, *samples, 0);
    }
    picture(&root, title, None)
}

/// Returns the picture of a profile, coloured by the changes since another profile: red means that
/// the share is larger now, blue that it is smaller, and a darker colour that it has changed more.
pub fn draw_difference(before: &Profile, after: &Profile, title: &str) -> String {
    let mut root = FlameFrame::default();
    for (stack, samples) in &after.stacks {
        root.add(stack, *samples, 0);
    }
    for (stack, samples) in &before.stacks {
        root.add(stack, 0, *samples);
    }
    let all = root.before;
    picture(&root, title, Some(all))
}

/// A function as called from one place, with its callees.
#[derive(Debug, Default)]
struct FlameFrame {
    samples: u64,
    /// Its samples in the earlier profile.
    before: u64,
    calls: BTreeMap<String, FlameFrame>,
}

impl FlameFrame {
    fn add(&mut self, stack: &[String], samples: u64, before: u64) {
        let mut frame = self;
        frame.count(samples, before);
        for name in stack {
            frame = frame.calls.entry(name.clone()).or_default();
            frame.count(samples, before);
        }
    }

    fn count(&mut self, samples: u64, before: u64) {
        self.samples += samples;
        self.before += before;
    }

    fn depth(&self) -> usize {
        let shown = self.calls.values().filter(|frame| frame.samples > 0);
        shown.map(|frame| 1 + frame.depth()).max().unwrap_or_default()
    }

    /// Draws the callees of this frame, one row above it, from `x` to the right.
    fn draw(&self, out: &mut String, x: f64, row: usize, scale: &Scale) {
        let mut x = x;
        for (name, frame) in &self.calls {
            let width = frame.samples as f64 * scale.width;
            if width >= NARROWEST {
                scale.frame(out, name, frame, (x, row, width));
                frame.draw(out, x, row + 1, scale);
            }
            x += width;
        }
    }
}

struct Scale {
    /// The pixels for each sample.
    width: f64,
    all: u64,
    /// The number of samples in the earlier profile, if there is one.
    before: Option<u64>,
    rows: usize,
}

impl Scale {
    fn frame(&self, out: &mut String, name: &str, frame: &FlameFrame, (x, row, width): (f64, usize, f64)) {
        let y = HEAD + (self.rows - row.min(self.rows)) as f64 * ROW;
        let share = 100.0 * frame.samples as f64 / self.all.max(1) as f64;
        let (colour, change) = match self.before {
            None => (colour_of(name), String::new()),
            Some(before) => {
                let growth = share - 100.0 * frame.before as f64 / before.max(1) as f64;
                (colour_of_growth(growth), format!(", {growth:+.1} points"))
            }
        };
        let fits = (width / LETTER) as usize;
        let label: String = name.chars().take(if fits >= 3 { fits } else { 0 }).collect();
        let (name, label) = (escaped(name), escaped(&label));
        let _ = write!(
            out,
            "<g data-n='{name}' data-s='{}'><title>{name}: {} samples, {share:.1} %{change}</title>",
            frame.samples, frame.samples
        );
        let _ = write!(
            out,
            "<rect x='{x:.1}' y='{y:.0}' width='{width:.1}' height='{:.0}' fill='{colour}' stroke='#fff' stroke-width='0.5'/>",
            ROW - 1.0
        );
        if !label.is_empty() {
            let _ = write!(out, "<text x='{:.1}' y='{:.0}'>{label}</text>", x + 2.0, y + ROW - 5.0);
        }
        out.push_str("</g>\n");
    }
}

fn picture(root: &FlameFrame, title: &str, before: Option<u64>) -> String {
    let rows = root.depth() + 1;
    let scale = Scale { width: WIDTH / root.samples.max(1) as f64, all: root.samples, before, rows };
    let height = HEAD + (rows + 1) as f64 * ROW;
    let title = escaped(title);
    let samples = match before {
        None => format!("{} samples", root.samples),
        Some(before) => {
            format!("{} samples, before {before}; red takes a larger share now, blue a smaller one", root.samples)
        }
    };
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-family='monospace' font-size='11'>\n\
         <title>{title}</title>\n<rect width='100%' height='100%' fill='#fdfdf8'/>\n\
         <text x='4' y='16' font-size='14'>{title}</text>\n<text x='4' y='33'>{samples}</text>\n\
         <text id='found' x='{:.0}' y='33' text-anchor='end'></text>\n\
         <text id='search' x='{:.0}' y='16' text-anchor='end' style='cursor:pointer;text-decoration:underline'>search (Ctrl+F)</text>\n",
        WIDTH - 4.0,
        WIDTH - 4.0
    );
    scale.frame(&mut out, "all", root, (0.0, 0, WIDTH));
    root.draw(&mut out, 0.0, 1, &scale);
    let _ = writeln!(out, "<script><![CDATA[\n{SCRIPT}]]></script>");
    out + "</svg>\n"
}

/// Returns a warm colour for a function, always the same for its name.
fn colour_of(name: &str) -> String {
    let hue = name.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte))) % 45;
    format!("hsl({hue},75%,65%)")
}

/// Returns the colour of a share that has grown by this number of percentage points.
fn colour_of_growth(points: f64) -> String {
    let hue = if points > 0.0 { 5 } else { 215 };
    let light = 95.0 - 5.0 * points.abs().min(8.0);
    format!("hsl({hue},75%,{light:.0}%)")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;")
}

/// A script that marks the functions whose names match a search, and shows their share. Callees of
/// a match aren't counted again.
const SCRIPT: &str = include_str!("flamegraph.js");
/// The width of the picture in pixels.
const WIDTH: f64 = 1400.0;
const HEAD: f64 = 40.0;
const ROW: f64 = 17.0;
const LETTER: f64 = 6.7;
const NARROWEST: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_shares_and_names_are_harmless() {
        let profile = Profile::from_folded("main;a<b>& 3\nmain;other 1").expect("a profile");
        let svg = draw(&profile, "Here & now");
        assert!(svg.contains("a&lt;b&gt;&amp;: 3 samples, 75.0 %<"), "{svg}");
        assert!(svg.contains("width='1050.0'") && svg.contains("width='350.0'"), "{svg}");
        assert!(svg.contains(">Here &amp; now</text>") && svg.contains(">4 samples</text>"), "{svg}");
    }

    #[test]
    fn what_takes_more_is_red_and_what_takes_less_is_blue() {
        let before = Profile::from_folded("t;a 5\nt;b 5\nt;gone 0").expect("a profile");
        let after = Profile::from_folded("t;a 15\nt;b 5").expect("a profile");
        let svg = draw_difference(&before, &after, "");
        let of = |name: &str| svg.lines().find(|line| line.contains(&format!("data-n='{name}'"))).unwrap_or_default();
        assert!(of("a").contains("15 samples, 75.0 %, +25.0 points") && of("a").contains("hsl(5,75%,55%)"), "{svg}");
        assert!(of("b").contains("-25.0 points") && of("b").contains("hsl(215,75%,55%)"), "{svg}");
        assert_eq!(of("gone"), "");
    }
}
