//! The keys of `[traces]`.

use super::{ConfigKey, ShownValue, file, path, plain, put, quote};

/// The description of the table.
pub(super) const ABOUT: &str = "An OpenTelemetry collector, which gets samples of where time is spent, and everything that is slow. A\n\
                                change needs a restart.";

/// All keys of the table, in the order of the example.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "traces",
        name: "url",
        doc: "The address to which spans are posted (OTLP over HTTP, in JSON); http: only on this machine.",
        set: |config, given| {
            let url = given.parse_by("an address such as \"http://127.0.0.1:4318/v1/traces\"", |text| {
                rookery_web::events::post::is_address(text).then(|| text.to_owned())
            });
            put(&mut config.traces.url, url.map(Some))
        },
        show: |config| match &config.traces.url {
            Some(url) => ShownValue::Value(quote(url)),
            None => ShownValue::Unset("\"http://127.0.0.1:4318/v1/traces\""),
        },
    },
    ConfigKey {
        table: "traces",
        name: "ticks_per_minute",
        doc: "Turns of a shard to post per minute, each with its stanzas and their stages. Slow turns, and every\n\
              event that `rookery slow` lists, are posted in addition.",
        set: |config, given| put(&mut config.traces.ticks_per_minute, given.number(1..=6000)),
        show: |config| plain(config.traces.ticks_per_minute),
    },
    ConfigKey {
        table: "traces",
        name: "header_file",
        doc: "A file with a header for each request, such as \"Authorization: Bearer SECRET\". By default,\n\
              \"traces-header\" in the folder named by CREDENTIALS_DIRECTORY, if it exists.",
        set: |config, given| put(&mut config.traces.header_file, file(given)),
        show: |config| path(&config.traces.header_file, "\"/etc/rookery/traces.header\""),
    },
    ConfigKey {
        table: "traces",
        name: "trusted",
        doc: "A file with certificates to trust for that address, in addition to those that this machine trusts.",
        set: |config, given| put(&mut config.traces.trusted, file(given)),
        show: |config| path(&config.traces.trusted, "\"/etc/rookery/collector-authority.pem\""),
    },
];
