//! Checks that the simulator can play a script with the device that it is for.

use super::mistake::Wrong;
use super::script::Script;
use super::table::I32;
use crate::database::{Database, DeviceRecord, DeviceValue};

/// Checks a script.
pub(super) fn check(script: &Script, database: &Database) -> Result<(), Wrong> {
    let missing = || Wrong::new("device", format!("there is no device {:?}", script.device)).into_unfound();
    let device = database.by_name(&script.device).ok_or_else(missing)?;
    if !SHAPES.contains(&script.shape.as_str()) {
        return Err(Wrong::new("shape", format!("one of {}", SHAPES.join(", "))));
    }
    let high = VARIED.contains(&script.shape.as_str()).then_some(("high", script.high));
    let limits = script.alarm.into_iter().flatten().map(|limit| ("alarm", limit));
    for (key, number) in [("low", script.low)].into_iter().chain(high).chain(limits) {
        played_raw(script, device.reading.as_ref(), number).map_err(|what| Wrong::new(key, what))?;
    }
    check_text(script, device)?;
    let commands = device.control.as_ref().map(|control| control.commands.as_slice()).unwrap_or_default();
    let is_known = |name: &str| commands.iter().any(|command| command.short.eq_ignore_ascii_case(name));
    match script.status.iter().find(|(name, _)| !is_known(name)) {
        Some((name, _)) => Err(Wrong::new("status", format!("the device has no command {name:?}"))),
        None => Ok(()),
    }
}

fn check_text(script: &Script, device: &DeviceRecord) -> Result<(), Wrong> {
    let Some(text) = &script.text else { return Ok(()) };
    let reading = device.reading.as_ref();
    let kind = reading.and_then(|reading| Some((reading, reading.scaling.text()?)));
    let (reading, kind) = kind.ok_or_else(|| Wrong::new("text", "the reading of the device is no text"))?;
    let written = kind.write(text, reading.place.element as usize, &reading.names);
    let what = "the reading can't be this text: it is too long, or none of its names";
    written.map(|_| ()).map_err(|_| Wrong::new("text", what))
}

/// Returns the raw number that stands for a value of a script.
///
/// # Errors
/// The form that a value has.
pub(crate) fn played_raw(script: &Script, reading: Option<&DeviceValue>, number: f64) -> Result<i32, String> {
    match (script.is_scaled, reading) {
        (true, Some(reading)) => reading
            .scaling
            .from_common(number)
            .map_err(|_| format!("a value in engineering units that the reading can have; {number} is none")),
        // Only a whole number within the range is the same as its conversion.
        _ if number == f64::from(number as i32) => Ok(number as i32),
        _ => Err(format!("a whole number {I32}, unless `scaled` is true")),
    }
}

const SHAPES: &[&str] = &["constant", "ramp", "sine", "noise", "counter", "setting", "silent"];
/// The shapes that go up to the highest value.
const VARIED: &[&str] = &["ramp", "sine", "noise"];
