//! Registration with a token: pre-authenticated in-band registration (XEP-0445).
//!
//! A token that was shown once counts for its connection until that ends, whether it expires
//! meanwhile or not (§3); only a successful registration uses it up.

use std::collections::VecDeque;

use rookery_hub::failure::condition;
use rookery_hub::{Guest, Iq, World};
use rookery_store::Invitation;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::ns;

use super::NAME;

/// The tokens that connections of this shard have shown.
#[derive(Debug, Default)]
pub(super) struct ShownTokens(VecDeque<(u64, Invitation)>);

impl ShownTokens {
    /// Returns the invitation that a connection has shown.
    pub fn of(&self, guest: Guest) -> Option<Invitation> {
        self.0.iter().find(|(connection, _)| *connection == guest.connection).map(|(_, found)| found.clone())
    }

    /// Forgets an invitation that was used.
    pub fn forget(&mut self, token: &str) {
        self.0.retain(|(_, shown)| shown.token != token);
    }

    fn put(&mut self, guest: Guest, invitation: Invitation) {
        self.0.retain(|(connection, _)| *connection != guest.connection);
        if self.0.len() == MAX_SHOWN {
            self.0.pop_front();
        }
        self.0.push_back((guest.connection, invitation));
    }
}

/// Replies to `<preauth/>`.
pub(super) fn preauth(world: &mut World, guest: Guest, iq: Iq) {
    let is_on = world.options(iq.to.domain(), NAME).is_some();
    let token = iq.payload.attr("token").filter(|_| iq.set && iq.payload.is("preauth", ns::PREAUTH));
    let Some(token) = token.filter(|_| is_on) else {
        return world.refuse_guest(guest, &iq, Condition::BadRequest);
    };
    let found = world.stores.invitations.get(token, world.time());
    world.wait(found, move |world, found| match found {
        Ok(Some(invitation)) if invitation.domain == iq.to.domain() => {
            world.state_mut::<ShownTokens>().put(guest, invitation);
            world.reply_to_guest(guest, iq.result());
        }
        Ok(_) => {
            let error = StanzaError::new(Condition::ItemNotFound);
            world.refuse_guest(guest, &iq, error.with_text("the token is invalid or expired"));
        }
        Err(error) => {
            world.store_failed("looking a token up", &iq.to, &error);
            world.refuse_guest(guest, &iq, condition(&error));
        }
    });
}

/// The most tokens that a shard remembers; the oldest make room.
const MAX_SHOWN: usize = 1000;
