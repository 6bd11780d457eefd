//! Rooms: which there are, who is there, their settings, and their beginning and end.

use rookery_jid::Jid;
use rookery_operations::rooms::{self, Described, RoomListing, WantedSettings};
use rookery_operations::{Outcome, Refusal, messages};

use super::fields::{AdminField, AdminForm, FormAnswered, RefusedField, YES};
use super::frame::domain_choice;
use super::users::NAME_RULES;
use super::{FormDone, Visit};
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
    html.push(&new(visit, &domain));
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
    html.push(&settings(visit, &room, &described));
    html.push(&destruction(visit, &room));
    Ok(html)
}

/// Makes a room.
pub async fn create(visit: &Visit) -> FormAnswered {
    let domain = visit.domain().at("domain")?;
    let off = || Refusal::Off(format!("the module `rooms` is off in {domain}"));
    let host = visit.settings_of(&domain).as_ref().and_then(rooms::host).ok_or_else(off)?;
    let local = visit.value("local").trim();
    let impossible = |error| Refusal::Impossible(format!("no room can have this address: {error}"));
    let room = Jid::new(Some(local), &host, None).map_err(impossible).at("local")?;
    if room.local().is_none() {
        return Err(Refusal::Impossible("a room has an address".into())).at("local");
    }
    let owner = visit.seen.account.clone();
    let wanted = WantedSettings { is_persistent: Some(true), ..wanted(visit) };
    let of = room.clone();
    let made =
        visit.shared.ask(move |world, answer| rooms::create(world, of, owner, wanted, |_, made| answer.complete(made)));
    made.await.at("local")?;
    visit.note(&domain, format!("made a room: {room}"));
    Ok(FormDone::new(format!("/room?jid={}", encode(room.as_str())), format!("{room} was made, and you own it.")))
}

/// Does what a form of a room's page asks for.
pub async fn change(visit: &Visit) -> FormAnswered {
    match visit.value("act") {
        "configure" => configure(visit).await,
        _ => destroy(visit).await,
    }
}

async fn configure(visit: &Visit) -> FormAnswered {
    let room = visit.address()?;
    let wanted = WantedSettings { is_persistent: Some(visit.value("stays") == YES), ..wanted(visit) };
    let of = room.clone();
    let done =
        visit.shared.ask(move |world, answer| rooms::configure(world, of, wanted, |_, done| answer.complete(done)));
    done.await.at("description")?;
    let domain = visit.shared.domain_of(room.domain()).unwrap_or_default();
    visit.note(&domain, format!("changed the settings of a room: {room}"));
    Ok(FormDone::new(format!("/room?jid={}", encode(room.as_str())), "The settings count."))
}

/// Returns the settings that a form names, but for whether the room stays.
fn wanted(visit: &Visit) -> WantedSettings {
    let text = |name| Some(visit.value(name).trim().to_owned()).filter(|text| messages::is_sayable(text));
    WantedSettings {
        name: text("name"),
        description: text("description"),
        is_public: Some(visit.value("public") == YES),
        is_persistent: None,
        is_members_only: Some(visit.value("members") == YES),
    }
}

async fn destroy(visit: &Visit) -> FormAnswered {
    let room = visit.address()?;
    visit.is_sure(&room)?;
    let reason = Some(visit.value("reason").trim().to_owned()).filter(|reason| !reason.is_empty());
    if !reason.as_deref().is_none_or(|reason| messages::is_sayable(reason) && reason.chars().count() <= MAX_REASON) {
        return Err(Refusal::Impossible(format!("a reason has at most {MAX_REASON} characters"))).at("reason");
    }
    let of = room.clone();
    visit.shared.ask(move |world, answer| rooms::destroy(world, of, reason, |_, done| answer.complete(done))).await?;
    let domain = visit.shared.domain_of(room.domain()).unwrap_or_default();
    visit.note(&domain, format!("destroyed a room: {room}"));
    Ok(FormDone::new(format!("/rooms?domain={}", encode(&domain)), format!("{room} was destroyed.")))
}

fn new(visit: &Visit, domain: &str) -> Html {
    let mut inner = Html::default();
    let form = AdminForm::begin(visit, "new-room", "column", "/rooms", &mut inner);
    form.domain(domain, &mut inner);
    let hint = "The part before the @, such as \u{201C}family\u{201D}";
    form.input(
        AdminField { name: "local", label: "Address", hint, rules: NAME_RULES, ..AdminField::default() },
        &mut inner,
    );
    texts(form, ("", ""), &mut inner);
    switches(form, [None, Some(false), Some(false)], &mut inner);
    let mut html = Html::of("<details id=\"new\" class=\"card\"", &[]);
    html.add(if form.returned().is_some() { " open" } else { "" }, &[]);
    html.add("><summary>New room</summary>", &[]);
    html.push(&inner);
    html.add("<div><button id=\"create\">Create</button></div></form></details>", &[]);
    html
}

fn settings(visit: &Visit, jid: &Jid, room: &Described) -> Html {
    let mut html = Html::of("<section class=\"card\"><h2>Settings</h2>", &[]);
    let form = AdminForm::begin(visit, "settings", "column", "/room", &mut html);
    html.add("<input type=\"hidden\" name=\"jid\" value=\"{}\">", &[jid]);
    // Without a name of its own a room is called by its address.
    let name = if Some(room.name.as_str()) == jid.local() { "" } else { &room.name };
    texts(form, (name, &room.description), &mut html);
    switches(form, [Some(room.is_persistent), Some(room.is_public), Some(room.is_members_only)], &mut html);
    html.add("<div><button name=\"act\" value=\"configure\">Save</button></div></form></section>", &[]);
    html
}

fn texts(form: AdminForm<'_>, (name, description): (&str, &str), html: &mut Html) {
    form.input(
        AdminField { name: "name", label: "Name", value: name, rules: "maxlength=\"200\"", ..AdminField::default() },
        html,
    );
    let rules = "maxlength=\"500\"";
    form.input(
        AdminField { name: "description", label: "Description", value: description, rules, ..AdminField::default() },
        html,
    );
}

/// Adds the switches of a room that are wanted: whether it stays, whether everybody may find it,
/// whether only members may enter.
fn switches(form: AdminForm<'_>, [stays, public, members]: [Option<bool>; 3], html: &mut Html) {
    let all = [
        ("stays", "It stays when everybody has left", stays),
        ("public", "Everybody can find it", public),
        ("members", "Only members may enter", members),
    ];
    for (name, label, is_on) in all {
        if let Some(is_on) = is_on {
            form.check((name, label), is_on, html);
        }
    }
}

fn destruction(visit: &Visit, room: &Jid) -> Html {
    let mut inner = Html::default();
    let form = AdminForm::begin(visit, "destroy", "column", "/room", &mut inner);
    inner.add("<input type=\"hidden\" name=\"jid\" value=\"{}\">", &[room]);
    let label = "Reason, which those who are there are told";
    form.input(AdminField { name: "reason", label, rules: "maxlength=\"500\"", ..AdminField::default() }, &mut inner);
    let label = format!("This can't be undone. Write {room} to confirm");
    form.input(AdminField { name: "confirm", label: &label, rules: NAME_RULES, ..AdminField::default() }, &mut inner);
    let mut html = Html::of("<section class=\"card\"><details", &[]);
    html.add(if form.returned().is_some() { " open" } else { "" }, &[]);
    html.add("><summary>Destroy the room</summary>", &[]);
    html.push(&inner);
    html.add("<div><button class=\"danger\">Destroy</button></div></form></details></section>", &[]);
    html
}

fn table(found: &[RoomListing]) -> Html {
    let mut html = Html::of(
        "<div class=\"scroll\"><table id=\"rooms\"><thead><tr><th>Room<th>Name<th>Kind</tr></thead><tbody>",
        &[],
    );
    for room in found {
        html.add(
            "<tr><td data-label=\"Room\"><a href=\"/admin/room?jid={}\">{}</a><td data-label=\"Name\">{}<td data-label=\"Kind\">{}, {}</tr>",
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
        "<p><code>{}</code> <span class=\"faint\">{}; {} {}.</span></p>",
        &[
            jid,
            &kind.join(", "),
            &room.affiliations,
            &if room.affiliations == 1 { "affiliation" } else { "affiliations" },
        ],
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
        html.add("<tr><td data-label=\"Nick\">{}<td data-label=\"Role\">{}<td data-label=\"Affiliation\">{}<td data-label=\"Sessions\">", &[&inside.nick, &inside.role, &inside.affiliation]);
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
