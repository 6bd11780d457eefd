//! The system interface by which shards wait for their sockets: `io` of the configuration, and its
//! availability on this machine.

use rookery_shard::SystemInterface;

use crate::config::effective::lines;
use crate::config::{ConfigError, Environment, ServerConfig};
use crate::loaded::ConfigSource;

/// Returns the interface that the server uses on this machine.
///
/// # Errors
///
/// The machine lacks the interface that the configuration requires; the error says where that is
/// set.
pub fn settle(source: &ConfigSource, config: &ServerConfig) -> Result<SystemInterface, ConfigError> {
    config.io.settle().map_err(|error| {
        let name = config.io.name();
        ConfigError::because(format!(
            "{}: {KEY}: this system refuses {name}, or has none: {error}; \"auto\" uses what is available",
            place(source, &Environment::of_process())
        ))
    })
}

/// Returns the place that sets the key: a variable, or a line of the file.
fn place(source: &ConfigSource, environment: &Environment) -> String {
    if let Some(variable) = environment.keys().get(KEY) {
        return (*variable).to_owned();
    }
    let Some(file) = &source.config else { return "the defaults".to_owned() };
    let line = std::fs::read_to_string(file).ok().and_then(|text| lines(&text).get(KEY).copied());
    line.map_or_else(|| file.display().to_string(), |line| format!("{}:{line}", file.display()))
}

/// The key of the configuration.
const KEY: &str = "io";
