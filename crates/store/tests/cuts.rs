//! Tests that a database connection that is cut after any byte loses no acknowledged write, and
//! repeats none.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;

use engines::EngineServer;
use rookery_jid::Jid;
use rookery_needs::{Mariadb, Postgres, Proxy, ProxyDirection};
use rookery_sasl::Credentials;
use rookery_store::{ArchiveOf, ArchiveQuery, ArchivedMessage, OfflineRoom, Pending, Stores, sql::SqlStore, wait};
use std::collections::HashMap;
use std::sync::Arc;

#[test]
fn wherever_a_connection_is_cut_all_is_done_once() {
    cut_everywhere::<Postgres>();
}

#[test]
fn wherever_a_connection_to_mariadb_is_cut_all_is_done_once() {
    cut_everywhere::<Mariadb>();
}

#[test]
fn a_connection_that_is_cut_while_it_comes_back_does_nothing_twice() {
    cut_twice::<Postgres>();
}

#[test]
fn a_connection_to_mariadb_that_is_cut_while_it_comes_back_does_nothing_twice() {
    cut_twice::<Mariadb>();
}

/// Cuts the traffic of a few operations after each of its bytes, one after the other.
fn cut_everywhere<S: EngineServer>() {
    let Some(rig) = CutsRig::<S>::start(1) else { return };
    let mut round = 0;
    // Statements are prepared the first time.
    rig.work(round);
    for direction in [ProxyDirection::Asked, ProxyDirection::Answered] {
        let mut bytes = 0;
        loop {
            round += 1;
            bytes += 1;
            rig.proxy.cut_behind(direction, bytes);
            rig.work(round);
            if rig.proxy.spare() {
                break;
            }
        }
        assert!(bytes > 100, "{direction:?}: all of {bytes} bytes were tried");
    }
    rig.check(round + 1);
}

/// Cuts the traffic in this way, and a second time while the first cut is being handled: in the
/// greeting, in the query whether it was committed, in the repeated operations.
fn cut_twice<S: EngineServer>() {
    let Some(rig) = CutsRig::<S>::start(1) else { return };
    let mut round = 0;
    rig.work(round);
    for direction in [ProxyDirection::Asked, ProxyDirection::Answered] {
        let mut bytes = 1;
        loop {
            round += 1;
            rig.proxy.cut_all();
            rig.proxy.cut_behind(direction, bytes);
            rig.work(round);
            if rig.proxy.spare() {
                break;
            }
            // A prime number, so that all places are reached in the end.
            bytes += 13;
        }
    }
    rig.check(round + 1);
}

struct CutsRig<S> {
    proxy: Proxy,
    /// Through the proxy.
    stores: Stores,
    store: Arc<SqlStore>,
    /// Without the proxy.
    direct: Stores,
    _server: S,
}

impl<S: EngineServer> CutsRig<S> {
    fn start(connections: usize) -> Option<CutsRig<S>> {
        let server = S::start()?;
        let database = server.database();
        let proxy = Proxy::start(&server.socket());
        let name = database.rsplit('/').next().expect("a name");
        let direct = Stores::of(Arc::new(S::open(&database, connections)));
        let store = Arc::new(S::open(&server.address_by(&proxy, name), connections));
        let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
        wait(direct.accounts.create(romeo().as_ref(), credentials)).expect("an account");
        Some(CutsRig { proxy, stores: Stores::of(store.clone()), store, direct, _server: server })
    }

    /// Writes the data of a round, in one batch or several, and expects all of it to be
    /// acknowledged, since the database can be reached again at once.
    fn work(&self, round: u64) {
        let (stores, romeo) = (&self.stores, romeo());
        let stanza = |part: u64| format!("{round}/{part}").into_bytes();
        let push = |part| stores.offline.push(romeo.as_ref(), romeo.as_ref(), stanza(part), 1, OfflineRoom::UNBOUNDED);
        let pushed: Vec<Pending<_>> = (0..PARTS).map(push).collect();
        let put = stores.documents.put(romeo.as_ref(), "round", Some(stanza(0)));
        let counted = stores.offline.count(romeo.as_ref());
        for pushed in pushed {
            wait(pushed).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        wait(put).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(wait(counted), Ok((round + 1) * PARTS), "round {round}: each is seen once");
        let message = ArchivedMessage {
            owner: romeo.clone(),
            of: ArchiveOf::Account,
            id: round + 1,
            with: romeo.clone(),
            contacts_only: false,
            stanza: stanza(0),
            most: 0,
        };
        wait(stores.archive.append([message].into())).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }

    /// Checks without the proxy that the data of all of these rounds is there once.
    fn check(&self, rounds: u64) {
        assert!(self.store.statements() > 0 && self.proxy.cuts() >= rounds / 2, "{} cuts", self.proxy.cuts());
        let (mut found, mut after) = (HashMap::<Vec<u8>, u64>::new(), 0);
        loop {
            let page = wait(self.direct.offline.load(romeo().as_ref(), after, usize::MAX)).expect("a page");
            let Some(last) = page.last() else { break };
            after = last.id;
            page.into_iter().for_each(|message| *found.entry(message.stanza).or_default() += 1);
        }
        for (round, part) in (0..rounds).flat_map(|round| (0..PARTS).map(move |part| (round, part))) {
            let times = found.remove(format!("{round}/{part}").as_bytes());
            assert_eq!(times, Some(1), "part {part} of round {round}");
        }
        assert!(found.is_empty(), "{found:?}");
        let (mut archived, mut after) = (0, 0);
        loop {
            let query = ArchiveQuery { after, limit: 500, max_bytes: 1 << 20, ..ArchiveQuery::default() };
            let page = wait(self.direct.archive.page(romeo().as_ref(), query)).expect("a page").expect("an archive");
            archived += page.messages.len() as u64;
            after = page.messages.last().map_or(after, |(id, _)| *id);
            if !page.more {
                break;
            }
        }
        assert_eq!(archived, rounds, "an archived message of each round");
        println!("{rounds} rounds, {} cuts, {:?}", self.proxy.cuts(), rookery_store::Meta::activity(&*self.store));
    }
}

fn romeo() -> Jid {
    Jid::parse("romeo@a.example").expect("an address")
}

/// The messages of a round.
const PARTS: u64 = 3;
