//! Values: the parts of a structure that a message has, one after another.
//!
//! A message costs no more steps than it has bytes and its type parts, however its arrays are
//! nested.

use super::bytes::PvaInput;
use super::types::{ArrayExtent, PvaFields, PvaScalar, PvaType, TypeRegistry};
use super::{DEEPEST, MOST_NODES, PvaFault};

/// The parts of a structure that a message has: a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PvaBits {
    words: [u64; MOST_NODES as usize / 64],
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub enum PvaField<'a> {
    /// A scalar.
    One(PvaElement<'a>),
    /// The elements of an array, of this type and number.
    Many(PvaScalar, usize, PvaInput<'a>),
    /// A value of any other type.
    Other,
}

/// A scalar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PvaElement<'a> {
    /// True or false.
    Truth(bool),
    /// An integer with a sign.
    Signed(i64),
    /// An integer without a sign.
    Unsigned(u64),
    /// 32 bits of IEEE 754.
    Single(f32),
    /// 64 bits of IEEE 754.
    Double(f64),
    /// A text.
    Text(&'a [u8]),
}

impl PvaBits {
    /// Returns the set of one bit.
    pub fn one(bit: u32) -> Self {
        let mut bits = Self::default();
        bits.set(bit);
        bits
    }

    /// Returns the set whose bits are those of a number.
    pub fn of(number: u64) -> Self {
        let mut bits = Self::default();
        bits.words[0] = number;
        bits
    }

    fn set(&mut self, bit: u32) {
        if let Some(word) = self.words.get_mut(bit as usize / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    /// Returns whether a bit is in the set.
    pub fn has(&self, bit: u32) -> bool {
        self.words.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    /// Reads a set: words of 64 bits in the message's byte order, then single bytes.
    ///
    /// # Errors
    /// A set of more bits than any type has, or the end of the input.
    pub fn read(input: &mut PvaInput<'_>) -> Result<Self, PvaFault> {
        let size = input.size()?;
        let mut bits = Self::default();
        if size > bits.words.len() * 8 {
            return Err(PvaFault("it has changes of more parts than any type has"));
        }
        for word in bits.words.iter_mut().take(size / 8) {
            *word = input.huge()?;
        }
        for place in 0..size % 8 {
            let byte = u64::from(input.byte()?);
            if let Some(word) = bits.words.get_mut(size / 8) {
                *word |= byte << (8 * place);
            }
        }
        Ok(bits)
    }

    /// Returns the bytes of a set of bits below 56, which is written without trailing zeros.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = self.words[0].to_le_bytes();
        let size = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |place| place + 1).min(7);
        [&[size as u8], &bytes[..size]].concat()
    }
}

impl<'a> PvaElement<'a> {
    /// Reads a scalar of a type.
    ///
    /// # Errors
    /// The end of the input.
    pub fn read(of: PvaScalar, input: &mut PvaInput<'a>) -> Result<Self, PvaFault> {
        Ok(match of {
            PvaScalar::Boolean => Self::Truth(input.byte()? != 0),
            PvaScalar::Byte => Self::Signed(input.signed_byte()?.into()),
            PvaScalar::Short => Self::Signed(input.short()?.into()),
            PvaScalar::Int => Self::Signed(input.int()?.into()),
            PvaScalar::Long => Self::Signed(input.signed_huge()?),
            PvaScalar::UnsignedByte => Self::Unsigned(input.byte()?.into()),
            PvaScalar::UnsignedShort => Self::Unsigned(input.word()?.into()),
            PvaScalar::UnsignedInt => Self::Unsigned(input.long()?.into()),
            PvaScalar::UnsignedLong => Self::Unsigned(input.huge()?),
            PvaScalar::Float => Self::Single(input.single()?),
            PvaScalar::Double => Self::Double(input.double()?),
            PvaScalar::Text => Self::Text(input.text()?),
        })
    }
}

/// Reads the parts of a structure that a message has, and passes each to `visit` with its bit.
/// Without `bits` it has all parts.
///
/// # Errors
/// A value that is not of the type.
pub fn read<'a>(
    of: &PvaFields,
    bits: Option<&PvaBits>,
    input: &mut PvaInput<'a>,
    registry: &mut TypeRegistry,
    mut visit: impl FnMut(u32, PvaField<'a>),
) -> Result<(), PvaFault> {
    let steps = input.unread_bytes().saturating_add(MOST_NODES as usize);
    let mut reader = ValueReader { input, registry, steps };
    reader.structure(of, 0, bits, &mut visit)
}

/// Reads values.
struct ValueReader<'a, 'i> {
    input: &'i mut PvaInput<'a>,
    registry: &'i mut TypeRegistry,
    /// The values that may still be read.
    steps: usize,
}

impl<'a> ValueReader<'a, '_> {
    fn structure(
        &mut self,
        of: &PvaFields,
        first: u32,
        bits: Option<&PvaBits>,
        visit: &mut impl FnMut(u32, PvaField<'a>),
    ) -> Result<(), PvaFault> {
        let bits = bits.filter(|bits| !bits.has(first));
        let mut bit = first + 1;
        for (_, field) in &of.fields {
            match field {
                PvaType::Structure(inner) => self.structure(inner, bit, bits, visit)?,
                field if bits.is_none_or(|bits| bits.has(bit)) => visit(bit, self.read_field(field, 0)?),
                _ => {}
            }
            bit += field.bits();
        }
        Ok(())
    }

    /// Reads a value that is in the message as a whole.
    fn read_field(&mut self, of: &PvaType, depth: u8) -> Result<PvaField<'a>, PvaFault> {
        if depth > DEEPEST {
            return Err(PvaFault("its values are nested too deeply"));
        }
        self.steps = self.steps.checked_sub(1).ok_or(PvaFault("its values are larger than its message"))?;
        match of {
            PvaType::Scalar(scalar) => return PvaElement::read(*scalar, self.input).map(PvaField::One),
            PvaType::Array(scalar, extent) => return self.array(*scalar, *extent),
            PvaType::Structure(of) => {
                for (_, field) in &of.fields {
                    self.read_field(field, depth + 1)?;
                }
            }
            PvaType::Union(of) => self.union(of, depth)?,
            PvaType::Variant => self.variant(depth)?,
            PvaType::StructureArray(inner) => {
                let inner = PvaType::Structure(inner.clone());
                self.elements(|reader| reader.read_field(&inner, depth + 1).map(drop))?;
            }
            PvaType::UnionArray(inner) => self.elements(|reader| reader.union(inner, depth + 1))?,
            PvaType::VariantArray => self.elements(|reader| reader.variant(depth + 1))?,
        }
        Ok(PvaField::Other)
    }

    fn array(&mut self, of: PvaScalar, extent: ArrayExtent) -> Result<PvaField<'a>, PvaFault> {
        let many = match extent {
            ArrayExtent::Varying => self.input.size()?,
            ArrayExtent::Bounded(most) => match self.input.size()? {
                many if many > most => return Err(PvaFault("its array has more elements than its type")),
                many => many,
            },
            ArrayExtent::Fixed(many) => many,
        };
        let whole = *self.input;
        let size = match of.size() {
            Some(size) => many.checked_mul(size).ok_or(PvaFault("its array is too large"))?,
            None => {
                for _ in 0..many {
                    self.input.text()?;
                }
                let read = whole.unread_bytes() - self.input.unread_bytes();
                *self.input = whole;
                read
            }
        };
        Ok(PvaField::Many(of, many, self.input.part(size)?))
    }

    /// Reads the elements of an array that may be missing.
    fn elements(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), PvaFault>) -> Result<(), PvaFault> {
        for _ in 0..self.input.size()? {
            if self.input.byte()? != 0 {
                read(self)?;
            }
        }
        Ok(())
    }

    fn union(&mut self, of: &PvaFields, depth: u8) -> Result<(), PvaFault> {
        let Some(chosen) = self.input.selector()? else { return Ok(()) };
        let (_, chosen) = of.fields.get(chosen).ok_or(PvaFault("its union has no such field"))?;
        self.read_field(chosen, depth + 1).map(drop)
    }

    fn variant(&mut self, depth: u8) -> Result<(), PvaFault> {
        match PvaType::read(self.input, self.registry)? {
            Some(of) => self.read_field(&of, depth + 1).map(drop),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pv_access::bytes::ByteOrder;
    use proptest::prelude::*;

    /// A type with the fields of the specification's example of a value.
    const TYPE: &[u8] = b"\x80\x10exampleStructure\x07\x05value\x28\x10boundedSizeArray\x30\x10\
        \x0efixedSizeArray\x38\x04\x09timeStamp\x80\x06time_t\x03\x10secondsPastEpoch\x23\
        \x0bnanoseconds\x22\x07userTag\x22\x05alarm\x80\x07alarm_t\x03\x08severity\x22\
        \x06status\x22\x07message\x60\x0avalueUnion\x81\0\x03\x0bstringValue\x60\
        \x08intValue\x22\x0bdoubleValue\x43\x0cvariantUnion\x82";

    /// The example of a value in the specification.
    const VALUE: &[u8] = b"\x03\x01\x02\x03\x05\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x11\x22\x33\x44\x55\x66\x77\x88\
        \xaa\xbb\xcc\xdd\xee\xee\xee\xee\x11\x11\x11\x11\x22\x22\x22\x22\x0bAllo, Allo!\x01\x33\x33\x33\x33\
        \x60\x1cString inside variant union.";

    fn fields(bytes: &[u8]) -> std::sync::Arc<PvaFields> {
        let read = PvaType::read(&mut PvaInput::new(bytes, ByteOrder::Big), &mut TypeRegistry::default());
        let Ok(Some(PvaType::Structure(of))) = read else { panic!("a structure: {read:?}") };
        of
    }

    /// Returns the scalars of a message by their bits, and the number of its unread bytes.
    fn scalars<'a>(
        of: &PvaFields,
        bits: Option<&PvaBits>,
        bytes: &'a [u8],
    ) -> Result<(Vec<(u32, PvaElement<'a>)>, usize), PvaFault> {
        let (mut input, mut found) = (PvaInput::new(bytes, ByteOrder::Big), Vec::new());
        read(of, bits, &mut input, &mut TypeRegistry::default(), |bit, field| {
            if let PvaField::One(element) = field {
                found.push((bit, element));
            }
        })?;
        Ok((found, input.unread_bytes()))
    }

    #[test]
    fn the_example_of_the_specification_is_read() {
        let expected = [
            (5, PvaElement::Signed(0x1122_3344_5566_7788)),
            (6, PvaElement::Signed(0xaabb_ccddu32 as i32 as i64)),
            (7, PvaElement::Signed(0xeeee_eeeeu32 as i32 as i64)),
            (9, PvaElement::Signed(0x1111_1111)),
            (10, PvaElement::Signed(0x2222_2222)),
            (11, PvaElement::Text(b"Allo, Allo!")),
        ];
        assert_eq!(scalars(&fields(TYPE), None, VALUE), Ok((expected.to_vec(), 0)));
        for cut in 0..VALUE.len() {
            assert!(scalars(&fields(TYPE), None, &VALUE[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn only_what_has_changed_is_read() {
        let changed = PvaBits::read(&mut PvaInput::new(&[2, 0x40, 0x01], ByteOrder::Big)).expect("bits 6 and 8");
        let bytes = [&[0, 0, 0, 9][..], &[0, 0, 0, 3, 0, 0, 0, 2, 2, b'h', b'i']].concat();
        let expected = [
            (6, PvaElement::Signed(9)),
            (9, PvaElement::Signed(3)),
            (10, PvaElement::Signed(2)),
            (11, PvaElement::Text(b"hi")),
        ];
        assert_eq!(scalars(&fields(TYPE), Some(&changed), &bytes), Ok((expected.to_vec(), 0)));
        assert_eq!(scalars(&fields(TYPE), Some(&PvaBits::default()), &[]), Ok((Vec::new(), 0)));
    }

    #[test]
    fn sets_of_bits_are_as_the_specification_has_them() {
        let cases: [(&[u32], &[u8]); 9] = [
            (&[], &[0]),
            (&[0], &[1, 1]),
            (&[7], &[1, 0x80]),
            (&[8], &[2, 0, 1]),
            (&[55], &[7, 0, 0, 0, 0, 0, 0, 0x80]),
            (&[56], &[8, 0, 0, 0, 0, 0, 0, 0, 1]),
            (&[64], &[9, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            (&[0, 1, 2, 4, 8], &[2, 0x17, 1]),
            (&[8, 17, 24, 25, 34, 40, 42, 49, 50, 56, 57, 58, 67], &[9, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ];
        for (set, bytes) in cases {
            // The examples of whole words are little endian.
            let bits = PvaBits::read(&mut PvaInput::new(bytes, ByteOrder::Little)).expect("a set");
            let read: Vec<u32> = (0..MOST_NODES).filter(|bit| bits.has(*bit)).collect();
            assert_eq!(read, set);
            if set.iter().all(|bit| *bit < 56) {
                assert_eq!(bits.to_bytes(), bytes);
            }
        }
        let big = PvaBits::read(&mut PvaInput::new(&[8, 0, 0, 0, 0, 0, 0, 0, 1], ByteOrder::Big)).expect("a set");
        assert!(big.has(0) && !big.has(56));
        assert!(PvaBits::read(&mut PvaInput::new(&[200; 201], ByteOrder::Big)).is_err(), "more than any type has");
    }

    #[test]
    fn structures_in_arrays_may_be_missing() {
        // The example of the specification.
        let of = fields(b"\x80\0\x02\x05value\x88\x80\0\x02\x01x\x21\x01y\x21\x01z\x60");
        let bytes = [3, 1, 0x11, 0x11, 0x22, 0x22, 0, 1, 0x33, 0x33, 0x44, 0x44, 1, b'a'];
        assert_eq!(scalars(&of, None, &bytes), Ok((vec![(2, PvaElement::Text(b"a"))], 0)));
    }

    #[test]
    fn values_that_are_not_of_their_type_are_refused() {
        let hollow = [&b"\x80\0\x01\x05value\x88\x80\0\xfe\0\0\x03\xe8"[..], &b"\x01x\x80\0\0".repeat(1000)].concat();
        let cases: Vec<(&str, &[u8], Vec<u8>)> = vec![
            ("more elements than bytes", b"\x80\0\x01\x05value\x2b", vec![0xfe, 0x7f, 0xff, 0xff, 0xf0]),
            ("more texts than bytes", b"\x80\0\x01\x05value\x68", vec![0xfe, 0x7f, 0xff, 0xff, 0xf0, 0, 0]),
            ("more elements than its bound", b"\x80\0\x01\x05value\x30\x02", vec![3, 1, 2, 3]),
            ("fewer than its fixed size", b"\x80\0\x01\x05value\x38\x04", vec![3, 1, 2]),
            ("a union without that field", b"\x80\0\x01\x05value\x81\0\x01\x01x\x60", vec![1, 0]),
            ("variants within variants", b"\x80\0\x01\x05value\x82", vec![0x82; 4096]),
            ("arrays of structures without fields", &hollow, [vec![0xfe, 0, 3, 0, 0], vec![1; 200_000]].concat()),
        ];
        for (what, of, bytes) in cases {
            assert!(scalars(&fields(of), None, &bytes).is_err(), "{what}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_refused(bytes: Vec<u8>, bits: Vec<u8>, place in 0usize..VALUE.len()) {
            let of = fields(TYPE);
            let near = [&VALUE[..place], &bytes].concat();
            for bytes in [&bytes, &near] {
                let _ = scalars(&of, None, bytes);
                if let Ok(bits) = PvaBits::read(&mut PvaInput::new(&bits, ByteOrder::Little)) {
                    let _ = scalars(&of, Some(&bits), bytes);
                }
            }
        }
    }
}
