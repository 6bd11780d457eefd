//! What administrators did: logins and changes.

use rookery_hub::delay;
use rookery_modules::operations::Outcome;

use super::Visit;
use super::html::Html;

/// The newest entries.
pub fn page(visit: &Visit) -> Outcome<Html> {
    let entries = visit.shared.modules.journal.recent(&visit.domains, SHOWN);
    let mut html = Html::of(
        "<h1>Log</h1><section class=\"card\"><div class=\"scroll\"><table id=\"log\"><thead>\
         <tr><th>When (UTC)<th>Who<th>By<th>What</tr></thead><tbody>",
        &[],
    );
    for entry in &entries {
        let when = delay::timestamp(entry.unix_ms).replace('T', " ").replace('Z', "");
        html.add("<tr><td class=\"when\">{}<td>{}<td>{}<td>{}</tr>", &[&when, &entry.who, &entry.by, &entry.act]);
    }
    html.add(
        "</tbody></table></div><p class=\"faint\">The newest {}. Older ones, and what the command line does, are in the log of the process.</p></section>",
        &[&SHOWN],
    );
    Ok(html)
}

/// Entries of the page.
const SHOWN: usize = 200;
