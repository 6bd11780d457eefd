//! The frame of all pages: the head, the links to the other pages, the outcome of the last form.

use hyper::{Response, StatusCode};
use rookery_base::date;

use super::visits::{Notice, Returned, Seen};
use crate::guests::qr;
use crate::html::Html;
use crate::language::Language;
use crate::reply::{Body, reply};
use crate::words::AdminWords;

/// One entry of the menu, with the path that it leads to.
pub struct MenuPage {
    /// Its path, after the prefix.
    pub path: &'static str,
    /// Its name, in a language.
    pub name: fn(&AdminWords) -> &'static str,
    id: &'static str,
}

/// The pages of the menu, in its order.
pub const PAGES: [MenuPage; 10] = [
    MenuPage { path: "", name: |words| words.overview, id: "to-overview" },
    MenuPage { path: "/users", name: |words| words.users, id: "to-users" },
    MenuPage { path: "/sessions", name: |words| words.sessions, id: "to-sessions" },
    MenuPage { path: "/rooms", name: |words| words.rooms, id: "to-rooms" },
    MenuPage { path: "/domains", name: |words| words.domains, id: "to-domains" },
    MenuPage { path: "/servers", name: |words| words.servers, id: "to-servers" },
    MenuPage { path: "/messages", name: |words| words.messages, id: "to-messages" },
    MenuPage { path: "/invitations", name: |words| words.invitations, id: "to-invitations" },
    MenuPage { path: REPORTS, name: |words| words.reports, id: "to-reports" },
    MenuPage { path: "/log", name: |words| words.log, id: "to-log" },
];

/// The path of the reports of abuse.
pub const REPORTS: &str = "/reports";

/// A frame for a page.
pub(crate) struct AdminFrame<'a> {
    /// The language of the page.
    pub language: Language,
    /// The path of the page, after the prefix.
    pub path: &'a str,
    /// The title, as text that is not escaped yet.
    pub title: &'a str,
    /// The visitor, if they are signed in.
    pub seen: Option<&'a Seen>,
    /// A message at the top of the page.
    pub notice: Option<Notice>,
    /// Reports of abuse that wait for the visitor.
    pub reports: usize,
}

impl AdminFrame<'_> {
    /// Returns the page with this content.
    pub fn response(&self, status: StatusCode, main: &Html) -> Response<Body> {
        reply(status, "text/html; charset=utf-8", self.whole(main).into_text())
    }

    fn whole(&self, main: &Html) -> Html {
        let mut html = Html::of(
            "<!DOCTYPE html>\n<html lang=\"{}\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><meta name=\"robots\" content=\"noindex\">\
             <title>{} – Rookery</title><link rel=\"icon\" href=\"/logo\"><link rel=\"stylesheet\" href=\"/admin/style.css\">\
             <script src=\"/admin/script.js\" defer></script></head>",
            &[&self.language.tag(), &self.title],
        );
        let words = self.words();
        html.add(
            "<body data-copy=\"{}\" data-copied=\"{}\" data-show=\"{}\" data-hide=\"{}\" data-make-up=\"{}\">",
            &[&words.copy, &words.copied, &words.show_password, &words.hide_password, &words.make_up],
        );
        html.add("<a class=\"skip\" href=\"#main\">{}</a>", &[&words.skip]);
        if let Some(seen) = self.seen {
            html.push(&self.header(seen));
        }
        html.add("<main id=\"main\">", &[]);
        if let Some(notice) = &self.notice {
            html.push(&notice_html(words, notice));
        }
        html.push(main);
        html.add("</main></body></html>\n", &[]);
        html
    }

    fn words(&self) -> &'static AdminWords {
        self.language.of_administrators()
    }

    fn header(&self, seen: &Seen) -> Html {
        let words = self.words();
        let mut html =
            Html::of("<header><a class=\"brand\" href=\"/admin\">Rookery</a><nav aria-label=\"{}\">", &[&words.pages]);
        let part = match self.path {
            "/user" => "/users",
            "/room" => "/rooms",
            "/records" => "/domains",
            path => path,
        };
        for page in PAGES {
            let current = if page.path == part { "page" } else { "false" };
            html.add(
                "<a id=\"{}\" href=\"/admin{}\" aria-current=\"{}\">{}",
                &[&page.id, &page.path, &current, &(page.name)(words)],
            );
            if page.path == REPORTS && self.reports > 0 {
                html.add(" <span class=\"count\">{}</span>", &[&self.reports]);
            }
            html.add("</a>", &[]);
        }
        html.add("</nav><form class=\"who\" method=\"post\" action=\"/admin/logout\">", &[]);
        html.push(&token(seen));
        html.add(
            "<span id=\"who\">{}</span><button id=\"sign-out\" class=\"quiet\">{}</button></form></header>",
            &[&seen.account, &words.sign_out],
        );
        html
    }
}

/// Returns the token that a form has to carry.
pub fn token(seen: &Seen) -> Html {
    Html::of("<input type=\"hidden\" name=\"csrf\" value=\"{}\">", &[&seen.token])
}

/// Returns the choice of a domain, if there are several.
pub(crate) fn domain_choice(words: &AdminWords, domains: &[String], chosen: &str) -> Html {
    if let [domain] = domains {
        return Html::of("<input type=\"hidden\" name=\"domain\" value=\"{}\">", &[domain]);
    }
    let mut html = Html::of("<label>{} <select name=\"domain\">", &[&words.domain]);
    for domain in domains {
        match domain == chosen {
            true => html.add("<option selected>{}</option>", &[domain]),
            false => html.add("<option>{}</option>", &[domain]),
        }
    }
    html.add("</select></label>", &[]);
    html
}

/// Returns a time as readable text: the script shows it in the reader's time zone, with UTC as a
/// tooltip. `unix_ms` is in milliseconds since 1970.
pub fn moment(unix_ms: u64) -> Html {
    Html::of("<time datetime=\"{}\">{}</time>", &[&date::timestamp(unix_ms), &utc(unix_ms)])
}

/// Returns a time whose distance matters: if it is less than a day, the script shows the
/// distance, with the time as a tooltip.
pub fn away(unix_ms: u64) -> Html {
    Html::of("<time class=\"away\" datetime=\"{}\">{}</time>", &[&date::timestamp(unix_ms), &utc(unix_ms)])
}

/// Returns a time as text, for pages without the script.
pub fn utc(unix_ms: u64) -> String {
    format!("{} UTC", date::timestamp(unix_ms).replace('T', " ").trim_end_matches('Z'))
}

fn notice_html(words: &AdminWords, notice: &Notice) -> Html {
    let (class, role) = if notice.is_error { ("notice bad", "alert") } else { ("notice good", "status") };
    let mut html = Html::of("<div id=\"notice\" class=\"{}\" role=\"{}\"><p>", &[&class, &role]);
    match notice.returned.as_ref().and_then(Returned::place) {
        Some(place) => {
            html.add("<a href=\"#{}\">", &[&place]);
            html.prose(&notice.words);
            html.add("</a></p>", &[]);
        }
        None => {
            html.prose(&notice.words);
            html.add("</p>", &[]);
        }
    }
    if let Some(copy) = &notice.copy {
        html.add("<p><code id=\"copy\">{}</code></p>", &[copy]);
        if let Some(mail) = &notice.mail {
            html.add("<p><a id=\"mail\" href=\"{}\">{}</a></p>", &[mail, &words.by_mail]);
        }
        if let Some(code) = qr::code(copy, words.qr_label) {
            html.push(&code);
        }
    }
    html.add("</div>", &[]);
    html
}

/// The style of all pages.
pub const STYLE: &str = concat!(include_str!("../palette.css"), include_str!("style.css"));
/// The script: it updates the graphs, shows times in the reader's zone and helps with passwords.
/// Nothing depends on it.
pub const SCRIPT: &str = include_str!("script.js");
