//! Settings of rooms that operators change, and rooms that they create. They are applied through
//! the owner's form (XEP-0045 §10.2), so nothing is possible here that an owner couldn't do.

use rookery_hub::{Question, QuestionReply, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use serde::{Deserialize, Serialize};

use super::actor;
use super::config::{DESC, MEMBERS_ONLY, NAME, PERSISTENT, PUBLIC};
use super::operate::{PATIENCE_MS, ask};
use super::room::Room;
pub use super::work::{Arranged, WantedSettings};
use super::work::{FoundRoom, RoomTask};

/// Asks the home of a room to change its settings, or to make the room.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arrange {
    /// The bare JID of the room.
    pub room: Jid,
    /// The settings.
    pub wanted: WantedSettings,
    /// The owner of the room, if it is to be made.
    pub owner: Option<Jid>,
}

impl Question for Arrange {
    const NAME: &'static str = "rooms arrange";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = FoundRoom<Arranged>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let Self { room, wanted, owner } = self;
        ask(world, room, reply, |reply| RoomTask::Arrange(wanted, owner, reply));
    }
}

impl WantedSettings {
    fn form(&self) -> Form {
        let text = |form: Form, var, text: &Option<String>| match text {
            Some(text) => form.field(Field::text_single(var).value(text)),
            None => form,
        };
        let form = text(Form::new("submit"), NAME, &self.name);
        let form = text(form, DESC, &self.description);
        let switches =
            [(PUBLIC, self.is_public), (PERSISTENT, self.is_persistent), (MEMBERS_ONLY, self.is_members_only)];
        let switches = switches.into_iter().filter_map(|(var, switch)| Some(Field::boolean(var, switch?)));
        switches.fold(form, Form::field)
    }
}

impl Room {
    /// Changes the settings for an operator. With `makes`, the room has just been created.
    pub(super) fn arrange(
        &mut self,
        world: &mut World,
        wanted: &WantedSettings,
        makes: bool,
        reply: QuestionReply<FoundRoom<Arranged>>,
    ) {
        if makes && !self.is_locked {
            return reply.answer(world, Ok(Some(Arranged::Exists)));
        }
        let Ok(new) = self.config.with_submitted(&wanted.form(), &self.limits) else {
            return reply.answer(world, Ok(Some(Arranged::TooLong)));
        };
        self.reconfigure(world, new, |_, _| {});
        let (room, stays) = (self.jid.clone(), self.config.is_persistent);
        self.keep_configured(world, stays, Vec::new(), move |world, kept| {
            // The room may have no occupant whose leaving would end it.
            actor::drop_if_idle(world, &room);
            reply.answer(world, kept.map(|()| Some(Arranged::Done)));
        });
    }
}
