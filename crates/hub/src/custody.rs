//! Custody of what a session with stream management has sent: a stanza isn't acknowledged while
//! anybody is still at work on it (XEP-0198 §4).
//!
//! A stanza is handled when the world has taken it, but what it leads to may take a while: it waits
//! in a lane or for other stanzas, the store writes it, another shard goes on with it and asks the
//! store as well. Each one who carries on with a stanza has a share in its *custody*, and the last
//! one who gives up a share tells the session's shard. The world works in the custody of the
//! stanza, the continuation or the mail that it is working on, and gives a share to every
//! continuation and all mail that comes of it. So shares follow by themselves, over any number of
//! steps and shards; and a session without stream management costs nothing, since there is no
//! custody.
//!
//! # Invariants
//!
//! * What is put off otherwise, in a queue or until a timer, takes a share along if it may end in
//!   the store: see [`World::custody()`](crate::World::custody()).
//! * What waits for anything but the store, such as a client that has to read, has none: see
//!   [`World::in_custody`](crate::World::in_custody).
//! * Custody ends when the store has done its part, or when its refusal was told to the sender as
//!   an error, which comes before the acknowledgement. A store that is away has done nothing: a
//!   module that waits for it to come back, as archives do, keeps the share meanwhile, within
//!   bounds; one that doesn't wait tells the sender.
//! * A ledger waits for one custody at a time, however many requests there are: it takes as much
//!   memory with a store that hangs as with one that doesn't.

use std::sync::{Arc, OnceLock, Weak};

use rookery_base::{Awaited, Completer, one_shot};

/// A share in the custody of stanzas. A clone is another share.
#[derive(Debug, Clone)]
pub struct Custody(Arc<Charge>);

/// The part that all shares have in common, with the one to tell when the last share is given up.
#[derive(Default)]
pub(crate) struct Charge(OnceLock<Completer<()>>);

impl std::fmt::Debug for Charge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Charge")
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(completer) = self.0.take() {
            completer.complete(());
        }
    }
}

/// The number of stanzas that a client may be told of. Counts are modulo 2^32 (§4).
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Stanzas that the world has taken.
    handled: u32,
    /// The number of these that nobody is at work on any more.
    sure: u32,
    /// True if the client has asked since the last [`Ledger::close`] and has not been told all that
    /// it asked for.
    pub asked: bool,
    /// True if it has asked and has not been told anything.
    pub unanswered: bool,
    /// True if somebody will look after that in a moment.
    pub watched: bool,
    /// The custody of what has come since the last [`Ledger::close`]; kept for the next stanza when
    /// nobody has a share any more.
    open: Option<Custody>,
    closing: Option<Closing>,
}

/// A custody that was closed, and the count that is reached when its last share is given up.
#[derive(Debug)]
struct Closing {
    /// So many stanzas will be sure then.
    count: u32,
    /// The client has asked for it.
    asked: bool,
    charge: Weak<Charge>,
}

impl Ledger {
    /// Counts one more stanza as taken, and returns the custody that it is in.
    pub fn count(&mut self) -> Custody {
        self.handled = self.handled.wrapping_add(1);
        self.open.get_or_insert_with(|| Custody(Arc::default())).clone()
    }

    /// Takes back the newest `number` stanzas, which were not worked off after all.
    pub fn take_back(&mut self, number: u32) {
        if let Some(closing) = &mut self.closing
            && self.handled.wrapping_sub(closing.count) < number
        {
            closing.count = self.handled.wrapping_sub(number);
        }
        self.handled = self.handled.wrapping_sub(number);
    }

    /// Returns the number of stanzas that are acknowledged.
    pub fn sure(&self) -> u32 {
        self.sure
    }

    /// Returns whether nobody is at work on anything that the client has sent.
    pub fn is_settled(&mut self) -> bool {
        let is_settled =
            self.closing.is_none() && self.open.as_mut().is_none_or(|open| Arc::get_mut(&mut open.0).is_some());
        if is_settled {
            self.sure = self.handled;
            self.asked = false;
        }
        is_settled
    }

    /// Closes the custody of all that has come so far and returns what to wait for until it is
    /// settled; call [`Ledger::closed`] then. Returns `None` if something is waited for already.
    pub fn close(&mut self) -> Option<Awaited<()>> {
        if self.closing.is_some() {
            return None;
        }
        let open = self.open.take()?;
        let (completer, settled) = one_shot();
        // A custody is closed once.
        let _ = open.0.0.set(completer);
        let asked = std::mem::take(&mut self.asked);
        self.closing = Some(Closing { count: self.handled, asked, charge: Arc::downgrade(&open.0) });
        Some(settled)
    }

    /// Marks the closed custody as settled. Returns whether the client has asked for that.
    pub fn closed(&mut self) -> bool {
        let Some(closing) = self.closing.take() else { return false };
        self.sure = closing.count;
        closing.asked
    }

    /// Returns what is left of it when the session ends.
    pub fn end(self) -> Balance {
        let open = self.open.map(|open| Arc::downgrade(&open.0)).unwrap_or_default();
        let closing = self.closing.map(|closing| closing.charge).unwrap_or_default();
        Balance { handled: self.handled, sure: self.sure, charges: [open, closing] }
    }
}

/// The ledger of a session that has ended.
#[derive(Debug)]
pub(crate) struct Balance {
    handled: u32,
    sure: u32,
    charges: [Weak<Charge>; 2],
}

impl Balance {
    /// Returns the number of stanzas that are acknowledged by now.
    pub fn sure(&self) -> u32 {
        let is_settled = self.charges.iter().all(|charge| charge.strong_count() == 0);
        if is_settled { self.handled } else { self.sure }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(settled: &mut Awaited<()>) -> bool {
        std::pin::Pin::new(settled).poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[test]
    fn a_count_is_sure_when_the_last_share_is_given_up() {
        let mut ledger = Ledger::default();
        assert!(ledger.is_settled() && ledger.close().is_none());
        let [first, second] = [ledger.count(), ledger.count()];
        assert!(!ledger.is_settled());
        let mut settled = ledger.close().expect("something to wait for");
        let third = ledger.count();
        assert!(ledger.close().is_none(), "one at a time");
        drop(first);
        assert!(!is_ready(&mut settled));
        drop(second);
        assert!(is_ready(&mut settled) && ledger.sure() == 0);
        ledger.closed();
        assert!(ledger.sure() == 2 && !ledger.is_settled());
        drop(third);
        assert!(ledger.is_settled() && ledger.sure() == 3);
    }

    #[test]
    fn what_was_settled_before_it_was_closed_is_ready_at_once() {
        let mut ledger = Ledger::default();
        drop(ledger.count());
        ledger.asked = true;
        assert!(is_ready(&mut ledger.close().expect("something to wait for")));
        assert!(ledger.closed() && !ledger.closed());
        assert_eq!(ledger.sure(), 1);
    }

    #[test]
    fn what_is_taken_back_is_never_sure() {
        let mut ledger = Ledger { handled: u32::MAX, ..Ledger::default() };
        let shares = [ledger.count(), ledger.count(), ledger.count()];
        let _settled = ledger.close();
        ledger.take_back(2);
        drop(shares);
        ledger.closed();
        assert_eq!(ledger.sure(), 0);
        assert!(ledger.is_settled() && ledger.sure() == 0);
    }

    #[test]
    fn the_balance_is_higher_once_it_is_settled() {
        let mut ledger = Ledger::default();
        drop(ledger.count());
        assert!(ledger.is_settled());
        let closing = ledger.count();
        let _settled = ledger.close();
        let open = ledger.count();
        let balance = ledger.end();
        assert_eq!(balance.sure(), 1);
        drop(open);
        assert_eq!(balance.sure(), 1);
        drop(closing);
        assert_eq!(balance.sure(), 3);
    }
}
