//! The memory of commands between their stages.

use rookery_base::Map;
use std::collections::VecDeque;

use rookery_hub::{Bound, Most, Per, Unit};
use rookery_jid::Jid;
use rookery_modkit::form::Form;

/// The sessions of a shard.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Map<String, CommandSession>,
    /// The same by age, oldest first; one that was continued is listed more than once.
    by_age: VecDeque<(String, u64)>,
    /// The sessions that ended last.
    ended: VecDeque<String>,
}

/// A command that waits for a form.
#[derive(Debug, Clone)]
pub(super) struct CommandSession {
    /// The full JID that it belongs to.
    pub owner: Jid,
    /// The node of the command (XEP-0050), which a further stage has to name as well.
    pub node: &'static str,
    /// The filled-in forms; the waiting stage is the one after them.
    pub answers: Vec<Form>,
    /// The fields that the form requires.
    pub required: Vec<String>,
    /// The time when it began to wait, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The reason why a session doesn't exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// It isn't known, or it belongs to another user.
    Unknown,
    /// It was completed or cancelled, or dropped because it was too old or there were too many
    /// others.
    Ended,
}

impl Sessions {
    /// Keeps a session.
    pub fn put(&mut self, id: String, session: CommandSession) {
        self.sweep(session.at_ms);
        let of_owner = self.open.values().filter(|other| other.owner.bare() == session.owner.bare()).count();
        if of_owner >= MAX_PER_ACCOUNT {
            let oldest = self.open.iter().filter(|(_, other)| other.owner.bare() == session.owner.bare());
            let oldest = oldest.min_by_key(|(_, other)| other.at_ms).map(|(id, _)| id.clone());
            oldest.into_iter().for_each(|id| self.end(&id));
        }
        if self.open.len() >= MAX_SESSIONS
            && let Some((oldest, _)) = self.by_age.pop_front()
        {
            self.end(&oldest);
        }
        self.by_age.push_back((id.clone(), session.at_ms));
        self.open.insert(id, session);
    }

    /// Takes a session out to continue it.
    pub fn take(&mut self, id: &str, owner: &Jid, node: &str, now_ms: u64) -> Result<CommandSession, Gone> {
        self.sweep(now_ms);
        match self.open.get(id) {
            Some(found) if found.owner == *owner && found.node == node => self.open.remove(id).ok_or(Gone::Unknown),
            Some(_) => Err(Gone::Unknown),
            None if self.ended.iter().any(|ended| ended == id) => Err(Gone::Ended),
            None => Err(Gone::Unknown),
        }
    }

    /// Remembers that a session has ended.
    pub fn end(&mut self, id: &str) {
        self.open.remove(id);
        self.ended.push_back(id.to_owned());
        if self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
    }

    fn sweep(&mut self, now_ms: u64) {
        while let Some((id, at_ms)) = self.by_age.front() {
            let is_current = self.open.get(id).is_some_and(|session| session.at_ms == *at_ms);
            if is_current && now_ms.saturating_sub(*at_ms) < MAX_AGE_MS {
                return;
            }
            let id = id.clone();
            self.by_age.pop_front();
            if is_current {
                self.end(&id);
            }
        }
    }
}

/// The most sessions that a shard keeps.
const MAX_SESSIONS: usize = 10_000;
/// The most sessions of one account; a further one ends its oldest.
const MAX_PER_ACCOUNT: usize = 10;
/// The time for filling in a form, in milliseconds.
pub(super) const MAX_AGE_MS: u64 = 15 * 60_000;
/// The number of ended sessions that are remembered.
const REMEMBERED: usize = 1000;

/// The bounds of sessions, for the page of limits.
pub(super) const BOUNDS: &[Bound] = &[
    Bound::on("commands that wait for a form", Per::Account, Most::Fixed(MAX_PER_ACCOUNT as u64), Unit::Number)
        .or("the oldest of the account ends"),
    Bound::on("commands that wait for a form", Per::Shard, Most::Fixed(MAX_SESSIONS as u64), Unit::Number)
        .or("the oldest ends"),
    Bound::on("the time to fill in a form", Per::Other("command"), Most::Fixed(MAX_AGE_MS / 60_000), Unit::Minutes)
        .or("the command ends"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn session(owner: &str, at_ms: u64) -> CommandSession {
        let owner = Jid::parse(owner).unwrap();
        CommandSession { owner, node: "n", answers: Vec::new(), required: Vec::new(), at_ms }
    }

    fn take(sessions: &mut Sessions, id: &str, owner: &str, now_ms: u64) -> Result<(), Gone> {
        sessions.take(id, &Jid::parse(owner).unwrap(), "n", now_ms).map(drop)
    }

    #[test]
    fn a_session_belongs_to_its_owner_and_expires() {
        let mut sessions = Sessions::default();
        sessions.put("1".into(), session("a@x/r", 0));
        assert_eq!(take(&mut sessions, "1", "a@x/s", 1), Err(Gone::Unknown));
        assert_eq!(take(&mut sessions, "1", "a@x/r", 1), Ok(()));
        sessions.put("1".into(), session("a@x/r", 1000));
        assert_eq!(take(&mut sessions, "1", "a@x/r", MAX_AGE_MS), Ok(()), "it was continued");
        sessions.put("1".into(), session("a@x/r", 1000));
        assert_eq!(take(&mut sessions, "1", "a@x/r", 1000 + MAX_AGE_MS), Err(Gone::Ended));
        assert_eq!(take(&mut sessions, "2", "a@x/r", 0), Err(Gone::Unknown));
    }

    #[test]
    fn sessions_are_bounded() {
        let mut sessions = Sessions::default();
        sessions.put("other".into(), session("b@x/r", 0));
        for at in 0..100 {
            sessions.put(at.to_string(), session(&format!("a@x/{at}"), at));
        }
        assert_eq!(sessions.open.len(), 1 + MAX_PER_ACCOUNT);
        assert_eq!(take(&mut sessions, "0", "a@x/0", 100), Err(Gone::Ended));
        assert_eq!(take(&mut sessions, "99", "a@x/99", 100), Ok(()));
        for at in 0..MAX_SESSIONS + REMEMBERED {
            sessions.put(format!("n{at}"), session(&format!("u{at}@x/r"), 100));
        }
        assert_eq!(sessions.open.len(), MAX_SESSIONS);
        assert_eq!(sessions.ended.len(), REMEMBERED);
    }
}
