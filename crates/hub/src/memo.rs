//! Memos of a module on one shard to itself on another: data with a wire format.
//!
//! Within a process a memo travels as a value, so that the packets in it stay shared. To another
//! node it goes as bytes, as it does in tests that encode all mail, see [`World::encode_mail`].

use std::fmt;

use rookery_jid::{Jid, JidRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::World;
use crate::calls::CarriedMemo;
use crate::letter_versions::OLDEST_LETTERS;
use crate::mail::Mail;

/// A kind of memo, which is read on the shard that it arrives at.
///
/// The module that reads it declares the kind, see [`Hooks::memo`](crate::Hooks::memo). How
/// large a memo may get is for the module that writes it to bound.
pub trait Memo: Serialize + DeserializeOwned + fmt::Debug + Send + 'static {
    /// The name of the kind, which is unique: the module's, and the message.
    const NAME: &'static str;

    /// The first version of letters that has this kind. Nodes that understand only earlier ones
    /// don't get it.
    const SINCE: u16 = OLDEST_LETTERS;

    /// Carries the memo out.
    fn open(self, world: &mut World);

    /// Returns the address whose home reads the memo; `None` if it is for a shard, because it
    /// concerns data in that shard's memory.
    fn home(&self) -> Option<Jid> {
        None
    }

    /// Takes the memo back on the shard that wrote it: its reader's process is gone, and others
    /// have the homes. A memo for a home goes to the current one; a memo for a shard has no
    /// reader any more.
    fn again(self, world: &mut World) {
        if let Some(home) = self.home() {
            world.send_memo(world.home_of(home.as_ref()), self);
        }
    }

    /// Takes the memo back on the shard that wrote it: it can't be delivered to another node. A
    /// message in it is refused, so that its sender hears of that ([`World::bounce`]).
    fn refused(self, _: &mut World) {}
}

impl<L: Memo> CarriedMemo for L {
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

pub(crate) fn decode<L: Memo>(bytes: &[u8]) -> Result<Box<dyn CarriedMemo>, postcard::Error> {
    Ok(Box::new(postcard::from_bytes::<L>(bytes)?))
}

impl World {
    /// Sends a memo to a shard: opened here at once, elsewhere when the mail arrives.
    pub fn send_memo<L: Memo>(&mut self, shard: usize, memo: L) {
        debug_assert!(self.registry().memo_kind(L::NAME).is_some(), "no module declares the memo {:?}", L::NAME);
        if shard == self.shard() {
            memo.open(self);
        } else {
            self.post(shard, Mail::Memo(Box::new(memo)));
        }
    }

    /// Sends a memo to one shard of each other node that understands it, about data that a process
    /// keeps for all of its shards. There is no confirmation.
    pub fn tell_other_nodes<L: Memo + Clone>(&mut self, memo: &L) {
        for shard in self.other_nodes() {
            self.in_custody(None, |world| world.send_memo(shard, memo.clone()));
        }
    }

    /// Sends a memo to all shards of other nodes that understand it; it arrives before everything
    /// that this shard sends them later. There is no confirmation.
    pub fn tell_shards_elsewhere<L: Memo + Clone>(&mut self, memo: &L) {
        let own = self.here.view.own();
        for shard in self.other_shards().into_iter().filter(|shard| *shard >= own) {
            self.in_custody(None, |world| world.send_memo(shard, memo.clone()));
        }
    }

    /// Sends a memo to the home of an account or a room, which the memo [names](Memo::home).
    pub fn send_memo_home(&mut self, account: JidRef<'_>, memo: impl Memo) {
        debug_assert!(
            memo.home().is_some_and(|home| home.bare_str() == account.bare_str()),
            "a memo says itself whose home it is for"
        );
        self.send_memo(self.home_of(account), memo);
    }
}
