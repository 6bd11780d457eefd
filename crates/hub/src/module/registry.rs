//! Queries of the hub to the tables: which modules of a domain show something, handle a stanza, or
//! are notified of an event.
//!
//! A call is only made if its module is on for the domain that it concerns.

use std::ops::ControlFlow;
use std::rc::Rc;

use rookery_fanout::{Link, Packet};
use rookery_jid::JidRef;
use rookery_xml::Built;
use serde_bytes::ByteBuf;

use super::document::DocumentSpec;
use super::hook::{Hook, ModuleCall};
use super::tables::{Hooks, Module, Registry};
use super::terms::{Carry, LoginSeen, Target, Verdict};
use crate::calls::{
    AnyDocument, BeforeLogin, DecodeMemo, DecodeQuestion, Everywhere, IqHandler, OfSession, SharedContacts, Undelivered,
};
use crate::driver::DriverQuestion;
use crate::driver_news::DriverNews;
use crate::passage::Passage;
use crate::remote::RemoteService;
use crate::settings::Domain;
use crate::{World, ask, attached, elsewhere, privileged, removal, roster, shared};

impl Registry {
    /// Builds the tables of these modules.
    pub fn new(modules: Vec<Box<dyn Module>>) -> Self {
        let mut registry = Self::default();
        let mut own = Hooks { module: "hub", registry: &mut registry };
        own.question::<removal::EndLogins>();
        own.question::<DriverQuestion>();
        own.memo::<DriverNews>();
        own.memo::<roster::Befriend>();
        own.memo::<ask::Answered>();
        own.memo::<attached::Attachment>();
        own.memo::<privileged::Deputy>();
        own.memo::<elsewhere::showing::ShowContact>();
        own.memo::<shared::Everybody>();
        own.memo::<shared::ProbeMembers>();
        for module in &modules {
            module.install(&mut Hooks { module: module.name(), registry: &mut registry });
            registry.accounts.specs.extend(module.documents());
        }
        registry.modules = modules;
        registry
    }

    /// Returns the modules, in the order of the table.
    pub fn modules(&self) -> impl Iterator<Item = &dyn Module> {
        self.modules.iter().map(|module| &**module)
    }

    /// Returns the documents that modules keep for accounts: each of them can be exported.
    pub fn documents(&self) -> &[DocumentSpec] {
        &self.accounts.specs
    }

    /// Returns the namespaces of the requests that modules reply to, sorted.
    pub fn requests(&self, target: Target) -> Vec<&'static str> {
        let handled = self.requests.iqs.get(&target).into_iter().flat_map(|handled| handled.keys());
        let mut namespaces: Vec<_> = handled.copied().collect();
        namespaces.sort_unstable();
        namespaces
    }

    /// Returns the features that a domain (or its accounts) shows: those of the modules that are on
    /// there, sorted and without repetitions.
    pub fn features(&self, target: Target, domain: &Domain) -> Vec<&'static str> {
        let on = self.shown.features.iter().filter(|(of, call)| *of == target && domain.module(call.module).is_some());
        let mut features: Vec<_> = on.map(|(_, call)| call.call).collect();
        features.sort_unstable();
        features.dedup();
        features
    }

    /// Returns the stream features before login.
    pub fn stream_features(&self, domain: &Domain) -> Vec<Built> {
        self.shown.before_login.on(domain).flat_map(|call| call(self, domain)).collect()
    }

    /// Returns the stream features after login.
    pub fn login_features(&self, domain: &Domain) -> Vec<Built> {
        self.shown.after_login.on(domain).flat_map(|call| call(self, domain)).collect()
    }

    /// Returns the module that replies to requests of this namespace in a domain, and its function.
    pub(crate) fn iq(&self, target: Target, namespace: &str, domain: &Domain) -> Option<(&'static str, IqHandler)> {
        let mut calls = self.requests.iqs.get(&target)?.get(namespace)?.all();
        calls.find(|call| domain.module(call.module).is_some()).map(|call| (call.module, call.call))
    }

    pub(crate) fn guest_iq(&self, namespace: &str, domain: &Domain) -> Option<BeforeLogin> {
        let call = self.requests.before_login.get(namespace)?;
        domain.module(call.module).map(|_| call.call)
    }

    /// Returns the modules that have a service, with the number of each.
    pub(crate) fn services(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.requests.services.all().map(|call| call.module).enumerate()
    }

    pub(crate) fn service_module(&self, service: usize) -> Option<&'static str> {
        self.requests.services.get(service).map(|call| call.module)
    }

    /// Returns whether an address of another server may communicate with a domain.
    pub(crate) fn lets_cross(&self, world: &World, remote: JidRef<'_>, domain: &Domain) -> bool {
        self.passing.borders.on(domain).all(|lets_pass| lets_pass(world, remote, &domain.name))
    }

    /// Returns the module that doesn't let an address of another server communicate with a domain.
    pub(crate) fn barrier(&self, world: &World, remote: JidRef<'_>, domain: &Domain) -> Option<&'static str> {
        let mut on = self.passing.borders.all().filter(|call| domain.module(call.module).is_some());
        on.find(|call| !(call.call)(world, remote, &domain.name)).map(|call| call.module)
    }

    pub(crate) fn has_documents(&self) -> bool {
        !self.accounts.documents.is_empty()
    }

    /// Reads a document that a module has declared; the outer `None` if none has.
    pub(crate) fn read_document(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Option<(&'static str, Option<Rc<dyn AnyDocument>>)> {
        let (name, read) = self.accounts.documents.get_key_value(name)?;
        Some((name, read(bytes)))
    }

    /// Returns the name of the document that decides about concealing in any domain.
    pub(crate) fn concealing(&self) -> Option<&'static str> {
        self.accounts.conceals.map(|(document, _)| document)
    }

    /// Returns the name of the document that decides about concealing in a domain.
    pub(crate) fn concealing_in(&self, domain: Option<&Domain>) -> Option<&'static str> {
        let (document, module) = self.accounts.conceals?;
        domain?.module(module).map(|_| document)
    }

    pub(crate) fn has_shared_contacts(&self) -> bool {
        self.accounts.shared_contacts.is_some()
    }

    /// Returns the functions that know the contacts by group, if they are on in the domain.
    pub(crate) fn shared_contacts(&self, domain: Option<&Domain>) -> Option<SharedContacts> {
        let call = self.accounts.shared_contacts?;
        domain?.module(call.module).map(|_| call.call)
    }

    pub(crate) fn memo_kind(&self, name: &str) -> Option<DecodeMemo> {
        self.kinds.memos.get(name).copied()
    }

    pub(crate) fn question_kind(&self, name: &str) -> Option<DecodeQuestion> {
        self.kinds.questions.get(name).copied()
    }
}

impl World {
    pub(crate) fn call_service(&mut self, service: usize, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
        if let Some(ModuleCall { call, module, .. }) = self.registry().requests.services.get(service) {
            self.call_module(module, |world| call(world, packet, to, domain));
        }
    }

    pub(crate) fn remote_service(&mut self, own: &str, remote: &str) -> Option<RemoteService> {
        let call = self.domain(own).and_then(|domain| self.registry().requests.remote_services.on(domain).next())?;
        call(self, own, remote)
    }

    pub(crate) fn call_to_domain(&mut self, packet: &Packet, to: JidRef<'_>) -> Verdict {
        self.verdict(|registry| &registry.passing.to_domain, to.domain(), |world, call| call(world, packet, to))
    }

    pub(crate) fn call_undelivered(&mut self, passage: Passage<'_>) -> Verdict {
        let Passage { packet, to, notes } = passage;
        let call = |world: &mut World, call: Undelivered| call(world, Passage { packet, to, notes });
        self.verdict(|registry| &registry.passing.undelivered, to.domain(), call)
    }

    fn verdict<F: Copy + 'static>(
        &mut self,
        hook: fn(&Registry) -> &Hook<F>,
        domain: &str,
        mut call: impl FnMut(&mut World, F) -> Verdict,
    ) -> Verdict {
        let found = self.call_each(hook, domain, |world, found| match call(world, found) {
            Verdict::Pass => ControlFlow::Continue(()),
            Verdict::Taken => ControlFlow::Break(()),
        });
        if found.is_break() { Verdict::Taken } else { Verdict::Pass }
    }

    /// Tells modules of a session, as long as it has an address.
    pub(crate) fn call_of_session(&mut self, hook: fn(&Registry) -> &Hook<OfSession>, link: Link) {
        self.with_session(hook, link, |world, call| call(world, link));
    }

    /// Returns the data that modules take along for a session to another process, by their names;
    /// `None` if it can't continue there.
    pub(crate) fn luggage(&self, link: Link) -> Option<Vec<(String, ByteBuf)>> {
        let domain = self.domain(self.address(link)?.domain())?;
        let mut luggage = Vec::new();
        for ModuleCall { module, call: (save, _), .. } in self.registry().sessions.carried.all() {
            if domain.module(module).is_none() {
                continue;
            }
            match save(self, link) {
                Carry::Nothing => {}
                Carry::State(state) => luggage.push((module.to_owned(), ByteBuf::from(state))),
                Carry::Impossible => return None,
            }
        }
        Some(luggage)
    }

    /// Returns to modules the data that they had taken along for a session.
    pub(crate) fn unpack(&mut self, link: Link, luggage: &[(String, ByteBuf)]) {
        let mut at = 0;
        while let Some(ModuleCall { module, call: (_, restore), .. }) = self.registry().sessions.carried.get(at) {
            at += 1;
            let domain = self.address(link).and_then(|address| self.domain(address.domain()));
            if domain.is_some_and(|domain| domain.module(module).is_some()) {
                let state = luggage.iter().find(|(name, _)| name == module).map(|(_, state)| state.as_slice());
                restore(self, link, state);
            }
        }
    }

    pub(crate) fn call_unattended(&mut self, packet: &Packet, link: Link) {
        self.with_session(|registry| &registry.sessions.unattended, link, |world, call| call(world, packet, link));
    }

    fn with_session<F: Copy + 'static>(
        &mut self,
        hook: fn(&Registry) -> &Hook<F>,
        link: Link,
        mut make: impl FnMut(&mut World, F),
    ) {
        let Some(domain) = self.address(link).map(|address| address.domain().to_owned()) else { return };
        let _ = self.call_each(hook, &domain, |world, call| {
            make(world, call);
            if world.address(link).is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }

    /// Returns presence of a session in the form that modules give it; `None` if they leave it as
    /// it is.
    pub(crate) fn own_presence(&mut self, domain: &str, packet: &Packet) -> Option<Packet> {
        let mut new = None;
        let _ = self.call_each(
            |registry| &registry.sessions.own_presence,
            domain,
            |world, call| {
                let form = call(world, new.as_ref().unwrap_or(packet));
                new = form.or(new.take());
                ControlFlow::Continue(())
            },
        );
        new
    }

    pub(crate) fn call_account_removed(&mut self, account: JidRef<'_>) {
        let _ = self.call_each(
            |registry| &registry.accounts.removed,
            account.domain(),
            |world, call| {
                call(world, account);
                ControlFlow::Continue(())
            },
        );
    }

    pub(crate) fn call_shown(&mut self, account: JidRef<'_>, contact: JidRef<'_>) {
        let _ = self.call_each(
            |registry| &registry.accounts.shown,
            account.domain(),
            |world, call| {
                call(world, account, contact);
                ControlFlow::Continue(())
            },
        );
    }

    pub(crate) fn call_login(&self, seen: &LoginSeen<'_>) {
        if let Some(domain) = self.domain(seen.domain) {
            self.registry().sessions.logins.on(domain).for_each(|call| call(self, seen));
        }
    }
}

impl World {
    /// Makes the calls of a hook whose modules are on in a domain, until one of them breaks off.
    ///
    /// The domain is looked up again for each call: a call may change which modules are on.
    pub(crate) fn call_each<F: Copy + 'static>(
        &mut self,
        hook: fn(&Registry) -> &Hook<F>,
        domain: &str,
        mut make: impl FnMut(&mut World, F) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut at = 0;
        while let Some(ModuleCall { module, call, .. }) = hook(self.registry()).get(at) {
            if self.domain(domain).is_some_and(|domain| domain.module(module).is_some()) {
                self.call_module(module, |world| make(world, call))?;
            }
            at += 1;
        }
        ControlFlow::Continue(())
    }

    /// Lets modules hand on their data at the home of a text.
    pub(crate) fn call_home(&mut self, home: &str) {
        let mut at = 0;
        while let Some(ModuleCall { call, module, .. }) = self.registry().rounds.journal.get(at) {
            self.call_module(module, |world| call(world, home));
            at += 1;
        }
    }

    /// Makes the calls of a hook whatever domains have their modules.
    pub(crate) fn call_all(&mut self, hook: fn(&Registry) -> &Hook<Everywhere>) {
        let mut at = 0;
        while let Some(ModuleCall { call, module, .. }) = hook(self.registry()).get(at) {
            self.call_module(module, call);
            at += 1;
        }
    }
}
