//! Status values: a facility and an error, with their names.

use std::fmt;

/// A status of ACNET: facility + 256 × error. A negative error is fatal, a positive one a warning,
/// 0 is success.
///
/// In ACNET it is little endian, in SDD an integer. Its usual notation is `[17 -26]
/// DPM_NO_SUCH_DEVICE`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub i16);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $facility:literal $error:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self::new($facility, $error);)*
        }
    };
}

statuses! {
    /// Nothing went wrong: facility and error are 0.
    SUCCESS = 0 0;
    /// ACNET: an answer will come.
    PEND = 1 1;
    /// ACNET: the last of several replies.
    ENDMULT = 1 2;
    /// ACNET: no answer within the time limit.
    REQTMO = 1 -6;
    /// ACNET: all ids are in use.
    BUSY = 1 -8;
    /// ACNET: not connected.
    NOT_CONNECTED = 1 -21;
    /// ACNET: a command that is too short or has no meaning.
    ARG = 1 -22;
    /// ACNET: an invalid message.
    IVM = 1 -23;
    /// ACNET: no such request or reply.
    NO_SUCH = 1 -24;
    /// ACNET: requests to that task are refused.
    REQREJ = 1 -25;
    /// ACNET: another task has that name.
    NAME_IN_USE = 1 -27;
    /// ACNET: no such node.
    NO_NODE = 1 -30;
    /// ACNET: a request that is too large.
    TRUNC_REQ = 1 -31;
    /// ACNET: a reply of the wrong size.
    TRUNC_REPLY = 1 -32;
    /// ACNET: no such task.
    NO_TASK = 1 -33;
    /// ACNET: an unknown command (a "level 2 error").
    LEVEL2 = 1 -35;
    /// ACNET: the front-end does not support this.
    NODE_DOWN = 1 -42;
    /// ACNET: the front-end is silent.
    UTIME = 1 -49;
    /// DIO: cannot be scaled.
    NOSCALE = 14 -7;
    /// DIO: a length that does not fit.
    INVLEN = 14 -13;
    /// DIO: scaling failed.
    SCALEFAIL = 14 -20;
    /// DIO: an unspecified failure.
    GENERIC_ERROR = 14 -29;
    /// DIO: a value that the front-end finds invalid.
    INVDATA = 14 -35;
    /// DIO: a value that the device may not be set to.
    RANGE = 14 -58;
    /// FTP: a request of an unknown kind.
    FTP_INVTYP = 15 -1;
    /// FTP: more or fewer devices than a request may have.
    FTP_INVNUMDEV = 15 -9;
    /// FTP: a request that is too short.
    FTP_INVREQLEN = 15 -12;
    /// FTP: a frequency that is not supported.
    FTP_UNSFREQ = 15 -19;
    /// FTP: a device that is not supported.
    FTP_UNSDEV = 15 -21;
    /// FTP: a reply that cannot be read.
    FTP_BADRPY = 15 -103;
    /// Snapshots: the setup was accepted.
    FTP_PEND = 15 1;
    /// Snapshots: waiting for the clock event that arms it.
    FTP_WAIT_EVENT = 15 2;
    /// Snapshots: waiting for the delay after that event.
    FTP_WAIT_DELAY = 15 3;
    /// Snapshots: points are being collected.
    FTP_COLLECTING = 15 4;
    /// Snapshots: all points were returned.
    FTP_ENDOFDATA = 15 -10;
    /// Snapshots: some points are still missing.
    FTP_NOTRDY = 15 -23;
    /// Snapshots: an unsupported way of arming.
    FTP_BADARM = 15 -25;
    /// Snapshots: an unsupported way of collecting points.
    FTP_BAD_PLOT_MODE = 15 -27;
    /// Snapshots: the snapshot has no such device.
    FTP_NO_SUCH_DEVICE = 15 -28;
    /// Snapshots: a rate that the front-end can't reach.
    FTP_FREQ_TOO_HIGH = 15 -30;
    /// Snapshots: no snapshot of that name was set up.
    FTP_NO_SETUP = 15 -31;
    /// Snapshots: an argument that has no meaning.
    FTP_BADARG = 15 -102;
    /// DBM: no such device or property.
    NOPROP = 16 -13;
    /// DPM: more requests than a list may have.
    OUTOMEM = 17 -9;
    /// DPM: the device cannot be set.
    NOSET = 17 -15;
    /// DPM: not allowed.
    PRIV = 17 -17;
    /// DPM: there is no clock for that event.
    NO_TCLK = 17 -23;
    /// DPM: a request that cannot be read.
    BAD_REQUEST = 17 -24;
    /// DPM: a range beyond the property's size.
    OUT_OF_BOUNDS = 17 -29;
    /// DPM: a range that splits an element.
    BAD_FRAMING = 17 -30;
    /// DPM: the property has no such field.
    NO_SUCH_FIELD = 17 -32;
    /// DPM: an event that cannot be read.
    BAD_EVENT = 17 -33;
    /// DPM: more or fewer values than the request names.
    BAD_LENGTH = 17 -35;
    /// DPM: no such list.
    NO_SUCH_LIST = 17 -37;
    /// DPM: an unsupported data model.
    INVALID_DATASOURCE = 17 -42;
    /// DPM: a data model that cannot be read.
    BAD_DATASOURCE_FORMAT = 17 -43;
    /// DPM: readings were dropped because the client does not read them.
    REPLY_OVERFLOW = 17 -44;
    /// DPM: an internal error.
    INTERNAL = 17 -45;
    /// DAE: nothing was recorded at that time.
    LJ_NO_DATA = 66 -64;
    /// DAE: a later setting of the same batch took its place.
    SETTING_SUPERCEDED = 66 2;
}

impl Status {
    /// Packs facility and error.
    pub const fn new(facility: u8, error: i8) -> Self {
        Self((error as i16) << 8 | facility as i16)
    }

    /// Returns the facility: 1 ACNET, 14 DIO, 16 DBM, 17 DPM, 66 DAE…
    pub const fn facility(self) -> u8 {
        self.0 as u8
    }

    /// Returns the error, a number that the facility defines.
    pub const fn error(self) -> i8 {
        (self.0 >> 8) as i8
    }

    /// Returns whether it is a failure. Warnings aren't.
    pub const fn is_fatal(self) -> bool {
        self.error() < 0
    }

    /// Returns the control system's name of it, if that is known.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .iter()
            .find(|(facility, error, _)| (*facility, *error) == (self.facility(), self.error()))
            .map(|row| row.2)
    }

    /// Returns the status that a name such as `ACNET_PEND` stands for; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|row| row.2 == name).map(|(facility, error, _)| Self::new(*facility, *error))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{} {}]", self.facility(), self.error())?;
        self.name().map_or(Ok(()), |name| write!(formatter, " {name}"))
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Facility, error, name.
#[rustfmt::skip]
const NAMES: &[(u8, i8, &str)] = &[
    (1, 4, "ACNET_DEPRECATED"),
    (1, 3, "ACNET_REPLY_TIMEOUT"),
    (1, 2, "ACNET_ENDMULT"),
    (1, 1, "ACNET_PEND"),
    (1, -1, "ACNET_RETRY"),
    (1, -2, "ACNET_NOLCLMEM"),
    (1, -3, "ACNET_NOREMMEM"),
    (1, -4, "ACNET_RPLYPACK"),
    (1, -5, "ACNET_REQPACK"),
    (1, -6, "ACNET_REQTMO"),
    (1, -7, "ACNET_QUEFULL"),
    (1, -8, "ACNET_BUSY"),
    (1, -21, "ACNET_NOT_CONNECTED"),
    (1, -22, "ACNET_ARG"),
    (1, -23, "ACNET_IVM"),
    (1, -24, "ACNET_NO_SUCH"),
    (1, -25, "ACNET_REQREJ"),
    (1, -26, "ACNET_CANCELLED"),
    (1, -27, "ACNET_NAME_IN_USE"),
    (1, -28, "ACNET_NCR"),
    (1, -30, "ACNET_NO_NODE"),
    (1, -31, "ACNET_TRUNC_REQUEST"),
    (1, -32, "ACNET_TRUNC_REPLY"),
    (1, -33, "ACNET_NO_TASK"),
    (1, -34, "ACNET_DISCONNECTED"),
    (1, -35, "ACNET_LEVEL2"),
    (1, -41, "ACNET_HARD_IO"),
    (1, -42, "ACNET_NODE_DOWN"),
    (1, -43, "ACNET_SYS"),
    (1, -44, "ACNET_NXE"),
    (1, -45, "ACNET_BUG"),
    (1, -46, "ACNET_NE1"),
    (1, -47, "ACNET_NE2"),
    (1, -48, "ACNET_NE3"),
    (1, -49, "ACNET_UTIME"),
    (1, -50, "ACNET_INVARG"),
    (1, -51, "ACNET_MEMFAIL"),
    (1, -52, "ACNET_NO_HANDLE"),
    (14, 12, "DIO_NOT_SCALABLE"),
    (14, 11, "DIO_NOT_UNIQUE"),
    (14, 10, "DIO_TOO_HIGH"),
    (14, 9, "DIO_TOO_LOW"),
    (14, 8, "DIO_INCOMPLETE_DATA"),
    (14, 7, "DIO_INCONSISTENT_TIMES"),
    (14, 6, "DIO_NO_CHANGE"),
    (14, 5, "DIO_MORE_VALUES"),
    (14, 4, "DIO_NOW_EMPTY"),
    (14, 3, "DIO_PEND"),
    (14, 2, "DIO_ALREADY_SET"),
    (14, 1, "DIO_TOO_MANY_ARGS"),
    (14, -1, "DIO_MEMFAIL"),
    (14, -2, "DIO_CANFAIL"),
    (14, -3, "DIO_NOLIST"),
    (14, -4, "DIO_STALE"),
    (14, -5, "DIO_INVATT"),
    (14, -6, "DIO_NOATT"),
    (14, -7, "DIO_NOSCALE"),
    (14, -8, "DIO_BADARG"),
    (14, -9, "DIO_BADSCALE"),
    (14, -10, "DIO_NOFAMILY"),
    (14, -11, "DIO_NOINFO"),
    (14, -12, "DIO_INVDBDAT"),
    (14, -13, "DIO_INVLEN"),
    (14, -14, "DIO_SETDIS"),
    (14, -15, "DIO_SMOFF"),
    (14, -16, "DIO_SMITER"),
    (14, -17, "DIO_NO_SUCH"),
    (14, -18, "DIO_UNAVAIL"),
    (14, -19, "DIO_INVDEV"),
    (14, -20, "DIO_SCALEFAIL"),
    (14, -21, "DIO_NOTYET"),
    (14, -22, "DIO_MISMATCH"),
    (14, -28, "DIO_TOO_MANY"),
    (14, -29, "DIO_GENERIC_ERROR"),
    (14, -32, "DIO_BUGCHK"),
    (14, -33, "DIO_CORRUPT"),
    (14, -34, "DIO_INSUFFICIENT_ARGS"),
    (14, -35, "DIO_INVDATA"),
    (14, -36, "DIO_INVOFF"),
    (14, -37, "DIO_DUPREQ"),
    (14, -38, "DIO_TRUNCATED"),
    (14, -39, "DIO_SYNTAX"),
    (14, -40, "DIO_TOO_BIG"),
    (14, -41, "DIO_NOT_ENABLED"),
    (14, -42, "DIO_INVPROP"),
    (14, -43, "DIO_TIMEOUT"),
    (14, -46, "DIO_MATH_EXCEPTION"),
    (14, -47, "DIO_NOT_PROCESSED"),
    (14, -48, "DIO_RETIRED"),
    (14, -49, "DIO_INVALID_RATE"),
    (14, -58, "DIO_RANGE"),
    (14, -59, "DIO_NOPRIV"),
    (14, -60, "DIO_READONLY"),
    (14, -65, "DIO_EMPTY"),
    (14, -69, "DIO_NOT_SUPPORTED"),
    (14, -70, "DIO_AMBIGUOUS"),
    (14, -71, "DIO_NOT_A_NUMBER"),
    (14, -72, "DIO_RECURSION_LIMIT"),
    (14, -73, "DIO_INVALID_DEVICE_TYPE"),
    (14, -74, "DIO_TOO_SMALL"),
    (14, -76, "DIO_INVALID_DB_REQUEST"),
    (14, -77, "DIO_UNTRANSLATABLE_ERROR"),
    (14, -78, "DIO_NOREGULAR"),
    (14, -79, "DIO_SETONLY"),
    (14, -80, "DIO_OUT_OF_BOUNDS"),
    (14, -81, "DIO_CONTROLLED_SET"),
    (14, -82, "DIO_NO_DATA"),
    (14, -100, "DIO_TD_NOTYET"),
    (14, -101, "DIO_TD_INVTYP"),
    (14, -102, "DIO_TD_INVTAB"),
    (14, -103, "DIO_TD_INVSLT"),
    (14, -104, "DIO_TD_INVNSL"),
    (14, -105, "DIO_TD_INVDEV"),
    (14, -106, "DIO_TD_INVTSZ"),
    (14, -107, "DIO_TD_PARERR"),
    (14, -108, "DIO_TD_INVSUS"),
    (14, -109, "DIO_TD_UNSUPPORTED"),
    (15, 4, "FTP_COLLECTING"),
    (15, 3, "FTP_WAIT_DELAY"),
    (15, 2, "FTP_WAIT_EVENT"),
    (15, 1, "FTP_PEND"),
    (15, -1, "FTP_INVTYP"),
    (15, -2, "FTP_INVSSDN"),
    (15, -5, "FTP_FE_OUTOFMEM"),
    (15, -6, "FTP_NOCHAN"),
    (15, -7, "FTP_NO_DECODER"),
    (15, -8, "FTP_FE_PLOTLIM"),
    (15, -9, "FTP_INVNUMDEV"),
    (15, -10, "FTP_ENDOFDATA"),
    (15, -11, "FTP_FE_PLOTLEN"),
    (15, -12, "FTP_INVREQLEN"),
    (15, -13, "FTP_NO_DATA"),
    (15, -14, "FTP_INVREQ"),
    (15, -15, "FTP_BADEV"),
    (15, -16, "FTP_BUMPED"),
    (15, -17, "FTP_REROUTE"),
    (15, -19, "FTP_UNSFREQ"),
    (15, -20, "FTP_BIGDLY"),
    (15, -21, "FTP_UNSDEV"),
    (15, -22, "FTP_SOFTWARE"),
    (15, -23, "FTP_NOTRDY"),
    (15, -24, "FTP_ARCNET"),
    (15, -25, "FTP_BADARM"),
    (15, -26, "FTP_INVFREQ_FOR_HARDWARE"),
    (15, -27, "FTP_BAD_PLOT_MODE"),
    (15, -28, "FTP_NO_SUCH_DEVICE"),
    (15, -29, "FTP_DEVICE_IN_USE"),
    (15, -30, "FTP_FREQ_TOO_HIGH"),
    (15, -31, "FTP_NO_SETUP"),
    (15, -32, "FTP_UNSUPPORTED_PROP"),
    (15, -33, "FTP_INVALID_CHANNEL"),
    (15, -34, "FTP_NO_FIFO"),
    (15, -35, "FTP_BAD_DATA_LENGTH"),
    (15, -36, "FTP_BUFFER_OVERFLOW"),
    (15, -37, "FTP_NO_EVENT_SUPPORT"),
    (15, -38, "FTP_TRIGGER_ERROR"),
    (15, -39, "FTP_INV_CLASS_DEF"),
    (15, -40, "FTP_NO_RANDOM_ACCESS"),
    (15, -41, "FTP_INVALID_OFFSET"),
    (15, -42, "FTP_NO_SNAPSHOT"),
    (15, -43, "FTP_EVENT_UNAVAILABLE"),
    (15, -44, "FTP_NO_FTPMAN_INIT"),
    (15, -100, "FTP_BADTIMES"),
    (15, -101, "FTP_BADRESETS"),
    (15, -102, "FTP_BADARG"),
    (15, -103, "FTP_BADRPY"),
    (16, 4, "DBM_DOCDEV"),
    (16, 2, "DBM_NODATA"),
    (16, 1, "DBM_PEND"),
    (16, -1, "DBM_GENERR"),
    (16, -2, "DBM_RMSE"),
    (16, -3, "DBM_DELDEV"),
    (16, -4, "DBM_OBSDEV"),
    (16, -5, "DBM_FULL"),
    (16, -6, "DBM_INCON"),
    (16, -7, "DBM_ILDEV"),
    (16, -8, "DBM_ILFN"),
    (16, -9, "DBM_ILPROP"),
    (16, -10, "DBM_ILHEAD"),
    (16, -11, "DBM_IPCD"),
    (16, -12, "DBM_WDPR"),
    (16, -13, "DBM_NOPROP"),
    (16, -14, "DBM_RLOV"),
    (16, -15, "DBM_NEAG"),
    (16, -16, "DBM_ILRINX"),
    (16, -17, "DBM_ILWORK"),
    (16, -18, "DBM_WORK_FULL"),
    (16, -19, "DBM_EMPTY"),
    (16, -20, "DBM_NOREC"),
    (16, -21, "DBM_NOSET"),
    (16, -22, "DBM_SRTL"),
    (16, -23, "DBM_NOFORWARD"),
    (16, -24, "DBM_TMO"),
    (16, -25, "DBM_LOCK"),
    (17, 3, "DPM_LARGE_LIST"),
    (17, 2, "DPM_STALE"),
    (17, 1, "DPM_PEND"),
    (17, -1, "DPM_RESTART_TOO_FAST"),
    (17, -2, "DPM_INVFCN"),
    (17, -3, "DPM_INVRINX"),
    (17, -4, "DPM_IVRXNM"),
    (17, -5, "DPM_NOTPROC"),
    (17, -6, "DPM_MARKDELET"),
    (17, -7, "DPM_MXLBIG"),
    (17, -8, "DPM_OFFLEN"),
    (17, -9, "DPM_OUTOMEM"),
    (17, -10, "DPM_TMOSET"),
    (17, -11, "DPM_LENSML"),
    (17, -12, "DPM_DPMSER"),
    (17, -13, "DPM_ILLFTD"),
    (17, -14, "DPM_SETBIG"),
    (17, -15, "DPM_NOSET"),
    (17, -16, "DPM_SETLOCK"),
    (17, -17, "DPM_PRIV"),
    (17, -18, "DPM_DBPRIV"),
    (17, -19, "DPM_REDIRECT"),
    (17, -20, "DPM_WHACKEDSETS"),
    (17, -21, "DPM_NODEFAULT"),
    (17, -22, "DPM_DUPLICATES"),
    (17, -23, "DPM_NO_TCLK"),
    (17, -24, "DPM_BAD_REQUEST"),
    (17, -25, "DPM_LOOKUP_FAILED"),
    (17, -26, "DPM_NO_SUCH_DEVICE"),
    (17, -27, "DPM_NO_SUCH_PROP"),
    (17, -28, "DPM_BAD_RANGE"),
    (17, -29, "DPM_OUT_OF_BOUNDS"),
    (17, -30, "DPM_BAD_FRAMING"),
    (17, -31, "DPM_NO_SCALE"),
    (17, -32, "DPM_NO_SUCH_FIELD"),
    (17, -33, "DPM_BAD_EVENT"),
    (17, -34, "DPM_BAD_DEF_EVENT"),
    (17, -35, "DPM_BAD_LENGTH"),
    (17, -36, "DPM_SCALING_FAILED"),
    (17, -37, "DPM_NO_SUCH_LIST"),
    (17, -38, "DPM_SERVICE_NOT_FOUND"),
    (17, -39, "DPM_CALLBACK_NOT_FOUND"),
    (17, -40, "DPM_DOC_DEVICE"),
    (17, -41, "DPM_GETS32_DISABLED"),
    (17, -42, "DPM_INVALID_DATASOURCE"),
    (17, -43, "DPM_BAD_DATASOURCE_FORMAT"),
    (17, -44, "DPM_REPLY_OVERFLOW"),
    (66, 7, "DAE_ALT_SCALING_REQD"),
    (66, 6, "DAE_OAC_UPDATING"),
    (66, 5, "DAE_BPM_ABORT"),
    (66, 4, "DAE_BPM_ALARM"),
    (66, 3, "DAE_NULL_SETTING"),
    (66, 2, "DAE_SETTING_SUPERCEDED"),
    (66, -1, "DAE_COMPARE_NODATA"),
    (66, -2, "DAE_COMPARE_UNSCALE_FAIL"),
    (66, -3, "DAE_COMPARE_NOSCALE"),
    (66, -4, "DAE_DOWNLOAD_NODATA"),
    (66, -5, "DAE_DOWNLOAD_EXCEPTION"),
    (66, -6, "DAE_SAVE_HEADER_NOTFOUND"),
    (66, -7, "DAE_SAVE_INCOMPLETE_DATA"),
    (66, -8, "DAE_SAVE_GET_EXCEPTION"),
    (66, -9, "DAE_SNAP_REPLY_TRUNCATED"),
    (66, -10, "DAE_SNAP_NO_EVENTS"),
    (66, -11, "DAE_FTP_GROUP_UNSUPPORTED"),
    (66, -12, "DAE_CONSOLIDATION_NOT_CONSOLIDATOR"),
    (66, -13, "DAE_CONSOLIDATION_EVENT_EXCEPTION"),
    (66, -14, "DAE_CONSOLIDATION_NO_POOL"),
    (66, -15, "DAE_CONSOLIDATION_UNAVAIL"),
    (66, -16, "DAE_OAC_UNAVAIL"),
    (66, -17, "DAE_OAC_NOT_IN_REPOSITORY"),
    (66, -18, "DAE_OAC_INVALID_LENGTH"),
    (66, -19, "DAE_ALARM_INVALID_TYPECODE"),
    (66, -20, "DAE_RETDAT_RECURSIVE"),
    (66, -21, "DAE_SETDAT_RECURSIVE"),
    (66, -22, "DAE_POOLER_RECURSIVE"),
    (66, -23, "DAE_RETDAT_TRUNCATED"),
    (66, -24, "DAE_OAC_NOT_OWNER"),
    (66, -25, "DAE_SETTING_NULL"),
    (66, -26, "DAE_SETTING_INVALID"),
    (66, -27, "DAE_SETTING_PRIVILEGE"),
    (66, -28, "DAE_SETTING_NOT_QUEUED"),
    (66, -29, "DAE_SETTING_NO_SUCH_KNOB"),
    (66, -30, "DAE_SETTING_NO_POOL"),
    (66, -31, "DAE_FTPMAN_RECURSIVE"),
    (66, -32, "DAE_LMBRJK_RECURSIVE"),
    (66, -33, "DAE_LMBRJK_TRUNCATED"),
    (66, -34, "DAE_LMBRJK_SUPPORT"),
    (66, -35, "DAE_LMBRJK_NOT_READY"),
    (66, -36, "DAE_LMBRJK_DUPLICATE_REQUEST"),
    (66, -37, "DAE_LMBRJK_ORDER"),
    (66, -38, "DAE_TARDY_SNAP_ZIP"),
    (66, -39, "DAE_BPM_SCALING"),
    (66, -40, "DAE_BPM_CACHE"),
    (66, -41, "DAE_BPM_INVALID"),
    (66, -44, "DAE_BPM_ERROR"),
    (66, -45, "DAE_IPADC_ERROR"),
    (66, -46, "DAE_BUGS_TRUNC"),
    (66, -47, "DAE_BUGS_TC"),
    (66, -48, "DAE_FTP_REPLY_LENGTH"),
    (66, -49, "DAE_BIG_SAVE_OFF"),
    (66, -50, "DAE_CONSOLIDATION_PLUS_ERROR"),
    (66, -51, "DAE_DATABASE_CHANGE"),
    (66, -52, "DAE_ONESHOT_INCOMPLETE"),
    (66, -53, "DAE_GENERIC_SETTING_ERROR"),
    (66, -54, "DAE_OUT_OF_SERVICE"),
    (66, -55, "DAE_SYNCH_PENDING"),
    (66, -56, "DAE_PARSE_SDA"),
    (66, -57, "DAE_PRIV_NODE_ACCOUNT"),
    (66, -58, "DAE_PRIV_NODE_DEVICE"),
    (66, -59, "DAE_PRIV_ACCOUNT_DEVICE"),
    (66, -60, "DAE_NOT_A_NUMBER"),
    (66, -61, "DAE_INFINITE"),
    (66, -62, "DAE_NO_CLIENT"),
    (66, -63, "DAE_GPIB_EXCEPTION"),
    (66, -64, "DAE_LJ_NO_DATA"),
    (66, -65, "DAE_OPC_BAD_DATA"),
    (66, -66, "DAE_OPC_SERVER_UNAVAIL"),
    (66, -67, "DAE_NOVA_PW_BAD_DATA"),
    (66, -68, "DAE_NOVA_PW_UNAVAIL"),
    (66, -69, "DAE_NOVA_SIEMENS_BAD_DATA"),
    (66, -70, "DAE_NOVA_SIEMENS_UNAVAIL"),
    (66, -71, "DAE_NOVA_PHIDGT_BAD_DATA"),
    (66, -72, "DAE_NOVA_PHIDGT_UNAVAIL"),
    (66, -73, "DAE_NOT_SUPPORTED"),
    (72, 1, "DMQ_PEND"),
    (72, -93, "DMQ_INVALID_DATA_TYPE"),
    (72, -94, "DMQ_SETTINGS_DISABLED"),
    (72, -95, "DMQ_INTERNAL_SERVER_ERROR"),
    (72, -96, "DMQ_CHANNEL_NOT_READY"),
    (72, -97, "DMQ_DUPLICATE_JOB"),
    (72, -98, "DMQ_INVALID_REQUEST"),
    (72, -99, "DMQ_SECURITY_VIOLATION"),
];
