//! Refusing requests that are not what their schema says.

use rookery_hub::{Iq, World};
use rookery_stream::error::Condition;

/// Whether a request is of type get with this payload element. If not, its sender is told (`bad-request`, RFC 6120 §8.3.3.1).
pub(crate) fn is_get(world: &mut World, iq: &Iq, name: &str) -> bool {
    let well_formed = !iq.set && iq.payload.name() == name;
    if !well_formed {
        world.reply_error(iq, Condition::BadRequest);
    }
    well_formed
}
