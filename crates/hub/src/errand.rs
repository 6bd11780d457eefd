//! Work on other shards: at the home of an account, or on all of them with their answers gathered.
//!
//! For what is rare and concerns more than one shard, such as the questions of administrators: an errand is a closure that travels as mail and runs
//! with the whole world of the other shard at hand. What it answers is the closure's own type; how large that may get is for whoever writes it to
//! bound. A shard always answers: all of them live in one process.
//!
//! Invariants:
//! * An errand runs in a later tick on another shard, and at once on this one; mail to the same shard that was posted before has been worked off.
//! * An answer that is not given yet keeps the errand in the custody of what it was asked for.
//! * Nothing waits: the continuation runs when the last answer has come.

use std::any::Any;
use std::marker::PhantomData;

use rookery_jid::JidRef;
use slab::Slab;

use crate::World;
use crate::custody::Custody;
use crate::mail::Mail;

/// Work for the world of another shard.
pub struct Errand(Box<dyn FnOnce(&mut World) + Send>);

impl std::fmt::Debug for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Errand")
    }
}

impl Errand {
    /// Work for whichever shard gets it, from outside of all worlds.
    pub fn new(work: impl FnOnce(&mut World) + Send + 'static) -> Self {
        Self(Box::new(work))
    }

    pub(crate) fn run(self, world: &mut World) {
        (self.0)(world);
    }
}

/// The right to answer an errand, once.
#[derive(Debug)]
#[must_use = "whoever asked waits for it"]
pub struct ErrandReply<T> {
    /// Where the continuation is.
    shard: usize,
    gathering: usize,
    /// Whose answer it is.
    at: usize,
    custody: Option<Custody>,
    answer: PhantomData<fn(T)>,
}

impl<T: Send + 'static> ErrandReply<T> {
    /// Answers.
    pub fn give(self, world: &mut World, answer: T) {
        let Self { shard, gathering, at, custody, .. } = self;
        let answer: Answer = Box::new(answer);
        world.in_custody(custody, |world| world.run_at(shard, move |world| world.gather_errand(gathering, at, answer)));
    }
}

type Answer = Box<dyn Any + Send>;
type Then = Box<dyn FnOnce(&mut World, Vec<Answer>)>;

/// Answers that are still to come.
pub(crate) struct Gathering {
    answers: Vec<Option<Answer>>,
    then: Then,
}

/// All of them.
pub(crate) type ErrandGatherings = Slab<Gathering>;

impl World {
    /// Runs `work` on a shard: here at once, elsewhere when the mail arrives.
    pub fn run_at(&mut self, shard: usize, work: impl FnOnce(&mut World) + Send + 'static) {
        if shard == self.shard() {
            work(self);
        } else {
            self.post(shard, Mail::Errand(Errand(Box::new(work))));
        }
    }

    /// Runs `work` on every shard, and `then` here with the answers in the order of the shards.
    pub fn ask_shards<T: Send + 'static>(
        &mut self,
        work: impl Fn(&mut World) -> T + Clone + Send + 'static,
        then: impl FnOnce(&mut World, Vec<T>) + 'static,
    ) {
        let gathering = self.await_errands(self.shards(), then);
        for at in 0..self.shards() {
            let reply = self.reply_for(gathering, at);
            let work = work.clone();
            self.run_at(at, move |world| {
                let answer = work(world);
                reply.give(world, answer);
            });
        }
    }

    /// Runs `work` at the home of an account, which answers when it likes, and `then` here with the answer.
    pub fn ask_home<T: Send + 'static>(
        &mut self,
        account: JidRef<'_>,
        work: impl FnOnce(&mut World, ErrandReply<T>) + Send + 'static,
        then: impl FnOnce(&mut World, T) + 'static,
    ) {
        let home = self.home_of(account);
        let gathering = self.await_errands(1, move |world, answers: Vec<T>| {
            if let Some(answer) = answers.into_iter().next() {
                then(world, answer);
            }
        });
        let reply = self.reply_for(gathering, 0);
        self.run_at(home, move |world| work(world, reply));
    }

    fn reply_for<T>(&self, gathering: usize, at: usize) -> ErrandReply<T> {
        ErrandReply { shard: self.shard(), gathering, at, custody: self.custody(), answer: PhantomData }
    }

    fn await_errands<T: 'static>(&mut self, count: usize, then: impl FnOnce(&mut World, Vec<T>) + 'static) -> usize {
        self.waiting.errands.insert(Gathering {
            answers: (0..count).map(|_| None).collect(),
            then: Box::new(move |world, answers| {
                let answers = answers.into_iter().filter_map(|answer| (answer as Box<dyn Any>).downcast().ok());
                let answers = answers.map(|answer: Box<T>| *answer).collect();
                then(world, answers);
            }),
        })
    }

    fn gather_errand(&mut self, gathering: usize, at: usize, answer: Answer) {
        let Some(found) = self.waiting.errands.get_mut(gathering) else { return };
        if let Some(place) = found.answers.get_mut(at) {
            *place = Some(answer);
        }
        if found.answers.iter().all(Option::is_some) {
            let Gathering { answers, then } = self.waiting.errands.remove(gathering);
            then(self, answers.into_iter().flatten().collect());
        }
    }
}
