//! Accounts, with and without a running server.

use super::rig::{CliRig, FREE_PORTS, RigEnded};

fn add(rig: &CliRig, jid: &str, password: &str) -> RigEnded {
    rig.run_with(&["user", "add", jid, "--password-stdin", "--allow-short"], &format!("{password}\n"))
}

#[test]
fn accounts_come_and_go() {
    let rig = CliRig::new();
    assert_eq!(add(&rig, "Romeo@localhost", "secret").fine(), "added romeo@localhost\n");
    add(&rig, "juliet@localhost", "secret").fine();
    add(&rig, "romeo@localhost", "other").expect_failure(1, "romeo@localhost already exists");
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\nromeo@localhost\n");
    rig.run(&["user", "list", "example.org"]).expect_failure(1, "example.org isn't a domain of this server");
    let changed =
        rig.run_with(&["user", "passwd", "romeo@localhost", "--password-stdin", "--allow-short"], "new\n").fine();
    assert!(changed.starts_with("set the password of romeo@localhost"), "{changed}");
    assert_eq!(rig.run(&["user", "remove", "romeo@localhost"]).fine(), "removed romeo@localhost\n");
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
    rig.run(&["user", "remove", "romeo@localhost"]).expect_failure(1, "there is no account romeo@localhost");
    let nobody = rig.run_with(&["user", "passwd", "romeo@localhost", "--password-stdin", "--allow-short"], "new\n");
    nobody.expect_failure(1, "there is no account romeo@localhost");
}

#[test]
fn a_running_server_is_no_obstacle() {
    let rig = CliRig::new();
    let (server, _) = rig.serve();
    add(&rig, "romeo@localhost", "secret").fine();
    assert_eq!(rig.run(&["user", "list"]).fine(), "admin@localhost\nromeo@localhost\n");
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_cannot_be_an_account_is_refused() {
    let rig = CliRig::new();
    add(&rig, "localhost", "x").expect_failure(1, "has no name before an @");
    add(&rig, "romeo@localhost/orchard", "x").expect_failure(1, "write an account without one, as romeo@localhost");
    add(&rig, "romeo@example.org", "x")
        .expect_failure(1, "\"example.org\" isn't a domain of this server; its domains are: localhost");
    add(&rig, "ro meo@localhost", "x").expect_failure(1, "is not an address");
    add(&rig, "romeo@localhost", "").expect_failure(1, "the password is empty");
    rig.run(&["user", "add"]).expect_failure(2, "Usage:");
    assert_eq!(rig.run(&["user", "list"]).fine(), "");
}

/// The same rule holds with and without a running server, for files and for programs; the operator
/// at the command line alone may decide otherwise.
#[test]
fn short_passwords_are_refused_unless_the_operator_wants_one() {
    let rig = CliRig::new();
    let least = |rig: &CliRig, words: &str| {
        let say = |arguments: &[&str], input: &str| rig.run_with(&[&["user"], arguments].concat(), input);
        say(&["add", "romeo@localhost", "--password-stdin"], "short\n").expect_failure(1, words);
        say(&["add", "romeo@localhost", "--password-stdin", "--allow-short"], "short\n").fine();
        say(&["passwd", "romeo@localhost", "--password-stdin"], "other\n").expect_failure(1, words);
        say(&["passwd", "romeo@localhost", "--password-stdin", "--allow-short"], "other\n").fine();
        say(&["import", "-"], "juliet@localhost,short\n").expect_failure(1, words);
        let export = "<server-data xmlns='urn:xmpp:pie:0'><host jid='localhost'><user name='juliet' password='short'/></host></server-data>";
        say(&["import", "-"], export).expect_failure(1, words);
        assert!(!rig.run(&["user", "list"]).fine().contains("juliet"));
        say(&["import", "-", "--allow-short"], export).fine();
        say(&["remove", "romeo@localhost"], "").fine();
        say(&["remove", "juliet@localhost"], "").fine();
    };
    least(&rig, "at least 8 characters (`min_password` in [modules.register]); --allow-short accepts shorter ones");
    rig.write("rookery.toml", &format!("{FREE_PORTS}[modules.register]\nenabled = false\n"));
    least(&rig, "at least 8 characters (`min_password` in [modules.register] sets another number");
    rig.write("rookery.toml", &format!("{FREE_PORTS}[modules.register]\nmin_password = 6\n"));
    least(&rig, "at least 6 characters (`min_password` in [modules.register]); --allow-short accepts shorter ones");
    let (_server, _) = rig.serve();
    least(&rig, "at least 6 characters");
}

#[test]
fn many_accounts_are_listed_whole() {
    let rig = CliRig::new();
    let lines: String = (0..300).map(|number| format!("user{number:04}@localhost,secret\n")).collect();
    rig.write("accounts.csv", &lines);
    let imported = rig.run(&["user", "import", "accounts.csv", "--allow-short"]);
    assert_eq!(imported.err, "");
    assert_eq!(imported.fine(), "300 accounts added, 0 lines failed\n");
    let listed = rig.run(&["user", "list"]).fine();
    assert_eq!(listed.lines().count(), 300);
    assert!(listed.lines().is_sorted());
}

#[test]
fn wrong_lines_are_named_and_the_others_imported() {
    let rig = CliRig::new();
    add(&rig, "known@localhost", "x").fine();
    let lines = [
        "jid,password",
        "romeo@localhost,secret",
        "",
        "no comma",
        "ro meo@localhost,x",
        "Romeo@LOCALHOST,again",
        "known@localhost,x",
        "empty@localhost,",
        "\"juliet@localhost\",\"a, \"\"b\"\"\"\r",
        "open@localhost,\"x",
        "far@example.org,x",
        "three@localhost,x,y",
        "control@localhost,a\u{7}",
        "last@localhost,x",
    ];
    rig.write("accounts.csv", &lines.join("\n"));
    let ended = rig.run(&["user", "import", "accounts.csv", "--allow-short"]);
    for words in [
        "line 4: there is no comma",
        "line 5: \"ro meo@localhost\" is not an address",
        "line 6: romeo@localhost already appeared in line 2",
        "line 7: known@localhost already exists",
        "line 8: the password of empty@localhost is empty",
        "line 10: a double quote isn't closed",
        "line 11: \"example.org\" isn't a domain of this server",
        "line 12: there are more than two fields",
        "line 13: control@localhost: the password",
    ] {
        assert!(ended.err.contains(words), "{words:?} is not in:\n{}", ended.err);
    }
    assert_eq!(ended.err.lines().count(), 9, "{}", ended.err);
    assert_eq!(ended.out, "3 accounts added, 9 lines failed\n");
    assert_eq!(ended.code, 1);
    let listed = rig.run(&["user", "list"]).fine();
    assert_eq!(listed, "juliet@localhost\nknown@localhost\nlast@localhost\nromeo@localhost\n");
}

#[test]
fn of_many_wrong_lines_the_first_are_shown() {
    let rig = CliRig::new();
    let lines: String = (1..=40).map(|number| format!("no comma {number}\n")).collect();
    let ended = rig.run_with(&["user", "import", "-"], &lines);
    assert_eq!(ended.err.lines().count(), 11, "{}", ended.err);
    assert!(
        ended.err.contains("line 10: there is no comma") && ended.err.ends_with("\nand 30 more\n"),
        "{}",
        ended.err
    );
    assert_eq!((ended.code, ended.out.as_str()), (1, "0 accounts added, 40 lines failed\n"));
}

#[test]
fn an_import_that_breaks_off_says_how_far_it_got() {
    let rig = CliRig::new();
    add(&rig, "first@localhost", "x").fine();
    let database = rusqlite::Connection::open(rig.path("rookery-data/rookery.db")).expect("the database");
    let full = "CREATE TRIGGER full BEFORE INSERT ON accounts WHEN (SELECT COUNT(*) FROM accounts) > 256 \
                BEGIN SELECT RAISE(ABORT, 'it is full'); END";
    database.execute_batch(full).expect("a trigger");
    let lines: String = (0..300).map(|number| format!("user{number:04}@localhost,secret-secret\n")).collect();
    let ended = rig.run_with(&["user", "import", "-"], &lines);
    assert_eq!((ended.code, ended.out.as_str()), (78, "256 accounts added, 0 lines failed\n"), "{}", ended.err);
    assert!(ended.err.contains("it is full"), "{}", ended.err);
}

/// Names that an option gives rights to are given by operators, who are told so.
#[test]
fn who_has_rights_by_name_is_told() {
    let rig = CliRig::new();
    let admins = "[modules.rooms]\nadmins = [\"root@localhost\", \"romeo@localhost\"]\n";
    rig.write("rookery.toml", &format!("{}{admins}", FREE_PORTS));
    assert_eq!(add(&rig, "juliet@localhost", "x").fine(), "added juliet@localhost\n");
    let said = add(&rig, "root@localhost", "x").fine();
    assert!(said.contains("root@localhost has rights because of its name"), "{said}");
    rig.write("accounts.csv", "paris@localhost,secret\nromeo@localhost,secret\n");
    let said = rig.run(&["user", "import", "accounts.csv", "--allow-short"]).fine();
    assert!(said.contains("romeo@localhost has rights because of its name") && !said.contains("paris@"), "{said}");
}

/// A pipe can be read once, and has no size.
#[test]
fn accounts_come_and_go_through_pipes() {
    let rig = CliRig::new();
    let imported =
        rig.run_with(&["user", "import", "-", "--allow-short"], "romeo@localhost,secret\njuliet@localhost,secret\n");
    assert_eq!(imported.fine(), "2 accounts added, 0 lines failed\n");
    let imported = rig.run_with(&["user", "import", "/dev/stdin", "--allow-short"], "paris@localhost,secret\n");
    assert_eq!(imported.fine(), "1 account added, 0 lines failed\n");
    let exported = rig.run(&["user", "export", "localhost", "-"]);
    assert_eq!(exported.err, "exported 3 accounts\n");
    assert!(!rig.path("-").exists());
    let exported = exported.fine();
    let other = CliRig::new();
    let imported = other.run_with(&["user", "import", "-", "--allow-short"], &exported).fine();
    assert_eq!(imported, "3 accounts imported, 0 things left out\n");
    assert_eq!(rig.run(&["user", "list"]).fine(), other.run(&["user", "list"]).fine());
    let faults = other.run_with(&["user", "import", "-", "--allow-short"], "<server-data xmlns='urn:xmpp:pie:0'><");
    faults.expect_failure(1, "-:");
}

#[test]
fn odd_files_do_no_harm() {
    let rig = CliRig::new();
    rig.run(&["user", "import", "nowhere.csv", "--allow-short"]).expect_failure(1, "nowhere.csv: ");
    rig.write("empty.csv", "");
    assert_eq!(rig.run(&["user", "import", "empty.csv", "--allow-short"]).fine(), "0 accounts added, 0 lines failed\n");
    std::fs::write(rig.path("bytes.csv"), b"\xEF\xBB\xBFa@localhost,x\nb\xFF@localhost,x\n").expect("written");
    let ended = rig.run(&["user", "import", "bytes.csv", "--allow-short"]);
    assert_eq!(
        (ended.out.as_str(), ended.err.as_str()),
        ("1 account added, 1 line failed\n", "line 2: the line is not UTF-8\n")
    );
    rig.write("long.csv", &format!("{}\nb@localhost,x\n", "a".repeat(100_000)));
    let ended = rig.run(&["user", "import", "long.csv", "--allow-short"]);
    assert_eq!(ended.out, "1 account added, 1 line failed\n");
    assert!(ended.err.starts_with("line 1: the line is longer than"), "{}", ended.err);
}

#[test]
fn passwords_are_what_was_given() {
    let rig = CliRig::new();
    rig.write("rookery.toml", &format!("domains = [\"localhost\", \"example.org\"]\n{FREE_PORTS}"));
    // A password of spaces and commas, with the line end of another system.
    let added =
        rig.run_with(&["user", "add", "a@example.org", "--password-stdin", "--allow-short"], " a, b \r\nsecond line\n");
    added.fine();
    let stores =
        rookery_store::sqlite::open(&rig.path("rookery-data/rookery.db"), &Default::default()).expect("the database");
    let jid = rookery_jid::Jid::parse("a@example.org").expect("an address");
    let found = rookery_store::wait(rookery_store::Accounts::credentials(&stores, jid.as_ref())).expect("an answer");
    let found = found.expect("an account");
    assert!(found.verify(" a, b "));
    assert_eq!(found.sha1.iterations, 4096);
}
