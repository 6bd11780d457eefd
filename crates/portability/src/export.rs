//! Exports an account, or all accounts of a domain, into a file or a pipe.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rookery_archive::id;
use rookery_base::chance;
use rookery_base::date;
use rookery_hub::{DocumentSpec, Exported};
use rookery_jid::Jid;
use rookery_store::pubsub::WantedItems;
use rookery_store::{ArchiveQuery, RosterItem, StoreError, StoredDocument, Stores, wait};
use rookery_xml::{Element, Writer, ns};

use super::nodes::{write_item, write_node};
use super::parts::{documents, write_document, write_keys};
use super::{ARCHIVE, OURS, PIE};

/// The reason why an export ended early.
#[derive(Debug)]
pub enum ExportError {
    /// The file can't be written.
    File(io::Error),
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Exports an account, or with a domain all of its accounts, into a new file that only its owner
/// can read. Returns the number of accounts. `damaged` is called for each unreadable stanza in the
/// store, which is left out.
///
/// # Errors
///
/// The file exists, can't be written, or the store failed. The incomplete file is removed.
pub fn to_new_file(
    what: &Jid,
    path: &Path,
    stores: &Stores,
    damaged: &mut dyn FnMut(&str),
) -> Result<usize, ExportError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = BufWriter::new(opened);
    let written = write(what, &mut out, stores, damaged);
    let synced = written.and_then(|accounts| {
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(accounts)
    });
    if synced.is_err() {
        // Half of an export could be taken for a complete one.
        let _ = fs::remove_file(path);
    }
    synced
}

/// Exports an account, or with a domain all of its accounts, as [`to_new_file`] does, but to a
/// pipe, whose reader notices if the end is missing.
///
/// # Errors
///
/// The writer or the store failed.
pub fn to_stream(
    what: &Jid,
    out: impl Write,
    stores: &Stores,
    damaged: &mut dyn FnMut(&str),
) -> Result<usize, ExportError> {
    let mut out = BufWriter::new(out);
    let accounts = write(what, &mut out, stores, damaged)?;
    out.flush()?;
    Ok(accounts)
}

/// Exports an account into an unnamed file in `folder`, which is deleted once its last reader
/// closes it. However large the export is, it takes no memory. `damaged` is called as by
/// [`to_new_file`].
///
/// # Errors
///
/// The file can't be written, or the store failed.
pub fn to_unnamed_file(
    account: &Jid,
    folder: &Path,
    stores: &Stores,
    damaged: &mut dyn FnMut(&str),
) -> Result<File, ExportError> {
    let mut number = [0; 8];
    chance::fill(&mut number).map_err(io::Error::other)?;
    let path = folder.join(format!("export-{:016x}", u64::from_ne_bytes(number)));
    let in_folder = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = opened.map_err(in_folder)?;
    fs::remove_file(&path).map_err(in_folder)?;
    let mut out = BufWriter::new(file);
    write(account, &mut out, stores, damaged)?;
    Ok(out.into_inner().map_err(io::IntoInnerError::into_error)?)
}

fn write(
    what: &Jid,
    out: &mut dyn Write,
    stores: &Stores,
    damaged: &mut dyn FnMut(&str),
) -> Result<usize, ExportError> {
    write!(out, "<?xml version='1.0' encoding='UTF-8'?>\n<server-data xmlns='{PIE}'>\n")?;
    out.write_all(&open("host", &[("jid", what.domain())]))?;
    let mut accounts = 0;
    let specs = &documents();
    if what.local().is_some() {
        ExportedAccount { out, stores, jid: what, damaged, specs }.write()?;
        accounts = 1;
    } else {
        let mut after: Option<Jid> = None;
        loop {
            let page = wait(stores.accounts.list(what.domain(), after.as_ref().map(Jid::as_ref), PAGE))?;
            for jid in &page {
                ExportedAccount { out, stores, jid, damaged, specs }.write()?;
            }
            accounts += page.len();
            after = page.last().cloned();
            if page.len() < PAGE {
                break;
            }
        }
    }
    out.write_all(b"</host>\n</server-data>\n")?;
    Ok(accounts)
}

/// An account that is being exported, with the stores to read from and the file to write to.
struct ExportedAccount<'a> {
    out: &'a mut dyn Write,
    stores: &'a Stores,
    jid: &'a Jid,
    damaged: &'a mut dyn FnMut(&str),
    specs: &'a [DocumentSpec],
}

impl ExportedAccount<'_> {
    fn write(mut self) -> Result<(), ExportError> {
        self.out.write_all(&open("user", &[("name", self.jid.local().unwrap_or_default())]))?;
        self.credentials()?;
        self.roster()?;
        self.offline()?;
        self.documents()?;
        self.nodes()?;
        self.archive()?;
        self.out.write_all(b"</user>\n")?;
        Ok(())
    }

    fn credentials(&mut self) -> Result<(), ExportError> {
        if let Some(found) = wait(self.stores.accounts.credentials(self.jid.as_ref()))? {
            for keys in [&found.sha1, &found.sha256, &found.sha512].into_iter().filter(|keys| !keys.is_none()) {
                self.element(&write_keys(keys))?;
            }
        }
        if wait(self.stores.accounts.is_disabled(self.jid.as_ref()))? {
            self.element(&Element::new("disabled", OURS))?;
        }
        Ok(())
    }

    /// Writes the roster in the form for clients (§4.4), and then the pending requests (§4.9).
    fn roster(&mut self) -> Result<(), ExportError> {
        let roster = wait(self.stores.rosters.get(self.jid.as_ref()))?;
        let visible = roster.items.iter().filter(|item| item.visible());
        let query = visible.fold(Element::new("query", ns::ROSTER), |query, item| query.with_child(item_element(item)));
        self.element(&query)?;
        for request in roster.items.iter().filter_map(|item| item.pending_in.as_ref()) {
            self.stanza(request)?;
        }
        Ok(())
    }

    /// Writes offline messages (§4.5) as they would be delivered, with the time at which they
    /// arrived.
    fn offline(&mut self) -> Result<(), ExportError> {
        let (mut after, mut is_open) = (0, false);
        loop {
            let page = wait(self.stores.offline.load(self.jid.as_ref(), after, PAGE_BYTES))?;
            let Some(last) = page.last() else { break };
            after = last.id;
            if !is_open {
                self.out.write_all(b"<offline-messages>\n")?;
                is_open = true;
            }
            for message in &page {
                if let Some(mut stanza) = self.read(&message.stanza) {
                    let delay = Element::new("delay", ns::DELAY).with_attr("from", self.jid.domain());
                    stanza.push_child(delay.with_attr("stamp", date::timestamp(message.unix_ms)));
                    self.element(&stanza)?;
                }
            }
        }
        if is_open {
            self.out.write_all(b"</offline-messages>\n")?;
        }
        Ok(())
    }

    /// Writes private storage, the vCard and privacy lists (§4.6 to §4.8), and the other documents
    /// of modules.
    fn documents(&mut self) -> Result<(), ExportError> {
        let form = |document: &StoredDocument| {
            self.specs.iter().find(|spec| spec.name.is(&document.name)).map(|spec| spec.export)
        };
        let (private, others): (Vec<_>, Vec<_>) = wait(self.stores.documents.starting(self.jid.as_ref(), ""))?
            .into_iter()
            .partition(|document| form(document) == Some(Exported::Private));
        let private: Vec<_> = private.iter().filter_map(|document| Element::parse(&document.bytes).ok()).collect();
        if !private.is_empty() {
            self.element(&private.into_iter().fold(Element::new("query", ns::PRIVATE), Element::with_child))?;
        }
        for document in others {
            let element = match form(&document) {
                Some(Exported::Element { name, ns }) => {
                    Element::parse(&document.bytes).ok().filter(|element| element.is(name, ns))
                }
                _ => None,
            };
            self.element(&element.unwrap_or_else(|| write_document(&document.name, &document.bytes)))?;
        }
        Ok(())
    }

    /// Writes nodes (§4.10): first all nodes, then their items, page by page.
    fn nodes(&mut self) -> Result<(), ExportError> {
        let mut ids = Vec::new();
        loop {
            let after = ids.last().map_or("", String::as_str);
            let page = wait(self.stores.pubsub.nodes(self.jid.as_ref(), self.jid.as_ref(), after, PAGE))?;
            let is_last = page.len() < PAGE;
            ids.extend(page.into_iter().map(|listed| listed.node));
            if is_last {
                break;
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "<pubsub xmlns='{}'>", ns::PUBSUB_OWNER)?;
        for id in &ids {
            if let Some(node) = wait(self.stores.pubsub.node(self.jid.as_ref(), id))? {
                for element in write_node(id, &node, self.jid) {
                    self.element(&element)?;
                }
            }
        }
        writeln!(self.out, "</pubsub>\n<pubsub xmlns='{}'>", ns::PUBSUB)?;
        for id in &ids {
            self.out.write_all(&open("items", &[("node", id)]))?;
            let mut after = None;
            loop {
                let wanted = WantedItems::After(after, PAGE);
                let page = wait(self.stores.pubsub.items(self.jid.as_ref(), id, wanted, 0))?.unwrap_or_default();
                let Some(last) = page.items.last() else { break };
                after = Some(last.id.clone());
                for item in &page.items {
                    self.element(&write_item(item))?;
                }
            }
            self.out.write_all(b"</items>\n")?;
        }
        self.out.write_all(b"</pubsub>\n")?;
        Ok(())
    }

    /// Writes the archive (§4.11), page by page.
    fn archive(&mut self) -> Result<(), ExportError> {
        let (mut after, mut is_open) = (0, false);
        loop {
            let query = ArchiveQuery { after, limit: ARCHIVE_PAGE, max_bytes: PAGE_BYTES, ..ArchiveQuery::default() };
            let page = wait(self.stores.archive.page(self.jid.as_ref(), query))?.unwrap_or_default();
            let Some((last, _)) = page.messages.last() else { break };
            after = *last;
            if !is_open {
                writeln!(self.out, "<archive xmlns='{ARCHIVE}'>")?;
                is_open = true;
            }
            for (id, stanza) in &page.messages {
                if let Some(message) = self.read(stanza) {
                    let delay = Element::new("delay", ns::DELAY).with_attr("stamp", date::timestamp(id::time(*id)));
                    let forwarded = Element::new("forwarded", ns::FORWARD).with_child(delay).with_child(message);
                    let result = Element::new("result", ns::MAM).with_attr("id", id::text(*id));
                    self.element(&result.with_child(forwarded))?;
                }
            }
        }
        if is_open {
            self.out.write_all(b"</archive>\n")?;
        }
        Ok(())
    }

    /// Writes a stored stanza.
    fn stanza(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        match self.read(bytes) {
            Some(stanza) => self.element(&stanza),
            None => Ok(()),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Option<Element> {
        let read = Element::parse(bytes);
        if let Err(fault) = &read {
            (self.damaged)(&format!("{}: a stanza in the store is damaged and left out: {fault}", self.jid));
        }
        read.ok()
    }

    fn element(&mut self, element: &Element) -> Result<(), ExportError> {
        // The writer omits the namespace of a client's stream, but the default namespace of the
        // file is another one.
        let mut wrapped = Writer::with_ns("x", PIE);
        wrapped.element(element);
        let bytes = wrapped.finish().into_bytes();
        let start = bytes.iter().position(|byte| *byte == b'>').map_or(0, |at| at + 1);
        let end = bytes.len().saturating_sub(b"</x>".len());
        self.out.write_all(bytes.get(start..end).unwrap_or_default())?;
        self.out.write_all(b"\n")?;
        Ok(())
    }
}

fn item_element(item: &RosterItem) -> Element {
    let element = Element::new("item", ns::ROSTER).with_attr("jid", item.jid.as_str());
    let element = element.with_opt_attr("name", item.name.as_deref());
    let element = element.with_attr("subscription", item.subscription.as_str());
    let element = element.with_opt_attr("ask", item.ask.then_some("subscribe"));
    let element = element.with_opt_attr("approved", item.approved.then_some("true"));
    item.groups
        .iter()
        .fold(element, |element, group| element.with_child(Element::new("group", ns::ROSTER).with_text(group)))
}

/// Returns the start tag of an element of the file.
fn open(name: &str, attrs: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = Writer::with_ns(name, PIE);
    for (name, value) in attrs {
        writer.attr(name, value);
    }
    let text = String::from_utf8_lossy(writer.finish().bytes()).into_owned();
    let tag = text.replacen(&format!(" xmlns='{PIE}'"), "", 1);
    format!("{}>\n", tag.trim_end_matches('>').trim_end_matches('/')).into_bytes()
}

/// The most accounts that are read at a time.
const PAGE: usize = 1000;
/// The most messages of an archive that are read at a time.
const ARCHIVE_PAGE: usize = 500;
/// The most bytes of messages that are read at a time.
const PAGE_BYTES: usize = 1 << 20;
