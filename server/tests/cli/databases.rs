//! Servers with a separate database server, and their commands: rules for all engines.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rookery_needs::{Proxy, free_port};
use rookery_store::sql::copy::EndAddress;

use super::dpm::views_become_a_device_database;
use super::foreign;
use super::rig::{CliRig, FREE_PORTS};

/// A database server that the tests share.
pub trait Databases: Sync {
    /// The name by which its tests are skipped.
    const NEED: &'static str;

    /// The beginning of its addresses.
    const SCHEME: &'static str;

    /// Keys of `[store]` that a server needs for it.
    const KEYS: &'static str;

    /// The words of a check about it.
    const CHECKED: &'static [&'static str];

    /// The type of columns of bytes, and the bytes 83, 68 and 03 of Erlang's term format.
    const BYTES: (&'static str, &'static str);

    /// The type of columns of text that aren't ordered by their bytes.
    const NAMES: &'static str;

    /// Makes an empty database and returns its address.
    fn database(&self) -> String;

    /// Runs statements and returns their rows, one per line.
    fn sql(&self, database: &str, statements: &str) -> String;

    /// Creates a proxy to the databases that can disturb connections.
    fn way(&self) -> Proxy;

    /// Returns the address of a database through that proxy.
    fn address_by(&self, way: &Proxy, name: &str) -> String;

    /// Grants the server's user the right to drop tables, if it doesn't have it.
    fn let_drop(&self, _: &str) {}
}

/// Generates the tests of an engine: the first argument is the place of its databases.
macro_rules! tests {
    ($databases:ident: $($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            if !is_left_out() {
                $crate::cli::databases::$name(&*$databases);
            }
        }
    )*};
}
pub(crate) use tests;

/// Returns a rig whose configuration names a database, with more keys of `[store]`.
pub fn rig(address: &str, keys: &str) -> CliRig {
    let rig = CliRig::new();
    rig.write("rookery.toml", &configuration(address, keys));
    rig
}

fn configuration(address: &str, keys: &str) -> String {
    format!("{FREE_PORTS}\n[store]\nurl = \"{address}\"\n{keys}\n")
}

pub fn a_server_and_its_commands_keep_all_in_it<D: Databases>(databases: &D) {
    let address = databases.database();
    let rig = rig(&address, D::KEYS);
    let plan = rig.run(&["store", "migrate", "--dry-run"]).fine();
    assert!(plan.contains("has schema version 0; ") && plan.contains(" steps lead to "), "{plan}");
    assert!(rig.run(&["store", "migrate", "--sql"]).fine().contains("CREATE TABLE"));
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let (server, _) = rig.serve();
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let listed = rig.run(&["user", "list"]).fine();
    assert!(listed.contains("juliet@localhost\n") && listed.contains("romeo@localhost\n"), "{listed}");
    drop(server);
    assert_eq!(databases.sql(&address, "SELECT localpart FROM accounts ORDER BY 1"), "juliet\nromeo");
    assert!(!rig.path("rookery-data/rookery.db").exists(), "there is no file");
    let checked = rig.run(&["check"]);
    for expected in D::CHECKED.iter().chain(&["schema version ", "logins a second"]) {
        assert!(checked.out.contains(expected), "{expected}: {}", checked.out);
    }
    assert!(!checked.out.contains("will update it"), "{}", checked.out);
    assert!(rig.run(&["store", "migrate"]).fine().contains("the latest"));
}

/// Checks the answers to operators and their probes while a database goes away and comes back.
pub fn probes_and_metrics_tell_the_truth_while_it_is_away<D: Databases>(databases: &D) {
    let (address, way, port) = (databases.database(), databases.way(), free_port());
    let name = address.rsplit('/').next().expect("a name");
    let rig = CliRig::new();
    let ours = FREE_PORTS.replace("\nweb = [\"127.0.0.1:0\"]", &format!("\nweb = [\"127.0.0.1:{port}\"]"));
    let store = configuration(&databases.address_by(&way, name), D::KEYS);
    rig.write("rookery.toml", &store.replace(FREE_PORTS, &ours));
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let ready = || get(port, "/health/ready");
    // The machine's disk may be nearly full, which is told behind a comma.
    let is_ready = || matches!(ready(), (200, told) if told.starts_with("ready"));
    let metric = |name: &str| {
        let (_, page) = get(port, "/metrics");
        let value =
            page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("{name} is not in {page}"))
    };
    let (server, _) = rig.serve();
    let start = Instant::now();
    assert!(is_ready(), "{:?}", ready());
    assert!(metric("rookery_store_connections") > 0.0);
    for times in 1..=2 {
        way.refuse(true);
        way.cut_all();
        // Nothing queries the database.
        while ready().0 == 200 {
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(ready(), (503, "the database is unreachable\n".to_owned()));
        assert_eq!(get(port, "/health/live").0, 200, "it needs no restart");
        let given_up = metric("rookery_store_given_up_total");
        assert_eq!(rig.run(&["user", "show", "juliet@localhost"]).code, 1);
        assert!(metric("rookery_store_given_up_total") > given_up, "time {times}");
        if times == 1 {
            diagnoses_need_no_database(&rig);
        }
        let reconnects = metric("rookery_store_reconnects_total");
        way.refuse(false);
        while ready().0 == 503 {
            thread::sleep(Duration::from_millis(50));
        }
        assert!(is_ready(), "{:?}", ready());
        assert!(metric("rookery_store_reconnects_total") > reconnects, "time {times}");
        assert!(rig.run(&["user", "show", "juliet@localhost"]).fine().contains("juliet@localhost"));
    }
    let (log, minutes) = (server.log(), start.elapsed().as_secs() / 60);
    let told = log.matches("the database can't be reached").count() as u64;
    assert!(
        (1..=1 + minutes).contains(&told),
        "{told} lines within {minutes} minutes, for two times and all lanes: {log}"
    );
    assert_eq!(log.matches("the database can be reached again").count(), 2, "{log}");
}

/// Asks a server whose database is away how it is.
fn diagnoses_need_no_database(rig: &CliRig) {
    let status = rig.run(&["status"]).fine();
    for words in ["accounts     unknown", "database     unreachable since 20", "sessions     0"] {
        assert!(status.contains(words), "{words}: {status}");
    }
    let doctor = rig.run(&["doctor"]);
    assert!(doctor.out.contains("urgent   store          The database has been unreachable since 20"), "{doctor:?}");
    rig.run(&["room", "list"]).expect_failure(1, "the database has been unreachable since 20");
}

/// Asks a server over HTTP. Returns the status and the body.
fn get(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

pub fn an_import_waits_for_a_database_that_stalls<D: Databases>(databases: &D) {
    let (address, way) = (databases.database(), databases.way());
    rig(&address, D::KEYS).run(&["store", "migrate"]).fine();
    let name = address.rsplit('/').next().expect("a name");
    let rig = rig(&databases.address_by(&way, name), D::KEYS);
    let mut import = rig.command(&["user", "import", "-", "--allow-short"]).spawn().expect("a process");
    let mut input = import.stdin.take().expect("its input");
    // No pipe holds as much: once it is read, the database is open.
    input.write_all(&[b'\n'; 1 << 20]).expect("an import that reads");
    way.stand(true);
    input.write_all(b"juliet@localhost,pencil\n").expect("an import that reads");
    drop(input);
    goes_on(import, &way, "keeps this command waiting");
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
}

pub fn a_copy_waits_for_a_database_that_stalls<D: Databases>(databases: &D) {
    let (rig, address, way) = (rig("sqlite", D::KEYS), databases.database(), databases.way());
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let name = address.rsplit('/').next().expect("a name");
    let by_way = databases.address_by(&way, name);
    // As if it had been interrupted.
    rig.run(&["store", "copy", "--to", &address]).fine();
    databases.sql(&address, "INSERT INTO counters (name, value) VALUES ('copying', 1)");
    databases.sql(&address, "DELETE FROM scram_keys");
    // A hundred steps that take a while each.
    way.delay(Duration::from_millis(100));
    let mut copy = rig.command(&["store", "copy", "--to", &by_way]).spawn().expect("a process");
    while databases.sql(&address, "SELECT COUNT(*) FROM scram_keys") == "0" {
        assert_eq!(copy.try_wait().expect("a process"), None, "the copy has ended");
    }
    way.stand(true);
    way.delay(Duration::ZERO);
    goes_on(copy, &way, "keeps this copy waiting");
    rig.run(&["store", "verify", "--to", &address]).fine();
}

/// Waits until a command reports that it waits, lets it continue, and expects its success.
fn goes_on(mut command: Child, way: &Proxy, words: &str) {
    let mut told = BufReader::new(command.stderr.take().expect("its errors"));
    let mut said = String::new();
    while !said.contains(words) {
        assert!(told.read_line(&mut said).expect("text") > 0, "the command has ended: {said}");
    }
    way.stand(false);
    let ended = command.wait_with_output().expect("an end");
    assert!(ended.status.success(), "{ended:?}");
}

pub fn databases_are_copied_between_engines<D: Databases>(databases: &D) {
    let (rig, address) = (rig("sqlite", D::KEYS), databases.database());
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    assert!(rig.run(&["store", "copy", "--to", &address]).fine().contains("both are identical"));
    assert!(rig.run(&["store", "verify", "--to", &address]).fine().contains("are identical"));
    let back = rig.run(&["store", "copy", "--from", &address, "--to", "sqlite:back/rookery.db"]).fine();
    assert!(back.contains("both are identical"), "{back}");
    assert!(rig.run(&["store", "verify", "--to", "sqlite:back/rookery.db"]).fine().contains("are identical"));
    // Numbers of new rows follow those of the copied ones.
    rig.write("rookery.toml", &configuration(&address, D::KEYS));
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\nromeo@localhost\n");
}

/// Imports accounts of MongooseIM, which stores archived messages as bytes. They are text only if
/// its administrator chose XML.
pub fn archives_that_are_no_text_hide_no_other_account<D: Databases>(databases: &D) {
    let (rig, address, (bytes, terms)) = (CliRig::new(), databases.database(), D::BYTES);
    databases.sql(
        &address,
        &format!(
            "CREATE TABLE users (username VARCHAR(250), server VARCHAR(250), password TEXT, pass_details TEXT);
             INSERT INTO users VALUES ('juliet', 'localhost', 'secret', NULL), ('romeo', 'localhost', 'secret', NULL);
             CREATE TABLE mam_server_user (id INT, server VARCHAR(250), user_name VARCHAR(250));
             INSERT INTO mam_server_user VALUES (1, 'localhost', 'juliet');
             CREATE TABLE mam_message (id BIGINT, user_id INT, message {bytes});
             INSERT INTO mam_message VALUES (327373646080000000, 1, {terms}),
                (327373646336000000, 1, '<message from=\"romeo@localhost/x\" to=\"juliet@localhost\"><body>kept</body></message>')"
        ),
    );
    let ended = rig.run(&["user", "import", "--from", &address, "--schema", "mongooseim", "--allow-short"]);
    assert!(ended.code == 1 && ended.out.contains("2 accounts imported, 1 thing left out"), "{ended:?}");
    assert!(ended.err.contains("the archived message 327373646080000000, which isn't XML"), "{ended:?}");
    let exported = export(&rig, "juliet");
    assert!(exported.contains("<body>kept</body>") && exported.contains("2010-07-10T23:08:26Z"), "{exported}");
}

pub fn messages_of_one_microsecond_all_come_from_ejabberd<D: Databases>(databases: &D) {
    let address = databases.database();
    for statements in foreign::archive_of_a_microsecond() {
        databases.sql(&address, &statements);
    }
    foreign::expect_every_message(&CliRig::new(), &address);
}

/// Checks it for names that the column's collation orders differently from their bytes, which it
/// does with an underscore and digits, at the end of the first page of names.
pub fn names_in_any_order_all_come_from_ejabberd<D: Databases>(databases: &D) {
    let (rig, address, column) = (CliRig::new(), databases.database(), D::NAMES);
    let names = (1000..2000).map(|number| format!("a{number}")).chain(["a_b".to_owned(), "b".to_owned()]);
    let users: Vec<_> = names.map(|name| format!("('{name}', '', '', '', 0)")).collect();
    databases.sql(
        &address,
        &format!(
            "CREATE TABLE users (username {column}, password TEXT, serverkey TEXT, salt TEXT, iterationcount INTEGER);
             INSERT INTO users VALUES {}",
            users.join(", ")
        ),
    );
    let ended = rig.run(&["user", "import", "--from", &address, "--schema", "ejabberd", "--domain", "localhost"]);
    assert_eq!(ended.err.matches(" has no password in the file").count(), users.len(), "{ended:?}");
    assert!(ended.err.contains("a_b@localhost has no password in the file"), "{ended:?}");
}

pub fn what_is_wrong_is_told_with_what_mends_it<D: Databases>(databases: &D) {
    let address = databases.database();
    databases.sql(&address, "CREATE TABLE accounts (name TEXT)");
    // Code 78: trying again doesn't help.
    rig(&address, D::KEYS).run(&["serve"]).expect_failure(78, "of another program");
    let missing = format!("{}\npassword_file = \"missing\"", D::KEYS);
    rig(&address, &missing).run(&["serve"]).expect_failure(78, "password_file in [store] is missing");
    rig(&format!("{}localhost/chat", D::SCHEME), D::KEYS).run(&["serve"]).expect_failure(78, "no user is named");
    // An unreachable database is no fault of the configuration.
    let nowhere = format!("{}rookery@%2Fnowhere/chat", D::SCHEME);
    rig(&nowhere, D::KEYS).run(&["serve"]).expect_failure(75, "can't be reached");
    let checked = rig(&nowhere, D::KEYS).run(&["check"]);
    assert!(checked.code == 75 && checked.out.contains("can't be reached"), "{checked:?}");
}

pub fn a_server_on_it_is_backed_up_and_restored<D: Databases>(databases: &D) {
    let (address, other) = (databases.database(), databases.database());
    let first = rig(&address, D::KEYS);
    first.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let (server, _) = first.serve();
    assert!(first.run(&["backup", "b.tar.gz"]).fine().contains("written and verified"));
    drop(server);
    // The database is restored to the configured place, …
    let second = rig(&other, D::KEYS);
    fs::copy(first.path("b.tar.gz"), second.path("b.tar.gz")).expect("copied");
    let restored = second.run(&["restore", "b.tar.gz"]).fine();
    assert!(restored.contains(&format!(", its database in {}", D::SCHEME)), "{restored}");
    assert!(!second.path("rookery-data/rookery.db").exists(), "there is no file");
    assert_eq!(second.run(&["user", "list"]).fine(), "juliet@localhost\n");
    second.run(&["store", "verify", "--from", &address, "--to", &other]).fine();
    second.run(&["restore", "b.tar.gz"]).expect_failure(1, "--replace removes what is there");
    second.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    second.run(&["restore", "--replace", "b.tar.gz"]).fine();
    assert_eq!(second.run(&["user", "list"]).fine(), "juliet@localhost\n");
    // … or into a file.
    second.run(&["restore", "b.tar.gz", "--to", "sqlite:file.db"]).fine();
    second.run(&["store", "verify", "--to", "sqlite:file.db"]).fine();
}

/// Restores where there is no configuration, so that the one of the backup will hold.
pub fn a_backup_goes_where_its_configuration_wants_it<D: Databases>(databases: &D) {
    let (address, other) = (databases.database(), databases.database());
    let first = rig(&address, D::KEYS);
    first.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    first.write("rookery-data/rookery.toml", &configuration(&other, D::KEYS));
    first.run(&["backup", "b.tar.gz"]).fine();
    let second = || {
        let rig = CliRig::empty();
        fs::copy(first.path("b.tar.gz"), rig.path("b.tar.gz")).expect("copied");
        rig
    };
    let restored = second();
    let said = restored.run(&["restore", "b.tar.gz"]).fine();
    // Root is told more in the next line.
    let end = format!(", its database in {}", show(&other));
    assert!(said.lines().any(|line| line.ends_with(&end)), "{said}");
    assert!(!restored.path("rookery-data/rookery.db").exists(), "there is no file");
    assert_eq!(restored.run(&["user", "list"]).fine(), "juliet@localhost\n", "a server finds them");
    // It may be the database of the server that the backup was made of.
    let refused = second();
    for arguments in [&["restore", "b.tar.gz"][..], &["restore", "--replace", "b.tar.gz"]] {
        refused.run(arguments).expect_failure(1, "isn't empty");
        refused.run(arguments).expect_failure(1, "--to URL");
    }
    assert_eq!(fs::read_dir(refused.path("rookery-data")).expect("a folder").count(), 1, "the lock alone");
    assert_eq!(restored.run(&["user", "list"]).fine(), "juliet@localhost\n");
    // The command says so if no server would look in this place.
    let said = refused.run(&["restore", "b.tar.gz", "--to", "sqlite:file.db"]).fine();
    assert!(said.contains("its database in sqlite:file.db; a server that starts here uses "), "{said}");
}

/// Returns an address as people see it.
fn show(address: &str) -> String {
    EndAddress::parse(address).expect("an address").to_string()
}

pub fn archives_are_divided_into_months<D: Databases>(databases: &D) {
    let (address, by_hand, other) = (databases.database(), databases.database(), databases.database());
    for address in [&address, &by_hand, &other] {
        databases.let_drop(address);
    }
    for address in [&address, &by_hand] {
        say_one(databases, address);
    }
    let months = &format!("{}\narchives = \"months\"", D::KEYS);
    let divided = rig(&address, months);
    assert!(divided.run(&["check"]).out.contains("archives aren't divided into months: run `rookery store migrate`"));
    let planned = divided.run(&["store", "migrate", "--dry-run"]).fine();
    assert!(planned.contains("the latest") && planned.contains("archives will be partitioned by month"), "{planned}");
    let (server, _) = divided.serve();
    assert!(divided.run(&["store", "migrate"]).fine().contains("archives are now partitioned by month"));
    drop(server);
    assert!(divided.run(&["check"]).out.contains("parts by months"));
    assert!(!divided.run(&["store", "migrate", "--dry-run"]).fine().contains("months"));
    // An administrator may run the printed statements instead.
    let statements = rig(&by_hand, months).run(&["store", "migrate", "--sql"]).fine();
    databases.sql(&by_hand, &statements);
    rig(&by_hand, months).run(&["store", "migrate"]).fine();
    assert!(rig(&by_hand, months).run(&["check"]).out.contains("parts by months"));
    // It is backed up and restored like any other.
    assert!(divided.run(&["backup", "b.tar.gz"]).fine().contains("written and verified"));
    let restored = rig(&other, months);
    fs::copy(divided.path("b.tar.gz"), restored.path("b.tar.gz")).expect("copied");
    restored.run(&["restore", "b.tar.gz"]).fine();
    assert!(restored.run(&["check"]).out.contains("parts by months"));
    // The backup is noted once it is written.
    let compared = restored.run(&["store", "verify", "--from", &address, "--to", &other]);
    assert!(compared.code == 1 && compared.err.contains("differ in one table"), "{compared:?}");
    assert!(compared.out.contains("differs from the row \"journal\""), "{compared:?}");
}

pub fn searches_have_an_index_where_that_is_wanted<D: Databases>(databases: &D) {
    let (address, by_hand) = (databases.database(), databases.database());
    for address in [&address, &by_hand] {
        databases.let_drop(address);
        say_one(databases, address);
    }
    let indexed = &format!("{}\nsearch = \"index\"", D::KEYS);
    let rig_of = |address: &str| rig(address, indexed);
    let never = format!("{indexed}\nmigrate = \"never\"");
    rig(&address, &never).run(&["serve"]).expect_failure(78, "store migrate");
    let (server, _) = rig_of(&address).serve();
    drop(server);
    let planned = rig_of(&address).run(&["store", "migrate", "--dry-run"]).fine();
    assert!(planned.contains("archives will be indexed for searches"), "{planned}");
    assert!(rig_of(&address).run(&["store", "migrate"]).fine().contains("archives are now indexed for searches"));
    assert_eq!(databases.sql(&address, "SELECT COUNT(*) FROM archive_terms"), "1");
    assert!(!rig_of(&address).run(&["store", "migrate", "--dry-run"]).fine().contains("searches"));
    // An administrator may run the printed statements instead, except for the messages themselves.
    let statements = rig_of(&by_hand).run(&["store", "migrate", "--sql"]).fine();
    databases.sql(&by_hand, &statements);
    let (server, _) = rig(&by_hand, &never).serve();
    drop(server);
    rig_of(&by_hand).run(&["store", "migrate"]).fine();
    assert_eq!(databases.sql(&by_hand, "SELECT COUNT(*) FROM archive_terms"), "1");
    let plain = rig(&address, D::KEYS);
    assert!(plain.run(&["store", "migrate", "--dry-run"]).fine().contains("search index will be removed"));
    assert!(plain.run(&["store", "migrate"]).fine().contains("search index was removed"));
    assert!(!plain.run(&["store", "migrate", "--dry-run"]).fine().contains("searches"));
}

/// Adds a message to the archive of the only account.
fn say_one<D: Databases>(databases: &D, address: &str) {
    rig(address, D::KEYS)
        .run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n")
        .fine();
    databases
        .sql(address, "INSERT INTO archives (domain, localpart, account) SELECT domain, localpart, id FROM accounts");
    let message = "INSERT INTO archive_messages (owner, id, contact_key, contact, resource, stanza) SELECT id, 2, 3, 'b', '', \
        '<message><body>Wherefore</body></message>' FROM archives";
    databases.sql(address, message);
}

/// Returns the export of an account.
pub fn export(rig: &CliRig, name: &str) -> String {
    rig.run(&["user", "export", &format!("{name}@localhost"), &format!("{name}.xml")]).fine();
    fs::read_to_string(rig.path(&format!("{name}.xml"))).expect("an export")
}

/// Checks that devices come from views of such a database.
pub fn views_of_it_become_a_device_database<D: Databases>(databases: &D) {
    let address = databases.database();
    let quote = if D::SCHEME.starts_with("mysql") { '`' } else { '"' };
    let run = |statement: &str| drop(databases.sql(&address, statement));
    views_become_a_device_database(&CliRig::new(), &address, run, quote);
}
