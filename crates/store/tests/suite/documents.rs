//! [`Documents`](rookery_store::Documents).

use super::samples::*;
use rookery_store::{DocumentRoom, DocumentsPut, StoreError, StoredDocument, Stores, wait};

pub fn the_last_one_of_a_name_counts(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    assert_eq!(finish(stores.documents.get(owner.as_ref(), "vcard")), None);
    finish(stores.documents.put(owner.as_ref(), "vcard", Some(b"first".to_vec())));
    finish(stores.documents.put(owner.as_ref(), "vcard", Some(b"second".to_vec())));
    finish(stores.documents.put(owner.as_ref(), "Vcard", Some(b"".to_vec())));
    assert_eq!(finish(stores.documents.get(owner.as_ref(), "vcard")), Some(b"second".to_vec()));
    assert_eq!(finish(stores.documents.get(owner.as_ref(), "Vcard")), Some(b"".to_vec()));
    finish(stores.documents.put(owner.as_ref(), "vcard", None));
    finish(stores.documents.put(owner.as_ref(), "vcard", None));
    assert_eq!(finish(stores.documents.get(owner.as_ref(), "vcard")), None);
}

pub fn documents_are_found_by_prefix(stores: &Stores) {
    let (owner, other) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    for name in ["b/2", "b/\u{10ffff}", "a", "b/1", "b", "c", "B/1", "b0"] {
        finish(stores.documents.put(owner.as_ref(), name, Some(name.into())));
    }
    finish(stores.documents.put(other.as_ref(), "b/other", Some(vec![])));
    let names = |prefix| {
        let found = finish(stores.documents.starting(owner.as_ref(), prefix));
        assert!(found.iter().all(|StoredDocument { name, bytes }| name.as_bytes() == bytes));
        found.into_iter().map(|document| document.name).collect::<Vec<_>>()
    };
    assert_eq!(names("b/"), ["b/1", "b/2", "b/\u{10ffff}"]);
    assert_eq!(names("")[..4], ["B/1", "a", "b", "b/1"]);
    assert_eq!(names("x"), [""; 0]);
}

/// Collations of databases often ignore spaces at the end.
pub fn names_that_end_with_a_space_are_others(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let names = ["a", "a ", "a  ", " a", "a\u{a0}", "a\t"];
    for name in names {
        finish(stores.documents.put(owner.as_ref(), name, Some(name.into())));
        finish(stores.meta.put(name, name.into()));
        finish(stores.meta.put_entry("list", name, name.into()));
    }
    for name in names {
        assert_eq!(finish(stores.documents.get(owner.as_ref(), name)), Some(name.into()), "{name:?}");
        assert_eq!(finish(stores.meta.get(name)), Some(name.into()), "{name:?}");
    }
    finish(stores.documents.put(owner.as_ref(), "a ", None));
    assert!(finish(stores.meta.remove_entry("list", "a ")));
    let left: Vec<_> =
        finish(stores.documents.starting(owner.as_ref(), "")).into_iter().map(|found| found.name).collect();
    assert_eq!(left, [" a", "a", "a\t", "a  ", "a\u{a0}"]);
    let mut entries: Vec<_> = finish(stores.meta.entries("list")).into_iter().map(|(name, _)| name).collect();
    entries.sort_unstable();
    assert_eq!(entries, left);
}

pub fn documents_belong_to_accounts(stores: &Stores) {
    let nobody = jid("nobody@a.example");
    assert_eq!(finish(stores.documents.get(nobody.as_ref(), "vcard")), None);
    assert_eq!(finish(stores.documents.starting(nobody.as_ref(), "")), []);
    assert_eq!(wait(stores.documents.put(nobody.as_ref(), "vcard", Some(vec![]))), Err(StoreError::NoAccount));

    let owner = account(stores, "romeo@a.example");
    finish(stores.documents.put(owner.as_ref(), "vcard", Some(vec![1])));
    assert!(finish(stores.accounts.remove(owner.as_ref())));
    account(stores, "romeo@a.example");
    assert_eq!(finish(stores.documents.starting(owner.as_ref(), "")), []);
}

pub fn one_document_of_many_accounts(stores: &Stores) {
    let (romeo, juliet) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    let (nurse, nobody) = (account(stores, "nurse@b.example"), jid("nobody@a.example"));
    for owner in [&romeo, &nurse] {
        finish(stores.documents.put(owner.as_ref(), "rules", Some(owner.as_str().into())));
    }
    finish(stores.documents.put(juliet.as_ref(), "other", Some(vec![1])));
    let found = finish(stores.documents.of(vec![nurse.clone(), nobody, juliet, romeo.clone()], "rules"));
    let wanted = [nurse, romeo].map(|owner| (owner.clone(), owner.as_str().as_bytes().to_vec()));
    assert_eq!(found, wanted);
}

pub fn all_or_none_are_put_within_limits(stores: &Stores) {
    let (owner, nobody) = (account(stores, "romeo@a.example"), jid("nobody@a.example"));
    let room = DocumentRoom { number: 3, bytes: 40 };
    let document =
        |(name, bytes): (&str, usize)| StoredDocument { name: format!("p {name}"), bytes: vec![b'x'; bytes] };
    let put = |documents: &[(&str, usize)]| {
        let documents = documents.iter().copied().map(document).collect();
        finish(stores.documents.put_within(owner.as_ref(), "p ", documents, room))
    };
    let names = || {
        let found = finish(stores.documents.starting(owner.as_ref(), "p "));
        found.into_iter().map(|found| (found.name, found.bytes.len())).collect::<Vec<_>>()
    };
    finish(stores.documents.put(owner.as_ref(), "other", Some(vec![b'x'; 999])));
    assert_eq!(put(&[("a", 10), ("b", 10)]), DocumentsPut::Done);
    assert_eq!(put(&[("a", 0), ("c", 1), ("d", 1)]), DocumentsPut::TooMany);
    assert_eq!(put(&[("a", 0), ("c", 22)]), DocumentsPut::TooLarge);
    assert_eq!(names(), [("p a".to_owned(), 10), ("p b".to_owned(), 10)]);
    assert_eq!(put(&[("a", 0), ("c", 21)]), DocumentsPut::Done);
    assert_eq!(names(), [("p a".to_owned(), 0), ("p b".to_owned(), 10), ("p c".to_owned(), 21)]);
    // Existing documents may shrink although there is no room for them.
    let none = DocumentRoom { number: 0, bytes: 0 };
    let less = stores.documents.put_within(owner.as_ref(), "p ", vec![document(("c", 20))], none);
    assert_eq!(finish(less), DocumentsPut::Done);
    let put = stores.documents.put_within(nobody.as_ref(), "p ", vec![document(("a", 1))], room);
    assert_eq!(wait(put), Err(StoreError::NoAccount));
}
