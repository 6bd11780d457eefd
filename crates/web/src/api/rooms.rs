//! Rooms.

use rookery_jid::Jid;
use rookery_operations::rooms::{self, Described, Listed};
use rookery_operations::{Refusal, messages};
use serde_json::{Value, json};

use super::call::{Call, Reply};
use super::problem::Problem;

pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    let (domain, (after, limit)) = (call.domain(0)?, call.page()?);
    let settings = call.shared.settings();
    let host = settings.hub.domains.iter().find(|found| found.name == domain).and_then(rooms::host);
    let host = host.ok_or_else(|| Refusal::Off(format!("the module `rooms` is off in {domain}")))?;
    let mut found = call
        .shared
        .ask(move |world, answer| {
            rooms::list(world, &host, after, limit, |_, found| answer.complete(found));
        })
        .await?;
    let is_cut = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| is_cut).map(|room| room.room.as_str());
    let items: Vec<_> = found.iter().map(item).collect();
    Ok(Reply::json(&json!({ "items": items, "next": next })))
}

pub(super) async fn get(call: Call) -> Result<Reply, Problem> {
    let room = call.address(0)?;
    let of = room.clone();
    let described =
        call.shared.ask(move |world, answer| rooms::describe(world, of, |_, found| answer.complete(found))).await?;
    Ok(Reply::json(&shown(&room, &described)))
}

pub(super) async fn destroy(call: Call) -> Result<Reply, Problem> {
    let room = call.address(0)?;
    let reason = call.query.text("reason").map(str::to_owned);
    if !reason.as_deref().is_none_or(messages::is_sayable) {
        return Err(Refusal::Impossible("the reason has characters that XML has no word for".into()).into());
    }
    let of = room.clone();
    call.shared.ask(move |world, answer| rooms::destroy(world, of, reason, |_, done| answer.complete(done))).await?;
    let domain = call.shared.domain_of(room.domain()).unwrap_or_default();
    call.note(&domain, format!("destroyed a room: {room}"));
    Ok(Reply::done())
}

fn item(room: &Listed) -> Value {
    json!({ "jid": room.room.as_str(), "name": room.name, "public": room.is_public, "persistent": room.is_persistent })
}

fn shown(jid: &Jid, room: &Described) -> Value {
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
        "public": room.is_public,
        "persistent": room.is_persistent,
        "members_only": room.is_members_only,
        "affiliations": room.affiliations,
        "occupants": occupants,
    })
}
