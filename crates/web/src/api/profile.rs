//! Sampled stacks of the running server.

use std::time::Duration;

use hyper::StatusCode;
use rookery_operations::Refusal;
use rookery_profile::sampler::{MOST_RATE, Sampled, Sampler, USUAL_RATE, Unsampled};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::call::{ApiCall, ApiReply};
use super::field::{ApiField, ApiFieldKind};
use super::problem::Problem;
use crate::machine::ProcessReadings;

/// Takes a profile. If the client disconnects before the end, the profile ends, too.
pub(super) async fn take(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let seconds = call.body.number("seconds").unwrap_or(USUAL_SECONDS);
    let rate = call.body.number("rate").unwrap_or(USUAL_RATE.into());
    let rate = u32::try_from(rate).unwrap_or(MOST_RATE);
    let sampler = apart(move || Sampler::start(rate)).await?;
    call.note("", format!("started sampling the stacks of the server for {seconds} seconds, at {rate} Hz"));
    let before = ProcessReadings::read();
    sleep(Duration::from_secs(seconds)).await;
    let cpu = ProcessReadings::read().zip(before).map(|(after, before)| after.cpu_seconds - before.cpu_seconds);
    let mut sampled = apart(move || sampler.finish()).await?;
    sampled.cpu_milliseconds = (1000.0 * cpu.unwrap_or_default()).round() as u64;
    Ok(ApiReply::json(&to_json(&sampled)))
}

/// Runs work that takes milliseconds on a thread of its own.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T, Unsampled> + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::Late)?;
    done.map_err(|unsampled| match unsampled {
        Unsampled::Busy => Problem::new(StatusCode::CONFLICT, "profile-running", unsampled.to_string()),
        // The message names a file of this machine, which those who may profile the server may
        // know.
        Unsampled::Failed(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", unsampled.to_string()),
    })
}

fn to_json(sampled: &Sampled) -> Value {
    let module = |module: &rookery_profile::sampler::SampledModule| json!({ "path": module.path, "file": module.file });
    let stack = |stack: &rookery_profile::sampler::Stack| json!({ "thread": stack.thread, "samples": stack.samples, "frames": stack.frames });
    json!({
        "rate": sampled.rate,
        "milliseconds": sampled.milliseconds,
        "cpu_milliseconds": sampled.cpu_milliseconds,
        "is_by_ticks": sampled.is_by_ticks,
        "samples": sampled.samples,
        "left_out": sampled.left_out,
        "modules": sampled.modules.iter().map(module).collect::<Vec<_>>(),
        "stacks": sampled.stacks.iter().map(stack).collect::<Vec<_>>(),
    })
}

/// The members of a request.
pub(super) const FIELDS: &[ApiField] = &[
    ApiField {
        name: "seconds",
        kind: ApiFieldKind::Number { min: 1, max: MOST_SECONDS },
        is_required: false,
        doc: "Seconds of sampling; 10 by default.",
    },
    ApiField {
        name: "rate",
        kind: ApiFieldKind::Number { min: 1, max: MOST_RATE as u64 },
        is_required: false,
        doc: "Samples per second of the server's CPU time; 99 by default.",
    },
];

/// The default duration of a profile.
const USUAL_SECONDS: u64 = 10;
/// The longest duration.
pub(crate) const MOST_SECONDS: u64 = 120;
