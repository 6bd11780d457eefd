//! The right to answer a question of a shard.

use std::marker::PhantomData;

use rookery_fanout::Station;
use serde::{Deserialize, Serialize};

use crate::custody::Custody;

/// The place that an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerPlace {
    pub(crate) station: Station,
    /// The number of the gathering on that shard, and the place in it.
    pub(crate) gathering: u64,
    pub(crate) at: u32,
}

/// The right to answer a question, once.
#[derive(Debug)]
#[must_use = "the shard that asked waits for it"]
pub struct QuestionReply<T> {
    pub(crate) asker: AnswerPlace,
    pub(crate) custody: Option<Custody>,
    pub(crate) answer: PhantomData<fn(T)>,
}
