//! DRF: the grammar of clients' requests, such as
//! `M:OUTTMP.READING[0:3]@P,1S<-LOGGER:…`.
//!
//! [`Request::parse`] reads a request; printing it gives the canonical form, of which each request
//! has only one. A name that starts with a qualifier (`M_OUTTMP`) selects a property; a property
//! that is written out takes precedence.

mod device;
mod error;
mod event;
mod property;
mod range;

pub use device::Device;
pub use error::Error;
pub use event::{Comparison, DrfEvent, EventClock, Time};
pub use property::{Property, PropertyField};
pub use range::Range;

use std::fmt;

/// A request, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// The device, in upper case and with `:` as its second character.
    pub device: Device,
    /// The property: that of the request, or the one that the device's second character stands for.
    pub property: Property,
    /// The elements or bytes; the first element if no range was given.
    pub range: Option<Range>,
    /// The requested form.
    pub field: PropertyField,
    /// The event at which it is answered.
    pub event: DrfEvent,
    /// The source, as it was written; live data if none was given.
    pub model: Option<String>,
}

impl Request {
    /// Reads a request. Case is ignored.
    ///
    /// # Errors
    /// The first part that is invalid; [`Error::Device`] also for a request that is too long or
    /// isn't ASCII.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > LONGEST || !text.is_ascii() {
            return Err(Error::Device);
        }
        let (text, model) = match text.split_once("<-") {
            // This keeps the canonical form, whose other parts are short, below the limit for
            // requests.
            Some((_, model)) if model.len() > LONGEST_MODEL => return Err(Error::Device),
            Some((text, model)) => (text, Some(model.trim().to_owned())),
            None => (text, None),
        };
        let text = text.trim().to_ascii_uppercase();
        // The second character may be an `@` that means the analog alarm.
        let at = text.char_indices().skip(2).find(|(_, character)| *character == '@').map_or(text.len(), |(at, _)| at);
        let (target, event) = text.split_at(at);
        let event = event.strip_prefix('@').map_or(Ok(DrfEvent::Default), DrfEvent::parse)?;
        let name_end = target.find(['.', '[', '{']).unwrap_or(target.len());
        let (name, rest) = target.split_at(name_end);
        let (device, qualified) = Device::parse(name)?;
        let (words, range) = split_range(rest)?;
        let (property, field) = property::choose(&words, qualified).ok_or(Error::Field)?;
        Ok(Self {
            device,
            property,
            range,
            field,
            event,
            model: model.filter(|model| !model.eq_ignore_ascii_case(LIVE)),
        })
    }
}

/// Splits `.READING[0:3].RAW` into its words and its range.
fn split_range(rest: &str) -> Result<(Vec<&str>, Option<Range>), Error> {
    let Some(open) = rest.find(['[', '{']) else { return Ok((words(rest)?, None)) };
    let (before, range) = rest.split_at(open);
    let close = range.find([']', '}']).ok_or(Error::Range)?;
    let (range, after) = range.split_at(close + 1);
    let mut all = words(before)?;
    all.extend(words(after)?);
    Ok((all, Some(Range::parse(range)?)))
}

fn words(text: &str) -> Result<Vec<&str>, Error> {
    match text.strip_prefix('.') {
        Some(words) => Ok(words.split('.').collect()),
        None if text.is_empty() => Ok(Vec::new()),
        None => Err(Error::Field),
    }
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.device, self.property.name())?;
        if let Some(range) = &self.range {
            write!(formatter, "{range}")?;
        }
        if Some(self.field) != self.property.default_field() && self.field != PropertyField::None {
            write!(formatter, ".{}", self.field.name())?;
        }
        write!(formatter, "{}", self.event)?;
        self.model.as_ref().map_or(Ok(()), |model| write!(formatter, "<-{model}"))
    }
}

/// The default model.
const LIVE: &str = "LIVEDATA";
/// The most bytes of a request.
const LONGEST: usize = 1024;
/// The most bytes after `<-`.
const LONGEST_MODEL: usize = 512;
