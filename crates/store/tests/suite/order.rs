//! Tests for every method that it is queued when called, and done in order.

use super::samples::*;
use rookery_store::{ArchiveOf, ArchiveQuery, ArchivedMessage, OfflineRoom, Pending, Stores};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

pub fn calls_take_effect_without_being_polled(stores: &Stores) {
    let romeo = jid("romeo@a.example");
    drop(stores.accounts.create(romeo.as_ref(), password("x")));
    drop(stores.offline.push(romeo.as_ref(), romeo.as_ref(), vec![1], 1, OfflineRoom::of(9)));
    let unpolled = stores.offline.push(romeo.as_ref(), romeo.as_ref(), vec![2], 1, OfflineRoom::of(9));
    assert_eq!(finish(stores.offline.count(romeo.as_ref())), 2);
    drop(unpolled);
}

pub fn completions_come_in_the_order_of_calls(stores: &Stores) {
    let romeo = account(stores, "romeo@a.example");
    let woken = Arc::new(Mutex::new(Vec::new()));
    let mut calls: Vec<Pending<u64>> = Vec::new();
    for n in 0..300 {
        // Writes, reads of their results, and failing writes, in turn.
        drop(stores.offline.push(romeo.as_ref(), romeo.as_ref(), vec![1], 1, OfflineRoom::UNBOUNDED));
        drop(stores.last_presence.put(jid("nobody@a.example").as_ref(), n, vec![]));
        calls.push(stores.offline.count(romeo.as_ref()));
    }
    let mut answers = vec![None; calls.len()];
    for (n, call) in calls.iter_mut().enumerate() {
        let waker = Waker::from(Arc::new(Note { n, woken: woken.clone() }));
        if let Poll::Ready(answer) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
            answers[n] = Some(answer);
        }
    }
    for (call, answer) in calls.into_iter().zip(&mut answers) {
        answer.get_or_insert_with(|| rookery_store::wait(call));
    }
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, Some(Ok(n as u64 + 1)), "call {n} sees all writes before it and none behind it");
    }
    let woken = woken.lock().expect("no waker panics");
    assert!(woken.is_sorted(), "{woken:?}");
}

pub fn a_page_has_all_that_was_written_before_it_was_asked_for(stores: &Stores) {
    let owners: Vec<_> = (0..20).map(|number| account(stores, &format!("user{number}@a.example"))).collect();
    let mut pages = Vec::new();
    for id in 1..=20 {
        for owner in &owners {
            let written = [owner, &owners[0]].map(|owner| ArchivedMessage {
                owner: owner.clone(),
                of: ArchiveOf::Account,
                id,
                with: jid("juliet@b.example"),
                contacts_only: false,
                stanza: vec![b'x'; 100],
                most: 0,
            });
            drop(stores.archive.append(written.into()));
            let all = ArchiveQuery { limit: 100, max_bytes: usize::MAX, ..ArchiveQuery::default() };
            pages.push((id, stores.archive.page(owner.as_ref(), all)));
        }
    }
    for (id, page) in pages {
        let found: Vec<_> = finish(page).expect("a page").messages.into_iter().map(|(id, _)| id).collect();
        assert!(found.len() as u64 >= id && found.starts_with(&(1..=id).collect::<Vec<_>>()), "{id}: {found:?}");
    }
}

struct Note {
    n: usize,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.woken.lock().expect("no waker panics").push(self.n);
    }
}
