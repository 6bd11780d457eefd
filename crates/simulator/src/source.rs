//! An outside service that checks passwords and tokens (RFC 7628). It may take its time, and is
//! unavailable now and then.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::Mutex;

use rookery_base::lock::lock;
use rookery_base::{Completer, one_shot};
use rookery_hub::{Judgement, Judging, Proof, Source, Takes};
use rookery_testkit::server::PASSWORD;

/// A source of logins that answers at once, or on demand.
#[derive(Debug, Default)]
pub(crate) struct SimulatedSource {
    is_late: bool,
    state: Mutex<SourceState>,
}

#[derive(Default)]
struct SourceState {
    asked: u64,
    waiting: VecDeque<(Judgement, Completer<Judgement>)>,
}

impl std::fmt::Debug for SourceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceState").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl SimulatedSource {
    /// Returns a source that answers on demand if it `is_late`.
    pub fn new(is_late: bool) -> Self {
        Self { is_late, ..Self::default() }
    }

    /// Answers the oldest question. Returns whether there was one.
    pub fn run_one(&self) -> bool {
        let Some((judgement, completer)) = lock(&self.state).waiting.pop_front() else { return false };
        completer.complete(judgement);
        true
    }
}

impl Source for SimulatedSource {
    fn takes(&self) -> Takes {
        Takes { passwords: true, tokens: true }
    }

    fn makes_accounts(&self) -> bool {
        true
    }

    fn judge(&self, proof: Proof) -> Judging {
        let mut state = lock(&self.state);
        state.asked += 1;
        let judgement = match proof {
            _ if state.asked.is_multiple_of(AWAY_EVERY) => Judgement::Away,
            Proof::Password { password, .. } if password == PASSWORD => {
                Judgement::Good { username: None, until_s: None }
            }
            Proof::Token(token) if token.starts_with(TOKEN) => {
                Judgement::Good { username: Some(token[TOKEN.len()..].to_owned()), until_s: None }
            }
            _ => Judgement::Bad { why: r#"{"status":"invalid_token"}"#.into() },
        };
        if !self.is_late {
            return Box::pin(ready(judgement));
        }
        let (completer, awaited) = one_shot();
        state.waiting.push_back((judgement, completer));
        Box::pin(async { awaited.await.unwrap_or(Judgement::Away) })
    }
}

/// Returns the token of an account's user, by the local part of its address.
pub(crate) fn token_of(local: &str) -> String {
    format!("{TOKEN}{local}")
}

/// The beginning of a good token.
const TOKEN: &str = "token.of.";
/// One question in this many finds the source unavailable.
const AWAY_EVERY: u64 = 7;
