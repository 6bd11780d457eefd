//! Scaling, compared with the results of the Java DPM.

use std::collections::BTreeSet;
use std::str::FromStr;

use rookery_dpm::scaling::{CommonTransform, Piece, Scaling, primary};
use rookery_dpm::status::Status;

use crate::rows;

#[test]
fn primary_transforms_scale_and_unscale() {
    for row in rows(include_str!("scaling-primary.tsv")) {
        let (index, length, raw) = (parse(row[0]), parse::<usize>(row[1]), parse::<u32>(row[2]));
        let raw = rookery_dpm::scaling::raw(&raw.to_le_bytes()[..length]).expect("1, 2 or 4 bytes");
        let scaled = primary::scale(index, length, raw);
        if row[3] == "!" {
            assert_eq!(scaled, Err(Status::SCALEFAIL), "{row:?}");
            continue;
        }
        // Values that the table of transforms calls unsigned are unsigned here; Java keeps the
        // sign.
        let is_unsigned = index == 58 && length == 4 && raw < 0;
        let (scaled, expected) = (scaled.unwrap_or_else(|_| panic!("{row:?} is refused")), parse::<f64>(row[3]));
        assert!(is_unsigned || same(scaled, expected, 1e-12), "{row:?}: {scaled}");
        let back = primary::unscale(index, length, scaled);
        match (index, row[4]) {
            // Java converts NaN and infinities back; here they are refused.
            _ if !scaled.is_finite() => assert_eq!(back, Err(Status::SCALEFAIL), "{row:?}"),
            (46 | 58, _) if raw < 0 && length == 4 => assert_eq!(back, Ok(raw), "{row:?}"),
            (46, _) if raw < 0 => assert_eq!(back, Ok(raw), "{row:?}"),
            (_, "!") => assert_eq!(back, Err(Status::SCALEFAIL), "{row:?}"),
            (_, expected) => assert_eq!(back, Ok(parse(expected)), "{row:?}"),
        }
    }
}

/// A number that was set is read again, except for the part that one raw step cuts off, or it is
/// refused.
#[test]
fn no_primary_transform_sets_another_number() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let special = [0.0, 1.0, 127.0, 128.0, 255.0, 256.0, 32_767.0, 32_768.0, 65_535.0, 65_536.0, 2_147_483_647.0]
        .into_iter()
        .chain([
            2_147_483_648.0,
            4_294_967_295.0,
            4_294_967_296.0,
            9_999_999.0,
            10_000_000.0,
            3.4e38,
            3.5e38,
            1e39,
            1e300,
        ])
        .flat_map(|number| [number, -number]);
    let mut values: Vec<f64> = special.collect();
    values.extend((0..4000).map(|number| next() * 10f64.powi(number % 50 - 10)));
    let mut taken = BTreeSet::new();
    for index in (0..=84).step_by(2).filter(|index| *index != primary::STRING) {
        for input in [1, 2, 4] {
            let scaling = Scaling { primary: index, input, common: CommonTransform::default() };
            for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert_eq!(scaling.from_primary(number), Err(Status::SCALEFAIL), "{index}, {input} bytes: {number}");
            }
            for number in &values {
                let Ok(raw) = scaling.from_primary(*number) else { continue };
                let back = scaling.bytes(raw).and_then(|bytes| scaling.to_primary(&bytes)).expect("it scales");
                // The coarsest steps: whole numbers, and ten bits with an exponent.
                let (error, coarsest) =
                    ((back - number).abs(), if index == 14 { number.abs() / 512.0 } else { number.abs() * 1e-4 });
                assert!(error <= 1.0 + coarsest, "{index}, {input} bytes: {number} is read as {back}");
                taken.insert(index);
            }
        }
    }
    assert_eq!(taken.len(), 42, "every transform sets something: {taken:?}");
}

#[test]
fn floats_that_would_be_infinite_are_refused() {
    for index in [16, 22, 24, 48, 50, 60, 78, 80, 84] {
        let scaling = Scaling { primary: index, input: 4, common: CommonTransform::default() };
        // These two divide before they make a float.
        let largest = if matches!(index, 48 | 60) { 1e42 } else { 1e39 };
        for number in [largest, -largest, 1e300, f64::MAX] {
            assert_eq!(scaling.from_primary(number), Err(Status::SCALEFAIL), "{index}: {number}");
            assert_eq!(scaling.from_common(number), Err(Status::SCALEFAIL), "{index}: {number}");
        }
    }
}

#[test]
fn common_transforms_scale() {
    for row in rows(include_str!("scaling-common.tsv")) {
        let scaled = common(&row).scale(parse(row[2])).unwrap_or_else(|_| panic!("{row:?} is refused"));
        assert!(same(scaled, parse(row[3]), 1e-12), "{row:?}: {scaled}");
    }
}

/// A transform may reach a value at several places, of which Java and our code choose different
/// ones. It is enough that the result scales to the value.
#[test]
fn common_transforms_unscale() {
    for row in rows(include_str!("scaling-common.tsv")) {
        let (common, y) = (common(&row), parse::<f64>(row[3]));
        let java = parse::<f64>(row[4].replace('!', "NaN").as_str());
        if !y.is_finite() || !java.is_finite() {
            continue;
        }
        let limits = primary::limits(0, 2);
        let Ok(back) = common.unscale(y, limits) else {
            // Java also found none within these limits, or one that does not scale to the value.
            let javas = common.scale(java).unwrap_or(f64::NAN);
            assert!(!limits_hold(limits, java) || !same(javas, y, 1e-9), "{row:?}: no inverse");
            continue;
        };
        let again = common.scale(back).expect("it scaled before");
        assert!(same(again, y, 1e-5), "{row:?}: {back} scales to {again}");
    }
}

#[test]
fn every_documented_transform_is_tried() {
    let tried = |table| rows(table).map(|row| parse(row[0])).collect::<BTreeSet<u16>>();
    let primary: BTreeSet<u16> = (0..=84).step_by(2).collect();
    assert_eq!(tried(include_str!("scaling-primary.tsv")), primary);
    // Transforms with a table are tested below, those that make texts in tests/show.rs.
    let (tables, texts) = ([56, 58, 90], [60, 84]);
    let numbers = (0..=90).step_by(2).filter(|index| !tables.contains(index) && !texts.contains(index));
    let common: BTreeSet<u16> = numbers.chain([201]).collect();
    assert_eq!(tried(include_str!("scaling-common.tsv")), common);
    // Each of them has an inverse that was tested, too.
    let mut inverted = BTreeSet::new();
    for row in rows(include_str!("scaling-common.tsv")) {
        let (common, y) = (self::common(&row), parse::<f64>(row[3]));
        let back = common.unscale(y, primary::limits(0, 2)).and_then(|back| common.scale(back));
        if y.is_finite() && back.is_ok_and(|again| same(again, y, 1e-5)) {
            inverted.insert(common.index);
        }
    }
    assert_eq!(inverted, common);
}

#[test]
fn linear_transforms_unscale_to_the_same_place() {
    let linear = CommonTransform { index: 2, constants: vec![2.0, 4.0, 1.0], ..CommonTransform::default() };
    assert_eq!(linear.unscale(3.5, (-10.24, 10.24)), Ok(5.0));
    let scaling = Scaling { primary: 0, input: 2, common: linear };
    assert_eq!(scaling.to_common(&16_000i16.to_le_bytes()), Ok(3.5));
    assert_eq!(scaling.from_common(3.5), Ok(16_000));
    assert_eq!(scaling.from_common(f64::NAN), Err(Status::SCALEFAIL));
    assert_eq!(scaling.bytes(-2), Ok(vec![0xfe, 0xff]));
    assert_eq!(scaling.bytes(0x1_0000), Err(Status::SCALEFAIL));
}

#[test]
fn tables_are_interpolated_and_pieces_chosen() {
    let table = vec![(0.0, 1.0), (1.0, 10.0), (2.0, 100.0)];
    let linear = CommonTransform { index: 56, table: table.clone(), ..CommonTransform::default() };
    let exponential = CommonTransform { index: 58, table, ..CommonTransform::default() };
    assert_eq!(linear.scale(0.5), Ok(5.5));
    assert_eq!(linear.scale(3.0), Ok(190.0));
    assert!(same(exponential.scale(1.5).expect("a value"), 1000f64.sqrt(), 1e-12));
    assert!(same(exponential.unscale(1000f64.sqrt(), (0.0, 5.0)).expect("a value"), 1.5, 1e-6));
    assert!(same(linear.unscale(55.0, (0.0, 5.0)).expect("a value"), 1.5, 1e-6));
    let below = Piece { below: 1.0, common: linear };
    let above = Piece { below: 9.0, common: CommonTransform::default() };
    let pieces = CommonTransform { index: 90, pieces: vec![below, above], ..CommonTransform::default() };
    assert_eq!((pieces.scale(0.0), pieces.scale(1.0), pieces.scale(20.0)), (Ok(1.0), Ok(1.0), Ok(20.0)));
    let back = pieces.unscale(5.5, (0.0, 0.9)).expect("a value");
    assert!(same(back, 0.5, 1e-4), "{back}");
}

#[test]
fn transforms_that_cannot_work_are_refused() {
    let with = |index, constants: &[f64]| CommonTransform {
        index,
        constants: constants.to_vec(),
        ..CommonTransform::default()
    };
    assert_eq!(with(2, &[1.0]).scale(1.0), Err(Status::SCALEFAIL));
    assert_eq!(with(2, &[1.0, 0.0, 1.0]).scale(1.0), Err(Status::SCALEFAIL));
    assert_eq!(with(3, &[]).scale(1.0), Err(Status::SCALEFAIL));
    assert_eq!(with(90, &[]).scale(1.0), Err(Status::SCALEFAIL));
    assert_eq!(primary::scale(1, 2, 5), Err(Status::SCALEFAIL));
    assert!(
        with(2, &[1.0]).check().is_err() && with(2, &[1.0, 0.0, 1.0]).check().is_err() && with(3, &[]).check().is_err()
    );
    assert!(with(2, &[1.0, 2.0, 1.0]).check().is_ok());
}

fn common(row: &[&str]) -> CommonTransform {
    let constants = row[1].split_ascii_whitespace().map(parse).collect();
    CommonTransform { index: parse(row[0]), constants, ..CommonTransform::default() }
}

fn parse<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn same(one: f64, other: f64, within: f64) -> bool {
    one == other || one.is_nan() && other.is_nan() || (one - other).abs() <= within * other.abs().max(f64::MIN_POSITIVE)
}

fn limits_hold(limits: (f64, f64), x: f64) -> bool {
    (limits.0..=limits.1).contains(&x)
}
