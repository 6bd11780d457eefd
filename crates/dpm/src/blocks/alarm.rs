//! Alarm blocks: 20 bytes, little endian.
//!
//! Flags (2), minimum or nominal value (4), maximum or tolerance (4), tries so far (1), tries
//! needed (1), clock event (2), reserved for the front-end (6).
//!
//! A block is set as a whole: parts that a client sets are written into the front-end's current
//! block.

use crate::status::Status;

/// The length of a block, in bytes.
pub const SIZE: usize = 20;

/// The limits of a device and the flags of its alarm, as stored in a front-end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlarmBlock {
    /// The flag word: bit 0 is set if the device is monitored, bit 3 if its abort is inhibited.
    pub flags: u16,
    low: [u8; 4],
    high: [u8; 4],
    /// The number of bad readings in a row so far.
    pub tries_now: u8,
    /// The number of bad readings in a row that cause an alarm.
    pub tries_needed: u8,
    /// The event at which the front-end checks.
    pub ftd: u16,
}

/// The meaning of the two values of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlarmLimits {
    /// The limit below which raw readings are bad.
    pub minimum: f64,
    /// The limit above which raw readings are bad.
    pub maximum: f64,
    /// The desired raw reading.
    pub nominal: f64,
    /// The permitted distance from it.
    pub tolerance: f64,
}

impl AlarmBlock {
    /// Reads a block; `None` if there are fewer than 20 bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let block: &[u8; SIZE] = bytes.first_chunk()?;
        let [f0, f1, a, b, c, d, e, f, g, h, tries_now, tries_needed, ftd0, ftd1, ..] = *block;
        Some(Self {
            flags: u16::from_le_bytes([f0, f1]),
            low: [a, b, c, d],
            high: [e, f, g, h],
            tries_now,
            tries_needed,
            ftd: u16::from_le_bytes([ftd0, ftd1]),
        })
    }

    /// Writes the block over the bytes that it was read from, without the front-end's reserved
    /// ones.
    pub fn write(&self, block: &mut [u8; SIZE]) {
        block[..2].copy_from_slice(&self.flags.to_le_bytes());
        block[2..6].copy_from_slice(&self.low);
        block[6..10].copy_from_slice(&self.high);
        block[10..12].copy_from_slice(&[self.tries_now, self.tries_needed]);
        block[12..14].copy_from_slice(&self.ftd.to_le_bytes());
    }

    /// Sets whether the device is monitored.
    pub fn set_enabled(&mut self, on: bool) {
        self.flags = self.flags & !1 | u16::from(on);
    }

    /// Sets whether the abort is suppressed.
    pub fn set_abort_inhibited(&mut self, on: bool) {
        self.flags = self.flags & !(1 << 3) | u16::from(on) << 3;
    }

    /// Sets the limits in the block's form, from `minimum` and `maximum` alone. They are rounded to
    /// raw values.
    ///
    /// Fails if a value does not fit the block, and for a percentage of a nominal value that is 0.
    pub fn set_limits(&mut self, minimum: f64, maximum: f64) -> Result<(), Status> {
        let (nominal, tolerance) = ((minimum + maximum) / 2.0, (maximum - minimum) / 2.0);
        match self.flags >> 8 & 3 {
            MINIMUM_AND_MAXIMUM => self.put(minimum, maximum),
            NOMINAL_AND_PERCENT if nominal == 0.0 => Err(Status::SCALEFAIL),
            NOMINAL_AND_PERCENT => self.put(nominal, (100.0 * tolerance / nominal).abs()),
            _ => self.put(nominal, tolerance),
        }
    }

    /// Sets nominal bits and mask of a digital block. Fails if they do not fit.
    pub fn set_bits(&mut self, nominal: u32, mask: u32) -> Result<(), Status> {
        self.put(f64::from(nominal), f64::from(mask))
    }

    /// Writes both values in the number of bytes that the block specifies, with or without a sign.
    fn put(&mut self, low: f64, high: f64) -> Result<(), Status> {
        let bytes = match self.flags >> 5 & 3 {
            0 => 1,
            1 => 2,
            _ => 4,
        };
        let most = 2f64.powi(8 * bytes);
        let raw = |value: f64| {
            let value = value.round();
            let fits = (-most / 2.0..most).contains(&value);
            if fits { Ok((value as i64).to_le_bytes()) } else { Err(Status::SCALEFAIL) }
        };
        let (low, high, bytes) = (raw(low)?, raw(high)?, bytes as usize);
        self.low[..bytes].copy_from_slice(&low[..bytes]);
        self.high[..bytes].copy_from_slice(&high[..bytes]);
        Ok(())
    }

    /// Returns whether the device is monitored.
    pub fn is_enabled(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Returns whether the reading is bad.
    pub fn is_bad(&self) -> bool {
        self.flags & 1 << 1 != 0
    }

    /// Returns whether an alarm aborts the beam.
    pub fn aborts(&self) -> bool {
        self.flags & 1 << 2 != 0
    }

    /// Returns whether the abort is suppressed.
    pub fn is_abort_inhibited(&self) -> bool {
        self.flags & 1 << 3 != 0
    }

    /// Returns the two values, sign-extended: minimum or nominal, maximum or tolerance.
    pub fn values(&self) -> (i32, i32) {
        let extended = |bytes: [u8; 4]| match self.flags >> 5 & 3 {
            0 => i32::from(bytes[0] as i8),
            1 => i32::from(i16::from_le_bytes([bytes[0], bytes[1]])),
            _ => i32::from_le_bytes(bytes),
        };
        (extended(self.low), extended(self.high))
    }

    /// Returns the limits as raw values, in whichever form the block has them.
    pub fn limits(&self) -> AlarmLimits {
        let (first, second) = self.values();
        let (first, second) = (f64::from(first), f64::from(second));
        if self.flags >> 8 & 3 == MINIMUM_AND_MAXIMUM {
            return AlarmLimits {
                minimum: first,
                maximum: second,
                nominal: (first + second) / 2.0,
                tolerance: (second - first) / 2.0,
            };
        }
        let is_share = self.flags >> 8 & 3 == NOMINAL_AND_PERCENT;
        let tolerance = if is_share { (first * second / 100.0).abs() } else { second };
        AlarmLimits { minimum: first - tolerance, maximum: first + tolerance, nominal: first, tolerance }
    }

    /// Returns the nominal bits and the mask of a digital block, without sign extension.
    pub fn bits(&self) -> (u32, u32) {
        let bits = |bytes: [u8; 4]| match self.flags >> 5 & 3 {
            0 => u32::from(bytes[0]),
            1 => u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            _ => u32::from_le_bytes(bytes),
        };
        (bits(self.low), bits(self.high))
    }
}

const NOMINAL_AND_PERCENT: u16 = 1;
const MINIMUM_AND_MAXIMUM: u16 = 2;
