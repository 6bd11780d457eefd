//! The log of administrators' actions, of their logins, and of other users' logins and failures to
//! log in.

use rookery_operations::Outcome;
use rookery_operations::journal::Entry;

use super::Visit;
use super::frame::moment;
use crate::html::Html;

/// Returns the page with the newest entries.
pub fn page(visit: &Visit) -> Outcome<Html> {
    let words = visit.words();
    let mut html = Html::of(
        "<h1>{}</h1><form id=\"find\" class=\"line\" method=\"get\" action=\"/admin/log\" role=\"search\">\
         <label>{} <input id=\"search\" name=\"search\" type=\"search\" value=\"{}\" autocapitalize=\"none\"></label>\
         <button>{}</button></form>",
        &[&words.log, &words.contains, &visit.value("search"), &words.find],
    );
    acts(visit, &mut html);
    logins(visit, &mut html);
    Ok(html)
}

fn acts(visit: &Visit, html: &mut Html) {
    let words = visit.words();
    html.add(
        "<section class=\"card\"><h2>{}</h2><div class=\"scroll\"><table id=\"log\"><thead>\
         <tr><th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.administrators, &words.when, &words.who, &words.by, &words.what],
    );
    let of_server = visit.domains.iter().any(|domain| domain == visit.shared.settings().hub.default_domain());
    let wanted = wanted(visit);
    let entries = visit.shared.journal.recent(&visit.domains, of_server, usize::MAX);
    let is_wanted = |entry: &&Entry| [&entry.who, &entry.by, &entry.act].iter().any(|text| has(text, &wanted));
    for entry in entries.iter().filter(is_wanted).take(SHOWN) {
        html.push(&when(entry.unix_ms));
        html.add(
            "<td data-label=\"{}\">{}<td data-label=\"{}\" lang=\"en\">{}<td data-label=\"{}\" lang=\"en\">{}</tr>",
            &[&words.who, &entry.who, &words.by, &entry.by, &words.what, &entry.act],
        );
    }
    html.add("</tbody></table></div><p class=\"faint\">", &[]);
    html.text(words.newest_acts, &[&SHOWN]);
    html.add("</p></section>", &[]);
}

fn logins(visit: &Visit, html: &mut Html) {
    let words = visit.words();
    html.add(
        "<section class=\"card\"><h2>{}</h2><div class=\"scroll\"><table id=\"logins\"><thead>\
         <tr><th>{}<th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.logins, &words.when, &words.who, &words.from, &words.by, &words.outcome],
    );
    let wanted = wanted(visit);
    let mut shown = 0;
    for login in &visit.shared.logins.recent(&visit.domains, usize::MAX) {
        let who = login.who.as_ref().map_or(words.unknown, |who| who.as_str());
        let by = format!("{}, {}", login.transport.label(), login.mechanism.unwrap_or(words.no_mechanism));
        let outcome = login.failure.unwrap_or(words.logged_in);
        let address = login.address.to_string();
        if shown == SHOWN || ![who, &by, outcome, &address].iter().any(|text| has(text, &wanted)) {
            continue;
        }
        shown += 1;
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
fn wanted(visit: &Visit) -> String {
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

/// The number of entries in each part of the page.
const SHOWN: usize = 200;
