//! Memos and questions between shards, and the answers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rookery_fanout::{Link, Member, View};
use rookery_hub::{
    Event, Hooks, Memo, Module, Peer, Place, Question, QuestionReply, Registry, Settings, Wakeups, World,
};
use rookery_jid::Jid;
use rookery_store::Background;
use rookery_store::memory::Memory;
use serde::{Deserialize, Serialize};

const SHARDS: usize = 3;

fn worlds() -> Vec<World> {
    (0..SHARDS).map(|shard| world(Place::alone(shard, SHARDS, [1, 2, 3, 4]))).collect()
}

fn world(place: Place) -> World {
    let settings = Arc::new(Settings::default());
    let (registry, wakeups) = (Registry::new(vec![Box::new(QuestionAsking)]), Wakeups::new(|| {}));
    World::new(place, settings, registry, Memory::stores(), Background::in_place(), wakeups)
}

/// Delivers mail until there is none.
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

/// Asks a shard for its number, which it returns after this many milliseconds; never if that is
/// [`NEVER`].
#[derive(Debug, Clone, Serialize, Deserialize)]
struct QuestionWhich {
    later_ms: u64,
}

const NEVER: u64 = u64::MAX;

impl Question for QuestionWhich {
    const NAME: &'static str = "test which";
    type Answer = usize;

    fn ask(self, world: &mut World, reply: QuestionReply<usize>) {
        let give = move |world: &mut World| {
            let shard = world.shard();
            reply.answer(world, shard);
        };
        match self.later_ms {
            0 => give(world),
            NEVER => {}
            later_ms => drop(world.after(later_ms, give)),
        }
    }
}

/// Adds to what the shard remembers.
#[derive(Debug, Serialize, Deserialize)]
struct Add(u32);

impl Memo for Add {
    const NAME: &'static str = "test add";

    fn open(self, world: &mut World) {
        world.state_mut::<Sum>().0 += self.0;
    }
}

struct Sum(u32);

struct QuestionAsking;

impl Module for QuestionAsking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn summary(&self) -> &'static str {
        "asks"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(Sum(0));
        hooks.memo::<Add>();
        hooks.question::<QuestionWhich>();
    }
}

#[test]
fn a_memo_is_opened_where_it_was_sent_to() {
    let mut worlds = worlds();
    for to in 0..SHARDS {
        worlds[0].send_memo(to, Add(to as u32 + 1));
    }
    let sums = |worlds: &[World]| worlds.iter().map(|world| world.state::<Sum>().0).collect::<Vec<_>>();
    assert_eq!(sums(&worlds), [1, 0, 0], "the mail has not been brought");
    exchange(&mut worlds);
    assert_eq!(sums(&worlds), [1, 2, 3]);
}

#[test]
fn all_shards_answer_in_their_order() {
    let mut worlds = worlds();
    let got = Rc::new(RefCell::new(Vec::new()));
    for asking in &mut worlds {
        let got = got.clone();
        asking.put_to_all(QuestionWhich { later_ms: 0 }, move |world, answers| {
            got.borrow_mut().push((world.shard(), answers));
        });
    }
    assert_eq!(*got.borrow(), [], "nobody has brought the mail yet");
    exchange(&mut worlds);
    let mut got = got.take();
    got.sort_unstable();
    assert_eq!(got, [0, 1, 2].map(|shard| (shard, vec![Some(0), Some(1), Some(2)])));
}

/// Otherwise every list would be late and incomplete from the day on which a node has restarted.
#[test]
fn nobody_waits_for_shards_of_a_process_that_is_a_node_no_more() {
    let member = |node, incarnation| Member { node, incarnation, shards: 1, letters: 1 };
    let (gone, next) = (member(2, 1), member(2, 2));
    let view = View::among(vec![member(1, 1), gone, next], |_| 0).with_name(1, vec![gone]);
    let place = Place { view, ..Place::alone(0, 1, [1, 2, 3, 4]) };
    let mut world = world(place);
    let got = Rc::new(RefCell::new(Vec::new()));
    let told = got.clone();
    world.put_to_all(QuestionWhich { later_ms: 0 }, move |_, answers| told.borrow_mut().push(answers));
    assert!(world.take_mail(1).is_empty(), "it is gone");
    assert_eq!(world.take_mail(2).len(), 1, "its next process has to answer");
    world.set_time(QuestionWhich::PATIENCE_MS, QuestionWhich::PATIENCE_MS);
    world.run_timers();
    assert_eq!(*got.borrow(), [vec![Some(0), None]]);
}

/// No other node has these homes, and none would read the journal for them.
#[test]
fn a_process_that_joins_reads_the_journals_of_those_that_have_died_meanwhile() {
    let member = |node, incarnation| Member { node, incarnation, shards: 1, letters: 1 };
    let lookups = |died: bool, is_joining: bool| {
        let gone = member(3, 4);
        let absent = if died { vec![gone] } else { Vec::new() };
        let view = View::among(vec![member(1, 1), member(2, 1), gone], |slot| slot % 2).with_name(1, absent);
        let place = Place { view, is_joining, ..Place::alone(0, 1, [1, 2, 3, 4]) };
        world(place).take_lookups().into_iter().map(|lookup| (lookup.process, lookup.slots.len())).collect::<Vec<_>>()
    };
    assert_eq!(lookups(true, true), [((3, 4), rookery_fanout::view::SLOTS / 2)]);
    assert_eq!((lookups(false, true), lookups(true, false)), (vec![], vec![]));
}

/// The homes that others had meanwhile have changed since: a session of that journal would lack the
/// stanzas that came for it in between.
#[test]
fn a_process_whose_homes_others_have_had_reads_no_journal_of_its_predecessor() {
    let lookups = |incarnation, journals_from| {
        let own = Member { node: 1, incarnation, shards: 1, letters: 1 };
        let view = View::among(vec![own], |_| 0).with_name(1, Vec::new()).with_journals_from(journals_from);
        let place = Place { view, ..Place::alone(0, 1, [1, 2, 3, 4]) };
        let lookups = world(place).take_lookups().into_iter();
        lookups.map(|lookup| (lookup.process, lookup.earlier)).collect::<Vec<_>>()
    };
    assert_eq!((lookups(2, 1), lookups(2, 2)), (vec![((1, 1), vec![])], vec![]));
    // The fourth process may have ended while it joined, after others had had the homes.
    assert_eq!(lookups(5, 3), [((1, 4), vec![(1, 3)])]);
    assert_eq!(lookups(3, 0), [((1, 2), vec![(1, 1)])], "the row is of an earlier version");
}

#[test]
fn the_home_of_an_account_answers_when_it_likes() {
    let mut worlds = worlds();
    let got = Rc::new(RefCell::new(Vec::new()));
    for name in ["a", "b", "c", "d", "e", "f"] {
        let (got, account) = (got.clone(), Jid::parse(&format!("{name}@x")).expect("an address"));
        let home = worlds[0].home_of(account.as_ref());
        worlds[0].put_to_home(account.as_ref(), QuestionWhich { later_ms: 1 }, move |_, shard| {
            got.borrow_mut().push((shard, Some(home)));
        });
    }
    exchange(&mut worlds);
    assert!(got.borrow().is_empty());
    pass(&mut worlds, 1);
    assert_eq!(got.borrow().len(), 6);
    assert!(got.borrow().iter().all(|(shard, home)| shard == home), "{got:?}");
}

#[test]
fn an_answer_that_does_not_come_in_time_is_missing() {
    let mut worlds = worlds();
    let got = Rc::new(RefCell::new(Vec::new()));
    for later_ms in [NEVER, QuestionWhich::PATIENCE_MS + 1] {
        let got = got.clone();
        worlds[0].put_to(1, QuestionWhich { later_ms }, move |_, answer| got.borrow_mut().push(answer));
    }
    // The mail of one of the three shards isn't delivered.
    let told = got.clone();
    worlds[0].put_to_all(QuestionWhich { later_ms: 0 }, move |_, answers| told.borrow_mut().extend(answers));
    drop(worlds[0].take_mail(2));
    exchange(&mut worlds);
    pass(&mut worlds, QuestionWhich::PATIENCE_MS - 1);
    assert!(got.borrow().is_empty());
    pass(&mut worlds, QuestionWhich::PATIENCE_MS);
    assert_eq!(*got.borrow(), [None, None, Some(0), Some(1), None]);
    pass(&mut worlds, QuestionWhich::PATIENCE_MS + 1);
    assert_eq!(got.borrow().len(), 5, "an answer that is late goes nowhere");
}

/// Sets the time, in milliseconds, then runs timers and delivers mail.
fn pass(worlds: &mut [World], now_ms: u64) {
    for world in worlds.iter_mut() {
        world.set_time(now_ms, now_ms);
        world.run_timers();
    }
    exchange(worlds);
}

#[test]
fn the_driver_knows_where_a_client_is() {
    let mut worlds = worlds();
    let got = Rc::new(RefCell::new(None));
    let told = got.clone();
    worlds[1].with_peer(Link(7), move |_, peer| *told.borrow_mut() = peer);
    let peer = "192.0.2.1:40000".parse().ok().map(|address| Peer {
        address,
        transport: "tcp".to_owned(),
        is_encrypted: true,
        since_ms: 1000,
    });
    match worlds[1].next_event() {
        Some(Event::Peer(Link(7), reply)) => reply.answer(&mut worlds[1], peer.clone()),
        other => panic!("{other:?}"),
    }
    assert_eq!(*got.borrow(), peer);
}
