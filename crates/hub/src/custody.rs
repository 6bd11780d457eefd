//! Custody of the stanzas of a session with stream management: a stanza isn't acknowledged while
//! anybody is still working on it (XEP-0198 §4).
//!
//! A stanza is handled when the world has taken it, but its consequences may take a while: it waits
//! in a backlog or behind other stanzas, the store writes it, or another shard carries on with it
//! and asks the store as well. Each part of the server that carries on with a stanza has a share in
//! its *custody*, and the last one to give up a share notifies the session's shard. The world works
//! in the custody of the stanza, the continuation or the mail that it is processing, and gives a
//! share to every continuation and all mail that results. So shares follow automatically, over any
//! number of steps and shards. A session without stream management costs nothing, since it has no
//! custody.
//!
//! # Invariants
//!
//! * Work that is deferred in another way, in a queue or until a timer, takes a share along if it
//!   may end in the store: see [`World::custody()`](crate::World::custody()).
//! * Work that waits for anything but the store, such as a client that has to read, has none: see
//!   [`World::in_custody`](crate::World::in_custody).
//! * Custody ends when the store has done its part, or when its refusal was reported to the sender
//!   as an error, which comes before the acknowledgement. An unreachable store has done nothing: a
//!   module that waits for it to come back, as archives do, keeps the share meanwhile, within
//!   bounds; one that doesn't wait notifies the sender.
//! * A ledger waits for one custody at a time, however many requests there are: it takes the same
//!   memory whether the store hangs or not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rookery_base::{Awaited, Completer, one_shot};

/// A share in the custody of stanzas. A clone is another share.
#[derive(Debug, Clone)]
pub struct Custody(Arc<Charge>);

impl Custody {
    fn of(has_refused: &Arc<AtomicBool>) -> Self {
        Self(Arc::new(Charge { settled: OnceLock::new(), has_refused: has_refused.clone() }))
    }

    /// Returns the first share of a custody that belongs to no session, and a future that completes
    /// when the last share is given up.
    pub fn apart() -> (Self, Awaited<()>) {
        let custody = Self::of(&Arc::default());
        let (completer, settled) = one_shot();
        // It is new, so nothing was set before.
        let _ = custody.0.settled.set(completer);
        (custody, settled)
    }

    /// Notes that a message in this custody was refused: its sender has to learn of that before the
    /// message counts as handled.
    pub fn refuse(&self) {
        self.0.has_refused.store(true, Ordering::Release);
    }
}

/// Mail of a shard in its wire form, which another process has not handled, with its share in
/// custody.
pub type ReturnedMail = (Vec<u8>, Option<Custody>);

/// The state that all shares have in common, and the wakeup for the last share to be given up.
#[derive(Default)]
pub(crate) struct Charge {
    settled: OnceLock<Completer<()>>,
    /// The flag of the [`Ledger`], which all of its custodies share.
    has_refused: Arc<AtomicBool>,
}

impl std::fmt::Debug for Charge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Charge")
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(completer) = self.settled.take() {
            completer.complete(());
        }
    }
}

/// The number of stanzas that a client may be told of. Counts are modulo 2^32 (§4).
#[derive(Debug, Default)]
pub struct Ledger {
    /// The number of stanzas that the world has taken.
    handled: u32,
    /// The number of these that nobody is working on any more.
    sure: u32,
    /// The number that the client was told last.
    told: u32,
    /// True if the client has asked since the last [`Ledger::close`] and has not been told all that
    /// it asked for.
    pub(crate) asked: bool,
    /// True if it has asked and has not been told anything.
    pub(crate) unanswered: bool,
    /// True if the reply has been arranged already.
    pub(crate) watched: bool,
    /// True if the client is told the count once the journal has it.
    pub(crate) awaits_journal: bool,
    /// The custody of stanzas since the last [`Ledger::close`]; reused for the next stanza when
    /// nobody has a share any more.
    open: Option<Custody>,
    closing: Option<ClosedCustody>,
    /// True if a message that is not sure yet was refused, perhaps.
    has_refused: Arc<AtomicBool>,
    /// The number that was sure before the first refusal that the client may not have heard of.
    doubtful: Option<u32>,
}

/// A custody that was closed, and the count that is reached when its last share is given up.
#[derive(Debug)]
struct ClosedCustody {
    /// The number of stanzas that will be sure then.
    count: u32,
    /// True if the client has asked for it.
    asked: bool,
    charge: Weak<Charge>,
}

impl Ledger {
    /// Continues a ledger all of whose stanzas are acknowledged.
    pub fn after(handled: u32) -> Self {
        Self { handled, sure: handled, told: handled, ..Self::default() }
    }

    /// Continues the ledger of another process, with [its doubt](Ledger::doubt). A process that
    /// stops tells the client everything that is sure.
    pub(crate) fn continue_from(handled: u32, doubtful: Option<u32>) -> Self {
        Self { doubtful, ..Self::after(handled) }
    }

    /// Returns the number that was sure before the first refusal that the client may not have heard
    /// of; `None` if there was none.
    pub(crate) fn doubt(&self) -> Option<u32> {
        self.doubtful.or_else(|| self.has_refused.load(Ordering::Acquire).then_some(self.sure))
    }

    /// Returns the number of stanzas that were taken.
    pub fn handled(&self) -> u32 {
        self.handled
    }

    /// Returns the number of stanzas that nobody is working on any more, for an owner that checks
    /// from time to time and isn't notified. It closes the custody, so that later calls distinguish
    /// the stanzas before this call from those after it.
    pub fn look(&mut self) -> u32 {
        if self.closing.as_ref().is_some_and(|closing| closing.charge.strong_count() == 0) {
            self.settle_closed();
        }
        if !self.is_settled()
            && self.closing.is_none()
            && let Some(open) = self.open.take()
        {
            self.closing = Some(ClosedCustody { count: self.handled, asked: false, charge: Arc::downgrade(&open.0) });
        }
        self.sure
    }

    /// Counts one more stanza as taken, and returns the custody that it is in.
    pub fn count(&mut self) -> Custody {
        self.handled = self.handled.wrapping_add(1);
        self.open.get_or_insert_with(|| Custody::of(&self.has_refused)).clone()
    }

    /// Takes back the newest `number` stanzas, which were not handled after all.
    pub fn take_back(&mut self, number: u32) {
        debug_assert!(self.handled.wrapping_sub(self.sure) >= number, "what is acknowledged is never taken back");
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

    /// Returns the number of acknowledged stanzas, and records that the client is told it: later
    /// calls never return less.
    pub fn tell(&mut self) -> u32 {
        self.told = self.sure;
        self.sure
    }

    /// Returns the number that the client was told last.
    pub(crate) fn told(&self) -> u32 {
        self.told
    }

    /// Tells the client an earlier settled number.
    pub(crate) fn tell_earlier(&mut self, count: u32) -> u32 {
        debug_assert!(self.handled.wrapping_sub(count) >= self.handled.wrapping_sub(self.sure), "it was sure");
        self.told = count;
        count
    }

    /// Returns the acknowledged number for a client that gets nothing more. The number ends before
    /// the first refusal of which the client isn't known to have heard, unless a higher one was
    /// sent already: the client should rather repeat stanzas for which it may have got an error
    /// than omit some that it doesn't know about.
    pub(crate) fn tell_last(&mut self) -> u32 {
        let left = |count: u32| self.handled.wrapping_sub(count);
        let count = self.doubt().unwrap_or(self.sure);
        self.told = if left(count) > left(self.told) { self.told } else { count };
        self.told
    }

    /// Returns whether nobody is working on any of the client's stanzas.
    pub fn is_settled(&mut self) -> bool {
        let is_settled =
            self.closing.is_none() && self.open.as_mut().is_none_or(|open| Arc::get_mut(&mut open.0).is_some());
        if is_settled {
            self.make_sure(self.handled);
            self.asked = false;
        }
        is_settled
    }

    /// Closes the custody of everything that has come so far, and returns what to wait for until it
    /// is settled; call [`Ledger::settle_closed`] then. Returns `None` if a closed custody is
    /// already being waited for.
    pub fn close(&mut self) -> Option<Awaited<()>> {
        if self.closing.is_some() {
            return None;
        }
        let open = self.open.take()?;
        let (completer, settled) = one_shot();
        // A custody is closed once.
        let _ = open.0.settled.set(completer);
        let asked = std::mem::take(&mut self.asked);
        self.closing = Some(ClosedCustody { count: self.handled, asked, charge: Arc::downgrade(&open.0) });
        Some(settled)
    }

    /// Marks the closed custody as settled. Returns whether the client has asked for that.
    pub fn settle_closed(&mut self) -> bool {
        let Some(closing) = self.closing.take() else { return false };
        debug_assert!(closing.charge.strong_count() == 0, "a custody is settled when nobody has a share");
        debug_assert!(
            closing.count.wrapping_sub(self.sure) <= self.handled.wrapping_sub(self.sure),
            "what is sure grows, and is never more than was handled"
        );
        self.make_sure(closing.count);
        closing.asked
    }

    fn make_sure(&mut self, count: u32) {
        if self.has_refused.swap(false, Ordering::AcqRel) {
            self.doubtful.get_or_insert(self.sure);
        }
        self.sure = count;
    }

    /// Notes that the error of a message has come for the client. The message may be one that
    /// is not sure yet, since other nodes don't record their refusals in this ledger.
    pub(crate) fn note_error(&mut self) {
        let is_at_work = self.handled != self.sure;
        self.has_refused.fetch_or(is_at_work, Ordering::AcqRel);
    }

    /// Returns whether the client is not known to have heard of some refusal.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful.is_some()
    }

    /// Notes that the client has heard of all that was refused so far.
    pub(crate) fn clear(&mut self) {
        self.doubtful = None;
    }

    /// Returns the ledger to keep when the session ends.
    pub fn end(self) -> Balance {
        let open = self.open.map(|open| Arc::downgrade(&open.0)).unwrap_or_default();
        let closing = self.closing.map(|closing| closing.charge).unwrap_or_default();
        let Self { handled, sure, told, .. } = self;
        Balance { handled, sure, told, charges: [open, closing], has_refused: None }
    }

    /// Returns the ledger to keep when a session ends whose client can't be told of refusals any
    /// more. The client may never have read errors that it hadn't acknowledged by then.
    pub(crate) fn end_untold(mut self) -> Balance {
        let sure = self.doubtful.take().unwrap_or(self.sure);
        let has_refused = self.has_refused.clone();
        // Everything after a message in doubt is in doubt.
        has_refused.fetch_or(sure != self.sure, Ordering::AcqRel);
        Balance { sure, has_refused: Some(has_refused), ..self.end() }
    }
}

/// The ledger of a session that has ended.
#[derive(Debug)]
pub struct Balance {
    handled: u32,
    sure: u32,
    told: u32,
    charges: [Weak<Charge>; 2],
    /// True if a message was refused and nobody was there to be told.
    has_refused: Option<Arc<AtomicBool>>,
}

impl Balance {
    /// Returns the number of stanzas once nobody is working on any of them; `None` before.
    pub fn settled_count(&self) -> Option<u32> {
        self.charges.iter().all(|charge| charge.strong_count() == 0).then_some(self.handled)
    }

    /// Returns the number of stanzas that are acknowledged by now.
    pub fn sure(&self) -> u32 {
        let is_untold = self.has_refused.as_ref().is_some_and(|refused| refused.load(Ordering::Acquire));
        self.settled_count().filter(|_| !is_untold).unwrap_or(self.sure)
    }

    /// Notes that the error of a message has come for the session, and nobody was there to
    /// hear of it.
    pub(crate) fn note_error(&self) {
        if self.settled_count().is_none() {
            self.has_refused.iter().for_each(|refused| refused.store(true, Ordering::Release));
        }
    }

    /// Returns the number of stanzas that are sure, for the client; `None` if the client was told a
    /// higher one, whether or not that arrived: the client's own count is better then (§5 leaves
    /// the count out).
    pub fn tellable(&self) -> Option<u32> {
        let left = |count: u32| self.handled.wrapping_sub(count);
        Some(self.sure()).filter(|sure| left(*sure) <= left(self.told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(settled: &mut Awaited<()>) -> bool {
        std::pin::Pin::new(settled).poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    #[test]
    fn the_last_count_leaves_out_what_was_refused_and_perhaps_not_heard_of() {
        let mut ledger = Ledger::default();
        drop(ledger.count());
        assert!(ledger.is_settled());
        assert_eq!(ledger.tell(), 1);
        let refused = ledger.count();
        refused.refuse();
        drop(refused);
        drop(ledger.count());
        assert!(ledger.is_settled());
        assert_eq!(ledger.tell_last(), 1, "the second was refused, and the third comes behind it");
        assert_eq!((ledger.tell(), ledger.tell_last()), (3, 3), "what was told holds");
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
        ledger.settle_closed();
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
        assert!(ledger.settle_closed() && !ledger.settle_closed());
        assert_eq!(ledger.sure(), 1);
    }

    #[test]
    fn who_only_looks_sees_what_had_come_before_an_earlier_look() {
        let mut ledger = Ledger::after(7);
        let first = ledger.count();
        assert_eq!(ledger.look(), 7);
        let second = ledger.count();
        drop(first);
        assert_eq!((ledger.look(), ledger.handled()), (8, 9));
        let balance = ledger.end();
        assert_eq!((balance.sure(), balance.settled_count()), (8, None));
        drop(second);
        assert_eq!(balance.settled_count(), Some(9));
    }

    #[test]
    fn what_is_taken_back_is_never_sure() {
        let mut ledger = Ledger { handled: u32::MAX, ..Ledger::default() };
        let shares = [ledger.count(), ledger.count(), ledger.count()];
        let _settled = ledger.close();
        ledger.take_back(2);
        drop(shares);
        ledger.settle_closed();
        assert_eq!(ledger.sure(), 0);
        assert!(ledger.is_settled() && ledger.sure() == 0);
    }

    /// XEP-0198 §5: a client should rather send too much again than too little.
    #[test]
    fn what_was_refused_and_not_heard_of_is_not_sure() {
        for (settles_before, missed, sure) in [(false, false, 1), (true, true, 1), (true, false, 2)] {
            let mut ledger = Ledger::default();
            drop(ledger.count());
            assert!(ledger.is_settled());
            let custody = ledger.count();
            custody.refuse();
            if settles_before {
                drop(custody);
                assert!(ledger.is_settled() && ledger.is_doubtful());
                if !missed {
                    ledger.clear();
                }
                assert_eq!(ledger.end_untold().sure(), sure);
            } else {
                let balance = ledger.end_untold();
                drop(custody);
                assert_eq!(balance.sure(), sure);
            }
        }
        let mut ledger = Ledger::default();
        ledger.count().refuse();
        assert!(ledger.is_settled());
        ledger.clear();
        drop(ledger.count());
        assert_eq!(ledger.end_untold().sure(), 2, "the client has heard of it");
    }

    /// XEP-0198 §4: counts don't fall, whatever the client has not heard of.
    #[test]
    fn less_than_was_told_is_not_told() {
        for (told, tellable) in [(1, Some(1)), (2, None)] {
            let mut ledger = Ledger::default();
            for number in 1..=2 {
                let custody = ledger.count();
                if number == 2 {
                    custody.refuse();
                }
                drop(custody);
                assert!(ledger.is_settled());
                if number == told {
                    assert_eq!(ledger.tell(), told);
                }
            }
            let balance = ledger.end_untold();
            assert_eq!((balance.sure(), balance.tellable()), (1, tellable));
        }
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
