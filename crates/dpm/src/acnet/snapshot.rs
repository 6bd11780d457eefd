//! Snapshots: a front-end collects a few thousand points of a device, as fast as it can, and
//! returns them on request.
//!
//! A snapshot is set up by a request for many replies, which report the progress of each device:
//! waiting for a clock event, then for a delay, collecting, done. Points are retrieved by separate
//! requests, which name the snapshot as its setup did. The first point is not a reading.

use super::DeviceItem;
use super::words::{item, put, word};
use crate::rad50::Rad50;
use crate::status::Status;

/// A snapshot to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSetup {
    /// The name by which its points are retrieved.
    pub name: Rad50,
    /// The bits that describe its arming and its trigger.
    pub arm: u16,
    /// The priority of the request, as the client set it.
    pub priority: u16,
    /// Points per second.
    pub rate: u32,
    /// The time from the event to the first point, in microseconds.
    pub delay: u32,
    /// Clock events that arm it; 255 for none. Without events it is armed at once.
    pub events: [u8; 8],
    /// Clock events at which points are taken; 255 for none.
    pub sample: [u8; 4],
    /// The number of points.
    pub points: u32,
    /// The readings to take.
    pub items: Vec<DeviceItem>,
}

/// Points of a snapshot to be retrieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retrieval {
    /// The snapshot's name.
    pub name: Rad50,
    /// The number of one of its devices, from 1 on.
    pub item: u16,
    /// The most points to return.
    pub count: u16,
    /// The first point; `None` to continue after the last returned one.
    pub from: Option<u32>,
}

/// A request to take a snapshot again, or to return its points from the first on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotControl {
    /// The name that the snapshot's setup gave it.
    pub name: Rad50,
    /// True if it is taken again; otherwise its points are returned from the first on.
    pub restarts: bool,
}

/// The reply to the setup of a snapshot: the state of each of its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotProgress<'a> {
    /// The reason why there is no snapshot, if there is none.
    pub status: Status,
    /// The setup in force.
    pub setup: &'a SnapshotSetup,
    /// The state of each device.
    pub devices: &'a [Status],
    /// The time when it was armed, in milliseconds since 1970.
    pub armed: i64,
}

/// One point that a front-end has collected for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPoint {
    /// The time, in hundreds of microseconds since it was armed.
    pub ticks: u16,
    /// The raw value.
    pub raw: i32,
}

impl SnapshotSetup {
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        put(body, &[SETUP]);
        body.extend_from_slice(&self.name.0.to_le_bytes());
        put(body, &[self.items.len() as u16, self.arm, self.priority]);
        body.extend_from_slice(&self.rate.to_le_bytes());
        body.extend_from_slice(&self.delay.to_le_bytes());
        body.extend_from_slice(&self.events);
        body.extend_from_slice(&self.sample);
        body.extend_from_slice(&self.points.to_le_bytes());
        // A device that arms it, and reserved fields.
        body.extend_from_slice(&[0; 32]);
        for item in &self.items {
            body.extend_from_slice(&item.dipi().to_le_bytes());
            body.extend_from_slice(&item.offset.to_le_bytes());
            body.extend_from_slice(&item.ssdn);
            body.extend_from_slice(&[0; 4]);
        }
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, Status> {
        let (head, rest) = body.split_first_chunk::<HEAD>().ok_or(Status::FTP_INVREQLEN)?;
        let (name, head) = double(head)?;
        let (count, head) = word(head).ok_or(Status::FTP_INVREQLEN)?;
        let (arm, head) = word(head).ok_or(Status::FTP_INVREQLEN)?;
        let (priority, head) = word(head).ok_or(Status::FTP_INVREQLEN)?;
        let (rate, head) = double(head)?;
        let (delay, head) = double(head)?;
        let (events, head) = head.split_first_chunk().ok_or(Status::FTP_INVREQLEN)?;
        let (sample, head) = head.split_first_chunk().ok_or(Status::FTP_INVREQLEN)?;
        let (points, _) = double(head)?;
        let rows = rest.get(..usize::from(count) * DEVICE).ok_or(Status::FTP_INVREQLEN)?;
        if count == 0 {
            return Err(Status::FTP_INVNUMDEV);
        }
        let device = |row: &[u8]| {
            let (_, rest) = double(row)?;
            let (offset, rest) = double(rest)?;
            Ok(item(&row[..4], offset, &rest[..8]))
        };
        Ok(Self {
            name: Rad50(name),
            arm,
            priority,
            rate,
            delay,
            events: *events,
            sample: *sample,
            points,
            items: rows.chunks_exact(DEVICE).map(device).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the clock events that arm it, of which there are none if it is armed at once; `None`
    /// if it is armed in another way.
    pub fn arming(&self) -> Option<impl Iterator<Item = u8>> {
        let is_by_clock = matches!(self.arm & 3, BY_EVENTS | AT_ONCE);
        is_by_clock.then(|| self.events.into_iter().filter(|event| *event != NO_EVENT))
    }

    /// Returns whether its points are taken periodically after it is armed. Points may also be
    /// taken at events, or before.
    pub fn is_periodic(&self) -> bool {
        self.arm >> 8 & 3 == 0 && self.arm >> 5 & 3 == AFTERWARDS
    }
}

impl Retrieval {
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        put(body, &[RETRIEVE]);
        body.extend_from_slice(&self.name.0.to_le_bytes());
        put(body, &[self.item, self.count]);
        body.extend_from_slice(&self.from.unwrap_or(GO_ON).to_le_bytes());
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, Status> {
        let (name, rest) = double(body)?;
        let (item, rest) = word(rest).ok_or(Status::FTP_INVREQLEN)?;
        let (count, rest) = word(rest).ok_or(Status::FTP_INVREQLEN)?;
        let (from, _) = double(rest)?;
        Ok(Self { name: Rad50(name), item, count, from: (from != GO_ON).then_some(from) })
    }

    /// Returns the body of the reply. Values have 2 bytes, or 4.
    pub fn reply(points: &[SnapshotPoint], is_long: bool) -> Vec<u8> {
        let mut body = Vec::new();
        put(&mut body, &[0, points.len() as u16]);
        for point in points {
            put(&mut body, &[point.ticks]);
            body.extend_from_slice(&point.raw.to_le_bytes()[..if is_long { 4 } else { 2 }]);
        }
        body
    }
}

impl SnapshotControl {
    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        put(body, &[CONTROL]);
        body.extend_from_slice(&self.name.0.to_le_bytes());
        put(body, &[if self.restarts { RESTART } else { RESET }]);
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, Status> {
        let (name, rest) = double(body)?;
        match word(rest).map(|(kind, _)| kind) {
            Some(kind @ (RESTART | RESET)) => Ok(Self { name: Rad50(name), restarts: kind == RESTART }),
            Some(_) => Err(Status::FTP_BADARG),
            None => Err(Status::FTP_INVREQLEN),
        }
    }
}

impl SnapshotProgress<'_> {
    /// Returns the body of the reply.
    pub fn encode(&self) -> Vec<u8> {
        let setup = self.setup;
        let mut body = Vec::new();
        put(&mut body, &[self.status.0 as u16, setup.arm]);
        body.extend_from_slice(&setup.rate.to_le_bytes());
        body.extend_from_slice(&setup.delay.to_le_bytes());
        body.extend_from_slice(&setup.events);
        body.extend_from_slice(&setup.points.to_le_bytes());
        let (seconds, nanos) = (self.armed.div_euclid(1000) as u32, self.armed.rem_euclid(1000) as u32 * 1_000_000);
        for status in self.devices {
            put(&mut body, &[status.0 as u16]);
            for number in [0, seconds, nanos, 0] {
                body.extend_from_slice(&number.to_le_bytes());
            }
        }
        body
    }
}

fn double(body: &[u8]) -> Result<(u32, &[u8]), Status> {
    let (bytes, rest) = body.split_first_chunk().ok_or(Status::FTP_INVREQLEN)?;
    Ok((u32::from_le_bytes(*bytes), rest))
}

/// The typecodes.
pub(super) const CONTROL: u16 = 5;
pub(super) const SETUP: u16 = 7;
pub(super) const RETRIEVE: u16 = 8;
/// Bytes of a setup after its typecode, before the devices.
const HEAD: usize = 66;
/// Bytes of a device.
const DEVICE: usize = 20;
/// Requests the points after the last returned ones.
const GO_ON: u32 = u32::MAX;
const RESTART: u16 = 1;
const RESET: u16 = 2;
/// Bits of [`SnapshotSetup::arm`] for the arming.
const AT_ONCE: u16 = 1;
const BY_EVENTS: u16 = 2;
/// The bit for taking points after the arming.
const AFTERWARDS: u16 = 2;
const NO_EVENT: u8 = 0xff;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ftpman::PlotRequest;
    use super::*;

    fn setup() -> SnapshotSetup {
        let item =
            DeviceItem { device: 27235, property: 12, ssdn: [0, 0, 0x42, 0, 0x3f, 0x21, 0, 0], length: 0, offset: 0 };
        SnapshotSetup {
            name: Rad50(0x1234_5678),
            arm: 0x00c2,
            priority: 0,
            rate: 1440,
            delay: 1000,
            events: [2, 255, 255, 255, 255, 255, 255, 255],
            sample: [255; 4],
            points: 2048,
            items: vec![item, DeviceItem { offset: 2, ..item }],
        }
    }

    #[test]
    fn requests_stand_as_clients_write_them() {
        let hex = |request: PlotRequest| request.encode().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let zeros = |bytes: usize| "00".repeat(bytes);
        let device = |offset: &str| format!("636a000c{offset}000042003f210000{}", zeros(4));
        let head = "070078563412 0200 c200 0000 a0050000 e8030000 02ffffffffffffff ffffffff 00080000".replace(' ', "");
        let expected = format!("{head}{}{}{}", zeros(32), device("00000000"), device("02000000"));
        assert_eq!(hex(PlotRequest::Snapshot(setup())), expected);
        let retrieval = Retrieval { name: Rad50(0x1234_5678), item: 1, count: 512, from: None };
        assert_eq!(hex(PlotRequest::Retrieve(retrieval)), "080078563412010000 02ffffffff".replace(' ', ""));
        let control = SnapshotControl { name: Rad50(0x1234_5678), restarts: true };
        assert_eq!(hex(PlotRequest::Control(control)), "0500785634120100");
        for request in [PlotRequest::Snapshot(setup()), PlotRequest::Retrieve(retrieval), PlotRequest::Control(control)]
        {
            let body = request.encode();
            assert_eq!(PlotRequest::decode(&body), Ok(request));
            assert_eq!(PlotRequest::decode(&body[..body.len() - 1]), Err(Status::FTP_INVREQLEN));
        }
        assert_eq!(PlotRequest::decode(&[5, 0, 0, 0, 0, 0, 9, 0]), Err(Status::FTP_BADARG));
    }

    #[test]
    fn progress_stands_as_clients_read_it() {
        let (setup, devices) = (setup(), [Status::SUCCESS, Status::FTP_UNSDEV]);
        let body =
            SnapshotProgress { status: Status::SUCCESS, setup: &setup, devices: &devices, armed: 1_700_000_000_250 };
        let body = body.encode();
        assert_eq!(body.len(), 24 + 18 * 2);
        assert_eq!(body[..8], [0, 0, 0xc2, 0, 0xa0, 5, 0, 0]);
        assert_eq!(body[20..24], 2048u32.to_le_bytes());
        assert_eq!(body[30..38], [1_700_000_000u32.to_le_bytes(), 250_000_000u32.to_le_bytes()].concat());
        assert_eq!(body[42..44], Status::FTP_UNSDEV.0.to_le_bytes());
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..120), code in 5u8..9) {
            let _ = PlotRequest::decode(&[&[code, 0], &*body].concat());
        }
    }
}
