//! The recorder: a reader in the pool whose readings go to the archive.

use std::sync::Arc;

use super::Dpm;
use super::recorder::{LIST, Recorded, event, name};
use crate::drf::{DrfEvent, Request};
use crate::history::{HistoryWork, NOT_PERIODIC, Series};
use crate::pool::{EntryKey, PoolReader};
use crate::status::Status;
use crate::time::Moment;
use crate::when::ReaderWish;

impl Dpm {
    /// Begins to record to an archive: from now on the requests of the database are recorded, and
    /// requests for history go to the archive.
    pub fn record(&mut self, now: Moment) {
        self.outlets.recorder.is_on = true;
        self.outlets.recorder.failed.clear();
        let old: Vec<(usize, EntryKey)> = self.outlets.recorder.running().collect();
        let mut declared = Vec::new();
        for request in self.database.records().to_vec() {
            let reader = PoolReader { list: LIST, ref_id: self.outlets.recorder.recorded.len() as i64 };
            match self.join_recorder(&request, reader, now) {
                Ok(entry) => {
                    let series = Arc::new(series(&request));
                    declared.push(Arc::clone(&series));
                    self.outlets.recorder.recorded.push(Some(Recorded { series, entry }));
                }
                Err(status) => self.outlets.recorder.failed.push((request, status)),
            }
        }
        // Continuing readings aren't interrupted, because the old readers leave after the new ones
        // have joined.
        for (number, entry) in old {
            self.pool.leave(entry, PoolReader { list: LIST, ref_id: number as i64 });
            self.outlets.recorder.recorded[number] = None;
        }
        self.outlets.recorder.work.push(HistoryWork::Declare(declared));
    }

    /// Returns the requests of the database that cannot be recorded, with the reason: a front-end
    /// that does not know the event.
    pub fn unrecorded(&self) -> &[(Request, Status)] {
        &self.outlets.recorder.failed
    }

    /// Stores the number of readings that were not recorded because the archive was too slow.
    pub fn lost_for_history(&mut self, lost: u64) {
        self.outlets.recorder.lost = lost;
    }

    /// Takes the work for the archive. Must be called after each turn's input.
    pub fn take_work(&mut self) -> Vec<HistoryWork> {
        std::mem::take(&mut self.outlets.recorder.work)
    }

    fn join_recorder(&mut self, request: &Request, reader: PoolReader, now: Moment) -> Result<EntryKey, Status> {
        let target = self.database.find(request)?;
        let wish = ReaderWish::of(&target.event, &self.database)?.ok_or(Status::BAD_EVENT)?;
        let crate::database::Stored::FrontEnd(wanted) = target.stored else { return Err(Status::NOPROP) };
        Ok(self.pool.join(wanted, wish, &target.device, target.form, reader, now)?.0)
    }
}

fn series(request: &Request) -> Series {
    let period = match &request.event {
        DrfEvent::Periodic { period, .. } | DrfEvent::OnChange { period, .. } => period.millis() as i64,
        _ => NOT_PERIODIC,
    };
    Series { name: name(request), event: event(&request.event).unwrap_or_default(), period }
}
