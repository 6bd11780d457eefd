//! The vCard and the shared files of an account.

use rookery_base::date;
use rookery_jid::Jid;
use rookery_modules::{CardStored, store_card};
use rookery_operations::Refusal;
use rookery_store::{Slot, StoreError};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply, PAGE};
use super::problem::Problem;
use crate::ask::{OperationAnswer, now_ms};

pub(super) async fn card(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = existing(&call).await?;
    let found = call.shared.wait(call.shared.stores.documents.get(account.as_ref(), DOCUMENT)).await?;
    let found = found.ok_or_else(|| Problem::missing(format!("{account} has no vCard")))?;
    Ok(ApiReply::json(&json!({ "vcard": String::from_utf8_lossy(&found) })))
}

pub(super) async fn put_card(call: ApiCall) -> Result<ApiReply, Problem> {
    let card = call.body.text("vcard").map(str::to_owned);
    store(&call, card, "set the vCard of").await
}

pub(super) async fn remove_card(call: ApiCall) -> Result<ApiReply, Problem> {
    store(&call, None, "removed the vCard of").await
}

async fn store(call: &ApiCall, card: Option<String>, act: &str) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    if !call.shared.has_module(account.domain(), MODULE) {
        return Err(Refusal::Off(format!("the module `{MODULE}` is off in {}", account.domain())).into());
    }
    let of = account.clone();
    let work = move |world: &mut _, answer: OperationAnswer<CardStored>| {
        store_card(world, &of, card, |_, stored| answer.complete(outcome(stored)));
    };
    match call.shared.ask(work).await? {
        CardStored::Done => {
            call.note(account.domain(), format!("{act} {account}"));
            Ok(ApiReply::without_content())
        }
        CardStored::Missing => Err(Problem::missing(format!("there is no account {account}"))),
        CardStored::Malformed => {
            Err(Refusal::Impossible("vcard: expected a vCard element of the namespace vcard-temp".into()).into())
        }
        CardStored::TooLarge => Err(Refusal::Impossible("the vCard is too large".into()).into()),
    }
}

fn outcome(stored: Option<Result<CardStored, StoreError>>) -> Result<CardStored, Refusal> {
    Ok(stored.ok_or(Refusal::Late)??)
}

/// Replies with the files that an account shares. Their addresses, with which anyone could get
/// them, are left out.
pub(super) async fn files(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = existing(&call).await?;
    let limit = call.query.number("limit").unwrap_or(PAGE) as usize;
    let found = call.shared.wait(call.shared.stores.slots.files_of(account.as_ref(), now_ms(), limit)).await?;
    let items: Vec<_> = found.iter().map(file).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": null })))
}

fn file(slot: &Slot) -> Value {
    json!({
        "name": slot.name,
        "bytes": slot.size,
        "type": slot.content_type,
        "expires": date::timestamp(slot.expires_ms),
    })
}

async fn existing(call: &ApiCall) -> Result<Jid, Problem> {
    let account = call.address(0)?;
    match call.shared.wait(call.shared.stores.accounts.exists(account.as_ref())).await? {
        true => Ok(account),
        false => Err(Refusal::Missing(format!("there is no account {account}")).into()),
    }
}

/// The module that keeps vCards, and the name of its document.
const MODULE: &str = "vcard";
const DOCUMENT: &str = "vcard";
