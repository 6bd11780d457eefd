//! A thread on which a source is asked, and the bounds on the questions that wait for it.
//!
//! A question has a deadline from the time when it is asked, including its wait for a turn. After
//! several questions in a row without an answer, the source is considered unreachable. Questions
//! are then refused at once, except for one every few seconds, which shows whether the source is
//! back.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rookery_base::lock::lock;
use rookery_base::one_shot;
use rookery_hub::{Bound, Judgement, Judging, Most, Per, SourceSeen, Unit};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tracing::{info, warn};

/// The operator's settings for asking a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeskTerms {
    /// The time that an answer may take.
    pub patience: Duration,
    /// The most questions that it handles at a time.
    pub at_once: usize,
}

/// The reason why a source has no answer, as a text for the log.
pub type Away = String;

/// A thread on which a source is asked. It ends when this is dropped.
pub struct LoginDesk {
    handle: Handle,
    turns: Arc<Semaphore>,
    patience: Duration,
    state: Arc<Mutex<DeskState>>,
    name: Arc<str>,
    /// True if an unreachable source is asked all the same.
    asks_always: bool,
    /// Ends the thread when it is dropped.
    _ends: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct DeskState {
    /// The number of unanswered questions.
    waiting: usize,
    /// The number of questions in a row that had no answer.
    failed: u32,
    /// The time of the next question to an unreachable source.
    again: Option<Instant>,
    /// The counts of questions and answers since the start.
    seen: SourceSeen,
}

/// The answer to a question about a proof: an index into [`SourceSeen::ANSWERS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeskAnswer {
    Yes,
    No,
    None,
    Unasked,
    Remembered,
}

impl LoginDesk {
    /// Starts the thread. `name` is that of the source, for the log.
    ///
    /// # Errors
    /// The system provides no thread or descriptor.
    pub fn start(name: &str, terms: &DeskTerms) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        // The thread ends when the sender is dropped, and unfinished questions with it.
        let serve = move || drop(runtime.block_on(ended));
        std::thread::Builder::new().name("logins".into()).spawn(serve)?;
        Ok(Self {
            handle,
            turns: Arc::new(Semaphore::new(terms.at_once.max(1))),
            patience: terms.patience,
            state: Arc::default(),
            name: name.into(),
            asks_always: false,
            _ends: ends,
        })
    }

    /// Returns the same for a source that can answer most questions from memory, so that it is
    /// asked even while it is considered unreachable.
    pub fn always(self) -> Self {
        Self { asks_always: true, ..self }
    }

    /// Runs other work on the same thread, until the desk ends.
    pub fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Asks a question, unless too many wait or the source is unreachable.
    pub fn ask(&self, question: impl Future<Output = Result<Judgement, Away>> + Send + 'static) -> Judging {
        let answer = self.ask_and_count(question, |judgement| match judgement {
            Judgement::Good { .. } => DeskAnswer::Yes,
            Judgement::Bad { .. } => DeskAnswer::No,
            Judgement::Away => DeskAnswer::None,
        });
        Box::pin(async { answer.await.unwrap_or(Judgement::Away) })
    }

    /// Asks any other question as [`Self::ask`] does; there is no answer if the source is
    /// unreachable.
    pub fn ask_for<T: Send + 'static>(
        &self,
        question: impl Future<Output = Result<T, Away>> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = Option<T>> + Send>> {
        self.ask_and_count(question, |_| DeskAnswer::Yes)
    }

    /// Returns the counts since the start, under the name of a key of the configuration.
    pub fn statistics(&self, name: &'static str) -> SourceSeen {
        let state = lock(&self.state);
        SourceSeen { name, waiting: state.waiting, is_away: state.again.is_some(), ..state.seen.clone() }
    }

    /// Counts a recent yes that was used for another question.
    pub fn count_remembered(&self) {
        lock(&self.state).count(DeskAnswer::Remembered);
    }

    fn ask_and_count<T: Send + 'static>(
        &self,
        question: impl Future<Output = Result<T, Away>> + Send + 'static,
        answer_of: fn(&T) -> DeskAnswer,
    ) -> Pin<Box<dyn Future<Output = Option<T>> + Send>> {
        let begun = Instant::now();
        if !lock(&self.state).takes_one(begun, self.asks_always) {
            return Box::pin(ready(None));
        }
        let (answer, awaited) = one_shot();
        let (turns, patience, place) = (self.turns.clone(), self.patience, QuestionPlace(self.state.clone()));
        let name = self.name.clone();
        self.handle.spawn(async move {
            let in_turn = async {
                // The semaphore is never closed.
                let _turn = turns.acquire().await.map_err(|closed| closed.to_string())?;
                question.await
            };
            let outcome = timeout(patience, in_turn).await;
            let outcome = outcome.unwrap_or_else(|_| Err(format!("no answer within {} seconds", patience.as_secs())));
            let counted = outcome.as_ref().map_or(DeskAnswer::None, answer_of);
            place.settle(&name, outcome.as_ref().err(), counted, begun.elapsed());
            answer.complete(outcome.ok());
        });
        Box::pin(async { awaited.await.ok().flatten() })
    }
}

impl fmt::Debug for LoginDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DeskState {
    /// Accepts a question, if there is room and the source seems reachable.
    fn takes_one(&mut self, now: Instant, asks_always: bool) -> bool {
        let is_away = self.again.is_some_and(|again| now < again);
        if self.waiting >= MOST_WAITING || is_away && !asks_always {
            self.count(DeskAnswer::Unasked);
            return false;
        }
        if self.again.is_some() {
            // This question finds out whether the source is back; others wait for its result.
            self.again = Some(now + PAUSE);
        }
        self.waiting += 1;
        true
    }

    fn count(&mut self, answer: DeskAnswer) {
        if let Some(count) = self.seen.answers.get_mut(answer as usize) {
            *count += 1;
        }
    }
}

/// The place of a waiting question, until it is dropped.
struct QuestionPlace(Arc<Mutex<DeskState>>);

impl QuestionPlace {
    /// Notes the source's answer, or the reason for none, and makes room.
    fn settle(self, name: &str, why: Option<&Away>, answer: DeskAnswer, lasted: Duration) {
        let mut state = lock(&self.0);
        state.count(answer);
        state.seen.seconds.record_time(lasted);
        match why {
            Some(why) => {
                state.failed = state.failed.saturating_add(1);
                if state.again.is_none() && state.failed >= PATIENT {
                    warn!(source = name, error = %why, "a login source can't be reached; users who log in there are told to try again later");
                } else if state.again.is_none() {
                    warn!(source = name, error = %why, "a login source gave no answer");
                }
                if state.failed >= PATIENT {
                    state.again = Some(Instant::now() + PAUSE);
                }
            }
            None => {
                if state.again.take().is_some() {
                    info!(source = name, "a login source can be reached again");
                }
                state.failed = 0;
            }
        }
    }
}

impl Drop for QuestionPlace {
    fn drop(&mut self) {
        lock(&self.0).waiting -= 1;
    }
}

/// The most questions that may wait for a source.
const MOST_WAITING: usize = 1000;
/// The number of unanswered questions in a row after which a source counts as unreachable.
const PATIENT: u32 = 5;
/// The time between two questions to an unreachable source.
const PAUSE: Duration = Duration::from_secs(5);

/// The bounds of questions to sources, for the page of limits.
pub const BOUNDS: &[Bound] =
    &[Bound::on("logins that wait for a source outside", Per::Domain, Most::Fixed(MOST_WAITING as u64), Unit::Number)
        .or("<temporary-auth-failure/>")];

#[cfg(test)]
mod tests {
    use rookery_base::wait;

    use super::*;

    fn desk(patience: Duration, at_once: usize) -> LoginDesk {
        LoginDesk::start("a test", &DeskTerms { patience, at_once }).unwrap()
    }

    const GOOD: Judgement = Judgement::Good { username: None, until_s: None };

    #[test]
    fn questions_are_answered() {
        let desk = desk(Duration::from_secs(60), 2);
        assert_eq!(wait(desk.ask(async { Ok(GOOD) })), GOOD);
        assert_eq!(wait(desk.ask(async { Err("broken".into()) })), Judgement::Away);
        assert_eq!(lock(&desk.state).waiting, 0);
    }

    #[test]
    fn a_source_that_is_silent_is_away() {
        let desk = desk(Duration::from_millis(1), 1);
        for _ in 0..PATIENT {
            assert_eq!(wait(desk.ask(std::future::pending())), Judgement::Away);
        }
        assert_eq!(wait(desk.ask(async { Ok(GOOD) })), Judgement::Away, "nobody asks it for a while");
        let due = lock(&desk.state).again.expect("it is away");
        assert!(lock(&desk.state).takes_one(due, false), "one sees whether it is back");
        assert!(!lock(&desk.state).takes_one(due, false), "and no other");
        assert!(desk.statistics("url").is_away);
        QuestionPlace(desk.state.clone()).settle("a test", None, DeskAnswer::Yes, Duration::ZERO);
        assert_eq!(wait(desk.ask(async { Ok(GOOD) })), GOOD);
    }

    #[test]
    fn answers_are_counted_by_their_kind() {
        let desk = desk(Duration::from_secs(60), 2);
        let bad = || Judgement::Bad { why: String::new() };
        for outcome in [Ok(GOOD), Ok(GOOD), Ok(bad()), Err("broken".to_owned())] {
            wait(desk.ask(async { outcome }));
        }
        desk.count_remembered();
        lock(&desk.state).again = Some(Instant::now() + Duration::from_secs(600));
        assert_eq!(wait(desk.ask(async { Ok(GOOD) })), Judgement::Away);
        let seen = desk.statistics("ldap");
        let counts = SourceSeen::ANSWERS.into_iter().zip(seen.answers).collect::<Vec<_>>();
        assert_eq!(counts, [("yes", 2), ("no", 1), ("none", 1), ("unasked", 1), ("remembered", 1)]);
        assert_eq!((seen.name, seen.seconds.count(), seen.waiting, seen.is_away), ("ldap", 4, 0, true));
    }

    #[test]
    fn the_number_of_waiting_questions_is_bounded() {
        let desk = desk(Duration::from_secs(600), 1);
        let (free, is_free) = oneshot::channel::<()>();
        let first = desk.ask(async move {
            drop(is_free.await);
            Ok(GOOD)
        });
        let others: Vec<Judging> = (1..MOST_WAITING).map(|_| desk.ask(async { Ok(GOOD) })).collect();
        assert_eq!(wait(desk.ask(async { Ok(GOOD) })), Judgement::Away, "one too many");
        drop(free);
        assert!(others.into_iter().chain([first]).all(|judging| wait(judging) == GOOD));
        assert_eq!(lock(&desk.state).waiting, 0);
    }

    #[test]
    fn questions_end_with_their_desk() {
        let desk = desk(Duration::from_secs(600), 1);
        let asked = desk.ask(std::future::pending());
        drop(desk);
        assert_eq!(wait(asked), Judgement::Away);
    }
}
