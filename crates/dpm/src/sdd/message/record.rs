//! Reads and writes the fields of messages, with the macros that make types of the rows of a table.

pub(super) use crate::sdd::value::{
    Reader, SddError, put_array, put_binary, put_boolean, put_choice, put_double, put_integer, put_string,
};

/// The id of the DPM protocol.
pub const PROTOCOL: i64 = -1_321_570_246;

/// A request or a reply, which can be written as a message and read from one.
pub trait SddMessage: Sized {
    /// Every message of this direction: its name, id and fields.
    const TABLE: &'static [(&'static str, u16, &'static [MessageField])];

    /// Appends the encoded message.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a message. One zero may follow it: ACNET pads to an even length, and nothing gives the
    /// true length.
    fn decode(bytes: &[u8]) -> Result<Self, SddError>;
}

/// A row of the table: a field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageField {
    /// The name of the field in the table.
    pub name: &'static str,
    /// Its id on the wire.
    pub id: u16,
    /// The kind of its value.
    pub kind: FieldKind,
    /// True if it may be absent.
    pub optional: bool,
}

/// The kind of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A signed integer of at most this many bytes.
    Integer(u8),
    /// An IEEE double.
    Double,
    /// Bytes.
    Binary,
    /// A text, whose bytes are read as the characters of Latin-1.
    String,
    /// A truth value.
    Boolean,
    /// One of some constants, which have ids of 16 bits.
    Choice,
    /// Any number of values of one kind.
    Array(&'static FieldKind),
    /// A group of fields with ids of their own.
    Struct(&'static [MessageField]),
}

/// A Rust type that the macros accept for a field, with its form on the wire.
pub(super) trait WireType: Sized {
    const KIND: FieldKind;
    const OPTIONAL: bool = false;
    fn write(&self, out: &mut Vec<u8>);
    fn read(reader: &mut Reader<'_>) -> Result<Self, SddError>;
    fn is_present(&self) -> bool {
        true
    }
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! integers {
    ($($type:ty = $size:literal)*) => {$(
        impl WireType for $type {
            const KIND: FieldKind = FieldKind::Integer($size);
            fn write(&self, out: &mut Vec<u8>) {
                put_integer(out, i64::from(*self));
            }
            fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
                Self::try_from(reader.integer()?).map_err(|_| SddError::Range)
            }
        }
    )*};
}

integers! { i16 = 2 i32 = 4 i64 = 8 }

impl WireType for f64 {
    const KIND: FieldKind = FieldKind::Double;
    fn write(&self, out: &mut Vec<u8>) {
        put_double(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
        reader.double()
    }
}

impl WireType for bool {
    const KIND: FieldKind = FieldKind::Boolean;
    fn write(&self, out: &mut Vec<u8>) {
        put_boolean(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
        reader.read_boolean()
    }
}

impl WireType for String {
    const KIND: FieldKind = FieldKind::String;
    fn write(&self, out: &mut Vec<u8>) {
        put_string(out, self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
        reader.string()
    }
}

/// The bytes of a field, in a type of their own because an array of numbers is encoded differently.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl WireType for Bytes {
    const KIND: FieldKind = FieldKind::Binary;
    fn write(&self, out: &mut Vec<u8>) {
        put_binary(out, &self.0);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
        Ok(Self(reader.binary()?.to_vec()))
    }
}

impl<T: WireType> WireType for Option<T> {
    const KIND: FieldKind = T::KIND;
    const OPTIONAL: bool = true;
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
        T::read(reader).map(Some)
    }
    fn is_present(&self) -> bool {
        self.is_some()
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: WireType> WireType for Vec<T> {
    const KIND: FieldKind = FieldKind::Array(&T::KIND);
    fn write(&self, out: &mut Vec<u8>) {
        put_array(out, self.len());
        for item in self {
            item.write(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
        // The count is at most the number of bytes left, and each item takes one at least.
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
            const FIELDS: &'static [MessageField] = &[$(MessageField {
                name: stringify!($field),
                id: $id,
                kind: <$type as WireType>::KIND,
                optional: <$type as WireType>::OPTIONAL,
            },)*];
        }

        impl WireType for $name {
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
            fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
                let count = reader.array()?;
                if count % 2 != 0 {
                    return Err(SddError::Length);
                }
                $(let mut $field: Option<$type> = None;)*
                for _ in 0..count / 2 {
                    match id(reader)? {
                        $($id if $field.is_none() => $field = Some(WireType::read(reader)?),)*
                        unknown => return Err(SddError::Field(unknown)),
                    }
                }
                Ok(Self {
                    $($field: $field.or_else(WireType::absent).ok_or(SddError::Missing(stringify!($field)))?,)*
                })
            }
        }
    };
}

macro_rules! direction {
    (
        $(#[$doc:meta])* $direction:ident of $protocol:path;
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

        impl SddMessage for $direction {
            const TABLE: &'static [(&'static str, u16, &'static [MessageField])] = &[
                $((stringify!($name), $id, $name::FIELDS),)*
            ];

            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name(message) => {
                        put_head(out, $protocol, $id);
                        message.write(out);
                    })*
                }
            }

            fn decode(bytes: &[u8]) -> Result<Self, SddError> {
                let mut reader = Reader::new(bytes);
                let message = match read_head(&mut reader, $protocol)? {
                    $($id => Self::$name(WireType::read(&mut reader)?),)*
                    unknown => return Err(SddError::Message(unknown)),
                };
                match reader.rest() {
                    [] | [0] => Ok(message),
                    _ => Err(SddError::Trailing),
                }
            }
        }
    };
}

pub(super) fn put_head(out: &mut Vec<u8>, protocol: i64, message: u16) {
    out.extend_from_slice(MAGIC);
    put_array(out, ITEMS);
    put_integer(out, protocol);
    put_integer(out, i64::from(message as i16));
}

pub(super) fn read_head(reader: &mut Reader<'_>, protocol: i64) -> Result<u16, SddError> {
    let rest = reader.rest().strip_prefix(MAGIC).ok_or(SddError::NotSdd)?;
    *reader = Reader::new(rest);
    if reader.array()? != ITEMS || reader.integer()? != protocol {
        return Err(SddError::NotSdd);
    }
    id(reader)
}

/// Reads an id: 16 bits, written as if they had a sign.
pub(super) fn id(reader: &mut Reader<'_>) -> Result<u16, SddError> {
    let number = reader.integer()?;
    let signed = i16::try_from(number).map(|number| number as u16);
    signed.or_else(|_| u16::try_from(number)).map_err(|_| SddError::Range)
}

const MAGIC: &[u8] = b"SDD\x02";
const ITEMS: usize = 3;
