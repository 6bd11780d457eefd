//! Accounts from the databases of other servers. Databases of real servers are imported by the
//! scenarios of `tests/clients/foreign.py`; here are the schemas of other versions, and faults in
//! them.

use std::fs;
use std::iter;

use rusqlite::Connection;

use super::rig::CliRig;

/// The keys of "pencil" in the example of RFC 7677 §3, and of RFC 5802 §5 in Base64: salt, stored
/// key, server key.
const SHA_1: [&str; 3] = ["QSXCR+Q6sek8bf92", "6dlGYMOdZcOPutkcNY8U2g7vK9Y=", "D+CSWLOshSulAsxiupA+qs2/fTE="];
const SHA_256: [&str; 3] = [
    "W22ZaJ0SNY7soEsUEjb6gQ==",
    "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=",
    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
];

/// Returns a rig with a database that these statements create.
fn with(statements: &str) -> CliRig {
    let rig = CliRig::new();
    let database = Connection::open(rig.path("other.db")).expect("a database");
    database.execute_batch(statements).expect("tables and rows");
    rig
}

fn export(rig: &CliRig, name: &str) -> String {
    rig.run(&["user", "export", &format!("{name}@localhost"), &format!("{name}.xml")]).fine();
    fs::read_to_string(rig.path(&format!("{name}.xml"))).expect("an export")
}

#[track_caller]
fn has(exported: &str, expected: &[&str]) {
    for there in expected {
        assert!(exported.contains(there), "{there} is not in\n{exported}");
    }
}

#[test]
fn keys_of_every_type_come_from_ejabberd() {
    let [salt_1, stored_1, server_1] = SHA_1;
    let [salt_256, stored_256, server_256] = SHA_256;
    let rig = with(&format!(
        "CREATE TABLE users (username text, server_host text, type smallint, password text, serverkey text, salt text, iterationcount integer);
         INSERT INTO users VALUES ('plain', 'localhost', 1, 'secret', '', '', 0),
            ('both', 'localhost', 2, '{stored_1}', '{server_1}', '{salt_1}', 4096),
            ('both', 'localhost', 3, '{stored_256}', '{server_256}', '{salt_256}', 4096),
            ('short', 'localhost', 4, '{stored_1}', '{server_1}', '{salt_1}', 4096),
            ('odd', 'localhost', 9, '{stored_1}', '{server_1}', '{salt_1}', 4096),
            ('else', 'far.example', 1, 'secret', '', '', 0), ('ro meo', 'localhost', 1, 'x', '', '', 0)"
    ));
    let ended = rig.run(&["user", "import", "--from", "other.db", "--schema", "ejabberd", "--allow-short"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("4 accounts imported"), "{ended:?}");
    for told in [
        "the host \"far.example\" isn't a domain of this server",
        "sqlite:other.db: both@localhost: both@localhost has keys for SCRAM-SHA-1, SCRAM-SHA-256 only",
        "short@localhost: keys for SCRAM-SHA-512 that can't be used: they have the wrong length",
        "odd@localhost: keys of an unknown kind: type \"9\"",
        "odd@localhost has no password in the file",
        "ro meo@localhost: the account \"ro meo\"",
    ] {
        assert!(ended.err.contains(told), "{told} is not in\n{}", ended.err);
    }
    has(
        &export(&rig, "both"),
        &["mechanism='SCRAM-SHA-1'", "mechanism='SCRAM-SHA-256'", stored_1, server_256, "<iter-count>4096"],
    );
    has(&export(&rig, "plain"), &["mechanism='SCRAM-SHA-512'"]);
    // Again: what is there is left alone.
    let again = rig.run(&[
        "user",
        "import",
        "--from",
        "other.db",
        "--schema",
        "ejabberd",
        "--domain",
        "localhost",
        "--allow-short",
    ]);
    assert!(again.out.contains("0 accounts imported, 5 things left out"), "{again:?}");
}

#[test]
fn what_ejabberd_keeps_comes_along() {
    let rig = with(
        "CREATE TABLE users (username text PRIMARY KEY, password text, serverkey text, salt text, iterationcount integer);
         INSERT INTO users VALUES ('juliet', 'secret', '', '', 0);
         CREATE TABLE rosterusers (username text, jid text, nick text, subscription character(1), ask character(1), askmessage text, server character(1));
         INSERT INTO rosterusers VALUES ('juliet', 'romeo@far.example', 'Ro 🦊', 'B', 'N', '', 'N'), ('juliet', 'paris@far.example', '', 'N', 'I', 'please', 'N'),
            ('juliet', 'mercutio@far.example', '', 'F', 'O', '', 'N');
         CREATE TABLE rostergroups (username text, jid text, grp text); INSERT INTO rostergroups VALUES ('juliet', 'romeo@far.example', 'A&B');
         CREATE TABLE vcard (username text, vcard text); INSERT INTO vcard VALUES ('juliet', '<vCard xmlns=''vcard-temp''><FN>broken</vCard>');
         CREATE TABLE private_storage (username text, namespace text, data text);
         INSERT INTO private_storage VALUES ('juliet', 'x:y', '<a xmlns=''x:y''>1</a>');
         CREATE TABLE spool (username text, xml text, seq INTEGER PRIMARY KEY);
         INSERT INTO spool VALUES ('juliet', '<message xmlns=''jabber:client'' from=''romeo@far.example/o''><body>waits</body></message>', 1);
         CREATE TABLE archive (username text, timestamp BIGINT, peer text, xml text, id INTEGER PRIMARY KEY);
         INSERT INTO archive (username, timestamp, xml) VALUES ('juliet', 1, 'no xml');
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
         INSERT INTO archive (username, timestamp, xml)
            SELECT 'juliet', 1278803305000000 + (i / 3) * 1000000, '<message xmlns=''jabber:client'' from=''romeo@far.example/o'' to=''juliet@localhost''><body>' || i || '</body></message>' FROM n",
    );
    rig.run(&["user", "import", "--from", "sqlite:other.db", "--schema", "ejabberd", "--allow-short"])
        .expect_failure(1, "name it with --domain");
    let ended = rig.run(&[
        "user",
        "import",
        "--from",
        "sqlite:other.db",
        "--schema",
        "ejabberd",
        "--domain",
        "localhost",
        "--allow-short",
    ]);
    assert!(ended.out.contains("1 account imported, 2 things left out"), "{ended:?}");
    for told in
        ["juliet@localhost: a vCard that can't be read", "juliet@localhost: an archived message that can't be read"]
    {
        assert!(ended.err.contains(told), "{told} is not in\n{}", ended.err);
    }
    let exported = export(&rig, "juliet");
    has(
        &exported,
        &[
            "<item jid='romeo@far.example' name='Ro 🦊' subscription='both'><group>A&amp;B</group></item>",
            "<item jid='mercutio@far.example' subscription='from' ask='subscribe'/>",
            "from='paris@far.example' to='juliet@localhost' type='subscribe'><status>please</status>",
            "<body>waits</body>",
            "<a xmlns='x:y'>1</a>",
            "stamp='2010-07-10T23:08:25Z'",
        ],
    );
    assert!(!exported.contains("<item jid='paris@far.example'"), "{exported}");
    assert_eq!(bodies(&exported), (1..=1200).collect::<Vec<_>>());
}

/// The number of messages of one microsecond: more than two pages of an archive.
const AT_ONCE: u32 = 1200;

/// Returns statements, the same for every engine, that create a database of ejabberd with an
/// archive whose messages are all of one microsecond.
pub fn archive_of_a_microsecond() -> Vec<String> {
    let [salt, stored, server] = SHA_1;
    let tables = format!(
        "CREATE TABLE users (username VARCHAR(191), password TEXT, serverkey TEXT, salt TEXT, iterationcount INTEGER);
         INSERT INTO users VALUES ('juliet', '{stored}', '{server}', '{salt}', 4096);
         CREATE TABLE archive (username VARCHAR(191), timestamp BIGINT, xml TEXT, id INTEGER PRIMARY KEY)"
    );
    let message = |number: &u32| {
        let xml =
            format!("<message from=\"romeo@far.example\" to=\"juliet@localhost\"><body>{number}</body></message>");
        format!("('juliet', 1278803305000000, '{xml}', {number})")
    };
    let messages: Vec<_> = (1..=AT_ONCE).collect();
    let inserts = messages.chunks(400).map(|some| {
        let rows: Vec<_> = some.iter().map(message).collect();
        format!("INSERT INTO archive (username, timestamp, xml, id) VALUES {}", rows.join(", "))
    });
    iter::once(tables).chain(inserts).collect()
}

/// Imports that archive, and expects every message of it in order.
#[track_caller]
pub fn expect_every_message(rig: &CliRig, address: &str) {
    let ended = rig.run(&["user", "import", "--from", address, "--schema", "ejabberd", "--domain", "localhost"]);
    assert!(ended.out.contains("1 account imported"), "{ended:?}");
    assert_eq!(bodies(&export(rig, "juliet")), (1..=AT_ONCE).collect::<Vec<_>>());
}

/// Returns the numbers in the messages of an exported archive.
fn bodies(exported: &str) -> Vec<u32> {
    let archived = &exported[exported.find("<archive").expect("an archive")..];
    let numbers = archived.split("<body>").skip(1).map(|rest| rest.split('<').next().expect("a number"));
    numbers.map(|number| number.parse().expect("a number")).collect()
}

#[test]
fn messages_of_one_microsecond_all_come_from_ejabberd() {
    expect_every_message(&with(&archive_of_a_microsecond().join(";")), "sqlite:other.db");
}

#[test]
fn keys_and_rosters_come_from_mongooseim() {
    let [salt, stored, server] = SHA_1;
    let [salt_256, stored_256, server_256] = SHA_256;
    let rig = with(&format!(
        "CREATE TABLE users (server text, username text, password text, pass_details text);
         INSERT INTO users VALUES
            ('localhost', 'many', '', '==MULTI_SCRAM==,4096,===SHA1==={salt}|{stored}|{server},==SHA224==a|b|c,==SHA256=={salt_256}|{stored_256}|{server_256}'),
            ('localhost', 'one', '', '==SCRAM==,{stored},{server},{salt},4096'), ('localhost', 'plain', 'secret', NULL);
         CREATE TABLE rosterusers (server text, username text, jid text, nick text, subscription text, ask text, askmessage text);
         INSERT INTO rosterusers VALUES ('localhost', 'one', 'a@far.example', 'A', 'T', 'N', ''), ('far.example', 'one', 'b@far.example', 'B', 'T', 'N', '');
         CREATE TABLE rostergroups (server text, username text, jid text, grp text);
         CREATE TABLE vcard (username text, server text, vcard text);
         INSERT INTO vcard VALUES ('one', 'localhost', '<vCard xmlns=''vcard-temp''><FN>One</FN></vCard>'), ('one', 'far.example', '<vCard xmlns=''vcard-temp''><FN>Two</FN></vCard>');
         CREATE TABLE mam_server_user (id INTEGER PRIMARY KEY, server text, user_name text); INSERT INTO mam_server_user VALUES (7, 'localhost', 'one');
         CREATE TABLE mam_message (id BIGINT, user_id INT, message text);
         INSERT INTO mam_message VALUES (1278803305000000 * 256, 7, '<message from=''a@far.example/x'' to=''one@localhost''><body>kept</body></message>'),
            (1278803306000000 * 256, 7, X'836803')"
    ));
    let ended = rig.run(&["user", "import", "--from", "other.db", "--schema", "mongooseim", "--allow-short"]);
    assert!(ended.code == 1 && ended.out.contains("3 accounts imported"), "{ended:?}");
    for told in [
        "many@localhost: SCRAM keys for \"SCRAM-SHA-224\", which this server doesn't have",
        "one@localhost: the archived message",
        "MongooseIM's own format can't be read",
    ] {
        assert!(ended.err.contains(told), "{told} is not in\n{}", ended.err);
    }
    has(&export(&rig, "many"), &[stored, stored_256]);
    let one = export(&rig, "one");
    has(
        &one,
        &[
            "<item jid='a@far.example' name='A' subscription='to'/>",
            "<FN>One</FN>",
            "<body>kept</body>",
            "2010-07-10T23:08:25Z",
        ],
    );
    assert!(!one.contains("b@far.example"));
}

#[test]
fn wrong_databases_are_told() {
    let rig = with("CREATE TABLE users (username text, password text)");
    let import = |schema: &str| {
        rig.run(&["user", "import", "--from", "other.db", "--schema", schema, "--domain", "localhost", "--allow-short"])
    };
    import("prosody")
        .expect_failure(1, "sqlite:other.db: there is no table \"prosody\" in it, so it isn't a database of Prosody");
    import("mongooseim").expect_failure(1, "its table \"users\" isn't that of MongooseIM");
    import("ejabberd").fine();
    rig.run(&["user", "import", "--from", "missing.db", "--schema", "prosody", "--allow-short"])
        .expect_failure(1, "missing.db");
    rig.run(&["user", "import", "--from", "other.db", "--allow-short"]).expect_failure(2, "--schema");
    rig.run(&["user", "import", "--allow-short"]).expect_failure(2, "<FILE>");
    assert!(!rig.path("missing.db").exists());
}
