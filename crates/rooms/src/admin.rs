//! Lists of roles and affiliations, requested and changed (XEP-0045 §8, §9): a change with many
//! items is applied as a whole or not at all.

use rookery_base::Map;
use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_modkit::rsm::{self, RsmAnswer};
use rookery_store::{Affiliated, Affiliation};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::items::{MOST_LISTED, item_bytes};
use super::occupant::{Occupant, nick_key};
use super::role::{Actor, RoomRole, affiliation_name, affiliation_named};
use super::room::Room;

/// The changes that a request asks for, after all of them have been allowed.
#[derive(Debug, Default)]
struct AdminPlan {
    roles: Vec<(usize, RoomRole, Option<String>)>,
    kicks: Vec<(usize, Option<String>)>,
    affiliations: Vec<Affiliated>,
}

impl Room {
    /// Carries out a request in `muc#admin`.
    pub(crate) fn administer(&mut self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        let items: Vec<_> = iq.payload.children().filter(|child| child.is("item", ns::MUC_ADMIN)).collect();
        match (iq.set, items.as_slice()) {
            (_, []) => Err(Condition::BadRequest.into()),
            (false, [item]) => self.list(world, iq, item),
            (false, _) => Err(Condition::BadRequest.into()),
            (true, items) => {
                let plan = self.plan(world, &iq.from, items)?;
                self.carry_out(world, iq, plan);
                Ok(())
            }
        }
    }

    /// Replies with as much of a list as is requested and fits (XEP-0059). A client that requests
    /// no part gets the whole list if that fits, and otherwise the first part, marked as such: an
    /// owner must be able to read a list in order to mend it.
    fn list(&mut self, world: &mut World, iq: &Iq, item: &Element) -> Result<(), StanzaError> {
        let affiliation = item.attr("affiliation").map(|name| affiliation_named(name).ok_or(Condition::BadRequest));
        let role = item.attr("role").map(|name| RoomRole::from_name(name).ok_or(Condition::BadRequest));
        let mut reply = iq.result();
        reply.start_ns("query", ns::MUC_ADMIN);
        match (affiliation.transpose()?, role.transpose()?) {
            (Some(affiliation), None) => self.list_affiliation(world, iq, affiliation, &mut reply)?,
            (None, Some(role)) => self.list_role(world, iq, role, &mut reply)?,
            _ => return Err(Condition::BadRequest.into()),
        }
        world.reply(iq, reply);
        Ok(())
    }

    /// Lists the users with an affiliation: §9.2, §9.5, §10.5, §10.8.
    fn list_affiliation(
        &self,
        world: &World,
        iq: &Iq,
        wanted: Affiliation,
        reply: &mut Writer,
    ) -> Result<(), StanzaError> {
        let asker = &iq.from;
        let affiliation = self.affiliation_of(world, asker.as_ref());
        // §9.5: if all occupants see real addresses, members may know each other.
        let is_open = self.config.is_nonanonymous
            && (affiliation >= Affiliation::Member || self.config.member_list.contains(&self.role_of(asker)));
        let may = match wanted {
            Affiliation::None => return Err(Condition::BadRequest.into()),
            Affiliation::Outcast => affiliation >= Affiliation::Admin,
            Affiliation::Member => affiliation >= Affiliation::Admin || is_open,
            Affiliation::Admin | Affiliation::Owner => affiliation == Affiliation::Owner || is_open,
        };
        if !may {
            return Err(Condition::Forbidden.into());
        }
        let found: Vec<_> = self.affiliations.values().filter(|one| one.affiliation == wanted).collect();
        let (found, answer) = page(
            &iq.payload,
            &found,
            |one| one.user.as_str(),
            |one| {
                let texts = [Some(one.user.as_str()), one.nick.as_deref(), one.reason.as_deref()];
                item_bytes(texts.into_iter().flatten())
            },
        )?;
        for one in found {
            reply.start("item").attr("affiliation", affiliation_name(wanted)).attr("jid", one.user.as_str());
            reply.opt_attr("nick", one.nick.as_deref());
            if let Some(reason) = &one.reason {
                reply.text_child("reason", reason);
            }
            reply.end();
        }
        answer.iter().for_each(|answer| answer.write(reply));
        Ok(())
    }

    /// Lists the occupants with a role: §8.5, §9.8.
    fn list_role(&self, world: &World, iq: &Iq, wanted: RoomRole, reply: &mut Writer) -> Result<(), StanzaError> {
        let Actor { affiliation, role } = self.actor(world, &iq.from);
        let is_admin = affiliation >= Affiliation::Admin;
        let may = match wanted {
            RoomRole::None => return Err(Condition::BadRequest.into()),
            RoomRole::Moderator => is_admin,
            _ => is_admin || role == RoomRole::Moderator,
        };
        if !may {
            return Err(Condition::Forbidden.into());
        }
        let found = self.occupants.iter().map(|(_, occupant)| occupant).filter(|occupant| occupant.role == wanted);
        let mut found: Vec<_> = found.collect();
        found.sort_unstable_by_key(|occupant| occupant.nick());
        let bytes = |occupant: &&Occupant| {
            item_bytes(occupant.seat().map(|seat| seat.jid.as_str()).into_iter().chain([occupant.nick()]))
        };
        let (found, answer) = page(&iq.payload, &found, |occupant| occupant.nick(), bytes)?;
        for occupant in found {
            reply.start("item").attr("affiliation", affiliation_name(occupant.affiliation));
            reply.opt_attr("jid", occupant.seat().map(|seat| seat.jid.as_str()));
            reply.attr("nick", occupant.nick()).attr("role", wanted.name()).end();
        }
        answer.iter().for_each(|answer| answer.write(reply));
        Ok(())
    }

    /// Checks everything before anything is changed.
    fn plan(&self, world: &World, from: &Jid, items: &[&Element]) -> Result<AdminPlan, StanzaError> {
        let actor = self.actor(world, from);
        let mut plan = AdminPlan::default();
        let mut now = Map::default();
        for item in items {
            match (item.attr("affiliation"), item.attr("role")) {
                (Some(affiliation), None) => {
                    let to = affiliation_named(affiliation).ok_or(Condition::BadRequest)?;
                    let user = self.user_meant(actor, item)?;
                    let before = now.get(&user).copied();
                    let before = before.unwrap_or_else(|| self.affiliation_of(world, user.as_ref()));
                    self.may_affiliate(actor, from, &user, before, to)?;
                    now.insert(user.clone(), to);
                    plan.affiliations.push(self.read_affiliation(item, user, to)?);
                }
                (None, Some(role)) => self.plan_role(actor, item, role, &mut plan)?,
                // §17.4: either of the two.
                _ => return Err(Condition::BadRequest.into()),
            }
        }
        self.leaves_an_owner(&now)?;
        self.has_place_for(&plan.affiliations)?;
        Ok(plan)
    }

    fn plan_role(&self, actor: Actor, item: &Element, role: &str, plan: &mut AdminPlan) -> Result<(), StanzaError> {
        let role = RoomRole::from_name(role).ok_or(Condition::BadRequest)?;
        let nick = item.attr("nick").ok_or(Condition::BadRequest)?;
        // A user who may change nothing doesn't learn who is there.
        actor.may_change_role(
            Affiliation::None,
            RoomRole::Visitor,
            if role == RoomRole::Moderator { role } else { RoomRole::Participant },
        )?;
        let at = self.occupant_named(nick).ok_or(Condition::ItemNotFound)?;
        let occupant = self.occupants.get(at).ok_or(Condition::ItemNotFound)?;
        actor.may_change_role(occupant.affiliation, occupant.role, role)?;
        let reason = item.child_text("reason", ns::MUC_ADMIN);
        match role {
            RoomRole::None => plan.kicks.push((at, reason)),
            role => plan.roles.push((at, role, reason)),
        }
        Ok(())
    }

    /// Returns the user whose affiliation is to change: the bare JID, or the account behind a nick.
    fn user_meant(&self, actor: Actor, item: &Element) -> Result<Jid, StanzaError> {
        if actor.affiliation < Affiliation::Admin {
            return Err(Condition::Forbidden.into());
        }
        match (item.attr("jid"), item.attr("nick")) {
            (Some(jid), _) => Ok(Jid::parse(jid).map_err(|_| Condition::JidMalformed)?.to_bare()),
            (None, Some(nick)) => {
                let occupant = self.occupant_named(nick).and_then(|at| self.occupants.get(at));
                Ok(occupant.ok_or(Condition::ItemNotFound)?.account.clone())
            }
            (None, None) => Err(Condition::BadRequest.into()),
        }
    }

    fn may_affiliate(
        &self,
        actor: Actor,
        from: &Jid,
        user: &Jid,
        before: Affiliation,
        to: Affiliation,
    ) -> Result<(), StanzaError> {
        // §9.1: users can't ban themselves.
        if to == Affiliation::Outcast && user.as_ref() == from.bare() {
            return Err(Condition::Conflict.into());
        }
        Ok(actor.may_change_affiliation(before, to)?)
    }

    /// Returns the new affiliation that an item asks for. A nick that isn't named stays; an empty
    /// one is given up (§9.5).
    fn read_affiliation(&self, item: &Element, user: Jid, affiliation: Affiliation) -> Result<Affiliated, StanzaError> {
        let is_here = affiliation > Affiliation::None;
        let nick = match item.attr("nick").filter(|_| item.attr("jid").is_some()) {
            None => self.affiliations.get(&user).and_then(|before| before.nick.clone()),
            Some(nick) if nick_key(nick).is_none() => None,
            Some(nick) => Some(self.reservable(nick, &user)?),
        };
        let reason = item.child_text("reason", ns::MUC_ADMIN);
        if reason.as_ref().is_some_and(|reason| reason.len() > self.limits.description) {
            return Err(StanzaError::new(Condition::NotAcceptable).with_text("the reason is too long"));
        }
        // §9.1: an outcast reserves nothing.
        Ok(Affiliated { user, affiliation, nick: nick.filter(|_| is_here), reason })
    }

    /// Refuses changes that would leave the room without an owner (§10.4).
    pub(crate) fn leaves_an_owner(&self, now: &Map<Jid, Affiliation>) -> Result<(), StanzaError> {
        let is_owner = |one: &Affiliated| one.affiliation == Affiliation::Owner;
        let takes_one =
            now.iter().any(|(user, to)| *to != Affiliation::Owner && self.affiliations.get(user).is_some_and(is_owner));
        let stays = self.affiliations.values().any(|one| is_owner(one) && !now.contains_key(&one.user))
            || now.values().any(|to| *to == Affiliation::Owner);
        if takes_one && !stays { Err(Condition::Conflict.into()) } else { Ok(()) }
    }

    fn carry_out(&mut self, world: &mut World, iq: &Iq, plan: AdminPlan) {
        let AdminPlan { roles, kicks, affiliations } = plan;
        let actor = self.actor_nick(&iq.from);
        let newcomers = self.newcomers(&affiliations);
        // An invitation says it all, and users aren't told about their own changes.
        let told = |change: &&Affiliated| change.user.as_ref() != iq.from.bare() && !newcomers.contains(&change.user);
        let told: Vec<_> = affiliations.iter().filter(told).cloned().collect();
        self.tell_absent(world, &told, &iq.from);
        let kept = affiliations.clone();
        let answer = |room: &mut Self, world: &mut World| room.keep_and_answer(world, kept, iq);
        match affiliations.is_empty() {
            true => self.kick(world, kicks, actor.as_deref(), answer),
            false => {
                self.kick(world, kicks, actor.as_deref(), |_, _| {});
                self.set_affiliations(world, affiliations, actor.as_deref(), answer);
            }
        }
        for (at, role, reason) in roles {
            self.set_role(world, at, role, reason.as_deref());
        }
        for user in newcomers {
            if !self.may_write(world, &iq.from, 1) {
                break;
            }
            self.send_invitation(world, &Element::new("invite", ns::MUC_USER), &iq.from, &user);
        }
    }

    /// Returns the new members of a members-only room who are not inside: they are invited (§9.5).
    fn newcomers(&self, changes: &[Affiliated]) -> Vec<Jid> {
        let is_new = |change: &&Affiliated| {
            self.config.is_members_only
                && change.affiliation == Affiliation::Member
                && self.kept_affiliation(change.user.as_ref()) == Affiliation::None
        };
        changes.iter().filter(is_new).map(|change| change.user.clone()).take(MOST_INVITED).collect()
    }
}

/// Returns the part of a list that a request asks for, and its position in the list: if the request
/// asks for a part, or if the list is cut.
fn page<'a, T>(
    payload: &Element,
    found: &'a [T],
    id: impl Fn(&T) -> &str,
    bytes: impl Fn(&T) -> usize,
) -> Result<(&'a [T], Option<RsmAnswer>), Condition> {
    let request = rsm::RsmRequest::read(payload)?;
    let (page, answer) = request.clone().unwrap_or_default().page_within(found, MOST_LISTED, id, bytes)?;
    let is_part = request.is_some() || page.len() < found.len();
    Ok((page, is_part.then_some(answer)))
}

/// The most new members that are invited after one request.
const MOST_INVITED: usize = 50;
