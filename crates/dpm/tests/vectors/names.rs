//! Names and status values.

use rookery_dpm::rad50::Rad50;
use rookery_dpm::status::Status;

use crate::rows;

#[test]
fn names_pack_as_acnet_packs_them() {
    for row in rows(include_str!("rad50.tsv")) {
        let packed = Rad50(u32::from_str_radix(row[1], 16).expect("a number"));
        assert_eq!(Rad50::parse(row[0]), Ok(packed), "{}", row[0]);
        assert_eq!(packed.to_string(), row[0]);
    }
}

#[test]
fn names_that_do_not_fit_are_refused() {
    for name in ["SEVENCH", "a b c d", "A-B", "Ä", "A_B"] {
        assert!(Rad50::parse(name).is_err(), "{name}");
    }
    assert_eq!(Rad50::parse("dpmd"), Rad50::parse("DPMD"));
}

#[test]
fn statuses_are_numbered_as_in_the_control_system() {
    let mut seen = 0;
    for row in rows(include_str!("status.tsv")) {
        let (facility, error) = (row[1].parse().expect("a number"), row[2].parse().expect("a number"));
        let status = Status::new(facility, error);
        assert_eq!((status.0.to_string().as_str(), status.name()), (row[3], Some(row[0])));
        assert_eq!(Status::from_name(row[0]), Some(status));
        seen += 1;
    }
    assert!(seen > 300, "{seen}");
}

#[test]
fn statuses_have_facility_error_and_name() {
    let unknown_device = Status::from_name("DPM_NO_SUCH_DEVICE").expect("a name of the table");
    assert_eq!(unknown_device.0, -6639);
    assert_eq!(unknown_device.to_string(), "[17 -26] DPM_NO_SUCH_DEVICE");
    assert_eq!((Status::PEND.0, Status::ENDMULT.0, Status::NO_TASK.0), (0x0101, 0x0201, -8447));
    assert!(unknown_device.is_fatal() && !Status::PEND.is_fatal() && !Status::SUCCESS.is_fatal());
    assert_eq!(Status::new(200, 3).to_string(), "[200 3]");
}
