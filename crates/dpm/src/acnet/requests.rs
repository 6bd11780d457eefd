//! Requests that were sent and are not answered yet.

use std::collections::VecDeque;

/// Requests by their id.
///
/// An id is a place in a table and how often that place was used before, so that looking one up is indexing, and a late reply to a request that is over
/// finds nothing: a place is used again only after all others that are free, and its last four uses have different ids. Bit 13 is always set.
#[derive(Debug)]
pub struct Requests<T> {
    places: Vec<Place<T>>,
    free: VecDeque<u16>,
    count: usize,
}

#[derive(Debug)]
struct Place<T> {
    uses: u8,
    request: Option<T>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: VecDeque::new(), count: 0 }
    }
}

impl<T> Requests<T> {
    /// Keeps a request and gives its id. `None` if all 8192 are in use.
    pub fn open(&mut self, request: T) -> Option<u16> {
        self.open_or_return(request).ok()
    }

    /// The same, but gives the request back if no id is free.
    pub fn open_or_return(&mut self, request: T) -> Result<u16, T> {
        let place = if self.places.len() < PLACES {
            self.places.push(Place { uses: 0, request: None });
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

    /// The request of an id.
    pub fn get_mut(&mut self, id: u16) -> Option<&mut T> {
        let place = self.place(id)?;
        self.places[place].request.as_mut()
    }

    /// The request of an id.
    pub fn get(&self, id: u16) -> Option<&T> {
        self.places[self.place(id)?].request.as_ref()
    }

    /// Forgets a request: its id means nothing any more.
    pub fn close(&mut self, id: u16) -> Option<T> {
        let place = self.place(id)?;
        let request = self.places[place].request.take()?;
        self.places[place].uses = (self.places[place].uses + 1) % USES;
        self.free.push_back(place as u16);
        self.count -= 1;
        Some(request)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &T)> {
        let used = self.places.iter().enumerate();
        used.filter_map(|(place, held)| held.request.as_ref().map(|request| (self.id(place), request)))
    }

    fn place(&self, id: u16) -> Option<usize> {
        let place = usize::from(id & (PLACES as u16 - 1));
        (place < self.places.len() && self.id(place) == id).then_some(place)
    }

    fn id(&self, place: usize) -> u16 {
        place as u16 | BIT | u16::from(self.places[place].uses) << 14
    }
}

const PLACES: usize = 8192;
const BIT: u16 = 0x2000;
const USES: u8 = 4;
