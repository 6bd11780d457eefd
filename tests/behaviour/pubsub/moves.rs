//! Nodes of accounts whose home moves to another node of a cluster.

use rookery_testkit::{Config, befriend};

use super::pep::{TUNE, wants};
use super::*;

#[test]
fn contacts_get_the_last_items_of_an_account_whose_home_has_moved() {
    let server = Server::with(Config { shards: 2, nodes: 2, ..Config::default() });
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::on(server);
    befriend(&mut hamlet, &mut francisco);
    // Each node looks up which of the contacts have items: none so far.
    wants(&mut hamlet, &[TUNE]);
    hamlet.all();
    francisco.all();
    let from = francisco.bare().to_owned();
    set(&mut francisco, "", &publish(TUNE, "a"));
    hamlet.expect(&notification(&from, TUNE, "a"));
    server.remove(1);
    francisco.expect_stream_error("system-shutdown");
    let name = hamlet.bare().split('@').next().expect("a name").to_owned();
    let mut phone = server.login(&format!("{name}/phone"));
    let (presence, ..) = pep::caps(&[TUNE]);
    phone.send(&presence);
    let told: Vec<String> = phone.all().iter().map(xml).collect();
    assert!(told.iter().any(|text| text.contains("id='a'") && text.contains(&from)), "{told:?}");
}
