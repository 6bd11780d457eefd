//! Input of clients, split into frames.

use super::caller::RawState;
use super::client::Speaks;
use super::keys::{ClientKey, CloseClient};
use super::list::ListRoute;
use super::{Dpm, greeting};
use crate::time::Moment;

impl Dpm {
    /// Processes all complete frames, and returns the number of their bytes. Input of a client that
    /// doesn't read its output is left for later.
    pub(super) fn take_input(&mut self, client: ClientKey, input: &[u8], now: Moment) -> Result<usize, CloseClient> {
        let mut taken = 0;
        while let Some(rest) = input.get(taken..).filter(|rest| !rest.is_empty()) {
            let has_room = self.outlets.makes_room(client);
            let Some(state) = self.outlets.clients.get(client) else { return Err(CloseClient) };
            if !has_room {
                break;
            }
            let used = match state.speaks {
                Speaks::Unknown => self.greet(client, rest, now)?,
                Speaks::Dpm => match frame(rest)? {
                    Some(frame) => {
                        self.take_message(client, frame, now);
                        PREFIX + frame.len()
                    }
                    None => 0,
                },
                Speaks::Top => return Err(CloseClient),
                Speaks::Raw(_) => match frame(rest)? {
                    Some(frame) => {
                        self.take_frame(client, frame, now)?;
                        PREFIX + frame.len()
                    }
                    None => 0,
                },
                Speaks::Daq | Speaks::Node(_) => return Err(CloseClient),
            };
            if used == 0 {
                break;
            }
            taken += used;
        }
        Ok(taken)
    }

    pub(super) fn greet(&mut self, client: ClientKey, input: &[u8], now: Moment) -> Result<usize, CloseClient> {
        let from = self.outlets.clients.get(client).and_then(|client| client.from);
        let is_near = from.is_none_or(|from| from.ip().is_loopback());
        let may_scrape =
            is_near || from.is_some_and(|from| self.scrapers.iter().any(|network| network.contains(from.ip())));
        let (speaks, used) = match greeting::read(input, is_near, may_scrape)? {
            None => return Ok(0),
            Some((greeting::Greeting::Dpm, used)) => (Speaks::Dpm, used),
            Some((greeting::Greeting::Raw, used)) => (Speaks::Raw(RawState::default()), used),
            Some((greeting::Greeting::Top, used)) => {
                self.watch(client, now);
                (Speaks::Top, used)
            }
            Some((greeting::Greeting::Metrics, _)) => {
                let page = super::metrics::page(&self.figures(now));
                self.outlets.frame(client, page.into_bytes());
                return Err(CloseClient);
            }
            Some((greeting::Greeting::Overview, _)) => {
                self.look(client, super::overview::HEAD, now);
                return Err(CloseClient);
            }
            Some((greeting::Greeting::Refused(answer), _)) => {
                self.outlets.frame(client, answer.as_bytes().to_vec());
                return Err(CloseClient);
            }
        };
        let opens = matches!(speaks, Speaks::Dpm);
        if let Some(state) = self.outlets.clients.get_mut(client) {
            state.speaks = speaks;
            state.speaks_by = None;
        }
        if opens {
            self.open_list(client, ListRoute::Tcp).map_err(|_| CloseClient)?;
        }
        Ok(used)
    }
}

/// Returns the frame at the beginning of some bytes, if it is complete. In both protocols a frame
/// begins with its length.
pub(super) fn frame(input: &[u8]) -> Result<Option<&[u8]>, CloseClient> {
    let Some((prefix, rest)) = input.split_first_chunk::<PREFIX>() else { return Ok(None) };
    match u32::from_be_bytes(*prefix) as usize {
        length if length > FRAME => Err(CloseClient),
        length => Ok(rest.get(..length)),
    }
}

/// The bytes of the length in front of a frame.
pub(super) const PREFIX: usize = 4;

/// The largest frame that a client may send, in bytes.
pub const FRAME: usize = 128 << 10;
