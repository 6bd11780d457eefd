//! The records of DNS that a domain should have, to copy, and what DNS says of them.

use rookery_operations::Outcome;

use super::Visit;
use super::frame::domain_choice;
use crate::html::Html;
use crate::records::{Record, RecordAnswer};

/// Returns the page with the records of a domain, once DNS has been asked.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let domain = visit.domain()?;
    let mut html = Html::of("<h1>DNS of {}</h1>", &[&domain]);
    if visit.domains.len() > 1 {
        html.add("<form class=\"line\" method=\"get\" action=\"/admin/records\">", &[]);
        html.push(&domain_choice(&visit.domains, &domain));
        html.add("<button>Show</button></form>", &[]);
    }
    match visit.shared.settings().records.look(domain).await {
        Ok(records) => html.push(&table(&records)),
        Err(words) => html.add("<p id=\"failed\" role=\"status\">{}.</p>", &[&words]),
    }
    html.add("<p class=\"faint\">From a shell: <code>rookery check --dns</code></p>", &[]);
    Ok(html)
}

fn table(records: &[Record]) -> Html {
    let missing = records.iter().filter(|record| record.answer != RecordAnswer::There).count();
    let mut html = match missing {
        0 => Html::of("<p id=\"summary\">DNS has all {} records.</p>", &[&records.len()]),
        _ => Html::of(
            "<p id=\"summary\">{} of {} records aren't there as they should be. Copy them into the zone of the domain; a change may take \
             as long to be seen as the old record was allowed to be kept.</p>",
            &[&missing, &records.len()],
        ),
    };
    html.add(
        "<div class=\"scroll\"><table id=\"records\"><thead><tr><th>State<th>Record<th>What DNS says</tr></thead><tbody>",
        &[],
    );
    for record in records {
        let (class, state, says) = match &record.answer {
            RecordAnswer::There => ("tag on", "there", ""),
            RecordAnswer::Missing => ("tag off", "missing", "no such record"),
            RecordAnswer::Elsewhere(found) => ("tag off", "other", found.as_str()),
            RecordAnswer::None => ("tag", "unknown", "no answer"),
        };
        html.add(
            "<tr><td data-label=\"State\"><span class=\"{}\">{}</span><td data-label=\"Record\"><code>{}</code><td data-label=\"DNS\">{}</tr>",
            &[&class, &state, &record.line, &says],
        );
    }
    html.add("</tbody></table></div>", &[]);
    html
}
