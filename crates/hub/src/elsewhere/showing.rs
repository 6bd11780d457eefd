//! Shows components the presence of contacts on other servers, and probes silent ones. Kept
//! separate from the remembered data, so that the world can hold that.

use rookery_fanout::Packet;
use rookery_jid::{Jid, JidRef};
use rookery_store::StoreError;
use serde::{Deserialize, Serialize};

use super::LOOK_MS;
use crate::World;
use crate::memo::Memo;
use crate::presence::probe;
use crate::session::SessionContact;

/// Shows components the presence of a contact that is for an account, at the home of the contact.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShowContact(Packet, Jid);

impl Memo for ShowContact {
    const NAME: &'static str = "hub contact elsewhere";

    fn open(self, world: &mut World) {
        let Self(packet, account) = self;
        let Some(from) = packet.sender() else { return };
        let onlookers = world.catalogue.onlookers_elsewhere.clone();
        if onlookers.is_empty() || !world.out.elsewhere.is_new(&from, &packet, account, world.clock.now_ms) {
            return;
        }
        if !std::mem::replace(&mut world.out.elsewhere.is_watched, true) {
            world.after(LOOK_MS, look_for_the_silent);
        }
        for component in onlookers.iter().filter(|component| component.domain() != from.domain()) {
            world.route(&packet, component.as_ref());
        }
    }

    fn home(&self) -> Option<Jid> {
        self.0.sender()
    }
}

impl World {
    /// Shows presence that has come for an account from another server to the components that may
    /// see it. It doesn't matter whether the account has a session.
    pub(crate) fn show_contact_to_components(&mut self, user: Option<u32>, packet: &Packet, to: JidRef<'_>) {
        if self.catalogue.onlookers_elsewhere.is_empty() {
            return;
        }
        let Some(from) = packet.sender().filter(|from| !self.is_here(from.domain())) else { return };
        let (owner, packet) = (to.bare().to_jid(), packet.clone());
        if let Some(user) = user.and_then(|user| self.people.users.get(user as usize)) {
            let name = self.people.names.find(self.hash(from.bare_str()), from.bare_str());
            if name.and_then(|name| user.contact(name)).is_some_and(SessionContact::to) {
                self.send_memo_home(from.as_ref(), ShowContact(packet, owner));
            }
            return;
        }
        let item = self.stores.rosters.item(to.bare(), from.bare());
        self.wait(item, move |world, item| match item {
            Ok(Some(item)) if item.subscription.to() => {
                world.send_memo_home(from.as_ref(), ShowContact(packet, owner));
            }
            Ok(_) | Err(StoreError::NoAccount) => {}
            Err(error) => world.store_failed("showing presence to a component", &owner, &error),
        });
    }
}

/// Probes contacts that have been silent for long.
fn look_for_the_silent(world: &mut World) {
    let asked = world.out.elsewhere.silent(world.clock.now_ms);
    for (contact, account) in asked {
        if world.federates()
            && let Some(probe) = probe(&account)
        {
            world.route_away(&probe, contact.as_ref());
        }
    }
    world.out.elsewhere.is_watched = !world.out.elsewhere.seen.is_empty();
    if world.out.elsewhere.is_watched {
        world.after(LOOK_MS, look_for_the_silent);
    }
}
