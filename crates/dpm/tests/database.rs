//! The device database: valid files, mistakes in files, and the targets that requests find.

use rookery_dpm::blocks::{AlarmBlock, Bit, ControlCommand};
use rookery_dpm::database::{self, Database, Stored, import};
use rookery_dpm::drf::{DrfEvent, Request};
use rookery_dpm::status::Status;

const DEMO: &str = include_str!("../src/database/demo.toml");

#[test]
fn the_demonstration_database_is_read() {
    let database = Database::read(DEMO).expect("a good file");
    let device = database.by_name("M:OUTTMP").expect("a device");
    assert_eq!((device.index, device.description.as_str()), (27235, "Outdoor temperature"));
    assert_eq!(database.by_number(27235), Some(device));
    assert_eq!(database.nodes().len(), 2);
    assert!(database.by_name("M:NOSUCH").is_none());
}

#[test]
fn mistakes_name_line_and_field() {
    let place = "node = 'FE'\nssdn = '0000000000000001'\n";
    let file = |rest: &str| {
        format!("[[node]]\nname = 'FE'\naddress = '0c23'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n\n{rest}")
    };
    let device = |rest: &str| file(&format!("[[device]]\nindex = 1\nname = 'M:A'\n[device.reading]\n{rest}"));
    let control = |commands: &str| {
        file(&format!("[[device]]\nindex = 1\nname = 'M:A'\n[device.control]\n{place}commands = [{commands}]\n"))
    };
    let status = format!("[[device]]\nindex = 1\nname = 'M:A'\n[device.status]\n{place}");
    for (text, line, field) in [
        ("[[node]\n".to_owned(), 1, ""),
        (file("[[device]]\nindex = 1\nname = 'm:a'\n"), 9, "device.name"),
        (file("[[device]]\nindex = 99999999\nname = 'M:A'\n"), 8, "device.index"),
        (file("[[device]]\nindex = 1\nname = 'M:A'\ncolour = 'red'\n"), 10, "device.colour"),
        (device("node = 'FX'\nssdn = '0000000000000001'\nprimary = 0\n"), 11, "device.reading.node"),
        (device("node = 'FE'\nssdn = '00'\nprimary = 0\n"), 12, "device.reading.ssdn"),
        (device(&format!("{place}primary = 1\n")), 13, "device.reading.primary"),
        (device(&format!("{place}primary = 0\ncommon = 3\n")), 14, "device.reading.common"),
        (device(&format!("{place}primary = 0\ncommon = 2\nconstants = [1.0]\n")), 14, "device.reading.common"),
        (device(&format!("{place}primary = 0\nsize = 3\n")), 14, "device.reading.size"),
        (device(&format!("{place}primary = 0\nelement = 0\n")), 14, "device.reading.element"),
        (device(&format!("{place}primary = 0\nevent = 'X'\n")), 14, "device.reading.event"),
        (device(&format!("{place}primary = 0\nsiez = 2\n")), 14, "device.reading.siez"),
        (file(&format!("{status}on = {{ mask = 1, match = 1, yes = 'on' }}\n")), 13, "device.status.on.yes"),
        (device("node = 'FE'\nprimary = 0\n"), 10, "device.reading.ssdn"),
        (device(&format!("{place}primary = 0\nelement = 4\ninput_length = 3\n")), 15, "device.reading.input_length"),
        (device(&format!("{place}primary = 0\nelement = 2\ninput_length = 4\n")), 15, "device.reading.input_length"),
        (device(&format!("{place}primary = 0\nelement = 6\n")), 10, "device.reading.input_length"),
        (device(&format!("{place}primary = 0\nprimary_units = 5\n")), 14, "device.reading.primary_units"),
        (device(&format!("{place}primary = 0\ntable = [[1.0, 2.0],\n[3.0]]\n")), 15, "device.reading.table"),
        (control("{ name = 'STEP', value = 1 }"), 13, "device.control.commands.name"),
        (control("{ name = 'STEP', order = 300, value = 1 }"), 13, "device.control.commands.order"),
        (control("{ name = 'ON', value = 1 }, { name = 'STEP', order = 1, value = 1 }"), 13, "device.control.commands"),
        (control("{ name = 'ON', value = 1 }, { name = 'On', order = 11, value = 1 }"), 13, "device.control.commands"),
        (file("[names]\naliases = ['DPM01', 'much too long']\n"), 8, "names.aliases"),
        (file("[names]\nloggers = ['A:B']\n"), 8, "names.loggers"),
        (
            file("[[node]]\nname = 'FE'\naddress = '0c24'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n"),
            7,
            "node.name",
        ),
        (
            file("[[node]]\nname = 'FF'\naddress = '0c23'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n"),
            7,
            "node.address",
        ),
        (file("[[nodes]]\nname = 'FE'\n"), 7, "nodes"),
        (file("device = 7\n"), 7, "node.device"),
        (file("[[script]]\ndevice = 'M:A'\nshape = 'ramp'\n"), 7, "script.device"),
    ] {
        let mistake = Database::read(&text).expect_err(&text);
        assert_eq!((mistake.line, mistake.field.as_str()), (line, field), "{mistake}\n{text}");
    }
    let twice = device(&format!("{place}primary = 0\n[[device]]\nindex = 2\nname = 'M:A'\n"));
    assert_eq!(Database::read(&twice).expect_err("a name twice").field, "device.name");
}

#[test]
fn the_example_is_valid_and_has_every_property() {
    let text = database::example();
    let database = Database::read(&text).unwrap_or_else(|mistake| panic!("{mistake}\n{text}"));
    let device = database.by_name("M:OUTTMP").expect("a device");
    assert!(device.reading.is_some() && device.setting.is_some() && device.status.is_some());
    assert!(device.control.is_some() && device.analog.is_some() && device.digital.is_some());
    assert_eq!((database.records().len(), database.scripts().len(), database.faults().len()), (1, 1, 1));
    assert_eq!(database.names_of_this().loggers, ["BACKUP", "ARKIVB"]);
    assert_eq!(database.nodes()[0].aliases.len(), 1);
}

#[test]
fn the_reference_is_up_to_date() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../doc/device-file.md");
    let text = database::reference();
    if std::env::var_os("UPDATE_DOC").is_some() {
        std::fs::write(file, &text).expect("the page is written");
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(found, text, "run UPDATE_DOC=1 cargo test --workspace up_to_date");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = "[[node]]\nname = 'FE'\naddress = 'here'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n\n\
                [[device]]\nindex = 1\nname = 'm:a'\n\n[[device]]\nindex = -1\nname = 'M:B'\n";
    let lines =
        |text: &str| Database::check(text).expect_err(text).iter().map(|mistake| mistake.line).collect::<Vec<_>>();
    assert_eq!(lines(text), [3, 9, 12]);
    assert_eq!(lines(&text.replace("-1", "2")), [3, 9]);
    let node = "[[node]]\nname = 'FE'\naddress = '0c23'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n";
    let keys = "[[device]]\nindx = 1\ncolour = 2\n[device.reading]\nnod = 'FE'\nprimary = 'x'\n";
    assert_eq!(lines(&format!("{keys}{node}")), [1, 1, 2, 3, 4, 5, 6], "unknown, wrong and missing keys of one row");
    let place = "node = 'FE'\nssdn = '00'\n";
    let properties =
        format!("[[device]]\nindex = 1\nname = 'm:a'\n[device.reading]\n{place}primary = 0\n[device.analog]\n{place}");
    assert_eq!(lines(&format!("{node}{properties}")), [8, 11, 15], "each property of a device");
}

#[test]
fn a_row_with_a_mistake_causes_no_others() {
    let device =
        "[[device]]\nindex = 1\nname = 'M:A'\n[device.reading]\nnode = 'FE'\nssdn = '0000000000000001'\nprimary = 0\n";
    let rest = format!("{device}[[script]]\ndevice = 'M:A'\nshape = 'sine'\n[[record]]\nrequest = 'M:A@P,1000'\n");
    let node = "[[node]]\nname = 'FE'\naddress = '0c23'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n";
    assert_eq!(Database::check(&format!("{node}{rest}")).map(|database| database.devices().len()), Ok(1));
    for wrong in [node.replace("0c23", "0c2"), node.replace("name = 'FE'", "nam = 'FE'")] {
        let mistakes = Database::check(&format!("{wrong}{rest}")).expect_err("a wrong node");
        assert!(mistakes.iter().all(|mistake| mistake.field.starts_with("node.")), "{mistakes:?}");
    }
}

#[test]
fn a_file_without_devices_says_how_one_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("devices.toml");
    for text in [
        "",
        "# nothing yet\n",
        "[[node]]\nname = 'FE'\naddress = '0c23'\nsocket = '127.0.0.1:1'\nprotocol = 'RETDAT'\n",
    ] {
        std::fs::write(&file, text).expect("it is written");
        let words = Database::load(Some(&file)).expect_err(text).to_string();
        assert!(words.contains("devices.toml: there are no devices"), "{words}");
        assert!(words.contains("rookery dpm database example"), "{words}");
    }
}

#[test]
fn numbers_are_at_the_beginning_of_longer_elements() {
    let database = Database::read(RAMP).expect("a good file");
    let ramp = database.by_name("B:RAMP").and_then(|device| device.setting.as_ref()).expect("a setting");
    assert_eq!((ramp.place.element, ramp.scaling.input), (4, 2));
    // 1.2 at 881 hundredths of a second: the bytes after the number are no part of it.
    assert_eq!(ramp.scaling.to_common(&[0xb0, 0x04, 0x71, 0x03]), Ok(1.2));
    let commands = &database.by_name("B:RAMP").and_then(|device| device.control.as_ref()).expect("commands").commands;
    assert_eq!(ControlCommand::by_number(commands, 10.0).map(|command| command.value), Ok(8));
    assert_eq!(ControlCommand::by_text(commands, "one step back").map(|command| command.value), Ok(16));
    assert_eq!(ControlCommand::by_text(commands, "On").map(|command| command.order), Ok(1));
    // A custom name in the place of a usual one.
    assert_eq!(ControlCommand::by_text(commands, "STANDBY").map(|command| command.order), Ok(2));
}

const RAMP: &str = "
[[node]]
name = 'FE'
address = '0c23'
socket = '127.0.0.1:6801'
protocol = 'RETDAT'

[[device]]
index = 1
name = 'B:RAMP'

[device.setting]
node = 'FE'
ssdn = '0000000000000001'
primary = 10
common = 6
constants = [1.0, 1000.0]
element = 4
input_length = 2
size = 256

[device.control]
node = 'FE'
ssdn = '0000000000000002'
commands = [
    { name = 'ON', value = 2 },
    { name = 'STANDBY', order = 2, value = 1 },
    { name = 'STEP', order = 10, value = 8 },
    { name = 'BACK', order = 11, value = 16, long = 'one step back' },
]
";

#[test]
fn requests_find_bytes_or_a_status() {
    let database = Database::read(DEMO).expect("a good file");
    let find = |text: &str| database.find(&Request::parse(text).expect("a request"));
    let extent = |text: &str| match find(text).expect("a target").stored {
        Stored::FrontEnd(wanted) => (wanted.property, wanted.offset, wanted.length),
        stored => panic!("{stored:?}"),
    };
    assert_eq!(extent("M:OUTTMP"), (12, 0, 2));
    assert_eq!(extent("B:ARRAY"), (12, 0, 2));
    assert_eq!(extent("B:ARRAY[]"), (12, 0, 32));
    assert_eq!(extent("B:ARRAY[2:5]"), (12, 4, 8));
    assert_eq!(extent("B:ARRAY[15:]"), (12, 30, 2));
    assert_eq!(extent("B:ARRAY{4:8}.RAW"), (12, 4, 8));
    assert_eq!(extent("M@OUTTMP"), (1, 0, 20));
    assert_eq!(extent("0:27235"), (12, 0, 2));
    for (text, status) in [
        ("M:NOSUCH", Status::NOPROP),
        ("0:1", Status::NOPROP),
        ("M_OUTTMP", Status::NOPROP),
        ("G:TEXT.LONG_NAME", Status::NOPROP),
        ("B:ARRAY{1:2}", Status::BAD_FRAMING),
        ("B:ARRAY[16]", Status::OUT_OF_BOUNDS),
        ("B:ARRAY[0:16]", Status::OUT_OF_BOUNDS),
        ("B:ARRAY{32:}", Status::OUT_OF_BOUNDS),
        ("B:ARRAY{0:0}", Status::OUT_OF_BOUNDS),
        ("M:OUTTMP{4294967294:4}.RAW", Status::OUT_OF_BOUNDS),
        ("Z|CUBE_X.TEXT", Status::NOPROP),
    ] {
        assert_eq!(find(text).map(|target| target.stored), Err(status), "{text}");
    }
    assert_eq!(find("M:OUTTMP.DESC").expect("a target").stored, Stored::Text("Outdoor temperature".into()));
    assert_eq!(find("M:OUTTMP.INDEX").expect("a target").stored, Stored::Number(27235.0));
    assert_eq!(find("M&OUTTMP@N").expect("a target").stored, Stored::Nothing);
    assert!(matches!(find("M:OUTTMP").expect("a target").event, DrfEvent::Periodic { at_once: true, .. }));
}

#[test]
fn units_follow_the_field() {
    let database = Database::read(DEMO).expect("a good file");
    let info = |text: &str| {
        let target = database.find(&Request::parse(text).expect("a request")).expect("a target");
        target.device.info(target.form).units
    };
    assert_eq!(info("M:OUTTMP").as_deref(), Some("DegF"));
    assert_eq!(info("M:OUTTMP.PRIMARY").as_deref(), Some("V"));
    assert_eq!(info("M|OUTTMP"), None);
}

#[test]
fn status_bits_and_commands_are_told_apart() {
    let database = Database::read(DEMO).expect("a good file");
    let device = database.by_name("M:OUTTMP").expect("a device");
    let status = device.status.as_ref().expect("a status");
    let of =
        |word| [status.bits.on, status.bits.ready, status.bits.remote].map(|bits| bits.expect("it has that").of(word));
    assert_eq!(of(0b101), [true, false, true]);
    assert_eq!(Bit::texts(&status.names, |bit| &bit.name), ["On", "Ready", "Remote"]);
    assert_eq!(Bit::texts(&status.names, |bit| bit.value(0b101)), ["Yes", "No", "Remote"]);
    let commands = &device.control.as_ref().expect("commands").commands;
    assert_eq!(ControlCommand::by_text(commands, "on").map(|command| command.value), Ok(2));
    assert_eq!(ControlCommand::by_text(commands, "Turn Off").map(|command| command.value), Ok(1));
    assert_eq!(ControlCommand::by_number(commands, 0.0).map(|command| command.value), Ok(4));
    assert_eq!(ControlCommand::by_text(commands, "TRIP"), Err(Status::SCALEFAIL));
    assert_eq!(ControlCommand::by_number(commands, 3.0), Err(Status::SCALEFAIL));
}

#[test]
fn alarm_blocks_hold_limits_in_three_ways() {
    let block = |kind: u16, first: i16, second: i16| {
        // Enabled, bad, two bytes.
        let flags = 0b11 | 1 << 5 | kind << 8;
        let mut bytes = flags.to_le_bytes().to_vec();
        bytes.extend(first.to_le_bytes());
        bytes.extend([0xff, 0xff]);
        bytes.extend(second.to_le_bytes());
        bytes.extend([0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
        AlarmBlock::read(&bytes).expect("20 bytes")
    };
    let (nominal, percent, limits) = (block(0, -100, 20), block(1, 200, 10), block(2, -10, 30));
    assert_eq!((nominal.limits().minimum, nominal.limits().maximum), (-120.0, -80.0));
    assert_eq!((percent.limits().minimum, percent.limits().maximum), (180.0, 220.0));
    assert_eq!((limits.limits().nominal, limits.limits().tolerance), (10.0, 20.0));
    assert!(nominal.is_enabled() && nominal.is_bad() && !nominal.aborts() && !nominal.is_abort_inhibited());
    assert_eq!((nominal.tries_now, nominal.tries_needed), (1, 3));
    assert_eq!(block(2, -1, 3).bits(), (0xffff, 3));
    assert_eq!(AlarmBlock::read(&[0; 19]), None);
}

#[test]
fn tables_of_a_spreadsheet_make_the_same_database() {
    let nodes = "name,address,socket,protocol,aliases\nDEMOFE,0c24,127.0.0.1:6801,GETS32,DEMO;DEMO1\n";
    let devices = "\
index,name,reading.node,reading.ssdn,description,reading.primary,reading.common,reading.constants,reading.unframed,setting.node,setting.ssdn,setting.primary
118001,Z:CUBE_X,DEMOFE,0000000000000010,\"Test, \"\"quoted\"\"\",10,2,1.0;100.0;0.0,f,,,
118002,Z:CUBE_Y,DEMOFE,0000000000000012,,10,,,,DEMOFE,0000000000000013,10
";
    let import = |kind, table| import(kind, table).expect("a good table");
    let (nodes, devices) = (import("node", nodes), import("device", devices));
    let made = Database::read(&format!("{}{}", nodes.text, devices.text)).expect("a good file");
    let written = r#"
        [[node]]
        name = "DEMOFE"
        address = "0c24"
        socket = "127.0.0.1:6801"
        protocol = "GETS32"
        aliases = ["DEMO", "DEMO1"]

        [[device]]
        index = 118001
        name = "Z:CUBE_X"
        description = 'Test, "quoted"'
        [device.reading]
        node = "DEMOFE"
        ssdn = "0000000000000010"
        primary = 10
        common = 2
        constants = [1.0, 100.0, 0.0]
        unframed = false

        [[device]]
        index = 118002
        name = "Z:CUBE_Y"
        [device.reading]
        node = "DEMOFE"
        ssdn = "0000000000000012"
        primary = 10
        [device.setting]
        node = "DEMOFE"
        ssdn = "0000000000000013"
        primary = 10
    "#;
    let written = Database::read(written).expect("a good file");
    assert_eq!((made.nodes(), made.devices()), (written.nodes(), written.devices()));
    // A search for the text of a mistake finds the row that it comes from.
    assert_eq!((devices.lines.first(), devices.lines.last()), (Some(&2), Some(&3)));
}

#[test]
fn process_variables_are_read_from_a_file() {
    let database = Database::read(&variable("pv = 'SR:DCCT'", "")).expect("a good file");
    let device = database.by_name("E:BEAM").expect("a device");
    let reading = device.reading.as_ref().expect("a reading");
    assert_eq!(reading.place.variable.as_deref(), Some("SR:DCCT"));
    assert_eq!((reading.place.element, reading.place.size), (8, 8));
    assert_eq!(reading.scaling.to_common(&2.5f64.to_le_bytes()), Ok(2.5));
    assert_eq!(reading.scaling.common_bytes(2.5), Ok(2.5f64.to_le_bytes().to_vec()));
    let other = Database::read(&variable("pv = 'SR:OTHER'", "")).expect("a good file");
    let other = other.by_name("E:BEAM").and_then(|device| device.reading.clone()).expect("a reading");
    assert_ne!(other.place.ssdn, reading.place.ssdn, "another variable is another place");
}

#[test]
fn mistakes_in_process_variables_are_reported_with_their_key() {
    let long = format!("pv = '{}'", "x".repeat(256));
    for (place, node, field) in [
        ("", "", "device.reading.pv"),
        ("pv = ''", "", "device.reading.pv"),
        ("pv = 'two words'", "", "device.reading.pv"),
        (long.as_str(), "", "device.reading.pv"),
        ("pv = 'A'\nssdn = '0000000000000000'", "", "device.reading.ssdn"),
        ("pv = 'A'\nprimary = 0", "", "device.reading.primary"),
        ("pv = 'A'\nelement = 4", "", "device.reading.element"),
        ("pv = 'A'\nprimary = 68\nelement = 39", "", "device.reading.element"),
        ("pv = 'A'\ninput_length = 4", "", "device.reading.input_length"),
        ("pv = 'A'", "address = '0c23'", "node.address"),
        ("pv = 'A'", "name_servers = ['[::1]:5064']", "node.name_servers"),
        ("pv = 'A'", "name_servers = ['localhost']", "node.name_servers"),
    ] {
        let mistake = Database::read(&variable(place, node)).expect_err(place);
        assert_eq!(mistake.field, field, "{place}: {mistake}");
    }
    for protocol in ["CA", "PVA"] {
        let nowhere = format!("[[node]]\nname = 'EPICS'\nprotocol = '{protocol}'");
        assert_eq!(Database::read(&nowhere).expect_err("no address").field, "node.search");
        let somewhere = variable("pv = 'A'", "").replace("'CA'", &format!("'{protocol}'"));
        assert!(Database::read(&somewhere).is_ok(), "{protocol}");
    }
    let acnet = "[[node]]\nname = 'FE'\nprotocol = 'RETDAT'\naddress = '0c23'\nsocket = '127.0.0.1:1'\nsearch = ['127.0.0.1:5064']";
    assert_eq!(Database::read(acnet).expect_err("not searched").field, "node.search");
    let status = variable("pv = 'A'", "") + "[device.status]\nnode = 'EPICS'\npv = 'A'\n";
    assert_eq!(Database::read(&status).expect_err("a status").field, "device.status.pv");
}

/// Returns a file with one process variable.
fn variable(place: &str, node: &str) -> String {
    format!(
        "[[node]]\nname = 'EPICS'\nprotocol = 'CA'\nsearch = ['10.0.0.255:5064']\n{node}\n\
         [[device]]\nindex = 1\nname = 'E:BEAM'\n[device.reading]\nnode = 'EPICS'\n{place}\n"
    )
}
