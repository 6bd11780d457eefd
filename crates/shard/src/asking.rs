//! Queries about logins: a connection asks the world, once the gate permits it, and its machine
//! gets the answer.

use std::cmp::Reverse;

use rookery_fanout::Link;
use rookery_hub::LoginAnswer;
use rookery_jid::Jid;

use crate::attempts::{CountsAt, Whence};
use crate::connection::{ConnectionStage, LoginQuestion};
use crate::driver::Driver;
use crate::shard::{Shard, ShardTimer};
use crate::telling;

impl<D: Driver> Shard<D> {
    /// Asks the world a login question: at once, later, or not at all if similar attempts have
    /// failed too often.
    pub(crate) fn ask(&mut self, link: Link, question: LoginQuestion) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let ConnectionStage::Negotiating(negotiation) = &mut connection.stage else { return };
        let (account, client, counts) = match &question {
            LoginQuestion::Credentials(account) | LoginQuestion::Verify(account, _) => {
                (account.as_str(), negotiation.machine.installation(), CountsAt::Everywhere)
            }
            LoginQuestion::Tokens(account, client) => (account.as_str(), Some(client.as_str()), CountsAt::Nowhere),
            // Nobody can guess a signature, but checking it costs time. The attempt counts for the
            // name in the token, so that a place where that account has logged in is known.
            LoginQuestion::Bearer(_, host, wanted) => {
                (wanted.as_ref().map_or(&**host, Jid::as_str), negotiation.machine.installation(), CountsAt::Address)
            }
        };
        let whence = Whence { address: connection.peer.ip(), account, client, counts };
        telling::tell(&self.common.gate, &mut self.world);
        let begun = self.common.gate.begin(whence, &self.common.generation.logins, self.timing.now_ms);
        let (attempt, wait) = match begun {
            Ok((attempt, wait)) => (Some(attempt), wait),
            Err(_) => (None, REFUSAL_MS),
        };
        negotiation.attempt = attempt;
        negotiation.begun.get_or_insert((self.timing.now_ms, 0)).1 += wait;
        if wait == 0 {
            return self.ask_now(link, question);
        }
        negotiation.waiting = Some(question);
        self.timing.timers.push(Reverse((self.timing.now_ms + wait, link, connection.serial, ShardTimer::Attempt)));
    }

    /// Continues an attempt whose wait is over, either for its turn or for its refusal.
    pub(crate) fn turn_has_come(&mut self, link: Link) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let ConnectionStage::Negotiating(negotiation) = &mut connection.stage else { return };
        let Some(question) = negotiation.waiting.take() else { return };
        match negotiation.attempt {
            Some(_) => self.ask_now(link, question),
            None => self.login_answer(self.key_of(link), LoginAnswer::Failed),
        }
    }

    fn ask_now(&mut self, link: Link, question: LoginQuestion) {
        let key = self.key_of(link);
        match question {
            LoginQuestion::Credentials(account) => self.world.look_up(key, account),
            LoginQuestion::Tokens(account, client) => self.world.look_up_tokens(key, account, &client),
            LoginQuestion::Bearer(token, host, wanted) => self.world.identify(key, &host, token, wanted),
            LoginQuestion::Verify(account, password) => {
                let decoy = self.common.generation.policy.decoy.clone();
                self.world.verify(key, account, password, decoy);
            }
        }
    }

    /// Answers the machine of a connection that logs in.
    pub(crate) fn login_answer(&mut self, key: u64, answer: LoginAnswer) {
        let Some(link) = self.connection_of(key) else { return };
        let mut out = Vec::new();
        let now = self.world.time() / 1000;
        self.with_machine(link, |machine| match answer {
            LoginAnswer::Credentials(found) => machine.credentials(found.as_deref(), &mut out),
            LoginAnswer::Disabled(found) => machine.disabled(&found, &mut out),
            LoginAnswer::Verified(correct) => machine.verified(correct, &mut out),
            LoginAnswer::Identified(account, until_s) => machine.identified(account, until_s, &mut out),
            LoginAnswer::BearerRefused(why) => machine.bearer_refused(&why, &mut out),
            LoginAnswer::Tokens(found) => machine.tokens(&found, now, &mut out),
            LoginAnswer::Token(issued) => machine.token(issued.as_ref()),
            LoginAnswer::VerifiedDisabled => machine.verified_disabled(&mut out),
            LoginAnswer::Failed => machine.store_failed(&mut out),
        });
        self.answered(link, &out);
    }
}

/// The milliseconds after which an attempt without a turn is refused, so that a client that repeats
/// it immediately does so less often.
const REFUSAL_MS: u64 = 2_000;
