//! Loads that send nothing, or one request.

use rookery_xml::{Element, Stanza};

use super::ScenarioRun;
use crate::BenchOutcome;
use crate::engine::{LoadWorker, NEVER, WorkerLoad};

/// Reads input and discards it.
#[derive(Debug)]
pub struct Drain;

impl WorkerLoad for Drain {
    fn due(&mut self, _now: u64, _worker: &mut LoadWorker) -> u64 {
        NEVER
    }

    fn stanza(&mut self, _number: usize, _stanza: &Stanza<'_>, _now: u64, _out: &mut Vec<u8>) {}
}

/// A load in which client 0 sends a request, and all others only read.
#[derive(Debug)]
pub struct DrainQuestion {
    ask: Option<String>,
    id: &'static str,
    /// The answer, once it has arrived.
    pub answer: Option<Element>,
    until: u64,
    over: bool,
}

impl ScenarioRun<'_> {
    /// Lets client 0 send an IQ with that id, and waits a while for the answer; `None` if none
    /// arrives.
    ///
    /// # Errors
    /// The error of the system.
    pub fn ask(&mut self, id: &'static str, iq: String) -> BenchOutcome<Option<Element>> {
        let until = self.crew.now() + PATIENCE;
        let mut loads = [DrainQuestion { ask: Some(iq), id, answer: None, until, over: false }];
        self.watch(&mut loads, |_| false)?;
        let [question] = loads;
        Ok(question.answer)
    }

    /// Asks the server for its name and version (XEP-0092).
    pub(super) fn ask_version(&mut self) -> BenchOutcome<()> {
        let to = self.server.domain();
        let iq = format!("<iq type='get' to='{to}' id='version'><query xmlns='jabber:iq:version'/></iq>");
        let answer = self.ask("version", iq)?;
        let text = |query: &Element, name: &str| query.child(name, VERSION).map(Element::text);
        self.result.version = answer.and_then(|iq| {
            let query = iq.child("query", VERSION)?;
            let all = [text(query, "name"), text(query, "version")];
            Some(all.into_iter().flatten().collect::<Vec<_>>().join(" "))
        });
        Ok(())
    }
}

impl WorkerLoad for DrainQuestion {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        if let Some(iq) = self.ask.take() {
            worker.send(0, iq.as_bytes());
        }
        self.over = self.answer.is_some() || now >= self.until || !worker.is_bound(0);
        self.until
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, _now: u64, _out: &mut Vec<u8>) {
        if number == 0 && stanza.id().as_deref() == Some(self.id) && stanza.type_().as_deref() != Some("get") {
            self.answer = Some(Element::read(stanza));
        }
    }

    fn is_finished(&self) -> bool {
        self.over
    }
}

const VERSION: &str = "jabber:iq:version";
const PATIENCE: u64 = 3_000_000_000;
