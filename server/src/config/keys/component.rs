//! The keys of a table `[component."NAME"]`.

use super::super::ComponentConfig;
use super::super::error::Wrong;
use super::super::given::Given;
use super::{file, put};

/// The comment at the head of these tables in the example.
pub const ABOUT: &str = "One component (XEP-0114), such as a bridge to another network: a program of its own that connects to an address of\n\
                         `components` in [listen] and serves all addresses of this name. The first one needs a restart.";

/// A key of a `[component."NAME"]` table.
pub struct ComponentKey {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// Puts a value into the component's configuration.
    pub set: fn(&mut ComponentConfig, &Given<'_>) -> Result<(), Wrong>,
    /// An example.
    pub example: &'static str,
}

/// All of them.
pub const COMPONENT_KEYS: [ComponentKey; 2] = [
    ComponentKey {
        name: "secret",
        doc: "The secret with which the component proves its name.",
        set: |component, given| put(&mut component.secret, secret(given).map(Some)),
        example: "\"a long text that nobody guesses\"",
    },
    ComponentKey {
        name: "secret_file",
        doc: "A file with the secret instead; relative to this file.",
        set: |component, given| put(&mut component.secret_file, file(given)),
        example: "\"/etc/rookery/bridge.secret\"",
    },
];

fn secret(given: &Given<'_>) -> Result<String, Wrong> {
    given.parsed("a text of at least 8 characters", |text| (text.chars().count() >= 8).then(|| text.to_owned()))
}
