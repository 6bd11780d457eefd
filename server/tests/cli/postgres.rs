//! A server whose database is a PostgreSQL, and its commands.

use std::fs;
use std::sync::LazyLock;

use rookery_needs::{Postgres, Proxy};

use super::databases::{self, Databases, export, rig};
use super::rig::{CliRig, FREE_PORTS};

static CLUSTER: LazyLock<Postgres> = LazyLock::new(Postgres::start);

impl Databases for Postgres {
    const NEED: &'static str = "cli.postgres";
    const SCHEME: &'static str = "postgres://";
    const KEYS: &'static str = TRUSTING;
    const BYTES: (&'static str, &'static str) = ("BYTEA", r"'\x836803'");
    const NAMES: &'static str = "TEXT COLLATE \"und-x-icu\"";
    const CHECKED: &'static [&'static str] =
        &["PostgreSQL ", "encoding UTF8", "fsync off", "default_transaction_isolation read committed"];

    fn way(&self) -> Proxy {
        Proxy::start(&self.socket())
    }

    fn address_by(&self, way: &Proxy, name: &str) -> String {
        Postgres::address_by(self, way, name)
    }

    fn database(&self) -> String {
        Postgres::database(self)
    }

    fn sql(&self, database: &str, statements: &str) -> String {
        self.psql(database, statements).expect("rows")
    }
}

databases::tests! {
    CLUSTER:
    a_server_and_its_commands_keep_all_in_it,
    probes_and_metrics_tell_the_truth_while_it_is_away,
    an_import_waits_for_a_database_that_stalls,
    a_copy_waits_for_a_database_that_stalls,
    databases_are_copied_between_engines,
    archives_that_are_no_text_hide_no_other_account,
    messages_of_one_microsecond_all_come_from_ejabberd,
    names_in_any_order_all_come_from_ejabberd,
    what_is_wrong_is_told_with_what_mends_it,
    a_server_on_it_is_backed_up_and_restored,
    a_backup_goes_where_its_configuration_wants_it,
    archives_are_divided_into_months,
    searches_have_an_index_where_that_is_wanted,
    views_of_it_become_a_device_database,
}

/// The database cluster of the tests doesn't wait for the disk.
pub const TRUSTING: &str = "durability = \"trust\"\nconnections = 2";

fn is_left_out() -> bool {
    rookery_needs::skips(Postgres::NEED)
}

#[test]
fn settings_that_lose_messages_and_keys_that_are_wrong_are_told() {
    if is_left_out() {
        return;
    }
    rig(&CLUSTER.database(), "").run(&["serve"]).expect_failure(78, "fsync is off");
    for (keys, expected) in [
        ("url = \"oracle://chat\"", "the server doesn't know this database"),
        ("tls = \"maybe\"", "\"verify\" or \"off\""),
        ("connections = 0", "connections"),
    ] {
        let rig = CliRig::new();
        rig.write("rookery.toml", &format!("{FREE_PORTS}\n[store]\n{keys}\n"));
        rig.run(&["check"]).expect_failure(78, "");
        rig.run(&["serve"]).expect_failure(78, expected);
    }
}

#[test]
fn the_password_comes_from_a_file() {
    if is_left_out() {
        return;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let cluster = Postgres::start_encrypted(&made.cert.pem(), &made.signing_key.serialize_pem());
    let database = cluster.database();
    cluster.psql(&database, "ALTER ROLE rookery PASSWORD 'secret'").expect("a password");
    let name = database.rsplit('/').next().expect("a name");
    let address = format!("postgres://rookery@localhost:{}/{name}", cluster.port());
    let keys = "tls = \"verify\"\ntls_authorities = \"authority.pem\"\npassword_file = \"password\"";
    let rig = rig(&address, &format!("{TRUSTING}\n{keys}"));
    rig.write("authority.pem", &made.cert.pem());
    rig.write("password", "secret\n");
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
    rig.write("password", "wrong\n");
    rig.run(&["user", "list"]).expect_failure(78, "password authentication failed");
    fs::write(rig.path("authority.pem"), "nothing").expect("a file");
    rig.run(&["user", "list"]).expect_failure(78, "there is no certificate in it");
}

#[test]
fn a_database_looks_over_what_was_imported() {
    if is_left_out() {
        return;
    }
    let address = CLUSTER.database();
    let rig = rig(&address, TRUSTING);
    let rows =
        || CLUSTER.psql(&address, "SELECT reltuples FROM pg_class WHERE relname = 'accounts'").expect("a number");
    rig.run_with(&["user", "import", "-", "--allow-short"], "romeo@localhost,secret\njuliet@localhost,secret\n").fine();
    assert_eq!(rows().trim(), "2", "of a list of accounts");
    let exported = rig.run(&["user", "export", "localhost", "-"]).fine();
    let other = CLUSTER.database();
    let rig = self::rig(&other, TRUSTING);
    rig.run_with(&["user", "import", "-", "--allow-short"], &exported).fine();
    let rows = CLUSTER.psql(&other, "SELECT reltuples FROM pg_class WHERE relname = 'accounts'").expect("a number");
    assert_eq!(rows.trim(), "2", "of an export");
}

#[test]
fn accounts_come_from_databases_of_other_servers_in_it() {
    if is_left_out() {
        return;
    }
    let rig = CliRig::new();
    let ejabberd = CLUSTER.database();
    let made = CLUSTER.psql(
        &ejabberd,
        "CREATE TABLE users (username varchar(191), server_host varchar(191), type smallint, password text, serverkey varchar(128), salt varchar(128), \
            iterationcount integer); \
         INSERT INTO users VALUES ('juliet', 'localhost', 1, 'secret', '', '', 0), ('nurse', 'localhost', 2, '6dlGYMOdZcOPutkcNY8U2g7vK9Y=', \
            'D+CSWLOshSulAsxiupA+qs2/fTE=', 'QSXCR+Q6sek8bf92', 4096); \
         CREATE TABLE rosterusers (username varchar(191), server_host varchar(191), jid varchar(191), nick text, subscription character(1), \
            ask character(1), askmessage text); \
         INSERT INTO rosterusers VALUES ('juliet', 'localhost', 'romeo@far.example', 'Ro 🦊', 'B', 'N', ''); \
         CREATE TABLE rostergroups (username varchar(191), server_host varchar(191), jid varchar(191), grp text); \
         CREATE TABLE privacy_list (username varchar(191), server_host varchar(191), name text, id bigserial); \
         CREATE TABLE privacy_default_list (username varchar(191), server_host varchar(191), name text); \
         CREATE TABLE privacy_list_data (id bigint, t character(1), value text, action character(1), ord numeric, match_all boolean, match_iq boolean, \
            match_message boolean, match_presence_in boolean, match_presence_out boolean); \
         INSERT INTO privacy_list VALUES ('juliet', 'localhost', 'no', 3); INSERT INTO privacy_default_list VALUES ('juliet', 'localhost', 'no'); \
         INSERT INTO privacy_list_data VALUES (3, 'j', 'tybalt@far.example', 'd', 1, true, false, false, false, false); \
         CREATE TABLE archive (username varchar(191), server_host varchar(191), timestamp BIGINT, xml text, id BIGSERIAL); \
         INSERT INTO archive (username, server_host, timestamp, xml) SELECT 'juliet', 'localhost', 1278803305000000 + i * 1000000, \
            '<message xmlns=''jabber:client'' from=''romeo@far.example/o'' to=''juliet@localhost''><body>' || i || '</body></message>' \
            FROM generate_series(1, 700) AS i",
    );
    made.expect("the tables of ejabberd");
    let ended = rig.run(&["user", "import", "--from", &ejabberd, "--schema", "ejabberd", "--allow-short"]);
    assert!(ended.out.contains("2 accounts imported, 1 thing left out"), "{ended:?}");
    assert!(ended.err.contains("nurse@localhost has keys for SCRAM-SHA-1 only"), "{ended:?}");
    let exported = export(&rig, "juliet");
    for there in [
        "name='Ro 🦊' subscription='both'",
        "<item action='deny' order='1' type='jid' value='tybalt@far.example'/>",
        "<body>700</body>",
    ] {
        assert!(exported.contains(there), "{there} is not in\n{exported}");
    }
    assert_eq!(exported.matches("<body>").count(), 700);

    let prosody = CLUSTER.database();
    let made = CLUSTER.psql(
        &prosody,
        "CREATE TABLE prosody (host TEXT, \"user\" TEXT, store TEXT, key TEXT, type TEXT, value TEXT); \
         CREATE TABLE prosodyarchive (sort_id SERIAL PRIMARY KEY, host TEXT, \"user\" TEXT, store TEXT, key TEXT, \"when\" INTEGER, \"with\" TEXT, \
            type TEXT, value TEXT); \
         INSERT INTO prosody VALUES ('localhost', 'romeo', 'accounts', 'password', 'string', 'secret'), \
            ('localhost', 'romeo', 'roster', 'juliet@localhost', 'json', '{\"groups\":{\"Friends\":true},\"name\":\"J\",\"subscription\":\"both\"}'), \
            ('localhost', 'romeo', 'roster', '', 'json', '{\"__hash\":[false,{\"pending\":{\"paris@far.example\":true},\"version\":6}]}'); \
         INSERT INTO prosodyarchive (host, \"user\", store, key, \"when\", \"with\", type, value) VALUES ('localhost', 'romeo', 'archive', 'a', 1278803305, \
            'juliet@localhost', 'xml', '<message from=''juliet@localhost/x'' to=''romeo@localhost''><body>kept</body></message>')",
    );
    made.expect("the tables of Prosody");
    rig.run(&["user", "import", "--from", &prosody, "--schema", "prosody", "--allow-short"]).fine();
    let exported = export(&rig, "romeo");
    for there in [
        "name='J' subscription='both'><group>Friends</group>",
        "<presence xmlns='jabber:client' from='paris@far.example'",
        "<body>kept</body>",
    ] {
        assert!(exported.contains(there), "{there} is not in\n{exported}");
    }
}
