//! The log of administrators' actions, of their logins, and of other users' logins and failures to
//! log in.

use rookery_operations::Outcome;
use rookery_operations::journal::Entry;

use super::Visit;
use super::frame::moment;
use crate::html::Html;

/// Returns the page with the newest entries.
pub fn page(visit: &Visit) -> Outcome<Html> {
    let mut html = Html::of(
        "<h1>Log</h1><form id=\"find\" class=\"line\" method=\"get\" action=\"/admin/log\" role=\"search\">\
         <label>Contains <input id=\"search\" name=\"search\" type=\"search\" value=\"{}\" autocapitalize=\"none\"></label>\
         <button>Find</button></form>",
        &[&visit.value("search")],
    );
    acts(visit, &mut html);
    logins(visit, &mut html);
    Ok(html)
}

fn acts(visit: &Visit, html: &mut Html) {
    html.add(
        "<section class=\"card\"><h2>Administrators</h2><div class=\"scroll\"><table id=\"log\"><thead>\
         <tr><th>When<th>Who<th>By<th>What</tr></thead><tbody>",
        &[],
    );
    let of_server = visit.domains.iter().any(|domain| domain == visit.shared.settings().hub.default_domain());
    let wanted = wanted(visit);
    let entries = visit.shared.journal.recent(&visit.domains, of_server, usize::MAX);
    let is_wanted = |entry: &&Entry| [&entry.who, &entry.by, &entry.act].iter().any(|text| has(text, &wanted));
    for entry in entries.iter().filter(is_wanted).take(SHOWN) {
        html.push(&when(entry.unix_ms));
        html.add(
            "<td data-label=\"Who\">{}<td data-label=\"By\">{}<td data-label=\"What\">{}</tr>",
            &[&entry.who, &entry.by, &entry.act],
        );
    }
    html.add(
        "</tbody></table></div><p class=\"faint\">The newest {}. Older ones, and what the command line does, are in the log of the process.</p></section>",
        &[&SHOWN],
    );
}

fn logins(visit: &Visit, html: &mut Html) {
    html.add(
        "<section class=\"card\"><h2>Logins</h2><div class=\"scroll\"><table id=\"logins\"><thead>\
         <tr><th>When<th>Who<th>From<th>By<th>Outcome</tr></thead><tbody>",
        &[],
    );
    let wanted = wanted(visit);
    let mut shown = 0;
    for login in &visit.shared.logins.recent(&visit.domains, usize::MAX) {
        let who = login.who.as_ref().map_or("unknown", |who| who.as_str());
        let by = format!("{}, {}", login.transport.label(), login.mechanism.unwrap_or("no mechanism"));
        let outcome = login.failure.unwrap_or("logged in");
        let address = login.address.to_string();
        if shown == SHOWN || ![who, &by, outcome, &address].iter().any(|text| has(text, &wanted)) {
            continue;
        }
        shown += 1;
        html.push(&when(login.unix_ms));
        html.add(
            "<td data-label=\"Who\">{}<td data-label=\"From\">{}<td data-label=\"By\">{}<td data-label=\"Outcome\">",
            &[&who, &address, &by],
        );
        match login.failure {
            Some(_) => html.add("<span class=\"tag off\">{}</span></tr>", &[&outcome]),
            None => html.add("{}</tr>", &[&outcome]),
        }
    }
    html.add(
        "</tbody></table></div><p class=\"faint\">The newest {} since the server started. The log of the process has failed ones for longer.</p></section>",
        &[&SHOWN],
    );
}

/// Returns the text that entries are to have, in lower case.
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

/// Entries of each part of the page.
const SHOWN: usize = 200;
