//! Shows other servers and components: their connections, their proofs of identity, the waiting
//! stanzas, and the reasons why one can't be reached.

use rookery_base::count_of;
use rookery_operations::{Gathered, Outcome};
use rookery_shard::StreamReport;
use rookery_shard::report::is_of;

use super::{FormDone, Visit, frame};
use crate::form::encode;
use crate::html::Html;
use crate::language::fill;

/// Returns the page with the streams of the administrator's domains.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let w = visit.words();
    let mut html = Html::of("<h1>{}</h1><p class=\"faint\">", &[&w.servers]);
    html.text(w.servers_note, &[]);
    html.add(
        "</p><div class=\"scroll\"><table id=\"servers\" class=\"many\"><thead><tr><th>{}<th>{}<th>{}<th>{}<th>{}<th>{}<th>{}<th>{}<th>{}\
         <td></tr></thead><tbody>",
        &[&w.domain, &w.ours, &w.way, &w.state, &w.proven_by, &w.address, &w.waiting, &w.quiet, &w.last_trouble],
    );
    let Gathered { items: all, is_partial } = streams(visit).await?;
    for report in all.iter().take(SHOWN) {
        let address = report.address.map(|address| address.to_string()).unwrap_or_default();
        let quiet = format!("{} s", report.quiet_ms / 1000);
        let way = report.direction.name();
        html.add(
            "<tr><td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\" lang=\"en\">{}<td data-label=\"{}\" lang=\"en\">{}\
             <td data-label=\"{}\" lang=\"en\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">{}\
             <td data-label=\"{}\" lang=\"en\">{}",
            &[
                &w.domain,
                &report.remote,
                &w.ours,
                &report.local,
                &w.way,
                &way,
                &w.state,
                &report.state,
                &w.proven_by,
                &report.security,
                &w.address,
                &address,
                &w.waiting,
                &report.waiting,
                &w.quiet,
                &quiet,
                &w.last_trouble,
                &report.trouble,
            ],
        );
        html.add("<td><form method=\"post\" action=\"/admin/servers\">", &[]);
        html.push(&frame::token(&visit.seen));
        html.add(
            "<input type=\"hidden\" name=\"server\" value=\"{}\"><button class=\"quiet\">{}</button></form></tr>",
            &[&report.remote, &w.close],
        );
    }
    html.add("</tbody></table></div>", &[]);
    if is_partial {
        html.add("<p class=\"faint\">{}</p>", &[&w.is_partial_servers]);
    }
    if all.is_empty() {
        html.add("<p id=\"nobody\">{}</p>", &[&w.no_stream]);
    } else if all.len() > SHOWN {
        html.add("<p class=\"faint\">", &[]);
        html.text(w.first_of, &[&SHOWN, &all.len()]);
        html.add("</p>", &[]);
    }
    Ok(html)
}

/// Ends the streams with a domain.
pub async fn close(visit: &Visit) -> Outcome<FormDone> {
    let (remote, locals) = (visit.value("server").to_owned(), visit.domains.clone());
    let (closed, _) = visit.shared.close_servers_of_all(&remote, Some(locals)).await?;
    let domain = visit.domains.first().cloned().unwrap_or_default();
    visit.note(&domain, format!("closed {} with {remote}", count_of(closed as u64, "stream")));
    Ok(FormDone::new(
        format!("/servers?closed={}", encode(&remote)),
        fill(visit.words().streams_closed, &[&remote, &closed]),
    ))
}

async fn streams(visit: &Visit) -> Outcome<Gathered<StreamReport>> {
    let Gathered { items: mut all, is_partial } = visit.shared.servers_of_all().await?;
    // A stream that doesn't name its domain yet concerns the administrators of the whole server.
    let of_server = visit.domains.iter().any(|domain| domain == visit.shared.settings().hub.default_domain());
    all.retain(|report| {
        let is_theirs = visit.domains.iter().any(|domain| is_of(&report.local, domain));
        is_theirs || of_server && is_nobodys(visit, &report.local)
    });
    Ok(Gathered { items: all, is_partial })
}

/// Returns whether a host of this server belongs to no domain in particular, such as a component.
fn is_nobodys(visit: &Visit, host: &str) -> bool {
    !visit.shared.settings().hub.domains.iter().any(|domain| is_of(host, &domain.name))
}

/// The most streams that are shown.
const SHOWN: usize = 1000;
