//! Accounts.

use rookery_base::date;
use rookery_jid::Jid;
use rookery_operations::Refusal;
use rookery_operations::users::{self, Listed};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;
use super::sessions::session;
use crate::form::encode;

pub(super) async fn list(call: ApiCall) -> Result<ApiReply, Problem> {
    let (domain, (after, limit)) = (call.domain(0)?, call.page()?);
    let search = call.query.text("search").unwrap_or_default();
    let page = call.shared.wait(users::list(&call.shared.stores, &domain, search, after, limit)).await?;
    let items: Vec<_> = page.users.iter().map(item).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": page.next.as_ref().map(Jid::as_str) })))
}

pub(super) async fn add(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let name = call.body.text("name").unwrap_or_default();
    let account = users::address(&call.shared.settings().hub, name, &domain)?;
    let (made, password) = (account.clone(), call.password().unwrap_or_else(|| String::new().into()));
    call.shared.ask(move |world, answer| users::add(world, made, password, |_, added| answer.complete(added))).await?;
    call.note(&domain, format!("created an account: {account}"));
    let body = item(&Listed { jid: account.clone(), is_disabled: false });
    Ok(ApiReply::json(&body).created(&format!("/users/{}", encode(account.as_str()))))
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
    Ok(ApiReply::done())
}

pub(super) async fn remove(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let removed = account.clone();
    call.shared.ask(move |world, answer| users::remove(world, removed, |_, removed| answer.complete(removed))).await?;
    call.note(account.domain(), format!("deleted an account: {account}"));
    Ok(ApiReply::done())
}

pub(super) async fn empty_archive(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let emptied = account.clone();
    call.shared
        .ask(move |world, answer| users::empty_archive(world, emptied, |_, emptied| answer.complete(emptied)))
        .await?;
    call.note(account.domain(), format!("emptied an archive: {account}"));
    Ok(ApiReply::done())
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

fn item(user: &Listed) -> Value {
    json!({ "jid": user.jid.as_str(), "disabled": user.is_disabled })
}
