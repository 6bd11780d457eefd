//! Reads queries (XEP-0313 §4) into the terms of the store. No part of them reaches the store as
//! text except addresses, which are prepared.

use rookery_base::date;
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_modkit::rsm::{Part, RsmRequest};
use rookery_store::ArchiveQuery;
use rookery_stream::error::Condition;
use rookery_xml::{Element, ns};

use super::id;

/// The view of an archive that a reader gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveView {
    /// An account's archive, unchanged.
    Account,
    /// A room's archive, for a reader who may know who the occupants are: messages can be filtered
    /// by real JIDs (XEP-0313 §4.1.1).
    Room,
    /// A room's archive, for a reader who may know real JIDs only if everybody could see them when
    /// the occupant spoke: other messages are shown as in [`ArchiveView::WithoutJids`].
    OpenRoom,
    /// A room's archive without the real JIDs of occupants: without the `<x/>` of `muc#user`
    /// (§5.1.2).
    WithoutJids,
}

/// A parsed request for messages of an archive (§4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// The requested messages.
    pub(super) wanted: ArchiveQuery,
    /// Words that the bodies must contain, in lower case (XEP-0431).
    pub(super) words: Vec<String>,
    /// The real JID of the occupant who wrote the messages, bare or full (§4.1.1).
    pub(super) by: Option<Jid>,
    /// The name that the client gave the query.
    pub(super) query_id: Option<String>,
    /// True if the newest messages of a page come first (§4.3.4).
    pub(super) flip: bool,
}

/// Bounds of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageLimits {
    /// The most messages, unless the request asks for fewer (XEP-0059 `max`).
    pub(super) messages: usize,
    /// The most bytes of their stanzas.
    pub(super) bytes: usize,
}

impl Query {
    /// Reads the payload of a request to the archive of `owner`.
    ///
    /// # Errors
    /// `feature-not-implemented` for a field that isn't known (§4.1.6) and for a page by its index
    /// (XEP-0059 §2.6), `item-not-found` for a text that can't be an id of an archive (§4.1.4,
    /// §4.3.2), `resource-constraint` for too many ids, `policy-violation` for too many or too long
    /// words and too long an id, `bad-request` for the rest.
    pub(super) fn read(
        payload: &Element,
        owner: &Jid,
        view: ArchiveView,
        limits: PageLimits,
    ) -> Result<Self, Condition> {
        let wanted = ArchiveQuery { limit: limits.messages, max_bytes: limits.bytes, ..ArchiveQuery::default() };
        let query_id = payload.attr("queryid").map(str::to_owned);
        if query_id.as_ref().is_some_and(|id| id.len() > MAX_QUERY_ID) {
            return Err(Condition::PolicyViolation);
        }
        let flip = payload.child("flip-page", ns::MAM).is_some();
        let mut query = Self { wanted, words: Vec::new(), by: None, query_id, flip };
        if let Some(x) = payload.child("x", ns::DATA_FORMS) {
            query.read_form(&Form::read(x).ok_or(Condition::BadRequest)?, view)?;
        }
        if matches!(view, ArchiveView::Room | ArchiveView::OpenRoom) {
            query.by = query.wanted.with.take_if(|with| with.bare() != owner.bare());
        }
        query.read_page(&RsmRequest::read(payload)?.unwrap_or_default())?;
        Ok(query)
    }

    fn read_form(&mut self, form: &Form, view: ArchiveView) -> Result<(), Condition> {
        if form.type_() != "submit" || form.form_type() != Some(ns::MAM) {
            return Err(Condition::BadRequest);
        }
        for field in form.fields() {
            match field.var() {
                // There is no groupchat in the archives of accounts, whatever the request says.
                GROUPCHAT if view == ArchiveView::Account => {
                    form.boolean(GROUPCHAT).transpose().map_err(|_| Condition::BadRequest)?;
                }
                var => self.read_field(var, field.all())?,
            }
        }
        Ok(())
    }

    fn read_field(&mut self, var: &str, values: &[String]) -> Result<(), Condition> {
        let value = values.first().map(|value| value.trim()).filter(|value| !value.is_empty());
        match (var, value) {
            ("FORM_TYPE", _) => {}
            (IDS, _) => self.wanted.ids = Some(ids(values)?),
            (WITH | START | END | BEFORE_ID | AFTER_ID | TEXT, None) => {}
            (WITH, Some(value)) => self.wanted.with = Some(Jid::parse(value).map_err(|_| Condition::BadRequest)?),
            (START, Some(value)) => {
                let start = date::parse(value).ok_or(Condition::BadRequest)?;
                self.from(id::at(start).saturating_sub(1));
            }
            (END, Some(value)) => {
                let end = date::parse(value).ok_or(Condition::BadRequest)?;
                self.up_to(id::at(end.saturating_add(1)));
            }
            (AFTER_ID, Some(value)) => {
                let known = self.read_known(value)?;
                self.from(known);
            }
            (BEFORE_ID, Some(value)) => {
                let known = self.read_known(value)?;
                self.up_to(known);
            }
            (TEXT, Some(value)) => self.words = words(value)?,
            _ => return Err(Condition::FeatureNotImplemented),
        }
        Ok(())
    }

    fn read_page(&mut self, page: &RsmRequest) -> Result<(), Condition> {
        let is_count = page.max == Some(0);
        self.wanted.limit = self.wanted.limit.min(page.max.unwrap_or(usize::MAX));
        match &page.part {
            Part::First => {}
            Part::Last => self.wanted.last = true,
            Part::After(after) => {
                let after = self.read_known(after)?;
                self.from(after);
            }
            Part::Before(before) => {
                let before = self.read_known(before)?;
                self.up_to(before);
                self.wanted.last = true;
            }
            Part::Index(_) => return Err(Condition::FeatureNotImplemented),
        }
        // The count must not depend on the page (XEP-0059 §2.7): a page in the middle has no
        // count.
        if is_count || matches!(page.part, Part::First | Part::Last) {
            self.wanted.count_to = COUNT_TO;
        }
        Ok(())
    }

    /// Reads an id that must be in the archive.
    fn read_known(&mut self, text: &str) -> Result<u64, Condition> {
        let id = id::read(text).ok_or(Condition::ItemNotFound)?;
        self.wanted.known.push(id);
        Ok(id)
    }

    fn from(&mut self, after: u64) {
        self.wanted.after = self.wanted.after.max(after);
    }

    fn up_to(&mut self, before: u64) {
        let bound = if self.wanted.before == 0 { u64::MAX } else { self.wanted.before };
        // Never 0, which would mean no bound; there are no ids below 1 either.
        self.wanted.before = bound.min(before.max(1));
    }
}

/// Returns the form with the fields that a query can have (§4.1.6).
pub(super) fn form(view: ArchiveView) -> Element {
    let form = Form::new("form").hidden("FORM_TYPE", ns::MAM).field(Field::jid_single(WITH));
    let texts = [START, END, BEFORE_ID, AFTER_ID, TEXT].map(Field::text_single);
    let form = texts.into_iter().fold(form, Form::field);
    let groupchat = (view == ArchiveView::Account).then(|| Field::boolean(GROUPCHAT, false));
    let mut form = groupchat.into_iter().fold(form, Form::field).element();
    // Any value is valid, not only those of a list (XEP-0122 §3.2.2).
    let open = Element::new("open", ns::DATA_VALIDATE);
    let validate = Element::new("validate", ns::DATA_VALIDATE).with_attr("datatype", "xs:string").with_child(open);
    let ids = Element::new("field", ns::DATA_FORMS).with_attr("var", IDS).with_attr("type", "list-multi");
    form.push_child(ids.with_child(validate));
    form
}

fn ids(values: &[String]) -> Result<Vec<u64>, Condition> {
    let ids: Option<Vec<_>> = values.iter().map(|value| id::read(value.trim())).collect();
    let mut ids = ids.ok_or(Condition::ItemNotFound)?;
    ids.sort_unstable();
    ids.dedup();
    if ids.len() <= MAX_IDS { Ok(ids) } else { Err(Condition::ResourceConstraint) }
}

/// Returns the words of a search without duplicates: every message is searched for each of them.
fn words(text: &str) -> Result<Vec<String>, Condition> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = word.to_lowercase();
        if words.contains(&word) {
            continue;
        }
        if words.len() >= MAX_WORDS || word.len() > MAX_WORD_BYTES {
            return Err(Condition::PolicyViolation);
        }
        words.push(word);
    }
    Ok(words)
}

const WITH: &str = "with";
const START: &str = "start";
const END: &str = "end";
const BEFORE_ID: &str = "before-id";
const AFTER_ID: &str = "after-id";
const IDS: &str = "ids";
const GROUPCHAT: &str = "include-groupchat";
/// XEP-0431 §3.1, in Clark notation.
const TEXT: &str = "{urn:xmpp:fulltext:0}fulltext";
/// The most ids that one query may name.
const MAX_IDS: usize = 1000;
/// The most different words that one query may search for.
pub(super) const MAX_WORDS: usize = 16;
/// The most bytes of each of them.
const MAX_WORD_BYTES: usize = 256;
/// The most bytes of the id of a query, which is repeated in each message of the reply.
const MAX_QUERY_ID: usize = 1024;
/// Messages are counted up to this number; a reply about more of them has no count.
const COUNT_TO: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: PageLimits = PageLimits { messages: 100, bytes: 1000 };

    fn query(fields: &[(&str, &str)], set: &str) -> Result<Query, Condition> {
        let mut form = Form::new("submit").hidden("FORM_TYPE", ns::MAM);
        for (var, value) in fields {
            form = form.field(Field::plain(var).value(value));
        }
        let mut payload =
            Element::parse(format!("<query xmlns='urn:xmpp:mam:2' queryid='f27'>{set}</query>").as_bytes()).unwrap();
        payload.push_child(form.element());
        Query::read(&payload, &Jid::parse("coven@chat.example").unwrap(), ArchiveView::Account, LIMITS)
    }

    fn by(view: ArchiveView, with: &str) -> (Option<Jid>, Option<Jid>) {
        let form = Form::new("submit").hidden("FORM_TYPE", ns::MAM).field(Field::plain(WITH).value(with)).element();
        let payload = Element::new("query", ns::MAM).with_child(form);
        let query = Query::read(&payload, &Jid::parse("coven@chat.example").unwrap(), view, LIMITS).unwrap();
        (query.wanted.with, query.by)
    }

    #[test]
    fn occupants_are_asked_for_by_their_addresses_where_those_are_known() {
        let (occupant, real) = ("coven@chat.example/hag", "hag66@shakespeare.example");
        let jid = |text| Some(Jid::parse(text).unwrap());
        for view in [ArchiveView::Account, ArchiveView::WithoutJids] {
            assert_eq!(by(view, real), (jid(real), None));
        }
        assert_eq!(by(ArchiveView::Room, real), (None, jid(real)));
        assert_eq!(by(ArchiveView::Room, occupant), (jid(occupant), None));
    }

    #[test]
    fn times_bound_ids() {
        let read = query(&[("start", "2010-06-07T00:00:00Z"), ("end", "2010-07-07T13:23:54.5Z")], "").unwrap();
        let (start, end) = (1_275_868_800_000, 1_278_509_034_500);
        assert_eq!(id::time(read.wanted.after + 1), start);
        assert_eq!(id::time(read.wanted.after), start - 1);
        assert_eq!(id::time(read.wanted.before - 1), end);
        assert_eq!(read.query_id.as_deref(), Some("f27"));
        let early = query(&[("end", "1969-01-01T00:00:00Z")], "").unwrap();
        assert!(early.wanted.before >= 1, "still a bound");
    }

    #[test]
    fn a_page_and_a_range_of_ids_are_combined() {
        let (low, high) = (id::text(1 << 40), id::text(1 << 50));
        let read = query(&[("after-id", &low), ("before-id", &high)], "").unwrap();
        assert_eq!((read.wanted.after, read.wanted.before, read.wanted.last), (1 << 40, 1 << 50, false));
        assert_eq!(read.wanted.known, [1 << 40, 1 << 50]);
        let set = format!("<set xmlns='{}'><max>10</max><before>{low}</before></set>", ns::RSM);
        let read = query(&[("before-id", &high)], &set).unwrap();
        assert_eq!((read.wanted.before, read.wanted.last, read.wanted.limit), (1 << 40, true, 10));
        assert_eq!(read.wanted.count_to, 0);
        let set = format!("<set xmlns='{}'><max>1000000</max><before/></set><flip-page/>", ns::RSM);
        let read = query(&[], &set).unwrap();
        assert_eq!((read.wanted.last, read.wanted.limit, read.flip), (true, 100, true));
        assert_eq!(query(&[("ids", &high)], "").unwrap().wanted.ids, Some(vec![1 << 50]));
    }

    proptest! {
        #[test]
        fn every_page_is_bounded(
            fields in proptest::collection::vec((proptest::sample::select(&FIELDS[..]), "\\PC{0,30}"), 0..5),
            max in "\\PC{0,25}", at in proptest::option::of(1..i64::MAX as u64),
        ) {
            let fields: Vec<_> = fields.iter().map(|(var, value)| (*var, value.as_str())).collect();
            let at = at.map(|at| format!("<before>{}</before>", id::text(at))).unwrap_or_default();
            let set = format!("<set xmlns='{}'><max>{}</max>{at}</set>", ns::RSM, rookery_xml::escape_text(&max));
            if let Ok(query) = query(&fields, &set) {
                prop_assert!(query.wanted.limit <= LIMITS.messages && query.wanted.max_bytes == LIMITS.bytes);
                prop_assert!(query.wanted.after <= i64::MAX as u64);
            }
        }
    }

    const FIELDS: [&str; 8] = [WITH, START, END, BEFORE_ID, AFTER_ID, IDS, TEXT, GROUPCHAT];

    #[test]
    fn words_count_once() {
        let text = (0..100).map(|n| format!("Ab{} ", n % MAX_WORDS)).collect::<String>();
        let words = query(&[(TEXT, &text)], "").unwrap().words;
        assert_eq!((words.len(), words[0].as_str(), words[15].as_str()), (16, "ab0", "ab15"));
    }

    #[test]
    fn each_fault_gets_its_error() {
        for (var, value, expected) in [
            ("with", "@", Condition::BadRequest),
            ("start", "yesterday", Condition::BadRequest),
            ("end", "0; DROP TABLE archives", Condition::BadRequest),
            ("before-id", "09af3-cc343-b409f", Condition::ItemNotFound),
            ("ids", "' OR ''='", Condition::ItemNotFound),
            ("{http://example.com/}mood", "lonely", Condition::FeatureNotImplemented),
            ("include-groupchat", "perhaps", Condition::BadRequest),
            (TEXT, &(1..=MAX_WORDS + 1).map(|n| format!("{n} ")).collect::<String>(), Condition::PolicyViolation),
            (TEXT, &"x".repeat(MAX_WORD_BYTES + 1), Condition::PolicyViolation),
        ] {
            assert_eq!(query(&[(var, value)], "").unwrap_err(), expected, "{var}");
        }
        let set = |content: &str| format!("<set xmlns='{}'>{content}</set>", ns::RSM);
        assert_eq!(query(&[], &set("<after>x</after>")).unwrap_err(), Condition::ItemNotFound);
        assert_eq!(query(&[], &set("<index>1</index>")).unwrap_err(), Condition::FeatureNotImplemented);
        assert_eq!(query(&[], &set("<max>-1</max>")).unwrap_err(), Condition::BadRequest);
        for (len, is_taken) in [(MAX_QUERY_ID, true), (MAX_QUERY_ID + 1, false)] {
            let payload = Element::new("query", ns::MAM).with_attr("queryid", "x".repeat(len));
            let owner = Jid::parse("juliet@example.org").unwrap();
            assert_eq!(Query::read(&payload, &owner, ArchiveView::Account, LIMITS).is_ok(), is_taken);
        }
    }
}
