//! Presence as a room sends it: the occupant's own part, and roles, affiliations and codes, which
//! only the room may add.

use rookery_fanout::Packet;
use rookery_jid::Jid;
use rookery_store::Affiliation;
use rookery_xml::{Child, Element, Writer, ns};

use super::occupant::Occupant;
use super::role::{RoomRole, affiliation_name};

/// The parts of a presence beyond what the occupant shows (XEP-0045 §7.2.2).
#[derive(Debug, Clone, Default)]
pub(crate) struct ShownPresence<'a> {
    /// True if the presence says that the occupant is gone.
    pub is_gone: bool,
    /// The occupant's affiliation and role from now on, in place of its current ones.
    pub now: Option<(Affiliation, RoomRole)>,
    /// The nick that takes the place of this one (§7.6).
    pub nick: Option<&'a str>,
    /// The nick of the occupant that did this.
    pub actor: Option<&'a str>,
    /// The reason for a change, as the actor gave it.
    pub reason: Option<&'a str>,
    /// Status codes (§15.6).
    pub codes: Vec<u16>,
    /// The `<destroy/>` that tells of the room's end and of another one in its place (§10.9).
    pub destroy: Option<&'a Element>,
    /// The occupant's last presence, in place of what it showed.
    pub farewell: Option<&'a Packet>,
    /// The id of the stanza that this one is a reply to.
    pub id: Option<&'a str>,
}

impl ShownPresence<'_> {
    /// Returns whether the presence adds nothing to the occupant's own.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_gone && self.now.is_none() && self.actor.is_none() && self.reason.is_none() && self.codes.is_empty()
    }

    /// Returns a copy with one more code.
    #[must_use]
    pub(crate) fn with_code(&self, code: u16) -> Self {
        let mut shown = self.clone();
        shown.codes.push(code);
        shown.codes.sort_unstable();
        shown.codes.dedup();
        shown
    }
}

/// Returns the presence of an occupant. `jid` is the real one, for those who may see it.
pub(crate) fn presence(
    occupant: &Occupant,
    hats: &[Element],
    jid: Option<&Jid>,
    shown: &ShownPresence<'_>,
) -> Option<Packet> {
    let mut presence = Writer::new("presence");
    presence.opt_attr("type", shown.is_gone.then_some("unavailable"));
    presence.attr("from", occupant.jid.as_str()).opt_attr("id", shown.id);
    let content = if shown.is_gone { shown.farewell } else { occupant.seat().map(|seat| &seat.presence) };
    if let Some(content) = content {
        let stanza = content.stanza();
        presence.opt_attr("xml:lang", stanza.lang().as_deref());
        for child in stanza.children().filter(|child| !is_forged(child)) {
            presence.copy(&child);
        }
    }
    presence.start_ns("occupant-id", ns::OCCUPANT_ID).attr("id", &occupant.id).end();
    if !hats.is_empty() && !shown.is_gone {
        presence.start_ns("hats", ns::HATS);
        for hat in hats {
            presence.element(hat);
        }
        presence.end();
    }
    user(&mut presence, occupant, jid, shown);
    Packet::from_built(&presence.finish()).ok()
}

/// Writes the room's statement about an occupant: `<x/>` in `muc#user`.
fn user(presence: &mut Writer, occupant: &Occupant, jid: Option<&Jid>, shown: &ShownPresence<'_>) {
    let (affiliation, role) = shown.now.unwrap_or((occupant.affiliation, occupant.role));
    // §7.6: an occupant who changes the nick stays in the room.
    let role = if shown.is_gone && shown.nick.is_none() { RoomRole::None } else { role };
    presence.start_ns("x", ns::MUC_USER).start("item");
    presence.attr("affiliation", affiliation_name(affiliation)).opt_attr("jid", jid.map(Jid::as_str));
    presence.opt_attr("nick", shown.nick).attr("role", role.name());
    if let Some(actor) = shown.actor {
        presence.start("actor").attr("nick", actor).end();
    }
    if let Some(reason) = shown.reason {
        presence.text_child("reason", reason);
    }
    presence.end();
    if let Some(destroy) = shown.destroy {
        presence.element(destroy);
    }
    for code in &shown.codes {
        presence.start("status").attr("code", &code.to_string()).end();
    }
    presence.end();
}

/// Returns whether only the room may say this (§17.3), so that occupants must not.
pub(crate) fn is_forged(child: &Child<'_>) -> bool {
    match &*child.ns() {
        ns::MUC | ns::MUC_USER | ns::MUC_ADMIN | ns::MUC_OWNER | ns::OCCUPANT_ID | ns::HATS => true,
        // XEP-0203 §2: live presence has no delay, and a stamp would seem to be the room's.
        ns::DELAY => child.name() == "delay",
        _ => false,
    }
}
