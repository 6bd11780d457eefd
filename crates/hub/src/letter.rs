//! Letters of a module on one shard to itself on another: data with a wire format.
//!
//! Within a process a letter travels as a value, so that the packets in it stay shared. To another
//! node it goes as bytes, as it does in tests that encode all mail, see [`World::encode_mail`].

use std::fmt;

use rookery_jid::{Jid, JidRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::World;
use crate::calls::CarriedLetter;
use crate::letter_versions::OLDEST_LETTERS;
use crate::mail::Mail;

/// A kind of letter, which is read on the shard that it arrives at.
///
/// The module that reads it declares the kind, see [`Hooks::letter`](crate::Hooks::letter). How
/// large a letter may get is for the module that writes it to bound.
pub trait Letter: Serialize + DeserializeOwned + fmt::Debug + Send + 'static {
    /// The name of the kind, which is unique: the module's, and the message.
    const NAME: &'static str;

    /// The first version of letters that has this kind. Nodes that understand only earlier ones
    /// don't get it.
    const SINCE: u16 = OLDEST_LETTERS;

    /// Carries the letter out.
    fn open(self, world: &mut World);

    /// Returns the address whose home reads the letter; `None` if it is for a shard, because it
    /// concerns data in that shard's memory.
    fn home(&self) -> Option<Jid> {
        None
    }

    /// Takes the letter back on the shard that wrote it: its reader's process is gone, and others
    /// have the homes. A letter for a home goes to the current one; a letter for a shard has no
    /// reader any more.
    fn again(self, world: &mut World) {
        if let Some(home) = self.home() {
            world.send_letter(world.home_of(home.as_ref()), self);
        }
    }

    /// Takes the letter back on the shard that has written it: it can't be brought to another node.
    /// A message in it is refused, so that its sender hears of that ([`World::bounce`]).
    fn refused(self, _: &mut World) {}
}

impl<L: Letter> CarriedLetter for L {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn since(&self) -> u16 {
        L::SINCE
    }

    fn home(&self) -> Option<Jid> {
        L::home(self)
    }

    fn open(self: Box<Self>, world: &mut World) {
        L::open(*self, world);
    }

    fn again(self: Box<Self>, world: &mut World) {
        L::again(*self, world);
    }

    fn refused(self: Box<Self>, world: &mut World) {
        L::refused(*self, world);
    }

    fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_allocvec(self)
    }
}

pub(crate) fn decode<L: Letter>(bytes: &[u8]) -> Result<Box<dyn CarriedLetter>, postcard::Error> {
    Ok(Box::new(postcard::from_bytes::<L>(bytes)?))
}

impl World {
    /// Sends a letter to a shard: opened here at once, elsewhere when the mail arrives.
    pub fn send_letter<L: Letter>(&mut self, shard: usize, letter: L) {
        debug_assert!(self.registry().letter_kind(L::NAME).is_some(), "no module declares the letter {:?}", L::NAME);
        if shard == self.shard() {
            letter.open(self);
        } else {
            self.post(shard, Mail::Letter(Box::new(letter)));
        }
    }

    /// Sends a letter to one shard of each other node that understands it, for what a process keeps
    /// for all of its shards. Nobody waits for it.
    pub fn tell_other_nodes<L: Letter + Clone>(&mut self, letter: &L) {
        for shard in self.other_nodes() {
            self.in_custody(None, |world| world.send_letter(shard, letter.clone()));
        }
    }

    /// Sends a letter to the home of an account or a room, which the letter [names](Letter::home).
    pub fn send_letter_home(&mut self, account: JidRef<'_>, letter: impl Letter) {
        debug_assert!(
            letter.home().is_some_and(|home| home.bare_str() == account.bare_str()),
            "a letter says itself whose home it is for"
        );
        self.send_letter(self.home_of(account), letter);
    }
}
