use std::sync::{Arc, Mutex};

use rookery_base::wait;
use rookery_store::Pending;
use rookery_store::memory::Memory;

use super::*;

/// A fence that records the calls.
#[derive(Default)]
struct NotedMembers(Mutex<Vec<String>>);

impl Fencing for NotedMembers {
    fn enlist(&self, own: ProcessWriter) -> Pending<()> {
        self.0.lock().unwrap().push(format!("enlist {own}"));
        Box::pin(async { Ok(()) })
    }

    fn fence(&self, other: ProcessWriter) -> Pending<bool> {
        self.0.lock().unwrap().push(format!("fence {other}"));
        Box::pin(async { Ok(true) })
    }

    fn when_fenced(&self, _: Box<dyn FnOnce() + Send>) {}
}

impl NotedMembers {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn names(meta: &dyn Meta) -> Vec<String> {
    wait(all(meta)).unwrap().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn nodes_keep_their_numbers_and_processes_get_new_ones() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let meta = &*stores.meta;
    let joined = |name: &str| wait(join(meta, &noted, name, JoiningMember::of_shards(2))).unwrap().row;
    let numbers = |row: MemberRow| (row.number, row.incarnation);
    assert_eq!(["n1", "n2", "n1"].map(joined).map(numbers), [(1, 1), (2, 1), (1, 2)]);
    assert_eq!(noted.take(), ["enlist 1.1", "enlist 2.1", "fence 1.1", "enlist 1.2"]);
    assert!(wait(remove(meta, &noted, "n1")).unwrap());
    assert_eq!(numbers(joined("n3")), (3, 1));
    assert_eq!(numbers(joined("n1")), (1, 3), "it has its number again, and none of its processes");
    assert_eq!(noted.take(), ["fence 1.2", "enlist 3.1", "fence 1.2", "enlist 1.3"]);
}

#[test]
fn a_process_knows_whether_others_have_had_the_homes_of_the_one_before_it() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let meta = &*stores.meta;
    let is_newcomer = || wait(join(meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap().is_newcomer;
    assert!(is_newcomer(), "there was none");
    assert!(!is_newcomer(), "it is back before others take over");
    assert!(wait(remove(meta, &noted, "n1")).unwrap());
    assert!(is_newcomer());
}

/// Nothing removes the journal of a process whose homes others have had.
#[test]
fn a_row_keeps_from_which_process_on_journals_count() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let meta = &*stores.meta;
    let joined = || wait(join(meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap().row.journals_from;
    assert_eq!((joined(), joined()), (1, 1));
    assert!(wait(remove(meta, &noted, "n1")).unwrap());
    assert_eq!((joined(), joined()), (3, 3), "the third one may have ended while it joined");
    let found = wait(all(meta)).unwrap();
    assert_eq!(found.iter().map(|(_, row)| row.journals_from).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_node_that_leaves_says_so_until_it_starts_again() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let meta = &*stores.meta;
    let row = wait(join(
        meta,
        &noted,
        "n1",
        JoiningMember { public_host: Some("n1.example".into()), ..JoiningMember::of_shards(2) },
    ))
    .unwrap()
    .row;
    assert!(!row.leaves && !wait(leave(meta, "n2")).unwrap());
    assert!(wait(leave(meta, "n1")).unwrap());
    let leaving = MemberRow { leaves: true, ..row.clone() };
    assert_eq!(wait(all(meta)).unwrap(), [("n1".to_owned(), leaving)]);
    assert!(!wait(join(meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap().row.leaves);
    assert!(!wait(withdraw(meta, NodeProcess { node: 1, incarnation: 1 })).unwrap(), "that is another process");
    assert!(wait(withdraw(meta, NodeProcess { node: 1, incarnation: 2 })).unwrap());
    assert_eq!(names(meta), [""; 0]);
}

/// The previous version wrote rows without the mark, and reads them without it.
#[test]
fn a_row_of_an_earlier_version_is_one_that_stays() {
    let row = MemberRow {
        number: 3,
        incarnation: 7,
        shards: 2,
        public_host: None,
        leaves: true,
        letters: LetterVersions::default(),
        notes: MemberNotes::default(),
        journals_from: 0,
    };
    let bytes = row.bytes().unwrap();
    let (earlier, mark) = bytes.split_at(bytes.len() - 3 - NO_NOTES);
    assert_eq!((MemberRow::read(&bytes), &mark[..3]), (Some(row.clone()), &[1, 1, 1][..]));
    assert_eq!(MemberRow::read(earlier), Some(MemberRow { leaves: false, ..row }));
}

#[test]
fn a_row_says_which_letters_its_process_understands() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let row = wait(join(&*stores.meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap().row;
    assert_eq!((row.letters, row.letters.newest), (LetterVersions::OWN, LETTERS));
    let bytes = row.bytes().unwrap();
    let later: Vec<u8> = bytes.iter().copied().chain([9, 9]).collect();
    assert_eq!((MemberRow::read(&bytes), MemberRow::read(&later)), (Some(row.clone()), Some(row.clone())));
    // 0.2.0 wrote nothing after the mark.
    let without = MemberRow::read(&bytes[..bytes.len() - 2 - NO_NOTES]).unwrap();
    assert_eq!(without.letters, LetterVersions { oldest: 1, newest: 1 });
    let shown = |oldest, newest| LetterVersions { oldest, newest }.to_string();
    assert_eq!([shown(1, 1), shown(1, 2)], ["1", "1–2"]);
}

#[test]
fn a_row_states_the_surroundings_of_its_process_behind_all_that_earlier_versions_read() {
    let stores = Memory::stores();
    let settings = AgreedSettings::of(["a.example"], [("limits", "depth 20")]);
    let notes = MemberNotes { mark: Some(7), settings };
    let joining = JoiningMember { notes: notes.clone(), ..JoiningMember::of_shards(2) };
    let row = wait(join(&*stores.meta, &NotedMembers::default(), "n1", joining)).unwrap().row;
    assert_eq!(wait(all(&*stores.meta)).unwrap(), [("n1".to_owned(), row.clone())]);
    let earlier = MemberRow { notes: MemberNotes::default(), journals_from: 0, ..row.clone() };
    let (bytes, fewer) = (row.bytes().unwrap(), earlier.bytes().unwrap());
    let common = fewer.len() - NO_NOTES;
    assert_eq!(bytes[..common], fewer[..common], "earlier versions read the same");
    assert_eq!(MemberRow::read(&fewer[..common]), Some(earlier));
}

/// The bytes of notes that say nothing, and of the first processes' number.
const NO_NOTES: usize = 4;

#[test]
fn a_process_states_its_settings_again_when_they_have_changed() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let meta = &*stores.meta;
    let row = wait(join(meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap().row;
    let settings = AgreedSettings::of(["a.example"], []);
    let process = NodeProcess { node: 1, incarnation: 1 };
    assert!(wait(settle(meta, process, &settings)).unwrap());
    let notes = MemberNotes { settings: settings.clone(), ..row.notes.clone() };
    assert_eq!(wait(all(meta)).unwrap(), [("n1".to_owned(), MemberRow { notes, ..row })]);
    assert!(!wait(settle(meta, NodeProcess { incarnation: 2, ..process }, &settings)).unwrap());
}

#[test]
fn versions_fit_that_have_one_in_common() {
    let versions = |oldest, newest| LetterVersions { oldest, newest };
    for (one, other, fits) in
        [((1, 2), (2, 4), true), ((1, 2), (3, 4), false), ((1, 1), (1, 2), true), ((5, 6), (1, 4), false)]
    {
        let (one, other) = (versions(one.0, one.1), versions(other.0, other.1));
        assert_eq!((one.fits(other), other.fits(one)), (fits, fits), "{one} and {other}");
    }
}

#[test]
fn a_process_that_ended_while_it_joined_hinders_no_other() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let meta = &*stores.meta;
    wait(join(meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap();
    wait(meta.add_entry(PROCESSES, "1.2", b"n1".to_vec(), MOST)).unwrap();
    noted.take();
    let row = wait(join(meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap().row;
    assert_eq!((row.number, row.incarnation), (1, 3));
    assert_eq!(noted.take(), ["fence 1.1", "fence 1.2", "enlist 1.3"]);
    assert_eq!(wait(processes(meta, 1)).unwrap(), [3].into());
}

/// A database that runs an action once, between reading the rows and acting on them.
struct Between<F>(Arc<dyn Meta>, Mutex<Option<F>>);

impl<F: FnOnce(&dyn Meta) + Send> Meta for Between<F> {
    fn get(&self, key: &str) -> Pending<Option<Vec<u8>>> {
        self.0.get(key)
    }

    fn put(&self, key: &str, bytes: Vec<u8>) -> Pending<()> {
        self.0.put(key, bytes)
    }

    fn entries(&self, list: &str) -> Pending<Vec<(String, Vec<u8>)>> {
        let entries = self.0.entries(list);
        if let Some(work) = self.1.lock().unwrap().take_if(|_| list == NODES) {
            work(&*self.0);
        }
        entries
    }

    fn put_entry(&self, list: &str, name: &str, bytes: Vec<u8>) -> Pending<()> {
        self.0.put_entry(list, name, bytes)
    }

    fn add_entry(&self, list: &str, name: &str, bytes: Vec<u8>, most: usize) -> Pending<Added> {
        self.0.add_entry(list, name, bytes, most)
    }

    fn remove_entry(&self, list: &str, name: &str) -> Pending<bool> {
        self.0.remove_entry(list, name)
    }

    fn replace_entry(&self, list: &str, name: &str, before: Vec<u8>, after: Option<Vec<u8>>) -> Pending<bool> {
        self.0.replace_entry(list, name, before, after)
    }

    fn set_entries(&self, list: &str, entries: Vec<(String, Vec<u8>)>) -> Pending<()> {
        self.0.set_entries(list, entries)
    }
}

fn between(meta: &Arc<dyn Meta>, work: impl FnOnce(&dyn Meta) + Send) -> impl Meta {
    Between(meta.clone(), Mutex::new(Some(work)))
}

#[test]
fn a_row_of_the_next_process_stays_when_the_last_is_taken_over_from() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    wait(join(&*stores.meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap();
    let meta = between(&stores.meta, |meta| {
        wait(join(meta, &NotedMembers::default(), "n1", JoiningMember::of_shards(2))).unwrap();
    });
    assert!(!wait(take_over(&meta, &noted, NodeProcess { node: 1, incarnation: 1 })).unwrap());
    let rows = wait(all(&*stores.meta)).unwrap();
    assert_eq!(rows.iter().map(|(_, row)| row.incarnation).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_process_that_is_slow_to_join_leaves_the_row_of_a_later_one_alone() {
    let stores = Memory::stores();
    wait(join(&*stores.meta, &NotedMembers::default(), "n1", JoiningMember::of_shards(2))).unwrap();
    let late = MemberRow { incarnation: 2, ..wait(all(&*stores.meta)).unwrap().remove(0).1 };
    wait(stores.meta.add_entry(PROCESSES, "1.2", b"n1".to_vec(), MOST)).unwrap();
    let meta = between(&stores.meta, |meta| {
        assert_eq!(
            wait(join(meta, &NotedMembers::default(), "n1", JoiningMember::of_shards(2))).unwrap().row.incarnation,
            3
        );
    });
    assert!(matches!(wait(write(&meta, "n1", late)), Err(NotJoined::Taken)));
    let rows = wait(all(&*stores.meta)).unwrap();
    assert_eq!(rows.iter().map(|(_, row)| row.incarnation).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_process_joins_although_the_row_before_it_is_removed_meanwhile() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let meta = &*stores.meta;
    let first = wait(join(meta, &noted, "n1", JoiningMember::of_shards(2))).unwrap().row;
    let next = MemberRow { incarnation: 2, ..first };
    let slow = between(&stores.meta, |meta| {
        assert!(wait(take_over(meta, &NotedMembers::default(), NodeProcess { node: 1, incarnation: 1 })).unwrap());
    });
    let written = wait(write(&slow, "n1", next)).unwrap();
    assert_eq!(written.journals_from, 2, "others have the homes of the first one");
    assert_eq!(wait(all(meta)).unwrap(), [("n1".to_owned(), written)]);
}

#[test]
fn a_process_is_fenced_off_before_others_have_its_homes() {
    let (stores, noted) = (Memory::stores(), NotedMembers::default());
    let meta = &*stores.meta;
    for name in ["n1", "n2", "n1"] {
        wait(join(meta, &noted, name, JoiningMember::of_shards(2))).unwrap();
    }
    noted.take();
    let over = |node, incarnation| wait(take_over(meta, &noted, NodeProcess { node, incarnation })).unwrap();
    assert!(!over(1, 1), "it has a successor, which keeps its homes");
    assert_eq!(names(meta), ["n1", "n2"]);
    assert!(over(1, 2));
    assert!(!over(1, 2), "another node was faster");
    assert_eq!(names(meta), ["n2"]);
    assert_eq!(noted.take(), ["fence 1.1", "fence 1.2", "fence 1.2"]);
    assert!(!wait(remove(meta, &noted, "n7")).unwrap());
}
