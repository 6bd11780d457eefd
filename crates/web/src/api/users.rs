//! Accounts.

use rookery_base::date;
use rookery_jid::Jid;
use rookery_operations::Refusal;
use rookery_operations::users;
use rookery_store::{Browsed, Choice};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply, PAGE};
use super::problem::Problem;
use super::sessions::session;
use crate::account_list::{KINDS, ORDERS};
use crate::form::encode;

pub(super) async fn list(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let (only, order) = (call.query.text("only"), call.query.text("order"));
    if only.is_some() || order.is_some() {
        return reply_in_order(&call, &domain, only, order).await;
    }
    let (after, limit) = call.page()?;
    let search = call.query.text("search").unwrap_or_default();
    let page = call.shared.wait(users::list(&call.shared.stores, &domain, search, after, limit)).await?;
    // All questions are queued before the first answer is awaited.
    let last: Vec<_> = page.users.iter().map(|user| call.shared.stores.last_presence.last(user.jid.as_ref())).collect();
    let mut items = Vec::with_capacity(last.len());
    for (user, last) in page.users.iter().zip(last) {
        items.push(item(&user.jid, user.is_disabled, call.shared.wait(last).await?.map(|last| last.unix_ms)));
    }
    Ok(ApiReply::json(&json!({ "items": items, "next": page.next.as_ref().map(Jid::as_str) })))
}

/// Replies with a part of the accounts of a kind, in an order. The `next` of such a part is the
/// number of accounts up to its end.
async fn reply_in_order(
    call: &ApiCall,
    domain: &str,
    only: Option<&str>,
    order: Option<&str>,
) -> Result<ApiReply, Problem> {
    let kind = KINDS.iter().find(|(name, _)| only == Some(name)).unwrap_or(&KINDS[0]).1;
    let order = ORDERS.iter().find(|(name, _)| order == Some(name)).unwrap_or(&ORDERS[0]).1;
    let after = call.query.text("after").unwrap_or("0").parse::<u32>();
    let skip =
        after.map_err(|_| Refusal::Impossible("after: expected the `next` of the previous part".into()))? as usize;
    let limit = call.query.number("limit").unwrap_or(PAGE) as usize;
    let contains = call.query.text("search").unwrap_or_default().to_lowercase();
    let choice = Choice { contains, order, skip, limit, ..Choice::default() };
    let Browsed { total, accounts } = call.shared.accounts_of(domain, kind, choice).await?;
    let until = skip + accounts.len();
    let next = (!accounts.is_empty() && (until as u64) < total).then(|| until.to_string());
    let items: Vec<_> =
        accounts.iter().map(|account| item(&account.jid, account.is_disabled, account.last_seen_ms)).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": next })))
}

pub(super) async fn add(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let name = call.body.text("name").unwrap_or_default();
    let account = users::address(&call.shared.settings().hub, name, &domain)?;
    let (made, password) = (account.clone(), call.password().unwrap_or_else(|| String::new().into()));
    call.shared.ask(move |world, answer| users::add(world, made, password, |_, added| answer.complete(added))).await?;
    call.note(&domain, format!("created an account: {account}"));
    let body = item(&account, false, None);
    Ok(ApiReply::json(&body).with_location(&format!("/users/{}", encode(account.as_str()))))
}

pub(super) async fn get(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let user =
        call.shared.ask(move |world, answer| users::describe(world, account, |_, user| answer.complete(user))).await?;
    let sessions: Vec<_> = user.sessions.iter().map(session).collect();
    Ok(ApiReply::json(&json!({
        "jid": user.jid.as_str(),
        "disabled": user.is_disabled,
        "admin": user.is_admin,
        "contacts": user.contacts,
        "last_seen": user.last_seen_ms.map(date::timestamp),
        "sessions": sessions,
    })))
}

pub(super) async fn change(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    if call.body.is_empty() {
        exists(&call, &account).await?;
    }
    if let Some(password) = call.password() {
        let changed = account.clone();
        call.shared
            .ask(move |world, answer| {
                users::set_password(world, changed, password, None, |_, set| answer.complete(set))
            })
            .await?;
        call.note(account.domain(), format!("set a password: {account}"));
    }
    if let Some(disabled) = call.body.switch("disabled") {
        let changed = account.clone();
        call.shared
            .ask(move |world, answer| users::set_disabled(world, changed, disabled, |_, set| answer.complete(set)))
            .await?;
        let what = if disabled { "disabled an account" } else { "re-enabled an account" };
        call.note(account.domain(), format!("{what}: {account}"));
    }
    Ok(ApiReply::without_content())
}

pub(super) async fn remove(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let removed = account.clone();
    call.shared.ask(move |world, answer| users::remove(world, removed, |_, removed| answer.complete(removed))).await?;
    call.note(account.domain(), format!("deleted an account: {account}"));
    Ok(ApiReply::without_content())
}

pub(super) async fn empty_archive(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let emptied = account.clone();
    call.shared
        .ask(move |world, answer| users::empty_archive(world, emptied, |_, emptied| answer.complete(emptied)))
        .await?;
    call.note(account.domain(), format!("emptied an archive: {account}"));
    Ok(ApiReply::without_content())
}

pub(super) async fn export(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    exists(&call, &account).await?;
    let document = call.shared.export(account.clone()).await?;
    call.note(account.domain(), format!("exported an account: {account}"));
    Ok(ApiReply { content_type: "application/xml", body: document, ..ApiReply::json(&Value::Null) })
}

async fn exists(call: &ApiCall, account: &Jid) -> Result<(), Problem> {
    match call.shared.wait(call.shared.stores.accounts.exists(account.as_ref())).await? {
        true => Ok(()),
        false => Err(Refusal::Missing(format!("there is no account {account}")).into()),
    }
}

fn item(jid: &Jid, is_disabled: bool, last_seen_ms: Option<u64>) -> Value {
    json!({ "jid": jid.as_str(), "disabled": is_disabled, "last_seen": last_seen_ms.map(date::timestamp) })
}
