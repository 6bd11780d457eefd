//! Links that admit one person, once.

use rookery_base::date;
use rookery_jid::{Jid, prepare_local};
use rookery_operations::Refusal;
use rookery_operations::invitations::{LinkPurpose, fixed_name, make, page, revoke, uri};
use rookery_store::{Invitation, Purpose};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply, PAGE};
use super::problem::Problem;
use crate::ask::now_ms;

pub(super) async fn invite(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let local = call.body.text("name").map(prepare_local).transpose();
    let local = local.map_err(|error| Refusal::Impossible(format!("no account can have this name: {error}")))?;
    let local = local.map(|local| local.into_owned());
    let what = local.as_deref().map_or_else(|| domain.clone(), |local| format!("{local}@{domain}"));
    let wanted = LinkPurpose::Account { domain: domain.clone(), local, inviter: None };
    answer(call, &domain, wanted, format!("made an invitation: {what}")).await
}

pub(super) async fn password_link(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let act = format!("created a link to set a password: {account}");
    answer(call, account.domain(), LinkPurpose::Password(account.clone()), act).await
}

/// Replies with the links of a domain that can still be used, those that expire first.
pub(super) async fn list(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let limit = call.query.number("limit").unwrap_or(PAGE) as usize;
    let found = call.shared.wait(call.shared.stores.invitations.open(&domain, now_ms(), limit)).await?;
    let pages = call.shared.pages(&domain);
    let items: Vec<_> = found.iter().map(|invitation| to_json(invitation, pages.as_deref())).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": null })))
}

pub(super) async fn withdraw(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let revoked = revoke(&call.shared.stores, std::slice::from_ref(&domain), call.variable(1), now_ms());
    let revoked = call.shared.wait(revoked).await?;
    let (_, act) = revoked.ok_or_else(|| Problem::missing("the link was used or revoked, or has expired"))?;
    call.note(&domain, act);
    Ok(ApiReply::without_content())
}

fn to_json(invitation: &Invitation, pages: Option<&str>) -> Value {
    let account = fixed_name(invitation).map(|local| format!("{local}@{}", invitation.domain));
    let (purpose, inviter) = match &invitation.purpose {
        Purpose::Account(_) => ("account", invitation.owner.as_ref()),
        Purpose::Password => ("password", None),
    };
    json!({
        "token": invitation.token,
        "purpose": purpose,
        "account": account,
        "inviter": inviter.map(Jid::as_str),
        "uri": uri(invitation, false),
        "page": pages.map(|pages| page(invitation, pages)),
        "expires": date::timestamp(invitation.expires_ms),
    })
}

async fn answer(call: ApiCall, domain: &str, wanted: LinkPurpose, act: String) -> Result<ApiReply, Problem> {
    if !call.shared.has_module(domain, "register") {
        let words = format!("the module `register` is off in {domain}, so nobody could use the link");
        return Err(Refusal::Off(words).into());
    }
    let days = call.body.number("days").unwrap_or(DAYS);
    let made = call.shared.wait(make(&call.shared.stores, wanted, days, now_ms())).await??;
    call.shared.remember_maker(&made, &call.caller.who).await;
    call.note(domain, act);
    let page = call.shared.pages(domain).map(|pages| page(&made, &pages));
    let body = json!({ "uri": uri(&made, false), "page": page, "expires": date::timestamp(made.expires_ms) });
    Ok(ApiReply::json(&body).with_status(hyper::StatusCode::CREATED))
}

/// The default validity of a link in days.
const DAYS: u64 = 7;
