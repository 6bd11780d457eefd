//! The style sheet of a report: dark or light according to the reader's system.

use std::fmt::Write;

use plotters::style::RGBColor;

use crate::report::plot::{CURVES, GRID, INK};

/// Returns the whole style sheet.
pub(super) fn sheet() -> String {
    let mut out = String::from(":root{color-scheme:light dark;");
    variables(&mut out, LIGHT, CURVES.map(code));
    out.push_str("}\n@media(prefers-color-scheme:dark){:root{");
    variables(&mut out, DARK, DARK_CURVES.map(str::to_owned));
    out.push_str("}}\n");
    let (ink, grid) = (code(INK), code(GRID));
    let _ = write!(out, "svg [fill=\"{ink}\"]{{fill:var(--soft)}}\nsvg [stroke=\"{grid}\"]{{stroke:var(--line)}}\n");
    for (number, colour) in CURVES.map(code).iter().enumerate() {
        let _ = writeln!(out, "svg [stroke=\"{colour}\"]{{stroke:var(--c{number})}}");
        let _ = writeln!(out, "svg [fill=\"{colour}\"]{{fill:var(--c{number})}}");
        let _ = writeln!(out, ".c{number}{{background:var(--c{number})}}");
    }
    out + RULES
}

/// Returns the class of a curve's colour.
pub(super) fn class(colour: usize) -> String {
    format!("c{}", colour % CURVES.len())
}

fn variables(out: &mut String, names: [&str; 6], curves: [String; 12]) {
    for (name, value) in ["ink", "soft", "line", "page", "card", "bad"].iter().zip(names) {
        let _ = write!(out, "--{name}:{value};");
    }
    for (number, value) in curves.iter().enumerate() {
        let _ = write!(out, "--c{number}:{value};");
    }
}

/// Returns a colour in the form of the SVG backend.
fn code(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

const LIGHT: [&str; 6] = ["#16202b", "#55616e", "#dfe4ea", "#f5f7f9", "#ffffff", "#b3261e"];
const DARK: [&str; 6] = ["#e8edf2", "#a3afbb", "#323c47", "#11161c", "#1a2129", "#ff8a80"];
/// The same hues, lighter.
const DARK_CURVES: [&str; 12] = [
    "#4aa8e8", "#ff9147", "#3ecfa0", "#a9a9a9", "#e79ac6", "#d9bc3a", "#8fd3f7", "#b78be6", "#ff6f94", "#35b6cc",
    "#b3d65c", "#cc9b78",
];

const RULES: &str = "\
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}
main{max-width:1280px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;margin:0 0 4px}
h2{font-size:21px;margin:48px 0 10px;padding-top:18px;border-top:1px solid var(--line)}
h3{font-size:14px;font-weight:600;margin:0 0 6px}
p{margin:4px 0}
.soft{color:var(--soft)}
.legend{display:flex;flex-wrap:wrap;gap:6px 20px;margin:10px 0 14px}
.legend i{display:inline-block;width:14px;height:14px;border-radius:3px;margin-right:7px;vertical-align:-2px}
.grid{display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(270px,100%),1fr));margin:14px 0}
.plots{grid-template-columns:repeat(auto-fill,minmax(min(460px,100%),1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px;min-width:0}
.card svg{display:block;width:100%;height:auto}
svg text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif}
.big{font-size:26px;font-weight:650;font-variant-numeric:tabular-nums}
.bars{display:grid;grid-template-columns:auto 1fr auto;gap:5px 10px;align-items:center;font-size:13px}
.bars span{overflow-wrap:anywhere;max-width:9em}
.bars b{font-variant-numeric:tabular-nums;text-align:right;font-weight:600;white-space:nowrap}
.bars>div{background:var(--line);border-radius:4px;height:9px}
.bars>div>div{border-radius:4px;height:100%}
.wide{overflow-x:auto;margin:14px 0}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:4px 14px 4px 0;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left}
th{font-weight:600}
.differs td{font-weight:650;color:var(--bad)}
.result{font-size:17px;max-width:60em}
nav{margin:18px 0}
nav h2{margin:0 0 6px;padding:0;border:0}
a{color:inherit}
.spread{font-size:12px;margin:8px 0 0}
h3 .soft{font-weight:400;font-size:12px}
.method{max-width:60em}
.warn{border-left:4px solid var(--bad);color:var(--bad);font-weight:600;padding:6px 12px;margin:8px 0;background:var(--card);overflow-wrap:anywhere}
ul{margin:8px 0;padding-left:20px;overflow-wrap:anywhere}
details{margin:12px 0}
summary{cursor:pointer;font-weight:600}
@media print{body{background:#fff}details{display:block}.card{break-inside:avoid}}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_of_a_plot_is_mapped_and_nothing_is_loaded() {
        let sheet = sheet();
        for number in 0..CURVES.len() {
            assert_eq!(sheet.matches(&format!("--c{number}:")).count(), 2);
            assert_eq!(sheet.matches(&format!("var(--c{number})")).count(), 3);
        }
        assert!(!sheet.contains("url(") && !sheet.contains("@import") && !sheet.contains('<'));
    }
}
