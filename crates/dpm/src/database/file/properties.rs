//! The keys of a device's properties: the place of each, its scaling, and the limits of its
//! settings.

use super::given::Given;
use super::mistake::{At, Wrong};
use super::rows::{
    AlarmRow, AttributeRow, BitRow, CommandRow, ControlRow, Limited, PieceRow, Placed, StatusRow, ValueRow,
};
use super::table::Need::{Shown, Usual};
use super::table::{FileTable, I32, SetKey, TableKey, U16, U32, put, text, value};

/// Returns the keys for the place of a property, which all properties have.
const fn place<T: Placed>() -> &'static [TableKey<T>] {
    const {
        &[
            text("node", "The name of its front-end.", "\"MUONFE\"", |row: &mut T, given| {
                put(&mut row.place().node, given.text())
            }),
            TableKey {
                need: Shown("needed on nodes of ACNET"),
                ..text(
                    "ssdn",
                    "Its place on the front-end, which only the front-end can interpret: sixteen hexadecimal digits.",
                    "\"000042003f210000\"",
                    |row, given| put(&mut row.place().ssdn, given.text().map(Some)),
                )
            },
            TableKey {
                need: Usual("needed on nodes with protocol `CA` or `PVA`"),
                ..text(
                    "pv",
                    "The name of its process variable; for readings and settings only.",
                    "\"SR:DCCT\"",
                    |row, given| put(&mut row.place().variable, given.text().map(Some)),
                )
            },
            TableKey {
                need: Usual("needed on nodes with protocol `MQTT`"),
                ..text(
                    "topic",
                    "Its topic, without wildcards; for readings and settings only.",
                    "\"hall/temperature\"",
                    |row, given| put(&mut row.place().topic, given.text().map(Some)),
                )
            },
            TableKey {
                need: Usual("the message itself"),
                ..text(
                    "json",
                    "The place of the value in a JSON message, as a pointer (RFC 6901).",
                    "\"/temperature\"",
                    |row, given| put(&mut row.place().pointer, given.text().map(Some)),
                )
            },
            TableKey {
                need: Usual("false"),
                ..text("retain", "True if the broker keeps settings for later subscribers.", "true", |row, given| {
                    put(&mut row.place().retain, given.switch().map(|retain| Some(given.at(retain))))
                })
            },
            TableKey {
                need: Usual("2; 20 for alarms; for process variables and topics 8, or 40 and more for texts"),
                ..text("element", "Bytes of one element: the distance between `[0]` and `[1]`.", "2", |row, given| {
                    put(&mut row.place().element, given.whole("from 1 on").map(Some))
                })
            },
            TableKey {
                need: Usual("one element"),
                ..text("size", "Bytes of all elements, up to 8192.", "2", |row, given| {
                    put(&mut row.place().size, given.whole("from 1 to 8192").map(Some))
                })
            },
            TableKey {
                need: Usual("one element"),
                ..text("default_size", "Bytes that are read when a request names no range.", "2", |row, given| {
                    put(&mut row.place().default_size, given.whole("from 1 on").map(Some))
                })
            },
            TableKey {
                need: Usual("`P,1000`; for process variables and topics `Q,100`"),
                ..text("event", "The event on which it is read if a request names none.", "\"P,1000\"", |row, given| {
                    put(&mut row.place().event, given.text().map(Some))
                })
            },
            TableKey {
                need: Usual("false"),
                ..text("unframed", "True if ranges of bytes may split elements.", "true", |row, given| {
                    put(&mut row.place().unframed, given.switch())
                })
            },
        ]
    }
}

/// Keys for the scaling of a number.
const SCALED: &[TableKey<ValueRow>] = &[
    TableKey {
        need: Shown("needed with `ssdn`; a process variable or topic is a number already"),
        ..text(
            "primary",
            "The index of the primary transform, from raw numbers to primary units such as volts; 68 for texts.",
            "0",
            |row, given| put(&mut row.primary, given.whole(U16).map(Some)),
        )
    },
    TableKey {
        need: Usual("`element`, which must be 1, 2 or 4 then"),
        ..text(
            "input_length",
            "Bytes at the beginning of each element that hold its number: 1, 2 or 4. Longer elements, such as the points of a ramp table, \
             are read by these bytes and can only be set as raw bytes.",
            "2",
            |row, given| put(&mut row.input_length, given.whole("1, 2 or 4").map(Some)),
        )
    },
    TableKey {
        need: Shown("empty"),
        ..text("primary_units", "The name of primary units.", "\"V\"", |row, given| {
            put(&mut row.primary_units, value(given.text()))
        })
    },
    TableKey {
        need: Shown("0: the same"),
        ..text(
            "common",
            "The index of the common transform, from primary to engineering units; 60 or 84 for texts.",
            "2",
            |row, given| put(&mut row.common, given.whole(U16).map(Some)),
        )
    },
    TableKey {
        need: Shown("none"),
        ..text("constants", "Its constants C1, C2 and so on.", "[10.0, 1.0, 32.0]", |row, given| {
            put(&mut row.constants, value(numbers(given)))
        })
    },
    TableKey {
        need: Shown("empty"),
        ..text("units", "The name of engineering units.", "\"DegF\"", |row, given| {
            put(&mut row.units, value(given.text()))
        })
    },
    TableKey {
        need: Usual("none"),
        ..text(
            "table",
            "Points of common transforms 56 and 58, primary and engineering units, by rising primary units.",
            "[[0.0, 32.0], [5.0, 82.0]]",
            |row, given| {
                let number = |number: Given<'_>| value(number.number());
                put(&mut row.table, value(given.list(|point| point.pair(number, number))))
            },
        )
    },
    TableKey {
        need: Usual("none"),
        inner: Some(&PIECE),
        ..text(
            "pieces",
            "The pieces of common transform 90, by rising limit.",
            "[{ below = 5.0, common = 0 }]",
            |row, given| put(&mut row.pieces, value(given.list(|piece| value(piece.table(&PIECE))))),
        )
    },
    TableKey {
        need: Usual("none"),
        ..text(
            "names",
            "Names of numbers, for texts that are enumerations.",
            "[[0, \"OFF\"], [1, \"ON\"]]",
            |row, given| {
                let number = |number: Given<'_>| value(number.whole(I32));
                let name = |name: Given<'_>| value(name.text());
                put(&mut row.names, value(given.list(|pair| pair.pair(number, name))))
            },
        )
    },
];

pub(super) const READING: FileTable<ValueRow> = FileTable {
    heading: "[device.reading]",
    about: "The measured value: one number or text, or an array of them.",
    keys: &[place(), SCALED],
};

pub(super) const SETTING: FileTable<ValueRow> = FileTable {
    heading: "[device.setting]",
    about: "The value that the device was set to.",
    keys: &[
        place(),
        SCALED,
        &[
            limit(
                "min",
                "The lowest value that it may be set to, in engineering units, in whatever form a client gives it.",
                "35.0",
                |row, given| put(&mut row.limits().min, given.number().map(Some)),
            ),
            limit("max", "The highest value that it may be set to.", "95.5", |row, given| {
                put(&mut row.limits().max, given.number().map(Some))
            }),
            limit(
                "allowed",
                "The only values that it may be set to; raw numbers if the setting is a text.",
                "[40.0, 60.0]",
                |row, given| put(&mut row.limits().allowed, numbers(given).map(Some)),
            ),
        ],
    ],
};

pub(super) const PIECE: FileTable<PieceRow> = FileTable {
    heading: "",
    about: "A piece of common transform 90.",
    keys: &[&[
        text("below", "The piece applies to primary units below this.", "5.0", |row: &mut PieceRow, given| {
            put(&mut row.below, value(given.number()))
        }),
        text("common", "The index of its common transform, not 90.", "0", |row, given| {
            put(&mut row.common, value(given.whole(U16)))
        }),
        TableKey {
            need: Usual("none"),
            ..text("constants", "Its constants.", "[10.0, 1.0, 32.0]", |row, given| {
                put(&mut row.constants, value(numbers(given)))
            })
        },
    ]],
};

pub(super) const STATUS: FileTable<StatusRow> = FileTable {
    heading: "[device.status]",
    about: "The basic status. Clients don't get an attribute that is missing here.",
    keys: &[
        place(),
        &[
            attribute("on", "The attribute that says whether it is on.", |row, given| {
                put(&mut row.on, given.table(&ATTRIBUTE).map(Some))
            }),
            attribute("ready", "The attribute that says whether it is ready.", |row, given| {
                put(&mut row.ready, given.table(&ATTRIBUTE).map(Some))
            }),
            attribute("remote", "The attribute that says whether it is controlled remotely.", |row, given| {
                put(&mut row.remote, given.table(&ATTRIBUTE).map(Some))
            }),
            attribute("positive", "The attribute that says whether its polarity is positive.", |row, given| {
                put(&mut row.positive, given.table(&ATTRIBUTE).map(Some))
            }),
            attribute("ramp", "The attribute that says whether it ramps.", |row, given| {
                put(&mut row.ramp, given.table(&ATTRIBUTE).map(Some))
            }),
            TableKey {
                need: Shown("none"),
                inner: Some(&BIT),
                ..text(
                    "bits",
                    "The meaning of each bit.",
                    "[{ bit = 0, name = \"On\", zero = \"No\", one = \"Yes\" }]",
                    |row, given| put(&mut row.bits, value(given.list(|bit| value(bit.table(&BIT))))),
                )
            },
        ],
    ],
};

pub(super) const ATTRIBUTE: FileTable<AttributeRow> = FileTable {
    heading: "",
    about: "An attribute of the basic status. It is true if the bits of `mask` are those of `match`.",
    keys: &[&[
        text("mask", "The bits that count.", "1", |row: &mut AttributeRow, given| {
            put(&mut row.mask, value(given.whole(U32)))
        }),
        text("match", "Their values if the attribute is true.", "1", |row, given| {
            put(&mut row.matching, value(given.whole(U32)))
        }),
        TableKey {
            need: Usual("false"),
            ..text("invert", "True if the attribute is true for all other values.", "false", |row, given| {
                put(&mut row.invert, given.switch())
            })
        },
        TableKey {
            need: Usual("none"),
            ..text("yes", "The letter shown if it is true.", "\".\"", |row, given| {
                put(&mut row.yes, given.letter().map(Some))
            })
        },
        TableKey {
            need: Usual("none"),
            ..text("no", "The letter shown if it is false.", "\"*\"", |row, given| {
                put(&mut row.no, given.letter().map(Some))
            })
        },
    ]],
};

pub(super) const BIT: FileTable<BitRow> = FileTable {
    heading: "",
    about: "A bit of the basic status.",
    keys: &[&[
        text("bit", "Its number, 0 to 31.", "0", |row: &mut BitRow, given| {
            put(&mut row.bit, given.whole("from 0 to 31"))
        }),
        text("name", "Its name.", "\"On\"", |row, given| put(&mut row.name, value(given.text()))),
        TableKey {
            need: Usual("empty"),
            ..text("zero", "Its meaning if it is 0.", "\"No\"", |row, given| put(&mut row.zero, value(given.text())))
        },
        TableKey {
            need: Usual("empty"),
            ..text("one", "Its meaning if it is 1.", "\"Yes\"", |row, given| put(&mut row.one, value(given.text())))
        },
    ]],
};

pub(super) const CONTROL: FileTable<ControlRow> = FileTable {
    heading: "[device.control]",
    about: "The commands that the device knows.",
    keys: &[
        place(),
        &[
            TableKey {
                inner: Some(&COMMAND),
                ..text(
                    "commands",
                    "Its commands.",
                    "[{ name = \"ON\", value = 2, long = \"turn on\" }, { name = \"OFF\", value = 1 }, { name = \"STEP\", order = 10, value = 8 }]",
                    |row: &mut ControlRow, given| {
                        put(&mut row.commands, value(given.list(|command| command.table(&COMMAND))))
                    },
                )
            },
            limit(
                "allowed",
                "The only values of commands that may be sent, by whatever name.",
                "[1, 2]",
                |row, given| put(&mut row.limits().allowed, numbers(given).map(Some)),
            ),
        ],
    ],
};

pub(super) const COMMAND: FileTable<CommandRow> = FileTable {
    heading: "",
    about: "A command. Clients send its number, its name or its long name.",
    keys: &[&[
        text("name", "Its name, in any words.", "\"ON\"", |row: &mut CommandRow, given| {
            put(&mut row.name, given.text())
        }),
        TableKey {
            need: Usual(
                "that of the name: RESET 0, ON 1, OFF 2, POSITIVE 3, NEGATIVE 4, RAMP 5, DC 6, LOCAL 7, REMOTE 8, TRIP 9",
            ),
            ..text("order", "The number that clients send for it, 0 to 255.", "10", |row, given| {
                put(&mut row.order, given.whole("from 0 to 255").map(Some))
            })
        },
        text("value", "The value that the front-end gets.", "2", |row, given| {
            put(&mut row.value, value(given.whole(U32)))
        }),
        TableKey {
            need: Usual("empty"),
            ..text("long", "A description, which clients may send as well.", "\"turn on\"", |row, given| {
                put(&mut row.long, value(given.text()))
            })
        },
    ]],
};

/// Keys for what clients are told of an alarm.
const ALARM_WORDS: &[TableKey<AlarmRow>] = &[
    TableKey {
        need: Shown("empty"),
        ..text("text", "The text of the alarm.", "\"TEMPERATURE OUT OF RANGE\"", |row, given| {
            put(&mut row.text, value(given.text()))
        })
    },
    TableKey {
        need: Usual("a number of its own"),
        ..text(
            "text_id",
            "The number by which clients of gRPC ask for the text; alarms with the same number have the text of the first of them.",
            "4711",
            |row, given| put(&mut row.text_id, value(given.whole(U32)).map(Some)),
        )
    },
    TableKey {
        need: Shown("0"),
        ..text("priority", "Its priority, for clients of gRPC.", "3", |row, given| {
            put(&mut row.priority, value(given.whole(U32)))
        })
    },
    TableKey {
        need: Usual("empty"),
        ..text(
            "url",
            "The address of a page that says what to do, for clients of gRPC.",
            "\"https://wiki.example.org/outtmp\"",
            |row, given| put(&mut row.url, value(given.text())),
        )
    },
];

pub(super) const ANALOG: FileTable<AlarmRow> = FileTable {
    heading: "[device.analog]",
    about: "The analog alarm: a block of 20 bytes with limits of the reading.",
    keys: &[
        place(),
        ALARM_WORDS,
        &[
            limit("min", "The lowest reading to which its limits may be set.", "35.0", |row, given| {
                put(&mut row.limits().min, given.number().map(Some))
            }),
            limit("max", "The highest reading to which its limits may be set.", "95.5", |row, given| {
                put(&mut row.limits().max, given.number().map(Some))
            }),
        ],
    ],
};

pub(super) const DIGITAL: FileTable<AlarmRow> = FileTable {
    heading: "[device.digital]",
    about: "The digital alarm: a block of 20 bytes with the nominal status and which bits count.",
    keys: &[place(), ALARM_WORDS],
};

/// Returns a key that limits settings.
const fn limit<T: Limited>(
    name: &'static str,
    doc: &'static str,
    example: &'static str,
    set: SetKey<T>,
) -> TableKey<T> {
    TableKey { need: Usual("anything that its bytes can hold"), ..text(name, doc, example, set) }
}

const fn attribute(name: &'static str, doc: &'static str, set: SetKey<StatusRow>) -> TableKey<StatusRow> {
    TableKey { need: Shown("not sent"), inner: Some(&ATTRIBUTE), ..text(name, doc, "{ mask = 1, match = 1 }", set) }
}

fn numbers(given: Given<'_>) -> Result<At<Vec<f64>>, Wrong> {
    given.list(|number| value(number.number()))
}
