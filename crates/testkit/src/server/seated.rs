//! A server that is one process of a cluster: the test carries the letters and assigns the homes
//! ([`Seat`]).

use std::sync::Arc;

use rookery_fanout::{Station, View};
use rookery_hub::{Custody, JournalFields, ReturnedMail};
use rookery_shard::{Envelope, MailboxKind};

use super::Server;
use crate::seat::Seat;

impl Server {
    /// Starts another process in place of this one at this time, whatever this one is doing.
    pub fn begin_again(&self, seat: Seat, now_ms: u64) {
        let mut running = self.0.borrow_mut();
        running.config.seat = Some(seat);
        running.now_ms = running.now_ms.max(now_ms);
        running.kill();
    }

    /// Gives a shard letters from a shard of another node, in their order. All consequences share
    /// the custody.
    pub fn deliver(&self, shard: usize, from: Station, letters: Vec<(MailboxKind, Vec<u8>)>, custody: Option<Custody>) {
        self.0.borrow().nodes.send(shard, Envelope::Afar(from, letters, custody));
    }

    /// Makes all shards write all of their journals again.
    pub fn rewrite_journal(&self, era: u64) {
        let running = self.0.borrow();
        (0..running.shards.len()).for_each(|shard| running.nodes.send(shard, Envelope::RewriteJournal(era)));
    }

    /// Gives a shard the data that it has requested from the journal of a process.
    pub fn recovered(&self, shard: usize, process: (u16, u32), fields: JournalFields) {
        self.0.borrow().nodes.send(shard, Envelope::Recovered(process, fields));
    }

    /// Gives a shard its own mail back: the recipient's home is elsewhere now or, if the mail is
    /// refused, can't be reached.
    pub fn give_back(&self, shard: usize, mail: Vec<u8>, custody: Option<Custody>, is_refused: bool) {
        let envelope = if is_refused { Envelope::Refused(mail, custody) } else { Envelope::Again(mail, custody) };
        self.0.borrow().nodes.send(shard, envelope);
    }

    /// Makes all shards use these homes from now on, and send mail again that the former ones
    /// haven't handled, each with the shard that wrote it.
    pub fn go_by(&self, view: &Arc<View>, returned: Vec<(u16, ReturnedMail)>) {
        let running = self.0.borrow();
        let mut of_shards: Vec<_> = running.shards.iter().map(|_| Vec::new()).collect();
        returned.into_iter().for_each(|(shard, mail)| of_shards[usize::from(shard)].push(mail));
        for (shard, returned) in of_shards.into_iter().enumerate() {
            running.nodes.send(shard, Envelope::View(view.clone(), returned));
        }
    }

    /// Informs all shards that a process of another node is silent.
    pub fn note_silent(&self, node: u16, incarnation: u32) {
        let running = self.0.borrow();
        (0..running.shards.len()).for_each(|shard| running.nodes.send(shard, Envelope::Silent(node, incarnation)));
    }

    /// Informs all shards that a process of another node is gone.
    pub fn note_departed(&self, node: u16, incarnation: u32) {
        let running = self.0.borrow();
        (0..running.shards.len()).for_each(|shard| running.nodes.send(shard, Envelope::Departed(node, incarnation)));
    }

    /// Refuses clients from now on: the node leaves its cluster.
    pub fn shut_out(&self) {
        let running = self.0.borrow();
        (0..running.shards.len()).for_each(|shard| running.nodes.send(shard, Envelope::Shut));
    }

    /// Returns whether all shards have handed on everything to other nodes.
    pub fn has_moved_out(&self) -> bool {
        let running = self.0.borrow();
        running.shards.iter().all(|shard| shard.is_shut() && shard.world.has_moved_out())
    }

    /// Begins to stop, without further work: for tests that choose the order themselves.
    pub fn begin_to_stop(&self) {
        let running = self.0.borrow();
        (0..running.shards.len()).for_each(|shard| running.nodes.send(shard, Envelope::Stop { hands_on: false }));
    }
}
