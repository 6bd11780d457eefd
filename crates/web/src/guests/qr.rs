//! QR codes (ISO/IEC 18004), as SVG in the page.

use qrcode::{Color, EcLevel, QrCode};

use crate::html::Html;

/// Returns a code of a text, with `label` as the alternative text; `None` if the text is
/// longer than a code can be.
pub fn code(text: &str, label: &str) -> Option<Html> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
    let width = code.width();
    let mut path = String::new();
    for (at, _) in code.into_colors().iter().enumerate().filter(|(_, color)| **color == Color::Dark) {
        let (x, y) = (at % width + QUIET, at / width + QUIET);
        path.push_str(&format!("M{x} {y}h1v1h-1z"));
    }
    let size = width + 2 * QUIET;
    let mut html =
        Html::of("<svg class=\"qr\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\">", &[&label, &size, &size]);
    // Readers need dark on light, whatever the page's colours are.
    html.add(
        "<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/><path fill=\"#000\" d=\"{}\"/></svg>",
        &[&size, &size, &path],
    );
    Some(html)
}

/// The light modules around a code (§6.3.8).
const QUIET: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_finders_and_a_margin() {
        let html = code("https://example.org/invite/x", "a \"code\"").unwrap().into_text();
        assert!(html.contains("aria-label=\"a &quot;code&quot;\""), "{html}");
        // Version 3 has 29 modules, and the finders have 7.
        assert!(html.contains("viewBox=\"0 0 37 37\""), "{html}");
        for corner in ["M4 4h", "M26 4h", "M4 26h"] {
            assert!(html.contains(corner), "{corner}");
        }
        assert_eq!(code(&"x".repeat(5000), ""), None);
    }
}
