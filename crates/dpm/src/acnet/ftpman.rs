//! `FTPMAN`: fast time plots. A front-end collects a device many times a second and sends the
//! points in batches.
//!
//! DPM requests the class of plots of a device (typecode 1), and continuous plots (typecode 6, for
//! classes from 11 on). Snapshots (typecodes 5, 7 and 8, in [`snapshot`]) are requested by clients
//! whose requests are passed on, and answered by simulated front-ends; DPM itself requests none.
//! The older form of continuous plots (typecode 2) is not supported: it was never observed on a
//! wire.
//!
//! Times in replies are hundreds of microseconds since the accelerator's clock event 02, which
//! comes about every five seconds. All numbers are little endian.

use super::DeviceItem;
use super::snapshot;
pub use super::snapshot::{Retrieval, SnapshotControl, SnapshotSetup};
use super::words::{item, put, word};
use crate::rad50::Rad50;
use crate::status::Status;

/// The task that plots.
pub const TASK: Rad50 = Rad50::literal(b"FTPMAN");

/// A request to the plotting task of a front-end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlotRequest {
    /// Return the classes of plots of these devices.
    Classes(Vec<DeviceItem>),
    /// Plot one device until this is cancelled.
    Continuous(Setup),
    /// Take a snapshot of some devices, and report its progress.
    Snapshot(SnapshotSetup),
    /// Return points of a snapshot.
    Retrieve(Retrieval),
    /// Take a snapshot again, or return its points from the first on.
    Control(SnapshotControl),
}

/// The terms of a plot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The plot's name, by which front-ends distinguish requesters.
    pub name: Rad50,
    /// The device; it has 2 or 4 bytes.
    pub item: DeviceItem,
    /// The time between points, in tens of microseconds.
    pub period: u16,
}

/// The class of plots that a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// The status of looking the device up.
    pub status: Status,
    /// The class of continuous plots; 0 if there are none.
    pub continuous: u16,
    /// The class of snapshots; 0 if there are none.
    pub snapshot: u16,
}

/// A reply to a continuous plot of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The plot was accepted or not.
    Accepted(Status),
    /// Points, or the reason why there are none.
    Points(Result<Vec<Point>, Status>),
}

/// A point of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The time, in hundreds of microseconds since the last clock event 02.
    pub ticks: u16,
    /// The raw value.
    pub raw: i32,
}

impl PlotRequest {
    /// Returns the body of the request.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::Classes(items) => {
                put(&mut body, &[CLASSES, items.len() as u16]);
                for item in items {
                    body.extend_from_slice(&item.dipi().to_le_bytes());
                    body.extend_from_slice(&item.ssdn);
                }
            }
            Self::Continuous(setup) => {
                put(&mut body, &[CONTINUOUS]);
                body.extend_from_slice(&setup.name.0.to_le_bytes());
                // Devices, return period, size of replies, reference event, start, stop, priority,
                // current time, and the reserved fields.
                put(&mut body, &[1, RETURN_PERIOD, setup.reply_words(), 0, 0, 0, 0, 0]);
                body.extend_from_slice(&[0; 10]);
                body.extend_from_slice(&setup.item.dipi().to_le_bytes());
                body.extend_from_slice(&setup.item.offset.to_le_bytes());
                body.extend_from_slice(&setup.item.ssdn);
                put(&mut body, &[setup.period, 0, 0]);
            }
            Self::Snapshot(setup) => setup.encode(&mut body),
            Self::Retrieve(retrieval) => retrieval.encode(&mut body),
            Self::Control(control) => control.encode(&mut body),
        }
        body
    }

    /// Reads the body of a request. Errors are those of a front-end: an unsupported typecode, or a
    /// length or count that does not fit.
    pub fn decode(body: &[u8]) -> Result<Self, Status> {
        let (typecode, rest) = word(body).ok_or(Status::FTP_INVREQLEN)?;
        match typecode {
            CLASSES => {
                let (count, rest) = word(rest).ok_or(Status::FTP_INVREQLEN)?;
                let rows = rest.get(..usize::from(count) * 12).ok_or(Status::FTP_INVREQLEN)?;
                let item = |row: &[u8]| item(&row[..4], 0, &row[4..12]);
                Ok(Self::Classes(rows.chunks_exact(12).map(item).collect()))
            }
            CONTINUOUS => {
                let (head, rest) = rest.split_first_chunk::<30>().ok_or(Status::FTP_INVREQLEN)?;
                let [n0, n1, n2, n3, c0, c1, ..] = *head;
                if u16::from_le_bytes([c0, c1]) != 1 {
                    return Err(Status::FTP_INVNUMDEV);
                }
                let row = rest.get(..22).ok_or(Status::FTP_INVREQLEN)?;
                let offset = row[4..8].first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).unwrap_or_default();
                Ok(Self::Continuous(Setup {
                    name: Rad50(u32::from_le_bytes([n0, n1, n2, n3])),
                    item: item(&row[..4], offset, &row[8..16]),
                    period: u16::from_le_bytes([row[16], row[17]]),
                }))
            }
            snapshot::SETUP => SnapshotSetup::decode(rest).map(Self::Snapshot),
            snapshot::RETRIEVE => Retrieval::decode(rest).map(Self::Retrieve),
            snapshot::CONTROL => SnapshotControl::decode(rest).map(Self::Control),
            _ => Err(Status::FTP_INVTYP),
        }
    }
}

impl Setup {
    /// Returns the largest size of a reply, in words: one and a half times the size of its points.
    fn reply_words(&self) -> u16 {
        let points = POINTS_OF_PERIOD_ONE / u32::from(self.period.max(1));
        let words = 7 + points * if self.item.length == 4 { 3 } else { 2 };
        u16::try_from(words + words / 2).unwrap_or(MOST_WORDS).min(MOST_WORDS)
    }
}

impl Class {
    /// Returns the body of a reply about some devices.
    pub fn encode(classes: &[Self]) -> Vec<u8> {
        let mut body = vec![0; 2];
        for class in classes {
            put(&mut body, &[class.status.0 as u16, class.continuous, class.snapshot]);
        }
        body
    }

    /// Reads the reply about one device; `None` if it is too short.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let (overall, rest) = word(body)?;
        let overall = Status(overall as i16);
        if overall != Status::SUCCESS {
            return Some(Self { status: overall, continuous: 0, snapshot: 0 });
        }
        let (status, rest) = word(rest)?;
        let (continuous, rest) = word(rest)?;
        let (snapshot, _) = word(rest)?;
        Some(Self { status: Status(status as i16), continuous, snapshot })
    }

    /// Returns whether the front-end collects points itself. The other classes only repeat ordinary
    /// readings.
    pub fn is_fast(self) -> bool {
        !self.status.is_fatal() && self.continuous >= FIRST_NEW && !POOLED.contains(&self.continuous)
    }
}

impl Reply {
    /// Returns the body of a reply; values have 2 bytes, or 4.
    pub fn encode(&self, is_long: bool) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::Accepted(status) => put(&mut body, &[0, 1, status.0 as u16]),
            Self::Points(points) => {
                let (status, points) = match points {
                    Ok(points) => (Status::SUCCESS, points.as_slice()),
                    Err(status) => (*status, &[][..]),
                };
                put(&mut body, &[0, 2, 0, 0, status.0 as u16, FIRST_POINT, points.len() as u16]);
                for point in points {
                    put(&mut body, &[point.ticks]);
                    body.extend_from_slice(&point.raw.to_le_bytes()[..if is_long { 4 } else { 2 }]);
                }
            }
        }
        body
    }

    /// Reads the reply about one device. The error is the front-end's, or that of a reply that is
    /// too short.
    pub fn decode(body: &[u8], is_long: bool) -> Result<Self, Status> {
        let (overall, rest) = word(body).ok_or(Status::TRUNC_REPLY)?;
        if Status(overall as i16).is_fatal() {
            return Err(Status(overall as i16));
        }
        let (kind, rest) = word(rest).ok_or(Status::TRUNC_REPLY)?;
        match kind {
            1 => word(rest).map(|(status, _)| Self::Accepted(Status(status as i16))).ok_or(Status::TRUNC_REPLY),
            2 => {
                let rest = rest.get(4..).ok_or(Status::TRUNC_REPLY)?;
                let (status, rest) = word(rest).ok_or(Status::TRUNC_REPLY)?;
                if status != 0 {
                    return Ok(Self::Points(Err(Status(status as i16))));
                }
                let (index, rest) = word(rest).ok_or(Status::TRUNC_REPLY)?;
                let (count, _) = word(rest).ok_or(Status::TRUNC_REPLY)?;
                let size = if is_long { 6 } else { 4 };
                // The index counts from the beginning of the body.
                let points = body.get(usize::from(index)..).and_then(|rest| rest.get(..usize::from(count) * size));
                let points = points.ok_or(Status::TRUNC_REPLY)?.chunks_exact(size).map(|bytes| Point {
                    ticks: u16::from_le_bytes([bytes[0], bytes[1]]),
                    raw: crate::scaling::raw(&bytes[2..]).unwrap_or_default(),
                });
                Ok(Self::Points(Ok(points.collect())))
            }
            _ => Err(Status::FTP_BADRPY),
        }
    }
}

const CLASSES: u16 = 1;
const CONTINUOUS: u16 = 6;
/// The time between replies, in fifteenths of a second.
pub const RETURN_PERIOD: u16 = 3;
/// The number of points between two replies at one point every ten microseconds.
const POINTS_OF_PERIOD_ONE: u32 = 100_000 * RETURN_PERIOD as u32 / 15;
/// The largest reply, in words.
const MOST_WORDS: u16 = 4160;
/// The offset of the points in a reply about one device, in bytes.
const FIRST_POINT: u16 = 14;
/// The first class that uses typecode 6.
const FIRST_NEW: u16 = 11;
/// Classes whose points come from the front-end's own pool of readings.
const POOLED: &[u16] = &[14, 17, 22, 23];
/// The number of ticks after which times begin again: five seconds.
pub const WRAP: u16 = 50_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ITEM: DeviceItem =
        DeviceItem { device: 27235, property: 12, ssdn: [0, 0, 0x42, 0, 0x3f, 0x21, 0, 0], length: 0, offset: 0 };

    #[test]
    fn requests_stand_as_front_ends_read_them() {
        let hex = |body: Vec<u8>| body.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let classes = PlotRequest::Classes(vec![ITEM]);
        assert_eq!(hex(classes.encode()), "01000100636a000c000042003f210000");
        let setup = Setup { name: Rad50(0), item: DeviceItem { length: 2, ..ITEM }, period: 1000 };
        let zeros = |bytes: usize| "00".repeat(bytes);
        let device = format!("636a000c{}000042003f210000e803{}", zeros(4), zeros(4));
        let expected = format!("0600{}010003004600{}{device}", zeros(4), zeros(20));
        let body = PlotRequest::Continuous(setup.clone()).encode();
        assert_eq!(hex(body.clone()), expected);
        assert_eq!(PlotRequest::decode(&body), Ok(PlotRequest::Continuous(Setup { item: ITEM, ..setup })));
        assert_eq!(PlotRequest::decode(&classes.encode()), Ok(classes));
        assert_eq!(PlotRequest::decode(&[9, 0]), Err(Status::FTP_INVTYP));
        assert_eq!(PlotRequest::decode(&[1, 0, 9, 0, 1]), Err(Status::FTP_INVREQLEN));
    }

    #[test]
    fn replies_are_read_back() {
        let class = Class { status: Status::SUCCESS, continuous: 12, snapshot: 21 };
        assert_eq!(Class::decode(&Class::encode(&[class])), Some(class));
        assert!(
            class.is_fast()
                && !Class { continuous: 23, ..class }.is_fast()
                && !Class { continuous: 2, ..class }.is_fast()
        );
        let points = vec![Point { ticks: 49_999, raw: -7 }, Point { ticks: 1, raw: 300 }];
        for is_long in [false, true] {
            let reply = Reply::Points(Ok(points.clone()));
            assert_eq!(Reply::decode(&reply.encode(is_long), is_long), Ok(reply.clone()));
            let body = reply.encode(is_long);
            assert_eq!(Reply::decode(&body[..body.len() - 1], is_long), Err(Status::TRUNC_REPLY));
        }
        for reply in [Reply::Accepted(Status::FTP_UNSFREQ), Reply::Points(Err(Status::FTP_UNSFREQ))] {
            assert_eq!(Reply::decode(&reply.encode(false), false), Ok(reply));
        }
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..80), is_long: bool) {
            let _ = (Reply::decode(&body, is_long), PlotRequest::decode(&body), Class::decode(&body));
        }
    }
}
