//! XEP-0049: Private XML Storage. Clients keep what nobody else sees, by the name of an element.
//!
//! Bookmarks of that kind are those of XEP-0402: see `bookmarks`.

use rookery_hub::{Hooks, Iq, Module, OptionSpec, Target, Value, World};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::{bookmarks, pep};
use crate::asker::condition;
use crate::option;

/// Keeps private elements.
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

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::PRIVATE);
        hooks.iq(Target::Account, ns::PRIVATE, asked);
    }
}

const NAME: &str = "private";

const OPTIONS: [OptionSpec; 2] = [
    OptionSpec {
        key: "elements",
        default: || Value::Number(100),
        doc: "elements that an account may keep",
        check: option::at_least_one,
    },
    OptionSpec {
        key: "bytes",
        default: || Value::Number(64 * 1024),
        doc: "bytes of one of them",
        check: option::at_least_one,
    },
];

fn asked(world: &mut World, iq: Iq) {
    if !iq.is_own() {
        // §2.3: whether there is such an account or not.
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
    let has_nodes = world.domain(iq.to.domain()).is_some_and(|domain| domain.module(pep::NAME).is_some());
    if has_nodes && elements.len() == 1 && first.is("storage", bookmarks::LEGACY) {
        return pep::bookmarks(world, iq);
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

fn keep(world: &mut World, iq: Iq, elements: Vec<Element>) {
    let options = world.domain(iq.to.domain()).and_then(|domain| domain.module(NAME));
    let number = |key| usize::try_from(options.map_or(0, |options| options.number(key))).unwrap_or(usize::MAX);
    let (most, bytes) = (number("elements"), number("bytes"));
    let documents: Vec<_> =
        elements.iter().map(|element| (name_of(element), Writer::write(element).into_bytes())).collect();
    if documents.iter().any(|(_, document)| document.len() > bytes) {
        let error = StanzaError::new(Condition::PolicyViolation).with_text("the element is too large");
        return world.reply_error(&iq, error);
    }
    let known = world.stores.documents.starting(iq.to.as_ref(), PREFIX);
    world.wait(known, move |world, known| match known {
        Ok(known) => {
            let new = documents.iter().filter(|(name, _)| known.iter().all(|known| known.name != *name)).count();
            if known.len() + new > most {
                let error = StanzaError::new(Condition::PolicyViolation).with_text("too many elements are kept");
                return world.reply_error(&iq, error);
            }
            let writes = documents
                .into_iter()
                .map(|(name, document)| world.stores.documents.put(iq.to.as_ref(), &name, Some(document)));
            // They are carried out in the order of the calls: the last one answers for all.
            if let Some(last) = writes.collect::<Vec<_>>().pop() {
                world.wait(last, move |world, done| match done {
                    Ok(()) => world.reply_done(&iq),
                    Err(error) => failed(world, &iq, &error),
                });
            }
        }
        Err(error) => failed(world, &iq, &error),
    });
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
