//! An account that is being imported into the stores.
//!
//! The standard doesn't order the parts of an account. So the account is created when the first
//! part needs it, with unusable keys if none were read before; keys that are read later replace
//! these.

use rookery_archive::id;
use rookery_jid::Jid;
use rookery_pubsub::bookmarks;
use rookery_sasl::{Credentials, Keys};
use rookery_store::pubsub::{Created, Item, ItemsKept, NodeRoom};
use rookery_store::{
    ArchiveOf, ArchivedMessage, Edit, EditRoster, OfflineRoom, Pending, RosterItem, Subscription, wait,
};
use rookery_xml::{Element, Writer, ns};

use super::ahead::WritesAhead;
use super::input::{Input, InputNext, Tag};
use super::nodes::{read_affiliation, read_config, read_item, read_subscription};
use super::parts::{complete, keys_in_password, name_of, read_document, read_keys, time};
use super::progress::{ImportError, RunningImport, is_keys};
use super::{ARCHIVE, OURS, PIE};

/// An account during its import.
pub struct ImportedAccount {
    /// Its address.
    pub jid: Jid,
    line: u64,
    password: Option<String>,
    keys: Vec<Keys>,
    is_made: bool,
    /// True if it was created with all keys that have been read so far.
    has_its_keys: bool,
    /// True if somebody can log in to it, since the file has a password or keys.
    is_open: bool,
    /// The id of the last message in its archive.
    last_archived: u64,
    /// The unfinished writes.
    writing: WritesAhead,
}

impl ImportedAccount {
    /// Returns an account that isn't created yet.
    pub fn new(jid: Jid, password: Option<String>, line: u64) -> Self {
        let keys: Vec<_> = password.as_deref().and_then(keys_in_password).into_iter().collect();
        let password = password.filter(|password| !password.is_empty() && keys.is_empty());
        Self {
            jid,
            line,
            password,
            is_open: !keys.is_empty(),
            keys,
            is_made: false,
            has_its_keys: false,
            last_archived: 0,
            writing: WritesAhead::default(),
        }
    }

    /// Returns whether there is an account of that name.
    pub fn exists(&self, import: &RunningImport<'_>) -> Result<bool, ImportError> {
        Ok(wait(import.stores.accounts.exists(self.jid.as_ref()))?)
    }

    /// Imports one part of the account's data.
    pub fn part(&mut self, import: &mut RunningImport<'_>, input: &mut Input, tag: Tag) -> Result<(), ImportError> {
        match () {
            () if is_keys(&tag) => self.keys(import, input, tag),
            () if tag.is("query", ns::ROSTER) => self.roster(import, input),
            () if tag.is("presence", ns::CLIENT) => self.request(import, input, tag),
            () if tag.is("offline-messages", PIE) => self.offline(import, input),
            () if tag.is("query", ns::PRIVATE) => self.private(import, input),
            () if tag.is("document", OURS) => self.document(import, input, tag),
            () if tag.is("disabled", OURS) => {
                input.skip()?;
                self.make(import)?;
                let disabled = import.stores.accounts.set_disabled(self.jid.as_ref(), true);
                self.write(0, Box::pin(async move { disabled.await.map(drop) }))
            }
            () if tag.is("damaged", OURS) => self.element(import, input, tag).map(drop),
            () if tag.is("pubsub", ns::PUBSUB_OWNER) => self.nodes(import, input),
            () if tag.is("pubsub", ns::PUBSUB) => self.items(import, input),
            () if tag.is("archive", ARCHIVE) => self.archive(import, input),
            () => match import.document_of(&tag) {
                Some(document) => self.known_document(import, input, tag, &document),
                None => import.skip_unknown(input, tag),
            },
        }
    }

    /// Returns why the importer refuses the password in the file. Returns `None` if it doesn't, or
    /// if the file only has keys.
    pub fn why_refused(&self, import: &RunningImport<'_>) -> Option<String> {
        import.importer.refuses_password(&self.jid, self.password.as_deref()?)
    }

    /// Finishes the account after its last part, and creates it if no part has.
    pub fn finish(mut self, import: &mut RunningImport<'_>, input: &Input) -> Result<(), ImportError> {
        self.make(import)?;
        if !self.is_open {
            let what =
                format!("{} has no password in the file: set one with `rookery user passwd {}`", self.jid, self.jid);
            import.leave_out(input, self.line, &what);
        } else if self.password.is_none() {
            let (credentials, lacks) = complete(self.keys.clone()).map_err(ImportError::File)?;
            if !self.has_its_keys {
                let set = import.stores.accounts.set_credentials(self.jid.as_ref(), credentials);
                self.write(0, Box::pin(async move { set.await.map(drop) }))?;
            }
            if lacks {
                let names: Vec<_> = self.keys.iter().map(|keys| name_of(keys.hash)).collect();
                let what = format!(
                    "{} has keys for {} only: clients that log in by another SCRAM mechanism need a new password",
                    self.jid,
                    names.join(", ")
                );
                import.leave_out(input, self.line, &what);
            }
        }
        self.writing.finish()?;
        Ok(())
    }

    /// Creates the account, if it doesn't exist yet. Later writes for the account wait for this
    /// one, and share its transaction.
    fn make(&mut self, import: &RunningImport<'_>) -> Result<(), ImportError> {
        if self.is_made {
            return Ok(());
        }
        let derived =
            self.password.as_ref().map(|password| Credentials::derive(password, import.terms.scram_iterations));
        let credentials = match derived {
            Some(Ok(credentials)) => {
                self.is_open = true;
                credentials
            }
            _ => {
                self.password = None;
                complete(self.keys.clone()).map_err(ImportError::File)?.0
            }
        };
        (self.is_made, self.has_its_keys) = (true, true);
        let created = import.stores.accounts.create(self.jid.as_ref(), credentials);
        self.write(0, Box::pin(async move { created.await.map(drop) }))
    }

    fn keys(&mut self, import: &mut RunningImport<'_>, input: &mut Input, tag: Tag) -> Result<(), ImportError> {
        let line = tag.line;
        let Some(element) = self.element(import, input, tag)? else { return Ok(()) };
        match read_keys(&element) {
            Ok(keys) => {
                self.keys.retain(|other| other.hash != keys.hash);
                self.keys.push(keys);
                (self.is_open, self.has_its_keys) = (true, false);
            }
            Err(reason) => import.leave_out(input, line, &reason),
        }
        Ok(())
    }

    /// Imports the roster (§4.4), many items at a time: otherwise each item would be a transaction
    /// of its own.
    fn roster(&mut self, import: &mut RunningImport<'_>, input: &mut Input) -> Result<(), ImportError> {
        self.make(import)?;
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let InputNext::Start(tag) = input.next()? {
            let line = tag.line;
            let Some(element) = self.element(import, input, tag)? else { continue };
            match roster_item(&element) {
                Some(item) => {
                    bytes += item.jid.as_str().len() + item.bytes();
                    items.push(item);
                }
                None => import.leave_out(input, line, "a roster item without a contact"),
            }
            if items.len() >= BATCH || bytes >= BATCH_BYTES {
                self.put_items(import, &mut items, &mut bytes)?;
            }
        }
        self.put_items(import, &mut items, &mut bytes)
    }

    fn put_items(
        &mut self,
        import: &RunningImport<'_>,
        items: &mut Vec<RosterItem>,
        bytes: &mut usize,
    ) -> Result<(), ImportError> {
        let (items, bytes) = (std::mem::take(items), std::mem::take(bytes));
        match items.is_empty() {
            true => Ok(()),
            false => self.write(bytes, import.stores.rosters.put_many(self.jid.as_ref(), items)),
        }
    }

    /// Imports a pending subscription request (§4.9).
    fn request(&mut self, import: &mut RunningImport<'_>, input: &mut Input, tag: Tag) -> Result<(), ImportError> {
        self.make(import)?;
        let line = tag.line;
        let Some(element) = self.element(import, input, tag)? else { return Ok(()) };
        let from = element.attr("from").and_then(|from| Jid::parse(from).ok()).map(|from| from.to_bare());
        let Some(from) = from.filter(|_| element.attr("type") == Some("subscribe")) else {
            import.leave_out(input, line, "presence that isn't a subscription request");
            return Ok(());
        };
        let stanza = Writer::write(&element).into_bytes();
        let contact = from.clone();
        let edit: EditRoster = Box::new(move |before, _| {
            Edit::Put(match before {
                Some(item) => RosterItem { pending_in: Some(stanza.clone()), ..item.clone() },
                None => RosterItem::for_request(contact.clone(), stanza.clone()),
            })
        });
        let changed = import.stores.rosters.change(self.jid.as_ref(), from.as_ref(), edit);
        self.write(BYTES_PER_ITEM, Box::pin(async move { changed.await.map(drop) }))
    }

    /// Imports offline messages (§4.5), one by one.
    fn offline(&mut self, import: &mut RunningImport<'_>, input: &mut Input) -> Result<(), ImportError> {
        self.make(import)?;
        while let InputNext::Start(tag) = input.next()? {
            let line = tag.line;
            let is_message = tag.is("message", ns::CLIENT);
            let Some(mut message) = self.element(import, input, tag)? else { continue };
            if !is_message {
                import.leave_out(input, line, "something among the offline messages that isn't a message");
                continue;
            }
            let unix_ms = take_delay(&mut message, self.jid.domain()).unwrap_or(import.terms.unix_ms);
            message.set_attr("to", self.jid.as_str());
            let stanza = Writer::write(&message).into_bytes();
            let bytes = stanza.len();
            let sender = message.attr("from").and_then(|from| Jid::parse(from).ok());
            let sender = sender.as_ref().unwrap_or(&self.jid).as_ref();
            let unbounded = OfflineRoom::UNBOUNDED;
            let pushed = import.stores.offline.push(self.jid.as_ref(), sender, stanza, unix_ms, unbounded);
            self.write(bytes, Box::pin(async move { pushed.await.map(drop) }))?;
        }
        Ok(())
    }

    /// Imports private storage (§4.6). Each element becomes a document of its own.
    fn private(&mut self, import: &mut RunningImport<'_>, input: &mut Input) -> Result<(), ImportError> {
        self.make(import)?;
        while let InputNext::Start(tag) = input.next()? {
            if let Some(element) = self.element(import, input, tag)? {
                if element.is("storage", bookmarks::LEGACY) {
                    self.bookmarks(import, &element)?;
                    continue;
                }
                let name = format!("{}{} {}", import.private, element.name(), element.ns());
                self.put(import, &name, Writer::write(&element).into_bytes())?;
            }
        }
        Ok(())
    }

    /// Imports bookmarks of the older kind as items of the newer kind (XEP-0402 §6), unless the
    /// file has items of the newer kind already.
    fn bookmarks(&mut self, import: &RunningImport<'_>, storage: &Element) -> Result<(), ImportError> {
        let (config, items) = bookmarks::import(storage);
        let pubsub = import.stores.pubsub.clone();
        let host = self.jid.clone();
        let made = wait(pubsub.create_node(host.as_ref(), ns::BOOKMARKS, config, host.as_ref(), NodeRoom::ANY))?;
        if made == Created::Exists {
            return Ok(());
        }
        for (id, payload) in items {
            let bytes = payload.len() + BYTES_PER_ITEM;
            let item = Item { id, publisher: host.clone(), unix_ms: import.terms.unix_ms, payload };
            let published = pubsub.publish(host.as_ref(), ns::BOOKMARKS, item, KEPT, NodeRoom::ANY);
            self.write(bytes, Box::pin(async move { published.await.map(drop) }))?;
        }
        Ok(())
    }

    /// Imports the configurations, affiliations and subscriptions of nodes (§4.10).
    fn nodes(&mut self, import: &mut RunningImport<'_>, input: &mut Input) -> Result<(), ImportError> {
        self.make(import)?;
        let pubsub = import.stores.pubsub.clone();
        let host = self.jid.clone();
        while let InputNext::Start(tag) = input.next()? {
            let line = tag.line;
            let Some(element) = self.element(import, input, tag)? else { continue };
            let Some(node) = element.attr("node").filter(|node| !node.is_empty()) else {
                import.leave_out(input, line, "part of a node without a name");
                continue;
            };
            match element.name() {
                // The older node has the same bookmarks in another form.
                _ if node == bookmarks::LEGACY => {}
                "configure" => {
                    let config = read_config(&element);
                    let made = wait(pubsub.create_node(host.as_ref(), node, config, host.as_ref(), NodeRoom::ANY))?;
                    if made == Created::Exists {
                        wait(pubsub.configure_node(host.as_ref(), node, read_config(&element), KEPT))?;
                    }
                }
                "affiliations" => {
                    for (jid, affiliation) in element.children().filter_map(read_affiliation) {
                        let set =
                            pubsub.set_affiliation(host.as_ref(), node, jid.as_ref(), Some(affiliation), NodeRoom::ANY);
                        self.write(BYTES_PER_ITEM, Box::pin(async move { set.await.map(drop) }))?;
                    }
                }
                "subscriptions" => {
                    for (jid, subscription) in element.children().filter_map(read_subscription) {
                        let set =
                            pubsub.set_subscription(host.as_ref(), node, jid.as_ref(), Some(subscription), usize::MAX);
                        self.write(BYTES_PER_ITEM, Box::pin(async move { set.await.map(drop) }))?;
                    }
                }
                _ => import.leave_out(input, line, "part of a node that this server doesn't know"),
            }
        }
        Ok(())
    }

    /// Imports items (§4.10), one by one. A node without configuration gets the default
    /// configuration.
    fn items(&mut self, import: &mut RunningImport<'_>, input: &mut Input) -> Result<(), ImportError> {
        self.make(import)?;
        let pubsub = import.stores.pubsub.clone();
        let host = self.jid.clone();
        while let InputNext::Start(tag) = input.next()? {
            let Some(node) = tag.attr("node").filter(|node| !node.is_empty()).map(str::to_owned) else {
                import.leave_out(input, tag.line, "items of a node without a name");
                input.skip()?;
                continue;
            };
            if node == bookmarks::LEGACY {
                while let InputNext::Start(tag) = input.next()? {
                    let item = self.element(import, input, tag)?;
                    if let Some(storage) = item.as_ref().and_then(|item| item.child("storage", bookmarks::LEGACY)) {
                        self.bookmarks(import, storage)?;
                    }
                }
                continue;
            }
            wait(pubsub.create_node(host.as_ref(), &node, Vec::new(), host.as_ref(), NodeRoom::ANY))?;
            while let InputNext::Start(tag) = input.next()? {
                let line = tag.line;
                let Some(element) = self.element(import, input, tag)? else { continue };
                let Some(item) = read_item(&element, &host, import.terms.unix_ms) else {
                    import.leave_out(input, line, "an item without an id");
                    continue;
                };
                let bytes = item.payload.len() + BYTES_PER_ITEM;
                let published = pubsub.publish(host.as_ref(), &node, item, KEPT, NodeRoom::ANY);
                self.write(bytes, Box::pin(async move { published.await.map(drop) }))?;
            }
        }
        Ok(())
    }

    /// Imports the archive (§4.11), message by message.
    fn archive(&mut self, import: &mut RunningImport<'_>, input: &mut Input) -> Result<(), ImportError> {
        self.make(import)?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            let next = input.next()?;
            let is_end = matches!(next, InputNext::End);
            if let InputNext::Start(tag) = next {
                let line = tag.line;
                let Some(result) = self.element(import, input, tag)? else { continue };
                match self.read_archived(&result) {
                    Some(message) => {
                        bytes += message.stanza.len();
                        batch.push(message);
                    }
                    None => import.leave_out(input, line, "an archived message without a time or without parties"),
                }
            }
            if !batch.is_empty() && (is_end || batch.len() >= BATCH || bytes >= BATCH_BYTES) {
                let append = import.stores.archive.append(std::mem::take(&mut batch).into());
                self.writing.push_batch(std::mem::take(&mut bytes), append)?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Reads a `<result/>` of an archive. Its id stays if this server made it and it comes after
    /// the last one; otherwise the message gets an id that fits its time.
    fn read_archived(&mut self, result: &Element) -> Option<ArchivedMessage> {
        let forwarded = result.child("forwarded", ns::FORWARD)?;
        let unix_ms = time(forwarded.child("delay", ns::DELAY)?.attr("stamp")?)?;
        let message = forwarded.child("message", ns::CLIENT)?;
        let party = |name| message.attr(name).and_then(|jid| Jid::parse(jid).ok());
        let with = party("from").filter(|from| from.bare() != self.jid.as_ref()).or_else(|| party("to"))?;
        let own = result.attr("id").and_then(id::read);
        let own = own.filter(|own| *own > self.last_archived && id::time(*own) / 1000 == unix_ms / 1000);
        let id = own.unwrap_or_else(|| id::at(unix_ms).max(self.last_archived + 1));
        self.last_archived = id;
        let (owner, stanza) = (self.jid.clone(), Writer::write(message).into_bytes());
        Some(ArchivedMessage { owner, of: ArchiveOf::Account, id, with, contacts_only: false, stanza, most: 0 })
    }

    fn known_document(
        &mut self,
        import: &mut RunningImport<'_>,
        input: &mut Input,
        tag: Tag,
        document: &str,
    ) -> Result<(), ImportError> {
        self.make(import)?;
        match self.element(import, input, tag)? {
            Some(element) => self.put(import, document, Writer::write(&element).into_bytes()),
            None => Ok(()),
        }
    }

    fn document(&mut self, import: &mut RunningImport<'_>, input: &mut Input, tag: Tag) -> Result<(), ImportError> {
        self.make(import)?;
        let line = tag.line;
        let Some(element) = self.element(import, input, tag)? else { return Ok(()) };
        match read_document(&element) {
            Some((name, bytes)) => self.put(import, &name, bytes),
            None => {
                import.leave_out(input, line, "an unreadable document");
                Ok(())
            }
        }
    }

    fn put(&mut self, import: &RunningImport<'_>, name: &str, bytes: Vec<u8>) -> Result<(), ImportError> {
        let length = bytes.len();
        let put = import.stores.documents.put(self.jid.as_ref(), name, Some(bytes));
        self.write(length, put)
    }

    /// Reads an element. If it is too large, or a placeholder for an unreadable one, reports that
    /// and returns `None`.
    fn element(
        &mut self,
        import: &mut RunningImport<'_>,
        input: &mut Input,
        tag: Tag,
    ) -> Result<Option<Element>, ImportError> {
        if tag.is("damaged", OURS) {
            import.leave_out(input, tag.line, tag.attr("what").unwrap_or_default());
            input.skip()?;
            return Ok(None);
        }
        let (line, name) = (tag.line, tag.name());
        let element = input.element(tag)?;
        if element.is_none() {
            import.leave_out(input, line, &format!("{name} is larger than this server accepts"));
        }
        Ok(element)
    }

    /// Starts a write, and waits for the oldest ones if too many are ahead of the store.
    fn write(&mut self, bytes: usize, write: Pending<()>) -> Result<(), ImportError> {
        Ok(self.writing.push(bytes, write)?)
    }
}

fn roster_item(element: &Element) -> Option<RosterItem> {
    let jid = Jid::parse(element.attr("jid")?).ok()?.to_bare();
    let subscription = match element.attr("subscription") {
        Some("both") => Subscription::Both,
        Some("to") => Subscription::To,
        Some("from") => Subscription::From,
        _ => Subscription::None,
    };
    let groups = element.children().filter(|child| child.is("group", ns::ROSTER)).map(Element::text);
    Some(RosterItem {
        name: element.attr("name").map(str::to_owned),
        groups: groups.filter(|group| !group.is_empty()).collect(),
        subscription,
        ask: element.attr("ask") == Some("subscribe"),
        approved: matches!(element.attr("approved"), Some("true" | "1")),
        ..RosterItem::new(jid)
    })
}

/// Returns the time at which a message arrived, by the stamp of the server that stored it. Removes
/// the stamp, since this server adds its own on delivery.
fn take_delay(message: &mut Element, domain: &str) -> Option<u64> {
    let is_stamp = |child: &Element| {
        let is_delay = child.is("delay", ns::DELAY) || child.is("x", LEGACY_DELAY);
        is_delay && child.attr("from").is_none_or(|from| from == domain)
    };
    let stamp = message.children().filter(|child| is_stamp(child)).find_map(|child| time(child.attr("stamp")?));
    message.retain_children(|child| !is_stamp(child));
    stamp
}

/// The estimated bytes that a write takes in addition to an item's payload.
const BYTES_PER_ITEM: usize = 1024;
/// The most messages of an archive, or items of a roster, that are written together.
const BATCH: usize = 200;
/// The most bytes that are written together.
const BATCH_BYTES: usize = 1 << 20;
/// The namespace of XEP-0091, which XEP-0203 replaced.
const LEGACY_DELAY: &str = "jabber:x:delay";
/// The limit of an import: it keeps all items in the file. The node's own limits apply when
/// somebody next publishes there.
const KEPT: ItemsKept = ItemsKept { items: 1_000_000, since_ms: 0 };
