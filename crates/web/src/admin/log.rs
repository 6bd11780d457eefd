//! The log of administrators' actions, of their logins, and of other users' logins and failures to
//! log in.

use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use hyper::{Response, StatusCode};
use rookery_base::date::timestamp_ms;
use rookery_jid::Jid;
use rookery_operations::Outcome;
use rookery_operations::action_log::Entry;
use rookery_operations::logins::RecentLogin;
use serde_json::json;

use super::Visit;
use super::frame::moment;
use crate::form::encode;
use crate::html::Html;
use crate::reply::{Body, reply};

/// Returns the page with the newest entries.
pub fn page(visit: &Visit) -> Outcome<Html> {
    let words = visit.words();
    let mut html = Html::of(
        "<h1>{}</h1><form id=\"find\" class=\"line\" method=\"get\" action=\"/admin/log\" role=\"search\">\
         <label>{} <input id=\"search\" name=\"search\" type=\"search\" value=\"{}\" autocapitalize=\"none\"></label>\
         <button>{}</button></form>",
        &[&words.log, &words.contains, &visit.value("search"), &words.find],
    );
    html.add(
        "<p class=\"pager\"><a id=\"export\" href=\"/admin{}?search={}\" download>{}</a></p>",
        &[&EXPORT, &encode(visit.value("search")), &words.as_lines],
    );
    acts(visit, &mut html);
    logins(visit, &mut html);
    Ok(html)
}

/// Returns all entries that the page's filter finds, also those that the page has no room for, as
/// lines of JSON: first the actions, then the logins, each with the newest first.
pub fn export(visit: &Visit) -> Response<Body> {
    let mut lines = String::new();
    for entry in found_acts(visit) {
        let (way, address) = entry.way();
        let line = json!({
            "kind": "act",
            "time": timestamp_ms(entry.unix_ms),
            "who": entry.who,
            "by": way,
            "address": address,
            "act": entry.act,
            "domain": entry.domain,
        });
        lines.push_str(&format!("{line}\n"));
    }
    for login in found_logins(visit) {
        let line = json!({
            "kind": "login",
            "time": timestamp_ms(login.unix_ms),
            "who": login.who.as_ref().map(Jid::as_str),
            "address": login.address.to_string(),
            "transport": login.transport.label(),
            "mechanism": login.mechanism,
            "failure": login.failure,
            "domain": &*login.domain,
        });
        lines.push_str(&format!("{line}\n"));
    }
    let mut response = reply(StatusCode::OK, "application/jsonl", lines);
    let name = HeaderValue::from_static("attachment; filename=\"log.jsonl\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    response
}

fn found_acts(visit: &Visit) -> Vec<Entry> {
    let of_server = visit.domains.iter().any(|domain| domain == visit.shared.settings().hub.default_domain());
    let wanted = search_text(visit);
    let mut entries = visit.shared.action_log.recent(&visit.domains, of_server, usize::MAX);
    entries.retain(|entry| [&entry.who, &entry.by, &entry.act].iter().any(|text| has(text, &wanted)));
    entries
}

fn found_logins(visit: &Visit) -> Vec<RecentLogin> {
    let wanted = search_text(visit);
    let mut logins = visit.shared.logins.recent(&visit.domains, usize::MAX);
    logins.retain(|login| cells_of(visit, login).iter().any(|text| has(text, &wanted)));
    logins
}

/// Returns who logged in, from where and how, and the outcome, in the visitor's language.
fn cells_of(visit: &Visit, login: &RecentLogin) -> [String; 4] {
    let words = visit.words();
    let who = login.who.as_ref().map_or(words.unknown, |who| who.as_str());
    let by = format!("{}, {}", login.transport.label(), login.mechanism.unwrap_or(words.no_mechanism));
    let outcome = login.failure.unwrap_or(words.logged_in);
    [who.to_owned(), login.address.to_string(), by, outcome.to_owned()]
}

fn acts(visit: &Visit, html: &mut Html) {
    let words = visit.words();
    html.add(
        "<section class=\"card\"><h2>{}</h2><div class=\"scroll\"><table id=\"log\" class=\"many\"><thead>\
         <tr><th>{}<th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.administrators, &words.when, &words.who, &words.by, &words.from, &words.what],
    );
    for entry in found_acts(visit).iter().take(SHOWN) {
        let (way, address) = entry.way();
        html.push(&when(entry.unix_ms));
        html.add(
            "<td data-label=\"{}\">{}<td data-label=\"{}\" lang=\"en\">{}<td data-label=\"{}\">{}\
             <td data-label=\"{}\" lang=\"en\">{}</tr>",
            &[&words.who, &entry.who, &words.by, &way, &words.from, &address.unwrap_or("–"), &words.what, &entry.act],
        );
    }
    html.add("</tbody></table></div><p class=\"faint\">", &[]);
    html.text(words.newest_acts, &[&SHOWN]);
    html.add("</p></section>", &[]);
}

fn logins(visit: &Visit, html: &mut Html) {
    let words = visit.words();
    html.add(
        "<section class=\"card\"><h2>{}</h2><div class=\"scroll\"><table id=\"logins\" class=\"many\"><thead>\
         <tr><th>{}<th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.logins, &words.when, &words.who, &words.from, &words.by, &words.outcome],
    );
    for login in found_logins(visit).iter().take(SHOWN) {
        let [who, address, by, outcome] = cells_of(visit, login);
        html.push(&when(login.unix_ms));
        html.add(
            "<td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">",
            &[&words.who, &who, &words.from, &address, &words.by, &by, &words.outcome],
        );
        match login.failure {
            Some(_) => html.add("<span class=\"tag off\" lang=\"en\">{}</span></tr>", &[&outcome]),
            None => html.add("{}</tr>", &[&outcome]),
        }
    }
    html.add("</tbody></table></div><p class=\"faint\">", &[]);
    html.text(words.newest_logins, &[&SHOWN]);
    html.add("</p></section>", &[]);
}

/// Returns the text to search for in entries, in lower case.
fn search_text(visit: &Visit) -> String {
    visit.value("search").trim().to_lowercase()
}

fn has(text: &str, wanted: &str) -> bool {
    text.to_lowercase().contains(wanted)
}

/// Begins a row with its time.
fn when(unix_ms: u64) -> Html {
    let mut html = Html::of("<tr><td class=\"when\">", &[]);
    html.push(&moment(unix_ms));
    html
}

/// The path of the file with all entries, below that of the page.
pub const EXPORT: &str = "/log.jsonl";
/// The number of entries in each part of the page.
const SHOWN: usize = 200;
