//! A database on another machine that goes away, or whose standby takes over: connected users go on
//! chatting, requests that need the database wait or are refused, and nothing that was acknowledged
//! is lost.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rookery_needs::{Followed, Mariadb, Pair, Postgres, Proxy};
use rookery_store::forward::{Forward, Owners};
use rookery_store::{ArchiveQuery, Pending, Stores, mysql, postgres, wait};
use rookery_testkit::client::befriend;
use rookery_testkit::login::sasl;
use rookery_testkit::server::PASSWORD;
use rookery_testkit::{Client, Config, Server, element};
use rookery_xml::ns;

/// Stores that are waited for, as long as that is asked for: the server has nothing left to wait
/// for when it has settled.
struct AwaitedStores {
    stores: Stores,
    is_awaited: Arc<AtomicBool>,
}

impl Forward for AwaitedStores {
    fn inner(&self) -> &Stores {
        &self.stores
    }

    fn forward<T: Send + 'static>(
        &self,
        _: Owners,
        call: impl FnOnce(&Stores) -> Pending<T> + Send + 'static,
    ) -> Pending<T> {
        let answer = call(&self.stores);
        if self.is_awaited.load(Ordering::Relaxed) { Box::pin(std::future::ready(wait(answer))) } else { answer }
    }
}

struct AwayScene<D> {
    server: Server,
    is_awaited: Arc<AtomicBool>,
    stores: Stores,
    database: D,
}

/// A server of databases, and the way to it.
struct Behind {
    proxy: Proxy,
    _databases: Box<dyn Any>,
}

impl AwayScene<Behind> {
    /// Returns a server whose database is a PostgreSQL behind a proxy; `None` if that is to be left
    /// out here.
    fn on_postgres() -> Option<AwayScene<Behind>> {
        if rookery_needs::skips("behaviour.postgres") {
            return None;
        }
        let cluster = Postgres::start();
        let proxy = Proxy::start(&cluster.socket());
        let address = cluster.address_by(&proxy, name_of(&cluster.database()));
        let stores = stores_in_postgres(&address);
        Some(AwayScene::over(stores, Behind { proxy, _databases: Box::new(cluster) }))
    }

    /// Returns one whose database is a MariaDB.
    fn on_mariadb() -> Option<AwayScene<Behind>> {
        if rookery_needs::skips("behaviour.mariadb") {
            return None;
        }
        let server = Mariadb::start();
        let proxy = Proxy::start(&server.socket());
        let address = server.address_by(&proxy, name_of(&server.database()));
        Some(AwayScene::over(stores_in_mariadb(&address), Behind { proxy, _databases: Box::new(server) }))
    }

    fn take_away(&self) {
        self.database.proxy.refuse(true);
        self.database.proxy.cut_all();
    }
}

impl<D> AwayScene<D> {
    /// Returns a server over a database's stores.
    fn over(stores: Stores, database: D) -> AwayScene<D> {
        let is_awaited = Arc::new(AtomicBool::new(true));
        let awaited = AwaitedStores { stores: stores.clone(), is_awaited: is_awaited.clone() };
        let stores_of_server = Stores::of(Arc::new(awaited));
        let server = Server::with(Config { stores: stores_of_server, shards: 2, ..Config::default() });
        AwayScene { server, is_awaited, stores, database }
    }

    /// Stops the test's own waits for the stores: from now on only requests that need the database
    /// wait.
    fn let_go(&self) {
        self.server.settle();
        self.is_awaited.store(false, Ordering::Relaxed);
    }

    /// Lets the server work until something has come about, on its clock as on ours.
    fn until(&self, mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            thread::sleep(Duration::from_millis(20));
            self.server.advance(20);
        }
    }

    /// Returns the bodies in an archive, oldest first.
    fn archived_bodies(&self, owner: &str) -> Vec<String> {
        let query = ArchiveQuery { limit: 500, max_bytes: 1 << 20, ..ArchiveQuery::default() };
        let page = wait(self.stores.archive.page(self.server.address(owner).as_ref(), query)).expect("a page");
        let stanzas = page.expect("an archive").messages.into_iter();
        let body =
            |stanza: &[u8]| element(&String::from_utf8_lossy(stanza)).child("body", ns::CLIENT).map(|body| body.text());
        stanzas.filter_map(|(_, stanza)| body(&stanza)).map(|body| body.to_string()).collect()
    }
}

/// Returns the stores in a PostgreSQL.
fn stores_in_postgres(address: &str) -> Stores {
    let address = postgres::PostgresAddress::parse(address).expect("an address");
    let options =
        postgres::PostgresOptions { trusts_durability: true, connections: 2, ..postgres::PostgresOptions::at(address) };
    Stores::of(Arc::new(postgres::open(&options).expect("a database")))
}

/// Returns the stores in a MariaDB.
fn stores_in_mariadb(address: &str) -> Stores {
    let address = mysql::MysqlAddress::parse(address).expect("an address");
    let options = mysql::MysqlOptions { trusts_durability: true, connections: 2, ..mysql::MysqlOptions::at(address) };
    Stores::of(Arc::new(mysql::open(&options).expect("a database")))
}

fn name_of(address: &str) -> &str {
    address.rsplit('/').next().expect("a name")
}

fn send(from: &mut Client, to: &str, body: &str) {
    from.send(&format!("<message type='chat' to='{to}'><body>{body}</body></message>"));
}

#[test]
fn chat_goes_on_while_postgres_is_away() {
    AwayScene::on_postgres().into_iter().for_each(chat_goes_on_while_the_database_is_away);
}

#[test]
fn chat_goes_on_while_mariadb_is_away() {
    AwayScene::on_mariadb().into_iter().for_each(chat_goes_on_while_the_database_is_away);
}

fn chat_goes_on_while_the_database_is_away(scene: AwayScene<Behind>) {
    let (mut romeo, mut juliet) = (scene.server.online("romeo/orchard"), scene.server.online("juliet/balcony"));
    befriend(&mut romeo, &mut juliet);
    scene.let_go();
    scene.take_away();
    let mut bodies = Vec::new();
    for number in 0..50 {
        let body = format!("word {number}");
        send(&mut romeo, "juliet@example.org", &body);
        scene.server.settle();
        assert_eq!(juliet.bodies(), std::slice::from_ref(&body), "without the database");
        bodies.push(body);
    }
    // Requests that need the database are refused in time.
    romeo.send("<iq type='get' id='card'><vCard xmlns='vcard-temp'/></iq>");
    send(&mut romeo, "nobody@example.org", "who is not there");
    let mut late = scene.server.connect();
    late.open("example.org");
    late.send(&sasl("auth", Some(rookery_sasl::Mechanism::Plain), format!("\0juliet\0{PASSWORD}").as_bytes()));
    let (mut refused, mut login) = (Vec::new(), Vec::new());
    scene.until(|| {
        refused.extend(romeo.all());
        login.extend(late.all());
        refused.len() >= 2 && !login.is_empty()
    });
    for refused in &refused {
        let error = refused.child("error", ns::CLIENT).unwrap_or_else(|| panic!("{refused:?}"));
        assert_eq!(error.attr("type"), Some("wait"), "{refused:?}");
    }
    assert!(login[0].child("temporary-auth-failure", ns::SASL).is_some(), "{login:?}");
    // Nobody was disconnected, and all comes into the archives, once.
    assert_eq!(scene.server.sessions(), 2);
    scene.database.proxy.refuse(false);
    scene.until(|| scene.stores.meta.trouble().is_none());
    scene.until(|| {
        scene.archived_bodies("juliet").len() >= bodies.len() && scene.archived_bodies("romeo").len() >= bodies.len()
    });
    scene.until(|| scene.server.tasks() == 0);
    assert_eq!(scene.archived_bodies("juliet"), bodies);
    // He has sent it, whatever became of it.
    bodies.push("who is not there".to_owned());
    assert_eq!(scene.archived_bodies("romeo"), bodies);
    for client in [&mut romeo, &mut juliet] {
        client.expect_alive();
    }
}

#[test]
fn chat_goes_on_while_a_standby_of_postgres_takes_over() {
    if !rookery_needs::skips("behaviour.postgres") {
        chat_goes_on_while_a_standby_takes_over(Pair::<Postgres>::start(), stores_in_postgres);
    }
}

#[test]
fn chat_goes_on_while_a_standby_of_mariadb_takes_over() {
    if !rookery_needs::skips("behaviour.mariadb") {
        chat_goes_on_while_a_standby_takes_over(Pair::<Mariadb>::start(), stores_in_mariadb);
    }
}

fn chat_goes_on_while_a_standby_takes_over<D: Followed>(pair: Pair<D>, stores_at: fn(&str) -> Stores) {
    let mut scene = AwayScene::over(stores_at(&pair.database()), pair);
    let (mut romeo, mut juliet) = (scene.server.online("romeo/orchard"), scene.server.online("juliet/balcony"));
    befriend(&mut romeo, &mut juliet);
    scene.let_go();
    let mut bodies = Vec::new();
    for round in 0..2 {
        let mut chat = |scene: &AwayScene<Pair<D>>, when: &str| {
            for number in 0..20 {
                let body = format!("{when} of round {round}, word {number}");
                send(&mut romeo, "juliet@example.org", &body);
                scene.server.settle();
                assert_eq!(juliet.bodies(), std::slice::from_ref(&body), "whatever becomes of the database");
                bodies.push(body);
            }
        };
        chat(&scene, "before the death");
        scene.database.kill();
        chat(&scene, "after the death");
        scene.until(|| scene.stores.meta.trouble().is_some());
        scene.database.promote();
        scene.until(|| scene.stores.meta.trouble().is_none());
        chat(&scene, "in a new life");
        scene.database.replace();
    }
    assert_eq!(scene.server.sessions(), 2, "nobody was disconnected");
    scene.until(|| ["romeo", "juliet"].iter().all(|owner| scene.archived_bodies(owner).len() >= bodies.len()));
    scene.until(|| scene.server.tasks() == 0);
    for owner in ["romeo", "juliet"] {
        assert_eq!(scene.archived_bodies(owner), bodies, "once, and in order");
    }
    for client in [&mut romeo, &mut juliet] {
        client.expect_alive();
    }
}

#[test]
fn a_thousand_who_come_back_with_postgres_are_all_let_in() {
    AwayScene::on_postgres().into_iter().for_each(a_thousand_who_come_back_with_the_database_are_all_let_in);
}

#[test]
fn a_thousand_who_come_back_with_mariadb_are_all_let_in() {
    AwayScene::on_mariadb().into_iter().for_each(a_thousand_who_come_back_with_the_database_are_all_let_in);
}

fn a_thousand_who_come_back_with_the_database_are_all_let_in(scene: AwayScene<Behind>) {
    let clients = (0..1000).map(|number| {
        let account = scene.server.account(&format!("user{number}"));
        let address = std::net::Ipv4Addr::new(198, 51, (number / 250) as u8, (number % 250) as u8);
        let mut client = scene.server.connect_from(address.into());
        client.open("example.org");
        (account, client)
    });
    let mut clients: Vec<_> = clients.collect();
    scene.let_go();
    scene.take_away();
    for (account, client) in &mut clients {
        let name = account.local().expect("a name");
        client.send(&sasl("auth", Some(rookery_sasl::Mechanism::Plain), format!("\0{name}\0{PASSWORD}").as_bytes()));
    }
    scene.server.settle();
    let most = scene.stores.meta.logins_at_once();
    assert!(most < 1000 && scene.server.tasks() <= most, "{} ask the database, {most} may", scene.server.tasks());
    scene.database.proxy.refuse(false);
    let mut answers = Vec::new();
    scene.until(|| {
        answers.extend(clients.iter_mut().flat_map(|(_, client)| client.all()));
        answers.len() == 1000
    });
    assert!(answers.iter().all(|answer| answer.name() == "success"), "{answers:?}");
}
