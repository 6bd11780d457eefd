//! Announcements of administrators, and the message of the day: by the commands of XEP-0133 §4.23
//! to §4.26, and by messages to special addresses, as other servers have them.
//!
//! A message to `DOMAIN/announce/online` goes to users who are available, one to
//! `DOMAIN/announce/all` to all accounts, including those that are offline. `DOMAIN/announce/motd`
//! sets the message of the day: available users get it at once, the others at their next login,
//! each user once. `DOMAIN/announce/motd/update` changes it for those who haven't got it yet,
//! `DOMAIN/announce/motd/delete` removes it.
//!
//! # Invariants
//!
//! * Only administrators announce; others get `forbidden`.
//! * An announcement has a subject and a body and nothing else from the administrator's client; it
//!   comes from the domain.
//! * Large domains are served in steps: the store is never flooded.

use rookery_base::Map;
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_fanout::{Link, Packet, StanzaType, To};
use rookery_hub::failure::condition;
use rookery_hub::{DocumentName, DocumentSpec, Hooks, Memo, Module, Phase, Verdict, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::StoreError;
use rookery_stream::error::Condition;
use rookery_xml::{Built, Element, Kind, Writer, ns};
use serde::{Deserialize, Serialize};

use crate::rights::{Rights, with_rights};

/// The module that sends announcements, and the message of the day to each new available session.
#[derive(Debug)]
pub struct Announce {
    motds: Motds,
}

impl Announce {
    /// Makes the module for one shard; `motds` is the same for all shards.
    pub fn new(motds: Motds) -> Self {
        Self { motds }
    }
}

impl Module for Announce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "administrators can send a message to all users, and set a message of the day"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0133", "1.3.1")]
    }

    fn documents(&self) -> &'static [DocumentSpec] {
        const { &[DocumentSpec::of_ours(DocumentName::One(SEEN))] }
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(self.motds.clone());
        hooks.memo::<ToOnline>();
        hooks.memo::<MotdForOnline>();
        hooks.memo::<MotdChanged>();
        hooks.to_domain(Phase::Act, by_message);
        hooks.reachable(greet);
        hooks.every(AGAIN_MS, |world| {
            if world.shard() == 0 {
                world.state::<Motds>().table().clear();
            }
        });
    }
}

/// The messages of the day of all domains, loaded on first use, and again every minute, in case a
/// change on another node was missed. Clones share the table; a login takes its lock once.
#[derive(Debug, Clone, Default)]
pub struct Motds(Arc<Mutex<Map<String, Option<Motd>>>>);

/// A message of the day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Motd {
    /// Distinguishes it from others that an account may have got.
    id: String,
    text: Text,
}

/// The text of an announcement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Text {
    /// The subject line.
    pub subject: Option<String>,
    /// The full text.
    pub body: String,
}

impl Text {
    fn of(packet: &Packet) -> Option<Self> {
        let message = Element::read(&packet.stanza());
        let body = message.child_text("body", ns::CLIENT).filter(|body| !body.trim().is_empty())?;
        Some(Self { subject: message.child_text("subject", ns::CLIENT), body })
    }

    /// Writes the message, in the name of a domain.
    fn message(&self, type_: &str, from: &str, id: &str) -> Built {
        let mut message = Writer::new("message");
        message.attr("type", type_).attr("id", id).attr("from", from);
        if let Some(subject) = &self.subject {
            message.text_child("subject", subject);
        }
        message.text_child("body", &self.body);
        message.finish()
    }
}

impl Motd {
    fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (id, rest) = text.split_once('\n')?;
        let (subject, body) = rest.split_once('\n')?;
        let subject = Some(subject.to_owned()).filter(|subject| !subject.is_empty());
        Some(Self { id: id.to_owned(), text: Text { subject, body: body.to_owned() } })
    }

    fn write(&self) -> Vec<u8> {
        let subject = self.text.subject.as_deref().unwrap_or_default().replace(['\n', '\r'], " ");
        format!("{}\n{subject}\n{}", self.id, self.text.body).into_bytes()
    }
}

impl Motds {
    fn table(&self) -> MutexGuard<'_, Map<String, Option<Motd>>> {
        lock(&self.0)
    }
}

/// Continues with the message of the day of a domain, if it has one.
fn with_motd(
    world: &mut World,
    domain: &str,
    then: impl FnOnce(&mut World, Result<Option<Motd>, StoreError>) + 'static,
) {
    let known = world.state::<Motds>().table().get(domain).cloned();
    if let Some(known) = known {
        return then(world, Ok(known));
    }
    let domain = domain.to_owned();
    let kept = world.stores.meta.get(&key(&domain));
    world.wait(kept, move |world, kept| {
        let motd = kept.map(|kept| kept.as_deref().and_then(Motd::read));
        let motd = motd.map(|motd| world.state::<Motds>().table().entry(domain).or_insert(motd).clone());
        then(world, motd);
    });
}

/// Replaces or removes the message.
fn put_motd(
    world: &mut World,
    domain: &str,
    motd: Option<Motd>,
    then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
) {
    let bytes = motd.as_ref().map(Motd::write).unwrap_or_default();
    let kept = world.stores.meta.put(&key(domain), bytes);
    let domain = domain.to_owned();
    world.wait(kept, move |world, kept| {
        if kept.is_ok() {
            world.state::<Motds>().table().insert(domain.clone(), motd.clone());
            world.tell_other_nodes(&MotdChanged { domain, motd });
        }
        then(world, kept);
    });
}

/// Tells the other nodes the new message of the day of a domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MotdChanged {
    domain: String,
    motd: Option<Motd>,
}

impl Memo for MotdChanged {
    const NAME: &'static str = "announce another message of the day";

    fn open(self, world: &mut World) {
        world.state::<Motds>().table().insert(self.domain, self.motd);
    }
}

/// Continues with the text of the message of the day.
pub fn motd(
    world: &mut World,
    domain: &str,
    then: impl FnOnce(&mut World, Result<Option<Text>, StoreError>) + 'static,
) {
    with_motd(world, domain, |world, motd| then(world, motd.map(|motd| motd.map(|motd| motd.text))));
}

/// Sets a new message of the day, and sends it to available users.
pub fn set_motd(
    world: &mut World,
    domain: &str,
    text: Text,
    then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
) {
    let motd = Motd { id: world.unique_text(), text };
    let (here, domain_name) = (motd.clone(), domain.to_owned());
    put_motd(world, domain, Some(motd), move |world, kept| {
        if kept.is_ok() {
            give_to_online(world, &domain_name, here);
        }
        then(world, kept);
    });
}

/// Changes the text for those who haven't got it yet; without an earlier one, it is for all later
/// logins.
pub fn update_motd(
    world: &mut World,
    domain: &str,
    text: Text,
    then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
) {
    let name = domain.to_owned();
    with_motd(world, domain, move |world, before| match before {
        Ok(before) => {
            let id = before.map_or_else(|| world.unique_text(), |before| before.id);
            put_motd(world, &name, Some(Motd { id, text }), then);
        }
        Err(error) => then(world, Err(error)),
    });
}

/// Removes the message.
pub fn delete_motd(world: &mut World, domain: &str, then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static) {
    put_motd(world, domain, None, then);
}

/// Delivers a message to all available users of a domain on a shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ToOnline {
    domain: String,
    message: Packet,
}

impl Memo for ToOnline {
    const NAME: &'static str = "announce to online";

    fn open(self, world: &mut World) {
        let online: Vec<_> = world.present(&self.domain).filter_map(|(bare, _)| Jid::parse(bare).ok()).collect();
        world.fan_out(&self.message, online.iter().map(Jid::as_ref));
    }
}

/// Sends a text to all available users of a domain.
pub fn to_online(world: &mut World, domain: &str, text: &Text) {
    let id = world.unique_text();
    let Ok(message) = Packet::from_built(&text.message("headline", domain, &id)) else { return };
    let memo = ToOnline { domain: domain.to_owned(), message };
    for shard in 0..world.shards() {
        world.send_memo(shard, memo.clone());
    }
}

/// Sends a text to all accounts of a domain: offline users get it later.
pub fn to_everybody(world: &mut World, domain: &str, text: &Text) {
    let id = world.unique_text();
    if let Ok(packet) = Packet::from_built(&text.message("normal", domain, &id)) {
        to_all(world, domain.to_owned(), packet, None);
    }
}

/// Sends a packet to all accounts of a domain that sort after a given one, page by page.
fn to_all(world: &mut World, domain: String, packet: Packet, after: Option<Jid>) {
    let page = world.stores.accounts.list(&domain, after.as_ref().map(Jid::as_ref), PAGE);
    world.wait(page, move |world, page| match page {
        Ok(page) => {
            world.fan_out(&packet, page.iter().map(Jid::as_ref));
            if page.len() == PAGE {
                let (after, custody) = (page.last().cloned(), world.custody());
                // Messages for offline users are in the store's queue now, which gets time for
                // them.
                world.after(STEP_MS, move |world| {
                    world.in_custody(custody, |world| to_all(world, domain, packet, after));
                });
            }
        }
        Err(error) => tracing::error!(%error, %domain, "an announcement didn't reach all accounts"),
    });
}

/// Delivers a message of the day to the sessions of a shard that take messages, and records that.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MotdForOnline {
    domain: String,
    id: String,
    message: Packet,
}

impl Memo for MotdForOnline {
    const NAME: &'static str = "announce message of the day";

    fn open(self, world: &mut World) {
        let present = world.present(&self.domain).map(|(bare, links)| (bare.to_owned(), links));
        let present: Vec<_> = present.collect();
        let mut have = Vec::new();
        for (bare, links) in present {
            let takes = |&link: &Link| world.session_at(link).is_some_and(|session| session.takes_messages());
            let links: Vec<_> = links.into_iter().filter(takes).collect();
            if let (false, Ok(jid)) = (links.is_empty(), Jid::parse(&bare)) {
                for link in links {
                    world.push(link, &self.message, To::Bare);
                }
                have.push(jid);
            }
        }
        remember(world, have.into_iter(), self.id);
    }
}

/// Sends a message of the day to online users.
fn give_to_online(world: &mut World, domain: &str, motd: Motd) {
    let Ok(message) = Packet::from_built(&motd.text.message("headline", domain, &motd.id)) else { return };
    let memo = MotdForOnline { domain: domain.to_owned(), id: motd.id, message };
    for shard in 0..world.shards() {
        world.send_memo(shard, memo.clone());
    }
}

/// Records that accounts have got a message of the day, one after the other, to leave the store
/// time for other work.
fn remember(world: &mut World, mut accounts: std::vec::IntoIter<Jid>, id: String) {
    let Some(account) = accounts.next() else { return };
    let kept = world.stores.documents.put(account.as_ref(), SEEN, Some(id.clone().into_bytes()));
    world.wait(kept, move |world, kept| {
        if let Err(error) = kept.or_else(|error| if error == StoreError::NoAccount { Ok(()) } else { Err(error) }) {
            world.store_failed("remembering who has the message of the day", &account, &error);
        }
        remember(world, accounts, id);
    });
}

/// Sends a resource that takes messages the message of the day, unless its account has got it.
fn greet(world: &mut World, link: Link) {
    let Some(account) = world.address(link).map(Jid::to_bare) else { return };
    let Some(session) = world.reference(link) else { return };
    let domain = account.domain().to_owned();
    with_motd(world, &domain, move |world, motd| {
        // A failure of the store is logged; the message is sent another time.
        let Ok(Some(motd)) = motd else { return };
        let seen = world.stores.documents.get(account.as_ref(), SEEN);
        world.wait(seen, move |world, seen| {
            let has_it = !matches!(&seen, Ok(seen) if seen.as_deref() != Some(motd.id.as_bytes()));
            if has_it || world.session(session).is_none() {
                return;
            }
            if let Ok(packet) = Packet::from_built(&motd.text.message("headline", account.domain(), &motd.id)) {
                world.push_paced(session.link, &packet, To::Bare);
            }
            remember(world, vec![account].into_iter(), motd.id);
        });
    });
}

/// Handles a message to one of the special addresses below a domain.
fn by_message(world: &mut World, packet: &Packet, to: JidRef<'_>) -> Verdict {
    let Some(what) = to.resource().and_then(|resource| resource.strip_prefix("announce/")) else {
        return Verdict::Pass;
    };
    let is_known = ["online", "all", "motd", "motd/update", "motd/delete"].contains(&what);
    if packet.kind() != Kind::Message || packet.type_() == StanzaType::Error || !is_known {
        return Verdict::Pass;
    }
    let Some(from) = packet.sender() else { return Verdict::Pass };
    let (packet, domain, to) = (packet.clone(), to.domain().to_owned(), to.to_jid());
    with_rights(world, &domain, &from, move |world, rights| match rights {
        Ok(Rights::Admin | Rights::Server) => carry_out(world, packet, to),
        Ok(_) => world.bounce(&packet, to.as_ref(), Condition::Forbidden.into()),
        Err(error) => world.bounce(&packet, to.as_ref(), error),
    });
    Verdict::Taken
}

fn carry_out(world: &mut World, packet: Packet, to: Jid) {
    let domain = to.domain().to_owned();
    let what = to.resource().and_then(|resource| resource.strip_prefix("announce/")).unwrap_or_default().to_owned();
    let text = Text::of(&packet);
    let told = move |world: &mut World, kept: Result<(), StoreError>| {
        if let Err(error) = kept {
            world.store_failed("keeping a message of the day", &to, &error);
            world.bounce(&packet, to.as_ref(), condition(&error).into());
        }
    };
    match (what.as_str(), text) {
        ("motd/delete", _) => delete_motd(world, &domain, told),
        // There is nothing to announce, as in a chat state.
        (_, None) => {}
        ("online", Some(text)) => to_online(world, &domain, &text),
        ("motd", Some(text)) => set_motd(world, &domain, text, told),
        ("motd/update", Some(text)) => update_motd(world, &domain, text, told),
        (_, Some(text)) => to_everybody(world, &domain, &text),
    }
}

/// Returns the key under which the store keeps the message of the day of a domain.
fn key(domain: &str) -> String {
    format!("motd/{domain}")
}

/// The key below `[modules]`.
pub const NAME: &str = "announce";
/// The document that records the message of the day that an account has got.
const SEEN: &str = "announce/seen";
/// The number of accounts in one step.
const PAGE: usize = 500;
/// Milliseconds after which messages of the day are read from the store again.
const AGAIN_MS: u64 = 60_000;
/// The time between two steps, in milliseconds.
const STEP_MS: u64 = 50;
