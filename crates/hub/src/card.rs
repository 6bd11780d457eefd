//! Session cards: the data that a stopping server leaves about a session with stream management,
//! so that the next process can continue it (XEP-0198 §5).
//!
//! A card describes one session and nothing of its process: any shard that becomes home to the
//! account can read it. It has only the data that nobody else has; data in the store, such as
//! contacts and block lists, is read from there again.
//!
//! # Invariants
//!
//! * A card has two layers. The outer one, with the unacknowledged stanzas, keeps its format; the
//!   state of the session within has a version of its own. So a server that doesn't know that
//!   version can still deliver the stanzas as for a session that has ended.
//! * It doesn't contain the id by which a client resumes, only a digest: reading a card isn't
//!   enough to impersonate the client.
//! * Everything that is read is validated again: stanzas are scanned, addresses prepared, presence
//!   must be the session's own, and no text gets into a stanza unescaped. Any bytes are a valid
//!   card or are refused.

use std::fmt;
use std::net::SocketAddr;

use rookery_base::Map;
use rookery_fanout::{Carried, CarriedStanza, Packet, StanzaType, To};
use rookery_jid::Jid;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use sha2::{Digest as _, Sha256};

/// The digest of the id by which a client comes back to its session.
pub(crate) type IdDigest = [u8; 32];

/// Returns the digest of an id.
pub(crate) fn digest(id: &str) -> IdDigest {
    Sha256::digest(id.as_bytes()).into()
}

/// A part of a world that continues in another process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Card {
    /// A session that a client may resume (XEP-0198 §5).
    Session(Box<SessionCard>),
    /// A memo of a module to itself: the text whose home reads it, the name of the memo's kind, and
    /// the memo's bytes.
    Memo(String, String, ByteBuf),
}

/// A session that continues in another process.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionCard {
    pub(crate) jid: Jid,
    /// The time of day until which it can be resumed, in milliseconds since 1970.
    pub(crate) until_ms: u64,
    /// The stanzas that the client hasn't acknowledged, then those that waited.
    pub(crate) stanzas: Vec<CardStanza>,
    /// The version of a [`CardState`], and then that state.
    state: ByteBuf,
}

/// A stanza that the client of a session has not acknowledged.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CardStanza {
    pub packet: Packet,
    to: CardTo,
    paced: bool,
    /// The stanza's place in the order of all stanzas for sessions of the account.
    pub number: u64,
    /// The time of day when it came, in milliseconds since 1970, if that is known.
    pub came_ms: Option<u64>,
}

/// The stamp rule of a stanza, see [`To`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum CardTo {
    Full,
    Bare,
    Copy,
}

/// The state of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CardState {
    pub stream: CardCounts,
    pub shown: CardShown,
    pub lang: Option<String>,
    pub interested: bool,
    pub carbons: bool,
    pub directed: Vec<Jid>,
    pub peer: SocketAddr,
    /// The parts of modules, by their names.
    pub modules: Vec<(String, ByteBuf)>,
    /// True if the server stopped the connection, so that the user hasn't been notified yet of
    /// stanzas that the client may have missed.
    pub is_uncalled: bool,
}

/// The state of a session's stream management.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CardCounts {
    pub id: IdDigest,
    /// The seconds that the client was promised.
    pub seconds: u32,
    /// Stanzas of the client that were handled.
    pub handled: u32,
    /// The number of handled stanzas before the first refusal that the client may not have heard
    /// of.
    pub doubtful: Option<u32>,
    /// Stanzas that the client has acknowledged.
    pub acknowledged: u32,
    /// The number of the card's stanzas that were sent, from the first on.
    pub sent: u32,
}

/// The counts of a session's stream management that change with every stanza.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CardTally {
    pub(crate) handled: u32,
    pub(crate) doubtful: Option<u32>,
    pub(crate) acknowledged: u32,
    /// The number of stanzas at the end that were certainly not sent, because they came while the
    /// client of a session that continues from a journal wasn't back. The client may have got more
    /// than that journal had, but none of these, so the count that it reports doesn't include them.
    pub(crate) unsent: u32,
}

/// The part of a session that others see.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CardShown {
    pub presence: Option<Packet>,
    pub priority: i8,
    /// The number in the order of stanzas from which it accepted messages to the bare JID.
    pub reachable_since: u64,
}

/// The reasons why bytes aren't a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardError {
    /// It was written by another version of this server.
    Version(Option<u8>),
    /// Its bytes aren't valid.
    Malformed(String),
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "its version is {version:?}; this server reads version {VERSION}"),
            Self::Malformed(why) => write!(f, "malformed: {why}"),
        }
    }
}

impl std::error::Error for CardError {}

impl Card {
    /// Returns the wire form: the version, then the card.
    ///
    /// # Errors
    /// Something in it never leaves its shard.
    pub fn encode(&self) -> Result<Vec<u8>, CardError> {
        postcard::to_extend(self, vec![VERSION]).map_err(|why| CardError::Malformed(why.to_string()))
    }

    /// Reads a card from its wire form.
    ///
    /// # Errors
    /// The bytes aren't a card of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CardError> {
        match bytes.split_first() {
            Some((&VERSION, card)) => postcard::from_bytes(card).map_err(|why| CardError::Malformed(why.to_string())),
            first => Err(CardError::Version(first.map(|(version, _)| *version))),
        }
    }

    /// Returns the text that determines the home of the card.
    pub fn home(&self) -> &str {
        match self {
            Self::Session(card) => card.jid.bare_str(),
            Self::Memo(home, ..) => home,
        }
    }
}

impl SessionCard {
    /// Makes the card of a session. `came` tells when a stanza with a number came.
    pub(crate) fn new(
        jid: Jid,
        until_ms: u64,
        carried: Carried,
        mut state: CardState,
        came: impl Fn(u64) -> Option<u64>,
    ) -> Result<Self, CardError> {
        state.stream.acknowledged = carried.acknowledged;
        state.stream.sent = carried.unacked.len() as u32;
        let all = carried.unacked.into_iter().chain(carried.waiting);
        let stanzas = all.map(|stanza| CardStanza::of(stanza, &came)).collect();
        let state = postcard::to_extend(&state, vec![STATE_VERSION]);
        let state = state.map_err(|why| CardError::Malformed(why.to_string()))?;
        Ok(Self { jid, until_ms, stanzas, state: ByteBuf::from(state) })
    }

    /// Returns the address that the client last came from, if the state can be read.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.state().ok().map(|state| state.peer)
    }

    /// Reads the state of the session.
    ///
    /// # Errors
    /// It is of another version, is damaged, or describes a state that no session can have.
    pub(crate) fn state(&self) -> Result<CardState, CardError> {
        let state: CardState = match self.state.split_first() {
            Some((&STATE_VERSION, state)) => {
                postcard::from_bytes(state).map_err(|why| CardError::Malformed(why.to_string()))?
            }
            first => return Err(CardError::Version(first.map(|(version, _)| *version))),
        };
        let is_own = |presence: &Packet| {
            presence.type_() == StanzaType::Available && presence.sender().as_ref() == Some(&self.jid)
        };
        if state.shown.presence.as_ref().is_some_and(|presence| !is_own(presence)) {
            return Err(CardError::Malformed("the presence is not that of the session".into()));
        }
        if state.lang.as_deref().is_some_and(|lang| !is_escaped(lang)) {
            return Err(CardError::Malformed("the language is no value of an attribute".into()));
        }
        Ok(state)
    }

    /// Returns the card of a session with additional data from a journal.
    pub(crate) fn with_journal(mut self, stanzas: Vec<CardStanza>, counts: CardTally) -> Result<Self, CardError> {
        let sent = (stanzas.len() as u32).saturating_sub(counts.unsent);
        self.stanzas = stanzas;
        // A card of another version can't continue; its stanzas are delivered as after the end of a
        // session.
        if let Ok(mut state) = self.state() {
            let CardTally { handled, doubtful, acknowledged, .. } = counts;
            state.stream = CardCounts { handled, doubtful, acknowledged, sent, ..state.stream };
            state.modules.retain(|(name, _)| name != RECOVERED);
            state.modules.push((RECOVERED.to_owned(), ByteBuf::new()));
            let state = postcard::to_extend(&state, vec![STATE_VERSION]);
            self.state = ByteBuf::from(state.map_err(|why| CardError::Malformed(why.to_string()))?);
        }
        Ok(self)
    }

    /// Returns the stanzas for an outbox, of which the first `sent` were sent.
    pub(crate) fn take_stanzas(&mut self, acknowledged: u32, sent: u32) -> Carried {
        let mut unacked: Vec<_> = std::mem::take(&mut self.stanzas).into_iter().map(CarriedStanza::from).collect();
        let waiting = unacked.split_off(unacked.len().min(sent as usize));
        Carried { acknowledged, unacked, waiting }
    }
}

impl CardStanza {
    fn of(stanza: CarriedStanza, came: impl Fn(u64) -> Option<u64>) -> Self {
        Self {
            to: match stanza.to {
                To::Full | To::Nobody => CardTo::Full,
                To::Bare | To::Kept => CardTo::Bare,
                To::Copy => CardTo::Copy,
            },
            paced: stanza.paced,
            number: stanza.number,
            came_ms: came(stanza.number),
            packet: stanza.packet,
        }
    }
}

/// Returns the wire form of a stanza that the client of a session has not acknowledged.
pub(crate) fn encode_stanza(stanza: CarriedStanza, came: impl Fn(u64) -> Option<u64>) -> Option<Vec<u8>> {
    postcard::to_allocvec(&CardStanza::of(stanza, came)).ok()
}

impl From<CardStanza> for CarriedStanza {
    fn from(stanza: CardStanza) -> Self {
        let CardStanza { packet, paced, number, to, .. } = stanza;
        let to = match to {
            CardTo::Full => To::Full,
            CardTo::Bare => To::Bare,
            CardTo::Copy => To::Copy,
        };
        Self { packet, to, paced, number }
    }
}

/// Returns whether a text can stand in an attribute without being escaped.
fn is_escaped(text: &str) -> bool {
    !text.contains(['<', '>', '"', '\'']) && Packet::from_bytes(format!("<message a='{text}'/>").as_bytes()).is_ok()
}

/// The times at which stanzas came: each stanza's number in the order, and the time of day.
pub(crate) type CardTimes = Vec<(u64, u64)>;

/// Numbers the stanzas of cards in the order of this process, from `first` on. Stanzas of one
/// account keep their order among all of its sessions, which were on one shard.
pub(crate) fn renumber(cards: &mut [(SessionCard, Option<CardState>)], first: u64) -> CardTimes {
    let mut order = Vec::new();
    for (index, (card, _)) in cards.iter_mut().enumerate() {
        let mut latest = 0;
        for (at, stanza) in card.stanzas.iter().enumerate() {
            // The clock may have gone back, but the stanzas have not.
            latest = latest.max(stanza.came_ms.unwrap_or_default());
            order.push((latest, stanza.number, index, at));
        }
    }
    order.sort_unstable();
    let (mut times, mut numbers) = (CardTimes::new(), Map::<String, Vec<(u64, u64)>>::default());
    for (number, (came_ms, old, index, at)) in (first..).zip(order) {
        let Some((card, _)) = cards.get_mut(index) else { continue };
        numbers.entry(card.jid.bare_str().to_owned()).or_default().push((old, number));
        if let Some(stanza) = card.stanzas.get_mut(at) {
            stanza.number = number;
        }
        if came_ms > 0 {
            times.push((number, came_ms));
        }
    }
    for (card, state) in cards {
        let Some(state) = state else { continue };
        let all = numbers.get(card.jid.bare_str()).into_iter().flatten();
        let before = all.filter(|(old, _)| *old < state.shown.reachable_since);
        state.shown.reachable_since = before.map(|(_, new)| new + 1).max().unwrap_or_default();
    }
    times
}

/// Lets several sessions of one account share their copies of one message to the bare JID, as they
/// did in the previous process, so that the copies are recognised as the same message.
pub(crate) fn share(cards: &mut [(SessionCard, Option<CardState>)]) {
    let mut known = Map::<Box<[u8]>, Vec<Packet>>::default();
    for (card, _) in cards {
        // A session may have got two that look alike.
        let mut seen = Map::<Box<[u8]>, usize>::default();
        for stanza in card.stanzas.iter_mut().filter(|stanza| matches!(stanza.to, CardTo::Bare)) {
            let bytes: Box<[u8]> = stanza.packet.bytes().into();
            let before = seen.entry(bytes.clone()).or_default();
            let known = known.entry(bytes).or_default();
            match known.get(*before) {
                Some(packet) => stanza.packet = packet.clone(),
                None => known.push(stanza.packet.clone()),
            }
            *before += 1;
        }
    }
}

/// Marks, among the parts of modules, a session that continues from a journal.
pub(crate) const RECOVERED: &str = "journal";
/// The version of the outer layer: the first byte of a card.
const VERSION: u8 = 1;
/// The version of [`CardState`]: its first byte.
const STATE_VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(body: &str) -> Packet {
        Packet::from_bytes(format!("<message from='a@x/r'><body>{body}</body></message>").as_bytes()).unwrap()
    }

    fn state() -> CardState {
        CardState {
            stream: CardCounts {
                id: digest("secret"),
                seconds: 300,
                handled: 7,
                doubtful: Some(5),
                acknowledged: 0,
                sent: 0,
            },
            shown: CardShown {
                presence: Some(
                    Packet::from_bytes(b"<presence from='u@x/r'><priority>3</priority></presence>").unwrap(),
                ),
                priority: 3,
                reachable_since: 11,
            },
            lang: Some("de".into()),
            interested: true,
            carbons: true,
            directed: vec![Jid::parse("b@x").unwrap()],
            peer: "192.0.2.1:5222".parse().unwrap(),
            modules: vec![("privacy".into(), ByteBuf::from(vec![1]))],
            is_uncalled: true,
        }
    }

    fn card(jid: &str, numbers: &[u64], came: impl Fn(u64) -> Option<u64>) -> SessionCard {
        let stanza =
            |&number: &u64| CarriedStanza { packet: packet(&number.to_string()), to: To::Bare, paced: false, number };
        let (unacked, waiting) = (numbers.iter().map(stanza).collect(), Vec::new());
        SessionCard::new(Jid::parse(jid).unwrap(), 5000, Carried { acknowledged: 3, unacked, waiting }, state(), came)
            .unwrap()
    }

    #[test]
    fn a_card_is_the_same_in_another_process() {
        let written = Card::Session(Box::new(card("u@x/r", &[10, 12], Some))).encode().unwrap();
        let read = Card::decode(&written).unwrap();
        assert_eq!(read.home(), "u@x");
        let Card::Session(mut read) = read else { panic!("a session") };
        let found = read.state().unwrap();
        let stream = &found.stream;
        assert_eq!((stream.id, stream.handled, stream.acknowledged, stream.sent), (digest("secret"), 7, 3, 2));
        assert_eq!((found.shown.presence.map(|presence| presence.bytes().to_vec()), found.directed), {
            let state = state();
            (state.shown.presence.map(|presence| presence.bytes().to_vec()), state.directed)
        });
        let carried = read.take_stanzas(3, 2);
        let bytes: Vec<_> = carried.unacked.iter().map(|stanza| stanza.packet.bytes().to_vec()).collect();
        assert_eq!(bytes, [packet("10").bytes(), packet("12").bytes()]);
    }

    #[test]
    fn the_id_is_not_in_a_card() {
        let written = Card::Session(Box::new(card("u@x/r", &[], Some))).encode().unwrap();
        assert!(!written.windows(6).any(|window| window == b"secret"));
    }

    #[test]
    fn a_card_of_another_version_still_has_its_stanzas() {
        let mut later = card("u@x/r", &[10], Some);
        later.state[0] = STATE_VERSION + 1;
        let Card::Session(read) = Card::decode(&Card::Session(Box::new(later)).encode().unwrap()).unwrap() else {
            panic!("a session")
        };
        assert_eq!(read.state().unwrap_err(), CardError::Version(Some(STATE_VERSION + 1)));
        assert_eq!(read.stanzas.len(), 1);
        assert_eq!(Card::decode(&[VERSION + 1]).unwrap_err(), CardError::Version(Some(VERSION + 1)));
        assert_eq!(Card::decode(&[]).unwrap_err(), CardError::Version(None));
    }

    #[test]
    fn stanzas_keep_their_order_and_their_times() {
        let one = card("u@x/1", &[10, 30], |number| Some(number * 100));
        let two = card("u@x/2", &[20, 30, 40], |number| Some(number * 100));
        // Another shard has counted otherwise.
        let other = card("v@x/1", &[5, 6], |number| Some(number * 500));
        let mut cards: Vec<_> = [one, two, other].into_iter().map(|card| (card, Some(state()))).collect();
        cards[1].1.as_mut().unwrap().shown.reachable_since = 25;
        let times = renumber(&mut cards, 100);
        let numbers = |at: usize| cards[at].0.stanzas.iter().map(|stanza| stanza.number).collect::<Vec<_>>();
        assert_eq!((numbers(0), numbers(1), numbers(2)), (vec![100, 104], vec![101, 105, 106], vec![102, 103]));
        let reachable_since = |at: usize| cards[at].1.as_ref().unwrap().shown.reachable_since;
        assert_eq!(reachable_since(0), 101, "behind 10, before 20");
        assert_eq!(reachable_since(1), 102, "behind 20, before 30");
        assert_eq!(reachable_since(2), 104, "behind all of its own");
        assert!(times.is_sorted() && times.len() == 7);
    }

    #[test]
    fn what_two_sessions_got_of_a_message_is_one() {
        let card = |bodies: &[&str]| {
            let stanza = |body: &&str| CarriedStanza { packet: packet(body), to: To::Bare, paced: false, number: 1 };
            let (unacked, waiting) = (bodies.iter().map(stanza).collect(), Vec::new());
            let carried = Carried { acknowledged: 3, unacked, waiting };
            (SessionCard::new(Jid::parse("u@x/r").unwrap(), 0, carried, state(), Some).unwrap(), None)
        };
        let mut cards = [card(&["a", "a", "b"]), card(&["b", "a", "c"])];
        share(&mut cards);
        let at = |card: usize, stanza: usize| cards[card].0.stanzas[stanza].packet.bytes().as_ptr();
        assert_eq!((at(0, 2), at(0, 0)), (at(1, 0), at(1, 1)));
        assert!(at(0, 0) != at(0, 1) && at(1, 2) != at(0, 2), "two that look alike are two");
    }

    #[test]
    fn a_card_can_not_speak_for_others() {
        let read = |change: &dyn Fn(&mut CardState)| {
            let mut state = state();
            change(&mut state);
            SessionCard::new(Jid::parse("u@x/r").unwrap(), 0, Carried::default(), state, Some).unwrap().state()
        };
        assert!(read(&|_| {}).is_ok() && read(&|state| state.lang = Some("a&amp;b".into())).is_ok());
        for lang in ["de' from='v@x", "<x/>", "a&b"] {
            let found = read(&|state| state.lang = Some(lang.into()));
            assert!(matches!(found, Err(CardError::Malformed(_))), "{lang}");
        }
        for presence in ["<presence from='v@x/r'/>", "<message from='u@x/r'/>", "<presence from='u@x/r' type='probe'/>"]
        {
            let presence = Packet::from_bytes(presence.as_bytes()).unwrap();
            let found = read(&|state| state.shown.presence = Some(presence.clone()));
            assert!(matches!(found, Err(CardError::Malformed(_))), "{presence:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_a_card_or_refused(bytes: Vec<u8>) {
            let _ = Card::decode(&bytes);
        }

        #[test]
        fn a_damaged_card_is_a_card_or_refused(at: prop::sample::Index, with: u8, cut: prop::sample::Index) {
            let mut written = Card::Session(Box::new(card("u@x/r", &[10, 12], Some))).encode().unwrap();
            let place = at.index(written.len());
            written[place] = with;
            for bytes in [&written[..], &written[..cut.index(written.len())]] {
                if let Ok(Card::Session(card)) = Card::decode(bytes) {
                    let _ = card.state();
                }
            }
        }
    }
}
