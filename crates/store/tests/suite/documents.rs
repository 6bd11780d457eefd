//! [`Documents`](rookery_store::Documents).

use super::samples::*;
use rookery_store::{Document, StoreError, Stores, wait};

pub fn the_last_one_of_a_name_counts(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    assert_eq!(done(stores.documents.get(owner.as_ref(), "vcard")), None);
    done(stores.documents.put(owner.as_ref(), "vcard", Some(b"first".to_vec())));
    done(stores.documents.put(owner.as_ref(), "vcard", Some(b"second".to_vec())));
    done(stores.documents.put(owner.as_ref(), "Vcard", Some(b"".to_vec())));
    assert_eq!(done(stores.documents.get(owner.as_ref(), "vcard")), Some(b"second".to_vec()));
    assert_eq!(done(stores.documents.get(owner.as_ref(), "Vcard")), Some(b"".to_vec()));
    done(stores.documents.put(owner.as_ref(), "vcard", None));
    done(stores.documents.put(owner.as_ref(), "vcard", None));
    assert_eq!(done(stores.documents.get(owner.as_ref(), "vcard")), None);
}

pub fn documents_are_found_by_prefix(stores: &Stores) {
    let (owner, other) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    for name in ["b/2", "b/\u{10ffff}", "a", "b/1", "b", "c", "B/1", "b0"] {
        done(stores.documents.put(owner.as_ref(), name, Some(name.into())));
    }
    done(stores.documents.put(other.as_ref(), "b/other", Some(vec![])));
    let names = |prefix| {
        let found = done(stores.documents.starting(owner.as_ref(), prefix));
        assert!(found.iter().all(|Document { name, bytes }| name.as_bytes() == bytes));
        found.into_iter().map(|document| document.name).collect::<Vec<_>>()
    };
    assert_eq!(names("b/"), ["b/1", "b/2", "b/\u{10ffff}"]);
    assert_eq!(names("")[..4], ["B/1", "a", "b", "b/1"]);
    assert_eq!(names("x"), [""; 0]);
}

pub fn documents_belong_to_accounts(stores: &Stores) {
    let nobody = jid("nobody@a.example");
    assert_eq!(done(stores.documents.get(nobody.as_ref(), "vcard")), None);
    assert_eq!(done(stores.documents.starting(nobody.as_ref(), "")), []);
    assert_eq!(wait(stores.documents.put(nobody.as_ref(), "vcard", Some(vec![]))), Err(StoreError::NoAccount));

    let owner = account(stores, "romeo@a.example");
    done(stores.documents.put(owner.as_ref(), "vcard", Some(vec![1])));
    assert!(done(stores.accounts.remove(owner.as_ref())));
    account(stores, "romeo@a.example");
    assert_eq!(done(stores.documents.starting(owner.as_ref(), "")), []);
}

pub fn one_document_of_many_accounts(stores: &Stores) {
    let (romeo, juliet) = (account(stores, "romeo@a.example"), account(stores, "juliet@a.example"));
    let (nurse, nobody) = (account(stores, "nurse@b.example"), jid("nobody@a.example"));
    for owner in [&romeo, &nurse] {
        done(stores.documents.put(owner.as_ref(), "rules", Some(owner.as_str().into())));
    }
    done(stores.documents.put(juliet.as_ref(), "other", Some(vec![1])));
    let found = done(stores.documents.of(vec![nurse.clone(), nobody, juliet, romeo.clone()], "rules"));
    let wanted = [nurse, romeo].map(|owner| (owner.clone(), owner.as_str().as_bytes().to_vec()));
    assert_eq!(found, wanted);
}
