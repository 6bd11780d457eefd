//! The profile format of the tool pprof and many others: a Protocol Buffers message (profile.proto
//! of github.com/google/pprof), compressed with gzip. Fields for properties that a sampled stack
//! doesn't have are left out.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prost::Message;

use crate::Profile;

#[derive(Clone, PartialEq, Message)]
struct PprofDocument {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    /// The first one is empty; others are referred to by their index.
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofSample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<PprofLine>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PprofLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// Texts without duplicates, each with its number.
#[derive(Default)]
struct PprofTexts {
    all: Vec<String>,
    places: HashMap<String, i64>,
}

impl PprofTexts {
    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

/// Encodes a profile as a file of this format.
pub fn write(profile: &Profile) -> Vec<u8> {
    let mut texts = PprofTexts::default();
    texts.place("");
    let mut ids: BTreeMap<&str, u64> = BTreeMap::new();
    let period = 1_000_000_000 / i64::from(profile.rate.max(1));
    let mut sample_type = |kind, unit| ValueType { kind: texts.place(kind), unit: texts.place(unit) };
    let types = [sample_type("samples", "count"), sample_type("cpu", "nanoseconds")];
    let thread = texts.place(THREAD);
    let mut samples = Vec::with_capacity(profile.stacks.len());
    for (stack, &count) in &profile.stacks {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut location_id = Vec::with_capacity(stack.len());
        for name in stack.iter().skip(1).rev() {
            let next = ids.len() as u64 + 1;
            location_id.push(*ids.entry(name).or_insert(next));
        }
        let text = texts.place(stack.first().map_or("", String::as_str));
        let value = vec![count, count.saturating_mul(period)];
        samples.push(PprofSample { location_id, value, label: vec![Label { key: thread, text }] });
    }
    let function = |(name, id): (&&str, &u64)| {
        let name = texts.place(name);
        Function { id: *id, name, system_name: name }
    };
    let function: Vec<Function> = ids.iter().map(function).collect();
    let location = |id: &u64| Location { id: *id, line: vec![PprofLine { function_id: *id }] };
    let document = PprofDocument {
        sample_type: types.to_vec(),
        sample: samples,
        location: ids.values().map(location).collect(),
        function,
        string_table: texts.all,
        duration_nanos: i64::try_from(profile.milliseconds).unwrap_or(i64::MAX).saturating_mul(1_000_000),
        period_type: types.last().copied(),
        period,
    };
    let mut file = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to a vector can't fail.
    let _ = file.write_all(&document.encode_to_vec());
    file.finish().unwrap_or_default()
}

/// Decodes a file of this format, by any program. Of several numbers of a sample, the first one
/// counts.
///
/// # Errors
/// The file has another format, or is larger than [`MOST_BYTES`] when it is decompressed.
pub fn read(file: &[u8]) -> Result<Profile, String> {
    let mut bytes = Vec::new();
    let most = MOST_BYTES as u64 + 1;
    GzDecoder::new(file).take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > MOST_BYTES {
        return Err(format!("a profile may have at most {MOST_BYTES} bytes"));
    }
    let document = PprofDocument::decode(bytes.as_slice()).map_err(|error| error.to_string())?;
    let text = |place: i64| {
        let place = usize::try_from(place).ok();
        place.and_then(|place| document.string_table.get(place)).map_or("", String::as_str)
    };
    let names: HashMap<u64, &str> =
        document.function.iter().map(|function| (function.id, text(function.name))).collect();
    let locations: HashMap<u64, &Location> = document.location.iter().map(|location| (location.id, location)).collect();
    let seconds = document.period.max(1);
    let mut profile = Profile {
        rate: u32::try_from(1_000_000_000 / seconds).unwrap_or_default(),
        milliseconds: u64::try_from(document.duration_nanos / 1_000_000).unwrap_or_default(),
        ..Profile::default()
    };
    for sample in &document.sample {
        let thread = sample.label.iter().find(|label| text(label.key) == THREAD);
        let mut stack = vec![thread.map_or("", |label| text(label.text)).to_owned()];
        for id in sample.location_id.iter().rev() {
            let lines = locations.get(id).map_or(&[][..], |location| &location.line);
            let named = lines.iter().rev().map(|line| names.get(&line.function_id).copied().unwrap_or("[unknown]"));
            stack.extend(named.map(str::to_owned));
        }
        let count = sample.value.first().copied().unwrap_or_default();
        profile.add(stack, u64::try_from(count).unwrap_or_default());
    }
    Ok(profile)
}

/// The label with the name of a thread.
const THREAD: &str = "thread";
/// The most bytes of a file that is read, when it is decompressed.
pub const MOST_BYTES: usize = 256 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_is_written() {
        let mut profile = Profile::from_folded("shard 0;a;b 3\nshard 1;a 2\nweb 1").expect("a profile");
        (profile.rate, profile.milliseconds) = (100, 30_000);
        assert_eq!(read(&write(&profile)), Ok(profile));
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        assert!(read(b"no gzip").is_err());
        let mut cut = write(&Profile::from_folded("a;b 1").expect("a profile"));
        cut.truncate(12);
        assert!(read(&cut).is_err());
    }
}
