//! The keys of every table, with their meanings; those of properties of devices are in
//! [`properties`](super::properties).

use super::given::Given;
use super::nodes::NodeRow;
use super::properties::{ANALOG, CONTROL, DIGITAL, READING, SETTING, STATUS};
use super::rows::{DatabaseFile, DeviceRow, NamesRow};
use super::script::{NodeFaults, Script, SimulatedEvent};
use super::table::{FileTable, Need, SetKey, TableKey, U16, U32, put, text, value};
use crate::database::record::RecordRow;
use Need::{Shown, Usual};

/// The whole file.
pub(super) const FILE: FileTable<DatabaseFile> = FileTable {
    heading: "",
    about: "A database is a TOML file: lists of tables, in any order, except that a node comes before the devices on it.",
    keys: &[&[
        TableKey {
            inner: Some(&NODE),
            ..list("node", "The front-ends.", |file, given| given.rows(&mut file.node, &NODE))
        },
        TableKey {
            inner: Some(&DEVICE),
            ..list("device", "The devices.", |file, given| given.rows(&mut file.device, &DEVICE))
        },
        TableKey {
            inner: Some(&NAMES),
            ..list("names", "Other names of this DPM.", |file, given| {
                put(&mut file.names, given.table(&NAMES).map(Some))
            })
        },
        TableKey {
            inner: Some(&RECORD),
            ..list("record", "The readings that are recorded.", |file, given| given.rows(&mut file.record, &RECORD))
        },
        TableKey {
            inner: Some(&METRIC),
            ..list("metric", "The readings that `/metrics` shows.", |file, given| given.rows(&mut file.metric, &METRIC))
        },
        TableKey {
            inner: Some(&SCRIPT),
            ..list("script", "The readings that simulated front-ends show.", |file, given| {
                given.rows(&mut file.script, &SCRIPT)
            })
        },
        TableKey {
            inner: Some(&EVENT),
            ..list("event", "Clock events of simulated front-ends.", |file, given| given.rows(&mut file.event, &EVENT))
        },
        TableKey {
            inner: Some(&FAULT),
            ..list("fault", "The faults of simulated front-ends.", |file, given| given.rows(&mut file.fault, &FAULT))
        },
    ]],
};

pub(super) const NODE: FileTable<NodeRow> = FileTable {
    heading: "[[node]]",
    about: "A front-end. Nodes keep their order and their names while a DPM runs; new ones may follow at the end.",
    keys: &[&[
        text("name", "Its name, up to six of A-Z, 0-9, `$`, `.` and `%`.", "\"MUONFE\"", |row: &mut NodeRow, given| {
            put(&mut row.name, given.text())
        }),
        TableKey {
            need: Shown("needed by nodes of ACNET"),
            ..text("address", "Its trunk and node number, four hexadecimal digits.", "\"0c23\"", |row, given| {
                put(&mut row.address, given.text().map(Some))
            })
        },
        TableKey {
            need: Shown("needed by nodes of ACNET"),
            ..text(
                "socket",
                "The address and UDP port to which its datagrams go, and from which they come.",
                "\"127.0.0.1:6801\"",
                |row, given| put(&mut row.socket, given.text().map(Some)),
            )
        },
        text(
            "protocol",
            "The protocol of its devices: over ACNET `RETDAT`, or `GETS32`, which supports delays and states and reports times; \
             `CA` or `PVA`, Channel Access or pvAccess: the node stands for all EPICS servers that are found; or `MQTT`: the node is a broker.",
            "\"RETDAT\"",
            |row, given| put(&mut row.protocol, given.text()),
        ),
        TableKey {
            need: Usual("none; a node with `CA` or `PVA` needs this or `name_servers`"),
            ..text(
                "search",
                "Hosts and networks that are asked for process variables, over UDP.",
                "[\"10.0.0.255:5064\"]",
                |row, given| put(&mut row.search, given.list(|place| place.text()).map(Some)),
            )
        },
        TableKey {
            need: Usual("none"),
            ..text(
                "name_servers",
                "Name servers of EPICS that are asked for process variables, over TCP.",
                "[\"10.0.0.7:5064\"]",
                |row, given| put(&mut row.name_servers, given.list(|place| place.text()).map(Some)),
            )
        },
        TableKey {
            need: Usual("needed by a node with `MQTT`"),
            ..text("broker", "The address of the broker, with its TCP port.", "\"10.0.0.9:1883\"", |row, given| {
                put(&mut row.broker, given.text().map(Some))
            })
        },
        TableKey {
            need: Usual("none"),
            ..text("user", "The name by which the broker knows us.", "\"rookery\"", |row, given| {
                put(&mut row.user, given.text().map(Some))
            })
        },
        TableKey {
            need: Usual("none"),
            ..text(
                "password_file",
                "The file with the password for it; relative to this file's folder.",
                "\"broker.password\"",
                |row, given| put(&mut row.password_file, given.text().map(Some)),
            )
        },
        TableKey {
            need: Usual("none: the broker is reached without TLS"),
            ..text(
                "authority",
                "The file with the authorities of the broker's certificate, PEM: it is reached by TLS.",
                "\"broker-ca.pem\"",
                |row, given| put(&mut row.authority, given.text().map(Some)),
            )
        },
        TableKey {
            need: Usual("needed with `authority`"),
            ..text("host", "The name in the broker's certificate.", "\"broker.example.org\"", |row, given| {
                put(&mut row.host, given.text().map(Some))
            })
        },
        TableKey {
            need: Shown("none"),
            ..text("aliases", "Other names by which clients of the ACNET port find it.", "[\"MUON1\"]", |row, given| {
                put(&mut row.aliases, given.list(|name| name.text()))
            })
        },
    ]],
};

pub(super) const DEVICE: FileTable<DeviceRow> = FileTable {
    heading: "[[device]]",
    about: "A device. Its properties are the tables below it; it doesn't have properties that are missing here.",
    keys: &[&[
        text("index", "Its number, up to 16777215.", "27235", |row: &mut DeviceRow, given| {
            put(&mut row.index, given.whole("from 0 to 16777215"))
        }),
        text("name", "Its name in upper case; no other device has it.", "\"M:OUTTMP\"", |row, given| {
            put(&mut row.name, given.text())
        }),
        TableKey {
            need: Shown("empty"),
            ..text("description", "A description.", "\"Outdoor temperature\"", |row, given| {
                put(&mut row.description, value(given.text()))
            })
        },
        TableKey {
            need: Shown("empty"),
            ..text("long_name", "A longer name.", "\"Outdoor temperature at the muon campus\"", |row, given| {
                put(&mut row.long_name, value(given.text()))
            })
        },
        TableKey {
            need: Shown("empty"),
            ..text("alarm_list", "The list that its alarms belong to.", "\"Weather\"", |row, given| {
                put(&mut row.alarm_list, value(given.text()))
            })
        },
        TableKey {
            need: Shown("0"),
            ..text(
                "protection",
                "The classes of users who may set it without a role, one bit each; see `--roles`.",
                "0",
                |row, given| put(&mut row.protection, value(given.whole(U32))),
            )
        },
        TableKey {
            inner: Some(&READING),
            ..list("reading", "The measured value.", |row, given| {
                put(&mut row.reading, given.table(&READING).map(Some))
            })
        },
        TableKey {
            inner: Some(&SETTING),
            ..list("setting", "The value that it was set to.", |row, given| {
                put(&mut row.setting, given.table(&SETTING).map(Some))
            })
        },
        TableKey {
            inner: Some(&STATUS),
            ..list("status", "Its basic status.", |row, given| put(&mut row.status, given.table(&STATUS).map(Some)))
        },
        TableKey {
            inner: Some(&CONTROL),
            ..list("control", "Its commands.", |row, given| put(&mut row.control, given.table(&CONTROL).map(Some)))
        },
        TableKey {
            inner: Some(&ANALOG),
            ..list("analog", "Its analog alarm.", |row, given| put(&mut row.analog, given.table(&ANALOG).map(Some)))
        },
        TableKey {
            inner: Some(&DIGITAL),
            ..list("digital", "Its digital alarm.", |row, given| put(&mut row.digital, given.table(&DIGITAL).map(Some)))
        },
    ]],
};

pub(super) const NAMES: FileTable<NamesRow> = FileTable {
    heading: "[names]",
    about: "Further names of this DPM, besides the one that it was started with.",
    keys: &[&[
        TableKey {
            need: Shown("none"),
            ..text(
                "aliases",
                "Names by which clients of the ACNET port find this node.",
                "[\"DPM01\", \"DPM02\"]",
                |row: &mut NamesRow, given| put(&mut row.aliases, value(given.list(|name| name.text()))),
            )
        },
        TableKey {
            need: Shown("none"),
            ..text(
                "loggers",
                "Names of loggers for which requests such as `<-LOGGER:FROM:TO:BACKUP` are answered from the recordings here.",
                "[\"BACKUP\", \"ARKIVB\"]",
                |row, given| put(&mut row.loggers, value(given.list(|name| name.text()))),
            )
        },
        TableKey {
            need: Shown("none"),
            ..text(
                "clock",
                "A device that a front-end reads on clock events; for clients of the task SYNC, its readings are these events.",
                "\"M:OUTTMP\"",
                |row, given| put(&mut row.clock, given.text().map(Some)),
            )
        },
    ]],
};

pub(super) const RECORD: FileTable<RecordRow> = FileTable {
    heading: "[[record]]",
    about: "A reading that is recorded, for requests with `<-LOGGER`.",
    keys: &[&[text(
        "request",
        "A number of READING or SETTING, with a recurring event.",
        "\"M:OUTTMP@P,1000\"",
        |row: &mut RecordRow, given| put(&mut row.request, given.text()),
    )]],
};

pub(super) const METRIC: FileTable<RecordRow> = FileTable {
    heading: "[[metric]]",
    about: "A reading whose newest value `/metrics` reports to Prometheus.",
    keys: &[&[text(
        "request",
        "A number of READING or SETTING, with a recurring event.",
        "\"M:OUTTMP@P,5000\"",
        |row: &mut RecordRow, given| put(&mut row.request, given.text()),
    )]],
};

pub(super) const SCRIPT: FileTable<Script> = FileTable {
    heading: "[[script]]",
    about: "The values of a device on a simulated front-end. Without a script they are 0.",
    keys: &[&[
        text("device", "The name of the device.", "\"M:OUTTMP\"", |row: &mut Script, given| {
            put(&mut row.device, value(given.text()))
        }),
        text(
            "shape",
            "`constant`, `ramp`, `sine`, `noise`, `counter`, `setting` (what it was set to) or `silent`.",
            "\"sine\"",
            |row, given| put(&mut row.shape, value(given.text())),
        ),
        TableKey {
            need: Shown("0"),
            ..text("low", "The lowest value, or the constant one: raw, a whole number.", "12000", |row, given| {
                put(&mut row.low, value(given.number()))
            })
        },
        TableKey {
            need: Shown("0"),
            ..text("high", "The highest value.", "14000", |row, given| put(&mut row.high, value(given.number())))
        },
        TableKey {
            need: Usual("false: they are raw"),
            ..text(
                "scaled",
                "True if `low`, `high` and `alarm` are in engineering units: the inverse of the device's scaling makes raw values of them.",
                "true",
                |row, given| put(&mut row.is_scaled, given.switch()),
            )
        },
        TableKey {
            need: Shown("1.0"),
            ..text("seconds", "The duration of a ramp or sine.", "60.0", |row, given| {
                put(&mut row.seconds, value(given.number()))
            })
        },
        TableKey {
            need: Usual("`HELLO` without a script"),
            ..text("text", "The reading, if it is a text; with the shape `constant`.", "\"COOLING\"", |row, given| {
                put(&mut row.text, value(given.text()).map(Some))
            })
        },
        TableKey {
            need: Shown("commands change the attributes that they name"),
            ..text("status", "The basic status after each command.", "{ ON = 3, OFF = 2 }", |row, given| {
                put(&mut row.status, given.numbers_by_name())
            })
        },
        TableKey {
            need: Shown("none: all values are good"),
            ..text("alarm", "The limits of its analog alarm.", "[12500, 13500]", |row, given| {
                let limit = |limit: Given<'_>| value(limit.number());
                put(&mut row.alarm, given.pair(limit, limit).map(|(low, high)| Some([low, high])))
            })
        },
        TableKey {
            need: Shown("none: every status is good"),
            ..text(
                "digital",
                "The nominal status of its digital alarm, and the bits that count.",
                "[3, 1]",
                |row, given| {
                    let word = |word: Given<'_>| value(word.whole(U32));
                    put(&mut row.digital, given.pair(word, word).map(|(nominal, mask)| Some([nominal, mask])))
                },
            )
        },
    ]],
};

pub(super) const EVENT: FileTable<SimulatedEvent> = FileTable {
    heading: "[[event]]",
    about: "An event of the clock of simulated front-ends, which always has 02, 0F and 1D.",
    keys: &[&[
        text("number", "Its number: 0x10 comes for `@e,10`.", "0x10", |row: &mut SimulatedEvent, given| {
            put(&mut row.number, value(given.whole(U16)))
        }),
        text("every_ms", "The time between two of them, in milliseconds.", "1000", |row, given| {
            put(&mut row.every_millis, value(given.whole::<u32>(U32)).map(u64::from))
        }),
    ]],
};

pub(super) const FAULT: FileTable<NodeFaults> = FileTable {
    heading: "[[fault]]",
    about: "A fault of a simulated front-end.",
    keys: &[&[
        text("node", "The name of the front-end.", "\"MUONFE\"", |row: &mut NodeFaults, given| {
            put(&mut row.node, value(given.text()))
        }),
        TableKey {
            need: Shown("0"),
            ..text("delay_millis", "The delay of its answers, in milliseconds.", "5", |row, given| {
                put(&mut row.delay_millis, value(given.whole::<u32>(U32)).map(u64::from))
            })
        },
        TableKey {
            need: Shown("0.0"),
            ..text("loss", "The share of its answers that is lost, from 0 to 1.", "0.0", |row, given| {
                put(&mut row.loss, value(given.number()))
            })
        },
        TableKey {
            need: Usual("0: always"),
            ..text("up_seconds", "The time for which it works, in seconds.", "50", |row, given| {
                put(&mut row.up_seconds, value(given.whole::<u32>(U32)).map(u64::from))
            })
        },
        TableKey {
            need: Usual("0"),
            ..text("down_seconds", "The time for which it is then dead, in seconds.", "10", |row, given| {
                put(&mut row.down_seconds, value(given.whole::<u32>(U32)).map(u64::from))
            })
        },
    ]],
};

/// Returns a key whose value is a table of its own, or a list of tables.
const fn list<T>(name: &'static str, doc: &'static str, set: SetKey<T>) -> TableKey<T> {
    TableKey { name, doc, need: Usual("none"), example: "", inner: None, set }
}
