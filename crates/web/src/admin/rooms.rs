//! Rooms: which there are, who is there, and their end.

use rookery_jid::Jid;
use rookery_operations::rooms::{self, Described, Listed};
use rookery_operations::{Outcome, Refusal, messages};

use super::frame::{domain_choice, token};
use super::{Done, Visit};
use crate::form::encode;
use crate::html::Html;

/// Returns the page with the rooms of a domain.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let domain = visit.domain()?;
    let mut html = Html::of("<h1>Rooms of {}</h1>", &[&domain]);
    if visit.domains.len() > 1 {
        html.add("<form class=\"line\" method=\"get\" action=\"/admin/rooms\">", &[]);
        html.push(&domain_choice(&visit.domains, &domain));
        html.add("<button>Show</button></form>", &[]);
    }
    let Some(host) = visit.settings_of(&domain).as_ref().and_then(rooms::host) else {
        html.add("<p id=\"off\">The module <code>rooms</code> is off in this domain.</p>", &[]);
        return Ok(html);
    };
    let after = Some(visit.value("after")).filter(|after| !after.is_empty()).and_then(|after| Jid::parse(after).ok());
    let mut found = visit
        .shared
        .ask(move |world, answer| {
            rooms::list(world, &host, after, PAGE, |_, found| answer.complete(found));
        })
        .await?;
    let is_cut = found.len() > PAGE;
    found.truncate(PAGE);
    html.add("<section class=\"card\">", &[]);
    match found.is_empty() {
        true => html.add("<p id=\"none\" class=\"faint\">There are no rooms.</p>", &[]),
        false => html.push(&table(&found)),
    }
    if let Some(last) = found.last().filter(|_| is_cut) {
        let next = format!("?domain={}&after={}", encode(&domain), encode(last.room.as_str()));
        html.add("<p class=\"pager\"><a id=\"next\" href=\"/admin/rooms{}\">More</a></p>", &[&next]);
    }
    html.add("</section>", &[]);
    Ok(html)
}

/// Returns the page of one room.
pub async fn room(visit: &Visit) -> Outcome<Html> {
    let room = visit.address()?;
    let of = room.clone();
    let described =
        visit.shared.ask(move |world, answer| rooms::describe(world, of, |_, found| answer.complete(found))).await?;
    let mut html = Html::of("<h1 id=\"room\">{}</h1>", &[&described.name]);
    html.push(&facts(&room, &described));
    html.push(&occupants(visit, &described));
    html.add(
        "<section class=\"card\"><details><summary>Destroy the room</summary>\
         <form id=\"destroy\" class=\"column\" method=\"post\" action=\"/admin/room\">",
        &[],
    );
    html.push(&token(&visit.seen));
    html.add(
        "<input type=\"hidden\" name=\"jid\" value=\"{}\">\
         <label>Reason, which those who are there are told <input name=\"reason\" maxlength=\"500\"></label>\
         <label>This can't be undone. Write {} to confirm <input name=\"confirm\" autocomplete=\"off\" autocapitalize=\"none\" required></label>\
         <button class=\"danger\">Destroy</button></form></details></section>",
        &[&room, &room],
    );
    Ok(html)
}

/// Destroys a room.
pub async fn destroy(visit: &Visit) -> Outcome<Done> {
    let room = visit.address()?;
    visit.is_sure(&room)?;
    let reason = Some(visit.value("reason").trim().to_owned()).filter(|reason| !reason.is_empty());
    if !reason.as_deref().is_none_or(|reason| messages::is_sayable(reason) && reason.chars().count() <= MAX_REASON) {
        return Err(Refusal::Impossible(format!("a reason has at most {MAX_REASON} characters")));
    }
    let of = room.clone();
    visit.shared.ask(move |world, answer| rooms::destroy(world, of, reason, |_, done| answer.complete(done))).await?;
    let domain = visit.shared.domain_of(room.domain()).unwrap_or_default();
    visit.note(&domain, format!("destroyed a room: {room}"));
    Ok(Done::new(format!("/rooms?domain={}", encode(&domain)), format!("{room} was destroyed.")))
}

fn table(found: &[Listed]) -> Html {
    let mut html = Html::of(
        "<div class=\"scroll\"><table id=\"rooms\"><thead><tr><th>Room<th>Name<th>Kind</tr></thead><tbody>",
        &[],
    );
    for room in found {
        html.add(
            "<tr><td><a href=\"/admin/room?jid={}\">{}</a><td>{}<td>{}, {}</tr>",
            &[
                &encode(room.room.as_str()),
                &room.room,
                &room.name,
                &if room.is_public { "public" } else { "hidden" },
                &if room.is_persistent { "stays" } else { "temporary" },
            ],
        );
    }
    html.add("</tbody></table></div>", &[]);
    html
}

fn facts(jid: &Jid, room: &Described) -> Html {
    let kind = [
        if room.is_public { "public" } else { "hidden" },
        if room.is_persistent { "stays when everybody has left" } else { "temporary" },
        if room.is_members_only { "for members only" } else { "open" },
    ];
    Html::of(
        "<p><code>{}</code> <span class=\"faint\">{}; {} affiliations.</span></p>",
        &[jid, &kind.join(", "), &room.affiliations],
    )
}

fn occupants(visit: &Visit, room: &Described) -> Html {
    let mut html = Html::of("<section class=\"card\"><h2>Occupants</h2>", &[]);
    if room.occupants.is_empty() {
        html.add("<p id=\"empty\" class=\"faint\">Nobody is there.</p></section>", &[]);
        return html;
    }
    html.add(
        "<div class=\"scroll\"><table id=\"occupants\"><thead><tr><th>Nick<th>Role<th>Affiliation<th>Sessions</tr></thead><tbody>",
        &[],
    );
    for inside in room.occupants.iter().take(MOST_SHOWN) {
        html.add("<tr><td>{}<td>{}<td>{}<td>", &[&inside.nick, &inside.role, &inside.affiliation]);
        for session in &inside.sessions {
            match visit.domains.iter().any(|domain| domain == session.domain()) {
                true => html.add(
                    "<a href=\"/admin/user?jid={}\"><code>{}</code></a> ",
                    &[&encode(session.bare_str()), session],
                ),
                false => html.add("<code>{}</code> ", &[session]),
            }
        }
        html.add("</tr>", &[]);
    }
    html.add("</tbody></table></div><p class=\"faint\">{} in all.</p></section>", &[&room.occupants.len()]);
    html
}

/// Rooms of a page.
const PAGE: usize = 50;
/// Occupants that are shown.
const MOST_SHOWN: usize = 500;
/// Characters of a reason.
const MAX_REASON: usize = 500;
