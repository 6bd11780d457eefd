//! Builds HTML in which nothing that users provide can become a tag: templates are in the code, and
//! everything inserted into them is escaped.

use std::fmt::{Display, Write};

/// A piece of HTML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Html(String);

impl Html {
    /// Returns a template with its `{}` filled by these values, escaped.
    pub fn of(template: &'static str, values: &[&dyn Display]) -> Self {
        let mut html = Self::default();
        html.add(template, values);
        html
    }

    /// Adds a template with its `{}` filled by these values, escaped. A missing value is empty.
    pub fn add(&mut self, template: &'static str, values: &[&dyn Display]) {
        self.fill(template, &mut values.iter());
    }

    /// Adds a text of a catalogue in the same way; text between backticks becomes code.
    pub fn text(&mut self, text: &'static str, values: &[&dyn Display]) {
        let mut values = values.iter();
        for (at, part) in text.split('`').enumerate() {
            let is_code = at % 2 == 1;
            self.0.push_str(if is_code { "<code>" } else { "" });
            self.fill(part, &mut values);
            self.0.push_str(if is_code { "</code>" } else { "" });
        }
    }

    /// Adds a composed text, escaped; text between backticks becomes code.
    pub fn prose(&mut self, words: &str) {
        for (at, part) in words.split('`').enumerate() {
            match at % 2 == 1 {
                true => self.add("<code>{}</code>", &[&part]),
                false => self.add("{}", &[&part]),
            }
        }
    }

    fn fill(&mut self, template: &'static str, values: &mut std::slice::Iter<'_, &dyn Display>) {
        for (at, piece) in template.split("{}").enumerate() {
            if at > 0
                && let Some(value) = values.next()
            {
                // Writing to a string can't fail.
                let _ = write!(Escaping(&mut self.0), "{value}");
            }
            self.0.push_str(piece);
        }
    }

    /// Adds another piece.
    pub fn push(&mut self, other: &Html) {
        self.0.push_str(&other.0);
    }

    /// Returns the whole HTML as text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Escapes everything written through it: for text and for attribute values in double quotes.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for char in text.chars() {
            match char {
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '&' => self.0.push_str("&amp;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // A null character would end the document for some readers, and HTML can't express
                // it.
                '\0' => self.0.push('\u{FFFD}'),
                char => self.0.push(char),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_values() {
        let evil = "\"><script>alert('x') & {}</script>\0";
        let html = Html::of("<a href=\"{}\">{}</a>{}", &[&evil, &7]).into_text();
        let escaped = "&quot;&gt;&lt;script&gt;alert(&#39;x&#39;) &amp; {}&lt;/script&gt;\u{FFFD}";
        assert_eq!(html, format!("<a href=\"{escaped}\">7</a>"));
    }

    #[test]
    fn code_is_marked_and_stays_text() {
        let mut html = Html::default();
        html.text("Set `{} = 1` in {}.", &[&"<a>", &"`b`"]);
        html.prose(" A `<b>` & an open `end");
        let wanted = "Set <code>&lt;a&gt; = 1</code> in `b`. A <code>&lt;b&gt;</code> &amp; an open <code>end</code>";
        assert_eq!(html.into_text(), wanted);
    }

    #[test]
    fn pieces_are_put_together() {
        let mut html = Html::of("<p>{}</p>", &[&"a"]);
        html.push(&Html::of("<p>{}</p>", &[&"b"]));
        assert_eq!(html.into_text(), "<p>a</p><p>b</p>");
    }
}
