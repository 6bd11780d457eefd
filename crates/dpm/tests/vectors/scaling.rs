//! Scaling, compared with what the Java DPM computes.

use std::collections::BTreeSet;
use std::str::FromStr;

use rookery_dpm::scaling::{Common, Piece, Scaling, primary};
use rookery_dpm::status::Status;

use crate::rows;

#[test]
fn primary_transforms_scale_and_unscale() {
    for row in rows(include_str!("scaling-primary.tsv")) {
        let (index, length, raw) = (parsed(row[0]), parsed::<usize>(row[1]), parsed::<u32>(row[2]));
        let raw = Scaling::raw(&raw.to_le_bytes()[..length]).expect("1, 2 or 4 bytes");
        let scaled = primary::scale(index, length, raw);
        if row[3] == "!" {
            assert_eq!(scaled, Err(Status::SCALEFAIL), "{row:?}");
            continue;
        }
        // What the table of transforms calls unsigned is unsigned here; Java takes the sign along.
        let is_unsigned = index == 58 && length == 4 && raw < 0;
        let (scaled, expected) = (scaled.unwrap_or_else(|_| panic!("{row:?} is refused")), parsed::<f64>(row[3]));
        assert!(is_unsigned || same(scaled, expected, 1e-12), "{row:?}: {scaled}");
        let back = primary::unscale(index, length, scaled);
        match (index, row[4]) {
            // There are many values that are no number.
            _ if scaled.is_nan() => {
                assert!(back.and_then(|raw| primary::scale(index, length, raw)).is_ok_and(f64::is_nan))
            }
            (46 | 58, _) if raw < 0 && length == 4 => assert_eq!(back, Ok(raw), "{row:?}"),
            (46, _) if raw < 0 => assert_eq!(back, Ok(raw), "{row:?}"),
            (_, "!") => assert_eq!(back, Err(Status::SCALEFAIL), "{row:?}"),
            (_, expected) => assert_eq!(back, Ok(parsed(expected)), "{row:?}"),
        }
    }
}

#[test]
fn common_transforms_scale() {
    for row in rows(include_str!("scaling-common.tsv")) {
        let scaled = common(&row).scale(parsed(row[2])).unwrap_or_else(|_| panic!("{row:?} is refused"));
        assert!(same(scaled, parsed(row[3]), 1e-12), "{row:?}: {scaled}");
    }
}

/// A transform may take a value at several places, of which Java and we choose different ones. What counts is that it scales to the value.
#[test]
fn common_transforms_unscale() {
    for row in rows(include_str!("scaling-common.tsv")) {
        let (common, y) = (common(&row), parsed::<f64>(row[3]));
        let java = parsed::<f64>(row[4].replace('!', "NaN").as_str());
        if !y.is_finite() || !java.is_finite() {
            continue;
        }
        let limits = primary::limits(0, 2);
        let Ok(back) = common.unscale(y, limits) else {
            // Java found none within these limits either, or one that does not scale to the value.
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
    let tried = |table| rows(table).map(|row| parsed(row[0])).collect::<BTreeSet<u16>>();
    let primary: BTreeSet<u16> = (0..=84).step_by(2).collect();
    assert_eq!(tried(include_str!("scaling-primary.tsv")), primary);
    // Those that need a table are tried below, those that make texts in tests/show.rs.
    let (tables, texts) = ([56, 58, 90], [60, 84]);
    let numbers = (0..=90).step_by(2).filter(|index| !tables.contains(index) && !texts.contains(index));
    let common: BTreeSet<u16> = numbers.chain([201]).collect();
    assert_eq!(tried(include_str!("scaling-common.tsv")), common);
    // Each of them has an inverse that was tried, too.
    let mut inverted = BTreeSet::new();
    for row in rows(include_str!("scaling-common.tsv")) {
        let (common, y) = (self::common(&row), parsed::<f64>(row[3]));
        let back = common.unscale(y, primary::limits(0, 2)).and_then(|back| common.scale(back));
        if y.is_finite() && back.is_ok_and(|again| same(again, y, 1e-5)) {
            inverted.insert(common.index);
        }
    }
    assert_eq!(inverted, common);
}

#[test]
fn linear_transforms_unscale_to_the_same_place() {
    let linear = Common { index: 2, constants: vec![2.0, 4.0, 1.0], ..Common::default() };
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
    let linear = Common { index: 56, table: table.clone(), ..Common::default() };
    let exponential = Common { index: 58, table, ..Common::default() };
    assert_eq!(linear.scale(0.5), Ok(5.5));
    assert_eq!(linear.scale(3.0), Ok(190.0));
    assert!(same(exponential.scale(1.5).expect("a value"), 1000f64.sqrt(), 1e-12));
    assert!(same(exponential.unscale(1000f64.sqrt(), (0.0, 5.0)).expect("a value"), 1.5, 1e-6));
    assert!(same(linear.unscale(55.0, (0.0, 5.0)).expect("a value"), 1.5, 1e-6));
    let below = Piece { below: 1.0, common: linear };
    let above = Piece { below: 9.0, common: Common::default() };
    let pieces = Common { index: 90, pieces: vec![below, above], ..Common::default() };
    assert_eq!((pieces.scale(0.0), pieces.scale(1.0), pieces.scale(20.0)), (Ok(1.0), Ok(1.0), Ok(20.0)));
    let back = pieces.unscale(5.5, (0.0, 0.9)).expect("a value");
    assert!(same(back, 0.5, 1e-4), "{back}");
}

#[test]
fn transforms_that_cannot_work_are_refused() {
    let with = |index, constants: &[f64]| Common { index, constants: constants.to_vec(), ..Common::default() };
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

fn common(row: &[&str]) -> Common {
    let constants = row[1].split_ascii_whitespace().map(parsed).collect();
    Common { index: parsed(row[0]), constants, ..Common::default() }
}

fn parsed<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

fn same(one: f64, other: f64, within: f64) -> bool {
    one == other || one.is_nan() && other.is_nan() || (one - other).abs() <= within * other.abs().max(f64::MIN_POSITIVE)
}

fn limits_hold(limits: (f64, f64), x: f64) -> bool {
    (limits.0..=limits.1).contains(&x)
}
