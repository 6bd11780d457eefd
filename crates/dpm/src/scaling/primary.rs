//! Primary transforms: from a raw integer to a number, and back.
//!
//! The index is even. The inverse rounds towards zero, and refuses numbers that the raw value
//! cannot hold: those beyond its range, including any that would become infinite as a 32-bit float,
//! infinities, and NaN.

use crate::status::Status;

/// The transform that makes strings; see [`TextKind`](super::TextKind).
pub const STRING: u16 = 68;

/// The index for no transform: the value is already a number.
pub const NONE: u16 = u16::MAX;

/// Returns the primary units of a raw value of `length` bytes that was sign-extended.
///
/// # Errors
/// [`SCALEFAIL`](Status::SCALEFAIL) for an unknown transform, and for a length or value that it
/// doesn't have.
pub fn scale(index: u16, length: usize, raw: i32) -> Result<f64, Status> {
    let x = f64::from(raw);
    let low = raw as u8;
    let high = (raw >> 8) as u8;
    let word = f64::from(raw as u16);
    let float = f32::from_bits(raw as u32);
    let need = |bytes: usize| if length == bytes { Ok(()) } else { Err(Status::SCALEFAIL) };
    Ok(match index {
        8 => x + 32768.0,
        10 => x,
        14 => f64::from(raw & 0x3ff) * 10f64.powi((raw >> 10) & 7),
        16 => f64::from(float),
        18 => x * 0.0010406,
        20 if raw < 0 => x + if length == 1 { 256.0 } else { 65536.0 },
        20 => x,
        22 => f64::from(f32::from_bits(swapped_words(raw)) / 4.0),
        24 => f64::from(f32::from_bits(swapped_words(raw))),
        26 => f64::from(high) / THERMOCOUPLE - THERMOCOUPLE_ZERO,
        28 => f64::from(swapped_words(raw) as i32),
        30 => f64::from(low as i8),
        32 => f64::from(high as i8),
        34 => f64::from(low),
        36 => f64::from(high),
        38 => f64::from(low) / THERMOCOUPLE - THERMOCOUPLE_ZERO,
        42 => word / 6553.6,
        44 => f64::from((0..7).rev().fold(0, |number, digit| number * 10 + (raw >> (4 * digit) & 15))),
        46 => f64::from(raw as u32),
        48 => f64::from(float) / 0.036,
        50 => limit(float, -10.24, 10.235),
        52 => match length {
            2 => f64::from((raw as i16).swap_bytes()),
            4 => f64::from(raw.swap_bytes()),
            _ => 0.0,
        },
        54 => {
            need(2)?;
            if raw < 0 {
                return Err(Status::SCALEFAIL);
            }
            x * CURRENT_LOOP + 4.0
        }
        56 => need(2).map(|()| (word - 32768.0) / 3276.8)?,
        58 => {
            f64::from(match length {
                1 => u32::from(low),
                2 => u32::from(raw as u16),
                _ => raw as u32,
            }) / 256.0
        }
        60 => 500.0 * f64::from(float),
        64 => x / fraction(length),
        66 => {
            need(2)?;
            if raw <= 0 {
                return Err(Status::SCALEFAIL);
            }
            x / 3200.0
        }
        72 => need(2).map(|()| (word - 32768.0) / 3200.0)?,
        74 => need(2).map(|()| x * 0.00064088)?,
        76 => need(4).map(|()| f64::from(swapped_words(raw)))?,
        78 => limit(float, 0.0, 5.0),
        80 => limit(float, 0.0, 10.0),
        82 => {
            need(2)?;
            if raw & 0xf000 != 0 {
                return Err(Status::SCALEFAIL);
            }
            x / 409.5
        }
        84 => need(4).map(|()| f64::from(f32::from_bits((raw as u32).swap_bytes())))?,
        _ => x / divisor(index).ok_or(Status::SCALEFAIL)?,
    })
}

/// Returns the raw value of a number of primary units. [`Scaling`](super::Scaling) checks that it
/// fits `length` bytes.
///
/// # Errors
/// [`SCALEFAIL`](Status::SCALEFAIL) for an unknown transform, and for a number beyond its range.
pub fn unscale(index: u16, length: usize, value: f64) -> Result<i32, Status> {
    if !value.is_finite() {
        return Err(Status::SCALEFAIL);
    }
    let whole = |number: f64| {
        let bounds = f64::from(i32::MIN)..=f64::from(i32::MAX);
        bounds.contains(&number.trunc()).then_some(number as i32).ok_or(Status::SCALEFAIL)
    };
    let within = |number: f64, low: i32, high: i32| {
        whole(number).and_then(|raw| if (low..=high).contains(&raw) { Ok(raw) } else { Err(Status::SCALEFAIL) })
    };
    let unsigned = |number: f64| {
        let bounds = 0.0..=f64::from(u32::MAX);
        bounds.contains(&number.trunc()).then_some(number as u32).ok_or(Status::SCALEFAIL)
    };
    let float = |number: f64| {
        let float = number as f32;
        if float.is_finite() { Ok(float.to_bits() as i32) } else { Err(Status::SCALEFAIL) }
    };
    let float_within = |low: f64, high: f64| {
        if (low..=high).contains(&value) { float(value) } else { Err(Status::SCALEFAIL) }
    };
    Ok(match index {
        8 => whole(value - 32768.0)?,
        10 => whole(value)?,
        14 => decade(value)?,
        16 => float(value)?,
        // The control system unscales with a separate factor, which is not quite the reciprocal.
        18 => whole(value / 0.001040625)?,
        20 if length == 4 => return Err(Status::SCALEFAIL),
        20 => within(value, 0, 0xffff)?,
        22 => swapped_words(float(value * 4.0)?) as i32,
        24 => swapped_words(float(value)?) as i32,
        26 => within(nearly((value + THERMOCOUPLE_ZERO) * THERMOCOUPLE), 0, 0xff)? << 8,
        28 => swapped_words(whole(value)?) as i32,
        30 => within(value, -0x80, 0x7f)?,
        32 => (within(value, -0x80, 0x7f)? << 8) & 0xffff,
        34 => within(value, 0, 0xff)?,
        36 => within(value, 0, 0x7f)? << 8,
        38 => within(nearly((value + THERMOCOUPLE_ZERO) * THERMOCOUPLE), 0, 0xff)?,
        40 => within(value * 256.0, -0x80, 0x7f)?,
        42 => within(value * 6553.6, 0, 0xffff)?,
        44 => {
            let number = within(value, 0, 79_999_999)?;
            (0..8).fold(0, |raw, digit| raw | (number / 10i32.pow(digit) % 10) << (4 * digit))
        }
        46 => unsigned(value)? as i32,
        48 => float(value * 0.036)?,
        50 => float_within(-10.24, 10.235)?,
        52 => match length {
            2 => i32::from((within(value, -0x8000, 0x7fff)? as u16).swap_bytes()),
            4 => whole(value)?.swap_bytes(),
            _ => 0,
        },
        54 => within((value - 4.0) / CURRENT_LOOP, 0, 0x7fff)?,
        56 => within(value * 3276.8 + 32768.0, 0, 0xffff)?,
        58 => unsigned(value * 256.0)? as i32,
        60 => float(value / 500.0)?,
        62 => whole(value * 6400.0)? & 0xffff,
        64 => whole(value * fraction(length))?,
        66 => within(value * 3200.0, 1, 0x7fff)?,
        72 => within(value * 3200.0 + 32768.0, 0, 0xffff)?,
        74 => within(value / 0.00064088, 0, 0x7fff)?,
        76 => swapped_words(unsigned(value)? as i32) as i32,
        78 => float_within(0.0, 5.0)?,
        80 => float_within(0.0, 10.0)?,
        82 => within(nearly(value * 409.5), 0, 0xfff)?,
        84 => float(value)?.swap_bytes(),
        _ => whole(value * divisor(index).ok_or(Status::SCALEFAIL)?)?,
    })
}

/// Returns the distance at which a raw value may scale from the number that it was made from: less
/// than one raw step is cut off.
pub(super) fn step(index: u16, length: usize, value: f64) -> f64 {
    let size = value.abs();
    match index {
        14 => (size / 512.0).max(1.0),
        // Its two factors are not quite the same.
        18 => 0.00104 + size * 1e-4,
        16 | 22 | 24 | 48 | 50 | 60 | 78 | 80 | 84 => size * 1e-6 + f64::from(f32::MIN_POSITIVE) * 500.0,
        26 | 38 => 1.0 / THERMOCOUPLE,
        42 => 1.0 / 6553.6,
        54 => CURRENT_LOOP,
        56 => 1.0 / 3276.8,
        58 => 1.0 / 256.0,
        64 => 1.0 / fraction(length),
        66 | 72 => 1.0 / 3200.0,
        74 => 0.00064088,
        82 => 1.0 / 409.5,
        _ => divisor(index).map_or(1.0, |divisor| 1.0 / divisor),
    }
}

/// Returns the primary values between which an inverse of the common transform is searched for.
pub fn limits(index: u16, length: usize) -> (f64, f64) {
    let (lowest, highest) = match length {
        1 => (-0x80, 0x7f),
        2 => (-0x8000, 0x7fff),
        _ => (i32::MIN, i32::MAX),
    };
    match index {
        14 => (0.0, 1023e7),
        16 | 22 | 24 | 48 | 60 | 84 => (-FLOATS, FLOATS),
        20 => (0.0, f64::from(highest) * 2.0 + 1.0),
        26 | 38 => (-THERMOCOUPLE_ZERO, 255.0 / THERMOCOUPLE - THERMOCOUPLE_ZERO),
        28 | 52 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        30 | 32 => (-128.0, 127.0),
        34 | 36 => (0.0, 255.0),
        40 => (-0.5, 0.5),
        42 => (0.0, 10.0),
        44 => (0.0, 9_999_999.0),
        46 | 76 => (0.0, f64::from(u32::MAX)),
        50 => (-10.24, 10.235),
        54 => (4.0, 20.0),
        56 => (-10.0, 10.0),
        58 => (0.0, f64::from(highest) / 128.0),
        66 => (1.0 / 3200.0, 10.24),
        72 => (-10.24, 10.24),
        74 => (0.0, 21.0),
        78 => (0.0, 5.0),
        80 | 82 => (0.0, 10.0),
        _ => {
            let scaled = |raw| scale(index, length, raw).unwrap_or_default();
            (scaled(lowest), scaled(highest))
        }
    }
}

/// Returns the divisor of a raw value, for transforms that only divide.
fn divisor(index: u16) -> Option<f64> {
    Some(match index {
        0 => 3200.0,
        2 => 3276.8,
        4 => 6553.6,
        6 => 13107.2,
        12 => 320.0,
        40 => 256.0,
        62 => 6400.0,
        70 => 1000.0,
        _ => return None,
    })
}

/// Returns ten bits and the lowest power of ten that suffices. The two highest bits are set, as
/// front-ends expect.
fn decade(value: f64) -> Result<i32, Status> {
    let fits = |power: &i32| value / 10f64.powi(*power) < 1024.0;
    let power = (0..8).find(fits).filter(|_| value >= 0.0).ok_or(Status::SCALEFAIL)?;
    Ok(0xc000 | power << 10 | (value / 10f64.powi(power)) as i32)
}

fn limit(float: f32, low: f64, high: f64) -> f64 {
    // `clamp` leaves NaN as it is.
    f64::from(float).clamp(low, high)
}

/// Rounds a number that differs from a whole one by no more than the error of a division. The
/// transforms need that for small numbers if their factor is no power of two.
fn nearly(number: f64) -> f64 {
    if (number - number.round()).abs() < 1e-6 { number.round() } else { number }
}

fn swapped_words(raw: i32) -> u32 {
    (raw as u32).rotate_left(16)
}

fn fraction(length: usize) -> f64 {
    match length {
        1 => 128.0,
        2 => 32768.0,
        _ => 2_147_483_648.0,
    }
}

const THERMOCOUPLE: f64 = 82.1865;
const THERMOCOUPLE_ZERO: f64 = 0.310269935;
/// Milliamperes per bit of a 4–20 mA loop.
const CURRENT_LOOP: f64 = 0.0004882961516;
/// The bound of the numbers among which an inverse for floating raw values is searched for.
pub(super) const FLOATS: f64 = 1e6;
