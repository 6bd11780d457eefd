//! Devices whose newest readings `/metrics` tells: readers of their own in the pool.

use std::fmt::Write;

use super::Dpm;
use super::recorder::name;
use crate::database::Stored;
use crate::drf::Request;
use crate::pool::{EntryKey, PoolReader};
use crate::sdd::reply::Reply;
use crate::sdd::{SddMessage, SharedReply};
use crate::status::Status;
use crate::time::Moment;
use crate::when::ReaderWish;

/// The devices that are told of.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    /// By the number of the reader; what is told of no more is gone.
    gauges: Vec<Option<Gauge>>,
    /// True once they are those of the database.
    is_begun: bool,
}

/// A device that is told of.
#[derive(Debug)]
struct Gauge {
    name: String,
    units: String,
    /// `None` if it can't be read on that event.
    entry: Option<EntryKey>,
    /// The newest values; none if the last reading was no number.
    values: Vec<f64>,
}

impl Gauges {
    /// Lets them be those of the database as it is at the next tick.
    pub(super) fn begin_anew(&mut self) {
        self.is_begun = false;
    }

    /// Takes a message for one of these readers.
    pub(super) fn take(&mut self, number: i64, message: &SharedReply) {
        let place = usize::try_from(number).ok().and_then(|number| self.gauges.get_mut(number));
        let Some(Some(gauge)) = place else { return };
        let mut bytes = Vec::new();
        message.write(0, &mut bytes);
        gauge.values = match Reply::decode(&bytes) {
            Ok(Reply::Scalar(scalar)) => vec![scalar.data],
            Ok(Reply::ScalarArray(array)) => array.data,
            _ => Vec::new(),
        };
    }

    /// Appends them as Prometheus reads them (text exposition format 0.0.4).
    pub(super) fn write(&self, text: &mut String) {
        let gauges = || self.gauges.iter().flatten();
        if gauges().next().is_none() {
            return;
        }
        // Writing to a string can't fail.
        let _ = writeln!(text, "# HELP rookery_dpm_reading_good Whether the last reading of a device was a number.");
        let _ = writeln!(text, "# TYPE rookery_dpm_reading_good gauge");
        for Gauge { name, values, .. } in gauges() {
            let _ = writeln!(text, "rookery_dpm_reading_good{{device=\"{name}\"}} {}", u8::from(!values.is_empty()));
        }
        let _ = writeln!(text, "# HELP rookery_dpm_reading The newest reading of a device, in engineering units.");
        let _ = writeln!(text, "# TYPE rookery_dpm_reading gauge");
        for Gauge { name, units, values, .. } in gauges() {
            for (element, value) in values.iter().enumerate() {
                let labels = format!("device=\"{name}\",element=\"{element}\",units=\"{units}\"");
                let _ = writeln!(text, "rookery_dpm_reading{{{labels}}} {value}");
            }
        }
    }
}

impl Dpm {
    /// Begins to read what the database says is told of, if that has not been done.
    pub(super) fn read_gauges(&mut self, now: Moment) {
        if std::mem::replace(&mut self.outlets.gauges.is_begun, true) {
            return;
        }
        let old = std::mem::take(&mut self.outlets.gauges.gauges);
        // Readers of the new ones have other numbers: what is read on is not interrupted.
        let first = old.len();
        self.outlets.gauges.gauges = old.iter().map(|_| None).collect();
        for (number, request) in (first..).zip(self.database.metrics().to_vec()) {
            let reader = PoolReader { list: LIST, ref_id: number as i64 };
            let (entry, units) = match self.join_gauge(&request, reader, now) {
                Ok((entry, units)) => (Some(entry), units),
                Err(_) => (None, String::new()),
            };
            let gauge = Gauge { name: escaped(&name(&request)), units: escaped(&units), entry, values: Vec::new() };
            self.outlets.gauges.gauges.push(Some(gauge));
        }
        for (number, gauge) in old.into_iter().enumerate() {
            if let Some(entry) = gauge.and_then(|gauge| gauge.entry) {
                self.pool.leave(entry, PoolReader { list: LIST, ref_id: number as i64 });
            }
        }
    }

    fn join_gauge(&mut self, request: &Request, reader: PoolReader, now: Moment) -> Result<(EntryKey, String), Status> {
        let target = self.database.find(request)?;
        let wish = ReaderWish::of(&target.event, &self.database)?.ok_or(Status::BAD_EVENT)?;
        let Stored::FrontEnd(wanted) = target.stored else { return Err(Status::NOPROP) };
        let units = target.device.value(request.property).map(|value| value.units.clone());
        let (entry, _) = self.pool.join(wanted, wish, &target.device, target.form, reader, now)?;
        Ok((entry, units.unwrap_or_default()))
    }
}

/// Returns a text as a label has it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The list of these readers: no client's list has this number.
const LIST: usize = usize::MAX - 1;

/// Returns true for a reader of these.
pub(super) fn is_gauge(reader: PoolReader) -> bool {
    reader.list == LIST
}
