//! Shows components the presence of contacts on other servers. Apart from what is remembered of it,
//! so that the world can hold that.

use rookery_fanout::Packet;
use rookery_jid::{Jid, JidRef};
use rookery_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::World;
use crate::letter::Letter;
use crate::session::Contact;

/// Shows components the presence of a contact, at the home of that.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown(Packet);

impl Letter for Shown {
    const NAME: &'static str = "hub contact elsewhere";

    fn open(self, world: &mut World) {
        let Some(from) = self.0.sender() else { return };
        let onlookers = world.catalogue.onlookers_elsewhere.clone();
        if onlookers.is_empty() || !world.out.elsewhere.is_new(from.as_str(), &self.0) {
            return;
        }
        for component in onlookers.iter().filter(|component| component.domain() != from.domain()) {
            world.route(&self.0, component.as_ref());
        }
    }

    fn home(&self) -> Option<Jid> {
        self.0.sender()
    }
}

impl World {
    /// Shows presence that has come for an account from elsewhere to the components that may see
    /// it. Whether the account has a session doesn't matter.
    pub(crate) fn show_contact_to_components(&mut self, user: Option<u32>, packet: &Packet, to: JidRef<'_>) {
        if self.catalogue.onlookers_elsewhere.is_empty() {
            return;
        }
        let Some(from) = packet.sender().filter(|from| !self.is_here(from.domain())) else { return };
        if let Some(user) = user.and_then(|user| self.people.users.get(user as usize)) {
            let name = self.people.names.find(self.hash(from.bare_str()), from.bare_str());
            if name.and_then(|name| user.contact(name)).is_some_and(Contact::to) {
                self.send_letter_home(from.as_ref(), Shown(packet.clone()));
            }
            return;
        }
        let item = self.stores.rosters.item(to.bare(), from.bare());
        let (owner, packet) = (to.bare().to_jid(), packet.clone());
        self.wait(item, move |world, item| match item {
            Ok(Some(item)) if item.subscription.to() => {
                world.send_letter_home(from.as_ref(), Shown(packet));
            }
            Ok(_) | Err(StoreError::NoAccount) => {}
            Err(error) => world.store_failed("showing presence to a component", &owner, &error),
        });
    }
}
