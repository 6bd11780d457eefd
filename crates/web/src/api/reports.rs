//! Reports of abuse (XEP-0377).

use rookery_base::date;
use rookery_jid::Jid;
use rookery_operations::reports::{self, AbuseReport};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;

pub(super) async fn list(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let listed = call.shared.wait(reports::list(&call.shared.stores, &domain)).await?;
    let items: Vec<_> = listed.iter().map(to_json).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": null })))
}

pub(super) async fn dismiss(call: ApiCall) -> Result<ApiReply, Problem> {
    let domain = call.domain(0)?;
    let id = call.variable(1).to_owned();
    if !call.shared.wait(reports::dismiss(&call.shared.stores, &domain, &id)).await? {
        return Err(Problem::missing("there is no such report"));
    }
    call.note(&domain, format!("dismissed an abuse report: {id}"));
    Ok(ApiReply::without_content())
}

fn to_json(report: &AbuseReport) -> Value {
    json!({
        "id": report.id,
        "time": date::timestamp(report.unix_ms),
        "reporter": report.by.as_ref().map(Jid::as_str),
        "reported": report.about.as_str(),
        "reason": report.reason,
        "text": report.text,
    })
}
