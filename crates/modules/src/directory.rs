//! XEP-0055: a directory of the users of a domain, who find each other by their names and vCards.
//!
//! It is off by default: a server for strangers has no reason to reveal its users. A search looks
//! at one account after the other, with the vCard (XEP-0054) that the account shows to anyone,
//! since there is no index of vCards: it is meant for a company or a school, and bounded.
//!
//! # Invariants
//!
//! * A search looks at a limited number of accounts, a portion at a time, and nothing else waits
//!   for it.
//! * An account can run one search at a time.

use rookery_base::Set;
use rookery_fanout::Packet;
use rookery_hub::{Bound, Domain, Hooks, Iq, Module, Most, OptionSpec, Options, Per, Unit, Value, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::disco::{DiscoIdentity, Info, reply_items};
use rookery_modkit::form::{Field, Form};
use rookery_modkit::option;
use rookery_modkit::request::{is_get, to_service};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, ns};

/// The module that lets users find each other.
#[derive(Debug)]
pub struct UserDirectory;

/// The accounts of a shard that have a search in progress.
#[derive(Debug, Default)]
struct Searching(Set<Jid>);

impl Module for UserDirectory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users can find each other by name, as in a company"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0055", "1.3")]
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(Searching::default());
        hooks.service(serve);
    }
}

/// Dispatches a stanza for the service.
fn serve(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    let Some((iq, options)) = to_service(world, packet, to, domain, NAME) else { return };
    match iq.payload.ns() {
        ns::DISCO_INFO if is_get(world, &iq, "query") => info(world, &iq, options),
        ns::DISCO_ITEMS if is_get(world, &iq, "query") => reply_items(world, &iq, &[]),
        SEARCH if iq.payload.name() == "query" => {
            if !option::may_use(world, options.list("access"), &iq.from) {
                return world.reply_error(&iq, Condition::Forbidden);
            }
            match iq.set {
                true => begin(world, iq, options, domain),
                false => ask(world, &iq),
            }
        }
        ns::DISCO_INFO | ns::DISCO_ITEMS => {}
        _ => world.reply_error(&iq, Condition::ServiceUnavailable),
    }
}

fn info(world: &mut World, iq: &Iq, options: &Options) {
    let identity = DiscoIdentity { category: "directory", type_: "user", name: Some(options.text("name")) };
    let info = Info { identity, more: &[], features: vec![ns::DISCO_INFO, ns::DISCO_ITEMS, SEARCH], forms: Vec::new() };
    let mut reply = iq.result();
    info.write(&mut reply, None);
    world.reply(iq, reply);
}

/// Replies with the fields that may be searched for (§2.1, §2.3).
fn ask(world: &mut World, iq: &Iq) {
    let form = Form::new("form").title("Users").instructions(INSTRUCTIONS).hidden("FORM_TYPE", SEARCH);
    let form = form.field(Field::text_single(WORDS).label("Name or address").required());
    let mut reply = iq.result();
    reply.start_ns("query", SEARCH).text_child("instructions", INSTRUCTIONS);
    for name in FIELDS {
        reply.text_child(name, "");
    }
    reply.element(&form.element());
    world.reply(iq, reply);
}

/// A search in progress.
struct UserSearch {
    iq: Iq,
    domain: String,
    /// The words to find, in lower case.
    words: Vec<String>,
    /// True if it came by a form, as the result then does, too.
    by_form: bool,
    /// The number of accounts that it may still look at.
    left: usize,
    most_found: usize,
    found: Vec<FoundUser>,
}

/// A user who was found, with data from the vCard.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FoundUser {
    jid: Jid,
    name: String,
    first: String,
    last: String,
    nick: String,
    email: String,
}

fn begin(world: &mut World, iq: Iq, options: &Options, domain: &Domain) {
    let form = Form::within(&iq.payload);
    let texts: Vec<String> = match &form {
        Some(form) => form.values(WORDS).map(str::to_owned).collect(),
        None => FIELDS.iter().filter_map(|name| iq.payload.child_text(name, SEARCH)).collect(),
    };
    let words: Vec<String> =
        texts.iter().flat_map(|text| text.split_whitespace()).map(str::to_lowercase).take(MOST_WORDS).collect();
    let letters = words.iter().map(|word| word.chars().count()).max().unwrap_or_default();
    if letters < FEW_LETTERS {
        let error = StanzaError::new(Condition::NotAcceptable).with_text("at least two letters are needed");
        return world.reply_error(&iq, error);
    }
    if !world.state_mut::<Searching>().0.insert(iq.from.to_bare()) {
        let error = StanzaError::new(Condition::ResourceConstraint).with_text("a search of yours is already running");
        return world.reply_error(&iq, error);
    }
    let number = |key: &str| usize::try_from(options.number(key)).unwrap_or(usize::MAX);
    let (left, most_found) = (number(MOST_ACCOUNTS), number(MOST_RESULTS));
    let domain = domain.name.clone();
    look(world, UserSearch { iq, domain, words, by_form: form.is_some(), left, most_found, found: Vec::new() }, None);
}

/// Looks at a portion of the accounts that sort after one.
fn look(world: &mut World, search: UserSearch, after: Option<Jid>) {
    let portion = search.left.min(PORTION);
    let listed = world.stores.accounts.list(&search.domain, after.as_ref().map(Jid::as_ref), portion);
    world.wait(listed, move |world, listed| match listed {
        Ok(accounts) => {
            let cards = world.stores.documents.of(accounts.clone(), CARD);
            world.wait(cards, move |world, cards| match cards {
                Ok(cards) => handle_cards(world, search, accounts, &cards, portion),
                Err(error) => failed(world, &search, &error),
            });
        }
        Err(error) => failed(world, &search, &error),
    });
}

fn handle_cards(
    world: &mut World,
    mut search: UserSearch,
    accounts: Vec<Jid>,
    cards: &[(Jid, Vec<u8>)],
    portion: usize,
) {
    search.left = search.left.saturating_sub(accounts.len());
    let card = |account: &Jid| {
        let found = cards.iter().find(|(owner, _)| owner == account)?;
        Element::parse(&found.1).ok()
    };
    let found = accounts.iter().map(|account| FoundUser::of(account, card(account).as_ref()));
    let matching: Vec<_> = found.filter(|user| user.has(&search.words)).collect();
    search.found.extend(matching);
    search.found.truncate(search.most_found);
    let is_over = accounts.len() < portion || search.left == 0 || search.found.len() >= search.most_found;
    match accounts.last().filter(|_| !is_over) {
        Some(last) => {
            let last = last.clone();
            look(world, search, Some(last));
        }
        None => end(world, &search),
    }
}

impl FoundUser {
    fn of(jid: &Jid, card: Option<&Element>) -> Self {
        let text = |parent: Option<&Element>, name: &str| {
            let text = parent.and_then(|parent| parent.child_text(name, ns::VCARD)).unwrap_or_default();
            text.trim().chars().take(MOST_LETTERS).collect::<String>()
        };
        let within = |name: &str| card.and_then(|card| card.child(name, ns::VCARD));
        Self {
            jid: jid.clone(),
            name: text(card, "FN"),
            first: text(within("N"), "GIVEN"),
            last: text(within("N"), "FAMILY"),
            nick: text(card, "NICKNAME"),
            email: text(within("EMAIL"), "USERID"),
        }
    }

    /// Returns whether each of these words is part of one of its texts.
    fn has(&self, words: &[String]) -> bool {
        let Self { jid, name, first, last, nick, email } = self;
        let texts = [jid.local().unwrap_or_default(), name, first, last, nick, email].map(str::to_lowercase);
        words.iter().all(|word| texts.iter().any(|text| text.contains(word.as_str())))
    }

    fn fields(&self) -> [(&'static str, &str); 5] {
        [("first", &self.first), ("last", &self.last), ("nick", &self.nick), ("email", &self.email), ("fn", &self.name)]
    }
}

/// Replies with the users who were found (§2.2, §2.3).
fn end(world: &mut World, search: &UserSearch) {
    world.state_mut::<Searching>().0.remove(&search.iq.from.to_bare());
    let mut query = Element::new("query", SEARCH);
    match search.by_form {
        true => query.push_child(form(&search.found)),
        false => {
            for user in &search.found {
                let mut item = Element::new("item", SEARCH).with_attr("jid", user.jid.as_str());
                for (name, text) in user.fields().iter().filter(|(name, _)| FIELDS.contains(name)) {
                    item.push_child(Element::new(*name, SEARCH).with_text(*text));
                }
                query.push_child(item);
            }
        }
    }
    let mut reply = search.iq.result();
    reply.element(&query);
    world.reply(&search.iq, reply);
}

/// Returns the users who were found as a form (XEP-0004 §3.4).
fn form(found: &[FoundUser]) -> Element {
    let field = |var: &str| Element::new("field", ns::DATA_FORMS).with_attr("var", var);
    let value = |text: &str| Element::new("value", ns::DATA_FORMS).with_text(text);
    let type_ = field("FORM_TYPE").with_attr("type", "hidden").with_child(value(SEARCH));
    let mut form = Element::new("x", ns::DATA_FORMS).with_attr("type", "result").with_child(type_);
    let mut reported = Element::new("reported", ns::DATA_FORMS);
    reported.push_child(field("jid").with_attr("type", "jid-single").with_attr("label", "Address"));
    for (var, label) in LABELS {
        reported.push_child(field(var).with_attr("label", label));
    }
    form.push_child(reported);
    for user in found {
        let mut item = Element::new("item", ns::DATA_FORMS);
        item.push_child(field("jid").with_child(value(user.jid.as_str())));
        for (var, text) in user.fields() {
            item.push_child(field(var).with_child(value(text)));
        }
        form.push_child(item);
    }
    form
}

fn failed(world: &mut World, search: &UserSearch, error: &rookery_store::StoreError) {
    world.state_mut::<Searching>().0.remove(&search.iq.from.to_bare());
    world.store_failed("searching for users", &search.iq.from, error);
    world.reply_error(&search.iq, rookery_hub::failure::condition(error));
}

const OPTIONS: [OptionSpec; 5] = [
    OptionSpec {
        key: "host",
        default: || Value::Text("search.@".to_owned()),
        doc: "the address of the service; @ stands for the domain",
        check: option::host,
    },
    OptionSpec {
        key: "name",
        default: || Value::Text("Users".to_owned()),
        doc: "its name in lists of services",
        check: option::any,
    },
    OptionSpec {
        key: "access",
        default: || Value::List(vec!["local".to_owned()]),
        doc: "who may use it: \"all\", \"local\" (users of this server, without those of anonymous domains), domains or addresses",
        check: option::access_list,
    },
    OptionSpec {
        key: MOST_ACCOUNTS,
        default: || Value::Number(5000),
        doc: "accounts that a search looks at, in the order of their names; later ones aren't found",
        check: option::at_least_one,
    },
    OptionSpec {
        key: MOST_RESULTS,
        default: || Value::Number(50),
        doc: "the most users that a search finds",
        check: option::at_least_one,
    },
];

const BOUNDS: [Bound; 3] = [
    Bound::on("accounts that a search for users looks at", Per::Stanza, Most::Option(MOST_ACCOUNTS), Unit::Number)
        .or("later ones aren't found"),
    Bound::on("users whom a search finds", Per::Stanza, Most::Option(MOST_RESULTS), Unit::Number)
        .or("further ones are left out"),
    Bound::on("searches for users at a time", Per::Account, Most::Fixed(1), Unit::Number)
        .or("another one gets <resource-constraint/>"),
];

/// The key below `[modules]`.
const NAME: &str = "directory";
const MOST_ACCOUNTS: &str = "search_accounts";
const MOST_RESULTS: &str = "results";
const SEARCH: &str = "jabber:iq:search";
/// The name of the document with an account's vCard.
const CARD: &str = "vcard";
const INSTRUCTIONS: &str = "Write parts of the name, or of the address.";
/// The field of the form.
const WORDS: &str = "search";
/// The fields for clients without forms (§2.1).
const FIELDS: [&str; 4] = ["first", "last", "nick", "email"];
const LABELS: [(&str, &str); 5] =
    [("first", "First name"), ("last", "Last name"), ("nick", "Nickname"), ("email", "E-mail"), ("fn", "Name")];
/// The accounts that are looked at together: their vCards may have photos.
const PORTION: usize = 50;
const MOST_WORDS: usize = 8;
/// The length up to which a word counts as short, in characters.
const FEW_LETTERS: usize = 2;
/// The most characters of a text that are shown.
const MOST_LETTERS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_in_some_text() {
        let jid = Jid::parse("jsmith@a.example").unwrap();
        let card = "<vCard xmlns='vcard-temp'><FN>Jane Smith</FN><N><FAMILY>Smith</FAMILY><GIVEN>Jane</GIVEN></N>\
                    <EMAIL><USERID>jane@firm.example</USERID></EMAIL></vCard>";
        let user = FoundUser::of(&jid, Some(&Element::parse(card.as_bytes()).unwrap()));
        let has = |words: &[&str]| user.has(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(has(&["jane"]) && has(&["smith", "jan"]) && has(&["firm.example"]) && has(&["jsm"]));
        assert!(!has(&["jane", "doe"]) && !has(&["a.example"]), "the domain is everybody's");
        assert!(FoundUser::of(&jid, None).has(&["jsmith".to_owned()]), "also without a card");
    }
}
