//! Numbers and lists of accounts: XEP-0133 §4.13 to §4.22.
//!
//! Registered and disabled accounts are in the store; all shards are asked for online ones.
//! *Active* means an account with an available resource that doesn't show `away` or `xa`; *idle*
//! one whose resources all do.

use rookery_fanout::Link;
use rookery_hub::{Hooks, Question, QuestionReply, World};
use rookery_jid::Jid;
use rookery_modkit::form::Field;
use rookery_operations::Gathered;
use rookery_operations::rights::Rights;
use rookery_store::Pending;
use rookery_xml::ns;
use serde::{Deserialize, Serialize};

use super::{NAME, form, result};
use crate::commands::order::{AdHocCommand, CommandOrder, CommandOutcome, CommandStep};

pub(crate) const COMMANDS: &[AdHocCommand] = &[
    number(
        "http://jabber.org/protocol/admin#get-registered-users-num",
        "Get the number of registered users",
        |world, order| {
            let count = world.stores.accounts.count(Some(order.domain()));
            tell_stored(world, order, "registeredusersnum", count);
        },
    ),
    number(
        "http://jabber.org/protocol/admin#get-disabled-users-num",
        "Get the number of disabled users",
        |world, order| {
            let count = world.stores.accounts.count_disabled(order.domain());
            tell_stored(world, order, "disabledusersnum", count);
        },
    ),
    number(
        "http://jabber.org/protocol/admin#get-online-users-num",
        "Get the number of online users",
        |world, order| {
            count(world, order, "onlineusersnum", ListChoice::Online);
        },
    ),
    number(
        "http://jabber.org/protocol/admin#get-active-users-num",
        "Get the number of active users",
        |world, order| {
            count(world, order, "activeusersnum", ListChoice::Active);
        },
    ),
    number("http://jabber.org/protocol/admin#get-idle-users-num", "Get the number of idle users", |world, order| {
        count(world, order, "idleusersnum", ListChoice::Idle);
    }),
    list(
        "http://jabber.org/protocol/admin#get-registered-users-list",
        "Get the list of registered users",
        |world, order| {
            let page = ListPage::of(&order);
            let listed = world.stores.accounts.list(order.domain(), page.after(), page.limit + 1);
            list_stored(world, order, "registereduserjids", listed);
        },
    ),
    list(
        "http://jabber.org/protocol/admin#get-disabled-users-list",
        "Get the list of disabled users",
        |world, order| {
            let page = ListPage::of(&order);
            let listed = world.stores.accounts.list_disabled(order.domain(), page.after(), page.limit + 1);
            list_stored(world, order, "disableduserjids", listed);
        },
    ),
    list("http://jabber.org/protocol/admin#get-online-users-list", "Get the list of online users", |world, order| {
        list_present(world, order, "onlineuserjids", ListChoice::Online);
    }),
    list("http://jabber.org/protocol/admin#get-active-users", "Get the list of active users", |world, order| {
        list_present(world, order, "activeuserjids", ListChoice::Active);
    }),
    list("http://jabber.org/protocol/admin#get-idle-users", "Get the list of idle users", |world, order| {
        // Not a mistake: the standard's own name for the field of this list (§4.22).
        list_present(world, order, "activeuserjids", ListChoice::Idle);
    }),
];

const fn number(node: &'static str, name: &'static str, run: CommandStep) -> AdHocCommand {
    AdHocCommand { node, name, module: NAME, may: Rights::Admin, switch: None, stages: &[], run }
}

const fn list(node: &'static str, name: &'static str, run: CommandStep) -> AdHocCommand {
    AdHocCommand { node, name, module: NAME, may: Rights::Admin, switch: None, stages: &[ask], run }
}

/// Asks for the number of entries; the standard leaves it to services how further ones are
/// requested.
fn ask(world: &mut World, order: CommandOrder) {
    let most = Field::list_single("max_items").label("Maximum number of items to show");
    let most = ["25", "50", "75", "100", "150", "200"].iter().fold(most, |field, number| field.option(number, number));
    let most = most.option("none", "None").value("100");
    let after = Field::text_single("after").label("Only those after this Jabber ID");
    let form = form("Requesting a List of Users", "Fill out this form to request users of this service.");
    order.ask(world, form.field(most).field(after));
}

/// The part of a list that is requested.
struct ListPage {
    limit: usize,
    after: Option<Jid>,
}

impl ListPage {
    fn of(order: &CommandOrder) -> Self {
        let limit = order.value("max_items").and_then(|text| text.parse().ok()).unwrap_or(MAX_ITEMS);
        let after = order.value("after").and_then(|text| Jid::parse(text).ok());
        Self { limit: limit.clamp(1, MAX_ITEMS), after }
    }

    fn after(&self) -> Option<rookery_jid::JidRef<'_>> {
        self.after.as_ref().map(Jid::as_ref)
    }
}

fn tell_stored(world: &mut World, order: CommandOrder, var: &'static str, count: Pending<u64>) {
    world.wait(count, move |world, count| match count {
        Ok(count) => tell(world, order, var, (count, false)),
        Err(error) => order.store_failed(world, "counting accounts", &error),
    });
}

fn tell(world: &mut World, order: CommandOrder, var: &str, (count, is_partial): (u64, bool)) {
    let form = result().field(Field::text_single(var).value(&count.to_string()));
    order.complete(world, with_note(CommandOutcome::result(form.element()), is_partial));
}

/// Adds to an outcome that the list is incomplete.
fn with_note(outcome: CommandOutcome, is_partial: bool) -> CommandOutcome {
    match is_partial {
        true => outcome.note("warn", "a part of the server has not answered in time, so its users are missing"),
        false => outcome,
    }
}

fn list_stored(world: &mut World, order: CommandOrder, var: &'static str, listed: Pending<Vec<Jid>>) {
    world.wait(listed, move |world, listed| match listed {
        Ok(listed) => {
            let items = listed.iter().map(ToString::to_string).collect();
            show(world, order, var, Gathered { items, is_partial: false });
        }
        Err(error) => order.store_failed(world, "listing accounts", &error),
    });
}

/// A choice among the accounts that are online, by their sessions.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum ListChoice {
    Online,
    Active,
    Idle,
}

impl ListChoice {
    fn takes(self, world: &World, links: &[Link]) -> bool {
        match self {
            Self::Online => true,
            Self::Active => is_active(world, links),
            Self::Idle => is_idle(world, links),
        }
    }
}

pub(super) fn install(hooks: &mut Hooks<'_>) {
    hooks.question::<OnlineCount>();
    hooks.question::<OnlineList>();
}

fn count(world: &mut World, order: CommandOrder, var: &'static str, choice: ListChoice) {
    let asked = OnlineCount { domain: order.domain().to_owned(), choice };
    world.put_to_all(asked, move |world, counts| {
        let count = counts.iter().flatten().sum();
        tell(world, order, var, (count, counts.contains(&None)));
    });
}

/// Asks a shard for the number of a domain's accounts with sessions there.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OnlineCount {
    domain: String,
    choice: ListChoice,
}

impl Question for OnlineCount {
    const NAME: &'static str = "administration count";
    type Answer = u64;

    fn ask(self, world: &mut World, reply: QuestionReply<u64>) {
        let count = world.present(&self.domain).filter(|(_, links)| self.choice.takes(world, links)).count();
        reply.answer(world, count as u64);
    }
}

fn list_present(world: &mut World, order: CommandOrder, var: &'static str, choice: ListChoice) {
    let ListPage { limit, after } = ListPage::of(&order);
    let asked = OnlineList { domain: order.domain().to_owned(), choice, after, most: limit + 1 };
    world.put_to_all(asked, move |world, found| {
        let Gathered { items, is_partial } = Gathered::from(found);
        let items = first(items.iter().map(String::as_str).collect(), limit + 1);
        show(world, order, var, Gathered { items, is_partial });
    });
}

/// Asks a shard for the bare JIDs of a domain's accounts that sort after one, up to a limit.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OnlineList {
    domain: String,
    choice: ListChoice,
    after: Option<Jid>,
    most: usize,
}

impl Question for OnlineList {
    const NAME: &'static str = "administration list";
    type Answer = Vec<String>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let Self { domain, choice, after, most } = self;
        let after = after.as_ref().map_or("", Jid::as_str);
        let chosen = world.present(&domain).filter(|(bare, links)| *bare > after && choice.takes(world, links));
        let found = first(chosen.map(|(bare, _)| bare).collect(), most);
        reply.answer(world, found);
    }
}

/// Returns the first names in order, at most `limit`.
fn first(mut names: Vec<&str>, limit: usize) -> Vec<String> {
    if names.len() > limit {
        names.select_nth_unstable(limit);
        names.truncate(limit);
    }
    names.sort_unstable();
    names.into_iter().map(str::to_owned).collect()
}

/// Shows the requested part of a list, which was gathered with one entry more than is shown, as far
/// as it fits one stanza: users may choose long names.
fn show(world: &mut World, order: CommandOrder, var: &str, listed: Gathered<String>) {
    let Gathered { items: mut names, is_partial } = listed;
    let limit = ListPage::of(&order).limit;
    let mut bytes = 0;
    let fits = |name: &&String| {
        bytes += name.len() + VALUE_BYTES;
        bytes <= MAX_BYTES
    };
    let most = names.iter().take_while(fits).count().clamp(1, limit);
    let is_cut = names.len() > most;
    names.truncate(most);
    let last = names.last().cloned();
    let outcome = CommandOutcome::result(result().field(Field::text_multi(var).with_values(names)).element());
    let outcome = with_note(outcome, is_partial);
    order.complete(
        world,
        match last.filter(|_| is_cut) {
            Some(last) => outcome.note("info", format!("there are more after {last}")),
            None => outcome,
        },
    );
}

fn is_active(world: &World, links: &[Link]) -> bool {
    links.iter().any(|&link| shows(world, link) == Some(ListAttention::Here))
}

fn is_idle(world: &World, links: &[Link]) -> bool {
    !is_active(world, links) && links.iter().any(|&link| shows(world, link).is_some())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListAttention {
    Here,
    Away,
}

/// Returns the attention that a session's presence shows; `None` if it isn't available.
fn shows(world: &World, link: Link) -> Option<ListAttention> {
    let presence = world.session_at(link)?.presence.as_ref()?;
    let stanza = presence.stanza();
    let show = stanza.child("show", ns::CLIENT).map(|show| show.element().text());
    Some(match show.as_deref().map(str::trim) {
        Some("away" | "xa") => ListAttention::Away,
        _ => ListAttention::Here,
    })
}

/// The most accounts in one reply, which is one stanza.
const MAX_ITEMS: usize = 2000;
/// The most bytes of such a list.
const MAX_BYTES: usize = 192 * 1024;
/// The bytes of markup around a name.
const VALUE_BYTES: usize = 15;
