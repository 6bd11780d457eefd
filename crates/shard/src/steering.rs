//! Clients that logged in at a node other than their home, and are told where their home is.
//!
//! If a client follows, its messages are spared one trip between nodes. If it doesn't, it is served
//! where it is: an account is told once a minute at most, and its next login goes through.
//!
//! # Invariants
//!
//! * Only the home tells a client, since it sees all logins of the account: so no client is sent
//!   from node to node.
//! * The name of another host is only sent over TLS (RFC 6120 §4.9.3.19), and after login, so that
//!   nobody else can use up an account's turn.

use rookery_base::{Map, Transport};
use rookery_jid::Jid;
use rookery_observe::bound::{Bound, Most, Per, Unit};

/// The accounts that were told recently where their home is.
#[derive(Debug, Default)]
pub(crate) struct SteeredAccounts {
    /// The times until which they aren't told again, on the clock of timers.
    until_ms: Map<Jid, u64>,
}

impl SteeredAccounts {
    /// Returns whether a client of the account is to be told now, and notes that it is.
    pub(crate) fn is_due(&mut self, account: &Jid, now_ms: u64) -> bool {
        if self.until_ms.get(account).is_some_and(|until_ms| now_ms < *until_ms) {
            return false;
        }
        if self.until_ms.len() >= MOST_ACCOUNTS {
            self.until_ms.retain(|_, until_ms| now_ms < *until_ms);
        }
        let has_room = self.until_ms.len() < MOST_ACCOUNTS;
        if has_room {
            self.until_ms.insert(account.clone(), now_ms + TURN_MS);
        }
        has_room
    }
}

/// Returns whether a client on this kind of connection can follow: `<see-other-host/>` names the
/// host of a TCP connection.
pub(crate) fn can_follow(transport: Transport, is_secure: bool) -> bool {
    transport == Transport::Tcp && is_secure
}

/// The time within which an account is told only once.
const TURN_MS: u64 = 60_000;
/// Accounts that are remembered.
const MOST_ACCOUNTS: usize = 20_000;
/// The bounds of this memory.
pub const BOUNDS: &[Bound] = &[Bound::on(
    "accounts whose clients were told within the last minute to log in at their home node",
    Per::Shard,
    Most::Fixed(MOST_ACCOUNTS as u64),
    Unit::Number,
)
.or("the client of a further one is served where it is")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_told_once_a_minute() {
        let mut steered = SteeredAccounts::default();
        let [romeo, juliet] = ["romeo@a.example", "juliet@a.example"].map(|text| Jid::parse(text).unwrap());
        let told = [(&romeo, 0), (&romeo, 1000), (&juliet, 1000), (&romeo, TURN_MS - 1), (&romeo, TURN_MS)];
        assert_eq!(told.map(|(jid, now_ms)| steered.is_due(jid, now_ms)), [true, false, true, false, true]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut steered = SteeredAccounts::default();
        let jid = |number: usize| Jid::parse(&format!("{number}@a.example")).unwrap();
        assert!((0..MOST_ACCOUNTS).all(|number| steered.is_due(&jid(number), 0)));
        assert!(!steered.is_due(&jid(MOST_ACCOUNTS), 1));
        assert!(steered.is_due(&jid(MOST_ACCOUNTS), TURN_MS));
        assert_eq!(steered.until_ms.len(), 1);
    }

    #[test]
    fn only_encrypted_streams_can_follow() {
        let cases = [(Transport::Tcp, true), (Transport::Tcp, false), (Transport::WebSocket, true)];
        assert_eq!(cases.map(|(transport, is_secure)| can_follow(transport, is_secure)), [true, false, false]);
    }
}
