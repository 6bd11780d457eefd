//! XEP-0059: Result Set Management: the request and the reply's metadata, and, for lists in memory,
//! the requested part.
//!
//! A number that is too large for the machine means the largest possible one; text that isn't a
//! number is `bad-request`. The ids are text that others wrote: they are compared and never
//! interpreted.

use rookery_stream::error::Condition;
use rookery_xml::{Element, Writer, ns};

/// The part of a set that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RsmRequest {
    /// The most items that the requester wants; `None` leaves the number to the responder.
    pub max: Option<usize>,
    /// The place of that part within the set.
    pub part: Part,
}

/// A part of an ordered set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Part {
    /// From the beginning.
    #[default]
    First,
    /// After the item with this id (§2.2).
    After(String),
    /// Before the item with this id (§2.3).
    Before(String),
    /// The last page (§2.5).
    Last,
    /// From the item at this index, counted from 0 (§2.6).
    Index(usize),
}

/// The description of the part that a result brings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RsmAnswer {
    /// The ids of the first and the last item; `None` if there is no item.
    pub ends: Option<(String, String)>,
    /// The index of the first item in the whole set, if that is known.
    pub index: Option<usize>,
    /// The size of the whole set, if that is known.
    pub count: Option<usize>,
}

impl RsmRequest {
    /// Reads the `<set/>` in the payload of a request; `None` if it has none.
    ///
    /// # Errors
    /// `bad-request` if a number isn't one, or if more than one part is requested.
    pub fn read(payload: &Element) -> Result<Option<Self>, Condition> {
        payload.child("set", ns::RSM).map(Self::of_set).transpose()
    }

    fn of_set(set: &Element) -> Result<Self, Condition> {
        let max = set.child_text("max", ns::RSM).map(|text| number(&text)).transpose()?;
        let mut parts = Vec::new();
        parts.extend(set.child_text("after", ns::RSM).map(Part::After));
        parts.extend(set.child_text("before", ns::RSM).map(|id| match id.is_empty() {
            true => Part::Last,
            false => Part::Before(id),
        }));
        if let Some(text) = set.child_text("index", ns::RSM) {
            parts.push(Part::Index(number(&text)?));
        }
        match parts.len() {
            0 | 1 => Ok(Self { max, part: parts.pop().unwrap_or_default() }),
            _ => Err(Condition::BadRequest),
        }
    }

    /// Returns the requested part of a list in memory, in its order. `most` is the number of items
    /// that the responder gives at once; `id` names each item.
    ///
    /// # Errors
    /// `item-not-found` if the list has no item with the id, or at the index, from which the part
    /// is to start (§2.2, §2.6).
    pub fn page<'a, T>(
        &self,
        items: &'a [T],
        most: usize,
        id: impl Fn(&T) -> &str,
    ) -> Result<(&'a [T], RsmAnswer), Condition> {
        self.page_within(items, (most, usize::MAX), id, |_| 0)
    }

    /// Returns a page as [`RsmRequest::page`] does, of a bounded number of items and bytes; `bytes`
    /// returns the size of an item. A page of a nonempty part has at least one item, of any size.
    ///
    /// # Errors
    /// The errors of [`RsmRequest::page`].
    pub fn page_within<'a, T>(
        &self,
        items: &'a [T],
        (most, most_bytes): (usize, usize),
        id: impl Fn(&T) -> &str,
        bytes: impl Fn(&T) -> usize,
    ) -> Result<(&'a [T], RsmAnswer), Condition> {
        let find = |wanted: &str| items.iter().position(|item| id(item) == wanted).ok_or(Condition::ItemNotFound);
        let max = self.max.unwrap_or(usize::MAX).min(most);
        let (start, end, is_end_fixed) = match &self.part {
            Part::First => (0, items.len(), false),
            Part::After(after) => (find(after)? + 1, items.len(), false),
            Part::Before(before) => last_before(find(before)?, max),
            Part::Last => last_before(items.len(), max),
            Part::Index(0) => (0, items.len(), false),
            Part::Index(index) if *index < items.len() => (*index, items.len(), false),
            Part::Index(_) => return Err(Condition::ItemNotFound),
        };
        let found = items.get(start..end.min(start.saturating_add(max))).unwrap_or_default();
        let fitting = match is_end_fixed {
            true => count_fitting(found.iter().rev().map(bytes), most_bytes),
            false => count_fitting(found.iter().map(bytes), most_bytes),
        };
        let (start, found) = match found.len() - fitting {
            cut if is_end_fixed => (start + cut, found.get(cut..).unwrap_or_default()),
            _ => (start, found.get(..fitting).unwrap_or_default()),
        };
        let ends = found.first().zip(found.last()).map(|(first, last)| (id(first).to_owned(), id(last).to_owned()));
        Ok((found, RsmAnswer { ends, index: Some(start), count: Some(items.len()) }))
    }
}

impl RsmAnswer {
    /// Writes the `<set/>` of the reply: the first and last item of the page, and the count if it
    /// is known (XEP-0059).
    pub fn write(&self, reply: &mut Writer) {
        reply.start_ns("set", ns::RSM);
        if let Some((first, last)) = &self.ends {
            let index = self.index.map(|index| index.to_string());
            reply.start("first").opt_attr("index", index.as_deref()).text(first).end();
            reply.text_child("last", last);
        }
        if let Some(count) = self.count {
            reply.text_child("count", &count.to_string());
        }
        reply.end();
    }
}

/// Returns the last `max` places before `end`, which stays the end of the page.
fn last_before(end: usize, max: usize) -> (usize, usize, bool) {
    (end.saturating_sub(max), end, true)
}

/// Returns the number of items of these sizes that fit, at least one.
fn count_fitting(sizes: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut sum = 0_usize;
    let fits = |(place, size): &(usize, usize)| {
        sum = sum.saturating_add(*size);
        *place == 0 || sum <= most
    };
    sizes.enumerate().take_while(fits).count()
}

/// Reads a number that isn't negative, in digits.
fn number(text: &str) -> Result<usize, Condition> {
    let text = text.trim();
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(usize::MAX),
        Err(_) => Err(Condition::BadRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(set: &str) -> Result<Option<RsmRequest>, Condition> {
        let payload = format!("<query xmlns='urn:example'><set xmlns='{}'>{set}</set></query>", ns::RSM);
        RsmRequest::read(&Element::parse(payload.as_bytes()).unwrap())
    }

    fn page(set: &str) -> Result<(String, RsmAnswer), Condition> {
        let items = ["a", "b", "c", "d", "e"];
        let (found, answer) = request(set)?.unwrap().page(&items, 3, |item| item)?;
        Ok((found.concat(), answer))
    }

    #[test]
    fn a_page_is_what_the_request_asks_for() {
        for (set, expected, index) in [
            ("<max>2</max>", "ab", 0),
            ("<max>10</max>", "abc", 0),
            ("<max>2</max><after>b</after>", "cd", 2),
            ("<max>2</max><after>e</after>", "", 5),
            ("<max>2</max><before>d</before>", "bc", 1),
            ("<max>2</max><before>b</before>", "a", 0),
            ("<max>2</max><before/>", "de", 3),
            ("<max>2</max><index>4</index>", "e", 4),
            ("<max>0</max>", "", 0),
        ] {
            let (found, answer) = page(set).unwrap();
            assert_eq!((found.as_str(), answer.index, answer.count), (expected, Some(index), Some(5)), "{set}");
            assert_eq!(answer.ends.is_some(), !expected.is_empty(), "{set}");
        }
    }

    #[test]
    fn a_page_keeps_to_its_bytes() {
        let items = ["a", "bb", "ccc", "dddd", "eeeee"];
        let page = |set: &str, most| {
            let request = request(set).unwrap().unwrap();
            let (found, answer) = request.page_within(&items, (9, most), |item| item, |item| item.len()).unwrap();
            (found.concat(), answer.index)
        };
        assert_eq!(page("", 6), ("abbccc".into(), Some(0)));
        assert_eq!(page("<after>ccc</after>", 8), ("dddd".into(), Some(3)));
        assert_eq!(page("<before/>", 9), ("ddddeeeee".into(), Some(3)));
        assert_eq!(page("<before>dddd</before>", 4), ("ccc".into(), Some(2)));
        assert_eq!(page("<after>dddd</after>", 1), ("eeeee".into(), Some(4)), "one goes in any case");
    }

    #[test]
    fn a_page_next_to_an_unknown_item_is_not_found() {
        for set in
            ["<after>x</after>", "<before>x</before>", "<index>5</index>", "<after>' OR 1=1 --</after>", "<after/>"]
        {
            assert_eq!(page(set).unwrap_err(), Condition::ItemNotFound, "{set}");
        }
    }

    #[test]
    fn numbers_may_be_absurd_but_must_be_numbers() {
        let max = |text: &str| request(&format!("<max>{text}</max>")).map(|request| request.unwrap().max);
        assert_eq!(max("99999999999999999999999999"), Ok(Some(usize::MAX)));
        assert_eq!(max(" 7 "), Ok(Some(7)));
        for text in ["", "-1", "1e9", "seven", "0x10", "1;DROP TABLE archive"] {
            assert_eq!(max(text), Err(Condition::BadRequest), "{text}");
        }
        assert_eq!(request("<after>a</after><before/>"), Err(Condition::BadRequest));
    }

    #[test]
    fn an_answer_says_where_it_is() {
        let mut reply = Writer::new("fin");
        RsmAnswer { ends: Some(("a<".into(), "c".into())), index: Some(0), count: Some(9) }.write(&mut reply);
        let text = String::from_utf8(reply.finish().into_bytes()).unwrap();
        assert!(text.contains("<first index='0'>a&lt;</first><last>c</last><count>9</count></set>"), "{text}");
        let mut reply = Writer::new("fin");
        RsmAnswer { count: Some(0), ..RsmAnswer::default() }.write(&mut reply);
        let text = String::from_utf8(reply.finish().into_bytes()).unwrap();
        assert!(text.contains("><count>0</count></set>"), "{text}");
    }

    proptest! {
        #[test]
        fn every_page_is_a_contiguous_part_of_the_list(
            items in 0..40usize, max in any::<Option<usize>>(), most in 0..50usize, which in 0..5u8, at in any::<usize>(),
        ) {
            let names: Vec<_> = (0..items).map(|item| item.to_string()).collect();
            let id = (at % 50).to_string();
            let part = match which {
                0 => Part::First,
                1 => Part::After(id),
                2 => Part::Before(id),
                3 => Part::Last,
                _ => Part::Index(at),
            };
            if let Ok((found, answer)) = (RsmRequest { max, part }).page(&names, most, |name| name) {
                let start = answer.index.unwrap();
                prop_assert!(found.len() <= most.min(max.unwrap_or(usize::MAX)));
                prop_assert_eq!(found, &names[start..start + found.len()]);
            }
        }
    }
}
