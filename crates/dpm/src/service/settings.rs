//! Settings of a client, which proves its identity, gets permission to set, and sets.
//!
//! The clients define the order: `Authenticate` without a token asks for the service's name,
//! `Authenticate` with a token proves the client's identity, `EnableSettings` proves that the same
//! client is still there, and each `ApplySettings` is answered once, when every setting in it has
//! its status. A missing or wrong step results in [`PRIV`](Status::PRIV). The proof belongs to a
//! list and is valid as long as the client's ticket.

use std::collections::HashMap;
use std::sync::Arc;

use super::Dpm;
use super::client::DpmClient;
use super::keys::ClientKey;
use super::list::ClientList;
use super::session::{ProvenSession, SettingBatch};
use super::share::Good;
use crate::acnet::DeviceItem;
use crate::authority::Attempt;
use crate::database::DeviceRecord;
use crate::drf::PropertyField;
use crate::sdd::{Bytes, SettingStatus, reply, request};
use crate::setting::{self, PropertyChange, SettingOutcome, SettingTicket, WantedValue};
use crate::status::Status;
use crate::time::Moment;

/// A setting that may go to its front-end.
struct SettingOrder {
    device: Arc<DeviceRecord>,
    node: usize,
    item: DeviceItem,
    change: PropertyChange,
}

impl Dpm {
    /// Handles a client's token; an empty one asks for the service's name.
    pub(super) fn authenticate(
        &mut self,
        list: usize,
        token: &[u8],
        now: Moment,
    ) -> Result<reply::Authenticate, Status> {
        let Some(state) = self.outlets.lists.get_mut(list) else { return Err(Status::NO_SUCH_LIST) };
        let Some(acceptor) = &self.authority.acceptor else { return Err(Status::PRIV) };
        let client = state.client;
        let session = state.session.get_or_insert_default();
        let role = session.role.take();
        let earlier = std::mem::replace(&mut **session, ProvenSession { role, ..ProvenSession::default() });
        if token.is_empty() {
            let service_name = Some(acceptor.service_name().to_owned());
            return Ok(reply::Authenticate { service_name, token: None });
        }
        if self.outlets.clients.get(client).is_none_or(|client| client.failures >= PROOFS) {
            return Err(Status::PRIV);
        }
        let unfinished = earlier.conversation.filter(|_| earlier.peer.is_none());
        let mut conversation = unfinished.unwrap_or_else(|| acceptor.converse());
        match conversation.step(token) {
            Ok(answer) => {
                session.peer = conversation.peer();
                session.expires = session.peer.as_ref().and_then(|peer| peer.good_for).map(|good| now.millis + good);
                session.conversation = Some(conversation);
                Ok(reply::Authenticate { service_name: None, token: answer.map(Bytes) })
            }
            Err(why) => {
                self.note_failure(list, client, format!("Authenticate: {why}"), now);
                Err(Status::PRIV)
            }
        }
    }

    /// Enables settings for a client that signed a message.
    pub(super) fn enable(&mut self, list: usize, mic: &[u8], message: &[u8], now: Moment) -> Status {
        let Some(state) = self.outlets.lists.get_mut(list) else { return Status::NO_SUCH_LIST };
        let client = state.client;
        let Some(session) = &mut state.session else { return Status::PRIV };
        let Some(conversation) = session.conversation.as_mut().filter(|_| session.peer.is_some()) else {
            return Status::PRIV;
        };
        match conversation.verify(message, mic) {
            Ok(()) => {
                session.is_enabled = true;
                Status::SUCCESS
            }
            Err(why) => {
                **session = ProvenSession { role: session.role.take(), ..ProvenSession::default() };
                self.note_failure(list, client, format!("EnableSettings: {why}"), now);
                Status::PRIV
            }
        }
    }

    /// Sets devices. The list's client gets a reply when all settings have a status.
    pub(super) fn apply(&mut self, list: usize, settings: request::ApplySettings, now: Moment) {
        let Some(state) = self.outlets.lists.get_mut(list) else { return };
        let (client, list_id) = (state.client, state.id);
        let has_many = state.batches >= BATCHES;
        state.batches += 1;
        let bytes = size(&settings);
        let is_busy = has_many || self.check_share(client, Good::Settings, bytes).is_err();
        let address = self.outlets.clients.get(client).and_then(|client| client.address);
        let (settings_of_batch, written) = (Vec::new(), Vec::new());
        let mut batch =
            SettingBatch { list_id, settings: settings_of_batch, logged: 0, open: 0, bytes, address, written };
        self.count(client, Good::Settings, bytes as isize);
        let mut orders: Vec<Option<SettingOrder>> = Vec::new();
        let mut latest: HashMap<(usize, DeviceItem, Option<PropertyField>), usize, ahash::RandomState> =
            HashMap::default();
        for (ref_id, value) in values(settings) {
            let mut attempt = self.attempt(list, ref_id);
            let judged = if is_busy { Err(Status::BUSY) } else { self.judge(list, ref_id, &value, now) };
            attempt.value = Some(value);
            attempt.verdict = judged.as_ref().err().copied().unwrap_or_default();
            if let Some(earlier) = judged.as_ref().ok().and_then(|order| latest.insert(order.key(), orders.len())) {
                orders[earlier] = None;
                batch.settings[earlier].1.verdict = Status::SETTING_SUPERCEDED;
            }
            orders.push(judged.ok());
            batch.settings.push((ref_id, attempt));
        }
        batch.open = orders.iter().flatten().count();
        batch.logged = self.count_logged(list, &batch.settings);
        let is_over = batch.open == 0;
        let key = self.batches.insert(batch);
        for (place, order) in orders.into_iter().enumerate() {
            if let Some(order) = order {
                self.hand_over(order, (key, place));
            }
        }
        if is_over {
            self.answer_batch(key, now);
        }
    }

    /// Passes an order on to its front-end.
    fn hand_over(&mut self, order: SettingOrder, ticket: SettingTicket) {
        let SettingOrder { device, node, item, change } = order;
        let is_acnet = self.database.nodes().get(node).is_some_and(|node| node.acnet().is_some());
        match (change, &device.setting) {
            (PropertyChange::Bytes(bytes), Some(setting)) if !is_acnet => {
                self.pool.set(node, &setting.place, item, bytes, ticket)
            }
            (change, _) => self.setter.set(&device, node, item, change, ticket),
        }
    }

    /// Returns the number of attempts that are logged: all of a client that has proved its
    /// identity, and a bounded number of any other, so that a connection can't fill the disk.
    fn count_logged(&mut self, list: usize, settings: &[(i64, Attempt)]) -> usize {
        if settings.first().is_none_or(|(_, attempt)| attempt.principal.is_some()) {
            return settings.len();
        }
        let client = self.outlets.lists.get(list).map(|state| state.client);
        let Some(client) = client.and_then(|client| self.outlets.clients.get_mut(client)) else { return 0 };
        let logged = settings.len().min(UNPROVED - client.unproved);
        client.unproved += logged;
        logged
    }

    /// Handles the outcomes of settings, and replies to finished batches.
    pub(super) fn finish_settings(&mut self, now: Moment) {
        let done = self.setter.take_done().into_iter().chain(self.pool.take_done());
        for SettingOutcome { ticket: (key, place), status, written } in done {
            let Some(batch) = self.batches.get_mut(key) else { continue };
            if let Some((_, attempt)) = batch.settings.get_mut(place) {
                attempt.verdict = status;
            }
            batch.written.extend(written.filter(|_| status == Status::SUCCESS));
            batch.open -= 1;
            if batch.open == 0 {
                self.answer_batch(key, now);
            }
        }
    }

    fn answer_batch(&mut self, key: usize, now: Moment) {
        let Some(batch) = self.batches.try_remove(key) else { return };
        for (_, attempt) in batch.settings.iter().take(batch.logged) {
            self.note(attempt, now);
        }
        self.report(&batch, now);
        let list = self.list_ids.get(&batch.list_id).copied();
        let state = list.and_then(|list| self.outlets.lists.get_mut(list));
        let client = state.and_then(|state| {
            state.batches -= 1;
            self.outlets.clients.get_mut(state.client)
        });
        let held = client.map(|client| &mut client.held);
        self.shares.change(held, batch.address, Good::Settings, -(batch.bytes as isize));
        let Some(list) = list else { return };
        let status = batch.settings.iter();
        let status = status.map(|(ref_id, attempt)| SettingStatus { ref_id: *ref_id, status: attempt.verdict.0 });
        self.outlets.push_of_list(list, reply::ApplySettings { status: status.collect() });
    }

    /// Returns the order for a setting, if it is allowed.
    fn judge(&self, list: usize, ref_id: i64, value: &WantedValue, now: Moment) -> Result<SettingOrder, Status> {
        let state = self.outlets.lists.get(list).ok_or(Status::NO_SUCH_LIST)?;
        let session = state.session.as_ref().filter(|session| session.is_good(now)).ok_or(Status::PRIV)?;
        let peer = session.peer.as_ref().ok_or(Status::PRIV)?;
        let target = self.database.find(state.request(ref_id).ok_or(Status::BAD_REQUEST)??)?;
        let roles = &self.authority.roles;
        let is_allowed = match session.in_any_role {
            true => roles.allow_in_any(&peer.principal, &target.device),
            false => roles.allow(&peer.principal, session.role.as_deref(), &target.device),
        };
        if !is_allowed {
            return Err(Status::PRIV);
        }
        let (node, item, change) = setting::change(&target, value)?;
        Ok(SettingOrder { device: target.device, node, item, change })
    }

    /// Returns an attempt for the log, with its principal.
    fn attempt(&self, list: usize, ref_id: i64) -> Attempt {
        let state = self.outlets.lists.get(list);
        let request = state.and_then(|state| state.request(ref_id)).and_then(Result::ok);
        let session = state.and_then(|state| state.session.as_deref());
        Attempt {
            principal: session.and_then(|session| session.peer.as_ref()).map(|peer| peer.principal.clone()),
            role: session.and_then(|session| session.role.clone()),
            from: state.and_then(|state| self.outlets.clients.get(state.client)).and_then(DpmClient::place),
            what: request.map_or_else(|| format!("reference {ref_id}"), ToString::to_string),
            value: None,
            verdict: Status::SUCCESS,
        }
    }

    pub(super) fn note_failure(&mut self, list: usize, client: ClientKey, what: String, now: Moment) {
        if let Some(client) = self.outlets.clients.get_mut(client) {
            client.failures += 1;
        }
        let attempt = Attempt { what, verdict: Status::PRIV, ..self.attempt(list, 0) };
        self.note(&attempt, now);
    }

    fn note(&mut self, attempt: &Attempt, now: Moment) {
        if let Some(audit) = &mut self.authority.audit {
            audit.record(attempt, now);
        }
    }
}

impl SettingOrder {
    /// Returns the key by which a later order of the same batch replaces this one.
    fn key(&self) -> (usize, DeviceItem, Option<PropertyField>) {
        let field = match self.change {
            PropertyChange::Part(part) => Some(part.field),
            PropertyChange::Bytes(_) => None,
        };
        (self.node, self.item, field)
    }
}

impl ProvenSession {
    /// Returns whether the proof allows its client to set now.
    fn is_good(&self, now: Moment) -> bool {
        self.is_enabled && self.expires.is_none_or(|expires| now.millis < expires)
    }
}

impl ClientList {
    /// Applies a property of the list, `#NAME:VALUE`. Only roles have an effect.
    pub(super) fn take_property(&mut self, text: &str) {
        let Some((name, role)) = text.strip_prefix('#').and_then(|text| text.split_once(':')) else { return };
        if name.eq_ignore_ascii_case("ROLE") {
            let role = Some(role).filter(|role| !role.is_empty() && role.len() <= LONGEST_ROLE);
            self.session.get_or_insert_default().role = role.map(str::to_owned);
        }
    }
}

/// Returns all settings, in the order of the statuses in the reply.
fn values(settings: request::ApplySettings) -> impl Iterator<Item = (i64, WantedValue)> {
    let raw = settings.raw_array.into_iter().flatten();
    let scaled = settings.scaled_array.into_iter().flatten();
    let texts = settings.text_array.into_iter().flatten();
    raw.map(|setting| (setting.ref_id, WantedValue::Raw(setting.data.0)))
        .chain(scaled.map(|setting| (setting.ref_id, WantedValue::Scaled(setting.data))))
        .chain(texts.map(|setting| (setting.ref_id, WantedValue::Text(setting.data))))
}

/// Returns the approximate bytes that settings take while they wait.
fn size(settings: &request::ApplySettings) -> usize {
    let raw = settings.raw_array.iter().flatten().map(|setting| setting.data.0.len());
    let scaled = settings.scaled_array.iter().flatten().map(|setting| 8 * setting.data.len());
    let texts = settings.text_array.iter().flatten().map(|setting| setting.data.iter().map(String::len).sum());
    raw.chain(scaled).chain(texts).map(|bytes| bytes + ATTEMPT).sum()
}

/// The bytes that a setting takes besides its value.
const ATTEMPT: usize = 128;
/// The most failed proofs of a connection; further ones are refused unchecked.
const PROOFS: u32 = 16;
/// The most settings of a connection without a proof that are logged.
const UNPROVED: usize = 1000;
/// The most batches of a list that may wait for front-ends.
const BATCHES: usize = 64;
/// The length of the longest role, in bytes.
const LONGEST_ROLE: usize = 64;
