//! The lines of a trace, put together from what this node and the others have seen.
//!
//! # Invariants
//!
//! * Lines are in the order of their nodes' times of day within what arrives at once, and in the
//!   order of each node.
//! * There are no more stanzas than the trace may have, however many nodes have seen some.

use rookery_base::{Set, date};
use rookery_hub::Sighting;
use rookery_hub::trace::TracedStanzas;
use rookery_shard::elsewhere::AnswersElsewhere;
use rookery_shard::traced::SeenElsewhere;
use serde_json::{Value, json};

/// The stanzas of a trace so far, and what its reader has been told about other nodes.
#[derive(Debug)]
pub(super) struct Journey {
    stanzas: TracedStanzas,
    /// True once a node has seen more stanzas than the trace may have.
    is_full_elsewhere: bool,
    /// The nodes that don't trace because too many traces are running there.
    refused: Set<String>,
    /// The number of shards that didn't answer the last time.
    missing: usize,
}

impl Journey {
    /// Returns the beginning of a trace of at most this many stanzas.
    pub(super) fn new(most_stanzas: usize) -> Self {
        let stanzas = TracedStanzas::new(most_stanzas);
        Self { stanzas, is_full_elsewhere: false, refused: Set::default(), missing: 0 }
    }

    /// Returns whether there were more stanzas than the trace may have.
    pub(super) fn is_full(&self) -> bool {
        self.is_full_elsewhere || self.stanzas.is_full()
    }

    /// Returns the lines about what was seen here, with the number of sightings that were left out,
    /// and elsewhere.
    pub(super) fn lines(
        &mut self,
        here: (Vec<Sighting>, u64),
        elsewhere: AnswersElsewhere<SeenElsewhere>,
    ) -> Vec<Value> {
        let (seen, mut left_out) = here;
        let mut all: Vec<_> = seen.into_iter().map(|sighting| (sighting, None)).collect();
        let mut notes = Vec::new();
        for told in elsewhere.answers {
            left_out += told.left_out;
            self.is_full_elsewhere |= told.is_full;
            if told.is_refused && self.refused.insert(told.node.clone()) {
                notes.push(json!({ "node": told.node, "refused": "too many traces are running there" }));
            }
            let node: std::sync::Arc<str> = told.node.into();
            all.extend(told.sightings.into_iter().map(|sighting| (sighting, Some(node.clone()))));
        }
        all.sort_by_key(|(sighting, _)| sighting.unix_ms);
        let mut lines: Vec<_> =
            all.iter().filter_map(|(sighting, node)| self.admit(sighting, node.as_deref())).collect();
        if left_out > 0 {
            lines.push(json!({ "left_out": left_out }));
        }
        if std::mem::replace(&mut self.missing, elsewhere.missing) != elsewhere.missing {
            notes.push(json!({ "missing": elsewhere.missing }));
        }
        lines.extend(notes);
        lines
    }

    /// Returns a sighting as a line, unless there is no room for its stanza.
    fn admit(&mut self, sighting: &Sighting, node: Option<&str>) -> Option<Value> {
        let Some(number) = sighting.stanza else { return Some(line(sighting, None, node)) };
        let seen = self.stanzas.admit(number, sighting.begins())?;
        let stanza = match seen.which {
            1 => format!("{number:08x}"),
            which => format!("{number:08x}.{which}"),
        };
        Some(line(sighting, Some(stanza), node))
    }
}

/// Returns a sighting as a line; `stanza` is the id of its stanza, and `node` the name of its node
/// if it isn't this one.
fn line(sighting: &Sighting, stanza: Option<String>, node: Option<&str>) -> Value {
    let mut line = json!({
        "time": date::timestamp_ms(sighting.unix_ms),
        "shard": sighting.shard,
        "step": sighting.step.name(),
        "why": sighting.why,
        "to": sighting.to,
    });
    let Some(members) = line.as_object_mut() else { return line };
    if let Some(node) = node {
        members.insert("node".into(), node.into());
    }
    if let Some(stanza) = stanza {
        members.insert("trace".into(), stanza.into());
        members.insert("from".into(), sighting.from.clone().into());
        members.insert("kind".into(), sighting.kind.clone().into());
    }
    for (name, value) in [("type", &sighting.type_), ("id", &sighting.id)] {
        if !value.is_empty() {
            members.insert(name.into(), value.clone().into());
        }
    }
    if let Some(first) = &sighting.first {
        members.insert("bytes".into(), first.bytes.into());
        members.insert("content".into(), first.content.clone().into());
    }
    line
}

#[cfg(test)]
mod tests {
    use rookery_hub::Step;

    use super::*;

    fn sighting(unix_ms: u64, stanza: u32) -> Sighting {
        Sighting {
            number: 0,
            unix_ms,
            shard: 0,
            stanza: Some(stanza),
            step: Step::Goes,
            why: String::new(),
            from: "a@x".into(),
            to: "b@x".into(),
            kind: "message".into(),
            type_: String::new(),
            id: String::new(),
            first: None,
        }
    }

    fn from_n2(sightings: Vec<Sighting>) -> AnswersElsewhere<SeenElsewhere> {
        let told = SeenElsewhere { node: "n2".into(), sightings, left_out: 0, is_full: false, is_refused: false };
        AnswersElsewhere { answers: vec![told], missing: 0 }
    }

    #[test]
    fn nodes_are_shown_in_the_order_of_time() {
        let here = vec![sighting(10, 1), sighting(30, 1)];
        let lines = Journey::new(9).lines((here, 0), from_n2(vec![sighting(20, 1)]));
        assert_eq!(lines.iter().map(|line| line["node"].as_str()).collect::<Vec<_>>(), [None, Some("n2"), None]);
    }

    #[test]
    fn all_nodes_together_show_no_more_stanzas_than_allowed() {
        let mut journey = Journey::new(2);
        let lines = journey.lines((vec![sighting(1, 1), sighting(3, 1)], 0), from_n2(vec![sighting(2, 2)]));
        assert_eq!((lines.len(), journey.is_full()), (3, false));
        let lines = journey.lines((vec![sighting(4, 2)], 0), from_n2(vec![sighting(5, 3)]));
        assert_eq!((lines.len(), journey.is_full()), (1, true));
    }

    /// A client that sends the same message again and again, without another `id`.
    #[test]
    fn equal_stanzas_have_ids_of_their_own_and_end_the_trace() {
        let mut journey = Journey::new(2);
        let received = |unix_ms| Sighting { step: Step::Received, ..sighting(unix_ms, 1) };
        let here = vec![received(1), received(3), received(5)];
        let lines = journey.lines((here, 0), from_n2(vec![sighting(2, 1), sighting(4, 1), sighting(6, 1)]));
        let ids: Vec<_> = lines.iter().map(|line| line["trace"].as_str().unwrap_or_default()).collect();
        assert_eq!(ids, ["00000001", "00000001", "00000001.2", "00000001.2"]);
        assert!(journey.is_full());
    }

    #[test]
    fn nodes_without_a_part_are_named_once() {
        let mut journey = Journey::new(2);
        let mut told = || {
            let mut told = from_n2(Vec::new());
            told.answers[0].is_refused = true;
            told.missing = 1;
            journey.lines((Vec::new(), 4), told)
        };
        let refused = json!({ "node": "n2", "refused": "too many traces are running there" });
        assert_eq!(told(), [json!({ "left_out": 4 }), refused, json!({ "missing": 1 })]);
        assert_eq!(told(), [json!({ "left_out": 4 })]);
    }
}
