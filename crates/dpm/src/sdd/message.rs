//! The table of messages: ids, fields, types. Reading and writing follow from it.
//!
//! A message is the magic `SDD` with version 2, and an array of three: the protocol's id, the message's id, and a struct, that is an array of
//! field ids and values. Fields are written in the order of the table and read in any order. A field that is an `Option` may be absent.

use super::value::{Error, Reader, put_array, put_binary, put_boolean, put_double, put_integer, put_string};

/// The id of the DPM protocol.
pub const PROTOCOL: i64 = -1_321_570_246;

/// What can be written as a message and read from one: [`request::Request`] and [`reply::Reply`].
pub trait Message: Sized {
    /// Every message of this direction: its name, id and fields.
    const TABLE: &'static [(&'static str, u16, &'static [Field])];

    /// Appends the encoded message.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a message. One zero may follow it: ACNET pads to an even length and nothing tells the true one.
    fn decode(bytes: &[u8]) -> Result<Self, Error>;
}

/// A row of the table: a field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its id on the wire.
    pub id: u16,
    /// What it holds.
    pub kind: FieldKind,
    /// May it be absent?
    pub optional: bool,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A signed integer of as many bytes at most.
    Integer(u8),
    /// An IEEE double.
    Double,
    /// Bytes.
    Binary,
    /// A string.
    String,
    /// A truth value.
    Boolean,
    /// Any number of values of one kind.
    Array(&'static FieldKind),
    /// A struct of fields.
    Struct(&'static [Field]),
}

/// A type that a field can have.
trait Wire: Sized {
    const KIND: FieldKind;
    const OPTIONAL: bool = false;
    fn write(&self, out: &mut Vec<u8>);
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error>;
    fn is_present(&self) -> bool {
        true
    }
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! integers {
    ($($type:ty = $size:literal)*) => {$(
        impl Wire for $type {
            const KIND: FieldKind = FieldKind::Integer($size);
            fn write(&self, out: &mut Vec<u8>) {
                put_integer(out, i64::from(*self));
            }
            fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
                Self::try_from(reader.integer()?).map_err(|_| Error::Range)
            }
        }
    )*};
}

integers! { i16 = 2 i32 = 4 i64 = 8 }

impl Wire for f64 {
    const KIND: FieldKind = FieldKind::Double;
    fn write(&self, out: &mut Vec<u8>) {
        put_double(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.double()
    }
}

impl Wire for bool {
    const KIND: FieldKind = FieldKind::Boolean;
    fn write(&self, out: &mut Vec<u8>) {
        put_boolean(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.boolean()
    }
}

impl Wire for String {
    const KIND: FieldKind = FieldKind::String;
    fn write(&self, out: &mut Vec<u8>) {
        put_string(out, self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.string()
    }
}

/// Bytes of a field. A type of its own because an array of numbers is something else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl Wire for Bytes {
    const KIND: FieldKind = FieldKind::Binary;
    fn write(&self, out: &mut Vec<u8>) {
        put_binary(out, &self.0);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self(reader.binary()?.to_vec()))
    }
}

impl<T: Wire> Wire for Option<T> {
    const KIND: FieldKind = T::KIND;
    const OPTIONAL: bool = true;
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        T::read(reader).map(Some)
    }
    fn is_present(&self) -> bool {
        self.is_some()
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Wire> Wire for Vec<T> {
    const KIND: FieldKind = FieldKind::Array(&T::KIND);
    fn write(&self, out: &mut Vec<u8>) {
        put_array(out, self.len());
        for item in self {
            item.write(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        // The count is at most that of the bytes left, and no item takes less than one.
        (0..reader.array()?).map(|_| T::read(reader)).collect()
    }
}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $id:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            const FIELDS: &'static [Field] = &[$(Field {
                name: stringify!($field),
                id: $id,
                kind: <$type as Wire>::KIND,
                optional: <$type as Wire>::OPTIONAL,
            },)*];
        }

        impl Wire for $name {
            const KIND: FieldKind = FieldKind::Struct(Self::FIELDS);

            fn write(&self, out: &mut Vec<u8>) {
                let present: usize = [$(usize::from(self.$field.is_present()),)*].iter().sum();
                put_array(out, 2 * present);
                $(if self.$field.is_present() {
                    put_integer(out, i64::from($id as u16 as i16));
                    self.$field.write(out);
                })*
            }

            #[allow(unused_mut, reason = "messages without fields are records too")]
            fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
                let count = reader.array()?;
                if count % 2 != 0 {
                    return Err(Error::Length);
                }
                $(let mut $field: Option<$type> = None;)*
                for _ in 0..count / 2 {
                    match id(reader)? {
                        $($id if $field.is_none() => $field = Some(Wire::read(reader)?),)*
                        unknown => return Err(Error::Field(unknown)),
                    }
                }
                Ok(Self {
                    $($field: $field.or_else(Wire::absent).ok_or(Error::Missing(stringify!($field)))?,)*
                })
            }
        }
    };
}

macro_rules! direction {
    (
        $(#[$doc:meta])* $direction:ident;
        $($(#[$message_doc:meta])* $name:ident = $id:literal { $($fields:tt)* })*
    ) => {
        $(record! { $(#[$message_doc])* $name { $($fields)* } })*

        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $direction {
            $($(#[$message_doc])* $name($name),)*
        }

        $(impl From<$name> for $direction {
            fn from(message: $name) -> Self {
                Self::$name(message)
            }
        })*

        impl Message for $direction {
            const TABLE: &'static [(&'static str, u16, &'static [Field])] = &[
                $((stringify!($name), $id, $name::FIELDS),)*
            ];

            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name(message) => {
                        put_head(out, $id);
                        message.write(out);
                    })*
                }
            }

            fn decode(bytes: &[u8]) -> Result<Self, Error> {
                let mut reader = Reader::new(bytes);
                let message = match read_head(&mut reader)? {
                    $($id => Self::$name(Wire::read(&mut reader)?),)*
                    unknown => return Err(Error::Message(unknown)),
                };
                match reader.rest() {
                    [] | [0] => Ok(message),
                    _ => Err(Error::Trailing),
                }
            }
        }
    };
}

record! {
    /// Bytes to set, as the front-end takes them.
    RawSetting {
        /// The request that they are for.
        ref_id: i64 = 0x1eab,
        /// The bytes.
        data: Bytes = 0x7f38,
    }
}

record! {
    /// Engineering values to set.
    ScaledSetting {
        /// The request that they are for.
        ref_id: i64 = 0x1eab,
        /// The values.
        data: Vec<f64> = 0x7f38,
    }
}

record! {
    /// Texts to set: a control command, an enumerated value.
    TextSetting {
        /// The request that they are for.
        ref_id: i64 = 0x1eab,
        /// The texts.
        data: Vec<String> = 0x7f38,
    }
}

record! {
    /// What became of one setting.
    SettingStatus {
        /// The request that it was for.
        ref_id: i64 = 0x1eab,
        /// Its status, as [`Status`](crate::status::Status) packs it.
        status: i16 = 0x4454,
    }
}

/// What clients ask.
pub mod request {
    use super::*;

    direction! {
        /// A request to DPM.
        Request;

        /// Who is there? Sent to everyone.
        ServiceDiscovery = 0xdfda {}
        /// Makes a list.
        OpenList = 0x081c {
            /// Sent by no known client.
            location: Option<String> = 0x9de0,
        }
        /// Puts a request on a list, in place of one with the same number.
        AddToList = 0x0061 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The client's number for this request.
            ref_id: i64 = 0x1eab,
            /// The request, or a property of the list if it begins with `#`.
            drf_request: String = 0x6324,
        }
        /// Takes a request from a list.
        RemoveFromList = 0xf121 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
        }
        /// Starts data flowing, by the requests as they are now.
        StartList = 0xddb5 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The data model of requests that name none.
            model: Option<String> = 0x5e63,
        }
        /// Stops data and keeps the requests.
        StopList = 0x53a9 {
            /// The list.
            list_id: i32 = 0xe820,
        }
        /// Stops data and forgets the requests.
        ClearList = 0xc309 {
            /// The list.
            list_id: i32 = 0xe820,
        }
        /// A step of GSS-API authentication; the first token is empty.
        Authenticate = 0xc453 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The token.
            token: Bytes = 0x8da1,
        }
        /// Proves that the context stands, and allows settings.
        EnableSettings = 0x5362 {
            /// The list.
            list_id: i32 = 0xe820,
            /// The integrity code over `message`.
            mic: Bytes = 0x1fcd,
            /// What the code is over.
            message: Bytes = 0x3102,
        }
        /// Sets devices.
        ApplySettings = 0xc678 {
            /// Who sets; may be empty.
            user_name: String = 0x5648,
            /// The list.
            list_id: i32 = 0xe820,
            /// Settings in bytes.
            raw_array: Option<Vec<RawSetting>> = 0x0301,
            /// Settings in engineering values.
            scaled_array: Option<Vec<ScaledSetting>> = 0x63ce,
            /// Settings in text.
            text_array: Option<Vec<TextSetting>> = 0xce8f,
        }
    }
}

/// What DPM answers. `timestamp` is in milliseconds since 1970, `status` as [`Status`](crate::status::Status) packs it, `cycle` the cycle time of
/// a GETS32 reply or 0.
pub mod reply {
    use super::*;

    direction! {
        /// A reply of DPM.
        Reply;

        /// Here I am.
        ServiceDiscovery = 0xcd7e {
            /// How busy; the least busy is preferred.
            load: i16 = 0x1eb3,
            /// Where.
            service_location: String = 0x11af,
        }
        /// The list is made.
        OpenList = 0x349e {
            /// Its number.
            list_id: i32 = 0xe820,
        }
        /// The request was taken.
        AddToList = 0x8bac {
            /// The list.
            list_id: i32 = 0xe820,
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// Whether.
            status: i16 = 0x4454,
        }
        /// The request was removed.
        RemoveFromList = 0xf41a {
            /// The list.
            list_id: i32 = 0xe820,
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// Whether.
            status: i16 = 0x4454,
        }
        /// The list is started.
        StartList = 0x9600 {
            /// The list.
            list_id: i32 = 0xe820,
            /// Whether.
            status: i16 = 0x4454,
        }
        /// How the list is; also sent after silence, to show that someone is there.
        ListStatus = 0x7370 {
            /// The list.
            list_id: i32 = 0xe820,
            /// How.
            status: i16 = 0x4454,
        }
        /// A request failed for now, or an answer that is nothing but a status.
        Status = 0xd6ad {
            /// The client's number for the request; 0 for the list.
            ref_id: i64 = 0x1eab,
            /// When.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// What happened.
            status: i16 = 0x4454,
        }
        /// What the database knows of the device of a request.
        DeviceInfo = 0x6fed {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// The device's index.
            di: i32 = 0x82dd,
            /// Its name.
            name: String = 0x931c,
            /// What it is.
            description: String = 0xf92c,
            /// Of readings and settings.
            units: Option<String> = 0x3dfb,
            /// Its meaning is unknown; never sent.
            format_hint: Option<i16> = 0x7ec2,
        }
        /// One number.
        Scalar = 0xd6ab {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The number.
            data: f64 = 0x7f38,
        }
        /// Numbers.
        ScalarArray = 0x59fc {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When they were read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The numbers.
            data: Vec<f64> = 0x7f38,
        }
        /// Bytes as the front-end sent them.
        Raw = 0xcf5e {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When they were read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The bytes, little endian.
            data: Bytes = 0x7f38,
        }
        /// A text.
        Text = 0x8f32 {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The text.
            data: String = 0x7f38,
        }
        /// Texts.
        TextArray = 0x327b {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When they were read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the reading.
            status: i16 = 0x4454,
            /// The texts.
            data: Vec<String> = 0x7f38,
        }
        /// Numbers, each with its time; an empty one ends a history.
        TimedScalarArray = 0x7a32 {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Status of the readings.
            status: i16 = 0x4454,
            /// The numbers.
            data: Vec<f64> = 0x7f38,
            /// Their times, in microseconds since 1970.
            micros: Vec<i64> = 0x342d,
        }
        /// An analog alarm block, scaled.
        AnalogAlarm = 0x7588 {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Readings below are bad.
            minimum: f64 = 0x234c,
            /// Readings above are bad.
            maximum: f64 = 0xe288,
            /// Is it watched?
            alarm_enable: bool = 0x8f20,
            /// Is it bad?
            alarm_status: bool = 0x6036,
            /// Does it abort the beam?
            abort: bool = 0x4a1c,
            /// Is the abort suppressed?
            abort_inhibit: bool = 0x8172,
            /// Bad readings in a row that make an alarm.
            tries_needed: i32 = 0x0132,
            /// Bad readings in a row so far.
            tries_now: i32 = 0x2b3e,
        }
        /// A digital alarm block.
        DigitalAlarm = 0xc79b {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// The bits as they should be.
            nominal: i32 = 0x4f1d,
            /// The bits that count.
            mask: i32 = 0x11eb,
            /// Is it watched?
            alarm_enable: bool = 0x8f20,
            /// Is it bad?
            alarm_status: bool = 0x6036,
            /// Does it abort the beam?
            abort: bool = 0x4a1c,
            /// Is the abort suppressed?
            abort_inhibit: bool = 0x8172,
            /// Bad readings in a row that make an alarm.
            tries_needed: i32 = 0x0132,
            /// Bad readings in a row so far.
            tries_now: i32 = 0x2b3e,
        }
        /// The basic status; an attribute that the device has not is absent.
        BasicStatus = 0xf2f9 {
            /// The client's number for the request.
            ref_id: i64 = 0x1eab,
            /// When it was read.
            timestamp: i64 = 0xd55b,
            /// Cycle.
            cycle: i64 = 0x0740,
            /// Is it on?
            on: Option<bool> = 0x5c01,
            /// Is it ready?
            ready: Option<bool> = 0xab23,
            /// Is it under remote control?
            remote: Option<bool> = 0xe486,
            /// Is its polarity positive?
            positive: Option<bool> = 0x2716,
            /// Does it ramp?
            ramp: Option<bool> = 0x9238,
        }
        /// What became of each setting.
        ApplySettings = 0x43c0 {
            /// Each once.
            status: Vec<SettingStatus> = 0x4454,
        }
        /// The answer to a step of authentication.
        Authenticate = 0x1c76 {
            /// Whom to get a ticket for.
            service_name: Option<String> = 0x6338,
            /// The token of the next step.
            token: Option<Bytes> = 0x8da1,
        }
    }
}

fn put_head(out: &mut Vec<u8>, message: u16) {
    out.extend_from_slice(MAGIC);
    put_array(out, ITEMS);
    put_integer(out, PROTOCOL);
    put_integer(out, i64::from(message as i16));
}

fn read_head(reader: &mut Reader<'_>) -> Result<u16, Error> {
    let rest = reader.rest().strip_prefix(MAGIC).ok_or(Error::NotSdd)?;
    *reader = Reader::new(rest);
    if reader.array()? != ITEMS || reader.integer()? != PROTOCOL {
        return Err(Error::NotSdd);
    }
    id(reader)
}

/// Ids are 16 bits that are written as if they had a sign.
fn id(reader: &mut Reader<'_>) -> Result<u16, Error> {
    let number = reader.integer()?;
    let signed = i16::try_from(number).map(|number| number as u16);
    signed.or_else(|_| u16::try_from(number)).map_err(|_| Error::Range)
}

const MAGIC: &[u8] = b"SDD\x02";
const ITEMS: usize = 3;
