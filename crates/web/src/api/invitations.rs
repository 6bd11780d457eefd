//! Links that admit one person, once.

use rookery_base::date;
use rookery_jid::prepare_local;
use rookery_operations::Refusal;
use rookery_operations::invitations::{LinkPurpose, make, page, uri};
use serde_json::json;

use super::call::{ApiCall, ApiReply};
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
