//! Readings of devices for the API. This front doesn't know about devices: the process attaches the
//! code that reads them.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rookery_base::lock::lock;
use serde_json::Value;

/// Reads devices for clients of the API.
pub trait Readings: Debug + Send + Sync {
    /// Begins to read for a host: each request once, or at its own rate.
    ///
    /// # Errors
    /// `InvalidInput`, with a text, for an invalid request; any other if there is no reader.
    fn read(&self, requests: &[String], is_once: bool, from: IpAddr) -> io::Result<Box<dyn Feed>>;

    /// Asks for an overview of the devices, the readers and the delays: one object, and the end.
    ///
    /// # Errors
    /// Any error if there is no reader.
    fn overview(&self, from: IpAddr) -> io::Result<Box<dyn Feed>>;

    /// Returns the figures of the reader, as `/metrics` has them. An error means that it
    /// has ended.
    fn figures(&self) -> Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;
}

/// A stream of readings.
pub trait Feed: Debug + Send {
    /// Returns the next item; `None` at the end.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Told>>>;
}

/// An item of a feed.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A reading of a device, as JSON.
    Reading(Value),
    /// Nothing has come for a while, but the other side is alive.
    Alive,
}

/// The open feeds, by host.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenFeeds(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The right to one more feed. Dropping it returns it.
#[derive(Debug)]
pub(crate) struct FeedPlace {
    open: OpenFeeds,
    from: IpAddr,
}

impl OpenFeeds {
    /// Returns the right to a feed for a host; `None` if the limit is reached.
    pub fn enter(&self, from: IpAddr) -> Option<FeedPlace> {
        let mut open = lock(&self.0);
        let (all, own) = (open.values().sum::<usize>(), open.get(&from).copied().unwrap_or_default());
        if all >= MOST || own >= MOST_OF_ADDRESS {
            return None;
        }
        *open.entry(from).or_default() += 1;
        Some(FeedPlace { open: self.clone(), from })
    }
}

impl Drop for FeedPlace {
    fn drop(&mut self) {
        let mut open = lock(&self.open.0);
        if let Some(own) = open.get_mut(&self.from) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.from);
            }
        }
    }
}

/// The most open feeds at a time, in total and per address.
pub(crate) const MOST: usize = 500;
pub(crate) const MOST_OF_ADDRESS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_so_many_feeds_and_gets_new_ones_when_old_ones_end() {
        let (open, host) = (OpenFeeds::default(), IpAddr::from([10, 0, 0, 1]));
        let mut places: Vec<_> = (0..MOST_OF_ADDRESS).map(|_| open.enter(host).expect("a place")).collect();
        assert!(open.enter(host).is_none());
        let _other = open.enter(IpAddr::from([10, 0, 0, 2])).expect("others have theirs");
        places.pop();
        assert!(open.enter(host).is_some());
        drop(places);
        assert_eq!(lock(&open.0).len(), 1, "nothing is kept of a host that has none");
    }
}
