//! Logs of rooms whose owners want them: a text file and a page for each day, in
//! `FOLDER/SERVICE/ROOM/YYYY-MM-DD.txt` and `.html`, in UTC.
//!
//! Messages are collected and written in the background: one piece of work per room at a time, so
//! that lines stay in order and a slow disk delays nobody. Lines that can't be written are lost,
//! which is logged once per piece of work.
//!
//! # Invariants
//!
//! - Nothing that occupants write ends a line of the text or is interpreted as HTML.
//! - A room's name never leads out of its folder.
//! - Private messages aren't logged, and neither are real addresses.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a log for people is a file; it is written in the background alone"
)]

use rookery_base::Map;
use std::fs::{File, OpenOptions, create_dir_all};
use std::io::Write;
use std::path::{Path, PathBuf};

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_xml::{Element, Stanza, escape_text, ns};
use time::OffsetDateTime;
use tracing::warn;

use super::room::Room;
use super::shown::ShownPresence;

/// The lines that wait to be written, by room.
#[derive(Debug, Default)]
pub(crate) struct Logs(Map<Jid, WaitingLog>);

/// A room with lines that wait, or are being written.
#[derive(Debug, Default)]
struct WaitingLog {
    /// The language of the room, if its owner has named it.
    lang: String,
    lines: Vec<LogLine>,
    bytes: usize,
    /// The number of lines dropped for lack of space.
    lost: usize,
}

/// A line of a log, before it is written to the two files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LogLine {
    unix_ms: u64,
    nick: String,
    what: LogEvent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LogEvent {
    /// A message.
    Said(String),
    /// An act in the third person: "enters".
    Did(String),
}

impl Room {
    pub(crate) fn log_message(&self, world: &mut World, at: usize, stanza: Stanza<'_>, is_subject: bool) {
        if !self.is_logged() || !(is_subject || stanza.has_body()) {
            return;
        }
        let message = Element::read(&stanza);
        let text = |name| message.child_text(name, ns::CLIENT).unwrap_or_default();
        let what = match is_subject {
            true => LogEvent::Did(format!("sets the subject to: {}", text("subject"))),
            false => LogEvent::Said(text("body")),
        };
        self.log(world, at, what);
    }

    pub(crate) fn log_coming(&self, world: &mut World, at: usize) {
        self.log(world, at, LogEvent::Did("enters".to_owned()));
    }

    pub(crate) fn log_going(&self, world: &mut World, at: usize, shown: &ShownPresence<'_>) {
        let how = match shown.codes.first() {
            Some(301) => "is banned",
            Some(307) => "is kicked",
            Some(321 | 322) => "is removed",
            _ => "leaves",
        };
        let what = shown.reason.map_or(how.to_owned(), |reason| format!("{how}: {reason}"));
        self.log(world, at, LogEvent::Did(what));
    }

    pub(crate) fn log_nick(&self, world: &mut World, at: usize, nick: &str) {
        self.log(world, at, LogEvent::Did(format!("is now known as {nick}")));
    }

    fn is_logged(&self) -> bool {
        self.config.is_logged && self.limits.logs.is_some()
    }

    fn log(&self, world: &mut World, at: usize, what: LogEvent) {
        if !self.is_logged() {
            return;
        }
        let (Some(folder), Some(occupant)) = (&self.limits.logs, self.occupants.get(at)) else { return };
        let line = LogLine { unix_ms: world.time(), nick: occupant.nick().to_owned(), what };
        if world.state_mut::<Logs>().add(&self.jid, &self.config.lang, line) {
            write(world, folder.into(), self.jid.clone());
        }
    }
}

impl Logs {
    /// Queues a line. Returns `true` if no line of the room waits or is being written yet.
    fn add(&mut self, room: &Jid, lang: &str, line: LogLine) -> bool {
        let is_idle = !self.0.contains_key(room);
        let waiting = self.0.entry(room.clone()).or_default();
        let bytes = line.bytes();
        lang.clone_into(&mut waiting.lang);
        if waiting.bytes + bytes > MOST_WAITING {
            waiting.lost += 1;
        } else {
            waiting.bytes += bytes;
            waiting.lines.push(line);
        }
        is_idle
    }

    /// Takes out the waiting lines of a room, which counts as being written from now on. `None` if
    /// there are none: then all is written.
    fn take(&mut self, room: &Jid) -> Option<WaitingLog> {
        let waiting = self.0.get_mut(room).map(std::mem::take);
        let waiting = waiting.filter(|waiting| !waiting.lines.is_empty() || waiting.lost > 0);
        if waiting.is_none() {
            self.0.remove(room);
        }
        waiting
    }
}

/// Writes the waiting lines of a room, then those that have arrived meanwhile.
fn write(world: &mut World, folder: PathBuf, room: Jid) {
    let Some(WaitingLog { lang, lines, lost, .. }) = world.state_mut::<Logs>().take(&room) else { return };
    let (path, name) = (place(&folder, &room), room.clone());
    let written = world.background.run(room.as_str(), move || append(&path, &name, &lang, &lines));
    world.wait(written, move |world, written| {
        let failed = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failed.or_else(|| (lost > 0).then(|| format!("{lost} lines: too much waits"))) {
            warn!(%room, error, "messages are missing from the log of a room");
        }
        write(world, folder, room);
    });
}

impl LogLine {
    fn bytes(&self) -> usize {
        let (LogEvent::Said(text) | LogEvent::Did(text)) = &self.what;
        self.nick.len() + text.len() + BYTES_PER_LINE
    }

    /// Returns `[12:34:56] <nick> text`; further lines of a text are indented, so that none passes
    /// for another occupant's.
    fn text(&self) -> String {
        let time = time(self.unix_ms);
        let clean = |text: &str| {
            let text = text.replace("\r\n", "\n").replace('\n', "\n    ");
            text.chars().filter(|&c| c == '\n' || !(c.is_control() || BREAKS.contains(&c))).collect::<String>()
        };
        let nick = clean(&self.nick);
        match &self.what {
            LogEvent::Said(text) => match text.strip_prefix("/me ") {
                Some(action) => format!("[{time}] * {nick} {}\n", clean(action)),
                None => format!("[{time}] <{nick}> {}\n", clean(text)),
            },
            LogEvent::Did(text) => format!("[{time}] * {nick} {}\n", clean(text)),
        }
    }

    fn html(&self) -> String {
        let (time, nick) = (time(self.unix_ms), escape_text(&self.nick));
        let escaped = |text: &str| escape_text(text).replace('\n', "<br>");
        match &self.what {
            LogEvent::Said(text) => match text.strip_prefix("/me ") {
                Some(action) => format!("<p class=\"did\"><time>{time}</time> <b>{nick}</b> {}</p>\n", escaped(action)),
                None => format!("<p><time>{time}</time> <b>{nick}</b>: {}</p>\n", escaped(text)),
            },
            LogEvent::Did(text) => {
                format!("<p class=\"did\"><time>{time}</time> <b>{nick}</b> {}</p>\n", escaped(text))
            }
        }
    }
}

/// Adds lines to the files of their days.
fn append(folder: &Path, room: &Jid, lang: &str, lines: &[LogLine]) -> std::io::Result<()> {
    create_dir_all(folder)?;
    for of_day in lines.chunk_by(|one, other| day(one.unix_ms) == day(other.unix_ms)) {
        let Some(first) = of_day.first() else { continue };
        let day = day(first.unix_ms);
        let (text, _) = open(&folder.join(format!("{day}.txt")))?;
        let (html, is_new) = open(&folder.join(format!("{day}.html")))?;
        let text_lines: String = of_day.iter().map(LogLine::text).collect();
        let mut page = if is_new { head(room, lang, &day) } else { String::new() };
        page.extend(of_day.iter().map(LogLine::html));
        write_all(text, &text_lines)?;
        write_all(html, &page)?;
    }
    Ok(())
}

fn open(path: &Path) -> std::io::Result<(File, bool)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let is_new = file.metadata()?.len() == 0;
    Ok((file, is_new))
}

fn write_all(mut file: File, text: &str) -> std::io::Result<()> {
    file.write_all(text.as_bytes())
}

/// Returns the beginning of a page. Its end needs no tags.
fn head(room: &Jid, lang: &str, day: &str) -> String {
    let room = escape_text(room.as_str()).into_owned();
    // Stored rooms may have an invalid language from before it was checked.
    let is_language = !lang.is_empty() && lang.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let lang = if is_language { lang } else { "en" };
    format!(
        "<!DOCTYPE html>\n<html lang=\"{lang}\"><meta charset=\"utf-8\"><title>{room}, {day}</title>\n\
         <style>body {{ font-family: sans-serif }} p {{ margin: 0.2em }} time, .did {{ color: #666 }}</style>\n\
         <h1>{room}, {day}</h1>\n"
    )
}

/// Returns the folder of a room: characters that could have another meaning in a path are written
/// as their bytes.
fn place(folder: &Path, room: &Jid) -> PathBuf {
    folder.join(file_name(room.domain())).join(file_name(room.local().unwrap_or_default()))
}

fn file_name(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            b'.' if at > 0 => name.push('.'),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    // File systems don't allow longer names, and a hash of the rest wouldn't help to find the room.
    name.truncate(LONGEST_NAME);
    name
}

fn moment(unix_ms: u64) -> OffsetDateTime {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or_default();
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn day(unix_ms: u64) -> String {
    let moment = moment(unix_ms);
    format!("{:04}-{:02}-{:02}", moment.year(), u8::from(moment.month()), moment.day())
}

fn time(unix_ms: u64) -> String {
    let moment = moment(unix_ms);
    format!("{:02}:{:02}:{:02}", moment.hour(), moment.minute(), moment.second())
}

/// The most bytes that may wait for the log of one room.
const MOST_WAITING: usize = 1024 * 1024;
/// The size of a line in memory beyond its text.
const BYTES_PER_LINE: usize = 64;
/// The longest name of a folder, in bytes.
const LONGEST_NAME: usize = 200;
/// Characters that some programs take for the end of a line.
const BREAKS: [char; 2] = ['\u{2028}', '\u{2029}'];

#[cfg(test)]
mod tests {
    use super::*;

    fn line(what: LogEvent) -> LogLine {
        LogLine { unix_ms: 1_700_000_000_000, nick: "<script>".into(), what }
    }

    #[test]
    fn nothing_that_is_said_becomes_html_or_another_line() {
        let said = line(LogEvent::Said("<b>1 & 2</b>\n[00:00:00] <crone> forged\u{2028}\u{7}".into()));
        assert_eq!(said.text(), "[22:13:20] <<script>> <b>1 & 2</b>\n    [00:00:00] <crone> forged\n");
        let html = said.html();
        assert!(
            html.starts_with("<p><time>22:13:20</time> <b>&lt;script&gt;</b>: &lt;b&gt;1 &amp; 2&lt;/b&gt;<br>"),
            "{html}"
        );
        assert!(line(LogEvent::Said("/me waves".into())).text().ends_with("* <script> waves\n"));
    }

    #[test]
    fn a_room_stays_in_its_folder() {
        for (room, wanted) in [
            ("..@chat.example", "logs/chat.example/%2E."),
            ("a.b@chat.example", "logs/chat.example/a.b"),
            ("hex%@chat.example", "logs/chat.example/hex%25"),
            ("\u{e9}@chat.example", "logs/chat.example/%C3%A9"),
        ] {
            assert_eq!(place(Path::new("logs"), &Jid::parse(room).unwrap()), Path::new(wanted));
        }
    }
}
