//! A note to self: a text that an account keeps, and that all of its clients can read and change.
//!
//! `<note xmlns='urn:example:note'/>` in an IQ of type get asks for it; in one of type set it
//! brings the new text, and an empty one removes the note.

use rookery_hub::failure::condition;
use rookery_hub::{Bound, Document, Hooks, Iq, Module, Most, OptionSpec, Per, Target, Unit, Value, World};
use rookery_modkit::option;
use rookery_stream::error::Condition;

/// Keeps a note for each account.
#[derive(Debug)]
pub struct NoteModule;

impl Module for NoteModule {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users keep a note that all of their clients can read"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("urn:example:note", "1")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[BYTES]
    }

    fn bounds(&self) -> &'static [Bound] {
        &[SIZE]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Account, NS);
        hooks.document::<NoteText>();
        hooks.iq(Target::Account, NS, |world, iq| match iq.payload.name() {
            // Others learn nothing, whether there is such an account or not.
            _ if !iq.is_own() => world.reply_error(&iq, Condition::ServiceUnavailable),
            "note" if iq.set => keep(world, iq),
            "note" => tell(world, &iq),
            _ => world.reply_error(&iq, Condition::BadRequest),
        });
    }
}

/// The note of an account, in memory while a stanza for the account may come.
#[derive(Debug)]
struct NoteText(String);

impl Document for NoteText {
    const NAME: &'static str = NAME;

    fn read(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok().map(Self)
    }
}

fn tell(world: &mut World, iq: &Iq) {
    let note = world.document::<NoteText>(iq.to.as_ref());
    let mut reply = iq.result();
    reply.start_ns("note", NS).text(note.as_ref().map_or("", |note| &note.0));
    world.reply(iq, reply);
}

fn keep(world: &mut World, iq: Iq) {
    let (account, text) = (iq.to.clone(), iq.payload.text());
    let most = world.options(account.domain(), NAME).map_or(0, |options| options.number(BYTES.key));
    if text.len() as u64 > most {
        return world.reply_error(&iq, Condition::NotAcceptable);
    }
    let bytes = (!text.is_empty()).then(|| text.into_bytes());
    world.set_document::<NoteText>(account.as_ref(), bytes, move |world, kept| match kept {
        Ok(()) => world.reply_done(&iq),
        Err(error) => {
            world.store_failed("keeping a note", &iq.to, &error);
            world.reply_error(&iq, condition(&error));
        }
    });
}

/// The key below `[modules]`, and the name of the document.
const NAME: &str = "note";
const NS: &str = "urn:example:note";

const BYTES: OptionSpec = OptionSpec {
    key: "bytes",
    default: || Value::Number(1024),
    doc: "bytes that a note may have",
    check: option::at_least_one,
};

const SIZE: Bound = Bound::on("the note", Per::Account, Most::Option(BYTES.key), Unit::Bytes)
    .or("the change gets <not-acceptable/>")
    .kept_in(&["documents"]);
