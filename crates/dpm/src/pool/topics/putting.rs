//! Settings, which are published to their topics.

use super::payload;
use super::state::{TopicPut, TopicTimer, Topics};
use crate::acnet::{DeviceItem, setsdb};
use crate::database::PropertyPlace;
use crate::mqtt;
use crate::setting::{PATIENCE, SettingOutcome, SettingTicket};
use crate::status::Status;
use crate::time::Moment;

impl Topics {
    /// Adds a setting of a topic.
    pub(in crate::pool) fn set(
        &mut self,
        node: usize,
        place: &PropertyPlace,
        item: DeviceItem,
        bytes: Vec<u8>,
        ticket: SettingTicket,
    ) {
        let (topic, payload, is_retained) = match &place.topic {
            Some(named) => {
                let payload = payload::message(named, &bytes, place.element as usize);
                (named.name.clone(), payload, named.is_retained)
            }
            None => ("".into(), Vec::new(), false),
        };
        let put = TopicPut { ticket, item, bytes, topic, payload, is_retained, until: None };
        if item.offset != 0 || item.length != place.size && place.size > place.element {
            // A message always has all elements.
            return self.finish(put, Status::NOSET);
        }
        if put.topic.is_empty() || self.nodes.get(node).is_none_or(Option::is_none) {
            return self.finish(put, Status::NO_NODE);
        }
        self.session(node).waiting.push_back(put);
    }

    /// Takes the finished settings.
    pub(in crate::pool) fn take_done(&mut self) -> Vec<SettingOutcome> {
        std::mem::take(&mut self.done)
    }

    /// Ends a setting.
    pub(super) fn finish(&mut self, put: TopicPut, status: Status) {
        let written = (status == Status::SUCCESS).then(|| setsdb::SettingEntry::new(put.item, &put.bytes));
        self.done.push(SettingOutcome { ticket: put.ticket, status, written });
    }

    /// Sends the waiting settings of a broker if it is connected, and sets the time limit of new
    /// ones.
    pub(super) fn put(&mut self, node: usize, now: Moment) {
        let Some(session) = self.sessions.get_mut(&node) else { return };
        let until = now.millis + PATIENCE;
        if session.waiting.iter().any(|put| put.until.is_none()) {
            session.waiting.iter_mut().for_each(|put| put.until = put.until.or(Some(until)));
            self.timers.insert((until, TopicTimer::Puts(node)));
        }
        while session.is_open()
            && session.puts.len() < MOST_PUTS
            && let Some(put) = session.waiting.pop_front()
        {
            let id = session.id();
            mqtt::publish(id, &put.topic, &put.payload, put.is_retained, &mut session.output);
            session.puts.insert(id, put);
            self.counters.requests += 1;
        }
    }

    /// Handles a broker's acknowledgement of a setting.
    pub(super) fn published(&mut self, node: usize, id: u16) {
        match self.sessions.get_mut(&node).and_then(|session| session.puts.remove(&id)) {
            Some(put) => self.finish(put, Status::SUCCESS),
            None => self.counters.strays += 1,
        }
    }

    /// Gives up settings that were not sent in time.
    pub(super) fn give_up_puts(&mut self, node: usize, now: Moment) {
        let Some(session) = self.sessions.get_mut(&node) else { return };
        let is_over = |put: &TopicPut| put.until.is_some_and(|until| until <= now.millis);
        let unsent = session.waiting.iter().take_while(|put| is_over(put)).count();
        let unsent: Vec<TopicPut> = session.waiting.drain(..unsent).collect();
        let mut ids: Vec<u16> = session.puts.iter().filter(|(_, put)| is_over(put)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let sent: Vec<TopicPut> = ids.into_iter().filter_map(|id| session.puts.remove(&id)).collect();
        let left = session.waiting.iter().chain(session.puts.values()).filter_map(|put| put.until).min();
        self.timers.extend(left.map(|until| (until, TopicTimer::Puts(node))));
        unsent.into_iter().for_each(|put| self.finish(put, Status::NODE_DOWN));
        sent.into_iter().for_each(|put| self.finish(put, Status::UTIME));
    }
}

/// The most settings without an acknowledgement from a broker; further ones wait.
const MOST_PUTS: usize = 1000;
