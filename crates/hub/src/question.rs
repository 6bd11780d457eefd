//! Questions to other shards: to the home of an account, or to all of them with their answers
//! collected.
//!
//! For rare requests that concern more than one shard, such as those of administrators. A question
//! is data, and so is its answer; the code that runs when the answers have arrived is a closure
//! that stays on the shard that asks.
//!
//! # Invariants
//!
//! * A question is processed in a later tick on another shard, and at once on this one; mail to
//!   the same shard that was posted before has been processed.
//! * An unanswered question stays in the custody of the work that it was asked for.
//! * Nothing waits for ever: an answer that doesn't arrive in time counts as missing, and the
//!   continuation runs without it. So a list may lack the part of one shard, and says so.

use std::fmt;
use std::marker::PhantomData;

use rookery_fanout::Link;
use rookery_jid::JidRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_bytes::ByteBuf;
use tracing::warn;

use crate::World;
use crate::calls::CarriedQuestion;
use crate::driver::DriverQuestion;
use crate::event::{Event, Peer};
use crate::mail::Mail;
use crate::reply::AnswerPlace;
pub use crate::reply::QuestionReply;
use crate::waiting::{Gathering, OnGathered};

/// A kind of question, which is answered on the shard that it is put to.
///
/// The module that answers it declares the kind (see [`Hooks::question`](crate::Hooks::question)),
/// and has to bound the size of its answers.
pub trait Question: Serialize + DeserializeOwned + fmt::Debug + Clone + Send + 'static {
    /// The name of the kind, which is unique: the module's, and the question.
    const NAME: &'static str;

    /// The time that the answer may take, in milliseconds.
    const PATIENCE_MS: u64 = 2_000;

    /// The type of the answer.
    type Answer: Serialize + DeserializeOwned + 'static;

    /// Answers, now or later, by [`QuestionReply::answer`]. If the reply is dropped, the asker
    /// waits until the time is over.
    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>);
}

impl<Q: Question> CarriedQuestion for Q {
    fn name(&self) -> &'static str {
        Q::NAME
    }

    fn ask(self: Box<Self>, world: &mut World, asker: AnswerPlace) {
        let reply = QuestionReply { asker, custody: world.custody(), answer: PhantomData };
        Q::ask(*self, world, reply);
    }

    fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_allocvec(self)
    }
}

pub(crate) fn decode<Q: Question>(bytes: &[u8]) -> Result<Box<dyn CarriedQuestion>, postcard::Error> {
    Ok(Box::new(postcard::from_bytes::<Q>(bytes)?))
}

impl<T: Serialize> QuestionReply<T> {
    /// Completes the question with its answer.
    pub fn answer(self, world: &mut World, answer: T) {
        let Self { asker, custody, .. } = self;
        let Ok(answer) = postcard::to_allocvec(&answer) else { return };
        world.in_custody(custody, |world| {
            if asker.station == world.station() {
                world.gather(asker, answer);
            } else if let Some(shard) = world.shard_of(asker.station) {
                world.post(shard, Mail::Reply { asker, answer });
            }
        });
    }
}

impl Question for DriverQuestion {
    const NAME: &'static str = "driver";
    const PATIENCE_MS: u64 = 1_000;
    type Answer = ByteBuf;

    fn ask(self, world: &mut World, reply: QuestionReply<ByteBuf>) {
        world.out.events.push_back(Event::Asked(self, reply));
    }
}

impl World {
    /// Puts a question to a shard, and continues with the answer; `None` if it doesn't arrive in
    /// time.
    pub fn put_to<Q: Question>(
        &mut self,
        shard: usize,
        question: Q,
        then: impl FnOnce(&mut World, Option<Q::Answer>) + 'static,
    ) {
        let first = |world: &mut World, answers: Vec<Option<Q::Answer>>| {
            then(world, answers.into_iter().next().flatten());
        };
        let gathering = self.await_answers(1, Q::PATIENCE_MS, Q::NAME, first);
        self.put(shard, gathering, 0, question);
    }

    /// Puts a question to the home of an account, see [`World::put_to`].
    pub fn put_to_home<Q: Question>(
        &mut self,
        account: JidRef<'_>,
        question: Q,
        then: impl FnOnce(&mut World, Option<Q::Answer>) + 'static,
    ) {
        self.put_to(self.home_of(account), question, then);
    }

    /// Puts a question to every shard of every node, and continues with the answers in the order
    /// of the shards; `None` stands for those that don't arrive in time.
    pub fn put_to_all<Q: Question>(
        &mut self,
        question: Q,
        then: impl FnOnce(&mut World, Vec<Option<Q::Answer>>) + 'static,
    ) {
        let mut shards = self.other_shards();
        shards.push(self.shard());
        shards.sort_unstable();
        self.put_to_each(shards, &question, then);
    }

    /// Puts a question to these shards, see [`World::put_to_all`].
    pub(crate) fn put_to_each<Q: Question>(
        &mut self,
        shards: Vec<usize>,
        question: &Q,
        then: impl FnOnce(&mut World, Vec<Option<Q::Answer>>) + 'static,
    ) {
        if shards.is_empty() {
            return then(self, Vec::new());
        }
        let gathering = self.await_answers(shards.len(), Q::PATIENCE_MS, Q::NAME, then);
        for (at, shard) in shards.into_iter().enumerate() {
            self.put(shard, gathering, at, question.clone());
        }
    }

    /// Puts a question to the drivers of all shards of other nodes, and continues with the
    /// answers; `None` stands for those that don't arrive in time.
    pub fn ask_drivers_elsewhere(
        &mut self,
        question: &DriverQuestion,
        then: impl FnOnce(&mut World, Vec<Option<ByteBuf>>) + 'static,
    ) {
        let own = self.own_shards();
        let elsewhere = self.other_shards().into_iter().filter(|hop| *hop >= own).collect();
        self.put_to_each(elsewhere, question, then);
    }

    /// Continues with the connection of a session's client, as the driver knows it; `None` if it is
    /// gone.
    pub fn with_peer(&mut self, link: Link, then: impl FnOnce(&mut World, Option<Peer>) + 'static) {
        let first = |world: &mut World, answers: Vec<Option<Option<Peer>>>| {
            then(world, answers.into_iter().next().flatten().flatten());
        };
        let gathering = self.await_answers(1, PEER_PATIENCE_MS, "a client's address", first);
        let asker = self.asker(gathering, 0);
        self.out
            .events
            .push_back(Event::Peer(link, QuestionReply { asker, custody: self.custody(), answer: PhantomData }));
    }

    fn put<Q: Question>(&mut self, shard: usize, gathering: u64, at: usize, question: Q) {
        debug_assert!(
            self.registry().question_kind(Q::NAME).is_some(),
            "no module declares the question {:?}",
            Q::NAME
        );
        let asker = self.asker(gathering, at);
        let question: Box<dyn CarriedQuestion> = Box::new(question);
        if shard == self.shard() {
            question.ask(self, asker);
        } else {
            self.post(shard, Mail::Question { question, asker });
        }
    }

    fn asker(&self, gathering: u64, at: usize) -> AnswerPlace {
        AnswerPlace { station: self.station(), gathering, at: at as u32 }
    }

    fn await_answers<T: DeserializeOwned>(
        &mut self,
        count: usize,
        patience_ms: u64,
        what: &'static str,
        then: impl FnOnce(&mut World, Vec<Option<T>>) + 'static,
    ) -> u64 {
        self.waiting.gatherings.last += 1;
        let number = self.waiting.gatherings.last;
        let timer = self.after(patience_ms, move |world| {
            if let Some(gathering) = world.waiting.gatherings.waiting.remove(&number) {
                let missing = gathering.answers.iter().filter(|answer| answer.is_none()).count();
                warn!(what, missing, of = gathering.answers.len(), patience_ms, "shards have not answered in time");
                world.in_custody(gathering.custody, |world| (gathering.then)(world, gathering.answers));
            }
        });
        let then: OnGathered = Box::new(move |world, answers| {
            let answers = answers.into_iter().map(|answer| {
                let read = postcard::from_bytes(&answer?);
                read.inspect_err(|error| warn!(what, %error, "a shard's answer can't be read")).ok()
            });
            then(world, answers.collect());
        });
        let answers = (0..count).map(|_| None).collect();
        let custody = self.custody();
        self.waiting.gatherings.waiting.insert(number, Gathering { answers, timer, then, custody });
        number
    }

    pub(crate) fn gather(&mut self, asker: AnswerPlace, answer: Vec<u8>) {
        let Some(found) = self.waiting.gatherings.waiting.get_mut(&asker.gathering) else { return };
        if let Some(place) = found.answers.get_mut(asker.at as usize) {
            *place = Some(answer);
        }
        if found.answers.iter().all(Option::is_some)
            && let Some(gathering) = self.waiting.gatherings.waiting.remove(&asker.gathering)
        {
            let Gathering { answers, timer, then, custody } = gathering;
            self.cancel(timer);
            self.in_custody(custody, |world| then(world, answers));
        }
    }
}

/// The time that the driver may take to tell a client's address, in milliseconds. It does so in the
/// same tick.
const PEER_PATIENCE_MS: u64 = 10_000;
