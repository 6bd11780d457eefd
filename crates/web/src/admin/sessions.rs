//! Sessions of a domain: their list with addresses, and ending them.

use rookery_jid::Jid;
use rookery_operations::sessions::{self, LostClient, SessionInfo};
use rookery_operations::{Gathered, Outcome, Refusal};

use super::fields::{FormAnswered, FormFault};
use super::frame::{away, domain_choice, token};
use super::{FormDone, Visit};
use crate::ask::{OperationAnswer, now_ms};
use crate::form::encode;
use crate::html::Html;
use crate::language::fill;
use crate::words::AdminWords;

/// Returns the page with the sessions of a domain.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let (domain, words) = (visit.domain()?, visit.words());
    let mut html = Html::of("<h1>", &[]);
    html.text(words.sessions_of, &[&domain]);
    html.add("</h1>", &[]);
    if visit.domains.len() > 1 {
        html.add("<form class=\"line\" method=\"get\" action=\"/admin/sessions\">", &[]);
        html.push(&domain_choice(words, &visit.domains, &domain));
        html.add("<button>{}</button></form>", &[&words.show]);
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
        true => html.add("<p id=\"none\" class=\"faint\">{}</p>", &[&words.nobody_here]),
        false => html.push(&table(visit, &found)),
    }
    if is_partial {
        html.add("<p class=\"faint\">{}</p>", &[&words.is_partial]);
    }
    if let Some(last) = found.last().filter(|_| is_cut) {
        let next = format!("?domain={}&after={}", encode(&domain), encode(last.jid.as_str()));
        html.add("<p class=\"pager\"><a id=\"next\" href=\"/admin/sessions{}\">{}</a></p>", &[&next, &words.more]);
    }
    html.add("</section>", &[]);
    Ok(html)
}

/// Ends a session.
pub async fn end(visit: &Visit) -> FormAnswered {
    let missing = || FormFault::from(Refusal::Missing(visit.words().no_such_session.into()));
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
    Ok(FormDone::new(
        format!("/sessions?domain={}", encode(session.domain())),
        fill(visit.words().was_ended, &[&session]),
    ))
}

/// Returns the heads of the columns that [`connection`] and [`state`] fill, and of one more for
/// buttons.
pub(super) fn heads(w: &AdminWords) -> Html {
    Html::of(
        "<th>{}<th>{}<th>{}<th>{}<th>{}<th>{}<th>{}<th class=\"number\">{}<td></tr></thead><tbody>",
        &[&w.resource, &w.client, &w.from, &w.by, &w.connected, &w.last_sent, &w.state, &w.bytes_waiting],
    )
}

/// Returns the cells with the client of a session, the transport of its stream, its beginning, and
/// the time of its last stanza.
pub(super) fn connection(w: &AdminWords, session: &SessionInfo) -> Html {
    let name = match session.transport.as_deref() {
        None => "–",
        Some("tcp") => "TCP",
        Some("websocket") => "WebSocket",
        Some("bosh") => "BOSH",
        Some(other) => other,
    };
    let tls = match session.is_encrypted {
        None => String::new(),
        Some(true) => ", TLS".to_owned(),
        Some(false) => format!(", {}", w.no_tls),
    };
    let resource = session.jid.resource().unwrap_or_default();
    let client = session.client.as_deref().unwrap_or("–");
    let from = session.address.map_or_else(|| w.nowhere.to_owned(), |from| from.ip().to_canonical().to_string());
    let mut html = Html::of(
        "<td data-label=\"{}\"><code>{}</code><td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">{}{}\
         <td data-label=\"{}\">",
        &[&w.resource, &resource, &w.client, &client, &w.from, &from, &w.by, &name, &tls, &w.connected],
    );
    match session.since_ms {
        Some(since) => html.push(&away(since)),
        None => html.add("–", &[]),
    }
    html.add("<td class=\"idle\" data-label=\"{}\">", &[&w.last_sent]);
    match session.idle_ms {
        Some(idle_ms) => html.push(&away(now_ms().saturating_sub(idle_ms))),
        None => html.add("–", &[]),
    }
    html
}

/// Returns the cells with the state of a session and its waiting stanzas.
pub(super) fn state(w: &AdminWords, session: &SessionInfo) -> Html {
    let mut html = Html::of("<td data-label=\"{}\">", &[&w.state]);
    match (session.address, session.lost) {
        (None, Some(LostClient { since_ms, until_ms })) => {
            html.add("{} ", &[&w.is_lost]);
            html.push(&away(since_ms));
            html.add(", {} ", &[&w.waits_until]);
            html.push(&away(until_ms));
        }
        (None, None) => html.add("{}, {}", &[&w.is_lost, &w.waits]),
        (Some(_), _) if session.is_available => html.text(w.available, &[&session.priority]),
        (Some(_), _) => html.add("{}", &[&w.is_connected]),
    }
    html.add("<td class=\"number\" data-label=\"{}\">{}", &[&w.bytes_waiting, &session.waiting_bytes]);
    html
}

fn table(visit: &Visit, found: &[SessionInfo]) -> Html {
    let words = visit.words();
    let mut html =
        Html::of("<div class=\"scroll\"><table id=\"sessions\" class=\"many\"><thead><tr><th>{}", &[&words.account]);
    html.push(&heads(words));
    for session in found {
        html.add(
            "<tr><td data-label=\"{}\"><a href=\"/admin/user?jid={}\">{}</a>",
            &[&words.account, &encode(session.jid.bare_str()), &session.jid.bare_str()],
        );
        html.push(&connection(words, session));
        html.push(&state(words, session));
        html.add("<td><form method=\"post\" action=\"/admin/sessions\">", &[]);
        html.push(&token(&visit.seen));
        html.add(
            "<input type=\"hidden\" name=\"session\" value=\"{}\">\
             <button class=\"quiet\" aria-label=\"{}\">{}</button></form></tr>",
            &[&session.jid, &fill(words.end_one, &[&session.jid]), &words.end],
        );
    }
    html.add("</tbody></table></div>", &[]);
    html
}

/// The number of sessions on a page.
const PAGE: usize = 100;
