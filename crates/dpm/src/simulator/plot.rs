//! Fast plots (`FTPMAN`) of simulated devices.
//!
//! Every scripted number of 2 or 4 bytes can be plotted, as class 12 ("Internet Rack Monitor") up
//! to 1000 times a second; other devices have no class. Times count from the clock event 02 of the
//! simulator's generator.

use std::cmp::Reverse;
use std::net::SocketAddr;

use super::snapshot;
use super::state::{SimulatedPlot, Simulator, StreamKey};
use crate::acnet::ftpman::{Class, PlotRequest, Point, RETURN_PERIOD, Reply, WRAP};
use crate::acnet::{AcnetPacket, DeviceItem};
use crate::drf::Property;
use crate::status::Status;
use crate::time::Moment;

impl Simulator {
    /// Answers a request to plot.
    pub(super) fn plot(&mut self, key: StreamKey, packet: AcnetPacket<'_>, born: u64, now: Moment) {
        let header = packet.header;
        let setup = match PlotRequest::decode(packet.body) {
            Err(status) => {
                let body = status.0.to_le_bytes();
                return self.send(key.0, &header, header.answer(Status::SUCCESS, false), &body, now);
            }
            Ok(PlotRequest::Classes(items)) => {
                let classes: Vec<Class> = items.iter().map(|item| self.class(item)).collect();
                let body = Class::encode(&classes);
                return self.send(key.0, &header, header.answer(Status::SUCCESS, false), &body, now);
            }
            Ok(PlotRequest::Continuous(setup)) => setup,
            Ok(PlotRequest::Snapshot(setup)) => return self.set_up(key, header, setup, born, now),
            Ok(PlotRequest::Retrieve(retrieval)) => return self.retrieve(key, header, retrieval, now),
            Ok(PlotRequest::Control(control)) => return self.control(key, header, control, now),
        };
        let length = self.length(&setup.item);
        let status = match length {
            None => Status::FTP_UNSDEV,
            Some(_) if setup.period < FASTEST => Status::FTP_UNSFREQ,
            Some(_) => Status::SUCCESS,
        };
        let accepted = Reply::Accepted(status).encode(false);
        self.send(key.0, &header, header.answer(Status::SUCCESS, true), &accepted, now);
        let (Some(length), Status::SUCCESS) = (length, status) else { return };
        if self.plots.len() >= MOST_PLOTS {
            return;
        }
        let due = now.millis + BATCH;
        let plot = SimulatedPlot { header, setup, is_long: length == 4, due, next: now.millis * 100, born };
        self.plots.insert(key, plot);
        self.plot_timers.push(Reverse((due, key)));
    }

    /// Sends the batches that are due.
    pub(super) fn tick_plots(&mut self, now: Moment) {
        while let Some(Reverse((due, key))) = self.plot_timers.peek().copied() {
            if due > now.millis {
                break;
            }
            self.plot_timers.pop();
            let Some(mut plot) = self.plots.remove(&key).filter(|plot| plot.due == due) else { continue };
            let fault = self.fault(plot.header.server);
            let is_gone = |fault: &crate::database::NodeFaults| {
                fault.is_down(now.millis) || fault.restarts(now.millis) != plot.born
            };
            if fault.as_ref().is_some_and(is_gone) {
                continue;
            }
            self.batch(key.0, &mut plot, now);
            plot.due = due + BATCH * (1 + (now.millis - due) / BATCH);
            self.plot_timers.push(Reverse((plot.due, key)));
            self.plots.insert(key, plot);
        }
    }

    fn batch(&mut self, to: SocketAddr, plot: &mut SimulatedPlot, now: Moment) {
        let mut points = Vec::new();
        while plot.next <= now.millis * 100 && points.len() < MOST_POINTS {
            let millis = plot.next / 100;
            let raw = self.player.point(&plot.setup.item, millis).unwrap_or_default();
            // Ticks are tens of these units.
            points.push(Point { ticks: (plot.next / 10 % u64::from(WRAP)) as u16, raw });
            plot.next += u64::from(plot.setup.period);
        }
        let body = Reply::Points(Ok(points)).encode(plot.is_long);
        self.send(to, &plot.header, plot.header.answer(Status::SUCCESS, true), &body, now);
    }

    fn class(&self, item: &DeviceItem) -> Class {
        match self.length(item) {
            Some(_) => Class { status: Status::SUCCESS, continuous: RACK_MONITOR, snapshot: snapshot::CLASS },
            None => Class { status: Status::FTP_UNSDEV, continuous: 0, snapshot: 0 },
        }
    }

    /// Returns the size of a device in bytes, if it can be plotted.
    pub(super) fn length(&self, item: &DeviceItem) -> Option<u32> {
        let place = self.player.element_size(item).filter(|_| item.property == Property::Reading.index())?;
        matches!(place, 2 | 4).then_some(place)
    }
}

const RACK_MONITOR: u16 = 12;
/// The shortest period, in tens of microseconds: a thousand points a second.
const FASTEST: u16 = 100;
/// The time between batches, in milliseconds.
const BATCH: u64 = RETURN_PERIOD as u64 * 1000 / 15;
/// The most points of a batch.
const MOST_POINTS: usize = 1000;
/// The most plots at a time.
const MOST_PLOTS: usize = 10_000;
