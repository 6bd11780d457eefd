//! Requests to a room itself, and the parts that handle them.

use rookery_hub::{Iq, World};
use rookery_modkit::request::is_get;
use rookery_stream::error::Condition;
use rookery_xml::ns;

use super::room::Room;

impl Room {
    /// Dispatches a request to the room.
    pub(crate) fn asked(&mut self, world: &mut World, iq: &Iq) {
        if let Err(error) = self.may_ask(world, iq) {
            return world.reply_error(iq, error);
        }
        let outcome = match (iq.payload.name(), iq.payload.ns()) {
            ("query", ns::MUC_ADMIN) => self.administer(world, iq),
            ("query", ns::MUC_OWNER) => self.owner_asked(world, iq),
            ("query", ns::REGISTER) => self.register(world, iq),
            ("moderate", ns::MODERATE) => self.moderate(world, iq),
            (_, ns::MAM) => self.archive_asked(world, iq),
            ("vCard", ns::VCARD) => self.vcard_asked(world, iq),
            (_, ns::DISCO_INFO) if is_get(world, iq, "query") => self.info(world, iq),
            (_, ns::COMMANDS) => self.run_command(world, iq),
            (_, ns::DISCO_ITEMS) if is_get(world, iq, "query") => self.items(world, iq),
            // XEP-0199: the room is there.
            (_, ns::PING) if is_get(world, iq, "ping") => {
                world.reply_done(iq);
                Ok(())
            }
            (_, ns::DISCO_INFO | ns::DISCO_ITEMS | ns::PING) => Ok(()),
            _ => Err(Condition::ServiceUnavailable.into()),
        };
        if let Err(error) = outcome {
            world.reply_error(iq, error);
        }
    }
}
