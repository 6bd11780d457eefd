//! The memory of both ends of a line, with which it can continue at another home. The front has
//! those bytes of the client that a new home could lack. The home knows up to which of them
//! everything is safe.
//!
//! # Invariants
//!
//! * The front has all bytes of the client after the end of a stanza whose number it knows;
//!   otherwise the line can't continue. So its memory is bounded and delays nobody.
//! * If a home reports something impossible, the line can't continue.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU32;

use rookery_fanout::Station;
use rookery_jid::Jid;
use rookery_stream::c2s::{HandOver, LaterHandOver};
use serde::{Deserialize, Serialize};

/// The session of a line: the data that its front needs to continue it at another home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LineSession {
    /// Its full JID.
    pub jid: Jid,
    /// The digest of the id by which the client could resume it.
    pub id: [u8; 32],
    /// The number of the connection.
    pub line: u64,
    /// The seconds for which it waits for its client.
    pub seconds: u32,
    /// True if the client says that it is inactive.
    pub is_inactive: bool,
    /// The time at which the client came: see [`crate::connection::ConnectionStage::Bound`].
    pub since_s: u32,
    /// The time at which the client has to log in again, if there is one: see there.
    pub until_s: Option<NonZeroU32>,
    /// Prefixes that the header of the stream declared.
    pub prefixes: Vec<(String, String)>,
}

/// The point up to which both directions of a line are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LineMark {
    /// The number of the session's written stanzas, all of which are complete.
    pub sent: u32,
    /// The number of the client's bytes that are safe, and the number of its stanza with which they
    /// end.
    pub safe: Option<(u64, u32)>,
}

/// A client whose session had its home elsewhere.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reattach {
    /// The address that it comes from.
    pub peer: SocketAddr,
    /// True for a WebSocket, false for TCP.
    pub is_websocket: bool,
    /// The session as the front knew it.
    pub session: LineSession,
    /// The stanzas that it was sent.
    pub sent: u32,
    /// The number of its stanza after which the following bytes begin.
    pub handled: u32,
    /// The number of these bytes that another home may know already.
    pub kept: u32,
}

/// A client that has logged in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Attach {
    /// The address that it comes from.
    pub peer: SocketAddr,
    /// True for a WebSocket, false for TCP.
    pub is_websocket: bool,
    /// The state of its stream.
    pub stream: HandOver,
    /// The bytes of the stream that it has sent and that were not processed.
    #[serde(with = "serde_bytes")]
    pub carry: Vec<u8>,
    /// The bytes of frames of its WebSocket that were not processed.
    #[serde(with = "serde_bytes")]
    pub kept: Vec<u8>,
    /// The part of the stream's state that 0.2.0 neither sends nor reads.
    pub later: LaterHandOver,
}

impl Attach {
    /// Returns the state of the stream.
    pub(crate) fn stream(&self) -> HandOver {
        self.stream.clone().with_later(self.later)
    }
}

/// A client that has logged in, and to which its home has written nothing since: another home can
/// begin with it from here.
#[derive(Debug)]
pub(crate) struct FrontLogin {
    /// The message that the home was given.
    pub attach: Attach,
    /// The time until which the client waits for other homes, on the shard's clock, if one has
    /// failed it.
    pub until_ms: Option<u64>,
}

/// A client that waits for the new home of its session.
#[derive(Debug)]
pub(crate) struct AwaitedHome {
    /// The time until which it waits, on the shard's clock.
    pub until_ms: u64,
    /// The shard that was asked to continue.
    pub asked: Option<Station>,
}

/// A client of another node that waits for its session.
#[derive(Debug)]
pub(crate) struct WaitingReattach {
    pub front: Station,
    pub key: u64,
    pub until_ms: u64,
    pub reattach: Reattach,
}

/// The data that the front keeps, so that its client can continue at another home.
#[derive(Debug, Default)]
pub(crate) struct FrontMemory {
    session: Option<Box<LineSession>>,
    /// The login, until the home has written anything to the client.
    login: Option<Box<FrontLogin>>,
    /// See [`LineMark::sent`]; `None` in the middle of a stanza.
    sent: Option<u32>,
    /// The bytes of the client that have gone to the home.
    passed: u64,
    /// The last of these bytes, and the number of those before.
    kept: Vec<u8>,
    kept_from: u64,
    /// The number of the stanza that these bytes follow.
    handled: Option<u32>,
    /// Set while the line has no home.
    pub(crate) awaits: Option<Box<AwaitedHome>>,
}

impl FrontMemory {
    /// Returns the memory of a line that has begun with this number of the client's bytes.
    fn new(passed: usize) -> Self {
        Self { passed: passed as u64, kept_from: passed as u64, ..Self::default() }
    }

    /// Returns the memory of the line of a client that has just logged in.
    pub(crate) fn with_login(attach: Attach) -> Self {
        let passed = attach.carry.len() + attach.kept.len();
        let login = Some(Box::new(FrontLogin { attach, until_ms: None }));
        Self { login, ..Self::new(passed) }
    }

    /// Returns the memory of a connection that is to continue at another home from its current
    /// state.
    pub(crate) fn standing(session: LineSession, sent: u32, handled: u32, kept: Vec<u8>) -> Self {
        let mut memory = Self { passed: kept.len() as u64, kept, ..Self::default() };
        memory.note_session(session);
        Self { sent: Some(sent), handled: Some(handled), ..memory }
    }

    /// Notes the session that the home has reported. One that declares too many prefixes is
    /// forgotten: its client can't follow.
    pub(crate) fn note_session(&mut self, session: LineSession) {
        let size: usize = session.prefixes.iter().map(|(prefix, name)| prefix.len() + name.len()).sum();
        self.session = Some(Box::new(session)).filter(|_| size <= MOST_PREFIXES);
        self.login = None;
    }

    /// Keeps bytes of the client that go to the home.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.passed += bytes.len() as u64;
        // The home reports the session a little later than it knows it.
        let most = if self.session.is_some() { MOST_KEPT } else { MOST_KEPT_EARLY };
        if self.kept.len() + bytes.len() > most {
            return self.forget_kept();
        }
        self.kept.extend_from_slice(bytes);
    }

    fn forget_kept(&mut self) {
        (self.kept, self.kept_from, self.handled) = (Vec::new(), self.passed, None);
        self.login = None;
    }

    /// Notes that the home has written bytes that end within a stanza.
    pub(crate) fn begin_stanza(&mut self) {
        self.sent = None;
        self.login = None;
    }

    /// Notes how far the home has processed the client's bytes.
    pub(crate) fn mark(&mut self, mark: LineMark) {
        self.sent = Some(mark.sent);
        self.login = None;
        let Some((offset, handled)) = mark.safe else { return };
        // The report may be older than data that has been forgotten here.
        let Some(done) = offset.checked_sub(self.kept_from) else { return };
        match usize::try_from(done).ok().filter(|done| *done <= self.kept.len()) {
            None => self.forget_kept(),
            Some(done) => {
                self.kept.drain(..done);
                (self.kept_from, self.handled) = (offset, Some(handled));
                if self.kept.is_empty() {
                    self.kept = Vec::new();
                }
            }
        }
    }

    /// Returns the session, if the line can continue at another home.
    pub(crate) fn session(&self) -> Option<&LineSession> {
        self.session.as_deref().filter(|_| self.sent.is_some() && self.handled.is_some())
    }

    /// Returns the login of the client, if its home has written nothing to it since.
    pub(crate) fn login(&mut self) -> Option<&mut FrontLogin> {
        self.login.as_deref_mut()
    }

    /// Returns what another home needs to begin with a client that has logged in: the state of the
    /// stream at that time, and all bytes that the client has sent since.
    pub(crate) fn log_in_again(&self) -> Option<(Attach, Vec<u8>)> {
        let login = self.login.as_ref()?;
        Some((login.attach.clone(), self.kept.clone()))
    }

    /// Returns the message for a new home; `None` if the line can't continue.
    pub(crate) fn reattach(&self, peer: SocketAddr, is_websocket: bool) -> Option<Reattach> {
        let (session, sent, handled) = (self.session()?.clone(), self.sent?, self.handled?);
        Some(Reattach { peer, is_websocket, session, sent, handled, kept: self.kept.len() as u32 })
    }

    /// Begins with another home. Returns the bytes that go there.
    pub(crate) fn begin_again(&mut self) -> Vec<u8> {
        self.awaits = None;
        (self.passed, self.kept_from) = (0, 0);
        std::mem::take(&mut self.kept)
    }
}

/// The data that the home keeps about one line, so that the front knows which bytes are safe.
#[derive(Debug)]
pub(crate) struct HomeMemory {
    /// The number of the connection.
    pub(crate) line: u64,
    /// The id of the session that the front knows, and whether its client is inactive.
    pub(crate) told: Option<([u8; 32], bool)>,
    /// Points up to which everything was given to the world: bytes, and the number of the last
    /// stanza.
    reached: VecDeque<(u64, u32)>,
    safe: Option<(u64, u32)>,
    /// The bytes that the front knows to be safe.
    safe_told: Option<u64>,
}

impl HomeMemory {
    /// Returns the memory of a line that begins.
    pub(crate) fn new(line: u64) -> Self {
        Self { line, told: None, reached: VecDeque::new(), safe: None, safe_told: None }
    }

    /// Returns the memory of a continued line: its front knows its session, and keeps the bytes
    /// after the stanza with this number.
    pub(crate) fn again(session: &LineSession, handled: u32) -> Self {
        let told = Some((session.id, session.is_inactive));
        Self { told, safe: Some((0, handled)), safe_told: Some(0), ..Self::new(session.line) }
    }

    /// Notes the number of bytes passed to the world, and of the last stanza.
    pub(crate) fn reach(&mut self, bytes: u64, handled: u32) {
        let last = self.reached.back().copied().or(self.safe);
        if last.is_some_and(|(last, _)| last >= bytes) {
            return;
        }
        let is_full = self.reached.len() >= MOST_REACHED;
        match self.reached.back_mut() {
            Some(last) if is_full || last.1 == handled => *last = (bytes, handled),
            _ => self.reached.push_back((bytes, handled)),
        }
    }

    /// Notes that this number of stanzas is safe.
    pub(crate) fn settle(&mut self, safe: u32) {
        let is_safe = |(_, handled): &mut (u64, u32)| safe.wrapping_sub(*handled) <= i32::MAX as u32;
        while let Some(reached) = self.reached.pop_front_if(is_safe) {
            self.safe = Some(reached);
        }
    }

    /// Returns the safe position, if the front doesn't know it; with `is_urgent` even if it has
    /// hardly changed.
    pub(crate) fn news(&self, is_urgent: bool) -> Option<(u64, u32)> {
        let (bytes, handled) = self.safe?;
        let is_due = self.safe_told.is_none_or(|told| bytes > told && (is_urgent || bytes - told >= SAFE_SHARE));
        is_due.then_some((bytes, handled))
    }

    /// Notes that the front is told the safe position.
    pub(crate) fn told_safe(&mut self, safe: Option<(u64, u32)>) {
        if let Some((bytes, _)) = safe {
            self.safe_told = Some(bytes);
        }
    }
}

/// Milliseconds between two checks of waits for homes or sessions.
pub(crate) const LOOK_MS: u64 = 250;
/// The bytes of a client that its front keeps until they are safe. If there are more, the line
/// can't continue elsewhere for the time being.
pub(crate) const MOST_KEPT: usize = 32 * 1024;
/// The bytes that the front keeps before it knows whether there is a session that can continue.
const MOST_KEPT_EARLY: usize = 4 * 1024;
/// Bytes of the prefixes that the header of a stream has declared, if the line is to continue.
const MOST_PREFIXES: usize = 16 * 1024;
/// Points that a home remembers.
const MOST_REACHED: usize = 64;
/// Safe bytes after which the front is told of them, if there is nothing else to tell it.
const SAFE_SHARE: u64 = 2 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> LineSession {
        LineSession {
            jid: Jid::parse("a@x/r").unwrap(),
            id: [7; 32],
            line: 9,
            seconds: 300,
            is_inactive: false,
            since_s: 1,
            until_s: None,
            prefixes: Vec::new(),
        }
    }

    fn front() -> FrontMemory {
        let mut front = FrontMemory::new(5);
        front.pass(b"before");
        front.note_session(session());
        front
    }

    fn told_counts(front: &FrontMemory) -> Option<(u32, u32, u32)> {
        let reattach = front.reattach("192.0.2.1:1".parse().unwrap(), false)?;
        Some((reattach.sent, reattach.handled, reattach.kept))
    }

    #[test]
    fn a_front_keeps_what_is_not_safe() {
        let mut front = front();
        front.pass(b"0123456789");
        front.mark(LineMark { sent: 1, safe: None });
        assert_eq!(told_counts(&front), None, "nobody knows what its bytes follow");
        front.mark(LineMark { sent: 2, safe: Some((13, 4)) });
        assert_eq!(told_counts(&front), Some((2, 4, 8)));
        front.mark(LineMark { sent: 3, safe: Some((10, 3)) });
        assert_eq!(told_counts(&front), Some((3, 4, 8)), "that is older");
        front.begin_stanza();
        assert_eq!(told_counts(&front), None);
        front.mark(LineMark { sent: 4, safe: Some((21, 9)) });
        assert_eq!(told_counts(&front), Some((4, 9, 0)));
        front.pass(b"abc");
        assert_eq!(front.begin_again(), b"abc");
        front.pass(b"abc");
        front.mark(LineMark { sent: 5, safe: Some((2, 10)) });
        assert_eq!(told_counts(&front), Some((5, 10, 1)));
    }

    #[test]
    fn a_front_keeps_little_and_believes_no_nonsense() {
        let mut front = front();
        front.mark(LineMark { sent: 0, safe: Some((11, 0)) });
        assert_eq!(told_counts(&front), Some((0, 0, 0)));
        front.pass(&[0; MOST_KEPT]);
        assert_eq!(told_counts(&front), Some((0, 0, MOST_KEPT as u32)));
        front.pass(&[0]);
        assert_eq!((told_counts(&front), front.kept.capacity()), (None, 0));
        front.mark(LineMark { sent: 0, safe: Some((11 + MOST_KEPT as u64, 1)) });
        assert_eq!(told_counts(&front), None, "a byte of it is missing");
        front.mark(LineMark { sent: 0, safe: Some((12 + MOST_KEPT as u64, 2)) });
        assert_eq!(told_counts(&front), Some((0, 2, 0)));
        for bytes in [13 + MOST_KEPT as u64, u64::MAX] {
            front.mark(LineMark { sent: 0, safe: Some((12 + MOST_KEPT as u64, 2)) });
            front.mark(LineMark { sent: 0, safe: Some((bytes, 3)) });
            assert_eq!(told_counts(&front), None, "nobody has sent that");
        }
    }

    #[test]
    fn a_home_tells_what_the_journal_has() {
        let mut home = HomeMemory::new(1);
        home.reach(100, u32::MAX - 1);
        home.reach(200, u32::MAX);
        home.reach(250, u32::MAX);
        home.reach(300, 1);
        assert_eq!(home.news(true), None);
        home.settle(u32::MAX - 1);
        assert_eq!(home.news(false), Some((100, u32::MAX - 1)), "the first is told at once");
        home.told_safe(Some((100, u32::MAX - 1)));
        home.settle(0);
        assert_eq!((home.news(false), home.news(true)), (None, Some((250, u32::MAX))));
        home.reach(10_000, 2);
        home.settle(2);
        assert_eq!(home.news(false), Some((10_000, 2)));
        (0..1000).for_each(|number| home.reach(20_000 + number, 3 + number as u32));
        assert_eq!(home.reached.len(), MOST_REACHED);
    }
}
