//! A client in the same process, which uses the protocol of those over TCP, without a socket.
//!
//! The service doesn't distinguish it from others, and its requests are pooled with theirs.
//! Starting a list goes through all of its requests, so they are spread over several lists.

use std::collections::HashMap;

use crate::sdd::SddMessage;
use crate::sdd::reply::Reply;
use crate::sdd::request::{AddToList, RemoveFromList, Request, StartList};
use crate::service::{ClientKey, Dpm};
use crate::time::Moment;

/// The client.
#[derive(Debug, Default)]
pub struct Inside {
    lists: Vec<InsideList>,
    /// The list that each request is on, by the request's number.
    places: HashMap<i64, usize, ahash::RandomState>,
    last: i64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct InsideList {
    client: ClientKey,
    id: i32,
    requests: usize,
    is_changed: bool,
}

impl Inside {
    /// Adds a request. Returns its number in the replies, which begin after the next
    /// [`start`](Self::start); `None` if the service permits no more lists.
    pub fn add(&mut self, dpm: &mut Dpm, request: &str, now: Moment) -> Option<i64> {
        let place = match self.lists.iter().position(|list| list.requests < REQUESTS) {
            Some(place) => place,
            None => self.open(dpm, now)?,
        };
        let list = self.lists.get_mut(place)?;
        (list.requests, list.is_changed) = (list.requests + 1, true);
        self.last += 1;
        self.places.insert(self.last, place);
        let add = AddToList { list_id: list.id, ref_id: self.last, drf_request: request.to_owned() };
        send(dpm, list.client, add.into(), now);
        Some(self.last)
    }

    /// Removes a request.
    pub fn remove(&mut self, dpm: &mut Dpm, number: i64, now: Moment) {
        let place = self.places.remove(&number);
        let Some(list) = place.and_then(|place| self.lists.get_mut(place)) else { return };
        list.requests -= 1;
        send(dpm, list.client, RemoveFromList { list_id: list.id, ref_id: number }.into(), now);
    }

    /// Starts the requests that were added since the last call.
    pub fn start(&mut self, dpm: &mut Dpm, now: Moment) {
        for list in self.lists.iter_mut().filter(|list| list.is_changed) {
            list.is_changed = false;
            send(dpm, list.client, StartList { list_id: list.id, model: None }.into(), now);
        }
    }

    /// Passes all new replies, list by list, to `take`.
    pub fn replies(&mut self, dpm: &mut Dpm, mut take: impl FnMut(Reply)) {
        for list in &self.lists {
            each_reply(dpm, list.client, &mut self.bytes, &mut take);
        }
    }

    fn open(&mut self, dpm: &mut Dpm, now: Moment) -> Option<usize> {
        let client = dpm.connect();
        let mut id = None;
        // The service replies to this greeting with the list of the connection.
        dpm.receive(client, GREETING, now).ok()?;
        each_reply(dpm, client, &mut self.bytes, &mut |reply| {
            if let Reply::OpenList(open) = reply {
                id = Some(open.list_id);
            }
        });
        let Some(id) = id else {
            dpm.disconnect(client);
            return None;
        };
        self.lists.push(InsideList { client, id, requests: 0, is_changed: false });
        Some(self.lists.len() - 1)
    }
}

fn send(dpm: &mut Dpm, client: ClientKey, request: Request, now: Moment) {
    let mut framed = vec![0; PREFIX];
    request.encode(&mut framed);
    let length = (framed.len() - PREFIX) as u32;
    framed[..PREFIX].copy_from_slice(&length.to_be_bytes());
    // Our own messages are always valid.
    let _ = dpm.receive(client, &framed, now);
}

fn each_reply(dpm: &mut Dpm, client: ClientKey, bytes: &mut Vec<u8>, take: &mut impl FnMut(Reply)) {
    loop {
        bytes.clear();
        let more = dpm.render(client, bytes, AT_ONCE);
        let mut rest = &bytes[..];
        while let Some((prefix, framed)) = rest.split_first_chunk::<PREFIX>() {
            let Some((frame, behind)) = framed.split_at_checked(u32::from_be_bytes(*prefix) as usize) else { break };
            rest = behind;
            if let Ok(reply) = Reply::decode(frame) {
                take(reply);
            }
        }
        if !more {
            return;
        }
    }
}

/// The most requests on a list.
const REQUESTS: usize = 100;
const PREFIX: usize = 4;
/// The approximate number of bytes that are taken at once.
const AT_ONCE: usize = 64 << 10;
const GREETING: &[u8] = b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n";
