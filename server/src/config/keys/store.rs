//! The keys of `[store]`.

use rookery_store::sql::Migrations;
use rookery_store::sql::copy::EndAddress;

use super::super::given::GivenValue;
use super::super::{DatabasePlace, WrongValue};
use super::{ConfigKey, ShownValue, bytes, file, path, plain, put, quoted, word};

/// All of them.
pub(super) const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: "store",
        name: "url",
        doc: "The database: \"sqlite\" for a file in the data folder, \"postgres://USER@HOST/DATABASE\" or, for MariaDB and MySQL,\n\
              \"mysql://USER@HOST/DATABASE\". Several hosts have commas between them: the one that can be written to is used. A Unix\n\
              socket, with PostgreSQL its folder, is a host with %2F for each slash.",
        set: |config, given| put(&mut config.store.place, place(given)),
        show: |config| match &config.store.place {
            DatabasePlace::Folder => quoted("sqlite"),
            DatabasePlace::Server(address) => quoted(&address.to_string()),
        },
    },
    ConfigKey {
        table: "store",
        name: "password_file",
        doc: "The file that has the password, if it isn't in the address; without this key, \"store-password\" in the folder that\n\
              CREDENTIALS_DIRECTORY names, as systemd's LoadCredential= makes it.",
        set: |config, given| put(&mut config.store.password, file(given)),
        show: |config| path(&config.store.password, "\"/etc/rookery/database.password\""),
    },
    ConfigKey {
        table: "store",
        name: "tls",
        doc: "\"verify\": the way to the database is encrypted, and its certificate is for the host that is named. \"off\": all is sent in the\n\
              clear. The default is \"off\" if all hosts are this machine, else \"verify\".",
        set: |config, given| put(&mut config.store.encrypted, given.choice(ENCRYPTED)),
        show: |config| match config.store.encrypted {
            None => ShownValue::Unset("\"verify\""),
            encrypted => word(ENCRYPTED, encrypted),
        },
    },
    ConfigKey {
        table: "store",
        name: "tls_authorities",
        doc: "A file with the certificates of the authorities that are trusted for it, instead of those that this machine trusts.",
        set: |config, given| put(&mut config.store.authorities, file(given)),
        show: |config| path(&config.store.authorities, "\"/etc/rookery/database-authority.pem\""),
    },
    ConfigKey {
        table: "store",
        name: "connections",
        doc: "Connections to a database that is a server, besides one for archives and one for reads that may take long.",
        set: |config, given| put(&mut config.store.connections, given.number(1..=32).map(|number| number as usize)),
        show: |config| plain(config.store.connections),
    },
    ConfigKey {
        table: "store",
        name: "cache",
        doc: "Memory for pages of the file \"sqlite\", taken as far as there are pages. A database that is a server has its own.",
        set: |config, given| put(&mut config.store.cache, given.bytes(1 << 20..=1 << 40)),
        show: |config| bytes(config.store.cache),
    },
    ConfigKey {
        table: "store",
        name: "durability",
        doc: "\"check\": a database that may lose what it has acknowledged when the power fails, as its settings say, is refused.\n\
              \"trust\": it is used.",
        set: |config, given| put(&mut config.store.trusts_durability, given.choice(DURABILITY)),
        show: |config| word(DURABILITY, config.store.trusts_durability),
    },
    ConfigKey {
        table: "store",
        name: "migrate",
        doc: "\"auto\": a start brings the database's schema up to date. \"never\": it refuses an older one, and `rookery store migrate` is\n\
              run by somebody who may change tables.",
        set: |config, given| {
            config.store.migrations = given.choice(MIGRATIONS)?;
            Ok(())
        },
        show: |config| word(MIGRATIONS, config.store.migrations),
    },
    ConfigKey {
        table: "store",
        name: "archives",
        doc: "\"whole\": the messages of archives are one table. \"months\": a part for each month, so that what all domains'\n\
              `expire_days` let go goes a month at a time; for PostgreSQL and MariaDB. `rookery store migrate` divides archives\n\
              that are there already.",
        set: |config, given| put(&mut config.store.months, given.choice(ARCHIVES)),
        show: |config| word(ARCHIVES, config.store.months),
    },
    ConfigKey {
        table: "store",
        name: "search",
        doc: "\"look\": searches look into the messages of an archive one by one. \"index\": an index tells which of them may have the\n\
              words; for PostgreSQL and MariaDB. `rookery store migrate` puts messages into it that are there already.",
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
            "this is no database that the server knows: \"sqlite\", \"postgres://USER@HOST/DATABASE\" or \
             \"mysql://USER@HOST/DATABASE\" is expected",
        )),
    }
}

const ENCRYPTED: &[(&str, Option<bool>)] = &[("verify", Some(true)), ("off", Some(false))];
const DURABILITY: &[(&str, bool)] = &[("check", false), ("trust", true)];
const ARCHIVES: &[(&str, bool)] = &[("whole", false), ("months", true)];
const SEARCH: &[(&str, bool)] = &[("look", false), ("index", true)];
const MIGRATIONS: &[(&str, Migrations)] = &[("auto", Migrations::Auto), ("never", Migrations::Never)];
