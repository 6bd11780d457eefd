//! Reads the devices in `/metrics`, as a reader of the pool.

use super::Dpm;
use super::gauges::{Gauge, LIST};
use super::recorder::name;
use crate::database::Stored;
use crate::drf::Request;
use crate::pool::{EntryKey, PoolReader};
use crate::status::Status;
use crate::time::Moment;
use crate::when::ReaderWish;

impl Dpm {
    /// Begins to read the devices that the database lists for `/metrics`, unless that has been
    /// done.
    pub(super) fn read_gauges(&mut self, now: Moment) {
        if std::mem::replace(&mut self.outlets.gauges.is_begun, true) {
            return;
        }
        let old = std::mem::take(&mut self.outlets.gauges.gauges);
        // The new readers have other numbers, so continuing readings aren't interrupted.
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

/// Returns a text escaped for a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
