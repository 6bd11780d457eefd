//! Homes that move to other nodes, and from there to here, while clients are served.
//!
//! A session that leaves drops its connection silently, as at a stop of the server
//! ([`crate::handover`]). The node that has the connection waits for the new home
//! ([`crate::following`]) or, if it leaves itself, closes the connection, so that the client comes
//! back to its session through any node. A client whose account is on its way to this node waits
//! with its login until everything has arrived.

use std::sync::Arc;

use rookery_fanout::view::SLOTS;
use rookery_fanout::{Link, View};
use rookery_hub::{Custody, ReturnedMail, World};
use rookery_jid::Jid;

use crate::connection::{ConnectionStage, ConnectionWire};
use crate::driver::Driver;
use crate::handover::peers;
use crate::lines::ClientSocket;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Uses other homes, as soon as the sessions that leave for another node by them have come to
    /// rest, here and elsewhere. If mail was returned that the former homes haven't handled, it
    /// doesn't wait, unless all of these live: see [`Shard::mail_again`].
    pub(crate) fn set_view(&mut self, view: Arc<View>, returned: Vec<ReturnedMail>) {
        if self.is_stopping() {
            // All sessions leave already.
            return self.world.set_view(view, returned);
        }
        let links = self.world.leaving_by(&view);
        // A login that goes on here would make a session when those that leave are believed to be
        // at rest already.
        self.end_logins_that_leave(|world, account| {
            world.home_of(account.as_ref()) == world.shard() && world.leaves_by(&view, account)
        });
        self.moves.stays = (0..SLOTS).any(|slot| view.home(slot) == self.index());
        self.moves.rests_until_ms = match self.world.has_parting_by(&view) {
            true => self.timing.now_ms + REST_MS,
            false => 0,
        };
        self.moves.told_rest = false;
        self.moves.coming = Some(view);
        self.world.after(REST_MS + 1, |_| {});
        self.leave(links);
        if !returned.is_empty() && self.moves.rests_until_ms == 0 {
            return self.use_coming(returned);
        }
        self.take_view();
        returned.into_iter().for_each(|(mail, custody)| self.world.mail_again(&mail, custody));
    }

    /// Uses the coming homes from now on.
    fn use_coming(&mut self, returned: Vec<ReturnedMail>) {
        if let Some(view) = self.moves.coming.take() {
            self.world.set_view(view, returned);
            self.let_in();
            self.follow_soon();
        }
    }

    /// Begins to use the coming homes, if it is time.
    fn take_view(&mut self) -> bool {
        if !self.timing.leaving.is_empty() {
            return false;
        }
        let Some(view) = self.moves.coming.clone() else { return false };
        let waits = self.timing.now_ms < self.moves.rests_until_ms;
        if waits && !std::mem::replace(&mut self.moves.told_rest, true) {
            self.world.say_at_rest(&view);
        }
        if waits && !self.world.do_all_rest(&view) {
            return false;
        }
        self.use_coming(Vec::new());
        true
    }

    /// Sends mail again whose home is elsewhere now. It goes to the coming homes, if the present
    /// ones are gone, and not back to these. Otherwise the sessions that leave, which send nothing
    /// more themselves, would wait for it. If all present homes live, they stay: others still come
    /// to rest by them, and the mail was for something that had no home, such as a shard.
    pub(crate) fn mail_again(&mut self, mail: &[u8], custody: Option<Custody>) {
        let do_all_live = self.moves.rests_until_ms > 0;
        if !do_all_live {
            self.use_coming(Vec::new());
        }
        self.world.mail_again(mail, custody);
    }

    /// Carries on with homes that move, if it is time. Returns `true` if anything was done.
    pub(crate) fn move_on(&mut self) -> bool {
        let mut any = self.moves.coming.is_some() && self.take_view();
        if !self.moves.early.is_empty() {
            self.let_in();
        }
        any |= self.follow_on() | self.look_for_sessions();
        if !self.world.is_moving() {
            return any;
        }
        if let Some(links) = self.world.begin_parting() {
            self.part_with(links);
            any = true;
        }
        // Sessions that leave by coming homes aren't affected by these.
        if self.world.may_pack() {
            let peer_of = peers(&self.connections);
            for link in self.world.pack(peer_of) {
                self.connections.remove(link);
            }
            any = true;
        }
        // Cards that nobody awaits may be for the coming homes, which their sender uses already.
        // They would go back and forth if they were sent to the present ones.
        let may_be_early = self.moves.coming.is_some() && !self.world.awaits_homes();
        if !may_be_early && let Some(cards) = self.world.take_arrived(self.common.post.fences_off()) {
            let (custody, _) = Custody::apart();
            self.go_on(cards, custody);
            self.world.arrived();
            self.let_in();
            self.follow_soon();
            any = true;
        }
        any
    }

    /// Writes the journal: the data that others need if this process dies. Returns whether there
    /// was any.
    #[cold]
    pub(crate) fn journal(&mut self) -> bool {
        let connections = &self.connections;
        let batch = self.world.journal(|link| connections.get(link).map(|connection| connection.peer));
        let Some(batch) = batch else { return false };
        self.common.post.journal(self.index(), batch);
        true
    }

    /// Asks for the journals of dead processes, has late processes fenced off, and has journals
    /// removed that aren't needed any more.
    pub(crate) fn look_up(&mut self) {
        for lookup in self.world.take_lookups() {
            self.common.post.look_up(self.index(), lookup);
        }
        for (node, incarnation) in self.world.take_overdue() {
            self.common.post.overdue(node, incarnation);
        }
        for read in self.world.take_read() {
            self.common.post.have_read(self.index(), read);
        }
    }

    /// Brings the sessions that leave for another node to rest. Logins to their accounts end.
    fn part_with(&mut self, links: Vec<Link>) {
        self.end_logins_that_leave(|world, account| world.home_of(account.as_ref()) != world.shard());
        self.leave(links);
    }

    /// Ends the logins to some accounts: their clients begin again, and find the new home. Those
    /// that are still to begin their streams again do so here, and then find it.
    fn end_logins_that_leave(&mut self, is_of: impl Fn(&World, &Jid) -> bool) {
        let logins = self.connections.iter().filter(|(link, connection)| match &connection.stage {
            ConnectionStage::Negotiating(negotiation) => {
                let machine = &negotiation.machine;
                machine.account().is_some_and(|account| is_of(&self.world, account))
                    && !(machine.is_to_begin_again() && self.has_whole_client(*link))
            }
            _ => false,
        });
        let logins: Vec<Link> = logins.map(|(link, _)| link).collect();
        logins.into_iter().for_each(|link| self.lost(link));
    }

    /// Brings a connection that has logged in into the home of its account.
    pub(crate) fn enter_home(&mut self, link: Link) {
        match self.is_early(link) {
            true => self.keep_out(link),
            false => self.input(link, &mut []),
        }
    }

    /// Notes that a process is silent: others may take over its homes soon. It may only have been
    /// late, so the connections between its clients and sessions here stay.
    pub(crate) fn silent(&mut self, node: u16, incarnation: u32) {
        let now_ms = self.timing.now_ms;
        self.world.departed(node, incarnation);
        self.moves.silent.retain(|(.., until_ms)| now_ms < *until_ms);
        self.moves.silent.push((node, incarnation, now_ms + SILENCE_MS));
        // This wakes the shard once it no longer believes in the death, for those that still wait.
        self.world.after(SILENCE_MS + 1, |_| {});
    }

    /// Returns whether a process is silent, as far as this shard knows.
    pub(crate) fn is_silent_now(&self, node: u16, incarnation: u32) -> bool {
        let mut silent = self.moves.silent.iter();
        silent.any(|(gone, life, until_ms)| (*gone, *life) == (node, incarnation) && self.timing.now_ms < *until_ms)
    }

    /// Returns whether the process to which a hop leads is silent, as far as this shard knows.
    pub(crate) fn is_silent(&self, home: usize) -> bool {
        if self.moves.silent.is_empty() || home < self.world.own_shards() {
            return false;
        }
        let station = self.world.station_of(home);
        let mut silent = self.moves.silent.iter().filter(|(.., until_ms)| self.timing.now_ms < *until_ms);
        station
            .is_some_and(|at| silent.any(|(node, incarnation, _)| (*node, *incarnation) == (at.node, at.incarnation)))
    }

    /// Returns whether a client has logged in whose account has yet to arrive here, or is on a
    /// node that has died, so that it has no home for a while.
    pub(crate) fn is_early(&mut self, link: Link) -> bool {
        if self.moves.coming.is_none() && self.moves.silent.is_empty() && !self.world.is_moving() {
            return false;
        }
        let account = self.with_machine(link, |machine| machine.account().cloned()).flatten();
        account.is_some_and(|account| {
            let home = self.world.home_of(account.as_ref());
            let leaves = self.moves.coming.as_ref().is_some_and(|view| self.world.leaves_by(view, &account));
            home == self.index() && (leaves || self.world.is_expected(account.as_str())) || self.is_silent(home)
        })
    }

    /// Makes a client wait whose account has yet to arrive.
    pub(crate) fn keep_out(&mut self, link: Link) {
        self.set_asked(link, true);
        self.pause(link, true);
        let key = self.key_of(link);
        self.moves.early.push(key);
    }

    /// Admits the clients that have waited.
    fn let_in(&mut self) {
        for key in std::mem::take(&mut self.moves.early) {
            let Some(link) = self.connection_of(key) else { continue };
            match self.is_early(link) {
                true => self.moves.early.push(key),
                false => self.go_home(link),
            }
        }
    }

    /// Returns whether the connection of a client can move to another home: it is this process's,
    /// and has all of the client's stream.
    pub(crate) fn has_whole_client(&self, link: Link) -> bool {
        self.connections.get(link).is_some_and(|connection| {
            !matches!(connection.socket, Some(ClientSocket::Afar(_)))
                && !matches!(connection.wire, ConnectionWire::Bosh(_))
        })
    }

    /// Admits a client that has waited, or sends it on to the home that its account has now.
    fn go_home(&mut self, link: Link) {
        let account = self.with_machine(link, |machine| machine.account().cloned()).flatten();
        let home = account.map_or(self.index(), |account| self.world.home_of(account.as_ref()));
        if home == self.index() {
            return self.answered(link, &[]);
        }
        if !self.has_whole_client(link) {
            // The client comes again, and then takes the shortest way.
            return self.lost(link);
        }
        self.set_asked(link, false);
        self.pause(link, false);
        match home < self.world.own_shards() {
            true => self.move_to(link, home),
            false => self.move_away(link, home),
        }
    }
}

/// The time for which a shard waits for sessions of others to come to rest, in milliseconds: other
/// shards look at the rows of the database each second, and give their clients five.
const REST_MS: u64 = 6_500;
/// The time for which a silent process is believed to have died, in milliseconds: longer than
/// others need to take over its homes. It may only have been slow.
const SILENCE_MS: u64 = 10_000;
