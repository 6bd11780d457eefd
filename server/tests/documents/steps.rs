//! Draws who hands what to whom, step by step, and by which function of the code.

use std::fmt::Write as _;

/// One arrow of a picture, or a dot where a part works for itself.
pub struct PictureStep {
    /// The numbers of the parts at its ends, from the left.
    pub from: usize,
    pub to: usize,
    /// The function that takes the step: its file, below the sources of a crate, and its name.
    pub by: (&'static str, &'static str),
    /// The reason or the effect, as a short sentence.
    pub says: &'static str,
}

/// A picture with its parts, from the left, and its steps, from above.
pub struct StepPicture {
    pub title: &'static str,
    pub parts: &'static [&'static str],
    pub steps: &'static [PictureStep],
}

/// The distance of two parts and of two steps, and the place at which texts begin, in pixels.
const COLUMN: usize = 96;
const ROW: usize = 42;
const TOP: usize = 64;
const WIDTH: usize = 960;

const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #1c2733 } .part { text-anchor: middle } \
.by { font: 12px ui-monospace, monospace; fill: #4b6178 } \
path { fill: none; stroke: #7189a3; stroke-width: 1.5 } .line { stroke-dasharray: 2 4 } \
circle, polygon { fill: #7189a3 } \
@media (prefers-color-scheme: dark) { text { fill: #e3eaf2 } .by { fill: #a9bbce } \
path { stroke: #8aa2bc } circle, polygon { fill: #8aa2bc } }";

/// Returns the picture as SVG.
pub fn draw(picture: &StepPicture) -> String {
    let StepPicture { title, parts, steps } = picture;
    let middle = |part: usize| COLUMN / 2 + 8 + part * COLUMN;
    let (text, height) = (middle(parts.len()) - 20, TOP + ROW * steps.len() + 8);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n"
    );
    let mut line = |text: String| writeln!(svg, "{text}").expect("a string takes text");
    for (part, name) in parts.iter().enumerate() {
        let (x, words) = (middle(part), name.split('|'));
        for (row, word) in words.enumerate() {
            line(format!("<text class=\"part\" x=\"{x}\" y=\"{}\">{word}</text>", 18 + 16 * row));
        }
        line(format!("<path class=\"line\" d=\"M{x} {}V{height}\"/>", TOP - 20));
    }
    for (row, PictureStep { from, to, by: (file, name), says }) in steps.iter().enumerate() {
        let (x1, x2, y) = (middle(*from), middle(*to), TOP + 14 + ROW * row);
        match from == to {
            true => line(format!("<circle cx=\"{x1}\" cy=\"{y}\" r=\"4\"/>")),
            false => {
                let back = if x1 < x2 { x2 - 8 } else { x2 + 8 };
                line(format!("<path d=\"M{x1} {y}H{back}\"/>"));
                line(format!("<polygon points=\"{x2},{y} {back},{} {back},{}\"/>", y - 4, y + 4));
            }
        }
        line(format!("<text x=\"{text}\" y=\"{}\">{}. {says}</text>", y - 2, row + 1));
        line(format!("<text class=\"by\" x=\"{text}\" y=\"{}\">{file}: {name}</text>", y + 14));
    }
    svg + "</svg>\n"
}
