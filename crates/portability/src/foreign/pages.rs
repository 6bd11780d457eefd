//! A database as the text of a file (XEP-0227), generated while it is read.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

use rookery_xml::{Element, Writer};

use super::accounts::{ArchivePosition, ForeignAccounts, ForeignFault};
use crate::input::InputWhose;
use crate::{ARCHIVE, PIE};

/// The text of the file.
pub(crate) struct Pages {
    accounts: Box<dyn ForeignAccounts>,
    domains: VecDeque<String>,
    /// The domain whose accounts are being read; `None` before the first domain and after the last.
    domain: Option<String>,
    /// The names of accounts of this domain that are still to be read, and the last name of the
    /// previous page.
    names: VecDeque<String>,
    last: Option<String>,
    /// The account whose archive is being read, and the position in the archive.
    archive: Option<(String, Option<ArchivePosition>)>,
    state: PageState,
    page: Vec<u8>,
    at: usize,
    whose: Rc<InputWhose>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PageState {
    Begin,
    Middle,
    End,
}

impl Pages {
    pub(super) fn new(accounts: Box<dyn ForeignAccounts>, domains: Vec<String>, whose: Rc<InputWhose>) -> Self {
        Self {
            accounts,
            domains: domains.into(),
            domain: None,
            names: VecDeque::new(),
            last: None,
            archive: None,
            state: PageState::Begin,
            page: Vec::new(),
            at: 0,
            whose,
        }
    }

    /// Generates the next page, which may be empty. Once the text is complete, the state is
    /// [`PageState::End`].
    fn turn(&mut self) -> Result<(), ForeignFault> {
        self.page.clear();
        self.at = 0;
        match self.state {
            PageState::Begin => {
                self.state = PageState::Middle;
                self.page.extend_from_slice(format!("<server-data xmlns='{PIE}'>\n").as_bytes());
            }
            PageState::Middle => self.middle()?,
            PageState::End => {}
        }
        Ok(())
    }

    fn middle(&mut self) -> Result<(), ForeignFault> {
        let Some(domain) = self.domain.clone() else {
            match self.domains.pop_front() {
                Some(domain) => {
                    self.page = open("host", "jid", &domain);
                    (self.domain, self.last) = (Some(domain), None);
                }
                None => {
                    self.page.extend_from_slice(b"</server-data>\n");
                    self.state = PageState::End;
                }
            }
            return Ok(());
        };
        if let Some((name, after)) = self.archive.take() {
            return self.archive(&domain, name, after);
        }
        if self.names.is_empty() {
            self.names = self.accounts.names(&domain, self.last.as_deref())?.into();
        }
        match self.names.pop_front() {
            Some(name) => self.account(&domain, name),
            None => {
                self.page.extend_from_slice(b"</host>\n");
                self.domain = None;
                self.whose.set(String::new());
                Ok(())
            }
        }
    }

    fn account(&mut self, domain: &str, name: String) -> Result<(), ForeignFault> {
        self.whose.set(format!("{name}@{domain}"));
        let (password, parts) = self.accounts.account(domain, &name)?;
        let mut user = Element::new("user", PIE).with_attr("name", &name);
        user = user.with_opt_attr("password", password);
        self.page = start(&user);
        parts.iter().for_each(|part| self.page.extend_from_slice(&inner(part)));
        self.last = Some(name.clone());
        self.archive = Some((name, None));
        self.page.extend_from_slice(format!("<archive xmlns='{ARCHIVE}'>\n").as_bytes());
        Ok(())
    }

    fn archive(&mut self, domain: &str, name: String, after: Option<ArchivePosition>) -> Result<(), ForeignFault> {
        let (messages, last) = self.accounts.archive(domain, &name, after)?;
        messages.iter().for_each(|message| self.page.extend_from_slice(&inner(message)));
        match last {
            Some(last) => self.archive = Some((name, Some(last))),
            None => self.page.extend_from_slice(b"</archive>\n</user>\n"),
        }
        Ok(())
    }
}

impl Read for Pages {
    /// Returns bytes of one page at a time. The next page is generated when this one was read to
    /// its end, so that reports name the right account.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.page.len() && self.state != PageState::End {
            self.turn().map_err(|ForeignFault(what)| io::Error::other(what))?;
        }
        let rest = self.page.get(self.at..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), rest.get(..length)) {
            to.copy_from_slice(from);
        }
        self.at += length;
        Ok(length)
    }
}

fn open(name: &str, attr: &str, value: &str) -> Vec<u8> {
    start(&Element::new(name, PIE).with_attr(attr, value))
}

/// Writes the start tag of an element without children.
fn start(element: &Element) -> Vec<u8> {
    let mut text = inner(element);
    // The element has no content, such as `<user …/>`.
    if text.ends_with(b"/>\n") {
        text.truncate(text.len() - 3);
        text.extend_from_slice(b">\n");
    }
    text
}

/// Writes an element within the file.
fn inner(element: &Element) -> Vec<u8> {
    // The writer omits the namespace of a client's stream, but the default namespace of the file is
    // another one.
    let mut wrapped = Writer::with_ns("x", PIE);
    wrapped.element(element);
    let bytes = wrapped.finish().into_bytes();
    let start = bytes.iter().position(|byte| *byte == b'>').map_or(0, |at| at + 1);
    let end = bytes.len().saturating_sub(b"</x>".len());
    let mut text = bytes.get(start..end).unwrap_or_default().to_vec();
    text.push(b'\n');
    text
}
