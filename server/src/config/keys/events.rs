//! The keys of `[events]`.

use super::{ConfigKey, ShownValue, bytes, file, path, put, quote};

/// All keys of the table, in the order of the example.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "events",
        name: "url",
        doc: "The address to which each event is posted, as one line of JSON, until it is accepted; http: only on\n\
              this machine. [modules.events] selects the events of each domain.",
        set: |config, given| {
            let url = given.parse_by("an address such as \"https://hooks.example.org/rookery\"", |text| {
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
        doc: "The file with the secret that signs each request. By default, \"events-secret\" in the folder named by\n\
              CREDENTIALS_DIRECTORY.",
        set: |config, given| put(&mut config.events.secret_file, file(given)),
        show: |config| path(&config.events.secret_file, "\"/etc/rookery/events.secret\""),
    },
    ConfigKey {
        table: "events",
        name: "trusted",
        doc: "A file with certificates to trust for that address, in addition to those that this machine trusts.",
        set: |config, given| put(&mut config.events.trusted, file(given)),
        show: |config| path(&config.events.trusted, "\"/etc/rookery/hooks-authority.pem\""),
    },
    ConfigKey {
        table: "events",
        name: "spool_bytes",
        doc: "Disk space for events that haven't been accepted yet. When it is full, the oldest are dropped.",
        set: |config, given| put(&mut config.events.spool_bytes, given.bytes(4 << 20..=1 << 40)),
        show: |config| bytes(config.events.spool_bytes),
    },
];
