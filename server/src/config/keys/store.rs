//! The keys of `[store]`.

use rookery_store::sql::Migrations;
use rookery_store::sql::copy::EndAddress;

use super::super::given::GivenValue;
use super::super::{DatabasePlace, WrongValue};
use super::{ConfigKey, ShownValue, bytes, file, path, plain, put, quoted_value, word};

/// All keys of the table, in the order of the example.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "store",
        name: "url",
        doc: "The database: \"sqlite\" for a file in the data folder, \"postgres://USER@HOST/DATABASE\" or, for MariaDB\n\
              and MySQL, \"mysql://USER@HOST/DATABASE\". Separate several hosts with commas; the writable one is used.\n\
              A Unix socket (for PostgreSQL, its folder) is given as a host with %2F for each slash. Of the options\n\
              behind a ?, channel_binding, hostaddr and options of PostgreSQL are known, and others are refused.",
        set: |config, given| put(&mut config.store.place, place(given)),
        show: |config| match &config.store.place {
            DatabasePlace::Folder => quoted_value("sqlite"),
            DatabasePlace::Server(address) => quoted_value(&address.to_string()),
        },
    },
    ConfigKey {
        table: "store",
        name: "password_file",
        doc: "The file with the password, if it isn't in the address. By default, \"store-password\" in the folder\n\
              named by CREDENTIALS_DIRECTORY, as provided by systemd's LoadCredential=.",
        set: |config, given| put(&mut config.store.password, file(given)),
        show: |config| path(&config.store.password, "\"/etc/rookery/database.password\""),
    },
    ConfigKey {
        table: "store",
        name: "tls",
        doc: "\"verify\": the connection is encrypted, and the certificate must be for the host in the address. \"off\":\n\
              nothing is encrypted. The default is \"off\" if all hosts are this machine, otherwise \"verify\".",
        set: |config, given| put(&mut config.store.encrypted, given.choice(ENCRYPTED)),
        show: |config| match config.store.encrypted {
            None => ShownValue::Unset("\"verify\""),
            encrypted => word(ENCRYPTED, encrypted),
        },
    },
    ConfigKey {
        table: "store",
        name: "tls_authorities",
        doc: "A file with the authorities' certificates to trust for it, instead of those that this machine trusts.",
        set: |config, given| put(&mut config.store.authorities, file(given)),
        show: |config| path(&config.store.authorities, "\"/etc/rookery/database-authority.pem\""),
    },
    ConfigKey {
        table: "store",
        name: "connections",
        doc: "Connections to a database server, in addition to one for archives and one for slow reads.",
        set: |config, given| put(&mut config.store.connections, given.number(1..=32).map(|number| number as usize)),
        show: |config| plain(config.store.connections),
    },
    ConfigKey {
        table: "store",
        name: "cache",
        doc: "Memory for caching pages of the SQLite file, allocated as needed. Database servers have a cache of\n\
              their own.",
        set: |config, given| put(&mut config.store.cache, given.bytes(1 << 20..=1 << 40)),
        show: |config| bytes(config.store.cache),
    },
    ConfigKey {
        table: "store",
        name: "durability",
        doc: "\"check\": a database whose settings allow it to lose acknowledged writes in a power failure is refused.\n\
              \"trust\": it is used.",
        set: |config, given| put(&mut config.store.trusts_durability, given.choice(DURABILITY)),
        show: |config| word(DURABILITY, config.store.trusts_durability),
    },
    ConfigKey {
        table: "store",
        name: "migrate",
        doc: "\"auto\": the start updates the database's schema. \"never\": the start refuses an older schema, and\n\
              a user who may change tables runs `rookery store migrate`.",
        set: |config, given| {
            config.store.migrations = given.choice(MIGRATIONS)?;
            Ok(())
        },
        show: |config| word(MIGRATIONS, config.store.migrations),
    },
    ConfigKey {
        table: "store",
        name: "copy_before_migrate",
        doc: "True if a verified copy of the SQLite file is kept beside it before its schema is updated; the latest two\n\
              copies stay. Backups of database servers are up to their operators.",
        set: |config, given| put(&mut config.store.keeps_copy, given.switch()),
        show: |config| plain(config.store.keeps_copy),
    },
    ConfigKey {
        table: "store",
        name: "archives",
        doc: "\"whole\": archived messages are in one table. \"months\": there is a partition for each month, so that\n\
              messages past every domain's `expire_days` are dropped a month at a time; for PostgreSQL and MariaDB.\n\
              `rookery store migrate` partitions existing archives.",
        set: |config, given| put(&mut config.store.months, given.choice(ARCHIVES)),
        show: |config| word(ARCHIVES, config.store.months),
    },
    ConfigKey {
        table: "store",
        name: "search",
        doc: "\"look\": a search reads the messages of an archive one by one. \"index\": an index finds those that may\n\
              contain the words; for PostgreSQL and MariaDB. `rookery store migrate` indexes existing messages.",
        set: |config, given| put(&mut config.store.has_index, given.choice(SEARCH)),
        show: |config| word(SEARCH, config.store.has_index),
    },
];

fn place(given: &GivenValue<'_>) -> Result<DatabasePlace, WrongValue> {
    let text = given.text()?;
    match text.split_once("://") {
        Some(("postgres" | "postgresql" | "mysql" | "mariadb", _)) => EndAddress::parse(text)
            .map(DatabasePlace::Server)
            .map_err(|reason| given.wrong(format!("{reason} (the url of the database)"))),
        None if text == "sqlite" => Ok(DatabasePlace::Folder),
        _ => Err(given.wrong(
            "the server doesn't know this database; expected \"sqlite\", \"postgres://USER@HOST/DATABASE\" or \
             \"mysql://USER@HOST/DATABASE\"",
        )),
    }
}

const ENCRYPTED: &[(&str, Option<bool>)] = &[("verify", Some(true)), ("off", Some(false))];
const DURABILITY: &[(&str, bool)] = &[("check", false), ("trust", true)];
const ARCHIVES: &[(&str, bool)] = &[("whole", false), ("months", true)];
const SEARCH: &[(&str, bool)] = &[("look", false), ("index", true)];
const MIGRATIONS: &[(&str, Migrations)] = &[("auto", Migrations::Auto), ("never", Migrations::Never)];
