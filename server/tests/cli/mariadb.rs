//! A server whose database is a MariaDB, and its commands.

use std::sync::LazyLock;

use rookery_needs::{Mariadb, Proxy};

use super::databases::{self, Databases, export, rig};
use super::rig::CliRig;

static SERVER: LazyLock<Mariadb> = LazyLock::new(Mariadb::start);

impl Databases for Mariadb {
    const NEED: &'static str = "cli.mariadb";
    const SCHEME: &'static str = "mysql://";
    const KEYS: &'static str = "connections = 2";
    const BYTES: (&'static str, &'static str) = ("MEDIUMBLOB", "0x836803");
    const NAMES: &'static str = "VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci";
    const CHECKED: &'static [&'static str] = &[
        "MariaDB ",
        "innodb_flush_log_at_trx_commit 1",
        "max_allowed_packet 16777216",
        "tx_isolation REPEATABLE-READ",
        "max_connections 300; each server makes 4",
    ];

    fn way(&self) -> Proxy {
        Proxy::start(&self.socket())
    }

    fn address_by(&self, way: &Proxy, name: &str) -> String {
        Mariadb::address_by(self, way, name)
    }

    fn database(&self) -> String {
        Mariadb::database(self)
    }

    fn sql(&self, database: &str, statements: &str) -> String {
        Mariadb::sql(self, database, statements).expect("rows")
    }

    fn let_drop(&self, database: &str) {
        let name = database.rsplit('/').next().expect("a name");
        Mariadb::sql(self, "mysql", &format!("GRANT DROP, LOCK TABLES ON {name}.* TO rookery@'%'")).expect("rights");
    }
}

databases::tests! {
    SERVER:
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

fn is_left_out() -> bool {
    rookery_needs::skips(Mariadb::NEED)
}

/// An administrator may run the statements of `store migrate --sql` instead of the server.
#[test]
fn an_administrator_can_migrate_it() {
    if is_left_out() {
        return;
    }
    let address = SERVER.database();
    let rig = rig(&address, "connections = 2\nmigrate = \"never\"");
    rig.run(&["serve"]).expect_failure(78, "schema");
    let statements = rig.run(&["store", "migrate", "--sql"]).fine();
    SERVER.sql(&address, &statements).expect("a schema");
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
}

#[test]
fn accounts_come_from_databases_of_other_servers_in_it() {
    if is_left_out() {
        return;
    }
    let rig = CliRig::new();
    let ejabberd = SERVER.database();
    let made = SERVER.sql(
        &ejabberd,
        "ALTER DATABASE CHARACTER SET utf8mb4; \
         CREATE TABLE users (username varchar(191), server_host varchar(191), type smallint, password text, serverkey varchar(128), salt varchar(128), \
            iterationcount integer); \
         INSERT INTO users VALUES ('juliet', 'localhost', 1, 'secret', '', '', 0), ('nurse', 'localhost', 2, '6dlGYMOdZcOPutkcNY8U2g7vK9Y=', \
            'D+CSWLOshSulAsxiupA+qs2/fTE=', 'QSXCR+Q6sek8bf92', 4096); \
         CREATE TABLE rosterusers (username varchar(191), server_host varchar(191), jid varchar(191), nick text, subscription character(1), \
            ask character(1), askmessage text); \
         INSERT INTO rosterusers VALUES ('juliet', 'localhost', 'romeo@far.example', 'Ro 🦊', 'B', 'N', ''); \
         CREATE TABLE rostergroups (username varchar(191), server_host varchar(191), jid varchar(191), grp text); \
         CREATE TABLE archive (username varchar(191), server_host varchar(191), timestamp BIGINT UNSIGNED, xml mediumtext, \
            id BIGINT UNSIGNED AUTO_INCREMENT UNIQUE); \
         INSERT INTO archive (username, server_host, timestamp, xml) WITH RECURSIVE numbers AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM numbers WHERE i < 700) \
            SELECT 'juliet', 'localhost', 1278803305000000 + i * 1000000, CONCAT( \
            '<message xmlns=''jabber:client'' from=''romeo@far.example/o'' to=''juliet@localhost''><body>', i, '</body></message>') FROM numbers",
    );
    made.expect("the tables of ejabberd");
    let ended = rig.run(&["user", "import", "--from", &ejabberd, "--schema", "ejabberd", "--allow-short"]);
    assert!(ended.out.contains("2 accounts imported, 1 thing left out"), "{ended:?}");
    assert!(ended.err.contains("nurse@localhost has keys for SCRAM-SHA-1 only"), "{ended:?}");
    let exported = export(&rig, "juliet");
    for there in ["name='Ro 🦊' subscription='both'", "<body>700</body>"] {
        assert!(exported.contains(there), "{there} is not in\n{exported}");
    }
    assert_eq!(exported.matches("<body>").count(), 700);

    let prosody = SERVER.database();
    let made = SERVER.sql(
        &prosody,
        "ALTER DATABASE CHARACTER SET utf8mb4; \
         CREATE TABLE prosody (host TEXT, user TEXT, store TEXT, `key` TEXT, type TEXT, value MEDIUMTEXT); \
         CREATE TABLE prosodyarchive (sort_id INTEGER PRIMARY KEY AUTO_INCREMENT, host TEXT, user TEXT, store TEXT, `key` TEXT, `when` INTEGER, `with` TEXT, \
            type TEXT, value MEDIUMTEXT); \
         INSERT INTO prosody VALUES ('localhost', 'romeo', 'accounts', 'password', 'string', 'secret'), \
            ('localhost', 'romeo', 'roster', 'juliet@localhost', 'json', '{\"groups\":{\"Friends\":true},\"name\":\"J\",\"subscription\":\"both\"}'); \
         INSERT INTO prosodyarchive (host, user, store, `key`, `when`, `with`, type, value) VALUES ('localhost', 'romeo', 'archive', 'a', 1278803305, \
            'juliet@localhost', 'xml', '<message from=''juliet@localhost/x'' to=''romeo@localhost''><body>kept</body></message>')",
    );
    made.expect("the tables of Prosody");
    rig.run(&["user", "import", "--from", &prosody, "--schema", "prosody", "--allow-short"]).fine();
    let exported = export(&rig, "romeo");
    for there in ["name='J' subscription='both'><group>Friends</group>", "<body>kept</body>"] {
        assert!(exported.contains(there), "{there} is not in\n{exported}");
    }
}
