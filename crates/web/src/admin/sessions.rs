//! Sessions of a domain: which there are, from where, and their end.

use rookery_jid::Jid;
use rookery_operations::sessions::{self, SessionInfo};
use rookery_operations::{Gathered, Outcome, Refusal};

use super::fields::{FormAnswered, FormFault};
use super::frame::{domain_choice, moment, token};
use super::{FormDone, Visit};
use crate::ask::OperationAnswer;
use crate::form::encode;
use crate::html::Html;

/// Returns the page with the sessions of a domain.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let domain = visit.domain()?;
    let mut html = Html::of("<h1>Sessions of {}</h1>", &[&domain]);
    if visit.domains.len() > 1 {
        html.add("<form class=\"line\" method=\"get\" action=\"/admin/sessions\">", &[]);
        html.push(&domain_choice(&visit.domains, &domain));
        html.add("<button>Show</button></form>", &[]);
    }
    let after = Some(visit.value("after")).filter(|after| !after.is_empty()).and_then(|after| Jid::parse(after).ok());
    let of = domain.clone();
    let work = move |world: &mut _, answer: OperationAnswer<_>| {
        sessions::list(world, &of, after, PAGE, |_, found| answer.complete(Ok(found)));
    };
    let Gathered { items: mut found, is_partial } = visit.shared.ask(work).await?;
    let is_cut = found.len() > PAGE;
    found.truncate(PAGE);
    html.add("<section class=\"card\">", &[]);
    match found.is_empty() {
        true => html.add("<p id=\"none\" class=\"faint\">Nobody is here.</p>", &[]),
        false => html.push(&table(visit, &found)),
    }
    if is_partial {
        html.add(
            "<p class=\"faint\">A part of the server has not answered in time; its sessions are missing.</p>",
            &[],
        );
    }
    if let Some(last) = found.last().filter(|_| is_cut) {
        let next = format!("?domain={}&after={}", encode(&domain), encode(last.jid.as_str()));
        html.add("<p class=\"pager\"><a id=\"next\" href=\"/admin/sessions{}\">More</a></p>", &[&next]);
    }
    html.add("</section>", &[]);
    Ok(html)
}

/// Ends a session.
pub async fn end(visit: &Visit) -> FormAnswered {
    let missing = || FormFault::from(Refusal::Missing("there is no such session".into()));
    let session = Jid::parse(visit.value("session")).map_err(|_| missing())?;
    if session.resource().is_none() || !visit.domains.iter().any(|domain| domain == session.domain()) {
        return Err(missing());
    }
    let of = session.clone();
    let ended =
        visit.shared.ask(move |world, answer| sessions::end(world, of, |_, ended| answer.complete(ended))).await?;
    if ended == 0 {
        return Err(missing());
    }
    visit.note(session.domain(), format!("ended a session: {session}"));
    Ok(FormDone::new(format!("/sessions?domain={}", encode(session.domain())), format!("{session} was ended.")))
}

/// Returns the state of a session in words.
pub fn state_of(session: &SessionInfo) -> String {
    match (session.address, session.is_available) {
        (None, _) => "connection lost, waits for its client".to_owned(),
        (Some(_), true) => format!("available, priority {}", session.priority),
        (Some(_), false) => "connected".to_owned(),
    }
}

/// Returns the cells that tell what carries the stream of a session, and since when.
pub fn connection(session: &SessionInfo) -> Html {
    let name = match session.transport.as_deref() {
        None => "–",
        Some("tcp") => "TCP",
        Some("websocket") => "WebSocket",
        Some("bosh") => "BOSH",
        Some(other) => other,
    };
    let tls = match session.is_encrypted {
        None => "",
        Some(true) => ", TLS",
        Some(false) => ", no TLS",
    };
    let mut html = Html::of("<td data-label=\"By\">{}{}<td data-label=\"Connected\">", &[&name, &tls]);
    match session.since_ms {
        Some(since) => html.push(&moment(since)),
        None => html.add("–", &[]),
    }
    html
}

fn table(visit: &Visit, found: &[SessionInfo]) -> Html {
    let mut html = Html::of(
        "<div class=\"scroll\"><table id=\"sessions\"><thead><tr><th>Account<th>Resource<th>From<th>By<th>Connected<th>State\
         <th class=\"number\">Bytes waiting<td></tr></thead><tbody>",
        &[],
    );
    for session in found {
        let resource = session.jid.resource().unwrap_or_default();
        let from = session.address.map_or_else(|| "nowhere".to_owned(), |from| from.ip().to_canonical().to_string());
        html.add(
            "<tr><td data-label=\"Account\"><a href=\"/admin/user?jid={}\">{}</a><td data-label=\"Resource\"><code>{}</code>\
             <td data-label=\"From\">{}",
            &[&encode(session.jid.bare_str()), &session.jid.bare_str(), &resource, &from],
        );
        html.push(&connection(session));
        html.add(
            "<td data-label=\"State\">{}<td class=\"number\" data-label=\"Bytes waiting\">{}<td>\
             <form method=\"post\" action=\"/admin/sessions\">",
            &[&state_of(session), &session.waiting_bytes],
        );
        html.push(&token(&visit.seen));
        html.add(
            "<input type=\"hidden\" name=\"session\" value=\"{}\">\
             <button class=\"quiet\" aria-label=\"End {}\">End</button></form></tr>",
            &[&session.jid, &session.jid],
        );
    }
    html.add("</tbody></table></div>", &[]);
    html
}

/// Sessions of a page.
const PAGE: usize = 100;
