//! Descriptions of types ("introspection data"), which a server sends before values.
//!
//! A server may number a type and refer to it later. The size and depth of a type are those of all
//! types within it, so that a reference costs as much as what it stands for.

use std::collections::HashMap;
use std::sync::Arc;

use super::bytes::PvaInput;
use super::{DEEPEST, MOST_BYTES_OF_TYPES, MOST_NODES, MOST_TYPES, PvaFault};

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PvaType {
    /// One number, truth value or text.
    Scalar(PvaScalar),
    /// Several scalars of one type.
    Array(PvaScalar, ArrayExtent),
    /// Named fields.
    Structure(Arc<PvaFields>),
    /// Several structures of one type, each of which may be missing.
    StructureArray(Arc<PvaFields>),
    /// One of several named fields.
    Union(Arc<PvaFields>),
    /// Several unions of one type, each of which may be missing.
    UnionArray(Arc<PvaFields>),
    /// A value that comes with its type.
    Variant,
    /// Several values that come with their types, each of which may be missing.
    VariantArray,
}

/// A type of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PvaScalar {
    /// True or false.
    Boolean,
    /// 8 bits with a sign.
    Byte,
    /// 16 bits with a sign.
    Short,
    /// 32 bits with a sign.
    Int,
    /// 64 bits with a sign.
    Long,
    /// 8 bits without a sign.
    UnsignedByte,
    /// 16 bits without a sign.
    UnsignedShort,
    /// 32 bits without a sign.
    UnsignedInt,
    /// 64 bits without a sign.
    UnsignedLong,
    /// 32 bits of IEEE 754.
    Float,
    /// 64 bits of IEEE 754.
    Double,
    /// A text.
    Text,
}

/// The number of elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayExtent {
    /// Any number, which comes with the value.
    Varying,
    /// At most this many; the number comes with the value.
    Bounded(usize),
    /// Always this many.
    Fixed(usize),
}

/// The fields of a structure or union.
#[derive(Debug, PartialEq, Eq)]
pub struct PvaFields {
    /// Names and types.
    pub fields: Vec<(Box<str>, PvaType)>,
    /// The number of bits by which a set of changes names the structure and the fields in it.
    pub bits: u32,
    /// The parts of the type, and the depth of its nesting.
    nodes: u32,
    depth: u8,
}

/// The types that a peer has numbered on one circuit.
#[derive(Debug)]
pub struct TypeRegistry {
    types: HashMap<u16, PvaType, ahash::RandomState>,
    /// The bytes that descriptions may still have.
    room: usize,
}

impl Default for TypeRegistry {
    fn default() -> Self {
        Self { types: HashMap::default(), room: usize::MAX }
    }
}

impl PvaType {
    /// Reads a type; `None` for "no type".
    ///
    /// # Errors
    /// A type that is reserved, unknown, too large or nested too deeply.
    pub fn read(input: &mut PvaInput<'_>, registry: &mut TypeRegistry) -> Result<Option<Self>, PvaFault> {
        read(input, registry, 0)
    }

    /// Returns the parts of the type, and the depth of its nesting.
    fn extent(&self) -> (u32, u8) {
        match self {
            Self::Structure(of) | Self::StructureArray(of) | Self::Union(of) | Self::UnionArray(of) => {
                (of.nodes, of.depth)
            }
            Self::Scalar(_) | Self::Array(..) | Self::Variant | Self::VariantArray => (1, 0),
        }
    }

    /// Returns the number of bits that a set of changes has for it.
    pub fn bits(&self) -> u32 {
        if let Self::Structure(of) = self { of.bits } else { 1 }
    }
}

impl PvaFields {
    /// Returns these fields.
    ///
    /// # Errors
    /// Too many of them, or too deeply nested.
    pub fn new(fields: Vec<(Box<str>, PvaType)>) -> Result<Self, PvaFault> {
        let (mut bits, mut nodes, mut depth) = (1u32, 1u32, 0u8);
        for (_, field) in &fields {
            let (of_field, depth_of_field) = field.extent();
            bits = bits.saturating_add(field.bits());
            nodes = nodes.saturating_add(of_field);
            depth = depth.max(depth_of_field);
        }
        depth += 1;
        if nodes > MOST_NODES {
            return Err(PvaFault("it has a type of too many parts"));
        }
        if depth > DEEPEST {
            return Err(DEEP);
        }
        Ok(Self { fields, bits, nodes, depth })
    }

    /// Returns the bit and the type of a field, which is named by the path to it.
    pub fn at(&self, path: &[&str]) -> Option<(u32, &PvaType)> {
        let (name, path) = path.split_first()?;
        let mut bit = 1;
        for (field, of) in &self.fields {
            if **field != **name {
                bit += of.bits();
                continue;
            }
            return match (path, of) {
                ([], of) => Some((bit, of)),
                (path, PvaType::Structure(inner)) => inner.at(path).map(|(inside, of)| (bit + inside, of)),
                _ => None,
            };
        }
        None
    }
}

impl PvaScalar {
    /// Returns the scalar of a type code.
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Boolean,
            0x20 => Self::Byte,
            0x21 => Self::Short,
            0x22 => Self::Int,
            0x23 => Self::Long,
            0x24 => Self::UnsignedByte,
            0x25 => Self::UnsignedShort,
            0x26 => Self::UnsignedInt,
            0x27 => Self::UnsignedLong,
            0x42 => Self::Float,
            0x43 => Self::Double,
            0x60 => Self::Text,
            _ => return None,
        })
    }

    /// Returns the bytes of an element; `None` for texts.
    pub fn size(self) -> Option<usize> {
        Some(match self {
            Self::Boolean | Self::Byte | Self::UnsignedByte => 1,
            Self::Short | Self::UnsignedShort => 2,
            Self::Int | Self::UnsignedInt | Self::Float => 4,
            Self::Long | Self::UnsignedLong | Self::Double => 8,
            Self::Text => return None,
        })
    }
}

impl TypeRegistry {
    /// Returns a registry for the types of a client, of which there may be thousands.
    pub fn of_client() -> Self {
        Self { room: MOST_BYTES_OF_TYPES, ..Self::default() }
    }

    /// Stores a type under its number; its description had that many bytes.
    fn keep(&mut self, number: u16, of: &PvaType, bytes: usize) -> Result<(), PvaFault> {
        self.room = self.room.checked_sub(bytes).ok_or(PvaFault("it numbers too large types"))?;
        if self.types.len() >= MOST_TYPES && !self.types.contains_key(&number) {
            return Err(PvaFault("it numbers too many types"));
        }
        self.types.insert(number, of.clone());
        Ok(())
    }
}

fn read(input: &mut PvaInput<'_>, registry: &mut TypeRegistry, depth: u8) -> Result<Option<PvaType>, PvaFault> {
    if depth > DEEPEST {
        return Err(DEEP);
    }
    match input.byte()? {
        NONE => Ok(None),
        NUMBER => {
            let number = input.word()?;
            let known = registry.types.get(&number).cloned();
            known.map(Some).ok_or(PvaFault("it refers to a type that it has not described"))
        }
        NUMBERED => {
            let number = input.word()?;
            let before = input.unread_bytes();
            let of = read(input, registry, depth + 1)?.ok_or(PvaFault("it numbers no type"))?;
            registry.keep(number, &of, before - input.unread_bytes())?;
            Ok(Some(of))
        }
        code => read_description(code, input, registry, depth).map(Some),
    }
}

fn read_description(
    code: u8,
    input: &mut PvaInput<'_>,
    registry: &mut TypeRegistry,
    depth: u8,
) -> Result<PvaType, PvaFault> {
    let mut inner = |wanted: fn(&PvaType) -> Option<&Arc<PvaFields>>| {
        let element = read(input, registry, depth + 1)?;
        element.as_ref().and_then(wanted).cloned().ok_or(PvaFault("its array has elements of another type"))
    };
    match code {
        0x80 => fields(input, registry, depth).map(PvaType::Structure),
        0x81 => fields(input, registry, depth).map(PvaType::Union),
        0x82 => Ok(PvaType::Variant),
        0x88 => inner(|of| if let PvaType::Structure(of) = of { Some(of) } else { None }).map(PvaType::StructureArray),
        0x89 => inner(|of| if let PvaType::Union(of) = of { Some(of) } else { None }).map(PvaType::UnionArray),
        0x8a => Ok(PvaType::VariantArray),
        // The specification has both numbers for texts with a bound.
        0x83 | 0x86 => input.size().map(|_| PvaType::Scalar(PvaScalar::Text)),
        _ => {
            let scalar = PvaScalar::of(code & !EXTENT).ok_or(PvaFault("it has a type of an unknown code"))?;
            Ok(match code & EXTENT {
                0x00 => PvaType::Scalar(scalar),
                0x08 => PvaType::Array(scalar, ArrayExtent::Varying),
                0x10 => PvaType::Array(scalar, ArrayExtent::Bounded(input.size()?)),
                _ => PvaType::Array(scalar, ArrayExtent::Fixed(input.size()?)),
            })
        }
    }
}

fn fields(input: &mut PvaInput<'_>, registry: &mut TypeRegistry, depth: u8) -> Result<Arc<PvaFields>, PvaFault> {
    // The name of the type, which only people read.
    input.text()?;
    let many = input.size()?;
    let mut fields = Vec::new();
    for _ in 0..many {
        if fields.len() >= MOST_NODES as usize {
            return Err(PvaFault("it has a type of too many parts"));
        }
        let name = String::from_utf8_lossy(input.text()?).into();
        let of = read(input, registry, depth + 1)?.ok_or(PvaFault("it has a field without a type"))?;
        fields.push((name, of));
    }
    PvaFields::new(fields).map(Arc::new)
}

const DEEP: PvaFault = PvaFault("its types are nested too deeply");
/// The codes for no type, the number of a type, and a type with its number.
const NONE: u8 = 0xff;
const NUMBER: u8 = 0xfe;
const NUMBERED: u8 = 0xfd;
/// The bits of a code that make it an array.
const EXTENT: u8 = 0x18;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pv_access::bytes::ByteOrder;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Result<Option<PvaType>, PvaFault> {
        PvaType::read(&mut PvaInput::new(bytes, ByteOrder::Big), &mut TypeRegistry::default())
    }

    /// The second example of introspection data in the specification.
    pub(in crate::pv_access) const EXAMPLE: &[u8] =
        b"\xfd\0\x01\x80\x10exampleStructure\x07\x05value\x28\x10boundedSizeArray\x30\x10\
        \x0efixedSizeArray\x38\x04\x09timeStamp\xfd\0\x02\x80\x06time_t\x03\x10secondsPastEpoch\x23\
        \x0bnanoseconds\x22\x07userTag\x22\x05alarm\xfd\0\x03\x80\x07alarm_t\x03\x08severity\x22\
        \x06status\x22\x07message\x60\x0avalueUnion\xfd\0\x04\x81\0\x03\x0bstringValue\x60\
        \x08intValue\x22\x0bdoubleValue\x43\x0cvariantUnion\xfd\0\x05\x82";

    #[test]
    fn the_example_of_the_specification_is_read() {
        let Ok(Some(PvaType::Structure(of))) = read_all(EXAMPLE) else { panic!("a structure") };
        // Seven fields, two of which have three of their own.
        assert_eq!(of.bits, 1 + 7 + 2 * 3);
        assert_eq!(of.at(&["value"]), Some((1, &PvaType::Array(PvaScalar::Byte, ArrayExtent::Varying))));
        assert_eq!(of.at(&["boundedSizeArray"]), Some((2, &PvaType::Array(PvaScalar::Byte, ArrayExtent::Bounded(16)))));
        assert_eq!(of.at(&["fixedSizeArray"]), Some((3, &PvaType::Array(PvaScalar::Byte, ArrayExtent::Fixed(4)))));
        assert_eq!(of.at(&["timeStamp", "nanoseconds"]), Some((6, &PvaType::Scalar(PvaScalar::Int))));
        assert_eq!(of.at(&["alarm", "message"]), Some((11, &PvaType::Scalar(PvaScalar::Text))));
        assert_eq!(of.at(&["variantUnion"]), Some((13, &PvaType::Variant)));
        assert_eq!(of.at(&["alarm", "colour"]), None);
    }

    #[test]
    fn numbered_types_are_known_later() {
        let (mut registry, order) = (TypeRegistry::default(), ByteOrder::Big);
        let first = PvaType::read(&mut PvaInput::new(EXAMPLE, order), &mut registry).expect("a type");
        let again = PvaType::read(&mut PvaInput::new(&[0xfe, 0, 1], order), &mut registry).expect("the same");
        assert_eq!(first, again);
        assert!(PvaType::read(&mut PvaInput::new(&[0xfe, 0, 9], order), &mut registry).is_err());
    }

    #[test]
    fn types_that_are_bad_or_too_large_are_refused() {
        let nested = [&[0x80, 0, 1, 1, b'x'][..]; 64].concat();
        let many = [&[0x80, 0, 0xfe, 0, 1, 0, 0][..], &[1, b'x', 0x43].repeat(65_536)].concat();
        let endless = [&[0x80, 0, 0xfe, 0x7f, 0xff, 0xff, 0xfe][..], &[1, b'x', 0x43].repeat(9)].concat();
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("no such type", vec![0x44]),
            ("a reserved type", vec![0xe0]),
            ("a tagged type", vec![0xfc, 0, 1, 0]),
            ("a boolean with a size", vec![0x01]),
            ("nested deeply", nested),
            ("numbered without end", vec![0xfd; 4096]),
            ("too many fields", many),
            ("more fields than there are", endless),
            ("a field without a type", vec![0x80, 0, 1, 1, b'x', 0xff]),
            ("an array of numbers as one of structures", vec![0x88, 0x43]),
            ("nothing", Vec::new()),
        ];
        for (what, bytes) in cases {
            assert!(read_all(&bytes).is_err(), "{what}");
        }
    }

    #[test]
    fn references_cost_as_much_as_what_they_stand_for() {
        // Each type has 100 fields of the type before.
        let (mut registry, order) = (TypeRegistry::default(), ByteOrder::Big);
        let mut bytes = vec![0xfd, 0, 0, 0x80, 0, 100];
        bytes.extend([1, b'x', 0x43].repeat(100));
        PvaType::read(&mut PvaInput::new(&bytes, order), &mut registry).expect("100 numbers");
        let mut bytes = vec![0xfd, 0, 1, 0x80, 0, 100];
        bytes.extend([1, b'x', 0xfe, 0, 0].repeat(100));
        assert!(PvaType::read(&mut PvaInput::new(&bytes, order), &mut registry).is_err(), "10 000 numbers");
        // Each of these types has the one before as a field.
        let depths = (0..2 * u16::from(DEEPEST)).map(|number| {
            let [high, low] = number.to_be_bytes();
            let inner = if number == 0 { vec![0x43] } else { vec![0xfe, high, low - 1] };
            let bytes = [vec![0xfd, high, low, 0x80, 0, 1, 1, b'x'], inner].concat();
            PvaType::read(&mut PvaInput::new(&bytes, order), &mut registry).is_ok()
        });
        assert_eq!(depths.take_while(|is_read| *is_read).count(), usize::from(DEEPEST));
    }

    #[test]
    fn the_number_of_numbered_types_is_bounded() {
        let (mut registry, order) = (TypeRegistry::default(), ByteOrder::Big);
        let read = (0..=u16::MAX).take_while(|number| {
            let [high, low] = number.to_be_bytes();
            PvaType::read(&mut PvaInput::new(&[0xfd, high, low, 0x43], order), &mut registry).is_ok()
        });
        assert_eq!(read.count(), MOST_TYPES);
    }

    proptest! {
        #[test]
        fn any_type_is_read_or_refused(bytes: Vec<u8>, place in 0usize..EXAMPLE.len()) {
            let _ = read_all(&bytes);
            let mut near = EXAMPLE.to_vec();
            near.truncate(place);
            near.extend(bytes);
            let _ = read_all(&near);
        }
    }
}
