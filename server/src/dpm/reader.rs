//! Readings for the chat: a DPM client within its own thread, which reads each node once,
//! regardless of the number of its subscribers.

use std::collections::HashMap;
use std::sync::Arc;

use rookery_dpm::inside::Inside;
use rookery_dpm::sdd::reply::{DeviceInfo, Reply};
use rookery_dpm::service::Dpm;
use rookery_dpm::time::Moment;
use rookery_pubsub::data::{Reading, Topic, deliver};
use rookery_shard::Door;

use super::alarms::AlarmWatch;
use super::bridge::request;
use super::payload::reading;

/// The client and its requests.
pub struct DpmReader {
    inside: Inside,
    door: Door,
    numbers: HashMap<Topic, i64>,
    jobs: HashMap<i64, ReaderJob>,
    watch: AlarmWatch,
}

/// The purpose of a request.
enum ReaderJob {
    Node {
        topic: Arc<Topic>,
        shard: usize,
        device: Option<DeviceInfo>,
    },
    /// An alarm block of a device, by its place in the watch.
    Alarm(usize),
}

/// Readings for each shard.
type Batches = HashMap<usize, Vec<(Arc<Topic>, Reading)>>;

impl DpmReader {
    /// Creates a reader that reads nothing yet.
    pub fn new(door: Door, watch: AlarmWatch) -> DpmReader {
        DpmReader { inside: Inside::default(), door, numbers: HashMap::new(), jobs: HashMap::new(), watch }
    }

    /// Starts to watch the alarms.
    pub fn begin(&mut self, dpm: &mut Dpm, now: Moment) {
        for (place, request) in self.watch.requests().enumerate().collect::<Vec<_>>() {
            if let Some(number) = self.inside.add(dpm, &request, now) {
                self.jobs.insert(number, ReaderJob::Alarm(place));
            }
        }
        self.inside.start(dpm, now);
    }

    /// Starts to read a node.
    pub fn open(&mut self, dpm: &mut Dpm, topic: Arc<Topic>, shard: usize, now: Moment) {
        // A node whose device no longer exists is requested under its name: its subscribers get the
        // status that says so.
        let asked = request(&topic.node).map_or_else(|_| topic.node.clone(), |request| request.to_string());
        if let Some(number) = self.inside.add(dpm, &asked, now) {
            self.numbers.insert((*topic).clone(), number);
            self.jobs.insert(number, ReaderJob::Node { topic, shard, device: None });
        }
    }

    /// Stops reading a node.
    pub fn close(&mut self, dpm: &mut Dpm, topic: &Topic, now: Moment) {
        if let Some(number) = self.numbers.remove(topic) {
            self.jobs.remove(&number);
            self.inside.remove(dpm, number, now);
        }
    }

    /// Delivers the replies that have come.
    pub fn turn(&mut self, dpm: &mut Dpm, now: Moment) {
        self.inside.start(dpm, now);
        let DpmReader { inside, jobs, watch, door, .. } = self;
        let mut batches = Batches::new();
        inside.replies(dpm, |reply| {
            let Some(number) = number(&reply) else { return };
            match (jobs.get_mut(&number), reply) {
                (Some(ReaderJob::Node { device, .. }), Reply::DeviceInfo(info)) => *device = Some(info),
                (Some(ReaderJob::Node { topic, shard, device }), reply) => {
                    if let Some(reading) = reading(device.as_ref(), &reply) {
                        batches.entry(*shard).or_default().push((topic.clone(), reading));
                    }
                }
                (Some(ReaderJob::Alarm(place)), reply) => watch.take(*place, &reply, door),
                // A reply that was on its way when the node was closed.
                (None, _) => {}
            }
        });
        for (shard, readings) in batches {
            door.run_at(shard, move |world| deliver(world, readings));
        }
    }
}

/// Returns the number of the request that a reply belongs to.
fn number(reply: &Reply) -> Option<i64> {
    Some(match reply {
        Reply::Status(reply) => reply.ref_id,
        Reply::DeviceInfo(reply) => reply.ref_id,
        Reply::Scalar(reply) => reply.ref_id,
        Reply::ScalarArray(reply) => reply.ref_id,
        Reply::Raw(reply) => reply.ref_id,
        Reply::Text(reply) => reply.ref_id,
        Reply::TextArray(reply) => reply.ref_id,
        Reply::AnalogAlarm(reply) => reply.ref_id,
        Reply::DigitalAlarm(reply) => reply.ref_id,
        Reply::BasicStatus(reply) => reply.ref_id,
        Reply::TimedScalarArray(reply) => reply.ref_id,
        _ => return None,
    })
}
