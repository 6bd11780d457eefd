//! Checks of what operators write. The kind of a value is that of the option's default; a check says more.

use rookery_hub::Value;

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

/// A list of which every text passes `check`.
pub(crate) fn each(value: &Value, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    match value {
        Value::List(texts) => texts.iter().try_for_each(|text| check(text)),
        _ => Ok(()),
    }
}
