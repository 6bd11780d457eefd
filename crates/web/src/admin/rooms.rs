//! Rooms: their list, occupants and settings, their creation and destruction.

use rookery_jid::Jid;
use rookery_operations::rooms::{self, Described, WantedSettings};
use rookery_operations::{Outcome, Refusal, messages};

use super::fields::{AdminField, AdminForm, FormAnswered, RefusedField, YES};
use super::frame::{away, domain_choice};
use super::users::{NAME_RULES, option};
use super::{FormDone, Visit};
use crate::form::encode;
use crate::html::Html;
use crate::language::fill;
use crate::room_rows::{MOST_SORTED, RoomOrder, RoomRow};
use crate::words::AdminWords;

/// Returns the page with the rooms of a domain.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let (domain, words) = (visit.domain()?, visit.words());
    let mut html = Html::of("<h1>", &[]);
    html.text(words.rooms_of, &[&domain]);
    html.add("</h1>", &[]);
    let asked = AskedRooms::of(visit);
    let Some(host) = visit.settings_of(&domain).as_ref().and_then(rooms::host) else {
        if visit.domains.len() > 1 {
            html.push(&choice(visit, &domain, &asked));
        }
        html.add("<p id=\"off\">", &[]);
        html.text(words.rooms_off, &[]);
        html.add("</p>", &[]);
        return Ok(html);
    };
    html.push(&choice(visit, &domain, &asked));
    let found = match asked.order.2 {
        None => visit.shared.rooms_by_address(&host, asked.after.clone(), PAGE).await?,
        Some(order) => visit.shared.rooms_sorted(&host, order, asked.skip, PAGE).await?,
    };
    html.push(&new(visit, &domain));
    html.add("<section class=\"card\">", &[]);
    match found.rows.is_empty() {
        true => html.add("<p id=\"none\" class=\"faint\">{}</p>", &[&words.no_rooms]),
        false => html.push(&table(words, &found.rows)),
    }
    if found.is_cut {
        html.add("<p class=\"faint\">", &[]);
        html.text(words.rooms_sorted, &[&MOST_SORTED]);
        html.add("</p>", &[]);
    }
    if let Some(last) = found.rows.last().filter(|_| found.has_more) {
        let next = asked.next(&domain, &last.listing.room);
        html.add("<p class=\"pager\"><a id=\"next\" href=\"{}\">{}</a></p>", &[&next, &words.more]);
    }
    html.add("</section>", &[]);
    Ok(html)
}

/// The part of the list that a request asks for.
struct AskedRooms {
    order: &'static (&'static str, RoomsWord, Option<RoomOrder>),
    /// The address after which the part begins, if rooms are in the order of addresses.
    after: Option<Jid>,
    /// The number of rooms before the part, in all other orders.
    skip: usize,
}

impl AskedRooms {
    fn of(visit: &Visit) -> Self {
        let (order, after) = (visit.value("order"), visit.value("after"));
        Self {
            order: ORDERS.iter().find(|(name, ..)| *name == order).unwrap_or(&ORDERS[0]),
            after: Some(after).filter(|after| !after.is_empty()).and_then(|after| Jid::parse(after).ok()),
            skip: visit.value("from").parse().ok().filter(|from| *from <= MOST_SORTED).unwrap_or_default(),
        }
    }

    /// Returns the address of the page with the next part; `last` is the last room of this part.
    fn next(&self, domain: &str, last: &Jid) -> String {
        let here = format!("/admin/rooms?domain={}&order={}", encode(domain), self.order.0);
        match self.order.2 {
            None => format!("{here}&after={}", encode(last.as_str())),
            Some(_) => format!("{here}&from={}", self.skip + PAGE),
        }
    }
}

/// Returns the form that chooses the domain and the order.
fn choice(visit: &Visit, domain: &str, asked: &AskedRooms) -> Html {
    let words = visit.words();
    let mut html = Html::of("<form id=\"order\" class=\"line\" method=\"get\" action=\"/admin/rooms\">", &[]);
    html.push(&domain_choice(words, &visit.domains, domain));
    html.add("<label>{} <select name=\"order\">", &[&words.order]);
    for (name, label, _) in &ORDERS {
        html.push(&option(name, label(words), asked.order.0));
    }
    html.add("</select></label><button>{}</button></form>", &[&words.show]);
    html
}

/// Returns the page of one room.
pub async fn room(visit: &Visit) -> Outcome<Html> {
    let room = visit.address()?;
    let of = room.clone();
    let described =
        visit.shared.ask(move |world, answer| rooms::describe(world, of, |_, found| answer.complete(found)));
    let described = described.await.map_err(|refusal| visit.in_words(refusal, &room, visit.of_rooms()))?;
    let mut html = Html::of("<h1 id=\"room\">{}</h1>", &[&described.name]);
    html.push(&facts(visit, &room, &described));
    html.push(&occupants(visit, &described));
    html.push(&settings(visit, &room, &described));
    html.push(&destruction(visit, &room));
    Ok(html)
}

/// Creates a room.
pub async fn create(visit: &Visit) -> FormAnswered {
    let (domain, words) = (visit.domain().at("domain")?, visit.words());
    let off = || Refusal::Off(fill(words.module_off, &[&"rooms", &domain]));
    let host = visit.settings_of(&domain).as_ref().and_then(rooms::host).ok_or_else(off)?;
    let local = visit.value("local").trim();
    let impossible = |_| Refusal::Impossible(words.room_impossible.into());
    let room = Jid::new(Some(local), &host, None).map_err(impossible).at("local")?;
    if room.local().is_none() {
        return Err(Refusal::Impossible(words.room_has_address.into())).at("local");
    }
    let owner = visit.seen.account.clone();
    let wanted = WantedSettings { is_persistent: Some(true), ..read_settings(visit) };
    let of = room.clone();
    let made =
        visit.shared.ask(move |world, answer| rooms::create(world, of, owner, wanted, |_, made| answer.complete(made)));
    made.await.map_err(|refusal| visit.in_words(refusal, &room, visit.of_rooms())).at("local")?;
    visit.note(&domain, format!("made a room: {room}"));
    Ok(FormDone::new(format!("/room?jid={}", encode(room.as_str())), fill(words.room_made, &[&room])))
}

/// Processes a form of a room's page.
pub async fn change(visit: &Visit) -> FormAnswered {
    match visit.value("act") {
        "configure" => configure(visit).await,
        _ => destroy(visit).await,
    }
}

async fn configure(visit: &Visit) -> FormAnswered {
    let room = visit.address()?;
    let wanted = WantedSettings { is_persistent: Some(visit.value("stays") == YES), ..read_settings(visit) };
    let of = room.clone();
    let done =
        visit.shared.ask(move |world, answer| rooms::configure(world, of, wanted, |_, done| answer.complete(done)));
    done.await.map_err(|refusal| visit.in_words(refusal, &room, visit.of_rooms())).at("description")?;
    let domain = visit.shared.domain_of(room.domain()).unwrap_or_default();
    visit.note(&domain, format!("changed the settings of a room: {room}"));
    Ok(FormDone::new(format!("/room?jid={}", encode(room.as_str())), visit.words().settings_count))
}

/// Returns the settings in a form. The persistence of the room isn't one of them.
fn read_settings(visit: &Visit) -> WantedSettings {
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
        return Err(Refusal::Impossible(fill(visit.words().reason_most, &[&MAX_REASON]))).at("reason");
    }
    let of = room.clone();
    let done =
        visit.shared.ask(move |world, answer| rooms::destroy(world, of, reason, |_, done| answer.complete(done)));
    done.await.map_err(|refusal| visit.in_words(refusal, &room, visit.of_rooms()))?;
    let domain = visit.shared.domain_of(room.domain()).unwrap_or_default();
    visit.note(&domain, format!("destroyed a room: {room}"));
    Ok(FormDone::new(format!("/rooms?domain={}", encode(&domain)), fill(visit.words().was_destroyed, &[&room])))
}

fn new(visit: &Visit, domain: &str) -> Html {
    let words = visit.words();
    let mut inner = Html::default();
    let form = AdminForm::begin(visit, "new-room", "column", "/rooms", &mut inner);
    form.domain(domain, &mut inner);
    let hint = words.address_hint;
    form.input(
        AdminField { name: "local", label: words.address, hint, rules: NAME_RULES, ..AdminField::default() },
        &mut inner,
    );
    texts(words, form, ("", ""), &mut inner);
    switches(words, form, [None, Some(false), Some(false)], &mut inner);
    let mut html = Html::of("<details id=\"new\" class=\"card\"", &[]);
    html.add(if form.returned_form().is_some() { " open" } else { "" }, &[]);
    html.add("><summary>{}</summary>", &[&words.new_room]);
    html.push(&inner);
    html.add("<div><button id=\"create\">{}</button></div></form></details>", &[&words.create]);
    html
}

fn settings(visit: &Visit, jid: &Jid, room: &Described) -> Html {
    let words = visit.words();
    let mut html = Html::of("<section class=\"card\"><h2>{}</h2>", &[&words.settings]);
    let form = AdminForm::begin(visit, "settings", "column", "/room", &mut html);
    html.add("<input type=\"hidden\" name=\"jid\" value=\"{}\">", &[jid]);
    // A room without a name of its own is named by its address.
    let name = if Some(room.name.as_str()) == jid.local() { "" } else { &room.name };
    texts(words, form, (name, &room.description), &mut html);
    switches(words, form, [Some(room.is_persistent), Some(room.is_public), Some(room.is_members_only)], &mut html);
    html.add("<div><button name=\"act\" value=\"configure\">{}</button></div></form></section>", &[&words.save]);
    html
}

fn texts(words: &AdminWords, form: AdminForm<'_>, (name, description): (&str, &str), html: &mut Html) {
    form.input(
        AdminField {
            name: "name",
            label: words.name,
            value: name,
            rules: "maxlength=\"200\"",
            ..AdminField::default()
        },
        html,
    );
    let rules = "maxlength=\"500\"";
    form.input(
        AdminField {
            name: "description",
            label: words.description,
            value: description,
            rules,
            ..AdminField::default()
        },
        html,
    );
}

/// Adds the switches of a room: persistent, public, members-only.
fn switches(words: &AdminWords, form: AdminForm<'_>, [stays, public, members]: [Option<bool>; 3], html: &mut Html) {
    let all = [
        ("stays", words.room_stays, stays),
        ("public", words.room_public, public),
        ("members", words.room_members, members),
    ];
    for (name, label, is_on) in all {
        if let Some(is_on) = is_on {
            form.check((name, label), is_on, html);
        }
    }
}

fn destruction(visit: &Visit, room: &Jid) -> Html {
    let words = visit.words();
    let mut inner = Html::default();
    let form = AdminForm::begin(visit, "destroy", "column", "/room", &mut inner);
    inner.add("<input type=\"hidden\" name=\"jid\" value=\"{}\">", &[room]);
    let label = words.reason;
    form.input(AdminField { name: "reason", label, rules: "maxlength=\"500\"", ..AdminField::default() }, &mut inner);
    let label = fill(words.write_to_confirm, &[room]);
    form.input(AdminField { name: "confirm", label: &label, rules: NAME_RULES, ..AdminField::default() }, &mut inner);
    let mut html = Html::of("<section class=\"card\"><details", &[]);
    html.add(if form.returned_form().is_some() { " open" } else { "" }, &[]);
    html.add("><summary>{}</summary>", &[&words.destroy_room]);
    html.push(&inner);
    html.add("<div><button class=\"danger\">{}</button></div></form></details></section>", &[&words.destroy]);
    html
}

fn table(words: &AdminWords, found: &[RoomRow]) -> Html {
    let mut html = Html::of(
        "<div class=\"scroll\"><table id=\"rooms\" class=\"many\"><thead><tr><th>{}<th>{}<th class=\"number\">{}<th>{}<th>{}\
         </tr></thead><tbody>",
        &[&words.room, &words.name, &words.occupants, &words.last_message, &words.kind],
    );
    for row in found {
        html.push(&line(words, row));
    }
    html.add("</tbody></table></div>", &[]);
    html
}

fn line(words: &AdminWords, row: &RoomRow) -> Html {
    let room = &row.listing;
    let mut html = Html::of(
        "<tr><td data-label=\"{}\"><a href=\"/admin/room?jid={}\">{}</a><td data-label=\"{}\">{}\
         <td class=\"number\" data-label=\"{}\">{}<td data-label=\"{}\">",
        &[
            &words.room,
            &encode(room.room.as_str()),
            &room.room,
            &words.name,
            &room.name,
            &words.occupants,
            &row.occupants.map_or_else(|| "–".to_owned(), |count| count.to_string()),
            &words.last_message,
        ],
    );
    match row.newest_ms {
        Some(newest_ms) => html.push(&away(newest_ms)),
        None => html.add("–", &[]),
    }
    let (public, stays) = (
        if room.is_public { words.public } else { words.hidden },
        if room.is_persistent { words.stays } else { words.temporary },
    );
    html.add("<td data-label=\"{}\">{}, {}</tr>", &[&words.kind, &public, &stays]);
    html
}

fn facts(visit: &Visit, jid: &Jid, room: &Described) -> Html {
    let words = visit.words();
    let kind = [
        if room.is_public { words.public } else { words.hidden },
        if room.is_persistent { words.stays_empty } else { words.temporary },
        if room.is_members_only { words.members_only } else { words.open },
    ];
    let affiliations = visit.language.count(words.affiliations, room.affiliations as u64);
    Html::of("<p><code>{}</code> <span class=\"faint\">{}; {}</span></p>", &[jid, &kind.join(", "), &affiliations])
}

/// Returns the name of a role or affiliation (XEP-0045 §5) in a language.
fn name_of<'n>(words: &AdminWords, name: &'n str) -> &'n str {
    match name {
        "moderator" => words.moderator,
        "participant" => words.participant,
        "visitor" => words.visitor,
        "owner" => words.owner,
        "admin" => words.admin,
        "member" => words.member,
        "none" => words.without_one,
        "outcast" => words.outcast,
        other => other,
    }
}

fn occupants(visit: &Visit, room: &Described) -> Html {
    let words = visit.words();
    let mut html = Html::of("<section class=\"card\"><h2>{}</h2>", &[&words.occupants]);
    if room.occupants.is_empty() {
        html.add("<p id=\"empty\" class=\"faint\">{}</p></section>", &[&words.nobody_there]);
        return html;
    }
    html.add(
        "<div class=\"scroll\"><table id=\"occupants\"><thead><tr><th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&words.nick, &words.role, &words.affiliation, &words.sessions],
    );
    for inside in room.occupants.iter().take(MOST_SHOWN) {
        let (role, affiliation) = (name_of(words, &inside.role), name_of(words, &inside.affiliation));
        html.add(
            "<tr><td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">",
            &[&words.nick, &inside.nick, &words.role, &role, &words.affiliation, &affiliation, &words.sessions],
        );
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
    html.add("</tbody></table></div><p class=\"faint\">", &[]);
    html.text(words.in_all, &[&room.occupants.len()]);
    html.add("</p></section>", &[]);
    html
}

/// The name of an order, in a language.
type RoomsWord = fn(&AdminWords) -> &'static str;

/// The orders of rooms: their names in requests, their labels, and the order of the list; `None` is
/// the order of addresses, the default.
const ORDERS: [(&str, RoomsWord, Option<RoomOrder>); 3] = [
    ("address", |words| words.by_address, None),
    ("occupants", |words| words.full_first, Some(RoomOrder::Occupants)),
    ("activity", |words| words.active_first, Some(RoomOrder::Activity)),
];
/// The number of rooms on a page.
const PAGE: usize = 50;
/// The most occupants that are shown.
const MOST_SHOWN: usize = 500;
/// The most characters of a reason.
const MAX_REASON: usize = 500;
