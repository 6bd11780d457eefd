//! The server as a whole: its state, its configuration, its streams with others.

use std::path::Path;

use rookery_base::{count_of, date};
use rookery_jid::Jid;
use rookery_operations::{Gathered, Refusal, reach};
use rookery_shard::{ShardCensus, StreamReport};
use serde_json::{Value, json};

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;
use crate::ServedCertificate;
use crate::ask::OperationAnswer;
use crate::comparison::{ChangedValue, ComparedValues};
use crate::health::{DiskFill, Space};
use crate::readiness;

pub(super) async fn status(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let (settings, instance) = (call.shared.settings(), &call.shared.instance);
    let accounts = accounts(&call).await?;
    let away_ms = call.shared.stores.meta.activity().away_since_ms;
    let census = call.shared.census_of_all().await;
    let away = census.by_domain().filter(|((_, carrier), _)| carrier.transport.is_none());
    let waiting_sessions: usize = away.map(|(_, count)| count).sum();
    let ShardCensus { coverage, sessions, connections, .. } = census;
    let certificates: Vec<_> = settings.certificates.iter().map(certificate).collect();
    Ok(ApiReply::json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "process": std::process::id(),
        "started": date::timestamp(instance.started_ms),
        "folder": instance.folder.display().to_string(),
        "domains": settings.domains,
        "shards": coverage.shards,
        "accounts": accounts,
        "database_away_since": away_ms.map(date::timestamp),
        "sessions": sessions,
        "waiting_sessions": waiting_sessions,
        "connections": connections,
        "certificates": certificates,
        "disk": disk(&instance.folder),
        "restart": settings.restart.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "partial": !coverage.is_whole(),
    })))
}

/// Counts the accounts; returns `None` if the database is away.
async fn accounts(call: &ApiCall) -> Result<Option<u64>, Problem> {
    let stores = &call.shared.stores;
    let is_away = || stores.meta.activity().away_since_ms.is_some();
    if is_away() {
        return Ok(None);
    }
    match call.shared.wait(stores.accounts.count(None)).await {
        Ok(count) => Ok(Some(count)),
        Err(_) if is_away() => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

pub(super) async fn readiness(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let found = readiness::state(&call.shared).await;
    let (is_ready, state) = found.map_or_else(|why| (false, why.to_owned()), |state| (true, state));
    Ok(ApiReply::json(&json!({ "ready": is_ready, "state": state })))
}

pub(super) async fn reload(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let reloaded = call.shared.patiently(call.shared.instance.process.reload()).await?;
    match reloaded {
        Ok(restart) => {
            call.note("", "reloaded the configuration".to_owned());
            Ok(ApiReply::json(&json!({ "restart": restart })))
        }
        Err(words) => Err(Refusal::Impossible(words).into()),
    }
}

pub(super) async fn changes(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let compared = call.shared.patiently(call.shared.instance.comparer.compare()).await?;
    let ComparedValues { file, changes } = compared.map_err(Refusal::Impossible)?;
    let changes: Vec<_> = changes.iter().map(change).collect();
    Ok(ApiReply::json(&json!({ "file": file.map(|file| file.display().to_string()), "changes": changes })))
}

pub(super) async fn streams(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let Gathered { items: all, is_partial } = call.shared.servers_of_all().await?;
    let items: Vec<_> = all.iter().map(stream).collect();
    let mut part = json!({ "items": items, "next": null });
    if is_partial {
        part["partial"] = true.into();
    }
    Ok(ApiReply::json(&part))
}

pub(super) async fn ping(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let missing = |_| Problem::missing("there is no such server");
    let server = Jid::new(None, call.variable(0), None).map_err(missing)?;
    let from = call.shared.settings().hub.default_domain().to_owned();
    let work = move |world: &mut _, answer: OperationAnswer<_>| {
        reach::ping(world, &from, &server, |_, reached| answer.complete(Ok(reached)));
    };
    let reached = call.shared.ask(work).await?;
    Ok(ApiReply::json(&json!({ "answered": reached.is_ok(), "condition": reached.err() })))
}

pub(super) async fn close_streams(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let missing = |_| Problem::missing("there is no such server");
    let server = rookery_jid::prepare_domain(call.variable(0)).map_err(missing)?.into_owned();
    let (closed, is_partial) = call.shared.close_servers_of_all(&server, None).await?;
    call.note("", format!("closed {} with {server}", count_of(closed as u64, "stream")));
    Ok(ApiReply::json(&json!({ "ended": closed, "partial": is_partial })))
}

/// Returns the space on the disk; null if the system doesn't report it.
fn disk(folder: &Path) -> Value {
    let state = |fill| match fill {
        DiskFill::Fine => "fine",
        DiskFill::Low => "low",
        DiskFill::Full => "full",
    };
    let shown =
        |space: Space| json!({ "free_bytes": space.free, "total_bytes": space.total, "state": state(space.fill()) });
    Space::of(folder).map_or(Value::Null, shown)
}

fn certificate(served: &ServedCertificate) -> Value {
    json!({
        "file": served.file.display().to_string(),
        "names": served.names,
        "expires": date::timestamp(served.ends_ms()),
    })
}

fn change(change: &ChangedValue) -> Value {
    json!({
        "key": change.key,
        "running": change.running,
        "file": change.file,
        "needs_restart": change.needs_restart,
    })
}

fn stream(report: &StreamReport) -> Value {
    json!({
        "remote": report.remote,
        "local": report.local,
        "direction": report.direction.name(),
        "state": report.state,
        "proven_by": report.security,
        "address": report.address.map(|address| address.to_string()),
        "waiting": report.waiting,
        "quiet_seconds": report.quiet_ms / 1000,
        "trouble": report.trouble,
    })
}
