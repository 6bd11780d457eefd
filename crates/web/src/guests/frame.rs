//! The frame that these pages have in common.

use hyper::{Response, StatusCode};

use super::words::Words;
use crate::html::Html;
use crate::language::Language;
use crate::reply::{Body, reply};

/// A page for a visitor.
#[derive(Debug)]
pub struct GuestFrame {
    /// The language of the page.
    pub language: Language,
    /// The name of the server.
    pub server: String,
}

impl GuestFrame {
    /// Returns the texts of the page.
    pub fn words(&self) -> &'static Words {
        self.language.words()
    }

    /// Returns the page with this content.
    pub fn response(&self, status: StatusCode, title: &str, main: &Html) -> Response<Body> {
        reply(status, "text/html; charset=utf-8", self.whole(title, main).into_text())
    }

    /// Returns a page with a message, and a link to the first page.
    pub fn say(&self, status: StatusCode, title: &str, text: &str) -> Response<Body> {
        let main = Html::of(
            "<section class=\"card\"><h1>{}</h1><p>{}</p><p><a href=\"/\">{}</a></p></section>",
            &[&title, &text, &self.words().to_home],
        );
        self.response(status, title, &main)
    }

    /// Returns the title of a page in the browser: with the name of the server, once.
    fn title_of(&self, title: &str) -> String {
        if title == self.server { title.to_owned() } else { format!("{title} – {}", self.server) }
    }

    fn whole(&self, title: &str, main: &Html) -> Html {
        let mut html = Html::of(
            "<!DOCTYPE html>\n<html lang=\"{}\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><meta name=\"robots\" content=\"noindex\">\
             <title>{}</title><link rel=\"icon\" href=\"/logo\">\
             <link rel=\"stylesheet\" href=\"/pages/style.css\">\
             <script src=\"/pages/script.js\" defer></script></head><body>",
            &[&self.language.tag(), &self.title_of(title)],
        );
        html.add(
            "<a class=\"skip\" href=\"#main\">{}</a><header><a class=\"brand\" href=\"/\">\
             <img src=\"/logo\" alt=\"\" width=\"28\" height=\"28\">{}</a></header><main id=\"main\">",
            &[&self.words().skip, &self.server],
        );
        html.push(main);
        html.add("</main></body></html>\n", &[]);
        html
    }
}

/// Returns a time, which the script shows in the reader's time zone.
pub fn time(unix_ms: u64) -> Html {
    let stamp = rookery_base::date::timestamp(unix_ms);
    let shown = stamp.replace('T', " ").trim_end_matches('Z').to_owned();
    let minutes = shown.rsplit_once(':').map_or(shown.as_str(), |(minutes, _)| minutes);
    Html::of("<time datetime=\"{}\">{} UTC</time>", &[&stamp, &minutes])
}

/// A field of a form, with the mistake in it.
pub struct GuestField<'a> {
    /// Its name in the form, from which its ids are made.
    pub name: &'static str,
    /// The text above it.
    pub label: &'a str,
    /// The rule for it, with its `{}` filled.
    pub rule: Option<Html>,
    /// The mistake in the input, with its `{}` filled.
    pub fault: Option<Html>,
    /// Its initial content.
    pub value: &'a str,
    /// True if it can't be changed.
    pub is_fixed: bool,
    /// The least number of characters of a password; `None` if it isn't a password.
    pub least: Option<u64>,
}

impl GuestField<'_> {
    /// Returns the field as HTML. With `is_first`, the page has its focus there.
    pub fn html(&self, is_first: bool) -> Html {
        let name = self.name;
        let mut html = Html::of("<div class=\"field\"><label for=\"{}\">{}</label>", &[&name, &self.label]);
        let (mut described, mut below) = (Vec::new(), Html::default());
        if let Some(fault) = &self.fault {
            described.push(format!("{name}-fault"));
            below.add("<p class=\"fault\" id=\"{}-fault\">", &[&name]);
            below.push(fault);
            below.add("</p>", &[]);
        }
        if let Some(rule) = &self.rule {
            described.push(format!("{name}-rule"));
            below.add("<p class=\"faint\" id=\"{}-rule\">", &[&name]);
            below.push(rule);
            below.add("</p>", &[]);
        }
        html.add(
            "<input id=\"{}\" name=\"{}\" required aria-describedby=\"{}\"",
            &[&name, &name, &described.join(" ")],
        );
        match self.least {
            Some(least) => {
                html.add(
                    " type=\"password\" autocomplete=\"new-password\" minlength=\"{}\" maxlength=\"{}\"",
                    &[&least, &MAX_PASSWORD],
                );
            }
            None => {
                html.add(
                    " value=\"{}\" autocomplete=\"username\" autocapitalize=\"none\" spellcheck=\"false\"",
                    &[&self.value],
                );
            }
        }
        for (is_on, attribute) in [
            (self.is_fixed, " readonly"),
            (self.fault.is_some(), " aria-invalid=\"true\""),
            (is_first && !self.is_fixed, " autofocus"),
        ] {
            if is_on {
                html.add(attribute, &[]);
            }
        }
        html.add(">", &[]);
        html.push(&below);
        html.add("</div>", &[]);
        html
    }
}

/// The most characters of a password.
pub const MAX_PASSWORD: usize = 1023;
/// The style of all pages.
pub const STYLE: &str = concat!(include_str!("../palette.css"), include_str!("style.css"));
/// The script: it shows times in the reader's zone, and passwords on request. Nothing depends
/// on it.
pub const SCRIPT: &str = include_str!("script.js");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_the_name_of_the_server_once() {
        let frame = GuestFrame { language: Language::English, server: "a.example".into() };
        assert_eq!(
            (frame.title_of("a.example"), frame.title_of("Hello")),
            ("a.example".into(), "Hello – a.example".into())
        );
    }
}
