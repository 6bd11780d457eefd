//! Keeps the books of a room that all people of a run are in: every occupant has to get every
//! message, all in the same order, and no occupant may be seen to leave.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::books::BookedOutcome;

/// All messages of the room, and those that each occupant has received.
#[derive(Debug, Default)]
pub struct RoomBooks {
    said: Vec<SaidInRoom>,
    occupants: Vec<OccupantBook>,
    found: BookedOutcome,
    delays: Vec<Duration>,
    /// The longest time between two messages for an occupant.
    pause: Duration,
    /// True once all are present: from then on, entries and exits are counted.
    is_open: bool,
    left: usize,
    entered: usize,
    /// The messages of the room's history at the end.
    history: Vec<usize>,
}

#[derive(Debug)]
struct SaidInRoom {
    at: Instant,
    is_acknowledged: bool,
    is_refused: bool,
}

#[derive(Debug, Default)]
struct OccupantBook {
    /// The received messages, in the order of their first arrivals.
    order: Vec<usize>,
    /// The ids that the room gave to received messages.
    ids: HashMap<usize, Option<String>>,
    last: Option<Instant>,
}

impl RoomBooks {
    /// Returns the books of a room with this number of occupants.
    pub fn new(occupants: usize) -> Self {
        Self { occupants: (0..occupants).map(|_| OccupantBook::default()).collect(), ..Self::default() }
    }

    /// Notes that all occupants are present.
    pub fn open(&mut self) {
        self.is_open = true;
    }

    /// Stops counting entries and exits.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    /// Notes that an occupant sends a message; returns its number.
    pub fn say(&mut self, now: Instant) -> usize {
        self.said.push(SaidInRoom { at: now, is_acknowledged: false, is_refused: false });
        self.said.len() - 1
    }

    /// Notes that the server has acknowledged a message.
    pub fn acknowledge(&mut self, number: usize) {
        self.said.get_mut(number).into_iter().for_each(|said| said.is_acknowledged = true);
    }

    /// Notes that a message was bounced as an error.
    pub fn come_back(&mut self, number: usize) {
        self.said.get_mut(number).into_iter().for_each(|said| said.is_refused = true);
    }

    /// Notes that an occupant has received a message, with the room's id for it.
    pub fn hear(&mut self, number: usize, occupant: usize, id: Option<&str>, now: Instant) {
        let (Some(said), Some(book)) = (self.said.get(number), self.occupants.get_mut(occupant)) else {
            self.found.astray += 1;
            return;
        };
        if let Some(first) = book.ids.get(&number) {
            let is_same = id.is_some() && first.as_deref() == id;
            *(if is_same { &mut self.found.again } else { &mut self.found.doubled }) += 1;
            return;
        }
        book.ids.insert(number, id.map(str::to_owned));
        book.order.push(number);
        self.delays.push(now.duration_since(said.at));
        let last = book.last.replace(now);
        self.pause = self.pause.max(last.map_or(Duration::ZERO, |last| now.duration_since(last)));
    }

    /// Notes a message of the room's history, as sent to an occupant who enters at the end.
    pub fn recall(&mut self, number: usize) {
        self.history.push(number);
    }

    /// Notes that an occupant was seen to enter, or to leave.
    pub fn note_occupant(&mut self, is_there: bool) {
        if self.is_open {
            *(if is_there { &mut self.entered } else { &mut self.left }) += 1;
        }
    }

    /// Returns whether an occupant has not received an acknowledged message.
    pub fn miss_any(&self) -> bool {
        self.missing() > 0
    }

    /// Returns the totals. A message is counted once as lost if any occupant has not received it;
    /// all other events are counted for each occupant.
    pub fn outcome(&self) -> BookedOutcome {
        BookedOutcome {
            said: self.said.len(),
            acknowledged: self.said.iter().filter(|said| said.is_acknowledged).count(),
            came: (0..self.said.len()).filter(|number| self.is_heard_by_all(*number)).count(),
            refused: self.said.iter().filter(|said| said.is_refused).count(),
            lost: self.missing(),
            reordered: self.count_reordered(),
            ..self.found.clone()
        }
    }

    /// Returns the times from sending to arrival, of all occupants.
    pub fn delays(&self) -> &[Duration] {
        &self.delays
    }

    /// Returns how often occupants were seen to enter and to leave, and the longest pause.
    pub fn presence(&self) -> (usize, usize, Duration) {
        (self.entered, self.left, self.pause)
    }

    /// Returns how many messages of the history at the end aren't the last received ones in their
    /// order, and the number of messages in it.
    pub fn history(&self) -> (usize, usize) {
        let heard = self.occupants.first().map(|book| book.order.as_slice()).unwrap_or_default();
        let tail = heard.get(heard.len().saturating_sub(self.history.len())..).unwrap_or_default();
        let wrong = self.history.iter().zip(tail).filter(|(told, heard)| told != heard).count();
        (wrong + self.history.len() - tail.len(), self.history.len())
    }

    fn is_heard_by_all(&self, number: usize) -> bool {
        self.occupants.iter().all(|book| book.ids.contains_key(&number))
    }

    fn missing(&self) -> usize {
        let acknowledged = self.said.iter().enumerate().filter(|(_, said)| said.is_acknowledged && !said.is_refused);
        acknowledged.filter(|(number, _)| !self.is_heard_by_all(*number)).count()
    }

    /// Returns the place of each message in the order that the occupants share: by its mean place
    /// among what each of them heard. If an occupant heard a message at another place than all
    /// others, only that one is out of order.
    fn places(&self) -> HashMap<usize, usize> {
        let mut sums: HashMap<usize, (usize, usize)> = HashMap::new();
        for (at, number) in self.occupants.iter().flat_map(|book| book.order.iter().enumerate()) {
            let (sum, count) = sums.entry(*number).or_default();
            (*sum, *count) = (*sum + at, *count + 1);
        }
        let mean = |number: &usize| sums.get(number).map_or(0., |(sum, count)| *sum as f64 / *count as f64);
        let mut numbers: Vec<usize> = sums.keys().copied().collect();
        numbers.sort_by(|one, other| mean(one).total_cmp(&mean(other)).then(one.cmp(other)));
        numbers.into_iter().enumerate().map(|(at, number)| (number, at)).collect()
    }

    /// Returns the number of arrivals that are out of order: after a message whose place is later.
    fn count_reordered(&self) -> usize {
        let place = self.places();
        let behind = |book: &OccupantBook| {
            let (mut last, mut behind) = (0, 0);
            for at in book.order.iter().filter_map(|number| place.get(number).copied()) {
                behind += usize::from(at < last);
                last = last.max(at);
            }
            behind
        };
        self.occupants.iter().map(behind).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_occupant_in_another_order_is_one() {
        let (mut books, now) = (RoomBooks::new(4), Instant::now());
        let numbers: Vec<usize> = (0..6).map(|_| books.say(now)).collect();
        // The first one hears a message late.
        [0, 2, 3, 1, 4, 5].into_iter().for_each(|number| books.hear(number, 0, None, now));
        for occupant in 1..4 {
            numbers.iter().for_each(|number| books.hear(*number, occupant, None, now));
        }
        assert_eq!(books.outcome().reordered, 1);
    }

    #[test]
    fn everybody_hears_everything_in_one_order() {
        let (mut books, now) = (RoomBooks::new(3), Instant::now());
        for number in 0..4 {
            assert_eq!(books.say(now), number);
            books.acknowledge(number);
        }
        let heard = [(0, vec![1, 0, 2, 3]), (1, vec![1, 0, 2]), (2, vec![0, 1, 2, 3])];
        for (occupant, numbers) in heard {
            numbers.into_iter().for_each(|number| books.hear(number, occupant, Some("a"), now));
        }
        books.hear(0, 0, Some("a"), now);
        books.hear(0, 0, Some("b"), now);
        let BookedOutcome { said, came, lost, again, doubled, reordered, .. } = books.outcome();
        assert_eq!((said, came, lost, again, doubled, reordered), (4, 3, 1, 1, 1, 1));
        assert!(books.miss_any());
        books.come_back(3);
        assert!(!books.miss_any());
        books.note_occupant(true);
        books.open();
        books.note_occupant(false);
        assert_eq!((books.presence().0, books.presence().1), (0, 1));
        [2, 3].into_iter().for_each(|number| books.recall(number));
        assert_eq!(books.history(), (0, 2));
        books.recall(0);
        assert_eq!(books.history(), (3, 3), "0 is not what comes after 3");
    }
}
