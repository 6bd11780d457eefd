//! Numbers, sizes and texts in either byte order.

use super::PvaFault;

/// The order of the bytes of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// The lowest byte is the first.
    #[default]
    Little,
    /// The highest byte is the first.
    Big,
}

/// The unread part of a message.
#[derive(Debug, Clone, Copy)]
pub struct PvaInput<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

/// Bytes to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PvaOutput {
    /// The bytes so far.
    pub bytes: Vec<u8>,
    order: ByteOrder,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident $number:ty;)*) => {
        impl<'a> PvaInput<'a> {
            $($(#[$doc])*
            #[doc = "\n# Errors\nFewer bytes are left."]
            pub fn $name(&mut self) -> Result<$number, PvaFault> {
                let (bytes, rest) = self.bytes.split_first_chunk().ok_or(SHORT)?;
                self.bytes = rest;
                Ok(match self.order {
                    ByteOrder::Little => <$number>::from_le_bytes(*bytes),
                    ByteOrder::Big => <$number>::from_be_bytes(*bytes),
                })
            })*
        }

        impl PvaOutput {
            $(#[doc = concat!("Appends a number in ", stringify!($number), "'s form.")]
            pub fn $name(&mut self, number: $number) {
                match self.order {
                    ByteOrder::Little => self.bytes.extend_from_slice(&number.to_le_bytes()),
                    ByteOrder::Big => self.bytes.extend_from_slice(&number.to_be_bytes()),
                }
            })*
        }
    };
}

numbers! {
    /// Reads a byte.
    byte u8;
    /// Reads a byte with a sign.
    signed_byte i8;
    /// Reads 16 bits.
    word u16;
    /// Reads 16 bits with a sign.
    short i16;
    /// Reads 32 bits.
    long u32;
    /// Reads 32 bits with a sign.
    int i32;
    /// Reads 64 bits.
    huge u64;
    /// Reads 64 bits with a sign.
    signed_huge i64;
    /// Reads 32 bits of IEEE 754.
    single f32;
    /// Reads 64 bits of IEEE 754.
    double f64;
}

impl<'a> PvaInput<'a> {
    /// Returns the input of these bytes.
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    /// Returns the number of unread bytes.
    pub fn unread_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Reads that many bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn take(&mut self, many: usize) -> Result<&'a [u8], PvaFault> {
        let (taken, rest) = self.bytes.split_at_checked(many).ok_or(SHORT)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads that many bytes, as input of their own.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn part(&mut self, many: usize) -> Result<Self, PvaFault> {
        Ok(Self { bytes: self.take(many)?, order: self.order })
    }

    /// Reads a size; "no data" counts as zero.
    ///
    /// # Errors
    /// A negative size, one of more than 31 bits, or the end of the input.
    pub fn size(&mut self) -> Result<usize, PvaFault> {
        Ok(self.selector()?.unwrap_or_default())
    }

    /// Reads a size, or `None` for "no data".
    ///
    /// # Errors
    /// As those of [`size`](Self::size).
    pub fn selector(&mut self) -> Result<Option<usize>, PvaFault> {
        match self.byte()? {
            0xff => Ok(None),
            0xfe => match self.int()? {
                i32::MAX => Err(PvaFault("a size has more than 31 bits")),
                size => usize::try_from(size).map(Some).map_err(|_| PvaFault("a size is negative")),
            },
            size => Ok(Some(size.into())),
        }
    }

    /// Reads the bytes of a text.
    ///
    /// # Errors
    /// A size that is wrong or larger than the rest.
    pub fn text(&mut self) -> Result<&'a [u8], PvaFault> {
        let size = self.size()?;
        self.take(size)
    }
}

impl PvaOutput {
    /// Returns empty output in a byte order.
    pub fn new(order: ByteOrder) -> Self {
        Self { bytes: Vec::new(), order }
    }

    /// Returns its byte order.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Appends a size of at most 31 bits.
    pub fn size(&mut self, size: usize) {
        match u8::try_from(size) {
            Ok(size @ 0..=0xfd) => self.byte(size),
            _ => {
                self.byte(0xfe);
                self.int(i32::try_from(size).unwrap_or(i32::MAX - 1));
            }
        }
    }

    /// Appends a text with its size.
    pub fn text(&mut self, text: &[u8]) {
        self.size(text.len());
        self.bytes.extend_from_slice(text);
    }
}

const SHORT: PvaFault = PvaFault("a message is shorter than its contents");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_as_the_specification_has_them() {
        for (size, bytes) in [
            (0usize, vec![0]),
            (253, vec![253]),
            (254, vec![254, 0, 0, 0, 254]),
            (255, vec![254, 0, 0, 0, 255]),
            (0x0102_0304, vec![254, 1, 2, 3, 4]),
        ] {
            let mut output = PvaOutput::new(ByteOrder::Big);
            output.size(size);
            assert_eq!(output.bytes, bytes);
            assert_eq!(PvaInput::new(&bytes, ByteOrder::Big).size(), Ok(size));
        }
        assert_eq!(PvaInput::new(&[255], ByteOrder::Big).selector(), Ok(None));
    }

    #[test]
    fn bad_sizes_are_refused() {
        for bytes in [&[254, 0xff, 0xff, 0xff, 0xff][..], &[254, 0x7f, 0xff, 0xff, 0xff], &[254, 1], &[]] {
            assert!(PvaInput::new(bytes, ByteOrder::Big).size().is_err(), "{bytes:?}");
        }
        assert!(PvaInput::new(&[5, b'a'], ByteOrder::Little).text().is_err());
    }

    proptest! {
        #[test]
        fn either_order_is_read_as_it_is_written(big: bool, number: i64, double: f64, word: u16, text: Vec<u8>) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let mut output = PvaOutput::new(order);
            output.signed_huge(number);
            output.double(double);
            output.word(word);
            output.text(&text);
            let mut input = PvaInput::new(&output.bytes, order);
            prop_assert_eq!(input.signed_huge(), Ok(number));
            prop_assert_eq!(input.double().expect("a double").to_bits(), double.to_bits());
            prop_assert_eq!(input.word(), Ok(word));
            prop_assert_eq!(input.text(), Ok(&text[..]));
            prop_assert_eq!(input.unread_bytes(), 0);
        }
    }
}
