//! Rooms.

use rookery_base::date;
use rookery_jid::Jid;
use rookery_operations::rooms::{self, AffiliationView, Described, WantedSettings};
use rookery_operations::{Refusal, messages};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;
use crate::ask::OperationAnswer;
use crate::form::encode;
use crate::room_rows::RoomRow;

pub(super) async fn list(call: ApiCall) -> Result<ApiReply, Problem> {
    let (domain, (after, limit)) = (call.domain(0)?, call.page()?);
    let settings = call.shared.settings();
    let host = settings.hub.domains.iter().find(|found| found.name == domain).and_then(rooms::host);
    let host = host.ok_or_else(|| Refusal::Off(format!("the module `rooms` is off in {domain}")))?;
    let found = call.shared.rooms_by_address(&host, after, limit).await?;
    let next = found.rows.last().filter(|_| found.has_more).map(|row| row.listing.room.as_str());
    let items: Vec<_> = found.rows.iter().map(item).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": next })))
}

pub(super) async fn get(call: ApiCall) -> Result<ApiReply, Problem> {
    let room = call.address(0)?;
    let of = room.clone();
    let described =
        call.shared.ask(move |world, answer| rooms::describe(world, of, |_, found| answer.complete(found))).await?;
    Ok(ApiReply::json(&to_json(&room, &described)))
}

pub(super) async fn create(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let settings = call.shared.settings();
    let host = settings.hub.domains.iter().find(|found| found.name == domain).and_then(rooms::host);
    let host = host.ok_or_else(|| Refusal::Off(format!("the module `rooms` is off in {domain}")))?;
    let impossible = |error| Refusal::Impossible(format!("no room can have this address: {error}"));
    let room = Jid::new(call.body.text("room"), &host, None).map_err(impossible)?;
    let no_owner = || Refusal::Impossible("the owner must be the bare address of an account".into());
    let owner = Jid::parse(call.body.text("owner").unwrap_or_default()).map_err(|_| no_owner())?;
    if owner.local().is_none() || owner.resource().is_some() {
        return Err(no_owner().into());
    }
    let wanted = WantedSettings { is_persistent: Some(true), ..read_settings(&call)? };
    let of = room.clone();
    let work = move |world: &mut _, answer: OperationAnswer<_>| {
        rooms::create(world, of, owner, wanted, |_, made| answer.complete(made));
    };
    call.shared.ask(work).await?;
    call.note(&domain, format!("made a room: {room}"));
    Ok(ApiReply::json(&json!({ "jid": room.as_str() })).with_location(&format!("/rooms/{}", encode(room.as_str()))))
}

pub(super) async fn change(call: ApiCall) -> Result<ApiReply, Problem> {
    let room = call.address(0)?;
    let wanted = WantedSettings { is_persistent: call.body.switch("persistent"), ..read_settings(&call)? };
    let of = room.clone();
    let work = move |world: &mut _, answer: OperationAnswer<_>| {
        rooms::configure(world, of, wanted, |_, done| answer.complete(done));
    };
    call.shared.ask(work).await?;
    let domain = call.shared.domain_of(room.domain()).unwrap_or_default();
    call.note(&domain, format!("changed the settings of a room: {room}"));
    Ok(ApiReply::without_content())
}

/// Returns the settings in a request, except for the persistence of the room.
fn read_settings(call: &ApiCall) -> Result<WantedSettings, Refusal> {
    let text = |name: &str| match call.body.text(name) {
        Some(text) if !messages::is_sayable(text) => {
            Err(Refusal::Impossible(format!("{name} contains characters that XML doesn't allow")))
        }
        text => Ok(text.map(str::to_owned)),
    };
    Ok(WantedSettings {
        name: text("name")?,
        description: text("description")?,
        is_public: call.body.switch("public"),
        is_persistent: None,
        is_members_only: call.body.switch("members_only"),
    })
}

pub(super) async fn destroy(call: ApiCall) -> Result<ApiReply, Problem> {
    let room = call.address(0)?;
    let reason = call.query.text("reason").map(str::to_owned);
    if !reason.as_deref().is_none_or(messages::is_sayable) {
        return Err(Refusal::Impossible("the reason contains characters that XML doesn't allow".into()).into());
    }
    let of = room.clone();
    call.shared.ask(move |world, answer| rooms::destroy(world, of, reason, |_, done| answer.complete(done))).await?;
    let domain = call.shared.domain_of(room.domain()).unwrap_or_default();
    call.note(&domain, format!("destroyed a room: {room}"));
    Ok(ApiReply::without_content())
}

pub(super) async fn affiliations(call: ApiCall) -> Result<ApiReply, Problem> {
    let (room, (after, limit)) = (call.address(0)?, call.page()?);
    let work = move |world: &mut _, answer: OperationAnswer<_>| {
        rooms::affiliations(world, room, after, limit + 1, |_, found| answer.complete(found));
    };
    let mut found = call.shared.ask(work).await?;
    let is_cut = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| is_cut).map(|one| one.user.as_str());
    let item = |one: &AffiliationView| json!({ "jid": one.user.as_str(), "affiliation": one.affiliation, "reason": one.reason });
    let items: Vec<_> = found.iter().map(item).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": next })))
}

pub(super) async fn affiliate(call: ApiCall) -> Result<ApiReply, Problem> {
    let room = call.address(0)?;
    let user = Jid::parse(call.variable(1)).ok().filter(|user| user.resource().is_none());
    let user = user.ok_or_else(|| Refusal::Impossible("the user must be a bare address".into()))?;
    let reason = call.body.text("reason").map(str::to_owned);
    if !reason.as_deref().is_none_or(messages::is_sayable) {
        return Err(Refusal::Impossible("the reason contains characters that XML doesn't allow".into()).into());
    }
    let affiliation = call.body.text("affiliation").unwrap_or_default().to_owned();
    let act = format!("made {user} {affiliation} of a room: {room}");
    let (of, wanted) = (room.clone(), AffiliationView { user, affiliation, reason });
    let work = move |world: &mut _, answer: OperationAnswer<_>| {
        rooms::affiliate(world, of, wanted, |_, done| answer.complete(done));
    };
    call.shared.ask(work).await?;
    call.note(&call.shared.domain_of(room.domain()).unwrap_or_default(), act);
    Ok(ApiReply::without_content())
}

fn item(row: &RoomRow) -> Value {
    let room = &row.listing;
    json!({
        "jid": room.room.as_str(),
        "name": room.name,
        "public": room.is_public,
        "persistent": room.is_persistent,
        "occupants": row.occupants,
        "last_message": row.newest_ms.map(date::timestamp),
    })
}

fn to_json(jid: &Jid, room: &Described) -> Value {
    let occupants: Vec<_> = room
        .occupants
        .iter()
        .map(|inside| {
            let sessions: Vec<_> = inside.sessions.iter().map(Jid::as_str).collect();
            json!({ "nick": inside.nick, "role": inside.role, "affiliation": inside.affiliation, "sessions": sessions })
        })
        .collect();
    json!({
        "jid": jid.as_str(),
        "name": room.name,
        "description": room.description,
        "public": room.is_public,
        "persistent": room.is_persistent,
        "members_only": room.is_members_only,
        "affiliations": room.affiliations,
        "occupants": occupants,
    })
}
