//! Hats (XEP-0317): titles that admins of a room invent and give to users, shown with their
//! presence.
//!
//! The commands (§5) keep no state between their steps: a submitted form has all that is needed. So
//! a client that knows the form needs one step only, and a session takes no memory.

use rookery_base::Set;
use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_store::Affiliation;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, ns};

use super::room::Room;
use super::shown::ShownPresence;

impl Room {
    /// Carries out a command.
    pub(crate) fn run_command(&mut self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        let node = iq.payload.attr("node").unwrap_or_default();
        let command = COMMANDS.iter().find(|(name, ..)| node.strip_prefix(PREFIX) == Some(*name));
        let Some((name, ..)) = command else { return Err(Condition::ItemNotFound.into()) };
        if !iq.set || iq.payload.name() != "command" {
            return Err(Condition::BadRequest.into());
        }
        if self.affiliation_of(world, iq.from.as_ref()) < Affiliation::Admin {
            return Err(Condition::Forbidden.into());
        }
        if iq.payload.attr("action") == Some("cancel") {
            return self.answer_command(world, iq, "canceled", None);
        }
        let form = Form::within(&iq.payload).filter(|form| form.type_() == "submit");
        match (*name, form) {
            ("list", _) => self.answer_command(world, iq, "completed", Some(&self.list_hats())),
            ("list-assigned", _) => self.answer_command(world, iq, "completed", Some(&self.list_wearers())),
            (name, None) => self.answer_command(world, iq, "executing", Some(&self.hat_form(name))),
            (name, Some(form)) => {
                self.change_hats(world, name, &form)?;
                self.keep_soon();
                self.answer_command(world, iq, "completed", None)
            }
        }
    }

    /// Lists the commands, for those who may use them.
    pub(crate) fn list_commands(&self, world: &mut World, iq: &Iq) {
        let may = self.affiliation_of(world, iq.from.as_ref()) >= Affiliation::Admin;
        let mut reply = iq.result();
        reply.start_ns("query", ns::DISCO_ITEMS).attr("node", ns::COMMANDS);
        for (name, title) in COMMANDS.iter().filter(|_| may) {
            let node = format!("{PREFIX}{name}");
            reply.start("item").attr("jid", self.jid.as_str()).attr("node", &node).attr("name", title).end();
        }
        world.reply(iq, reply);
    }

    fn answer_command(
        &self,
        world: &mut World,
        iq: &Iq,
        status: &str,
        form: Option<&Element>,
    ) -> Result<(), StanzaError> {
        let session = iq.payload.attr("sessionid").map_or_else(|| world.unique_text(), str::to_owned);
        let mut reply = iq.result();
        reply.start_ns("command", ns::COMMANDS).opt_attr("node", iq.payload.attr("node"));
        reply.attr("sessionid", &session).attr("status", status);
        if let Some(form) = form {
            reply.element(form);
        }
        world.reply(iq, reply);
        Ok(())
    }

    fn change_hats(&mut self, world: &mut World, command: &str, form: &Form) -> Result<(), StanzaError> {
        let uri = form.value(URI).filter(|uri| !uri.is_empty()).ok_or(Condition::BadRequest)?;
        let known = self.hat_list.iter().find(|hat| hat.attr("uri") == Some(uri)).cloned();
        if command == "create" {
            return self.create_hat(world, form, uri, known.is_some());
        }
        let hat = known.ok_or(Condition::ItemNotFound)?;
        if command == "destroy" {
            self.hat_list.retain(|other| other.attr("uri") != Some(uri));
            let all: Vec<_> = self.hats.keys().cloned().collect();
            let wearers: Set<_> = all.into_iter().filter(|wearer| self.take_off(wearer, uri)).collect();
            self.show_hats(world, &wearers);
            self.tell_codes(world, &["104"]);
            return Ok(());
        }
        let wearer = form.value(JID).ok_or(Condition::BadRequest)?;
        let wearer = Jid::parse(wearer).map_err(|_| Condition::JidMalformed)?.to_bare();
        match command {
            "assign" => self.put_on(world, &wearer, hat),
            _ => {
                if self.take_off(&wearer, uri) {
                    self.show_hats(world, &Set::from_iter([wearer]));
                }
                Ok(())
            }
        }
    }

    fn create_hat(&mut self, world: &mut World, form: &Form, uri: &str, is_known: bool) -> Result<(), StanzaError> {
        let title = form.value(TITLE).filter(|title| !title.is_empty()).ok_or(Condition::BadRequest)?;
        let hue = form.value(HUE).filter(|hue| !hue.is_empty());
        let is_angle = |hue: &str| hue.parse::<f32>().is_ok_and(|hue| (0.0..=360.0).contains(&hue));
        match () {
            () if is_known => return Err(Condition::Conflict.into()),
            () if self.hat_list.len() >= MOST_HATS => return Err(Condition::ResourceConstraint.into()),
            () if [uri, title].iter().any(|text| text.len() > LONGEST) || !hue.is_none_or(is_angle) => {
                return Err(Condition::NotAcceptable.into());
            }
            () => {}
        }
        let hat = Element::new("hat", ns::HATS).with_attr("title", title).with_attr("uri", uri);
        self.hat_list.push(hat.with_opt_attr("hue", hue));
        self.tell_codes(world, &["104"]);
        Ok(())
    }

    fn put_on(&mut self, world: &mut World, wearer: &Jid, hat: Element) -> Result<(), StanzaError> {
        let all: usize = self.hats.iter().map(|(wearer, hats)| bytes(wearer, hats)).sum();
        let is_full = self.hats.len() >= MOST_WEARERS && !self.hats.contains_key(wearer);
        if is_full || all + bytes(wearer, std::slice::from_ref(&hat)) > MOST_BYTES {
            return Err(Condition::ResourceConstraint.into());
        }
        let worn = self.hats.entry(wearer.clone()).or_default();
        if worn.contains(&hat) {
            return Err(Condition::Conflict.into());
        }
        if worn.len() >= MOST_WORN {
            return Err(Condition::ResourceConstraint.into());
        }
        worn.push(hat);
        self.show_hats(world, &Set::from_iter([wearer.clone()]));
        Ok(())
    }

    /// Takes a hat from a user; returns `true` if the user wore it.
    fn take_off(&mut self, wearer: &Jid, uri: &str) -> bool {
        let Some(worn) = self.hats.get_mut(wearer) else { return false };
        let before = worn.len();
        worn.retain(|hat| hat.attr("uri") != Some(uri));
        let has_changed = worn.len() < before;
        if worn.is_empty() {
            self.hats.remove(wearer);
        }
        has_changed
    }

    fn show_hats(&mut self, world: &mut World, wearers: &Set<Jid>) {
        let theirs = self.occupants.iter().filter(|(_, occupant)| wearers.contains(&occupant.account));
        for at in theirs.map(|(at, _)| at).collect::<Vec<_>>() {
            if let Some(occupant) = self.occupants.get_mut(at) {
                occupant.changed();
            }
            self.announce(world, at, &ShownPresence::default());
        }
    }

    fn hat_form(&self, command: &str) -> Element {
        let form = Form::new("form").title("Hats").hidden("FORM_TYPE", FORM_TYPE);
        let list = Field::list_single(URI).label("Hat").required();
        let list = self.hat_list.iter().fold(list, |list, hat| {
            list.option(hat.attr("uri").unwrap_or_default(), hat.attr("title").unwrap_or_default())
        });
        let form = match command {
            "create" => form
                .field(Field::text_single(TITLE).label("Title").required())
                .field(Field::text_single(URI).label("URI").required())
                .field(Field::text_single(HUE).label("Hue, in degrees")),
            "destroy" => form.field(list),
            _ => form.field(Field::jid_single(JID).label("User").required()).field(list),
        };
        form.element()
    }

    fn list_hats(&self) -> Element {
        let rows = self.hat_list.iter().map(|hat| row(hat, None));
        table(&[TITLE, URI, HUE], rows)
    }

    fn list_wearers(&self) -> Element {
        let worn = self.hats.iter().flat_map(|(wearer, hats)| hats.iter().map(move |hat| (wearer, hat)));
        table(&[JID, URI, TITLE, HUE], worn.map(|(wearer, hat)| row(hat, Some(wearer))))
    }
}

/// Returns the bytes that a user's hats take.
fn bytes(wearer: &Jid, hats: &[Element]) -> usize {
    let texts = hats.iter().flat_map(|hat| [hat.attr("title"), hat.attr("uri"), hat.attr("hue")]).flatten();
    hats.len() * (ROW_BYTES + wearer.as_str().len()) + texts.map(str::len).sum::<usize>()
}

/// Returns a result with many items (XEP-0004 §3.4).
fn table(columns: &[&str], rows: impl Iterator<Item = Element>) -> Element {
    let field = |var: &&str| Element::new("field", ns::DATA_FORMS).with_attr("var", *var);
    let reported = columns.iter().map(field).fold(Element::new("reported", ns::DATA_FORMS), Element::with_child);
    let form = Form::new("result").title("Hats").element().with_child(reported);
    rows.fold(form, Element::with_child)
}

fn row(hat: &Element, wearer: Option<&Jid>) -> Element {
    let cells =
        [(JID, wearer.map(Jid::as_str)), (TITLE, hat.attr("title")), (URI, hat.attr("uri")), (HUE, hat.attr("hue"))];
    let cells = cells.into_iter().filter_map(|(var, value)| {
        let value = Element::new("value", ns::DATA_FORMS).with_text(value?);
        Some(Element::new("field", ns::DATA_FORMS).with_attr("var", var).with_child(value))
    });
    cells.fold(Element::new("item", ns::DATA_FORMS), Element::with_child)
}

/// The commands: names below [`PREFIX`], and titles.
const COMMANDS: [(&str, &str); 6] = [
    ("create", "Create a hat"),
    ("destroy", "Destroy a hat"),
    ("list", "List hats"),
    ("assign", "Give somebody a hat"),
    ("unassign", "Take a hat away from somebody"),
    ("list-assigned", "List the hats and the users who wear them"),
];
const PREFIX: &str = "urn:xmpp:hats:commands:";
const FORM_TYPE: &str = "urn:xmpp:hats:commands";
const JID: &str = "hats#jid";
const TITLE: &str = "hats#title";
const URI: &str = "hats#uri";
const HUE: &str = "hats#hue";

/// The most hats of a room.
const MOST_HATS: usize = 100;
/// The most hats of one user.
const MOST_WORN: usize = 10;
/// The most users with hats.
const MOST_WEARERS: usize = 1000;
/// The most bytes of all hats that users have, so that the list of them fits one stanza.
pub(super) const MOST_BYTES: usize = 192 * 1024;
/// The bytes that a row of that list takes besides its texts.
const ROW_BYTES: usize = 256;
/// The longest title or URI, in bytes.
const LONGEST: usize = 255;
