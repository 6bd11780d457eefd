//! A connection until it has bound a resource: passes the queries of the stream's machine to the
//! world and the answers back.

use std::time::Duration;

use rookery_base::Transport;
use rookery_fanout::Link;
use rookery_hub::{BEGUN_AGAIN, BindError, Guest, Iq, LoginSeen, NotResumed, TokenChange};
use rookery_jid::Jid;
use rookery_observe::{Since, Slow, slow};
use rookery_sasl::Failure;
use rookery_stream::c2s::{C2s, C2sEvent, Facts};
use rookery_stream::error::{Condition, StanzaError, StreamError};
use rookery_stream::tls::ServerTls;
use rookery_xml::{Built, Limits, Stanza, Writer};
use tracing::{debug, info, warn};

use crate::attempts::LoginAttempt;
use crate::connection::{CarriedInput, ConnectionStage, LoginQuestion, Resumption};
use crate::driver::Driver;
use crate::shard::Shard;
use crate::visits::LoggedPeer;
use crate::wires::handshake;

impl<D: Driver> Shard<D> {
    /// Passes input to the machine, and handles its requests until it wants more input.
    pub(crate) fn negotiate(&mut self, link: Link, bytes: &[u8]) {
        let mut input = match self.connections.get_mut(link).and_then(|connection| connection.carry.take()) {
            Some(mut carry) => {
                carry.bytes.extend_from_slice(bytes);
                carry.bytes
            }
            None => bytes.to_vec(),
        };
        let mut out = Vec::new();
        loop {
            let Some(read) = self.with_machine(link, |machine| machine.read(&input, &mut out)) else { return };
            input.drain(..read.consumed);
            self.write_raw(link, &out);
            out.clear();
            let Some(event) = read.event else { break };
            match event {
                C2sEvent::End => return self.finish(link, &[]),
                C2sEvent::Authenticated { account } => {
                    if let Some(attempt) = self.take_attempt(link) {
                        self.common.gate.succeeded(&attempt, self.timing.now_ms);
                        self.tell_others();
                    }
                    if !self.may_begin_again(link, &account) && self.leaves_for_home(link, &mut input) {
                        return;
                    }
                }
                C2sEvent::BegunAgain => {
                    if self.has_whole_client(link) && self.leaves_for_home(link, &mut input) {
                        return;
                    }
                }
                C2sEvent::Resume { previd, h } => match self.find_resumable(link, &previd) {
                    Ok(session) if self.world.is_settled(session) => {
                        self.keep(link, input);
                        return self.resume(link, session, h);
                    }
                    Ok(_) => {
                        self.set_asked(link, true);
                        self.resumptions.push(Resumption { connection: self.key_of(link), previd, h });
                    }
                    Err(NotResumed { condition, handled }) => {
                        self.with_machine(link, |machine| machine.not_resumed(&condition, handled, &mut out));
                    }
                },
                event => self.deal_with(link, event),
            }
            if !matches!(
                self.connections.get(link).map(|connection| &connection.stage),
                Some(ConnectionStage::Negotiating(_))
            ) {
                break;
            }
        }
        self.keep(link, input);
    }

    /// Returns whether a client that has logged in begins its stream again here, wherever its
    /// account is at home. So it gets the features at once, even while that home has died: clients
    /// give up sooner than others can take over.
    fn may_begin_again(&mut self, link: Link, account: &Jid) -> bool {
        let home = self.world.home_of(account.as_ref());
        let is_understood = home < self.world.own_shards() || self.world.letters_of(home) >= BEGUN_AGAIN;
        is_understood
            && self.has_whole_client(link)
            && self.with_machine(link, |machine| machine.is_to_begin_again()).unwrap_or_default()
    }

    /// Sends a client that has logged in, and what it has sent since, to the home of its account,
    /// or lets it wait for that. Returns `false` if this is its home.
    fn leaves_for_home(&mut self, link: Link, input: &mut Vec<u8>) -> bool {
        let Some(account) = self.with_machine(link, |machine| machine.account().cloned()).flatten() else {
            return false;
        };
        let is_early = self.is_early(link);
        let home = self.world.home_of(account.as_ref());
        if !is_early && home == self.index() {
            return false;
        }
        self.keep(link, std::mem::take(input));
        match home < self.world.own_shards() {
            _ if is_early => self.keep_out(link),
            true => self.move_to(link, home),
            false => self.move_away(link, home),
        }
        true
    }

    /// Keeps input that the machine hasn't consumed. Its size is bounded, since the machine
    /// consumes input or fails when an element grows over its limit.
    fn keep(&mut self, link: Link, input: Vec<u8>) {
        if input.is_empty() {
            return;
        }
        if let Some(connection) = self.connections.get_mut(link) {
            connection.carry = Some(Box::new(CarriedInput { bytes: input, scanner: Box::default() }));
            let asked = matches!(&connection.stage, ConnectionStage::Negotiating(negotiation) if negotiation.asked);
            let full = connection.carry.as_ref().is_some_and(|carry| carry.bytes.len() > MAX_AHEAD);
            if asked && full {
                self.pause(link, true);
            }
        }
    }

    fn deal_with(&mut self, link: Link, event: C2sEvent) {
        match event {
            C2sEvent::StartTls => self.start_tls(link),
            C2sEvent::Credentials { account } => {
                self.set_asked(link, true);
                self.ask(link, LoginQuestion::Credentials(account));
            }
            C2sEvent::Verify { account, password } => {
                self.set_asked(link, true);
                self.ask(link, LoginQuestion::Verify(account, password));
            }
            C2sEvent::Anonymous { .. } => self.let_in_anonymously(link),
            C2sEvent::Bearer { token, wanted } => {
                let host = self.with_machine(link, |machine| machine.host().map(|host| host.name.as_str().into()));
                let Some(host) = host.flatten() else { return };
                self.set_asked(link, true);
                self.ask(link, LoginQuestion::Bearer(token, host, wanted));
            }
            C2sEvent::Tokens { account, client } => {
                self.set_asked(link, true);
                self.ask(link, LoginQuestion::Tokens(account, client));
            }
            C2sEvent::Token { account, client, used, invalidate, issue } => {
                self.set_asked(link, true);
                let key = self.key_of(link);
                self.world.change_tokens(key, TokenChange { account, client, used, invalidate, issue });
            }
            C2sEvent::Failed { account, failure } => {
                let Some(peer) = self.connections.get(link).map(|connection| connection.peer) else {
                    return;
                };
                let name = account.as_ref().map_or("unknown", Jid::as_str);
                match (self.take_attempt(link), failure) {
                    // The attempt had no turn. A client that repeats it must not be able to fill
                    // the log.
                    (None, Failure::TemporaryAuthFailure) => {
                        return debug!(%peer, account = name, "a login was refused");
                    }
                    (Some(attempt), Failure::TemporaryAuthFailure | Failure::Aborted) => {
                        self.common.gate.take_back(&attempt, self.timing.now_ms);
                        self.tell_others();
                    }
                    (Some(attempt), _) => self.common.gate.failed(attempt),
                    (None, _) => {}
                }
                let peer = LoggedPeer(peer);
                info!(%peer, account = name, reason = failure.condition(), "a login failed");
                self.note_login(link, account.as_ref(), Some(failure.condition()));
            }
            C2sEvent::Bind { resource } => {
                let account = self.with_machine(link, |machine| machine.account().cloned()).flatten();
                let (Some(account), Some(connection)) = (account, self.connections.get_mut(link)) else {
                    return;
                };
                connection.in_world = true;
                self.set_asked(link, true);
                self.world.bind(link, &account, resource.as_deref());
            }
            C2sEvent::BindInline { resource } => {
                let account = self.with_machine(link, |machine| machine.account().cloned()).flatten();
                let (Some(account), Some(connection)) = (account, self.connections.get_mut(link)) else {
                    return;
                };
                connection.in_world = true;
                self.set_asked(link, true);
                self.world.bind_in_place(link, &account, &resource);
            }
            C2sEvent::BeforeLogin { stanza } => {
                self.set_asked(link, true);
                self.before_login(link, &stanza);
            }
            C2sEvent::Authenticated { .. } | C2sEvent::BegunAgain | C2sEvent::Resume { .. } | C2sEvent::End => {}
        }
    }

    /// Admits a client without a proof, unless too many have come from its address recently. The
    /// machine continues with its next reading.
    fn let_in_anonymously(&mut self, link: Link) {
        let Some(peer) = self.connections.get(link).map(|connection| connection.peer) else { return };
        self.tell_others();
        let may_enter = self.common.gate.let_in(peer.ip(), &self.common.generation.logins, self.timing.now_ms);
        let mut out = Vec::new();
        self.with_machine(link, |machine| match may_enter {
            true => machine.verified(true, &mut out),
            false => machine.store_failed(&mut out),
        });
        self.write_raw(link, &out);
    }

    fn take_attempt(&mut self, link: Link) -> Option<LoginAttempt> {
        match &mut self.connections.get_mut(link)?.stage {
            ConnectionStage::Negotiating(negotiation) => negotiation.attempt.take(),
            _ => None,
        }
    }

    fn start_tls(&mut self, link: Link) {
        let tls = self.common.generation.tls.as_ref().map(ServerTls::accept);
        match (tls, self.connections.get_mut(link)) {
            (Some(Ok(tls)), Some(connection)) => {
                connection.tls = Some(tls);
                if let ConnectionStage::Negotiating(negotiation) = &mut connection.stage {
                    negotiation.tls_since = Some(Since::now());
                }
            }
            (Some(Err(error)), connection) => {
                let peer = connection.map(|connection| connection.peer);
                warn!(?peer, %error, "a TLS handshake can't be started");
                self.lost(link);
            }
            _ => self.lost(link),
        }
    }

    /// Continues when the handshake of TLS is complete.
    pub(crate) fn tls_established(&mut self, link: Link) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        let Some(tls) = &connection.tls else { return };
        let (bindings, kind) = (tls.bindings(), handshake(tls.is_resumed()));
        if let ConnectionStage::Negotiating(negotiation) = &mut connection.stage
            && let Some(since) = negotiation.tls_since.take()
        {
            self.world.counters.handshakes.of("xmpp").record_time(since.elapsed());
            self.world.counters.sessions.add("xmpp", kind);
        }
        let facts = Facts { secure: true, bindings, ..Facts::default() };
        self.with_machine(link, |machine| machine.tls_started(facts));
    }

    /// Handles an iq about registration from a connection without a session.
    fn before_login(&mut self, link: Link, bytes: &[u8]) {
        let host = self.with_machine(link, |machine| {
            machine.host().map(|host| host.name.clone()).zip(Some(machine.facts().secure))
        });
        let Some((host, secure)) = host.flatten() else { return };
        let Some(address) = self.connections.get(link).map(|connection| connection.peer.ip()) else {
            return;
        };
        let guest = Guest { connection: self.key_of(link), address, secure };
        let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
        let host = Jid::parse(&host).ok();
        let iq = Stanza::parse(bytes, &limits)
            .ok()
            .zip(host)
            .and_then(|(stanza, host)| Iq::read(stanza, host.clone(), host, None));
        match iq {
            Some(iq) => {
                let id = iq.id.clone();
                if !self.world.guest_iq(guest, iq) {
                    self.refuse_before_login(link, &id, Condition::ServiceUnavailable.into());
                }
            }
            None => self.refuse_before_login(link, "", Condition::BadRequest.into()),
        }
    }

    fn refuse_before_login(&mut self, link: Link, id: &str, error: StanzaError) {
        let mut reply = Writer::new("iq");
        reply.attr("type", "error").attr("id", id);
        error.write(&mut reply);
        self.guest_reply(self.key_of(link), &reply.finish());
    }

    /// Sends a module's answer to such an iq.
    pub(crate) fn guest_reply(&mut self, key: u64, reply: &Built) {
        let Some(link) = self.connection_of(key) else { return };
        let mut out = Vec::new();
        self.with_machine(link, |machine| machine.reply_before_login(reply.bytes(), &mut out));
        self.answered(link, &out);
    }

    /// Takes the world's answer to a request to bind a resource.
    pub(crate) fn bound(&mut self, link: Link, bound: Result<Jid, BindError>) {
        let Some(connection) = self.connections.get_mut(link) else { return };
        if bound.is_err() {
            connection.in_world = false;
        }
        let is_bound = bound.is_ok();
        let transport = connection.wire.transport();
        if is_bound {
            self.world.outboxes.set_transport(link, transport);
        }
        let mut out = Vec::new();
        let bound = bound.map_err(|error| error.to_stanza_error());
        let answered = match self.with_machine(link, |machine| machine.inline_features()).flatten() {
            None => self.with_machine(link, |machine| machine.bound(bound, &mut out)),
            Some(features) => {
                let results = if is_bound { self.world.begin_with(link, features) } else { Vec::new() };
                let bound = bound.map(|jid| (jid, results.as_slice()));
                self.with_machine(link, |machine| machine.bound_inline(bound, &mut out))
            }
        };
        if answered.is_none() || !is_bound {
            self.answered(link, &out);
            return self.forget_unless_connected(link);
        }
        self.write_raw(link, &out);
        self.is_bound(link, false);
        // Others may have sent stanzas to the resource before its client learned of it.
        self.flush_link(link);
        self.pause(link, false);
        self.input(link, &mut []);
    }

    /// Ends the negotiation: the session's part of it is handed on, the rest is dropped.
    /// `is_resumed`: the session was there before.
    pub(crate) fn is_bound(&mut self, link: Link, is_resumed: bool) {
        let session = self.world.address(link).cloned();
        self.note_login(link, session.as_ref(), None);
        let mechanism = self.with_machine(link, |machine| machine.mechanism()).flatten();
        self.tell_begun(link, mechanism, is_resumed);
        let until_s = self.ends_with_its_proof(link);
        let Some(connection) = self.connections.get_mut(link) else { return };
        let since_s = u32::try_from(self.world.time() / 1000).unwrap_or(u32::MAX);
        let bound = ConnectionStage::Bound { since_s, until_s };
        let ConnectionStage::Negotiating(negotiation) = std::mem::replace(&mut connection.stage, bound) else { return };
        if let Some(tls) = &mut connection.tls {
            tls.forget_handshake();
        }
        let transport = connection.wire.transport();
        self.world.outboxes.set_transport(link, transport);
        if transport == Transport::Bosh {
            self.count_what_is_sent(link);
        }
        let Some(connection) = self.connections.get_mut(link) else { return };
        let Some(kept) = negotiation.machine.into_bound() else { return };
        if !kept.prefixes.is_empty() {
            connection.prefixes = Some(kept.prefixes.into_boxed_slice());
        }
        if let Some(lang) = kept.lang {
            self.world.set_lang(link, &lang);
        }
    }

    /// Reports the outcome of a login to metrics, modules and the log.
    fn note_login(&mut self, link: Link, who: Option<&Jid>, failure: Option<&'static str>) {
        let of_machine = |machine: &mut C2s| (machine.mechanism(), machine.host().map(|host| host.name.clone()));
        let Some((mechanism, host)) = self.with_machine(link, of_machine) else { return };
        self.world.counters.authentications.add(mechanism.unwrap_or("none"), failure.unwrap_or("success"));
        let Some(connection) = self.connections.get(link) else { return };
        if let ConnectionStage::Negotiating(negotiation) = &connection.stage
            && let Some((asked_ms, put_off_ms)) = negotiation.begun
        {
            let lasted = Duration::from_millis(self.timing.now_ms.saturating_sub(asked_ms));
            slow().note(Slow::Login, lasted, || {
                let whose = who.map_or_else(|| host.clone().unwrap_or_default(), Jid::to_string);
                let put_off = match put_off_ms {
                    0 => "queries to the store, password checks, and the way to the client".to_owned(),
                    ms => format!("{ms} ms of it were a delay because similar ones had failed"),
                };
                let outcome = failure.unwrap_or("success");
                (format!("{}, {outcome}", mechanism.unwrap_or("none")), whose, put_off)
            });
        }
        let domain = who.map_or(host.as_deref().unwrap_or_default(), Jid::domain);
        let (address, transport) = (connection.peer.ip(), connection.wire.transport());
        let who = who.map(Jid::as_ref);
        self.world.login_seen(&LoginSeen { who, domain, address, transport, mechanism, failure });
    }

    /// Continues when the machine has its answer: sends its output, and reads input that arrived
    /// meanwhile.
    pub(crate) fn answered(&mut self, link: Link, out: &[u8]) {
        self.write_raw(link, out);
        self.set_asked(link, false);
        self.pause(link, false);
        self.input(link, &mut []);
    }

    pub(crate) fn set_asked(&mut self, link: Link, asked: bool) {
        if let Some(connection) = self.connections.get_mut(link)
            && let ConnectionStage::Negotiating(negotiation) = &mut connection.stage
        {
            negotiation.asked = asked;
        }
    }

    /// Ends the logins to an account that is removed or disabled: their clients have to begin
    /// again.
    pub(crate) fn end_logins(&mut self, account: &Jid) {
        let is_of = |stage: &ConnectionStage| matches!(stage, ConnectionStage::Negotiating(negotiation) if negotiation.machine.is_of(account));
        let found = self.connections.iter().filter(|(_, connection)| is_of(&connection.stage));
        let links: Vec<Link> = found.map(|(link, _)| link).collect();
        for link in links {
            self.fail(link, &StreamError::NotAuthorized, Some("the account has changed"));
        }
    }

    pub(crate) fn login_timed_out(&mut self, link: Link) {
        let mut out = Vec::new();
        if self.with_machine(link, |machine| machine.timed_out(&mut out)).is_some() {
            self.finish(link, &out);
        }
    }

    /// Runs `act` on the machine of a connection that is still negotiating.
    pub(crate) fn with_machine<T>(&mut self, link: Link, act: impl FnOnce(&mut C2s) -> T) -> Option<T> {
        match &mut self.connections.get_mut(link)?.stage {
            ConnectionStage::Negotiating(negotiation) => Some(act(&mut negotiation.machine)),
            _ => None,
        }
    }
}

/// Bytes that a client may send ahead while a question of its login is open, before reading pauses.
pub(crate) const MAX_AHEAD: usize = 16 * 1024;
