//! Places on the web front: a bound on all connections, one for each address, and places reserved
//! for this machine.
//!
//! # Invariants
//!
//! - Every connection is accepted, and then refused or closed if necessary: none waits in a queue
//!   that strangers can fill.
//! - When all places are taken, the address with the most connections loses one to an address with
//!   fewer. So strangers who take all places lose them to clients from other addresses, and an
//!   address never gets more than its share.
//! - Health checks and administrators on this machine have a few additional places. Clients behind
//!   a proxy on this machine don't count as this machine once the proxy has reported their
//!   address.
//! - Connections are counted for the address that the last request came from: a proxy's
//!   connections carry the requests of many.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rookery_base::lock::lock;
use rookery_hub::household;
use tokio::sync::Notify;
use tracing::warn;

/// The places of all connections; each is held until its connection ends.
#[derive(Debug)]
pub struct AddressPlaces {
    most: usize,
    inner: Mutex<PlacesInner>,
}

#[derive(Debug, Default)]
struct PlacesInner {
    guests: HashMap<u64, PlaceGuest>,
    /// The connections of each address, the oldest first.
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
    /// The addresses by their number of connections, the largest last.
    by_count: BTreeSet<(usize, IpAddr)>,
    /// The number of connections on places reserved for this machine.
    reserved: usize,
    next: u64,
    /// The time of the last log line for each kind of [`PlaceNews`].
    told: [Option<Instant>; 3],
}

#[derive(Debug)]
struct PlaceGuest {
    address: IpAddr,
    is_reserved: bool,
    leaves: Arc<Notify>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct AddressPlace {
    places: Arc<AddressPlaces>,
    number: u64,
    leaves: Arc<Notify>,
}

/// The reason why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowd {
    /// The address has as many connections as it may.
    Address,
    /// All places are taken, and no address has more of them than this one.
    All,
}

/// An event that is logged.
#[derive(Debug, Clone, Copy)]
enum PlaceNews {
    /// An address has as many connections as it may.
    Address,
    /// A connection has lost its place to another one.
    Displaced,
    /// A connection was refused.
    Refused,
}

/// A peer that needs a place.
#[derive(Debug, Clone, Copy)]
pub struct PlaceAsker {
    /// The address of the peer.
    pub address: IpAddr,
    /// The most connections of its address; 0 for any number.
    pub most: u32,
    /// True if it is this machine itself, as far as is known.
    pub is_here: bool,
}

impl AddressPlaces {
    /// Returns this number of places, besides those reserved for this machine.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, inner: Mutex::default() })
    }

    /// Gives a place to a connection.
    ///
    /// # Errors
    /// There is no free place.
    pub fn enter(self: &Arc<Self>, asker: PlaceAsker) -> Result<AddressPlace, Crowd> {
        let mut inner = self.lock();
        let address = household(asker.address);
        inner.judge_address(&asker)?;
        let is_reserved = match self.make_room(&mut inner, address, asker.is_here) {
            Some(is_reserved) => is_reserved,
            None => return Err(inner.refuse(self.most)),
        };
        let number = inner.next;
        inner.next += 1;
        inner.reserved += usize::from(is_reserved);
        let leaves = Arc::new(Notify::new());
        inner.change(address, |guests| guests.insert(number));
        inner.guests.insert(number, PlaceGuest { address, is_reserved, leaves: leaves.clone() });
        Ok(AddressPlace { places: self.clone(), number, leaves })
    }

    /// Makes room for one more connection; returns `true` if it takes a reserved place.
    fn make_room(&self, inner: &mut PlacesInner, address: IpAddr, is_here: bool) -> Option<bool> {
        if inner.guests.len() - inner.reserved < self.most {
            return Some(false);
        }
        if is_here && inner.reserved < RESERVED {
            return Some(true);
        }
        inner.take_from_busiest(address, self.most).then_some(false)
    }

    fn lock(&self) -> MutexGuard<'_, PlacesInner> {
        lock(&self.inner)
    }
}

impl AddressPlace {
    /// Counts the connection for the client of a request.
    ///
    /// # Errors
    /// There is no place for that client; the connection counts as before.
    pub fn count_for(&self, asker: PlaceAsker) -> Result<(), Crowd> {
        let mut inner = self.places.lock();
        let address = household(asker.address);
        // A connection that has lost its place ends anyway.
        let Some(guest) = inner.guests.get(&self.number) else { return Ok(()) };
        let (before, was_reserved) = (guest.address, guest.is_reserved);
        let has_to_move = was_reserved && !asker.is_here;
        if before == address && !has_to_move {
            return Ok(());
        }
        if before != address {
            inner.judge_address(&asker)?;
        }
        if has_to_move && self.places.make_room(&mut inner, address, false).is_none() {
            return Err(inner.refuse(self.places.most));
        }
        inner.reserved -= usize::from(has_to_move);
        inner.change(before, |guests| guests.remove(&self.number));
        inner.change(address, |guests| guests.insert(self.number));
        if let Some(guest) = inner.guests.get_mut(&self.number) {
            guest.address = address;
            guest.is_reserved = was_reserved && !has_to_move;
        }
        Ok(())
    }

    /// Waits until the place is taken away.
    pub async fn is_lost(&self) {
        self.leaves.notified().await;
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        self.places.lock().remove(self.number);
    }
}

impl PlacesInner {
    fn judge_address(&mut self, asker: &PlaceAsker) -> Result<(), Crowd> {
        let (address, open) = (asker.address.to_canonical(), self.open(household(asker.address)));
        if asker.most == 0 || open < asker.most as usize {
            return Ok(());
        }
        if self.may_tell(PlaceNews::Address) {
            warn!(%address, connections = open, "an address has as many connections to the web as one may have");
        }
        Err(Crowd::Address)
    }

    /// Ends a connection of the address that has the most connections, if `address` will have fewer
    /// even with one more. Returns `false` if no connection was ended.
    fn take_from_busiest(&mut self, address: IpAddr, most: usize) -> bool {
        let own = self.open(address);
        let Some(&(count, busiest)) = self.by_count.last() else { return false };
        if count <= own + 1 {
            return false;
        }
        let mut of_busiest = self.by_address.get(&busiest).into_iter().flatten().copied();
        // The oldest connection ends: a real user is more likely to be using the newer ones.
        let Some(number) = of_busiest.find(|number| !self.is_reserved(*number)) else { return false };
        if self.may_tell(PlaceNews::Displaced) {
            warn!(%busiest, connections = count, places = most, "all web connections are in use; the address with the most loses some");
        }
        if let Some(guest) = self.guests.get(&number) {
            guest.leaves.notify_one();
        }
        self.remove(number);
        true
    }

    fn refuse(&mut self, most: usize) -> Crowd {
        if self.may_tell(PlaceNews::Refused) {
            warn!(places = most, "all web connections are in use; see `connections` in [web]");
        }
        Crowd::All
    }

    fn remove(&mut self, number: u64) {
        if let Some(guest) = self.guests.remove(&number) {
            self.reserved -= usize::from(guest.is_reserved);
            self.change(guest.address, |guests| guests.remove(&number));
        }
    }

    fn open(&self, address: IpAddr) -> usize {
        self.by_address.get(&address).map_or(0, BTreeSet::len)
    }

    fn is_reserved(&self, number: u64) -> bool {
        self.guests.get(&number).is_some_and(|guest| guest.is_reserved)
    }

    /// Changes the connections of an address.
    fn change(&mut self, address: IpAddr, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let guests = self.by_address.entry(address).or_default();
        self.by_count.remove(&(guests.len(), address));
        change(guests);
        match guests.len() {
            0 => drop(self.by_address.remove(&address)),
            count => drop(self.by_count.insert((count, address))),
        }
    }

    /// Returns whether an event has to be logged: at most once a minute, so that frequent callers
    /// can't fill the log.
    fn may_tell(&mut self, news: PlaceNews) -> bool {
        let Some(told) = self.told.get_mut(news as usize) else { return false };
        let may = told.is_none_or(|told| told.elapsed() >= TOLD);
        if may {
            *told = Some(Instant::now());
        }
        may
    }
}

/// The places reserved for this machine: health checks, scrapes of metrics, administrators.
pub(crate) const RESERVED: usize = 32;
/// The shortest time between two equal log lines.
const TOLD: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(address: &str) -> PlaceAsker {
        let address: IpAddr = address.parse().unwrap();
        PlaceAsker { address, most: 5, is_here: address.is_loopback() }
    }

    fn enter(places: &Arc<AddressPlaces>, address: &str, count: usize) -> Vec<AddressPlace> {
        (0..count).map(|_| places.enter(asker(address)).unwrap()).collect()
    }

    fn is_lost(place: &AddressPlace) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::ZERO, place.is_lost()).await.is_ok() })
    }

    #[test]
    fn an_address_has_its_share_and_gets_it_back() {
        let places = AddressPlaces::new(100);
        let mut open = enter(&places, "2001:db8::1", 5);
        assert_eq!(places.enter(asker("2001:db8::2")).unwrap_err(), Crowd::Address, "one household");
        let other = enter(&places, "2001:db8:0:1::1", 5);
        open.pop();
        open.extend(enter(&places, "2001:db8::3", 1));
        drop((open, other));
        let inner = places.lock();
        assert_eq!((inner.guests.len(), inner.by_address.len(), inner.by_count.len()), (0, 0, 0), "nothing is kept");
    }

    #[test]
    fn when_all_places_are_taken_the_busiest_address_loses_one() {
        let places = AddressPlaces::new(8);
        let busy = enter(&places, "192.0.2.1", 5);
        let less = enter(&places, "192.0.2.2", 3);
        let first = places.enter(asker("192.0.2.3")).unwrap();
        let second = places.enter(asker("192.0.2.3")).unwrap();
        let lost: Vec<bool> = busy.iter().chain(&less).map(is_lost).collect();
        let oldest_of_the_busiest = [true, true, false, false, false, false, false, false];
        assert_eq!(lost, oldest_of_the_busiest);
        assert_eq!(places.enter(asker("192.0.2.1")).unwrap_err(), Crowd::All, "which gets none back by trying");
        drop((busy, less, first, second));
        assert_eq!(places.lock().guests.len(), 0, "who has lost a place doesn't give another's back");
    }

    #[test]
    fn this_machine_gets_in_when_all_is_taken() {
        let places = AddressPlaces::new(4);
        let strangers: Vec<AddressPlace> = (1..5).flat_map(|at| enter(&places, &format!("192.0.2.{at}"), 1)).collect();
        assert_eq!(places.enter(asker("192.0.2.9")).unwrap_err(), Crowd::All, "nobody has more than one");
        let here = places.enter(asker("127.0.0.1")).unwrap();
        assert!(here.count_for(asker("127.0.0.1")).is_ok());
        assert_eq!(here.count_for(asker("192.0.2.9")), Err(Crowd::All), "a client behind a proxy isn't this machine");
        drop(strangers);
        assert!(here.count_for(asker("192.0.2.9")).is_ok());
        assert_eq!(places.lock().reserved, 0);
        let rest: Vec<AddressPlace> = (1..4).flat_map(|at| enter(&places, &format!("192.0.2.{at}"), 1)).collect();
        let own = PlaceAsker { most: 0, ..asker("127.0.0.1") };
        let many: Vec<AddressPlace> = (0..RESERVED).map(|_| places.enter(own).unwrap()).collect();
        assert_eq!(places.lock().reserved, RESERVED);
        // Beyond its reserved places, this machine competes like any other address.
        assert_eq!(places.enter(own).unwrap_err(), Crowd::All);
        drop((rest, many, here));
        let inner = places.lock();
        assert_eq!((inner.reserved, inner.by_address.len()), (0, 0));
    }

    #[test]
    fn a_proxys_connections_count_for_its_clients() {
        let places = AddressPlaces::new(100);
        let proxy = PlaceAsker { most: 0, ..asker("10.0.0.1") };
        let open: Vec<AddressPlace> = (0..6).map(|_| places.enter(proxy).unwrap()).collect();
        let told: Vec<_> = open.iter().map(|place| place.count_for(asker("192.0.2.1"))).collect();
        assert_eq!(told.iter().filter(|told| told.is_ok()).count(), 5);
        assert_eq!(told[5], Err(Crowd::Address));
        assert!(open[0].count_for(asker("192.0.2.2")).is_ok() && open[5].count_for(asker("192.0.2.1")).is_ok());
    }
}
