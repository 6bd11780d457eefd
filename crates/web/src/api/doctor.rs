//! Findings about the running server, in sentences with numbers.

use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;
use crate::doctor::finding::DoctorFinding;
use crate::doctor::{facts, judge};

/// Replies with all findings, including the good ones.
pub(super) async fn examine(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let facts = facts::gather(&call.shared).await?;
    let findings: Vec<_> = judge::all(&facts).iter().map(to_json).collect();
    Ok(ApiReply::json(&json!({ "findings": findings })))
}

fn to_json(finding: &DoctorFinding) -> Value {
    let perhaps = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "grade": finding.grade.name(),
        "about": finding.about,
        "what": finding.what,
        "why": perhaps(&finding.why),
        "remedy": perhaps(&finding.remedy),
    })
}
