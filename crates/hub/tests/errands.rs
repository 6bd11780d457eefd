//! Errands: work on other shards, and the answers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rookery_fanout::Link;
use rookery_hub::{Event, Place, Registry, Reply, Settings, Wakeups, World};
use rookery_jid::Jid;
use rookery_store::Background;
use rookery_store::memory::Memory;

const SHARDS: usize = 3;

fn worlds() -> Vec<World> {
    let world = |shard| {
        let place = Place { shard, shards: SHARDS, keys: [1, 2, 3, 4] };
        let settings = Arc::new(Settings::default());
        let (registry, wakeups) = (Registry::new(Vec::new()), Wakeups::new(|| {}));
        World::new(place, settings, registry, Memory::stores(), Background::in_place(), wakeups)
    };
    (0..SHARDS).map(world).collect()
}

/// Brings mail until there is none.
fn exchange(worlds: &mut [World]) {
    loop {
        let mut any = false;
        for (from, to) in (0..SHARDS).flat_map(|from| (0..SHARDS).map(move |to| (from, to))) {
            for mail in worlds[from].take_mail(to) {
                any = true;
                worlds[to].mail(mail);
            }
        }
        if !any {
            return;
        }
    }
}

#[test]
fn all_shards_answer_in_their_order() {
    let mut worlds = worlds();
    let got = Rc::new(RefCell::new(Vec::new()));
    for asking in &mut worlds {
        let got = got.clone();
        asking.ask_shards(|world| world.shard(), move |world, answers| got.borrow_mut().push((world.shard(), answers)));
    }
    assert_eq!(*got.borrow(), [], "nobody has brought the mail yet");
    exchange(&mut worlds);
    let mut got = got.take();
    got.sort_unstable();
    assert_eq!(got, [0, 1, 2].map(|shard| (shard, vec![0, 1, 2])));
}

#[test]
fn the_home_of_an_account_answers_when_it_likes() {
    let mut worlds = worlds();
    let got = Rc::new(RefCell::new(Vec::new()));
    for name in ["a", "b", "c", "d", "e", "f"] {
        let (got, account) = (got.clone(), Jid::parse(&format!("{name}@x")).expect("an address"));
        let home = worlds[0].home_of(account.as_ref());
        let work = |world: &mut World, reply: Reply<usize>| {
            world.after(1, move |world| {
                let shard = world.shard();
                reply.give(world, shard);
            });
        };
        worlds[0].ask_home(account.as_ref(), work, move |_, shard| got.borrow_mut().push((shard, home)));
    }
    exchange(&mut worlds);
    assert!(got.borrow().is_empty());
    for world in &mut worlds {
        world.set_time(1, 1);
        world.run_timers();
    }
    exchange(&mut worlds);
    assert_eq!(got.borrow().len(), 6);
    assert!(got.borrow().iter().all(|(shard, home)| shard == home), "{got:?}");
}

#[test]
fn the_driver_knows_where_a_client_is() {
    let mut worlds = worlds();
    let got = Rc::new(RefCell::new(None));
    let told = got.clone();
    worlds[1].with_peer(Link(7), move |_, peer| *told.borrow_mut() = peer);
    let peer = "192.0.2.1:40000".parse().ok();
    match worlds[1].next_event() {
        Some(Event::Peer(Link(7), reply)) => reply.give(&mut worlds[1], peer),
        other => panic!("{other:?}"),
    }
    assert_eq!(*got.borrow(), peer);
}
