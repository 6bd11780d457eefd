//! Checks of operators' options. The kind of a value is that of the option's default; a check is
//! more specific.

use rookery_hub::{Value, World};
use rookery_jid::{Jid, prepare};

/// Accepts every value of the right kind.
pub fn any(_: &Value) -> Result<(), String> {
    Ok(())
}

/// Accepts a number from 1.
pub fn at_least_one(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(0) => Err("must be at least 1".to_owned()),
        _ => Ok(()),
    }
}

/// Accepts the host of a service below its domain, such as `service.@`, where `@` is the domain.
pub fn host(value: &Value) -> Result<(), String> {
    let Value::Text(text) = value else { return Ok(()) };
    let example = text.replace('@', "example.org");
    match prepare(&example) {
        Ok(jid) if jid.as_ref().is_domain() && jid.as_ref().as_str() == example && example != "example.org" => Ok(()),
        _ => {
            Err(format!("{text:?} isn't a host for a service; write e.g. \"service.@\", where @ stands for the domain"))
        }
    }
}

/// Accepts a list of addresses.
pub fn addresses(value: &Value) -> Result<(), String> {
    each(value, |address| match prepare(address) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{address:?} isn't an address: {error}")),
    })
}

/// Accepts a list of texts that all pass `check`.
pub fn each(value: &Value, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    match value {
        Value::List(texts) => texts.iter().try_for_each(|text| check(text)),
        _ => Ok(()),
    }
}

/// Checks that a value lists who may use something: `all`, `local`, domains or bare addresses.
pub fn access_list(value: &Value) -> Result<(), String> {
    each(value, |rule| match prepare(rule) {
        _ if matches!(rule, "all" | "local") => Ok(()),
        Ok(jid) if jid.as_ref().as_str() == rule && jid.as_ref().is_bare() => Ok(()),
        Ok(jid) => Err(format!("{rule:?}: write {:?}", jid.as_ref().bare_str())),
        Err(_) => {
            Err(format!("{rule:?} is neither \"all\", \"local\", a domain nor an address such as \"news@example.org\""))
        }
    })
}

/// Returns whether a list that passed [`access_list`] admits a user.
pub fn may_use(world: &World, list: &[String], who: &Jid) -> bool {
    list.iter().any(|rule| match rule.as_str() {
        "all" => true,
        // Anonymous users (SASL ANONYMOUS) are let in only by the name of their domain.
        "local" => world.is_ours(who.domain()) && !world.is_anonymous(who.domain()),
        address => address == who.domain() || address == who.bare_str(),
    })
}

/// Checks that a value is a list of bare addresses of accounts.
pub fn bare_addresses(value: &Value) -> Result<(), String> {
    each(value, |text| match prepare(text) {
        Ok(jid) if jid.as_ref().as_str() == text && jid.as_ref().is_bare() && jid.as_ref().local().is_some() => Ok(()),
        _ => Err(format!("{text:?} isn't the address of an account, such as \"crone@example.org\"")),
    })
}
