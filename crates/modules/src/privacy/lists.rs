//! XEP-0016: Privacy Lists.

use rookery_base::Set;
use rookery_hub::failure::condition;
use rookery_hub::{Iq, SessionRef, World};
use rookery_jid::Jid;
use rookery_store::StoreError;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, ns};

use super::change::{self, Shift};
use super::limits::{MAX_ITEMS, fit, most};
use super::pushes::{push_blocks, push_list, rules_of};
use super::rules::{PrivacyList, PrivacyRule, PrivacyRules, RuleFault, Test};
use super::sessions::{PrivacySessions, screen, sessions_of};

/// Replies to a request of the privacy lists protocol.
pub(crate) fn answer(world: &mut World, iq: Iq) {
    // Only the account itself has privacy lists to request.
    let Some(session) = iq.origin.filter(|_| iq.is_own()) else {
        return world.reply_error(&iq, Condition::ServiceUnavailable);
    };
    world.state_mut::<PrivacySessions>().asked_for_lists(session);
    let answered = match (iq.payload.name(), iq.set) {
        ("query", false) => get(world, &iq),
        ("query", true) => set(world, session, &iq),
        _ => Err(Condition::BadRequest.into()),
    };
    if let Err(error) = answered {
        world.reply_error(&iq, error);
    }
}

/// Sends the names of all lists, or one list (§2.3).
fn get(world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
    let rules = rules_of(world, &iq.to);
    let mut asked = iq.payload.children();
    let mut reply = iq.result();
    reply.start_ns("query", ns::PRIVACY);
    match (asked.next(), asked.next()) {
        (None, _) => {
            let active = world.state::<PrivacySessions>().active(iq.from.as_ref());
            for (kind, name) in [("active", active), ("default", rules.default.as_deref())] {
                if let Some(name) = name {
                    reply.start(kind).attr("name", name).end();
                }
            }
            for list in &rules.lists {
                reply.start("list").attr("name", &list.name).end();
            }
        }
        (Some(list), None) if list.is("list", ns::PRIVACY) => {
            let name = list.attr("name").ok_or(Condition::BadRequest)?;
            rules.list(name).ok_or(Condition::ItemNotFound)?.write(&mut reply);
        }
        _ => return Err(Condition::BadRequest.into()),
    }
    reply.end();
    world.reply(iq, reply);
    Ok(())
}

fn set(world: &mut World, session: SessionRef, iq: &Iq) -> Result<(), StanzaError> {
    let mut asked = iq.payload.children();
    let (Some(asked), None) = (asked.next(), asked.next()) else { return Err(Condition::BadRequest.into()) };
    if asked.ns() != ns::PRIVACY {
        return Err(Condition::BadRequest.into());
    }
    let name = asked.attr("name");
    match (asked.name(), name) {
        ("active", _) => set_active(world, session, iq, name),
        ("default", _) => set_default(world, session, iq, name),
        ("list", Some(name)) if asked.children().next().is_none() => remove(world, session, iq, name),
        ("list", Some(name)) => put(world, session, iq, name, asked),
        _ => Err(Condition::BadRequest.into()),
    }
}

/// Makes a list the active one of a session; `None` declines the active list (§2.4).
fn set_active(world: &mut World, session: SessionRef, iq: &Iq, name: Option<&str>) -> Result<(), StanzaError> {
    let rules = rules_of(world, &iq.to);
    if name.is_some_and(|name| rules.list(name).is_none()) {
        return Err(Condition::ItemNotFound.into());
    }
    let account = iq.to.to_bare();
    let sessions = world.state::<PrivacySessions>();
    let shift = Shift::between(world, &account, |address| {
        let before = sessions.list_for(&rules, address);
        let is_asker = iq.from == address;
        let after = name.map_or_else(|| rules.default_list(), |name| rules.list(name));
        (before, if is_asker { after } else { before })
    });
    shift.shut_out(world);
    world.state_mut::<PrivacySessions>().set_active(session, iq.from.clone(), name.map(str::to_owned));
    screen(world, account.as_ref());
    shift.open(world);
    world.reply_done(iq);
    Ok(())
}

/// Makes a list the default one of the account; `None` declines the default list (§2.5).
fn set_default(world: &mut World, session: SessionRef, iq: &Iq, name: Option<&str>) -> Result<(), StanzaError> {
    let mut rules = rules_of(world, &iq.to);
    if name.is_some_and(|name| rules.list(name).is_none()) {
        return Err(Condition::ItemNotFound.into());
    }
    if rules.default.as_deref() == name {
        world.reply_done(iq);
        return Ok(());
    }
    let is_in_use = rules.default.is_some() && others_use(world, session, iq, None);
    if is_in_use {
        return Err(Condition::Conflict.into());
    }
    rules.default = name.map(str::to_owned);
    replace(world, session, iq, rules, None);
    Ok(())
}

/// Removes a list (§2.8).
fn remove(world: &mut World, session: SessionRef, iq: &Iq, name: &str) -> Result<(), StanzaError> {
    let mut rules = rules_of(world, &iq.to);
    if rules.list(name).is_none() {
        return Err(Condition::ItemNotFound.into());
    }
    let is_default = rules.default.as_deref() == Some(name);
    let is_in_use = others_use(world, session, iq, Some(name)) || is_default && others_use(world, session, iq, None);
    if is_in_use {
        return Err(Condition::Conflict.into());
    }
    rules.remove(name);
    replace(world, session, iq, rules, Some(name));
    Ok(())
}

/// Adds a list or replaces one (§2.6, §2.7).
fn put(world: &mut World, session: SessionRef, iq: &Iq, name: &str, list: &Element) -> Result<(), StanzaError> {
    let full = || StanzaError::new(Condition::ResourceConstraint).with_text("too many privacy lists, or too long");
    if list.children().count() as u64 > most(world, iq, MAX_ITEMS) {
        return Err(full());
    }
    let items = list.children().map(PrivacyRule::read).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|fault| match fault {
        RuleFault::Malformed => Condition::BadRequest,
        RuleFault::Jid => Condition::JidMalformed,
    })?;
    let list = PrivacyList::new(name.to_owned(), items).ok_or(Condition::BadRequest)?;
    let mut rules = rules_of(world, &iq.to);
    rules.put(list.clone());
    if rules.lists.len() > MAX_LISTS || name.len() > MAX_NAME || !fit(world, iq, &rules) {
        return Err(full());
    }
    if !rules.need_roster() {
        replace(world, session, iq, rules, Some(name));
        return Ok(());
    }
    let (iq, name) = (iq.clone(), name.to_owned());
    world.load_roster(session, &iq.to.clone(), move |world, loaded| {
        let has_groups = loaded.map(|()| has_groups(world, &iq.to, &list));
        match has_groups {
            Ok(true) => {
                // Changes made meanwhile by another session stay.
                let mut rules = rules_of(world, &iq.to);
                rules.put(list);
                replace(world, session, &iq, rules, Some(&name));
            }
            Ok(false) => world.reply_error(&iq, Condition::ItemNotFound),
            Err(error) => failed(world, &iq, &error),
        }
    });
    Ok(())
}

/// Returns whether each group that a list names has a member (§2.1).
fn has_groups(world: &World, account: &Jid, list: &PrivacyList) -> bool {
    let groups = world.roster_groups(account.as_ref());
    list.items().iter().all(|item| match &item.test {
        Test::Group(group) => groups.contains(group),
        _ => true,
    })
}

/// Returns whether a session other than the asker's uses the list of that name or, without a name,
/// the default one.
fn others_use(world: &World, asker: SessionRef, iq: &Iq, name: Option<&str>) -> bool {
    let others = sessions_of(world, iq.to.as_ref()).into_iter().filter(|session| *session != asker);
    let mut addresses = others.filter_map(|session| world.address(session.link));
    addresses.any(|address| world.state::<PrivacySessions>().active(address.as_ref()) == name)
}

/// Sets new rules and replies; `pushed` is the list that has changed, if any (§2.2, tenth rule).
fn replace(world: &mut World, session: SessionRef, iq: &Iq, rules: PrivacyRules, pushed: Option<&str>) {
    let blocked = |rules: &PrivacyRules| rules.block_list().into_iter().cloned().collect::<Vec<Jid>>();
    let (before, after) = (blocked(&rules_of(world, &iq.to)), blocked(&rules));
    let (iq, pushed) = (iq.clone(), pushed.map(str::to_owned));
    let account = iq.to.to_bare();
    let lost = pushed.clone().filter(|name| rules.list(name).is_none());
    change::replace(world, &account.clone(), rules, move |world, kept| {
        if let Err(error) = kept {
            return failed(world, &iq, &error);
        }
        // Only the asker may be using a list that it removes.
        if lost.is_some() && world.state::<PrivacySessions>().active(iq.from.as_ref()) == lost.as_deref() {
            world.state_mut::<PrivacySessions>().set_active(session, iq.from.clone(), None);
            screen(world, account.as_ref());
        }
        world.reply_done(&iq);
        if let Some(name) = pushed {
            push_list(world, &account, &name, |_, _| true);
        }
        for (name, one, other) in [("block", &after, &before), ("unblock", &before, &after)] {
            let other: Set<&Jid> = other.iter().collect();
            let new: Vec<Jid> = one.iter().filter(|jid| !other.contains(jid)).cloned().collect();
            if !new.is_empty() {
                push_blocks(world, &account, name, &new);
            }
        }
    });
}

fn failed(world: &mut World, iq: &Iq, error: &StoreError) {
    world.store_failed("keeping privacy lists", &iq.to, error);
    world.reply_error(iq, condition(error));
}

/// The most lists of one account.
pub(super) const MAX_LISTS: usize = 50;
/// The most bytes of a list's name.
const MAX_NAME: usize = 1023;
