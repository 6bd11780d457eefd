//! Tells users who aren't in a room that their affiliation has changed, by a message (XEP-0045
//! §17.1, code 101), and tells the occupants who may know about it (§10.3, §10.6). Clients keep
//! lists of members this way, for example to encrypt for them.

use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_store::{Affiliated, Affiliation};
use rookery_xml::{Built, Writer, ns};

use super::role::{RoomRole, affiliation_name};
use super::room::Room;

/// A user's affiliation before and after a change.
pub(super) type ChangedAffiliation = (Jid, Affiliation, Affiliation);

impl Room {
    /// Tells users outside the room about their new affiliation; to be called before the change is
    /// made. Long lists aren't announced, nor are the changes `by` a user who makes too many.
    pub(super) fn tell_absent(&mut self, world: &mut World, changes: &[Affiliated], by: &Jid) {
        if changes.len() > MOST_TOLD {
            return;
        }
        let is_new = |change: &&Affiliated| {
            self.kept_affiliation(change.user.as_ref()) != change.affiliation && !self.is_inside(change.user.as_ref())
        };
        for change in changes.iter().filter(is_new).collect::<Vec<_>>() {
            if !self.courtesy.take(COURTESIES_PER_SECOND, world.time()) || !self.may_write(world, by, 1) {
                return;
            }
            let id = world.unique_text();
            let (notice, user) = (self.notice(&id, &change.user, change.affiliation, Some("101")), change.user.clone());
            // Users aren't told about changes by somebody they have blocked.
            world.retain_unconcealed(by.to_bare(), vec![user.clone()], move |world, users| {
                if !users.is_empty() {
                    world.route_built(&notice, &user);
                }
            });
        }
    }

    /// Tells the occupants who may get the list (see [`Room::administer`]) about new affiliations
    /// of users who aren't in the room.
    pub(super) fn tell_of_absent(&self, world: &mut World, changes: &[ChangedAffiliation]) {
        let is_listed = |(_, before, now): &&ChangedAffiliation| *before.min(now) > Affiliation::Outcast;
        if changes.len() > MOST_TOLD {
            return;
        }
        let config = &self.config;
        let is_open = config.is_nonanonymous && RoomRole::PRESENT.iter().all(|role| config.member_list.contains(role));
        for (user, _, now) in changes.iter().filter(is_listed) {
            let Ok(packet) = Packet::from_built(&self.notice(&world.unique_text(), user, *now, None)) else { continue };
            world.fan_out_roll(&packet, &self.moderators, &[]);
            if is_open {
                world.fan_out_roll(&packet, &self.others, &[]);
            }
        }
    }

    /// Returns whether a session of this account is here.
    pub(super) fn is_inside(&self, account: JidRef<'_>) -> bool {
        self.occupants.iter().any(|(_, occupant)| occupant.account.as_ref() == account)
    }

    fn notice(&self, id: &str, user: &Jid, affiliation: Affiliation, code: Option<&str>) -> Built {
        let mut message = Writer::new("message");
        message.attr("id", id).attr("from", self.jid.as_str()).start_ns("x", ns::MUC_USER).start("item");
        message
            .attr("affiliation", affiliation_name(affiliation))
            .attr("jid", user.as_str())
            .attr("role", "none")
            .end();
        if let Some(code) = code {
            message.start("status").attr("code", code).end();
        }
        message.finish()
    }
}

/// The most users who are told, or told about, after one request. Longer lists can be requested.
const MOST_TOLD: usize = 50;
/// The most messages from a room to users who are not in it, on average per second.
const COURTESIES_PER_SECOND: u64 = 10;
