//! Leaving a room (XEP-0045 §7.14), being removed (§8.2, §9.1), and the presence that others get
//! then.

use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::Affiliation;
use rookery_xml::{Element, ns};

use super::directory::Directory;
use super::occupant::{Occupant, nick_key};
use super::role::RoomRole;
use super::room::Room;
use super::shown::{ShownPresence, is_forged, presence};

impl Room {
    /// Lets a session leave, by its own presence or because it ends.
    pub(crate) fn leave(&mut self, world: &mut World, packet: &Packet, session: &Jid) {
        let farewell = packet.without_children(is_forged);
        let id = packet.id();
        let shown =
            ShownPresence { is_gone: true, farewell: Some(&farewell), id: id.as_deref(), ..ShownPresence::default() };
        self.unseat(world, session, &shown);
    }

    /// Takes one session out, and tells the others if its occupant leaves with it.
    fn unseat(&mut self, world: &mut World, session: &Jid, shown: &ShownPresence<'_>) {
        let parted = self.take_seat(world, session, shown);
        self.tell_parted(world, parted.as_ref(), shown);
    }

    /// Takes one session out. The occupant leaves with its last session, and is returned then: the
    /// others are still to be told.
    pub(crate) fn take_seat(
        &mut self,
        world: &mut World,
        session: &Jid,
        shown: &ShownPresence<'_>,
    ) -> Option<Occupant> {
        let at = self.occupant_of(session)?;
        let occupant = self.occupants.get_mut(at)?;
        if occupant.seats.len() <= 1 {
            return self.remove(world, at, shown);
        }
        occupant.seats.retain(|seat| seat.jid != *session);
        occupant.changed();
        let role = occupant.role;
        self.leave_seat(world, session);
        world.strike(self.roll(role), session.as_ref());
        if let Some(packet) = self.own_presence(at, session, shown) {
            world.route(&packet, session.as_ref());
        }
        self.announce(world, at, &ShownPresence::default());
        None
    }

    /// Takes an occupant out and tells its sessions. The others are told by [`Room::tell_parted`].
    pub(crate) fn remove(&mut self, world: &mut World, at: usize, shown: &ShownPresence<'_>) -> Option<Occupant> {
        self.log_going(world, at, shown);
        let mut occupant = self.occupants.try_remove(at)?;
        self.note_pace(world, &occupant);
        self.moderating.remove(&at);
        if let Some(key) = nick_key(occupant.nick()) {
            self.nicks.remove(&key);
        }
        for seat in &occupant.seats {
            self.leave_seat(world, &seat.jid);
            world.strike(self.roll(occupant.role), seat.jid.as_ref());
        }
        if let Some((affiliation, _)) = shown.now {
            occupant.affiliation = affiliation;
        }
        let own = shown.with_code(110);
        for seat in &occupant.seats {
            if let Some(packet) = presence(&occupant, &[], Some(&seat.jid), &own) {
                world.route(&packet, seat.jid.as_ref());
            }
        }
        Some(occupant)
    }

    fn leave_seat(&mut self, world: &World, session: &Jid) {
        if self.seats.remove(session).is_some() {
            world.state::<Directory>().holdings.leave_seat(session.as_ref(), world.is_here(session.domain()));
        }
    }

    /// Tells the remaining occupants that one has left.
    pub(crate) fn tell_parted(&mut self, world: &mut World, occupant: Option<&Occupant>, shown: &ShownPresence<'_>) {
        let Some(occupant) = occupant.filter(|occupant| self.is_broadcast(occupant.role)) else { return };
        let shown = ShownPresence { id: None, ..shown.clone() };
        let real = occupant.seat().map(|seat| &seat.jid);
        if let Some(packet) = presence(occupant, &[], real, &shown).filter(|_| !self.moderators.is_empty()) {
            world.fan_out_roll(&packet, &self.moderators, &[]);
        }
        let real = real.filter(|_| self.config.is_nonanonymous);
        if let Some(packet) = presence(occupant, &[], real, &shown).filter(|_| !self.others.is_empty()) {
            world.fan_out_roll(&packet, &self.others, &[]);
        }
    }

    /// Takes all occupants out because the room is destroyed (§10.9): each gets its own presence
    /// only.
    pub(crate) fn remove_all(&mut self, world: &mut World, codes: Vec<u16>, destroy: Option<&Element>) {
        // §10.9: an affiliation ends with its room.
        let now = destroy.map(|_| (Affiliation::None, RoomRole::None));
        let shown = ShownPresence { is_gone: true, codes, destroy, now, ..ShownPresence::default() };
        for at in self.occupants.iter().map(|(at, _)| at).collect::<Vec<_>>() {
            self.remove(world, at, &shown);
        }
    }
}

/// Returns the `<destroy/>` that occupants get (§10.9), from the one that the owner sent.
pub(crate) fn destroy_element(asked: &Element) -> Element {
    let mut destroy = Element::new("destroy", ns::MUC_USER).with_opt_attr("jid", asked.attr("jid"));
    for name in ["password", "reason"] {
        if let Some(text) = asked.child_text(name, asked.ns()) {
            destroy.push_child(Element::new(name, ns::MUC_USER).with_text(text));
        }
    }
    destroy
}
