//! The log of administrators' actions, of their logins, and of other users' logins and failures to
//! log in.

use rookery_base::date;
use rookery_operations::Outcome;

use super::Visit;
use crate::html::Html;

/// Returns the page with the newest entries.
pub fn page(visit: &Visit) -> Outcome<Html> {
    let mut html = Html::of("<h1>Log</h1>", &[]);
    acts(visit, &mut html);
    logins(visit, &mut html);
    Ok(html)
}

fn acts(visit: &Visit, html: &mut Html) {
    html.add(
        "<section class=\"card\"><h2>Administrators</h2><div class=\"scroll\"><table id=\"log\"><thead>\
         <tr><th>When (UTC)<th>Who<th>By<th>What</tr></thead><tbody>",
        &[],
    );
    let of_server = visit.domains.iter().any(|domain| domain == visit.shared.settings().hub.default_domain());
    for entry in &visit.shared.journal.recent(&visit.domains, of_server, SHOWN) {
        html.add(
            "<tr><td class=\"when\">{}<td data-label=\"Who\">{}<td data-label=\"By\">{}<td data-label=\"What\">{}</tr>",
            &[&when(entry.unix_ms), &entry.who, &entry.by, &entry.act],
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
         <tr><th>When (UTC)<th>Who<th>From<th>By<th>Outcome</tr></thead><tbody>",
        &[],
    );
    for login in &visit.shared.logins.recent(&visit.domains, SHOWN) {
        let who = login.who.as_ref().map_or("unknown", |who| who.as_str());
        let by = format!("{}, {}", login.transport.label(), login.mechanism.unwrap_or("no mechanism"));
        html.add(
            "<tr><td class=\"when\">{}<td data-label=\"Who\">{}<td data-label=\"From\">{}<td data-label=\"By\">{}<td data-label=\"Outcome\">{}</tr>",
            &[&when(login.unix_ms), &who, &login.address, &by, &login.failure.unwrap_or("logged in")],
        );
    }
    html.add(
        "</tbody></table></div><p class=\"faint\">The newest {} since the server started. The log of the process has failed ones for longer.</p></section>",
        &[&SHOWN],
    );
}

fn when(unix_ms: u64) -> String {
    date::timestamp(unix_ms).replace('T', " ").replace('Z', "")
}

/// Entries of each part of the page.
const SHOWN: usize = 200;
