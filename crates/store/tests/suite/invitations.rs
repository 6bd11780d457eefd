//! [`Invitations`](rookery_store::Invitations).

use super::samples::*;
use rookery_store::{Invitation, Purpose, StoreError, Stores, wait};

fn invitation(token: &str, expires_ms: u64) -> Invitation {
    let purpose = Purpose::Account(Some("romeo".into()));
    Invitation { token: token.into(), domain: "a.example".into(), purpose, owner: None, expires_ms }
}

pub fn a_token_is_good_once_and_for_a_time(stores: &Stores) {
    let one = invitation("one", 100);
    assert!(finish(stores.invitations.put(one.clone(), 0, 1)));
    assert!(finish(stores.invitations.put(invitation("two", 50), 0, 1)));
    assert_eq!(finish(stores.invitations.get("one", 99)), Some(one.clone()));
    assert_eq!(finish(stores.invitations.get("one", 100)), None);
    assert_eq!(finish(stores.invitations.get("One", 0)), None);
    let reserved = |name, now_ms| finish(stores.invitations.is_reserved(jid(name).as_ref(), now_ms));
    assert!(reserved("romeo@a.example", 99) && !reserved("romeo@a.example", 100));
    assert!(!reserved("romeo@b.example", 0) && !reserved("juliet@a.example", 0));
    assert_eq!(finish(stores.invitations.take("two", 50)), None, "expired");
    assert_eq!(finish(stores.invitations.take("one", 99)), Some(one));
    assert_eq!(finish(stores.invitations.take("one", 99)), None);
}

pub fn open_ones_are_listed(stores: &Stores) {
    let owner = account(stores, "juliet@a.example");
    let later = Invitation { purpose: Purpose::Password, owner: Some(owner), ..invitation("a", 200) };
    let sooner = invitation("b", 100);
    let elsewhere = Invitation { domain: "b.example".into(), ..invitation("c", 100) };
    for invitation in [&later, &sooner, &elsewhere] {
        assert!(finish(stores.invitations.put(invitation.clone(), 0, 9)));
    }
    let open = |now_ms, limit| finish(stores.invitations.open("a.example", now_ms, limit));
    assert_eq!(open(0, 9), [sooner.clone(), later.clone()]);
    assert_eq!(open(0, 1), [sooner]);
    assert_eq!(open(100, 9), [later], "one has expired");
    assert_eq!(finish(stores.invitations.take("a", 100)).map(|taken| taken.token).as_deref(), Some("a"));
    assert_eq!(open(0, 9).len(), 1);
}

pub fn owners_have_a_limit_and_take_theirs_along(stores: &Stores) {
    let owner = account(stores, "romeo@a.example");
    let of = |token, purpose, expires_ms| Invitation {
        purpose,
        owner: Some(owner.clone()),
        ..invitation(token, expires_ms)
    };
    assert!(finish(stores.invitations.put(of("a", Purpose::Account(None), 50), 0, 2)));
    assert!(finish(stores.invitations.put(of("b", Purpose::Password, 90), 0, 2)));
    assert!(!finish(stores.invitations.put(of("c", Purpose::Password, 90), 49, 2)));
    assert!(finish(stores.invitations.put(of("c", Purpose::Password, 90), 50, 2)), "one has expired");
    assert_eq!(finish(stores.invitations.get("b", 50)), Some(of("b", Purpose::Password, 90)));
    assert!(finish(stores.accounts.remove(owner.as_ref())));
    assert_eq!(finish(stores.invitations.get("b", 50)), None);
    assert_eq!(wait(stores.invitations.put(of("d", Purpose::Password, 90), 0, 2)), Err(StoreError::NoAccount));
}
