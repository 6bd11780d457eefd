//! Requests and their canonical forms.

use proptest::prelude::*;
use rookery_dpm::drf::{Error, Request};

use crate::rows;

#[test]
fn requests_print_as_the_java_dpm_prints_them() {
    for row in rows(include_str!("drf.tsv")) {
        let (typed, java, pacsys) = (row[0], row[1], row[2]);
        // Forms that only pacsys accepts (three qualifiers, the property BIT_STATUS) have a
        // canonical form, too.
        let newer =
            ["^", "#", "!"].iter().any(|qualifier| typed[1..].starts_with(qualifier)) || typed.contains("BIT_STATUS");
        let expected = if newer { pacsys } else { java };
        match Request::parse(typed) {
            Err(_) => assert!(expected.starts_with('!'), "{typed} was refused"),
            Ok(request) => {
                // Java leaves the model out, and prints the default event if it was typed.
                let printed = request.to_string();
                let printed = printed.split("<-").next().unwrap_or_default();
                assert_eq!(printed, expected.trim_end_matches("@U"), "{typed}");
            }
        }
    }
}

#[test]
fn errors_say_which_part_is_wrong() {
    for (typed, error) in [
        ("", Error::Device),
        ("M", Error::Device),
        ("M:", Error::Device),
        ("Ä:OUTTMP", Error::Device),
        ("M:OUTTMP.", Error::Field),
        ("M:OUTTMP.FOO", Error::Field),
        ("M:OUTTMP.READING.RAW.RAW", Error::Field),
        ("M:OUTTMP[5:2]", Error::Range),
        ("M:OUTTMP[0:3", Error::Range),
        ("M:OUTTMP{0:3]", Error::Range),
        ("M:OUTTMP@P,5000000000", Error::Event),
        ("M:OUTTMP@P,+5", Error::Event),
        ("M:OUTTMP@E,12345", Error::Event),
        ("M:OUTTMP@", Error::Event),
    ] {
        assert_eq!(Request::parse(typed), Err(error), "{typed}");
    }
    assert_eq!(Request::parse(&format!("M:{}", "A".repeat(2000))), Err(Error::Device));
}

#[test]
fn the_canonical_form_keeps_the_data_model() {
    let request = Request::parse("m:outtmp<-LOGGER:1:2").expect("a request");
    assert_eq!(request.to_string(), "M:OUTTMP.READING<-LOGGER:1:2");
    assert_eq!(Request::parse("M:OUTTMP<-livedata").expect("a request").model, None);
    // The canonical form of a valid request can always be read again, however long it is.
    let longest = format!("Z_A.VOLTS<-{}", "x".repeat(512));
    let request = Request::parse(&longest).expect("a request");
    assert_eq!(Request::parse(&request.to_string()), Ok(request));
    assert_eq!(Request::parse(&format!("{longest}x")), Err(Error::Device));
}

proptest! {
    #[test]
    fn nothing_panics_and_the_canonical_form_is_stable(text in "([MZ0#][:_|&@$~^#!?][A-Z0-9]{0,4}(\\.[A-Z_]{0,8}){0,2}([\\[{][0-9:]{0,6}[\\]}])?(\\.RAW)?(@[PQESUIN](,[0-9A-F]{0,6}[SMUHK]?){0,3})?(<-[A-Z:0-9]{0,9})?)|.{0,40}") {
        if let Ok(request) = Request::parse(&text) {
            let printed = request.to_string();
            prop_assert_eq!(Request::parse(&printed), Ok(request), "{}", printed);
        }
    }
}
