//! Properties of a device, their fields, and all their spellings.

/// A property of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Property {
    /// The measured value.
    Reading,
    /// The set value.
    Setting,
    /// On, ready, remote…
    Status,
    /// Commands.
    Control,
    /// The analog alarm block.
    Analog,
    /// The digital alarm block.
    Digital,
    /// The description in words.
    Description,
    /// Its number in the database.
    Index,
    /// A longer name.
    LongName,
    /// The list that its alarms belong to.
    AlarmListName,
    /// Bits and their names.
    BitStatus,
}

/// The requested form of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "they are the grammar's own words, which `name` shows")]
pub enum PropertyField {
    /// The only form of a property that has no fields.
    None,
    Raw,
    Primary,
    Scaled,
    All,
    Text,
    ExtendedText,
    On,
    Ready,
    Remote,
    Positive,
    Ramp,
    BitValue,
    BitNames,
    BitValues,
    Min,
    Max,
    Nom,
    Tol,
    Mask,
    RawMin,
    RawMax,
    RawNom,
    RawTol,
    AlarmEnable,
    AlarmStatus,
    TriesNeeded,
    TriesNow,
    AlarmFtd,
    Abort,
    AbortInhibit,
    Flags,
}

impl Property {
    /// Returns the property that the second character of a device's name selects.
    pub(super) fn of_qualifier(qualifier: char) -> Option<Self> {
        Some(match qualifier {
            ':' | '?' => Self::Reading,
            '_' => Self::Setting,
            '|' => Self::Status,
            '&' => Self::Control,
            '@' => Self::Analog,
            '$' => Self::Digital,
            '~' => Self::Description,
            '^' => Self::Index,
            '#' => Self::LongName,
            '!' => Self::AlarmListName,
            _ => return None,
        })
    }

    /// Returns its canonical name.
    pub fn name(self) -> &'static str {
        PROPERTIES.iter().find(|row| row.0 == self).map_or("", |row| row.2[0])
    }

    /// Returns its number in front-end requests.
    pub fn index(self) -> u8 {
        PROPERTIES.iter().find(|row| row.0 == self).map_or(0, |row| row.1)
    }

    /// Returns the property of a number in front-end requests.
    pub fn from_number(index: u8) -> Option<Self> {
        PROPERTIES.iter().find(|row| row.1 == index).map(|row| row.0)
    }

    /// Returns the default field; `None` if the property has no fields.
    pub fn default_field(self) -> Option<PropertyField> {
        self.fields().first().copied()
    }

    fn from_word(word: &str) -> Option<Self> {
        PROPERTIES.iter().find(|row| row.2.contains(&word)).map(|row| row.0)
    }

    /// Returns its fields, the default one first.
    fn fields(self) -> &'static [PropertyField] {
        use PropertyField::*;
        match self {
            Self::Reading | Self::Setting => &[Scaled, Primary, Raw],
            Self::Status => {
                &[All, Raw, Text, ExtendedText, On, Ready, Remote, Positive, Ramp, BitValue, BitNames, BitValues]
            }
            Self::Control => &[Scaled, Raw],
            Self::Analog => &[
                All,
                Raw,
                Text,
                Min,
                Max,
                Nom,
                Tol,
                RawMin,
                RawMax,
                RawNom,
                RawTol,
                AlarmEnable,
                AlarmStatus,
                TriesNeeded,
                TriesNow,
                AlarmFtd,
                Abort,
                AbortInhibit,
                Flags,
            ],
            Self::Digital => &[
                All,
                Raw,
                Text,
                Nom,
                Mask,
                AlarmEnable,
                AlarmStatus,
                TriesNeeded,
                TriesNow,
                AlarmFtd,
                Abort,
                AbortInhibit,
                Flags,
            ],
            Self::Description | Self::Index | Self::LongName | Self::AlarmListName | Self::BitStatus => &[],
        }
    }
}

impl PropertyField {
    /// Returns its canonical name.
    pub fn name(self) -> &'static str {
        FIELDS.iter().find(|row| row.0 == self).map_or("", |row| row.1[0])
    }
}

/// Returns the property and field in up to two words after the device; `qualified` is the property
/// that the device's second character selects.
pub(super) fn choose(words: &[&str], qualified: Property) -> Option<(Property, PropertyField)> {
    let (property, field) = match words {
        [] => (qualified, None),
        [word] => match Property::from_word(word) {
            Some(property) => (property, None),
            None => (qualified, Some(*word)),
        },
        [property, field] => (Property::from_word(property)?, Some(*field)),
        _ => return None,
    };
    let field = match field {
        None => property.default_field().unwrap_or(PropertyField::None),
        Some(word) => *property.fields().iter().find(|field| names(**field).contains(&word))?,
    };
    Some((property, field))
}

fn names(field: PropertyField) -> &'static [&'static str] {
    FIELDS.iter().find(|row| row.0 == field).map_or(&[], |row| row.1)
}

/// Each property with its number and its names, the canonical one first.
#[rustfmt::skip]
const PROPERTIES: &[(Property, u8, &[&str])] = &[
    (Property::Reading, 12, &["READING", "READ", "PRREAD"]),
    (Property::Setting, 13, &["SETTING", "SET", "PRSET"]),
    (Property::Status, 4, &["STATUS", "BASIC_STATUS", "STS", "PRBSTS"]),
    (Property::Control, 3, &["CONTROL", "BASIC_CONTROL", "CTRL", "PRBCTL"]),
    (Property::Analog, 1, &["ANALOG", "ANALOG_ALARM", "AA", "PRANAB"]),
    (Property::Digital, 5, &["DIGITAL", "DIGITAL_ALARM", "DA", "PRDABL"]),
    (Property::Description, 15, &["DESCRIPTION", "DESC", "PRDESC"]),
    (Property::Index, 23, &["INDEX", "IDX", "PRIDX"]),
    (Property::LongName, 24, &["LONG_NAME", "LNGNAM", "PRLNAM"]),
    (Property::AlarmListName, 25, &["ALARM_LIST_NAME", "LSTNAM", "PRALNM"]),
    (Property::BitStatus, 22, &["BIT_STATUS", "BITSTATUS"]),
];

/// Each field with its names, the canonical one first.
#[rustfmt::skip]
const FIELDS: &[(PropertyField, &[&str])] = &[
    (PropertyField::Raw, &["RAW"]),
    (PropertyField::Primary, &["PRIMARY", "VOLTS"]),
    (PropertyField::Scaled, &["SCALED", "COMMON"]),
    (PropertyField::All, &["ALL"]),
    (PropertyField::Text, &["TEXT"]),
    (PropertyField::ExtendedText, &["EXTENDED_TEXT"]),
    (PropertyField::On, &["ON"]),
    (PropertyField::Ready, &["READY"]),
    (PropertyField::Remote, &["REMOTE"]),
    (PropertyField::Positive, &["POSITIVE"]),
    (PropertyField::Ramp, &["RAMP"]),
    (PropertyField::BitValue, &["BIT_VALUE"]),
    (PropertyField::BitNames, &["BIT_NAMES"]),
    (PropertyField::BitValues, &["BIT_VALUES"]),
    (PropertyField::Min, &["MIN", "MINIMUM"]),
    (PropertyField::Max, &["MAX", "MAXIMUM"]),
    (PropertyField::Nom, &["NOM", "NOMINAL"]),
    (PropertyField::Tol, &["TOL", "TOLERANCE"]),
    (PropertyField::Mask, &["MASK"]),
    (PropertyField::RawMin, &["RAW_MIN", "RAWMIN"]),
    (PropertyField::RawMax, &["RAW_MAX", "RAWMAX"]),
    (PropertyField::RawNom, &["RAW_NOM", "RAWNOM"]),
    (PropertyField::RawTol, &["RAW_TOL", "RAWTOL"]),
    (PropertyField::AlarmEnable, &["ALARM_ENABLE", "ENABLE"]),
    (PropertyField::AlarmStatus, &["ALARM_STATUS", "STATUS"]),
    (PropertyField::TriesNeeded, &["TRIES_NEEDED"]),
    (PropertyField::TriesNow, &["TRIES_NOW"]),
    (PropertyField::AlarmFtd, &["ALARM_FTD", "FTD"]),
    (PropertyField::Abort, &["ABORT"]),
    (PropertyField::AbortInhibit, &["ABORT_INHIBIT"]),
    (PropertyField::Flags, &["FLAGS"]),
];
