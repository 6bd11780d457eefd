//! How the hub asks the tables: what a domain's modules show, who handles a stanza, who hears of what happens.
//!
//! A hook is called only where its module is on for the domain that the matter is of.

use std::any::Any;
use std::rc::Rc;

use rookery_fanout::{Link, Packet};
use rookery_jid::JidRef;
use rookery_xml::{Built, Element};

use super::{
    AnyLetter, BeforeLogin, Extras, Hook, Hooks, IqHandler, LoginHook, LoginSeen, Module, Registry, Round, SessionHook,
    Target, Verdict,
};
use crate::conceal::Conceal;
use crate::documents::Read;
use crate::federation::RemoteService;
use crate::passage::{Passage, Passages};
use crate::settings::Domain;
use crate::shared::{self, SharedContacts};
use crate::{World, ask, roster};

impl Registry {
    /// The tables of these modules.
    pub fn new(modules: Vec<Box<dyn Module>>) -> Self {
        let mut registry = Self::default();
        let mut own = Hooks { module: "hub", registry: &mut registry };
        own.question::<roster::EndLogins>();
        own.letter::<roster::Befriend>();
        own.letter::<ask::Answered>();
        own.letter::<shared::Everybody>();
        own.letter::<shared::ProbeMembers>();
        for module in &modules {
            module.install(&mut Hooks { module: module.name(), registry: &mut registry });
        }
        registry.modules = modules;
        registry
    }

    /// The modules, in the order of the table.
    pub fn modules(&self) -> impl Iterator<Item = &dyn Module> {
        self.modules.iter().map(|module| &**module)
    }

    /// The features that a domain (or its accounts) shows: of the modules that are on there, without repetitions, sorted.
    pub fn features(&self, target: Target, domain: &Domain) -> Vec<&'static str> {
        let on = self.features.iter().filter(|(of, hook)| *of == target && domain.module(hook.module).is_some());
        let mut features: Vec<_> = on.map(|(_, hook)| hook.call).collect();
        features.sort_unstable();
        features.dedup();
        features
    }

    /// The data forms in a domain's service discovery information.
    pub fn forms(&self, domain: &Domain) -> Vec<Element> {
        self.collect(&self.forms, domain)
    }

    /// Stream features before login.
    pub fn stream_features(&self, domain: &Domain) -> Vec<Built> {
        self.collect(&self.stream_features, domain)
    }

    /// Stream features after login.
    pub fn login_features(&self, domain: &Domain) -> Vec<Built> {
        self.collect(&self.login_features, domain)
    }

    fn collect<T>(&self, hooks: &[Hook<Extras<T>>], domain: &Domain) -> Vec<T> {
        let on = hooks.iter().filter(|hook| domain.module(hook.module).is_some());
        on.flat_map(|hook| (hook.call)(self, domain)).collect()
    }

    pub(crate) fn iq(&self, target: Target, namespace: &str, domain: &Domain) -> Option<&IqHandler> {
        let hooks = self.iqs.get(&target)?.get(namespace)?;
        hooks.iter().find(|hook| domain.module(hook.module).is_some()).map(|hook| &hook.call)
    }

    pub(crate) fn guest_iq(&self, namespace: &str, domain: &Domain) -> Option<&BeforeLogin> {
        self.before_login.get(namespace).filter(|hook| domain.module(hook.module).is_some()).map(|hook| &hook.call)
    }

    /// The modules that have a service, with the number of each.
    pub(crate) fn services(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.services.iter().enumerate().map(|(at, hook)| (at, hook.module))
    }

    pub(crate) fn service_module(&self, hook: usize) -> Option<&'static str> {
        self.services.get(hook).map(|hook| hook.module)
    }

    pub(crate) fn serve(&self, hook: usize, world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
        if let Some(hook) = self.services.get(hook) {
            (hook.call)(world, packet, to, domain);
        }
    }

    pub(crate) fn remote_service(&self, world: &mut World, own: &str, remote: &str) -> Option<RemoteService> {
        let is_on = |module: &str| world.domain(own).is_some_and(|domain| domain.module(module).is_some());
        let hook = self.remote_services.iter().find(|hook| is_on(hook.module))?;
        (hook.call)(world, own, remote)
    }

    pub(crate) fn to_domain(&self, world: &mut World, packet: &Packet, to: JidRef<'_>) -> Verdict {
        for hook in &self.to_domain {
            let on = world.domain(to.domain()).is_some_and(|domain| domain.module(hook.module).is_some());
            if on && (hook.call)(world, packet, to) == Verdict::Taken {
                return Verdict::Taken;
            }
        }
        Verdict::Pass
    }

    pub(crate) fn stopping(&self, world: &mut World) {
        self.stopping.iter().for_each(|call| call(world));
    }

    pub(crate) fn start(&self, world: &mut World) {
        self.starting.iter().for_each(|call| call(world));
    }

    /// Whether an address of another server may communicate with a domain.
    pub(crate) fn lets_cross(&self, world: &World, remote: JidRef<'_>, domain: &Domain) -> bool {
        let mut on = self.borders.iter().filter(|hook| domain.module(hook.module).is_some());
        on.all(|hook| (hook.call)(world, remote, &domain.name))
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.len()
    }

    pub(crate) fn round(&self, at: usize) -> Option<(u64, &Round)> {
        self.rounds.get(at).map(|(period_ms, call)| (*period_ms, call))
    }

    pub(crate) fn has_documents(&self) -> bool {
        !self.documents.is_empty()
    }

    pub(crate) fn document(&self, name: &str) -> Option<(&'static str, &Read)> {
        self.documents.iter().find(|(found, _)| *found == name).map(|(name, read)| (*name, read))
    }

    pub(crate) fn before_route(&self) -> &Passages {
        &self.before_route
    }

    pub(crate) fn before_service(&self) -> &Passages {
        &self.before_service
    }

    pub(crate) fn before_delivery(&self) -> &Passages {
        &self.before_delivery
    }

    /// The document that decides about concealing, and who reads it, where the module is on.
    pub(crate) fn conceal(&self, domain: Option<&Domain>) -> Option<(&'static str, &Conceal)> {
        let hook = self.conceal.as_ref()?;
        domain?.module(hook.module)?;
        Some((hook.call.0, &hook.call.1))
    }

    pub(crate) fn has_shared_contacts(&self) -> bool {
        self.shared_contacts.is_some()
    }

    /// Returns what knows the contacts by groups, where that is on.
    pub(crate) fn shared_contacts(&self, domain: Option<&Domain>) -> Option<SharedContacts> {
        let hook = self.shared_contacts.as_ref()?;
        domain?.module(hook.module)?;
        Some(hook.call)
    }

    /// Whether any document asks for the roster; `document` finds one by its name.
    pub(crate) fn want_roster<'d>(&self, document: impl Fn(&str) -> Option<&'d Rc<dyn Any>>) -> bool {
        self.roster_with.iter().any(|(name, asks)| document(name).is_some_and(|document| asks(&**document)))
    }

    pub(crate) fn may_reach(&self, world: &World, link: Link, packet: &Packet) -> bool {
        self.screens.iter().all(|hook| (hook.call)(world, link, packet))
    }

    /// The document that decides about concealing in any domain.
    pub(crate) fn concealing(&self) -> Option<&'static str> {
        self.conceal.as_ref().map(|hook| hook.call.0)
    }

    pub(crate) fn undelivered(&self, world: &mut World, passage: Passage<'_>) -> Verdict {
        let Passage { packet, to, notes } = passage;
        for hook in &self.undelivered {
            let on = world.domain(to.domain()).is_some_and(|domain| domain.module(hook.module).is_some());
            if on && (hook.call)(world, Passage { packet, to, notes }) == Verdict::Taken {
                return Verdict::Taken;
            }
        }
        Verdict::Pass
    }

    pub(crate) fn session_reachable(&self, world: &mut World, link: Link) {
        tell(&self.reachable, world, link);
    }

    pub(crate) fn unattended(&self, world: &mut World, packet: &Packet, link: Link) {
        for hook in &self.unattended {
            let Some(domain) = world.address(link).map(|address| address.domain().to_owned()) else { return };
            if world.domain(&domain).is_some_and(|domain| domain.module(hook.module).is_some()) {
                (hook.call)(world, packet, link);
            }
        }
    }

    pub(crate) fn session_presence(&self, world: &mut World, link: Link) {
        tell(&self.presence, world, link);
    }

    /// Presence of a session in the form that modules give it; nothing if they leave it as it is.
    pub(crate) fn own_presence(&self, world: &mut World, domain: &str, packet: &Packet) -> Option<Packet> {
        let mut new = None;
        for hook in &self.own_presence {
            if world.domain(domain).is_some_and(|domain| domain.module(hook.module).is_some()) {
                let form = (hook.call)(world, new.as_ref().unwrap_or(packet));
                new = form.or(new);
            }
        }
        new
    }

    pub(crate) fn account_removed(&self, world: &mut World, account: JidRef<'_>) {
        for hook in &self.account_removed {
            if world.domain(account.domain()).is_some_and(|domain| domain.module(hook.module).is_some()) {
                (hook.call)(world, account);
            }
        }
    }

    pub(crate) fn shown(&self, world: &mut World, account: JidRef<'_>, contact: JidRef<'_>) {
        for hook in &self.shown {
            if world.domain(account.domain()).is_some_and(|domain| domain.module(hook.module).is_some()) {
                (hook.call)(world, account, contact);
            }
        }
    }

    pub(crate) fn letter(&self, world: &mut World, module: &str, letter: AnyLetter) {
        if let Some(read) = self.letters.get(module) {
            read(world, letter);
        }
    }

    pub(crate) fn login(&self, world: &World, seen: &LoginSeen<'_>) {
        let domain = world.domain(seen.domain);
        let on = |hook: &&Hook<LoginHook>| domain.is_some_and(|domain| domain.module(hook.module).is_some());
        self.logins.iter().filter(on).for_each(|hook| (hook.call)(world, seen));
    }

    pub(crate) fn letter_kind(&self, name: &str) -> Option<crate::letter::Decode> {
        self.letter_kinds.get(name).copied()
    }

    pub(crate) fn question_kind(&self, name: &str) -> Option<crate::question::Decode> {
        self.question_kinds.get(name).copied()
    }

    pub(crate) fn session_ended(&self, world: &mut World, link: Link) {
        tell(&self.ended, world, link);
    }
}

fn tell(hooks: &[Hook<SessionHook>], world: &mut World, link: Link) {
    for hook in hooks {
        let Some(domain) = world.address(link).map(|address| address.domain().to_owned()) else { return };
        if world.domain(&domain).is_some_and(|domain| domain.module(hook.module).is_some()) {
            (hook.call)(world, link);
        }
    }
}
