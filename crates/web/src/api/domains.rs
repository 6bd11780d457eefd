//! Domains and their modules, the server's counters, and past actions.

use rookery_base::date;
use rookery_hub::{Domain, OptionSpec, Options, Value as OptionValue};
use serde_json::{Map, Value, json};

use super::call::{ApiCall, ApiReply, PAGE};
use super::problem::Problem;

pub(super) async fn list(call: ApiCall) -> Result<ApiReply, Problem> {
    let settings = call.shared.settings();
    let of_token = settings.hub.domains.iter().filter(|domain| call.token.is_for(&domain.name));
    let items: Vec<_> = of_token.map(|domain| json!({ "name": domain.name, "modules": on(domain) })).collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": null })))
}

pub(super) async fn get(call: ApiCall) -> Result<ApiReply, Problem> {
    let name = call.domain(0)?;
    let settings = call.shared.settings();
    let missing = || Problem::missing("there is no such domain");
    let domain = settings.hub.domains.iter().find(|domain| domain.name == name).ok_or_else(missing)?;
    let users = call.shared.wait(call.shared.stores.accounts.count(Some(&name))).await?;
    let disabled = call.shared.wait(call.shared.stores.accounts.count_disabled(&name)).await?;
    let modules = rookery_modules::table(&rookery_modules::Shared::default());
    let modules = modules.iter().map(|module| {
        let options = domain.module(module.name());
        json!({
            "name": module.name(),
            "summary": module.summary(),
            "enabled": options.is_some(),
            "options": options.map_or_else(Map::new, |options| json_of(module.options(), options)),
        })
    });
    let modules: Vec<_> = modules.collect();
    Ok(ApiReply::json(&json!({ "name": name, "users": users, "disabled_users": disabled, "modules": modules })))
}

pub(super) async fn statistics(call: ApiCall) -> Result<ApiReply, Problem> {
    let census = call.shared.census_of_all().await;
    let counters = &census.counters;
    Ok(ApiReply::json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "shards": census.coverage.shards,
        "sessions": census.sessions,
        "connections": census.connections,
        "sessions_since_start": counters.bound,
        "messages_received": counters.messages_in,
        "presence_received": counters.presence_in,
        "iqs_received": counters.iqs_in,
        "deliveries": census.deliveries,
        "waiting_bytes": census.unread.bytes,
        "store_waits": census.tasks,
        "store_errors": counters.store_errors,
        "slow_readers_ended": counters.overflows,
        "partial": !census.coverage.is_whole(),
    })))
}

pub(super) async fn log(call: ApiCall) -> Result<ApiReply, Problem> {
    let settings = call.shared.settings();
    let domains = settings.hub.domains.iter().map(|domain| domain.name.clone());
    let domains: Vec<_> = domains.filter(|domain| call.token.is_for(domain)).collect();
    let limit = call.query.number("limit").unwrap_or(PAGE) as usize;
    let entries = call.shared.action_log.recent(&domains, call.token.domain.is_none(), limit);
    let items: Vec<_> = entries
        .iter()
        .map(|entry| {
            json!({
                "time": date::timestamp(entry.unix_ms),
                "who": entry.who,
                "by": entry.by,
                "act": entry.act,
                "domain": entry.domain,
            })
        })
        .collect();
    Ok(ApiReply::json(&json!({ "items": items, "next": null })))
}

fn on(domain: &Domain) -> Vec<&'static str> {
    let mut names: Vec<_> = domain.modules.keys().copied().collect();
    names.sort_unstable();
    names
}

/// Returns the options of a module as JSON, by their keys.
fn json_of(specs: &[OptionSpec], options: &Options) -> Map<String, Value> {
    specs.iter().map(|spec| (spec.key.to_owned(), option_json(spec, options))).collect()
}

/// Returns the value of an option; secrets are hidden.
pub(crate) fn option_json(spec: &OptionSpec, options: &Options) -> Value {
    match (spec.default)() {
        OptionValue::Switch(_) => options.switch(spec.key).into(),
        OptionValue::Number(_) => options.number(spec.key).into(),
        OptionValue::Text(_) if is_secret(spec.key) && !options.text(spec.key).is_empty() => HIDDEN.into(),
        OptionValue::Text(_) => options.text(spec.key).into(),
        OptionValue::List(_) => options.list(spec.key).into(),
    }
}

fn is_secret(key: &str) -> bool {
    ["secret", "password", "key"].iter().any(|word| key.contains(word))
}

const HIDDEN: &str = "(hidden)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_told() {
        let check = |_: &OptionValue| Ok(());
        let default = || OptionValue::Text(String::new());
        let spec = |key| OptionSpec { key, default, doc: "", check };
        let mut options = Options::defaults(&[spec("secret"), spec("host")]);
        assert_eq!(option_json(&spec("secret"), &options), json!(""));
        options.set(&spec("secret"), OptionValue::Text("hunter2".into()));
        options.set(&spec("host"), OptionValue::Text("turn.example".into()));
        assert_eq!(option_json(&spec("secret"), &options), json!(HIDDEN));
        assert_eq!(option_json(&spec("host"), &options), json!("turn.example"));
    }
}
