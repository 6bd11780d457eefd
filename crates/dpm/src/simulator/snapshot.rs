//! Snapshots (`FTPMAN`) of simulated devices.
//!
//! Every scripted number of 2 or 4 bytes has snapshots of class 12 ("1440 Hz internal"): up to 2048
//! points at up to 1440 Hz, armed at once or by a clock event of the simulator's generator. Points
//! are computed from the script and their times, so that none are stored.

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::sync::Arc;

use super::event::{SimulatedClock, SimulatedTimes};
use super::state::{SimulatedDevice, Simulator, Snapshot, StreamKey};
use crate::acnet::ftpman::{Retrieval, SnapshotControl, SnapshotSetup};
use crate::acnet::snapshot::{SnapshotPoint, SnapshotProgress};
use crate::acnet::{AcnetHeader, LARGEST};
use crate::rad50::Rad50;
use crate::status::Status;
use crate::time::Moment;

impl Snapshot {
    /// Returns the time from which points are collected, in milliseconds.
    fn begins(&self) -> Option<u64> {
        self.armed.map(|armed| armed + u64::from(self.setup.delay).div_ceil(1000))
    }

    /// Returns the time at which all points are collected.
    fn ends(&self) -> Option<u64> {
        let takes = u64::from(self.setup.points) * 1000 / u64::from(self.setup.rate.max(1)) + 1;
        self.begins().map(|begins| begins + takes)
    }

    /// Returns its state, and the time until which that lasts.
    fn stage(&self, millis: u64) -> (Status, Option<u64>) {
        let stages = [
            (self.armed, Status::FTP_WAIT_EVENT),
            (self.begins(), Status::FTP_WAIT_DELAY),
            (self.ends(), Status::FTP_COLLECTING),
        ];
        let current = stages.into_iter().find(|(until, _)| until.is_none_or(|until| until > millis));
        current.map_or((Status::SUCCESS, None), |(until, status)| (status, until))
    }

    fn arm(&mut self, clock: &SimulatedClock, now: Moment) {
        let events: Vec<u8> = self.setup.arming().into_iter().flatten().collect();
        let next = |event: &u8| SimulatedTimes::of_ftd(0x8000 | u16::from(*event), clock).next(now.millis);
        self.armed = if events.is_empty() { Some(now.millis) } else { events.iter().filter_map(next).min() };
        self.armed_unix = self.armed.map_or(0, |armed| now.unix_millis + (armed - now.millis) as i64);
        self.devices.iter_mut().for_each(|device| device.next = 0);
    }
}

impl Simulator {
    /// Answers a request to take a snapshot.
    pub(super) fn set_up(&mut self, key: StreamKey, header: AcnetHeader, setup: SnapshotSetup, born: u64, now: Moment) {
        let refused = match () {
            () if setup.arming().is_none() => Some(Status::FTP_BADARM),
            () if !setup.is_periodic() => Some(Status::FTP_BAD_PLOT_MODE),
            () if setup.rate == 0 || setup.points == 0 => Some(Status::FTP_BADARG),
            () if setup.rate > FASTEST => Some(Status::FTP_FREQ_TOO_HIGH),
            () if setup.items.len() > MOST_DEVICES || self.snapshots.len() >= MOST_SNAPSHOTS => {
                Some(Status::FTP_INVNUMDEV)
            }
            () => None,
        };
        if let Some(status) = refused {
            let body = status.0.to_le_bytes();
            return self.send(key.0, &header, header.answer(Status::SUCCESS, false), &body, now);
        }
        let setup = SnapshotSetup { points: setup.points.min(MOST_POINTS), ..setup };
        let devices = setup.items.iter().map(|item| SimulatedDevice { length: self.length(item), next: 0 }).collect();
        let mut snapshot = Snapshot { header, setup, devices, armed: None, armed_unix: 0, due: None, born };
        snapshot.arm(&self.clock, now);
        self.tell(key, &mut snapshot, now);
        self.snapshots.insert(key, snapshot);
    }

    /// Sends points of a snapshot.
    pub(super) fn retrieve(&mut self, key: StreamKey, header: AcnetHeader, retrieval: Retrieval, now: Moment) {
        let body = self.points(key, header, retrieval, now).unwrap_or_else(|status| status.0.to_le_bytes().to_vec());
        self.send(key.0, &header, header.answer(Status::SUCCESS, false), &body, now);
    }

    fn points(
        &mut self,
        key: StreamKey,
        header: AcnetHeader,
        retrieval: Retrieval,
        now: Moment,
    ) -> Result<Vec<u8>, Status> {
        let snapshot = self.by_name(key.0, header, retrieval.name)?;
        let place = usize::from(retrieval.item).checked_sub(1).ok_or(Status::FTP_NO_SUCH_DEVICE)?;
        if snapshot.stage(now.millis).0 != Status::SUCCESS {
            return Err(Status::FTP_NOTRDY);
        }
        let begins = snapshot.begins().unwrap_or_default();
        let SnapshotSetup { points: all, rate, delay, .. } = snapshot.setup;
        let item = *snapshot.setup.items.get(place).ok_or(Status::FTP_NO_SUCH_DEVICE)?;
        let device = snapshot.devices.get_mut(place).ok_or(Status::FTP_NO_SUCH_DEVICE)?;
        let length = device.length.ok_or(Status::FTP_UNSDEV)?;
        let from = retrieval.from.unwrap_or(device.next);
        // The first point is no reading.
        if from > all {
            return Err(Status::FTP_ENDOFDATA);
        }
        let to = (all + 1).min(from + u32::from(retrieval.count).min(MOST_AT_ONCE));
        if retrieval.from.is_none() {
            device.next = to;
        }
        let points = (from..to).map(|place| {
            let Some(since) = place.checked_sub(1) else { return SnapshotPoint { ticks: 0, raw: 0 } };
            let since = u64::from(since) * 10_000 / u64::from(rate);
            let raw = self.player.point(&item, begins + since / 10).unwrap_or_default();
            SnapshotPoint { ticks: (u64::from(delay) / 100 + since) as u16, raw }
        });
        Ok(Retrieval::reply(&points.collect::<Vec<_>>(), length == 4))
    }

    /// Takes a snapshot again, or starts returning its points again.
    pub(super) fn control(&mut self, key: StreamKey, header: AcnetHeader, control: SnapshotControl, now: Moment) {
        let clock = Arc::clone(&self.clock);
        let found = self.by_name(key.0, header, control.name);
        let status = found.as_ref().err().copied().unwrap_or_default();
        let again = found.ok().map(|snapshot| {
            if control.restarts {
                snapshot.arm(&clock, now);
            } else {
                snapshot.devices.iter_mut().for_each(|device| device.next = 0);
            }
            (key.0, snapshot.header.client, snapshot.header.message)
        });
        self.send(key.0, &header, header.answer(Status::SUCCESS, false), &status.0.to_le_bytes(), now);
        if let Some(key) = again.filter(|_| control.restarts)
            && let Some(mut snapshot) = self.snapshots.remove(&key)
        {
            self.tell(key, &mut snapshot, now);
            self.snapshots.insert(key, snapshot);
        }
    }

    /// Sends the progress of snapshots to their requesters.
    pub(super) fn tick_snapshots(&mut self, now: Moment) {
        while let Some(Reverse((due, key))) = self.snapshot_timers.peek().copied() {
            if due > now.millis {
                break;
            }
            self.snapshot_timers.pop();
            let is_its = |snapshot: &Snapshot| snapshot.due == Some(due);
            let Some(mut snapshot) = self.snapshots.remove(&key) else { continue };
            let fault = self.fault(snapshot.header.server);
            let is_gone =
                fault.is_some_and(|fault| fault.is_down(now.millis) || fault.restarts(now.millis) != snapshot.born);
            if is_gone {
                continue;
            }
            if is_its(&snapshot) {
                self.tell(key, &mut snapshot, now);
            }
            self.snapshots.insert(key, snapshot);
        }
    }

    fn tell(&mut self, key: StreamKey, snapshot: &mut Snapshot, now: Moment) {
        let (stage, until) = snapshot.stage(now.millis);
        let of_device = |device: &SimulatedDevice| if device.length.is_some() { stage } else { Status::FTP_UNSDEV };
        let devices: Vec<Status> = snapshot.devices.iter().map(of_device).collect();
        let progress = SnapshotProgress {
            status: Status::SUCCESS,
            setup: &snapshot.setup,
            devices: &devices,
            armed: if snapshot.armed.is_some_and(|armed| armed <= now.millis) { snapshot.armed_unix } else { 0 },
        };
        let header = snapshot.header;
        self.send(key.0, &header, header.answer(Status::SUCCESS, true), &progress.encode(), now);
        snapshot.due = until;
        if let Some(due) = until {
            self.snapshot_timers.push(Reverse((due, key)));
        }
    }

    /// Returns the snapshot that a requester knows by this name.
    fn by_name(&mut self, from: SocketAddr, header: AcnetHeader, name: Rad50) -> Result<&mut Snapshot, Status> {
        let mut of_requester = self.snapshots.iter_mut();
        let found = of_requester.find(|((address, client, _), snapshot)| {
            *address == from
                && *client == header.client
                && snapshot.header.server == header.server
                && snapshot.setup.name == name
        });
        found.map(|(_, snapshot)| snapshot).ok_or(Status::FTP_NO_SETUP)
    }
}

/// The class: 1440 Hz internal.
pub(super) const CLASS: u16 = 12;
/// The most points in a second.
const FASTEST: u32 = 1440;
/// The most points of a snapshot.
const MOST_POINTS: u32 = 2048;
/// The most points of a reply.
const MOST_AT_ONCE: u32 = 512;
/// The most devices of a snapshot: as many as fit a reply.
const MOST_DEVICES: usize = (LARGEST - 24) / 18;
/// The most snapshots at a time.
const MOST_SNAPSHOTS: usize = 10_000;
