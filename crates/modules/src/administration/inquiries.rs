//! Inquiries about one account: XEP-0133 §4.8 to §4.10.

use rookery_base::date;
use rookery_hub::World;
use rookery_jid::Jid;
use rookery_modkit::form::Field;
use rookery_operations::rights::Rights;
use rookery_operations::sessions;
use rookery_store::RosterItem;
use rookery_xml::{Element, Writer, ns};

use super::{NAME, account_form, accounts_of, refuse, result};
use crate::commands::order::{AdHocCommand, CommandOrder, CommandOutcome};

pub(crate) const COMMANDS: &[AdHocCommand] = &[
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#get-user-roster",
        name: "Get the roster of a user",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            ask(world, order, "Getting a User's Roster", "Fill out this form to get a user's roster.")
        }],
        run: |world, order| with_account(world, order, roster),
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#get-user-lastlogin",
        name: "Get the time when a user was last online",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            ask(
                world,
                order,
                "Getting a User's Last Login Time",
                "Fill out this form to get a user's last login time.",
            );
        }],
        run: |world, order| with_account(world, order, last_login),
    },
    AdHocCommand {
        node: "http://jabber.org/protocol/admin#user-stats",
        name: "Get statistics of a user",
        module: NAME,
        may: Rights::Admin,
        switch: None,
        stages: &[|world, order| {
            order.ask(world, account_form("Get User Statistics", "Fill out this form to gather user statistics."));
        }],
        run: |world, order| with_account(world, order, statistics),
    },
];

/// Asks for an account. The standard has `accountjids` here, though the result is about one.
fn ask(world: &mut World, order: CommandOrder, title: &str, instructions: &str) {
    order.ask(world, super::accounts_form(title, instructions));
}

/// Continues with the account of a form, if it exists.
fn with_account(world: &mut World, order: CommandOrder, then: fn(&mut World, CommandOrder, Jid)) {
    let account = match accounts_of(&order).as_deref() {
        Ok([account]) => account.to_bare(),
        Ok(_) => return order.fail(world, "one account must be given"),
        Err(text) => return order.fail(world, text.clone()),
    };
    let exists = world.stores.accounts.exists(account.as_ref());
    world.wait(exists, move |world, exists| match exists {
        Ok(true) => then(world, order, account),
        Ok(false) => order.fail(world, format!("there is no account {account}")),
        Err(error) => order.store_failed(world, "looking an account up", &error),
    });
}

/// Shows the roster of an account (§4.8).
fn roster(world: &mut World, order: CommandOrder, account: Jid) {
    let roster = world.stores.rosters.get(account.as_ref());
    world.wait(roster, move |world, roster| match roster {
        Ok(roster) => {
            let items: Vec<_> = roster.items.iter().filter(|item| item.visible()).map(element).collect();
            let mut bytes = 0;
            let fits = |item: &&Element| {
                bytes += Writer::write(item).bytes().len();
                bytes <= MAX_ROSTER
            };
            let shown = items.iter().take_while(fits).count();
            let left_out = items.len() - shown;
            let shown = items.into_iter().take(shown);
            let query = shown.fold(Element::new("query", ns::ROSTER), Element::with_child);
            let form = result().field(Field::jid_multi("accountjids").value(account.as_str())).element();
            let outcome = CommandOutcome::result(form.with_child(query));
            order.complete(
                world,
                match left_out {
                    0 => outcome,
                    more => outcome
                        .note("info", format!("the roster is too long to be shown: {more} contacts are left out")),
                },
            );
        }
        Err(error) => order.store_failed(world, "reading a roster", &error),
    });
}

fn element(item: &RosterItem) -> Element {
    let element = Element::new("item", ns::ROSTER).with_attr("jid", item.jid.as_str());
    let element = element.with_opt_attr("name", item.name.as_deref());
    let element = element.with_attr("subscription", item.subscription.as_str());
    let element = element.with_opt_attr("ask", item.ask.then_some("subscribe"));
    item.groups
        .iter()
        .fold(element, |element, group| element.with_child(Element::new("group", ns::ROSTER).with_text(group)))
}

/// Shows the time when an account was last online (§4.9).
fn last_login(world: &mut World, order: CommandOrder, account: Jid) {
    let asked = account.clone();
    sessions::of(world, &account, move |world, sessions| {
        match sessions {
            Ok(sessions) if sessions.is_empty() => {}
            Ok(_) => {
                let now = world.time();
                return tell_last_login(world, order, &asked, Some(now));
            }
            Err(refusal) => return refuse(world, order, refusal),
        }
        let seen = world.stores.last_presence.last(asked.as_ref());
        world.wait(seen, move |world, seen| match seen {
            Ok(seen) => tell_last_login(world, order, &asked, seen.map(|seen| seen.unix_ms)),
            Err(error) => order.store_failed(world, "reading when an account was last online", &error),
        });
    });
}

fn tell_last_login(world: &mut World, order: CommandOrder, account: &Jid, unix_ms: Option<u64>) {
    let form = result().field(Field::jid_multi("accountjids").value(account.as_str()));
    let outcome = match unix_ms {
        Some(unix_ms) => {
            let time = Field::text_single("lastlogin").value(&date::timestamp(unix_ms));
            CommandOutcome::result(form.field(time).element())
        }
        None => CommandOutcome::result(form.element()).note("info", "the account was never online"),
    };
    order.complete(world, outcome);
}

/// Shows the statistics of an account (§4.10), without rates, which aren't counted per account.
fn statistics(world: &mut World, order: CommandOrder, account: Jid) {
    let asked = account.clone();
    sessions::of(world, &account, move |world, sessions| {
        let sessions = match sessions {
            Ok(sessions) => sessions,
            Err(refusal) => return refuse(world, order, refusal),
        };
        let roster = world.stores.rosters.get(asked.as_ref());
        world.wait(roster, move |world, roster| match roster {
            Ok(roster) => {
                let mut addresses: Vec<_> = sessions
                    .iter()
                    .filter_map(|session| session.address)
                    .map(|peer| peer.ip().to_canonical().to_string())
                    .collect();
                addresses.sort_unstable();
                addresses.dedup();
                let size = roster.items.iter().filter(|item| item.visible()).count().to_string();
                let resources = sessions.iter().filter_map(|session| session.jid.resource());
                let form = result()
                    .field(Field::text_multi("ipaddresses").with_values(addresses))
                    .field(Field::text_single("rostersize").value(&size))
                    .field(Field::text_multi("onlineresources").with_values(resources));
                order.complete(world, CommandOutcome::result(form.element()));
            }
            Err(error) => order.store_failed(world, "reading a roster", &error),
        });
    });
}

/// The most bytes of a roster that are shown: a long one must not end the administrator's session.
const MAX_ROSTER: usize = 512 * 1024;
