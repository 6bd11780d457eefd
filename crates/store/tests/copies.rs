//! Tests that a copy whose connections are lost continues with new ones, and ends with equal sides:
//! nothing is lost or duplicated.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;

use engines::EngineServer;
use rookery_jid::Jid;
use rookery_needs::{Proxy, ProxyDirection};
use rookery_sasl::Credentials;
use rookery_store::sql::copy::{self, Compared, CopyEnd, CopyPhase, EndAddress, Progress};
use rookery_store::{ArchiveOf, ArchivedMessage, Edit, EditRoster, OfflineRoom, RosterItem, Stores, sqlite, wait};
use std::collections::HashSet;
use std::sync::Arc;
use tempfile::TempDir;

engines::tests!(
    a_copy_survives_cuts_of_its_destination,
    a_copy_survives_cuts_of_its_source,
    a_copy_of_what_changes_while_it_is_cut_is_of_one_moment,
    a_comparison_survives_cuts_of_both_sides,
    a_copy_outlasts_a_server_that_is_away_for_a_while,
);

fn a_copy_survives_cuts_of_its_destination<S: EngineServer>() {
    let Some(rig) = CopiesRig::<S>::start() else { return };
    let from = rig.filled_file();
    for (direction, bytes) in CUTS {
        let (there, by_proxy) = rig.database();
        let mut cuts = Cuts::new(&rig.proxy, direction, bytes);
        let copied = copy_between(&from, &by_proxy, &mut |at| cuts.at(at));
        expect_same(&copied);
        cuts.expect_many();
        expect_same(&compare(&from, &there));
    }
}

fn a_copy_survives_cuts_of_its_source<S: EngineServer>() {
    let Some(rig) = CopiesRig::<S>::start() else { return };
    let (there, by_proxy) = rig.database();
    expect_same(&copy_between(&rig.filled_file(), &there, &mut |_| ()));
    for (direction, bytes) in CUTS {
        let to = EndAddress::Sqlite(rig.folder.path().join(format!("{direction:?}-{bytes}.db")));
        let mut cuts = Cuts::new(&rig.proxy, direction, bytes);
        let copied = copy_between(&by_proxy, &to, &mut |at| cuts.at(at));
        expect_same(&copied);
        cuts.expect_many();
        expect_same(&compare(&there, &to));
    }
}

/// After each cut the source is read as of another moment: copied accounts are gone, others have
/// been created with their data, and some have changed.
fn a_copy_of_what_changes_while_it_is_cut_is_of_one_moment<S: EngineServer>() {
    let Some(rig) = CopiesRig::<S>::start() else { return };
    let (there, by_proxy) = rig.database();
    expect_same(&copy_between(&rig.filled_file(), &there, &mut |_| ()));
    let stores = stores(&there);
    let to = EndAddress::Sqlite(rig.folder.path().join("copy.db"));
    let mut cuts = Cuts::new(&rig.proxy, ProxyDirection::Answered, 1);
    let mut changes = 0;
    let copied = copy_between(&by_proxy, &to, &mut |at| {
        if cuts.at(at) {
            changes += 1;
            change(&stores, changes);
        }
    });
    expect_same(&copied);
    cuts.expect_many();
    expect_same(&compare(&there, &to));
}

fn a_comparison_survives_cuts_of_both_sides<S: EngineServer>() {
    let Some(rig) = CopiesRig::<S>::start() else { return };
    let (from, to) = (rig.filled_file(), rig.database());
    expect_same(&copy_between(&from, &to.0, &mut |_| ()));
    for (direction, bytes) in CUTS {
        for [one, other] in [[&from, &to.1], [&to.1, &from], [&to.1, &to.1]] {
            let mut cuts = Cuts::new(&rig.proxy, direction, bytes);
            let mut ends = [one, other].map(|address| CopyEnd::source(address).expect("an end"));
            let [one, other] = &mut ends;
            let mut tell = |at| {
                cuts.at(at);
            };
            expect_same(&copy::compare(one, other, &mut tell).expect("compared"));
            cuts.expect_many();
        }
    }
}

fn a_copy_outlasts_a_server_that_is_away_for_a_while<S: EngineServer>() {
    let Some(rig) = CopiesRig::<S>::start() else { return };
    let from = rig.filled_file();
    let (there, by_proxy) = rig.database();
    let mut is_away = false;
    std::thread::scope(|scope| {
        let copied = copy_between(&from, &by_proxy, &mut |at| {
            if at.table == "archive_messages" && !std::mem::replace(&mut is_away, true) {
                rig.proxy.refuse(true);
                rig.proxy.cut_all();
                scope.spawn(|| {
                    rig.proxy.expect_refused(3);
                    rig.proxy.refuse(false);
                });
            }
        });
        expect_same(&copied);
    });
    assert!(is_away);
    expect_same(&compare(&from, &there));
}

fn copy_between<T>(from: &EndAddress, to: &EndAddress, progress: &mut dyn FnMut(Progress) -> T) -> Vec<Compared> {
    let (mut from, mut to) =
        (CopyEnd::source(from).expect("a source"), CopyEnd::destination(to).expect("a destination"));
    let mut tell = |at| {
        progress(at);
    };
    copy::copy(&mut from, &mut to, &mut tell).expect("copied")
}

fn compare(from: &EndAddress, to: &EndAddress) -> Vec<Compared> {
    let (mut from, mut to) = (CopyEnd::source(from).expect("a source"), CopyEnd::source(to).expect("a destination"));
    copy::compare(&mut from, &mut to, &mut |_| ()).expect("compared")
}

fn expect_same(compared: &[Compared]) {
    assert!(compared.iter().all(Compared::is_same), "{compared:?}");
    let rows = |name| compared.iter().find(|table| table.table == name).map(|table| table.to.0);
    assert!(rows("archive_messages") > Some(MESSAGES / 2) && rows("counters") == Some(1), "{compared:?}");
}

/// Cuts of a connection, one in each table of each phase.
struct Cuts<'a> {
    proxy: &'a Proxy,
    direction: ProxyDirection,
    bytes: u64,
    before: u64,
    places: HashSet<(CopyPhase, &'static str)>,
}

impl Cuts<'_> {
    fn new(proxy: &Proxy, direction: ProxyDirection, bytes: u64) -> Cuts<'_> {
        proxy.spare();
        Cuts { proxy, direction, bytes, before: proxy.cuts(), places: HashSet::new() }
    }

    /// Requests a cut unless one was requested at this place. Returns whether it did.
    fn at(&mut self, at: Progress) -> bool {
        let is_new = self.places.insert((at.phase, at.table));
        if is_new {
            self.proxy.cut_behind(self.direction, self.bytes);
        }
        is_new
    }

    fn expect_many(&self) {
        self.proxy.spare();
        let cuts = self.proxy.cuts() - self.before;
        assert!(cuts >= 5, "{:?} {}: {cuts} cuts at {} places", self.direction, self.bytes, self.places.len());
    }
}

struct CopiesRig<S> {
    server: S,
    proxy: Proxy,
    folder: TempDir,
}

impl<S: EngineServer> CopiesRig<S> {
    fn start() -> Option<CopiesRig<S>> {
        let server = S::start()?;
        let proxy = Proxy::start(&server.socket());
        Some(CopiesRig { server, proxy, folder: tempfile::tempdir().expect("a folder") })
    }

    /// Creates a database. Returns its address, directly and through the proxy.
    fn database(&self) -> (EndAddress, EndAddress) {
        let there = self.server.database();
        let name = there.rsplit('/').next().expect("a name");
        (S::copy_address(&there), S::copy_address(&self.server.address_by(&self.proxy, name)))
    }

    fn filled_file(&self) -> EndAddress {
        let file = self.folder.path().join("filled.db");
        if !file.exists() {
            fill(&Stores::of(Arc::new(sqlite::open(&file, &sqlite::SqliteOptions::default()).expect("a file"))));
        }
        EndAddress::Sqlite(file)
    }
}

fn stores(address: &EndAddress) -> Stores {
    Stores::of(Arc::new(address.open().expect("the stores")))
}

fn fill(stores: &Stores) {
    for number in 0..ACCOUNTS {
        come(stores, &account(number));
    }
    for start in (0..MESSAGES).step_by(700) {
        let messages = (start..(start + 700).min(MESSAGES)).map(|id| message(&account(id % ACCOUNTS), id + 1));
        wait(stores.archive.append(messages.collect())).expect("kept");
    }
}

/// Creates an account with a contact, a document and an offline message.
fn come(stores: &Stores, jid: &Jid) {
    let keys = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    assert!(wait(stores.accounts.create(jid.as_ref(), keys)).expect("made"));
    put_contact(stores, jid, "somebody");
    wait(stores.documents.put(jid.as_ref(), "card", Some(vec![0, 255]))).expect("kept");
    let push = stores.offline.push(jid.as_ref(), jid.as_ref(), b"<message/>".to_vec(), 1, OfflineRoom::UNBOUNDED);
    wait(push).expect("kept");
}

fn put_contact(stores: &Stores, jid: &Jid, name: &'static str) {
    let contact = account(99);
    let item = RosterItem { name: Some(name.into()), ..RosterItem::new(contact.clone()) };
    let edit: EditRoster = Box::new(move |_, _| Edit::Put(item.clone()));
    wait(stores.rosters.change(jid.as_ref(), contact.as_ref(), edit)).expect("changed");
}

/// Changes a row that others refer to, and one without references.
fn change(stores: &Stores, change: u64) {
    wait(stores.accounts.remove(account(change).as_ref())).expect("removed");
    let new = account(1000 + change);
    come(stores, &new);
    wait(stores.archive.append([message(&new, 1)].into())).expect("kept");
    put_contact(stores, &account(0), if change.is_multiple_of(2) { "even" } else { "odd" });
    wait(stores.archive.append([message(&account(0), MESSAGES + change)].into())).expect("kept");
}

fn message(owner: &Jid, id: u64) -> ArchivedMessage {
    ArchivedMessage {
        owner: owner.clone(),
        of: ArchiveOf::Account,
        id,
        with: owner.clone(),
        contacts_only: false,
        stanza: format!("<message id='{id}'/>").into_bytes(),
        most: 0,
    }
}

fn account(number: u64) -> Jid {
    Jid::parse(&format!("user{number}@a.example")).expect("an address")
}

/// The places where a connection is cut, counted from the beginning of the work on a table: in
/// requests and answers, among rows, and in the greeting of the next connection.
const CUTS: [(ProxyDirection, u64); 5] = [
    (ProxyDirection::Asked, 1),
    (ProxyDirection::Asked, 67),
    (ProxyDirection::Asked, 301),
    (ProxyDirection::Answered, 1),
    (ProxyDirection::Answered, 1009),
];

const ACCOUNTS: u64 = 60;

/// More than two portions.
const MESSAGES: u64 = 2500;
