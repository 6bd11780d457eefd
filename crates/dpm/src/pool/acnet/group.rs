//! Requests to front-ends.

use super::silence::Rank;
use crate::database::FrontRequest;
use crate::pool::keys::EntryKey;
use crate::status::Status;

/// The number of a request, whether or not it is outstanding.
pub(super) type GroupKey = usize;

/// One request to a front-end that is outstanding, or waits to be sent.
#[derive(Debug)]
pub(super) struct RequestGroup {
    pub(super) node: usize,
    pub(super) poll: usize,
    /// True if it only checks whether the node answers, and has no readers.
    pub(super) is_probe: bool,
    pub(super) slots: Vec<RequestSlot>,
    /// The number of its parts that have an entry.
    pub(super) live: usize,
    pub(super) state: RequestState,
    pub(super) rank: Rank,
    /// The deadline for the next action, in milliseconds.
    pub(super) deadline: u64,
    /// The time for which its timer is set: the deadline or earlier.
    pub(super) timer: u64,
    /// The number of times that it was sent without an answer.
    pub(super) attempts: u32,
    /// The number of replies with readings that its node had sent when this group was last sent or
    /// answered; for a part of a single request, the number when that request was sent.
    pub(super) pulse: u64,
    /// The time when it was last sent or answered, in milliseconds.
    pub(super) answered_at: u64,
    /// True if it was answered since it was sent.
    pub(super) has_answered: bool,
    /// True if it is a part of an unanswered request.
    pub(super) is_search: bool,
    /// True if it is counted among the searches of its node.
    pub(super) is_counted: bool,
    /// True if its event occurred without an answer.
    pub(super) has_missed: bool,
    /// A group that only waits for the same event, to show that it occurred.
    pub(super) canary: Option<GroupKey>,
    pub(super) once: OnceState,
}

/// The state that only a single request has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OnceState {
    /// The number of times that it was divided.
    pub(super) round: u8,
    /// The time at which its readers get the status that there is no answer, in milliseconds.
    pub(super) end: u64,
    pub(super) is_probed: bool,
    /// The status that the front-end returned instead of readings.
    pub(super) refusal: Option<Status>,
}

/// The state of a request to a front-end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestState {
    /// It waits to be sent.
    Queued,
    /// It was sent with this id.
    Asked(u16),
    /// It was not answered, or is over, and waits to be sent again.
    Failed,
}

/// A device of a request; its entry may be gone, or belong to another request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestSlot {
    pub(super) entry: Option<EntryKey>,
    pub(super) serial: u64,
    pub(super) wanted: FrontRequest,
}

impl RequestGroup {
    pub(super) fn new(node: usize, poll: usize, slots: Vec<RequestSlot>, rank: Rank, deadline: u64) -> Self {
        let live = slots.iter().filter(|slot| slot.entry.is_some()).count();
        Self {
            node,
            poll,
            is_probe: false,
            slots,
            live,
            state: RequestState::Queued,
            rank,
            deadline,
            timer: deadline,
            attempts: 0,
            pulse: 0,
            answered_at: 0,
            has_answered: false,
            is_search: false,
            is_counted: false,
            has_missed: false,
            canary: None,
            once: OnceState::default(),
        }
    }

    /// Removes an entry. Returns true if it was the last.
    pub(super) fn forget(&mut self, place: usize) -> bool {
        if let Some(slot) = self.slots.get_mut(place)
            && slot.entry.take().is_some()
        {
            self.live -= 1;
        }
        self.live == 0
    }

    pub(super) fn is_asked(&self) -> bool {
        matches!(self.state, RequestState::Asked(_))
    }
}
