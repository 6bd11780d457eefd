//! `rookery config show` and `rookery config diff`: the values in force, the source of each, and
//! the changes that a reload would make.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::arguments::ShownAs;
use crate::columns::{self, Columns, cell};
use crate::config::effective::{lines, mask, settings};
use crate::config::{Environment, ServerConfig};
use crate::control::RunningServer;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// The values that are shown: all, unless one of these is set.
#[derive(Debug, Clone, Copy)]
pub struct ShownValues {
    /// Only those that the file or a variable gives.
    pub given: bool,
    /// Only those that differ from the defaults.
    pub changed: bool,
}

/// Prints values of the configuration as TOML, with the line of the file, or the variable, that
/// gives each. Secrets aren't shown.
///
/// # Errors
///
/// [`CommandFailure::Config`] if the configuration is wrong, [`CommandFailure::Failed`] if standard
/// output can't be written.
pub fn show(source: &ConfigSource, which: ShownValues, shown: ShownAs) -> Result<(), CommandFailure> {
    let config = source.read()?;
    let (file, lines) = match &source.config {
        None => (String::new(), BTreeMap::new()),
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| CommandFailure::file(file, &error))?;
            (file.display().to_string(), lines(&text))
        }
    };
    let environment = Environment::of_process();
    let variables = environment.keys();
    let table = rookery_modules::table(&rookery_modules::Shared::default());
    let defaults: BTreeMap<_, _> = settings(&ServerConfig::defaults(&table)).into_iter().collect();
    for (key, value) in settings(&config) {
        let (variable, line) = (variables.get(&key), lines.get(&key));
        let is_given = variable.is_some() || line.is_some();
        let is_changed = defaults.get(&key) != Some(&value);
        let is_meant = (is_given || !which.given) && (is_changed || !which.changed);
        let Some(value) = value.filter(|_| is_meant) else { continue };
        let value = mask(&key, &value);
        let (from, told) = match (variable, line) {
            (Some(variable), _) => (json!({ "variable": variable }), (*variable).to_owned()),
            (None, Some(line)) => (json!({ "file": file, "line": line }), format!("{file}:{line}")),
            (None, None) => (Value::Null, "default".to_owned()),
        };
        let text = match shown.json {
            true => json!({ "key": key, "value": as_json(&value), "from": from }).to_string(),
            false => format!("{key} = {value}  # {told}"),
        };
        if !columns::line(&text)? {
            break;
        }
    }
    Ok(())
}

/// Converts a TOML value to JSON.
fn as_json(value: &str) -> Value {
    let read = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
    let value = read.and_then(|mut table| serde_json::to_value(table.remove("value")?).ok());
    value.unwrap_or(Value::Null)
}

/// Prints how the configuration file of the running server differs from the values in force.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if no server runs, or its file is wrong.
pub fn diff(source: &ConfigSource, shown: ShownAs) -> Result<(), CommandFailure> {
    let found = RunningServer::in_folder(&source.folder)?.get("/configuration/changes")?;
    let changes: &[Value] = found["changes"].as_array().map_or(&[], Vec::as_slice);
    if shown.json {
        changes.iter().try_for_each(|change| columns::line(&change.to_string()).map(drop))?;
        return Ok(());
    }
    let mut columns = Columns::new(&["KEY", "RUNNING", "FILE", "COUNTS AFTER"]);
    for change in changes {
        let after = if change["needs_restart"] == true { "a restart" } else { "a reload" };
        let [key, running, file] = ["key", "running", "file"].map(|member| cell(change, member));
        columns.row(vec![key, running, file, after.to_owned()]);
    }
    say(&match columns.is_empty() {
        true => format!("the server runs by {}\n", found["file"].as_str().unwrap_or("the defaults")),
        false => columns.to_string(),
    });
    Ok(())
}
