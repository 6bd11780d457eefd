//! Contacts and archives of accounts.

use rookery_base::date::timestamp_ms;
use rookery_hub::WantedContact;
use rookery_jid::Jid;
use rookery_operations::{Refusal, archives, messages, rosters};
use rookery_store::{RosterItem, Subscription};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply, PAGE};
use super::problem::Problem;

pub(super) async fn list(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let contacts = call.shared.wait(rosters::list(&call.shared.stores, account.as_ref())).await??;
    let items: Vec<_> = contacts.iter().map(contact).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": null })))
}

pub(super) async fn put(call: ApiCall) -> Result<ApiReply, Problem> {
    let (account, contact) = (call.address(0)?, other(&call)?);
    let texts = call.body.text("name").into_iter().chain(call.body.texts("groups"));
    if !texts.into_iter().all(messages::is_sayable) {
        return Err(Refusal::Impossible("a text contains characters that XML doesn't allow".into()).into());
    }
    let mut groups: Vec<String> = Vec::new();
    for group in call.body.texts("groups") {
        if !groups.iter().any(|known| known == group) {
            groups.push(group.to_owned());
        }
    }
    let name = call.body.text("name").filter(|name| !name.is_empty()).map(str::to_owned);
    let wanted = WantedContact { contact: contact.clone(), name, groups, is_removal: false };
    let is_mutual = call.body.switch("mutual") == Some(true);
    if is_mutual {
        let domain =
            call.shared.domain_of(contact.domain()).ok_or_else(|| Problem::missing("there is no such account"))?;
        call.may(&domain)?;
        if !call.shared.wait(call.shared.stores.accounts.exists(contact.as_ref())).await? {
            return Err(Refusal::Missing(format!("there is no account {contact}")).into());
        }
    }
    change(&call, &account, wanted, is_mutual).await?;
    call.note(account.domain(), format!("changed a contact of {account}: {contact}"));
    Ok(ApiReply::without_content())
}

pub(super) async fn remove(call: ApiCall) -> Result<ApiReply, Problem> {
    let (account, contact) = (call.address(0)?, other(&call)?);
    let wanted = WantedContact { contact: contact.clone(), name: None, groups: Vec::new(), is_removal: true };
    change(&call, &account, wanted, false).await?;
    call.note(account.domain(), format!("removed a contact of {account}: {contact}"));
    Ok(ApiReply::without_content())
}

async fn change(call: &ApiCall, account: &Jid, wanted: WantedContact, is_mutual: bool) -> Result<(), Problem> {
    let owner = account.clone();
    let change = move |world: &mut _, answer: crate::ask::OperationAnswer<()>| {
        rosters::change(world, owner, wanted, is_mutual, |_, changed| answer.complete(changed));
    };
    Ok(call.shared.ask(change).await?)
}

pub(super) async fn archive(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let with = call.query.text("with").map(Jid::parse).transpose();
    let with = with.map_err(|_| Refusal::Impossible("with: expected an address".into()))?;
    let limit = call.query.number("limit").unwrap_or(PAGE) as usize;
    let (stores, after) = (&call.shared.stores, call.query.text("after"));
    let part = call.shared.wait(archives::page(stores, account.as_ref(), with, after, limit)).await??;
    let next = part.messages.last().filter(|_| part.has_more).map(|last| last.id.clone());
    let items: Vec<_> = part.messages.iter().map(message).collect();
    call.note(account.domain(), format!("read the archive of {account}"));
    Ok(ApiReply::json(&json!({ "items": items, "next": next })))
}

pub(super) async fn archived_message(call: ApiCall) -> Result<ApiReply, Problem> {
    let account = call.address(0)?;
    let found = call.shared.wait(archives::message(&call.shared.stores, account.as_ref(), call.variable(1))).await??;
    call.note(account.domain(), format!("read a message of the archive of {account}: {}", found.id));
    Ok(ApiReply::json(&message(&found)))
}

fn message(message: &archives::KeptMessage) -> Value {
    json!({ "id": message.id, "time": timestamp_ms(message.unix_ms), "stanza": message.stanza })
}

/// Returns the contact that the path names.
fn other(call: &ApiCall) -> Result<Jid, Problem> {
    let contact =
        Jid::parse(call.variable(1)).map_err(|_| Refusal::Impossible("no contact can have this address".into()))?;
    match contact.resource() {
        None => Ok(contact),
        Some(_) => Err(Refusal::Impossible("a contact has no resource".into()).into()),
    }
}

fn contact(item: &RosterItem) -> Value {
    let subscription = match item.subscription {
        Subscription::None => "none",
        Subscription::To => "to",
        Subscription::From => "from",
        Subscription::Both => "both",
    };
    json!({
        "jid": item.jid.as_str(),
        "name": item.name,
        "groups": item.groups,
        "subscription": subscription,
        "asked": item.ask,
    })
}
