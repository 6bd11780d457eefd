//! Keeps the newest lines of the log in memory, as objects with the same members in every format.

use std::fmt::Debug;

use rookery_base::date;
use rookery_observe::lines::{Line, Lines};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::clock;

/// The layer that keeps lines.
pub struct Keep(pub Lines);

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { message, others } = fields;
        let account = others.get("account").and_then(Value::as_str).map(Box::from);
        let level = *event.metadata().level();
        let text = json!({
            "time": date::timestamp_ms(clock::now_ms()),
            "level": level.as_str().to_lowercase(),
            "target": event.metadata().target(),
            "message": message,
            "fields": others,
        });
        self.0.push(Line { severity: severity(level), account, text: text.to_string().into() });
    }
}

/// The fields of a line.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => drop(self.others.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, cut(format!("{value:?}")).into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, cut(value.to_owned()).into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

/// Truncates a text that is too long for a line.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

/// Returns the number of a level, 1 for errors.
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// The most bytes of a text in a line.
const LONGEST: usize = 4096;
