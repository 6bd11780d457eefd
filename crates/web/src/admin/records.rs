//! The DNS records that a domain should have, to copy, and their current state.

use rookery_operations::Outcome;

use super::Visit;
use super::frame::domain_choice;
use crate::html::Html;
use crate::records::{Record, RecordAnswer};

/// Returns the page with the records of a domain, once DNS has been asked.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let (domain, words) = (visit.domain()?, visit.words());
    let mut html = Html::of("<h1>", &[]);
    html.text(words.dns_of, &[&domain]);
    html.add("</h1>", &[]);
    if visit.domains.len() > 1 {
        html.add("<form class=\"line\" method=\"get\" action=\"/admin/records\">", &[]);
        html.push(&domain_choice(words, &visit.domains, &domain));
        html.add("<button>{}</button></form>", &[&words.show]);
    }
    match visit.shared.settings().records.look(domain).await {
        Ok(records) => html.push(&table(visit, &records)),
        Err(failed) => html.add("<p id=\"failed\" role=\"status\" lang=\"en\">{}.</p>", &[&failed]),
    }
    html.add("<p class=\"faint\">", &[]);
    html.text(words.from_a_shell, &[&"rookery check --dns"]);
    html.add("</p>", &[]);
    Ok(html)
}

fn table(visit: &Visit, records: &[Record]) -> Html {
    let words = visit.words();
    let missing = records.iter().filter(|record| record.answer != RecordAnswer::There).count();
    let mut html = Html::of("<p id=\"summary\">", &[]);
    match missing {
        0 => html.text(visit.language.plural(words.dns_has_all, records.len() as u64), &[&records.len()]),
        _ => html.text(words.dns_lacks, &[&missing, &records.len()]),
    }
    html.add(
        "</p><div class=\"scroll\"><table id=\"records\"><thead><tr><th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.state, &words.record, &words.dns_says],
    );
    for record in records {
        let (class, state, says) = match &record.answer {
            RecordAnswer::There => ("tag on", words.there, ""),
            RecordAnswer::Missing => ("tag off", words.missing, words.no_such_record),
            RecordAnswer::Elsewhere(found) => ("tag off", words.other, found.as_str()),
            RecordAnswer::None => ("tag", words.unknown, words.no_answer),
        };
        html.add(
            "<tr><td data-label=\"{}\"><span class=\"{}\">{}</span><td data-label=\"{}\"><code>{}</code><td data-label=\"DNS\">{}</tr>",
            &[&words.state, &class, &state, &words.record, &record.line, &says],
        );
    }
    html.add("</tbody></table></div>", &[]);
    html
}
