//! The removal of an account: RFC 6121 §2.5.2 for its contacts, and nothing left for the next
//! owner of the name.
//!
//! # Invariants
//!
//! * From the moment when an account is being removed, nothing that its sessions send is carried
//!   out: contacts would answer the next owner of the name.
//! * A request for it gets its reply when the account is gone, or can't be removed. The session
//!   that asked is retired meanwhile: everything but its stream has ended.
//! * Undelivered messages of its sessions go to nobody once the account is gone.

use rookery_fanout::{Link, Packet, To};
use rookery_jid::Jid;
use rookery_store::{Changed, RosterItem, StoreError};
use rookery_stream::error::{StanzaError, StreamError};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::World;
use crate::event::Event;
use crate::iq::Iq;
use crate::question::{Question, QuestionReply};

impl World {
    /// Removes an account whose home this is. Its sessions end with `not-authorized`, its contacts
    /// are told that its subscriptions ended (§2.5.2), and the store and this server's memory
    /// forget it. `then` gets whether there was such an account. The next owner of the name finds
    /// nothing of it.
    pub fn remove_account(&mut self, account: Jid, then: impl FnOnce(&mut World, Result<bool, StoreError>) + 'static) {
        // This comes first: data that sessions put into the store when they end has to be there
        // before the account goes.
        self.end_sessions_of_removed(&account);
        let roster = self.stores.rosters.get(account.as_ref());
        self.wait(roster, move |world, roster| {
            let items = match roster {
                Ok(roster) => roster.items,
                Err(StoreError::NoAccount) => Vec::new(),
                // Nobody knows who has to be notified: contacts would show themselves to the next
                // owner of the name.
                Err(error) => return then(world, Err(error)),
            };
            world.end_all_subscriptions(&account, items.iter());
            // A request may have been approved in advance meanwhile. Nothing comes between these
            // two steps.
            let last = world.stores.rosters.get(account.as_ref());
            let removed = world.stores.accounts.remove(account.as_ref());
            world.wait(last, move |world, last| {
                let last = match last {
                    Ok(roster) => roster.items,
                    Err(error) => {
                        if error != StoreError::NoAccount {
                            world.store_failed("looking up whom the end of an account concerns", &account, &error);
                        }
                        Vec::new()
                    }
                };
                world.wait(removed, move |world, removed| {
                    if removed == Ok(true) {
                        world.end_all_subscriptions(&account, last.iter().filter(|item| !items.contains(item)));
                        world.account_removed(&account);
                    }
                    then(world, removed);
                });
            });
        });
    }

    /// Tells contacts that the subscriptions of an account have ended.
    fn end_all_subscriptions<'a>(&mut self, account: &Jid, items: impl Iterator<Item = &'a RosterItem>) {
        for item in items {
            let changed = Changed { version: 0, before: Some(item.clone()), after: None };
            self.end_subscriptions(account, &item.jid, &changed);
        }
    }

    fn account_removed(&mut self, account: &Jid) {
        for link in self.links_with_retired(account) {
            if let Some(session) = self.at_mut(link) {
                session.disinherits = true;
            }
        }
        // A client may have logged in meanwhile, or be about to, with credentials that were valid
        // when they were looked up.
        self.end_sessions_of_removed(account);
        self.end_logins(account);
        self.forget_documents(account.as_ref());
        self.call_account_removed(account.as_ref());
    }

    /// Returns the links of all sessions of an account, including those that are ending.
    fn links_with_retired(&self, account: &Jid) -> Vec<Link> {
        let user = self.user_named(self.hash(account.as_str()), account.as_str());
        let user = user.and_then(|user| self.people.users.get(user as usize));
        user.map(|user| user.links.clone()).unwrap_or_default()
    }

    /// Ends the sessions of an account that is being removed, except for one that [is
    /// retired](World::retire).
    pub fn end_sessions_of_removed(&mut self, account: &Jid) {
        for link in self.links_of(account.as_ref()) {
            // Stanzas waiting in a session's backlog would send requests to contacts whose replies
            // the next owner of the name gets.
            self.end_stream(link, StreamError::NotAuthorized, "the account was removed");
        }
    }

    /// Ends the connections that are logging in to an account, or have logged in and not bound a
    /// resource yet: their proof isn't valid any more.
    pub fn end_logins(&mut self, account: &Jid) {
        let question = EndLogins { account: account.to_bare() };
        // A connection that was on its way to the account's home arrives there before the replies
        // do.
        self.put_to_all(question.clone(), move |world, _| {
            let home = question.account.clone();
            world.put_to_home(home.as_ref(), question, |_, _| {});
        });
    }

    /// Ends the session that has sent a request, for everybody but its client: nothing more is
    /// taken from it, it gets nothing more, and it is not available any more. Its stream waits for
    /// the reply, which [`World::dismiss`] sends.
    pub fn retire(&mut self, iq: &Iq) {
        let Some(session) = iq.origin.filter(|&session| self.session(session).is_some_and(|found| !found.ending))
        else {
            return;
        };
        self.drop_backlog(session.link);
        if let Some(found) = self.at_mut(session.link) {
            found.ending = true;
        }
        self.become_unavailable(session.link, None);
    }

    /// Replies to the request of a session that was [retired](World::retire), and ends its stream
    /// after that.
    pub fn dismiss(
        &mut self,
        iq: &Iq,
        outcome: Result<(), impl Into<StanzaError>>,
        error: StreamError,
        text: &'static str,
    ) {
        let Some(session) = iq.origin.filter(|&session| self.session(session).is_some_and(|found| !found.gone)) else {
            return;
        };
        let reply = match outcome {
            Ok(()) => iq.result(),
            Err(error) => self.refusal(iq, error),
        };
        match Packet::from_built(&reply.finish()) {
            Ok(packet) => _ = self.push(session.link, &packet, To::Full),
            Err(fault) => warn!(?fault, "the server wrote a stanza that its own scanner refuses"),
        }
        self.out.events.push_back(Event::Close(session.link, error, text));
    }
}

/// Ends the logins to an account that are under way on a shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EndLogins {
    /// Its bare JID.
    account: Jid,
}

impl Question for EndLogins {
    const NAME: &'static str = "hub end logins";
    type Answer = ();

    fn ask(self, world: &mut World, reply: QuestionReply<()>) {
        world.out.events.push_back(Event::NoLogin(self.account));
        reply.answer(world, ());
    }
}
