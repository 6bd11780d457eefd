//! Sessions.

use rookery_base::{count_of, date};
use rookery_jid::Jid;
use rookery_operations::sessions::{self, SessionInfo};
use rookery_operations::{Gathered, Refusal};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;

pub(super) async fn list(call: ApiCall) -> Result<ApiReply, Problem> {
    let (domain, (after, limit)) = (call.domain(0)?, call.page()?);
    let work = move |world: &mut _, answer: crate::ask::OperationAnswer<_>| {
        sessions::list(world, &domain, after, limit, |_, found| answer.complete(Ok(found)));
    };
    let Gathered { items: mut found, is_partial }: Gathered<SessionInfo> = call.shared.ask(work).await?;
    let is_cut = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| is_cut).map(|info| info.jid.as_str());
    let items: Vec<_> = found.iter().map(session).collect();
    let mut part = json!({ "items": items, "next": next });
    if is_partial {
        part["partial"] = true.into();
    }
    Ok(ApiReply::json(&part))
}

pub(super) async fn of_user(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    if !call.shared.wait(call.shared.stores.accounts.exists(account.as_ref())).await? {
        return Err(Problem::missing(format!("there is no account {account}")));
    }
    let work = move |world: &mut _, answer: crate::ask::OperationAnswer<_>| {
        sessions::of(world, &account, |_, found| answer.complete(found));
    };
    let found: Vec<SessionInfo> = call.shared.ask(work).await?;
    let items: Vec<_> = found.iter().map(session).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": null })))
}

pub(super) async fn end_all(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let ended = end(&call, account.clone()).await?;
    call.note(account.domain(), format!("ended {}: {account}", count_of(ended as u64, "session")));
    Ok(ApiReply::json(&json!({ "ended": ended })))
}

pub(super) async fn end_one(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let missing = || Problem::missing("there is no such session");
    let session = Jid::new(account.local(), account.domain(), Some(call.variable(1))).map_err(|_| missing())?;
    if end(&call, session.clone()).await? == 0 {
        return Err(missing());
    }
    call.note(account.domain(), format!("ended a session: {session}"));
    Ok(ApiReply::without_content())
}

async fn end(call: &ApiCall, address: Jid) -> Result<usize, Refusal> {
    call.shared.ask(move |world, answer| sessions::end(world, address, |_, ended| answer.complete(ended))).await
}

pub(super) fn session(info: &SessionInfo) -> Value {
    json!({
        "jid": info.jid.as_str(),
        "user": info.jid.bare_str(),
        "resource": info.jid.resource(),
        "address": info.address.map(|address| address.ip().to_canonical().to_string()),
        "transport": info.transport,
        "tls": info.is_encrypted,
        "connected": info.since_ms.map(date::timestamp),
        "available": info.is_available,
        "priority": info.priority,
        "client": info.client,
        "lost": info.lost.map(|lost| date::timestamp(lost.since_ms)),
        "waits_until": info.lost.map(|lost| date::timestamp(lost.until_ms)),
        "waiting_bytes": info.waiting_bytes,
        "idle_seconds": info.idle_ms.map(|idle_ms| idle_ms / 1000),
    })
}
