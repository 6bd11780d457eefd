//! Homes that move to other nodes, and come from there, while clients are served.
//!
//! A session that leaves loses its connection as at a stop for the next process
//! ([`crate::handover`]): without a word, so that its client comes back to it, by whichever node. A
//! client whose account is on its way to this node waits with its login until all has come.

use rookery_fanout::Link;
use rookery_hub::Custody;
use rookery_jid::Jid;

use crate::connection::ConnectionStage;
use crate::driver::Driver;
use crate::handover::peers;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Goes on with what moves, if its time has come. `true` if anything did.
    pub(crate) fn move_on(&mut self) -> bool {
        if !self.world.is_moving() {
            return false;
        }
        let mut any = false;
        if let Some(links) = self.world.begin_parting() {
            self.part_with(links);
            any = true;
        }
        if self.timing.leaving.is_empty() && self.world.may_pack() {
            let peer_of = peers(&self.connections);
            for link in self.world.pack(peer_of) {
                self.connections.remove(link);
            }
            any = true;
        }
        if let Some(cards) = self.world.take_arrived() {
            let (custody, _) = Custody::apart();
            self.go_on(cards, custody);
            self.world.arrived();
            self.let_in();
            any = true;
        }
        any
    }

    /// Lets sessions come to rest that leave for another node. Logins to their accounts end: their
    /// clients begin again, and find the new home.
    fn part_with(&mut self, links: Vec<Link>) {
        let is_gone = |account: Option<&Jid>| {
            account.is_some_and(|account| self.world.home_of(account.as_ref()) != self.index())
        };
        let logins = self.connections.iter().filter(|(_, connection)| match &connection.stage {
            ConnectionStage::Negotiating(negotiation) => is_gone(negotiation.machine.account()),
            _ => false,
        });
        let logins: Vec<Link> = logins.map(|(link, _)| link).collect();
        logins.into_iter().for_each(|link| self.lost(link));
        self.leave(links);
    }

    /// Brings a connection that has logged in into the home of its account.
    pub(crate) fn enter_home(&mut self, link: Link) {
        match self.is_early(link) {
            true => self.keep_out(link),
            false => self.input(link, &mut []),
        }
    }

    /// Returns whether a client has logged in whose account has still to come here.
    pub(crate) fn is_early(&mut self, link: Link) -> bool {
        if !self.world.is_moving() {
            return false;
        }
        let account = self.with_machine(link, |machine| machine.account().cloned()).flatten();
        account.is_some_and(|account| self.world.is_expected(account.as_str()))
    }

    /// Lets a client wait that is early.
    pub(crate) fn keep_out(&mut self, link: Link) {
        self.asked(link, true);
        self.pause(link, true);
        let key = self.key_of(link);
        self.early.push(key);
    }

    /// Lets those in who have waited.
    fn let_in(&mut self) {
        for key in std::mem::take(&mut self.early) {
            let Some(link) = self.connection_of(key) else { continue };
            match self.is_early(link) {
                true => self.early.push(key),
                false => self.answered(link, &[]),
            }
        }
    }
}
