//! Messages of a domain to its users.

use hyper::StatusCode;
use rookery_jid::Jid;
use rookery_operations::Refusal;
use rookery_operations::announce::Text;
use rookery_operations::messages::{self, MessageAudience};
use serde_json::json;

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;

pub(super) async fn send(call: ApiCall) -> Result<ApiReply, Problem> {
    let (domain, text) = (call.domain(0)?, text(&call)?);
    let to = Jid::parse(call.body.text("to").unwrap_or_default());
    let to = to.map_err(|error| Refusal::Impossible(format!("to: {error}")))?;
    call.note(&domain, format!("sent a message to {to}"));
    let work = move |world: &mut _, answer: crate::ask::OperationAnswer<()>| {
        messages::send(world, &domain, &to, &text);
        answer.complete(Ok(()));
    };
    call.shared.ask(work).await?;
    Ok(ApiReply::without_content().with_status(StatusCode::ACCEPTED))
}

pub(super) async fn announce(call: ApiCall) -> Result<ApiReply, Problem> {
    let (domain, text) = (on(&call)?, text(&call)?);
    let (to, whom) = match call.body.text("to") {
        Some("all") => {
            let count = call.shared.wait(call.shared.stores.accounts.count(Some(&domain))).await?;
            (MessageAudience::All, format!("all accounts ({count})"))
        }
        _ => (MessageAudience::Online, format!("those who are online ({})", call.shared.online(&domain).await?.len())),
    };
    call.note(&domain, format!("announced to {whom}: {}", text.body));
    let work = move |world: &mut _, answer: crate::ask::OperationAnswer<()>| {
        messages::announce(world, &domain, to, &text);
        answer.complete(Ok(()));
    };
    call.shared.ask(work).await?;
    Ok(ApiReply::without_content().with_status(StatusCode::ACCEPTED))
}

pub(super) async fn motd(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = on(&call)?;
    let text =
        call.shared.ask(move |world, answer| messages::motd(world, &domain, |_, text| answer.complete(text))).await?;
    let text = text.ok_or_else(|| Problem::missing("there is no message of the day"))?;
    Ok(ApiReply::json(&json!({ "subject": text.subject, "body": text.body })))
}

pub(super) async fn set_motd(call: ApiCall) -> Result<ApiReply, Problem> {
    let text = text(&call)?;
    put(call, Some(text), "set the message of the day").await
}

pub(super) async fn delete_motd(call: ApiCall) -> Result<ApiReply, Problem> {
    put(call, None, "removed the message of the day").await
}

async fn put(call: ApiCall, text: Option<Text>, what: &str) -> Result<ApiReply, Problem> {
    let domain = on(&call)?;
    let of = domain.clone();
    call.shared.ask(move |world, answer| messages::set_motd(world, &of, text, |_, set| answer.complete(set))).await?;
    call.note(&domain, what.to_owned());
    Ok(ApiReply::without_content())
}

/// Returns the domain in the path, if announcements are on there.
fn on(call: &ApiCall) -> Result<String, Problem> {
    let domain = call.domain(0)?;
    match call.shared.has_module(&domain, "announce") {
        true => Ok(domain),
        false => Err(Refusal::Off(format!("the module `announce` is off in {domain}")).into()),
    }
}

fn text(call: &ApiCall) -> Result<Text, Problem> {
    let text = |name| call.body.text(name).map(str::to_owned);
    let text = Text { subject: text("subject"), body: text("body").unwrap_or_default() };
    let is_sayable = |text: &str| messages::is_sayable(text);
    match is_sayable(&text.body) && text.subject.as_deref().is_none_or(is_sayable) {
        true => Ok(text),
        false => Err(Refusal::Impossible("the text contains characters that XML doesn't allow".into()).into()),
    }
}
