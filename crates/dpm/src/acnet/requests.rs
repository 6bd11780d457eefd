//! Requests that were sent and are not answered yet.

use std::collections::VecDeque;
use std::ops::Range;

/// Requests by their id.
///
/// An id consists of a place in a table and the number of its earlier uses, so a look-up is an
/// index operation, and a late reply to a finished request finds nothing: a place is only used
/// again after all other free ones, and its last four uses have different ids. Bit 13 is always
/// set.
///
/// A node has 8192 places for all its tasks together: front-ends distinguish its requests only by
/// their ids. Tables whose requests may be outstanding at the same time therefore have places of
/// their own.
#[derive(Debug)]
pub struct RequestsById<T> {
    /// Its share of all places.
    range: Range<u16>,
    places: Vec<RequestPlace<T>>,
    free: VecDeque<u16>,
    count: usize,
}

#[derive(Debug)]
struct RequestPlace<T> {
    uses: u8,
    request: Option<T>,
}

impl<T> Default for RequestsById<T> {
    fn default() -> Self {
        Self::within(0..PLACES)
    }
}

impl<T> RequestsById<T> {
    /// Returns a table of the places of a range, which ends at 8192 at most.
    pub fn within(range: Range<u16>) -> Self {
        Self {
            range: range.start.min(PLACES)..range.end.min(PLACES),
            places: Vec::new(),
            free: VecDeque::new(),
            count: 0,
        }
    }

    /// Returns the number of ids, in use or free.
    pub fn capacity(&self) -> usize {
        self.range.len()
    }

    /// Stores a request and returns its id; `None` if all ids are in use.
    pub fn open(&mut self, request: T) -> Option<u16> {
        self.open_or_return(request).ok()
    }

    /// Stores a request and returns its id.
    ///
    /// # Errors
    /// The request, if all ids are in use.
    pub fn open_or_return(&mut self, request: T) -> Result<u16, T> {
        let place = if self.places.len() < self.capacity() {
            self.places.push(RequestPlace { uses: 0, request: None });
            self.places.len() - 1
        } else if let Some(place) = self.free.pop_front() {
            usize::from(place)
        } else {
            return Err(request);
        };
        self.places[place].request = Some(request);
        self.count += 1;
        Ok(self.id(place))
    }

    /// Returns the request of an id, to be changed; `None` if the id belongs to a request that was
    /// closed.
    pub fn get_mut(&mut self, id: u16) -> Option<&mut T> {
        let place = self.place(id)?;
        self.places[place].request.as_mut()
    }

    /// Returns the request of an id; `None` if the id belongs to a request that was closed.
    pub fn get(&self, id: u16) -> Option<&T> {
        self.places[self.place(id)?].request.as_ref()
    }

    /// Removes a request. Its id is no longer valid.
    pub fn close(&mut self, id: u16) -> Option<T> {
        let place = self.place(id)?;
        let request = self.places[place].request.take()?;
        self.places[place].uses = (self.places[place].uses + 1) % USES;
        self.free.push_back(place as u16);
        self.count -= 1;
        Some(request)
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether no request is outstanding.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns all requests with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &T)> {
        let used = self.places.iter().enumerate();
        used.filter_map(|(place, held)| held.request.as_ref().map(|request| (self.id(place), request)))
    }

    fn place(&self, id: u16) -> Option<usize> {
        let place = usize::from((id & (PLACES - 1)).checked_sub(self.range.start)?);
        (place < self.places.len() && self.id(place) == id).then_some(place)
    }

    fn id(&self, place: usize) -> u16 {
        (self.range.start + place as u16) | BIT | u16::from(self.places[place].uses) << 14
    }
}

/// Places of requests that read, for all readers together.
pub const READINGS: Range<u16> = 0..5120;
/// Places of fast plots.
pub const PLOTS: Range<u16> = 5120..6144;
/// Places of requests for settings.
pub const SETTINGS: Range<u16> = 6144..7168;
/// Places of clients' requests to other nodes.
pub const CLIENTS: Range<u16> = 7168..8192;
const PLACES: u16 = 8192;
const BIT: u16 = 0x2000;
const USES: u8 = 4;
