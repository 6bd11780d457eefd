//! The audit log: a line for each attempted setting, and for each failed proof.

use std::fmt::{self, Debug};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::setting::WantedValue;
use crate::status::Status;
use crate::time::{Moment, Utc};

/// The place from which a client acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientPlace {
    /// An address and a port.
    Socket(SocketAddr),
    /// A node of ACNET, by trunk and number, whose address only an acnetd knows.
    Node(u16),
}

impl ClientPlace {
    /// Returns the name of the host: its address, or its number as a node.
    pub fn host(&self) -> String {
        match self {
            Self::Socket(socket) => socket.ip().to_string(),
            Self::Node(_) => self.to_string(),
        }
    }
}

/// Writes `127.0.0.1:5000` or `node:0a07`.
impl fmt::Display for ClientPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => write!(formatter, "{socket}"),
            Self::Node(node) => write!(formatter, "node:{node:04x}"),
        }
    }
}

/// An attempt, and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The proven principal; `None` if there is no proof.
    pub principal: Option<String>,
    /// The role, as the client stated it.
    pub role: Option<String>,
    /// The client's place; `None` for a client of this process.
    pub from: Option<ClientPlace>,
    /// The request in canonical form, or the reason why a proof failed.
    pub what: String,
    /// The value; `None` if there was none to set.
    pub value: Option<WantedValue>,
    /// The outcome.
    pub verdict: Status,
}

/// A log of attempts.
pub trait Audit: Debug + Send {
    /// Records an attempt.
    fn record(&mut self, attempt: &Attempt, now: Moment);
}

/// A file to which lines are appended. It is opened for each line, so that it can be renamed at any
/// time.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    /// True if the last line couldn't be written.
    is_broken: bool,
}

impl AuditFile {
    /// Opens a log in a file, which is created if necessary, readable by its owner only. Fails if
    /// that is impossible.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let log = Self { path, is_broken: false };
        log.append(b"").map(|()| log)
    }

    fn append(&self, line: &[u8]) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?.write_all(line)
    }
}

impl Audit for AuditFile {
    fn record(&mut self, attempt: &Attempt, now: Moment) {
        let line = format!("{} {attempt}\n", Utc(now.unix_millis));
        match self.append(line.as_bytes()) {
            Ok(()) => self.is_broken = false,
            Err(error) => {
                // The line isn't lost: it goes to the log of the process.
                if !std::mem::replace(&mut self.is_broken, true) {
                    eprintln!("rookery: the audit log {} can't be written: {error}", self.path.display());
                }
                eprint!("rookery: {line}");
            }
        }
    }
}

/// Writes `operator@FNAL.GOV role=testing from=127.0.0.1:5000 Z:CUBE_X.SETTING@N = 45.5: [0 0]`.
/// Text from a client is quoted if it could be misread.
impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", Word(self.principal.as_deref().unwrap_or("-")))?;
        write!(formatter, " role={}", Word(self.role.as_deref().unwrap_or("-")))?;
        match self.from {
            Some(from) => write!(formatter, " from={from}")?,
            None => write!(formatter, " from=-")?,
        }
        write!(formatter, " {}", Word(&self.what))?;
        match &self.value {
            None => {}
            Some(WantedValue::Scaled(numbers)) => {
                write!(formatter, " = {}", FirstValues(numbers.iter(), numbers.len()))?
            }
            Some(WantedValue::Text(texts)) => write!(formatter, " = {}", FirstValues(texts.iter(), texts.len()))?,
            Some(WantedValue::Raw(bytes)) => {
                write!(formatter, " = 0x")?;
                bytes.iter().take(LONGEST).try_for_each(|byte| write!(formatter, "{byte:02x}"))?;
                if bytes.len() > LONGEST {
                    write!(formatter, "…({} bytes)", bytes.len())?;
                }
            }
        }
        write!(formatter, ": {}", self.verdict)
    }
}

/// A word, unchanged if it is plain, otherwise quoted and escaped.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain =
            !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'=');
        if is_plain { formatter.write_str(self.0) } else { write!(formatter, "{:?}", self.0) }
    }
}

/// The first of some values.
struct FirstValues<I>(I, usize);

impl<T: Debug, I: Iterator<Item = T> + Clone> fmt::Display for FirstValues<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, value) in self.0.clone().take(LONGEST).enumerate() {
            write!(formatter, "{}{value:?}", if place == 0 { "" } else { "," })?;
        }
        if self.1 > LONGEST { write!(formatter, "…({} values)", self.1) } else { Ok(()) }
    }
}

/// The most values, or bytes, of a setting that a line shows.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::{Attempt, ClientPlace};
    use crate::setting::WantedValue;
    use crate::status::Status;
    use crate::time::Utc;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_795_252_989_805, "2026-11-21T09:23:09.805Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Utc(millis).to_string(), text);
        }
    }

    #[test]
    fn a_line_says_who_what_and_how_it_went_and_cannot_be_forged() {
        let mut attempt = Attempt {
            principal: Some("operator@FNAL.GOV".into()),
            role: Some("testing".into()),
            from: "127.0.0.1:5000".parse().ok().map(ClientPlace::Socket),
            what: "Z:CUBE_X.SETTING@N".into(),
            value: Some(WantedValue::Scaled(vec![45.5, 1.0])),
            verdict: Status::PRIV,
        };
        let said =
            "operator@FNAL.GOV role=testing from=127.0.0.1:5000 Z:CUBE_X.SETTING@N = 45.5,1.0: [17 -17] DPM_PRIV";
        assert_eq!(attempt.to_string(), said);
        attempt.role = Some("a\nroot@FNAL.GOV role=b".into());
        attempt.value = Some(WantedValue::Text(vec!["\n".into()]));
        assert_eq!(attempt.to_string().lines().count(), 1);
        assert!(attempt.to_string().contains(r#"role="a\nroot@FNAL.GOV role=b" "#), "{attempt}");
        attempt.value = Some(WantedValue::Raw(vec![0xab; 100]));
        assert!(attempt.to_string().contains("abab…(100 bytes)"), "{attempt}");
        attempt.from = Some(ClientPlace::Node(0x0a07));
        assert!(attempt.to_string().contains(" from=node:0a07 "), "{attempt}");
    }
}
