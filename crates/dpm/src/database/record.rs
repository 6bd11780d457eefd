//! `[[record]]` and `[[metric]]`: the requests, with their events, that are recorded or shown in
//! `/metrics`.

use super::file::{At, Wrong};
use super::{Database, Stored};
use crate::drf::{DrfEvent, PropertyField, Request};

#[derive(Debug, Default)]
pub(super) struct RecordRow {
    pub(super) request: At<String>,
}

impl RecordRow {
    /// Returns the request, which must be for repeated numbers of a reading or setting. `done` is
    /// its use, for messages.
    pub(super) fn read(self, database: &Database, done: &str) -> Result<Request, Wrong> {
        let wrong = |what: &str| self.request.wrong("request", what);
        let request = Request::parse(&self.request.value)
            .map_err(|_| wrong(&format!("a device with the event on which it is {done}, such as M:OUTTMP@P,1000")))?;
        if request.model.is_some() {
            return Err(wrong(&format!("only live readings can be {done}: leave out <- and the source after it")));
        }
        let unread = |status| wrong(&format!("the device cannot be read: {status}")).into_unfound();
        let target = database.find(&request).map_err(unread)?;
        let is_number = target.device.value(request.property).is_some_and(|value| value.scaling.text().is_none());
        if !is_number || request.field != PropertyField::Scaled || !matches!(target.stored, Stored::FrontEnd(_)) {
            return Err(wrong(&format!("only numbers of READING and SETTING in engineering units can be {done}")));
        }
        match target.event {
            DrfEvent::Immediate | DrfEvent::Never | DrfEvent::Default => {
                Err(wrong("a recurring event, such as @P,1000, @Q,1000 or @E,02"))
            }
            event => Ok(Request { event, ..request }),
        }
    }
}
