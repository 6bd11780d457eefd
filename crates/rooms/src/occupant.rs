//! An occupant of a room: a nick, the sessions behind it, and the presence that others see, built
//! once per form.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use rookery_fanout::Packet;
use rookery_jid::Jid;
use rookery_store::Affiliation;
use sha2::Sha256;

use super::rate::RoomBucket;
use super::role::RoomRole;

/// A nick in a room. Sessions of one account may share it (XEP-0045 §7.2.9): then the nick leaves
/// with the last of them, and shows the presence that was sent last.
#[derive(Debug)]
pub(crate) struct Occupant {
    /// The occupant JID: the room's address with the nick.
    pub jid: Jid,
    /// The account behind it.
    pub account: Jid,
    /// The account's affiliation.
    pub affiliation: Affiliation,
    /// Its role during this visit.
    pub role: RoomRole,
    /// Its sessions, at least one.
    pub seats: Vec<OccupantSeat>,
    /// Its stable pseudonym (XEP-0421).
    pub id: String,
    /// Its presence for occupants who may see its real JID; built on first use.
    pub open: Option<Packet>,
    /// Its presence as all others see it.
    pub veiled: Option<Packet>,
    /// The bucket that bounds the rate of its messages.
    pub pace: RoomBucket,
    /// The bucket that bounds the rate of everything else that it does.
    pub stir: RoomBucket,
}

/// A session in a room.
#[derive(Debug)]
pub(crate) struct OccupantSeat {
    /// The full JID.
    pub jid: Jid,
    /// Its last presence as it may be reflected: without claims that only the room may make.
    pub presence: Packet,
    /// A number that no other seat of the room has had.
    pub number: u64,
}

impl Occupant {
    /// Returns the name under which the room knows the occupant.
    pub(crate) fn nick(&self) -> &str {
        self.jid.resource().unwrap_or_default()
    }

    /// Returns the session that speaks for the nick: the last one.
    pub(crate) fn seat(&self) -> Option<&OccupantSeat> {
        self.seats.last()
    }

    /// Returns the addresses of all its sessions.
    pub(crate) fn addresses(&self) -> Vec<Jid> {
        self.seats.iter().map(|seat| seat.jid.clone()).collect()
    }

    /// Drops the built presence after a change; it is built again when it is needed.
    pub(crate) fn changed(&mut self) {
        (self.open, self.veiled) = (None, None);
    }
}

/// Returns the key by which nicks are compared: "Crone", "crone" and " crone " are one. `None` for
/// an invisible nick (§17.1).
///
/// A nick has passed Resourceprep already, so that only case and spaces can make a difference (RFC
/// 8266 §2.3 compares the same way).
pub(crate) fn nick_key(nick: &str) -> Option<String> {
    let mut key = String::with_capacity(nick.len());
    for word in nick.split_whitespace() {
        if !key.is_empty() {
            key.push(' ');
        }
        key.extend(word.chars().flat_map(char::to_lowercase));
    }
    let is_visible = |c: char| !c.is_whitespace() && !c.is_control() && !INVISIBLE.contains(&c);
    key.chars().any(is_visible).then_some(key)
}

/// Returns the stable pseudonym of an account in a room (XEP-0421 §4): without the room's secret,
/// it can't be traced to the account.
pub(crate) fn occupant_id(secret: &str, account: &Jid) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(account.bare_str().as_bytes());
    URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
}

/// Characters that aren't visible.
const INVISIBLE: [char; 6] = ['\u{115F}', '\u{1160}', '\u{3164}', '\u{FFA0}', '\u{2800}', '\u{180E}'];

/// The unreachable sessions of a room, which are about to leave.
#[derive(Debug, Default)]
pub(crate) struct LostSessions {
    pub sessions: BTreeSet<Jid>,
    /// Unreachable servers.
    pub servers: BTreeSet<String>,
}

impl LostSessions {
    /// Returns whether there are neither sessions nor servers.
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nicks_that_look_alike_are_one() {
        for alike in ["crone", "Crone", " crone", "CRONE  "] {
            assert_eq!(nick_key(alike).as_deref(), Some("crone"));
        }
        assert_eq!(nick_key("First  Witch"), nick_key("first witch"));
        assert_ne!(nick_key("firstwitch"), nick_key("first witch"));
        for invisible in [" ", "\u{3164}", "  \u{2800} "] {
            assert_eq!(nick_key(invisible), None);
        }
    }

    #[test]
    fn pseudonyms_depend_on_room_and_account_only() {
        let jid = |text| Jid::parse(text).unwrap();
        assert_eq!(occupant_id("a", &jid("crone@x/1")), occupant_id("a", &jid("crone@x/2")));
        assert_ne!(occupant_id("a", &jid("crone@x")), occupant_id("b", &jid("crone@x")));
        assert_ne!(occupant_id("a", &jid("crone@x")), occupant_id("a", &jid("hag@x")));
    }
}
