//! The imported file: events with their line numbers, elements, and the files that it includes.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rookery_base::hex;
use rookery_xml::{Attr, Element, ns};
use rxml::{Event, Options, Reader};

/// An open file, or a database that is read as one.
pub struct Input {
    reader: Reader<CountedLines>,
    line: Rc<Cell<u64>>,
    /// The path of the file, or the name of the database.
    path: PathBuf,
    /// The account that is being read from a database: reports name it in place of a line.
    whose: Option<Rc<InputWhose>>,
    /// The depth of the file in nested inclusions.
    depth: usize,
}

/// The account that is being read from a database.
#[derive(Debug, Default)]
pub struct InputWhose(RefCell<String>);

impl InputWhose {
    /// Sets the current account.
    pub fn set(&self, account: String) {
        *self.0.borrow_mut() = account;
    }
}

/// The start of an element.
#[derive(Debug)]
pub struct Tag {
    element: Element,
    /// The line on which the element's start tag ends, for reports.
    pub line: u64,
}

/// The next piece within an element.
#[derive(Debug)]
pub enum InputNext {
    /// A child begins.
    Start(Tag),
    /// The element ends.
    End,
}

impl Tag {
    /// Returns whether this is the start of an element with this name and namespace.
    pub fn is(&self, name: &str, ns: &str) -> bool {
        self.element.is(name, ns)
    }

    /// Returns the value of an attribute.
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.element.attr(name)
    }

    /// Returns the name of the element for reports.
    pub fn name(&self) -> String {
        format!("<{} xmlns='{}'/>", self.element.name(), self.element.ns())
    }
}

impl Input {
    /// Reads an open file under this name.
    pub fn of_opened(path: &Path, content: impl Read + 'static) -> Self {
        Self::of(path.to_owned(), Box::new(content), 0)
    }

    fn open_nested(path: PathBuf, depth: usize) -> io::Result<Self> {
        let file = File::open(&path)?;
        Ok(Self::of(path, Box::new(file), depth))
    }

    fn of(path: PathBuf, content: Box<dyn Read>, depth: usize) -> Self {
        let line = Rc::new(Cell::new(1));
        let lines = CountedLines { file: BufReader::new(content), line: line.clone() };
        Self { reader: reader(lines), line, path, whose: None, depth }
    }

    /// Reads a database as a file, whose current account is in `whose`.
    pub fn of_database(name: &str, pages: impl Read + 'static, whose: Rc<InputWhose>) -> Self {
        let line = Rc::new(Cell::new(1));
        let pages: Box<dyn Read> = Box::new(pages);
        let lines = CountedLines { file: BufReader::new(pages), line: line.clone() };
        Self { reader: reader(lines), line, path: name.into(), whose: Some(whose), depth: MAX_INCLUDES }
    }

    /// Returns a position for reports: the file and the line, or the database and the account.
    pub fn place(&self, line: u64) -> String {
        let path = self.path.display();
        match self.whose.as_ref().map(|whose| whose.0.borrow()) {
            None => format!("{path}:{line}"),
            Some(whose) if whose.is_empty() => path.to_string(),
            Some(whose) => format!("{path}: {whose}"),
        }
    }

    /// Returns the file that an element of XInclude names by a relative URI (§5), in the folder of
    /// this file.
    ///
    /// # Errors
    /// The reason why it isn't opened.
    pub fn open_included(&self, include: &Tag) -> Result<Self, String> {
        let href = include.attr("href").ok_or("an include without href")?;
        if include.attr("parse").is_some_and(|parse| parse != "xml") || include.attr("xpointer").is_some() {
            return Err("an include that isn't of a whole XML file".into());
        }
        if href.starts_with('/') || href.contains(':') {
            return Err(format!("an include of {href:?}, which isn't next to this file"));
        }
        if self.depth == MAX_INCLUDES {
            return Err("too many nested includes".into());
        }
        let href = unescape(href).ok_or_else(|| format!("an include of {href:?}, which isn't the name of a file"))?;
        let path = self.path.parent().unwrap_or(Path::new("")).join(href);
        Self::open_nested(path.clone(), self.depth + 1)
            .map_err(|error| format!("{} can't be included: {error}", path.display()))
    }

    /// Returns the root element.
    ///
    /// # Errors
    /// As for [`Input::next`].
    pub fn root(&mut self) -> Result<Tag, String> {
        match self.next()? {
            InputNext::Start(tag) => Ok(tag),
            InputNext::End => Err(self.fault("there is no element in it")),
        }
    }

    /// Returns the next piece, leaving out text.
    ///
    /// # Errors
    /// A text that names the fault, with the file and the line.
    pub fn next(&mut self) -> Result<InputNext, String> {
        loop {
            match self.event()? {
                Event::StartElement(_, (ns, name), attrs) => {
                    let mut element = Element::new(name.as_str(), ns.as_str());
                    for ((ns, name), value) in attrs {
                        let prefix = if ns == ns::XML { "xml:" } else { "" };
                        let name = format!("{prefix}{name}");
                        element = element.with_namespaced_attr(Attr { name, ns: ns.as_str().into(), value });
                    }
                    return Ok(InputNext::Start(Tag { element, line: self.line() }));
                }
                Event::EndElement(_) => return Ok(InputNext::End),
                Event::Text(..) | Event::XmlDeclaration(..) => {}
            }
        }
    }

    /// Reads the whole of an element that has begun. Returns `None` if it is larger than a server
    /// would accept, after skipping it.
    ///
    /// # Errors
    /// As for [`Input::next`].
    pub fn element(&mut self, tag: Tag) -> Result<Option<Element>, String> {
        let (mut open, mut bytes) = (vec![tag.element], 0);
        let mut is_too_large = false;
        let mut depth = 1_usize;
        loop {
            let event = self.event()?;
            bytes += event.metrics().len();
            is_too_large |= bytes > MAX_ELEMENT || depth > MAX_DEPTH;
            match event {
                Event::StartElement(_, (ns, name), attrs) => {
                    depth += 1;
                    if is_too_large {
                        continue;
                    }
                    let mut element = Element::new(name.as_str(), ns.as_str());
                    for ((ns, name), value) in attrs {
                        let prefix = if ns == ns::XML { "xml:" } else { "" };
                        let name = format!("{prefix}{name}");
                        element = element.with_namespaced_attr(Attr { name, ns: ns.as_str().into(), value });
                    }
                    open.push(element);
                }
                Event::EndElement(_) => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(open.pop().filter(|_| !is_too_large));
                    }
                    if is_too_large {
                        continue;
                    }
                    if let (Some(element), Some(parent)) = (open.pop(), open.last_mut()) {
                        parent.push_child(element);
                    }
                }
                Event::Text(_, text) if !is_too_large => {
                    if let Some(element) = open.last_mut() {
                        element.push_text(&text);
                    }
                }
                Event::Text(..) | Event::XmlDeclaration(..) => {}
            }
        }
    }

    /// Skips the rest of an element that has begun.
    ///
    /// # Errors
    /// As for [`Input::next`].
    pub fn skip(&mut self) -> Result<(), String> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.next()? {
                InputNext::Start(_) => depth += 1,
                InputNext::End => depth -= 1,
            }
        }
        Ok(())
    }

    /// Returns the line up to which the file has been read, for reports.
    pub fn line(&self) -> u64 {
        self.line.get()
    }

    fn event(&mut self) -> Result<Event, String> {
        match self.reader.read() {
            Ok(Some(event)) => Ok(event),
            Ok(None) => Err(self.fault("it ends too early")),
            Err(error) => Err(self.fault(&error.to_string())),
        }
    }

    fn fault(&self, what: &str) -> String {
        format!("{}: {what}", self.place(self.line()))
    }
}

/// A file that counts its lines.
struct CountedLines {
    file: BufReader<Box<dyn Read>>,
    line: Rc<Cell<u64>>,
}

impl Read for CountedLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for CountedLines {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        let passed = self.file.buffer().get(..amount).unwrap_or_default();
        let lines = passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.line.set(self.line.get() + lines);
        self.file.consume(amount);
    }
}

fn reader(lines: CountedLines) -> Reader<CountedLines> {
    let comments = rxml::parser::CommentMode::Discard;
    Reader::with_options(lines, Options { max_token_length: MAX_TOKEN, comments, ..Options::default() })
}

/// Decodes the percent-encoding in a part of a URI (RFC 3986 §2.1).
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let [byte] = hex::decode(std::str::from_utf8(rest.get(..2)?).ok()?)?;
        bytes.push(byte);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

/// The most bytes of an attribute or of a piece of text.
const MAX_TOKEN: usize = 1 << 20;
/// The most bytes of one element, such as an avatar or a message.
const MAX_ELEMENT: usize = 16 << 20;
/// The deepest nesting of elements, the same as in stanzas.
const MAX_DEPTH: usize = 30;
/// The deepest nesting of included files.
const MAX_INCLUDES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_names_are_resolved() {
        assert_eq!(unescape("a%20b/c.xml").as_deref(), Some("a b/c.xml"));
        assert_eq!((unescape("a%2"), unescape("a%zz"), unescape("%ff")), (None, None, None));
    }
}
