//! Checks of what operators write. The kind of a value is that of the option's default; a check says more.

use rookery_hub::Value;
use rookery_jid::prepare;

/// Every value of the right kind is acceptable.
pub(crate) fn any(_: &Value) -> Result<(), String> {
    Ok(())
}

/// A number from 1.
pub(crate) fn at_least_one(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(0) => Err("must be at least 1".to_owned()),
        _ => Ok(()),
    }
}

/// A host of its own below a domain, which is written `@`.
pub(crate) fn host(value: &Value) -> Result<(), String> {
    let Value::Text(text) = value else { return Ok(()) };
    let example = text.replace('@', "example.org");
    match prepare(&example) {
        Ok(jid) if jid.as_ref().is_domain() && jid.as_ref().as_str() == example && example != "example.org" => Ok(()),
        _ => Err(format!("{text:?} is no host for a service; write e.g. \"service.@\", where @ stands for the domain")),
    }
}

/// A list of which every text passes `check`.
pub(crate) fn each(value: &Value, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    match value {
        Value::List(texts) => texts.iter().try_for_each(|text| check(text)),
        _ => Ok(()),
    }
}
