//! The keys of `[uploads]`.

use super::super::error::WrongValue;
use super::super::given::GivenValue;
use super::{ConfigKey, ShownValue, file, path, plain, put, quote, quoted_value};

/// All keys of the table, in the order of the example.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "uploads",
        name: "bucket",
        doc: "A bucket to keep them in instead of the data folder, on a storage service that speaks S3: the address\n\
              below which files are put, with the bucket in its host or path. All nodes of a cluster use the same\n\
              one.",
        set: |config, given| put(&mut config.uploads.bucket, bucket(given).map(Some)),
        show: |config| {
            text(config.uploads.bucket.as_deref(), "\"https://s3.eu-central-1.amazonaws.com/example-files\"")
        },
    },
    ConfigKey {
        table: "uploads",
        name: "region",
        doc: "The bucket's region; self-hosted storage usually uses this one.",
        set: |config, given| put(&mut config.uploads.region, word(given)),
        show: |config| quoted_value(&config.uploads.region),
    },
    ConfigKey {
        table: "uploads",
        name: "access_key",
        doc: "The id of the access key for the bucket. It needs permission to put, get and delete objects, and\n\
              nothing else.",
        set: |config, given| put(&mut config.uploads.access_key, word(given).map(Some)),
        show: |config| text(config.uploads.access_key.as_deref(), "\"AKIAIOSFODNN7EXAMPLE\""),
    },
    ConfigKey {
        table: "uploads",
        name: "secret_file",
        doc: "The file with that key's secret. By default, \"uploads-secret\" in the folder named by\n\
              CREDENTIALS_DIRECTORY, as provided by systemd's LoadCredential=.",
        set: |config, given| put(&mut config.uploads.secret_file, file(given)),
        show: |config| path(&config.uploads.secret_file, "\"/etc/rookery/uploads.secret\""),
    },
    ConfigKey {
        table: "uploads",
        name: "trusted",
        doc: "A file with certificates to trust for the storage service, in addition to those that this machine\n\
              trusts.",
        set: |config, given| put(&mut config.uploads.trusted, file(given)),
        show: |config| path(&config.uploads.trusted, "\"/etc/rookery/storage-authority.pem\""),
    },
    ConfigKey {
        table: "uploads",
        name: "redirect",
        doc: "true redirects downloads to the bucket, with an address that is valid for an hour; false serves them\n\
              from here. Uploads always pass through this server.",
        set: |config, given| put(&mut config.uploads.redirect, given.switch()),
        show: |config| plain(config.uploads.redirect),
    },
];

fn bucket(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    given.parse_by("the address of a bucket such as \"https://storage.example.org/files\"", |text| {
        rookery_web::bucket::is_address(text).then(|| text.trim_end_matches('/').to_owned())
    })
}

fn word(given: &GivenValue<'_>) -> Result<String, WrongValue> {
    given.parse_by("a word of letters, digits, hyphens and the like", |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+/=".contains(&byte);
        ((1..=128).contains(&text.len()) && text.bytes().all(is_plain)).then(|| text.to_owned())
    })
}

fn text(value: Option<&str>, example: &'static str) -> ShownValue {
    value.map_or(ShownValue::Unset(example), |value| ShownValue::Value(quote(value)))
}
