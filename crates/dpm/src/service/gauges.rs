//! Devices whose newest readings are in `/metrics`, which have their own readers in the pool.

use std::fmt::Write;

use crate::pool::{EntryKey, PoolReader};
use crate::sdd::reply::Reply;
use crate::sdd::{SddMessage, SharedReply};

/// The devices in `/metrics`.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    /// The gauges by the numbers of their readers; `None` for devices that were removed.
    pub(super) gauges: Vec<Option<Gauge>>,
    /// True once the gauges match the database.
    pub(super) is_begun: bool,
}

/// A device in `/metrics`.
#[derive(Debug)]
pub(super) struct Gauge {
    pub(super) name: String,
    pub(super) units: String,
    /// The entry that is read; `None` if the device can't be read on that event.
    pub(super) entry: Option<EntryKey>,
    /// The newest values; empty if the last reading wasn't a number.
    pub(super) values: Vec<f64>,
}

impl Gauges {
    /// Makes the next tick update the gauges from the current database.
    pub(super) fn begin_again(&mut self) {
        self.is_begun = false;
    }

    /// Handles a message for one of these readers.
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

    /// Appends the gauges in Prometheus's format (text exposition format 0.0.4).
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

/// The number of the list of these readers, which no client's list has.
pub(super) const LIST: usize = usize::MAX - 1;

/// Returns true for a reader of the gauges.
pub(super) fn is_gauge(reader: PoolReader) -> bool {
    reader.list == LIST
}
