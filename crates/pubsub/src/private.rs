//! XEP-0049: Private XML Storage. Clients store private data by the name of an element.
//!
//! Bookmarks stored this way are those of XEP-0402: see `bookmarks`.

use rookery_hub::failure::condition;
use rookery_hub::{
    Bound, DocumentName, DocumentSpec, Exported, Hooks, Iq, Module, Most, OptionSpec, Per, Target, Unit, Value, World,
};
use rookery_modkit::option;
use rookery_store::{DocumentRoom, DocumentsPut, StoredDocument};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::{bookmarks, holders};

/// The module that stores private elements.
#[derive(Debug)]
pub struct Private;

impl Module for Private {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "clients can keep settings on the server that nobody else sees"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0049", "1.2"), ("XEP-0048", "1.2")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        BOUNDS
    }

    fn documents(&self) -> &'static [DocumentSpec] {
        &[DocumentSpec { name: DocumentName::Several(PREFIX), export: Exported::Private }]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::PRIVATE);
        hooks.iq(Target::Account, ns::PRIVATE, asked);
    }
}

const NAME: &str = "private";

const OPTIONS: [OptionSpec; 3] = [ELEMENTS, BYTES, TOTAL];

const ELEMENTS: OptionSpec = OptionSpec {
    key: "elements",
    default: || Value::Number(100),
    doc: "elements that an account may store",
    check: option::at_least_one,
};

const BYTES: OptionSpec = OptionSpec {
    key: "bytes",
    default: || Value::Number(64 * 1024),
    doc: "bytes of one of them",
    check: option::at_least_one,
};

const TOTAL: OptionSpec = OptionSpec {
    key: "account_bytes",
    default: || Value::Number(1024 * 1024),
    doc: "bytes of all elements of an account",
    check: option::at_least_one,
};

const BOUNDS: &[Bound] = &[
    Bound::on("private elements", Per::Account, Most::Option(ELEMENTS.key), Unit::Number)
        .or("one more gets <policy-violation/>"),
    Bound::on("a private element", Per::Stanza, Most::Option(BYTES.key), Unit::Bytes)
        .or("a larger one gets <policy-violation/>"),
    Bound::on("private elements", Per::Account, Most::Option(TOTAL.key), Unit::Bytes)
        .or("more get <policy-violation/>")
        .kept_in(&["documents"]),
];

fn asked(world: &mut World, iq: Iq) {
    if !iq.is_own() {
        // §2.3, whether the account exists or not.
        return world.reply_error(&iq, Condition::Forbidden);
    }
    if iq.payload.name() != "query" {
        return world.reply_error(&iq, Condition::BadRequest);
    }
    let elements: Vec<Element> = iq.payload.children().cloned().collect();
    let is_named = |element: &Element| element.ns() != ns::PRIVATE && !ns::is_content(element.ns());
    let (Some(first), true) = (elements.first(), elements.iter().all(is_named)) else {
        return world.reply_error(&iq, Condition::NotAcceptable);
    };
    if holders::is_on(world, iq.to.as_ref()) && elements.len() == 1 && first.is("storage", bookmarks::LEGACY) {
        return bookmarks::private(world, iq);
    }
    match (iq.set, elements.len()) {
        (true, _) => keep(world, iq, elements),
        (false, 1) => give(world, iq, first.clone()),
        (false, _) => world.reply_error(&iq, Condition::NotAcceptable),
    }
}

fn give(world: &mut World, iq: Iq, asked: Element) {
    let found = world.stores.documents.get(iq.to.as_ref(), &name_of(&asked));
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let empty = Element::new(asked.name(), asked.ns());
            let element = found.and_then(|bytes| Element::parse(&bytes).ok()).unwrap_or(empty);
            let mut reply = iq.result();
            reply.start_ns("query", ns::PRIVATE).element(&element);
            world.reply(&iq, reply);
        }
        Err(error) => failed(world, &iq, &error),
    });
}

/// Stores all of the elements or none.
fn keep(world: &mut World, iq: Iq, elements: Vec<Element>) {
    let options = world.options(iq.to.domain(), NAME);
    let bytes = |key| options.map_or(0, |options| options.number(key));
    let number = |key| usize::try_from(bytes(key)).unwrap_or(usize::MAX);
    let (most, room) = (number(BYTES.key), DocumentRoom { number: number(ELEMENTS.key), bytes: bytes(TOTAL.key) });
    let document =
        |element: &Element| StoredDocument { name: name_of(element), bytes: Writer::write(element).into_bytes() };
    let documents: Vec<_> = elements.iter().map(document).collect();
    if documents.iter().any(|document| document.bytes.len() > most) {
        return refuse(world, &iq, "the element is too large");
    }
    let kept = world.stores.documents.put_within(iq.to.as_ref(), PREFIX, documents, room);
    world.wait(kept, move |world, kept| match kept {
        Ok(DocumentsPut::Done) => world.reply_done(&iq),
        Ok(DocumentsPut::TooMany) => refuse(world, &iq, "too many elements are stored"),
        Ok(DocumentsPut::TooLarge) => refuse(world, &iq, "the stored elements are too large together"),
        Err(error) => failed(world, &iq, &error),
    });
}

fn refuse(world: &mut World, iq: &Iq, text: &'static str) {
    world.reply_error(iq, StanzaError::new(Condition::PolicyViolation).with_text(text));
}

fn failed(world: &mut World, iq: &Iq, error: &rookery_store::StoreError) {
    world.store_failed("keeping private data", &iq.to, error);
    world.reply_error(iq, condition(error));
}

fn name_of(element: &Element) -> String {
    format!("{PREFIX}{} {}", element.name(), element.ns())
}

/// The beginning of the names of documents that hold private elements.
const PREFIX: &str = "private ";
