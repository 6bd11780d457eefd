//! Common transforms: primary units to engineering units, by an index and up to ten constants.

use crate::status::Status;

/// A common transform with its constants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CommonTransform {
    /// The index that selects the formula, in the control system's numbering.
    pub index: u16,
    /// C1, C2, …
    pub constants: Vec<f64>,
    /// Points (primary, engineering) of transforms 56 and 58, by rising primary value.
    pub table: Vec<(f64, f64)>,
    /// The pieces of transform 90, by rising limit.
    pub pieces: Vec<Piece>,
}

/// A piece of transform 90.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// The primary value below which this piece is used.
    pub below: f64,
    /// The transform of that piece, which has no pieces itself (90).
    pub common: CommonTransform,
}

impl CommonTransform {
    /// Returns the engineering units of `x` primary units.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for an unknown transform, missing constants or points, a
    /// division by a constant that is 0, and texts.
    pub fn scale(&self, x: f64) -> Result<f64, Status> {
        let Some(needed) = constants(self.index) else { return Err(Status::SCALEFAIL) };
        let mut c = [0.0; MOST + 1];
        for (constant, place) in c.iter_mut().skip(1).enumerate().take(needed) {
            *place = *self.constants.get(constant).ok_or(Status::SCALEFAIL)?;
        }
        let polynomial = |count: usize| c[1..=count].iter().fold(0.0, |sum, constant| sum * x + constant);
        let over = |constant: f64| if constant == 0.0 { Err(Status::SCALEFAIL) } else { Ok(constant) };
        Ok(match self.index {
            0 | 80 => x,
            2 | 40 => c[1] * x / over(c[2])? + c[3],
            4 => (x - c[1]) / over(c[2])?,
            6 => c[1] * x / over(c[2])?,
            8 => c[4] + c[1] * x / (c[3] + c[2] * x),
            10 => c[3] + c[2] / (over(c[1])? * x),
            12 => polynomial(5),
            14 => polynomial(5).exp() - c[6],
            16 => c[2] * (-x / over(c[1])?).exp() + c[4] * (-x / over(c[3])?).exp(),
            18 => c[3] * (c[2] * (x + c[1])).exp() + c[6] * (c[5] * (x + c[4])).exp(),
            20 => {
                let log = x.log10();
                log / (c[1] * log + c[2]).powi(2) + c[3]
            }
            22 => c[2] * 10f64.powf(x / over(c[1])?),
            24 if x < c[1] => c[2] * (c[3] * x + c[4]),
            24 | 42 if x >= c[1] || self.index == 24 => c[2] * (c[5] * x + c[6]).exp(),
            26 => polynomial(6),
            28 => c[3] / (c[2] + c[1] * x) + c[4],
            30 if x < c[1] => c[6],
            30 => c[5] + c[4] * x + c[3] * x * x + c[2] * x * x * x,
            32 => c[2] * (c[1] * x + c[4]).ln() + c[3],
            34 => (c[2] + c[1] * x) / (c[4] + c[3] * x),
            36 => c[2] * (x + c[1]).sqrt() + c[3],
            38 if x > c[6] => 10f64.powf(c[1] + c[2] * x + c[3] * x.exp() + c[4] / x + c[5] / (x * x)),
            38 => ATMOSPHERE,
            42 => c[2] * x * x + c[3] * x + c[4],
            44 if x < c[1] => c[2] * (c[3] * x).exp(),
            44 => c[4] * (c[5] * x).exp(),
            46 if x < c[1] => c[2] * (c[3] * x * x + c[4] * x).exp(),
            46 => c[5] * (c[6] * x).exp(),
            48 => c[1] * c[2].powf(1.0 / x) * x.powf(c[3]),
            50 => c[1] * (x / over(c[2])?).acos(),
            52 if x < c[1] => (c[2] * x + c[3]).exp(),
            52 => (c[4] * x + c[5]).exp(),
            54 if x < c[1] => (c[2] * x * x + c[3] * x + c[4]).exp(),
            54 => (c[5] * x + c[6]).exp(),
            56 => interpolate(&self.table, x, false)?,
            58 => interpolate(&self.table, x, true)?,
            62 => c[2] * (c[3] + 10f64.powf(x / over(c[1])?)),
            64 => vapour_pressure(c[1], x),
            66 => c[1] * (c[2] * (x + c[3])).exp2() + c[4],
            68 if c[1] * x + c[4] <= 0.0 => 0.0,
            68 => c[6] * (c[2] * (c[1] * x + c[4]).ln() + c[3] * x).powf(c[5]),
            70 => {
                c[1] * (-x / over(c[2])?).exp()
                    + c[3] * (-x / over(c[4])?).exp()
                    + c[5] * (-x / over(c[6])?).exp()
                    + 4.0
            }
            72 => {
                let log = x.log10();
                c[1] * 10f64.powf(c[2] + c[3] * log + c[4] * log.powi(2) + c[5] * log.powi(3)) + c[6]
            }
            74 => (c[1] + c[2] * x + c[3] * x * x) / (c[4] + c[5] * x + c[6] * x * x),
            76 if x < c[1] => c[2] * x.powf(c[3]),
            76 => c[4] * (c[5] * x + c[6]).exp(),
            78 => c[1] * 10f64.powf(c[2] * x + c[3]) + c[4],
            82 => c[2] * (c[1] * x + c[4]).log10() + c[3],
            86 => {
                let (line, curve) = (|x| c[3] * x + c[4], |x: f64| (c[5] * x + c[6]).exp());
                match x {
                    x if x < c[1] => line(x),
                    x if x > c[2] => curve(x),
                    x => between((c[1], line(c[1])), (c[2], curve(c[2])), x, true),
                }
            }
            88 => (c[1] + c[2] * x + c[3] * x * x) / (1.0 + c[4] * x + c[5] * x * x + c[6] * x * x * x),
            90 => {
                let piece = self.pieces.iter().find(|piece| x < piece.below).or(self.pieces.last());
                piece.filter(|piece| piece.common.index != 90).ok_or(Status::SCALEFAIL)?.common.scale(x)?
            }
            201 => polynomial(8),
            _ => return Err(Status::SCALEFAIL),
        })
    }

    /// Returns the first seven constants; missing ones are 0.
    pub(super) fn first_constants(&self) -> [f64; 7] {
        let mut padded = [0.0; 7];
        for (place, constant) in padded[1..].iter_mut().zip(&self.constants) {
            *place = *constant;
        }
        padded
    }

    /// Checks that there are as many constants and points as the transform needs. The error is a
    /// description of the fault.
    pub fn check(&self) -> Result<(), String> {
        match self.index {
            60 | 84 => return Ok(()),
            56 | 58 if self.table.len() < 2 => {
                return Err(format!("transform {} needs a table of two points at least", self.index));
            }
            90 if self.pieces.is_empty() => return Err("transform 90 needs pieces".into()),
            _ => {}
        }
        if !self.table.is_sorted_by(|earlier, later| earlier.0 < later.0) {
            return Err("the table's first numbers must rise".into());
        }
        if !self.pieces.is_sorted_by(|earlier, later| earlier.below < later.below) {
            return Err("the pieces' limits must rise".into());
        }
        for piece in &self.pieces {
            if piece.common.index == 90 {
                return Err("a piece cannot have pieces itself".into());
            }
            piece.common.check()?;
        }
        let needed = constants(self.index).ok_or_else(|| format!("there is no common transform {}", self.index))?;
        if self.constants.len() < needed {
            return Err(format!("transform {} needs {needed} constants", self.index));
        }
        let divisors: &[usize] = match self.index {
            2 | 4 | 6 | 40 | 50 => &[2],
            10 | 22 | 62 => &[1],
            16 => &[1, 3],
            70 => &[2, 4, 6],
            _ => &[],
        };
        match divisors.iter().find(|divisor| self.constants[**divisor - 1] == 0.0) {
            Some(divisor) => Err(format!("constant C{divisor} of transform {} cannot be 0", self.index)),
            None => Ok(()),
        }
    }
}

/// Returns the number of constants that a transform needs; `None` if there is no such transform.
fn constants(index: u16) -> Option<usize> {
    Some(match index {
        0 | 56 | 58 | 80 | 90 => 0,
        64 => 1,
        4 | 6 | 22 | 50 => 2,
        2 | 10 | 20 | 36 | 40 | 48 | 62 => 3,
        8 | 16 | 28 | 32 | 34 | 66 | 78 | 82 => 4,
        12 | 44 | 52 => 5,
        14 | 18 | 24 | 26 | 30 | 38 | 42 | 46 | 54 | 68 | 70 | 72 | 74 | 76 | 86 | 88 => 6,
        201 => 8,
        _ => return None,
    })
}

/// Looks `x` up in a table. Beyond its ends, the outermost lines are continued.
fn interpolate(table: &[(f64, f64)], x: f64, exponential: bool) -> Result<f64, Status> {
    if table.len() < 2 {
        return Err(Status::SCALEFAIL);
    }
    let above = table.iter().position(|point| x < point.0).unwrap_or(table.len() - 1).max(1);
    Ok(between(table[above - 1], table[above], x, exponential))
}

fn between(low: (f64, f64), high: (f64, f64), x: f64, exponential: bool) -> f64 {
    let share = (x - low.0) / (high.0 - low.0);
    if exponential { low.1 * (high.1 / low.1).powf(share) } else { low.1 + (high.1 - low.1) * share }
}

/// Scales vapour pressure thermometers: nitrogen if `gas` is 0, helium otherwise. Returns kelvin
/// from primary units.
fn vapour_pressure(gas: f64, x: f64) -> f64 {
    // Coefficients by rising power.
    let coefficients: [f64; 6] = match (gas == 0.0, x) {
        (true, x) if x <= 4.825 => [77.4, 13.463, -8.2465, 3.6896, -0.7824, 0.0608],
        (true, _) => [-0.5451, -428.2927, -210274.8806, 129913.0267, -26741.8467, 1834.8285],
        (false, x) if x <= 0.9148 => [4.2, 1.443, -0.40755, 0.3005, -1.5166, 1.3716],
        (false, _) => [4.271, 2.89, -4.11, 3.27, -1.26, 0.202],
    };
    coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// The reading of a gauge that is out of its range, in millitorr.
const ATMOSPHERE: f64 = 760_000.0;
/// The most constants that a transform takes.
const MOST: usize = 8;
