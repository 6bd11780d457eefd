//! The keys of `[events]`.

use super::{ConfigKey, ShownValue, bytes, file, path, put, quote};

/// All of them.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "events",
        name: "url",
        doc: "An address to which events are posted, a line of JSON for each, until it takes them; http: only on this machine.\n\
              [modules.events] says of what domains tell.",
        set: |config, given| {
            let url = given.parsed("an address such as \"https://hooks.example.org/rookery\"", |text| {
                rookery_web::events::post::is_address(text).then(|| text.to_owned())
            });
            put(&mut config.events.url, url.map(Some))
        },
        show: |config| match &config.events.url {
            Some(url) => ShownValue::Value(quote(url)),
            None => ShownValue::Unset("\"https://hooks.example.org/rookery\""),
        },
    },
    ConfigKey {
        table: "events",
        name: "secret_file",
        doc: "The file that has the secret by which each request is signed; without this key, \"events-secret\" in the folder that\n\
              CREDENTIALS_DIRECTORY names.",
        set: |config, given| put(&mut config.events.secret_file, file(given)),
        show: |config| path(&config.events.secret_file, "\"/etc/rookery/events.secret\""),
    },
    ConfigKey {
        table: "events",
        name: "trusted",
        doc: "A file with certificates that the address is believed by, besides those that this machine trusts.",
        set: |config, given| put(&mut config.events.trusted, file(given)),
        show: |config| path(&config.events.trusted, "\"/etc/rookery/hooks-authority.pem\""),
    },
    ConfigKey {
        table: "events",
        name: "spool_bytes",
        doc: "Room on the disk for events that nobody has taken yet. The oldest are lost for newer ones.",
        set: |config, given| put(&mut config.events.spool_bytes, given.bytes(4 << 20..=1 << 40)),
        show: |config| bytes(config.events.spool_bytes),
    },
];
