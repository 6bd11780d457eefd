//! The transforms that a device file selects by their indices, as the reference shows them.

/// The primary transforms: from the raw number x of the input length to primary units.
pub(super) const PRIMARY: &[(u16, &str)] = &[
    (0, "x / 3200"),
    (2, "x / 3276.8"),
    (4, "x / 6553.6"),
    (6, "x / 13107.2"),
    (8, "x + 32768"),
    (10, "x"),
    (12, "x / 320"),
    (14, "the low ten bits times 10 to the power of the next three"),
    (16, "32-bit float"),
    (18, "0.0010406 x"),
    (20, "x without a sign; 1 or 2 bytes"),
    (22, "VAX float: 16-bit words swapped, and a fourth of the 32-bit float"),
    (24, "32-bit float with 16-bit words swapped"),
    (26, "high byte / 82.1865 - 0.310269935"),
    (28, "x with 16-bit words swapped"),
    (30, "low byte with its sign"),
    (32, "high byte with its sign"),
    (34, "low byte"),
    (36, "high byte"),
    (38, "low byte / 82.1865 - 0.310269935"),
    (40, "x / 256"),
    (42, "x without a sign / 6553.6"),
    (44, "seven digits of four bits (BCD)"),
    (46, "x as 32 bits without a sign"),
    (48, "32-bit float / 0.036"),
    (50, "32-bit float, limited to -10.24 and 10.235"),
    (52, "x with its bytes in reverse order; 2 or 4 bytes"),
    (54, "0.0004882961516 x + 4; 2 bytes, not negative"),
    (56, "(x without a sign - 32768) / 3276.8; 2 bytes"),
    (58, "x without a sign / 256"),
    (60, "500 times a 32-bit float"),
    (62, "x / 6400"),
    (64, "x / 128, / 32768 or / 2147483648, by 1, 2 or 4 bytes"),
    (66, "x / 3200; 2 bytes, above 0"),
    (68, "a text: see common transforms 60 and 84"),
    (70, "x / 1000"),
    (72, "(x without a sign - 32768) / 3200; 2 bytes"),
    (74, "0.00064088 x; 2 bytes"),
    (76, "x with 16-bit words swapped, without a sign; 4 bytes"),
    (78, "32-bit float, limited to 0 and 5"),
    (80, "32-bit float, limited to 0 and 10"),
    (82, "x / 409.5; 2 bytes, the top four bits 0"),
    (84, "32-bit float with its bytes in reverse order; 4 bytes"),
];

/// The common transforms: from primary units x to engineering units, with the constants C1 and
/// following.
pub(super) const COMMON: &[(u16, &str)] = &[
    (0, "x"),
    (2, "C1 x / C2 + C3"),
    (4, "(x - C1) / C2"),
    (6, "C1 x / C2"),
    (8, "C4 + C1 x / (C3 + C2 x)"),
    (10, "C3 + C2 / (C1 x)"),
    (12, "C1 x^4 + C2 x^3 + C3 x^2 + C4 x + C5"),
    (14, "exp(C1 x^4 + C2 x^3 + C3 x^2 + C4 x + C5) - C6"),
    (16, "C2 exp(-x / C1) + C4 exp(-x / C3)"),
    (18, "C3 exp(C2 (x + C1)) + C6 exp(C5 (x + C4))"),
    (20, "L / (C1 L + C2)^2 + C3 with L = log10 x"),
    (22, "C2 10^(x / C1)"),
    (24, "x < C1: C2 (C3 x + C4); else C2 exp(C5 x + C6)"),
    (26, "C1 x^5 + C2 x^4 + C3 x^3 + C4 x^2 + C5 x + C6"),
    (28, "C3 / (C2 + C1 x) + C4"),
    (30, "x < C1: C6; else C5 + C4 x + C3 x^2 + C2 x^3"),
    (32, "C2 ln(C1 x + C4) + C3"),
    (34, "(C2 + C1 x) / (C4 + C3 x)"),
    (36, "C2 sqrt(x + C1) + C3"),
    (38, "x > C6: 10^(C1 + C2 x + C3 e^x + C4 / x + C5 / x^2); else 760000"),
    (40, "as 2"),
    (42, "x < C1: C2 x^2 + C3 x + C4; else C2 exp(C5 x + C6)"),
    (44, "x < C1: C2 exp(C3 x); else C4 exp(C5 x)"),
    (46, "x < C1: C2 exp(C3 x^2 + C4 x); else C5 exp(C6 x)"),
    (48, "C1 C2^(1 / x) x^C3"),
    (50, "C1 acos(x / C2)"),
    (52, "x < C1: exp(C2 x + C3); else exp(C4 x + C5)"),
    (54, "x < C1: exp(C2 x^2 + C3 x + C4); else exp(C5 x + C6)"),
    (56, "by the points of `table`, linearly"),
    (58, "by the points of `table`, exponentially"),
    (60, "a text by C1: 2 and 3 hexadecimal with 4 and 8 digits, 8 characters, 12, 288 and 289 one of `names`"),
    (62, "C2 (C3 + 10^(x / C1))"),
    (64, "vapour pressure thermometers: nitrogen if C1 is 0, helium if it is 1"),
    (66, "C1 2^(C2 (x + C3)) + C4"),
    (68, "C6 (C2 ln(C1 x + C4) + C3 x)^C5; 0 if there is no such logarithm"),
    (70, "C1 e^(-x / C2) + C3 e^(-x / C4) + C5 e^(-x / C6) + 4"),
    (72, "C1 10^(C2 + C3 L + C4 L^2 + C5 L^3) + C6 with L = log10 x"),
    (74, "(C1 + C2 x + C3 x^2) / (C4 + C5 x + C6 x^2)"),
    (76, "x < C1: C2 x^C3; else C4 exp(C5 x + C6)"),
    (78, "C1 10^(C2 x + C3) + C4"),
    (80, "x"),
    (82, "C2 log10(C1 x + C4) + C3"),
    (84, "as 60"),
    (86, "x < C1: C3 x + C4; x > C2: exp(C5 x + C6); between them the logarithm is linear"),
    (88, "(C1 + C2 x + C3 x^2) / (1 + C4 x + C5 x^2 + C6 x^3)"),
    (90, "by `pieces`, each with a transform of its own"),
    (201, "C1 x^7 + C2 x^6 + C3 x^5 + C4 x^4 + C5 x^3 + C6 x^2 + C7 x + C8"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::{CommonTransform, Piece, primary};

    #[test]
    fn the_reference_lists_exactly_the_transforms_that_exist() {
        let is_primary = |index: u16| {
            index == primary::STRING || [1, 2, 4].iter().any(|length| primary::limits(index, *length) != (0.0, 0.0))
        };
        let is_common = |index: u16| {
            let pieces = vec![Piece { below: 1.0, common: CommonTransform::default() }];
            let table = vec![(0.0, 1.0), (1.0, 2.0)];
            CommonTransform { index, constants: vec![1.0; 10], table, pieces }.check().is_ok()
        };
        let known = |is_one: &dyn Fn(u16) -> bool| (0..=u16::MAX).filter(|index| is_one(*index)).collect::<Vec<_>>();
        let told = |table: &[(u16, &str)]| table.iter().map(|(index, _)| *index).collect::<Vec<_>>();
        assert_eq!(told(PRIMARY), known(&is_primary));
        assert_eq!(told(COMMON), known(&is_common));
    }

    #[test]
    fn the_reference_names_as_many_constants_as_are_needed() {
        for (index, words) in COMMON {
            let told = (1..=9).rev().find(|number| words.contains(&format!("C{number}"))).unwrap_or(0);
            let with = |count: usize| {
                CommonTransform { index: *index, constants: vec![1.0; count], ..CommonTransform::default() }.check()
            };
            if matches!(index, 40 | 56 | 58 | 60 | 84 | 90) {
                continue;
            }
            assert!(with(told).is_ok(), "{index}: {words}");
            assert!(told == 0 || with(told - 1).is_err(), "{index}: {words}");
        }
    }
}
