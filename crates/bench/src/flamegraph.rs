//! Sampled stacks as a picture: each function as wide as its share of the samples, above its
//! caller.
//!
//! Stacks are walked by frame pointers, which is safe wherever the signal comes; so the build has
//! to keep them (`.cargo/config.toml`). The picture is our own: the library that others draw it
//! with has a licence that doesn't go with ours.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use crate::Outcome;

/// Samples this process until it is finished.
pub struct Sampler {
    guard: ProfilerGuard<'static>,
    file: PathBuf,
}

impl Sampler {
    /// Begins to sample, for a picture in that file.
    ///
    /// # Errors
    /// When the file can't be written, or the system gives no timer.
    pub fn start(file: &Path) -> Outcome<Sampler> {
        // Now rather than after a long run.
        File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let guard = ProfilerGuardBuilder::default().frequency(PER_SECOND).build()?;
        Ok(Sampler { guard, file: file.to_owned() })
    }

    /// Writes the picture; returns its path.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn finish(self) -> Outcome<PathBuf> {
        let report = self.guard.report().build()?;
        let mut root = Frame::default();
        for (stack, &count) in &report.data {
            // Innermost first, and inlined functions within each frame.
            let names = stack.frames.iter().rev().flat_map(|frame| frame.iter().rev().map(|symbol| symbol.name()));
            root.add(names.map(shortened), u64::try_from(count).unwrap_or_default());
        }
        fs::write(&self.file, picture(&root))?;
        Ok(self.file)
    }
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A function as it was called from one place.
#[derive(Debug, Default)]
struct Frame {
    samples: u64,
    calls: BTreeMap<String, Frame>,
}

impl Frame {
    fn add(&mut self, stack: impl Iterator<Item = String>, samples: u64) {
        self.samples += samples;
        let mut frame = self;
        for name in stack {
            frame = frame.calls.entry(name).or_default();
            frame.samples += samples;
        }
    }

    fn depth(&self) -> usize {
        self.calls.values().map(|frame| 1 + frame.depth()).max().unwrap_or_default()
    }

    /// Draws what this frame calls, from the left at `x`, one row above.
    fn draw(&self, out: &mut String, x: f64, row: usize, scale: &Scale) {
        let mut x = x;
        for (name, frame) in &self.calls {
            let width = frame.samples as f64 * scale.width;
            if width >= NARROWEST {
                scale.frame(out, name, frame.samples, x, row, width);
                frame.draw(out, x, row + 1, scale);
            }
            x += width;
        }
    }
}

struct Scale {
    /// Pixels of a sample.
    width: f64,
    all: u64,
    rows: usize,
}

impl Scale {
    fn frame(&self, out: &mut String, name: &str, samples: u64, x: f64, row: usize, width: f64) {
        let y = (self.rows - row.min(self.rows)) as f64 * ROW;
        let share = 100.0 * samples as f64 / self.all.max(1) as f64;
        let hue = name.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte))) % 45;
        let fits = (width / LETTER) as usize;
        let name = escaped(name);
        let _ = write!(out, "<g><title>{name}: {samples} samples, {share:.1} %</title>");
        let _ = write!(
            out,
            "<rect x='{x:.1}' y='{y:.0}' width='{width:.1}' height='{:.0}' fill='hsl({hue},75%,65%)' stroke='#fff' stroke-width='0.5'/>",
            ROW - 1.0
        );
        if fits >= 3 {
            let label: String = name.chars().take(fits).collect();
            // Not in the middle of a reference.
            let label = label
                .rfind('&')
                .filter(|&at| !label.get(at..).unwrap_or_default().contains(';'))
                .map_or(&*label, |at| label.get(..at).unwrap_or_default());
            let _ = write!(out, "<text x='{:.1}' y='{:.0}'>{label}</text>", x + 2.0, y + ROW - 5.0);
        }
        out.push_str("</g>\n");
    }
}

fn picture(root: &Frame) -> String {
    let rows = root.depth() + 1;
    let scale = Scale { width: WIDTH / root.samples.max(1) as f64, all: root.samples, rows };
    let height = (rows + 1) as f64 * ROW;
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-family='monospace' font-size='11'>\n\
         <rect width='100%' height='100%' fill='#fdfdf8'/>\n"
    );
    scale.frame(&mut out, "all", root.samples, 0.0, 0, WIDTH);
    root.draw(&mut out, 0.0, 1, &scale);
    out + "</svg>\n"
}

/// Removes generic arguments and the hash from a symbol: they tell little in a picture.
fn shortened(name: String) -> String {
    let end = name.rfind("::h").filter(|at| name.len() - at == 19).unwrap_or(name.len());
    let (mut depth, mut out) = (0, String::new());
    for letter in name.get(..end).unwrap_or(&name).chars() {
        match letter {
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            letter if depth <= 1 => out.push(letter),
            _ => {}
        }
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;")
}

/// Not a round number, so that it doesn't beat with what the program does at round ones.
const PER_SECOND: i32 = 997;
/// Pixels.
const WIDTH: f64 = 1400.0;
const ROW: f64 = 17.0;
const LETTER: f64 = 6.7;
const NARROWEST: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_shares_and_names_are_harmless() {
        let mut root = Frame::default();
        root.add(["main", "a<b>&"].map(str::to_owned).into_iter(), 3);
        root.add(["main", "other"].map(str::to_owned).into_iter(), 1);
        let svg = picture(&root);
        assert!(svg.contains("a&lt;b&gt;&amp;: 3 samples, 75.0 %"), "{svg}");
        assert!(svg.contains("width='1050.0'") && svg.contains("width='350.0'"), "{svg}");
        assert_eq!(root.depth(), 2);
        assert_eq!(
            shortened("<alloc::vec::Vec<T,A> as X>::push::h0123456789abcdef".into()),
            "alloc::vec::Vec as X::push"
        );
    }
}
