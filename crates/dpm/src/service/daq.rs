//! Clients by gRPC: each `Read` is a client with one list, which starts at once and ends when no
//! more messages can come.
//!
//! The number of a request is its index in the call. Such a client gets the messages of its stream,
//! without the framing of HTTP/2.

use std::net::SocketAddr;

use super::client::Speaks;
use super::keys::{ClientKey, CloseClient};
use super::list::{ClientList, ListRoute};
use super::{Dpm, Outlets};
use crate::authority::{ClientPlace, SetterProof};
use crate::grpc::daq::SettingParts;
use crate::sdd::{Bytes, RawSetting, ScaledSetting, TextSetting, request};
use crate::setting::WantedValue;
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// Starts reading for a connected client by gRPC. Requests that can't be read, or that exceed
    /// the bound of a list, get a status.
    ///
    /// # Errors
    /// [`CloseClient`] for an unknown client, and if there are too many lists.
    pub fn read(&mut self, client: ClientKey, requests: &[String], now: Moment) -> Result<(), CloseClient> {
        self.outlets.now = now;
        let state = self.outlets.clients.get_mut(client).ok_or(CloseClient)?;
        state.speaks = Speaks::Daq;
        let list = self.open_list(client, ListRoute::Daq).map_err(|_| CloseClient)?;
        for (index, request) in (0..).zip(requests) {
            if request.starts_with('#') && !request.starts_with("#:") {
                // Properties of a list belong to other protocols.
                self.outlets.push_status(list, index, Status::BAD_REQUEST);
            } else {
                self.add(list, index, request);
            }
        }
        self.start(list, None, now);
        Ok(())
    }

    /// Sets devices for a client by gRPC, with the address that it calls from and its proof. The
    /// client gets one message, when all settings have a status.
    ///
    /// # Errors
    /// [`CloseClient`] for an unknown client, and if there are too many lists.
    pub fn set(
        &mut self,
        client: ClientKey,
        settings: Vec<SettingParts>,
        proof: SetterProof,
        from: SocketAddr,
        now: Moment,
    ) -> Result<(), CloseClient> {
        self.outlets.now = now;
        let state = self.outlets.clients.get_mut(client).ok_or(CloseClient)?;
        (state.speaks, state.calls_from) = (Speaks::Daq, Some(ClientPlace::Socket(from)));
        let parts = settings.iter().map(Vec::len).collect();
        let list = self.open_list(client, ListRoute::Settings(parts)).map_err(|_| CloseClient)?;
        self.prove(list, client, proof, now);
        let (mut raw, mut scaled, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (ref_id, (request, value)) in (0..).zip(settings.into_iter().flatten()) {
            if !request.starts_with('#') || request.starts_with("#:") {
                self.add(list, ref_id, &request);
            }
            match value {
                WantedValue::Raw(data) => raw.push(RawSetting { ref_id, data: Bytes(data) }),
                WantedValue::Scaled(data) => scaled.push(ScaledSetting { ref_id, data }),
                WantedValue::Text(data) => texts.push(TextSetting { ref_id, data }),
            }
        }
        let settings = request::ApplySettings {
            raw_array: Some(raw),
            scaled_array: Some(scaled),
            text_array: Some(texts),
            ..request::ApplySettings::default()
        };
        self.apply(list, settings, now);
        Ok(())
    }

    /// Takes the client's proof of identity for a list.
    fn prove(&mut self, list: usize, client: ClientKey, proof: SetterProof, now: Moment) {
        let peer = match proof {
            SetterProof::Nothing => return,
            SetterProof::Peer(peer) => Ok(Some(peer)),
            SetterProof::Failed(why) => Err(why),
            SetterProof::Negotiate(token) => match &self.authority.acceptor {
                None => Err("there is no keytab".to_owned()),
                Some(acceptor) => {
                    let mut conversation = acceptor.converse();
                    conversation.step(&token).map(|_| conversation.peer())
                }
            },
        };
        match peer {
            Ok(peer) => {
                let Some(state) = self.outlets.lists.get_mut(list) else { return };
                let expires = peer.as_ref().and_then(|peer| peer.good_for).map(|good| now.millis + good);
                let session = state.session.get_or_insert_default();
                (session.is_enabled, session.in_any_role) = (peer.is_some(), true);
                (session.peer, session.expires) = (peer, expires);
            }
            Err(why) => self.note_failure(list, client, format!("Set: {why}"), now),
        }
    }

    /// Returns true if a client by gRPC has got its last message.
    pub fn is_served(&mut self, client: ClientKey) -> bool {
        let Outlets { clients, lists, .. } = &mut self.outlets;
        let Some(state) = clients.get(client).filter(|client| matches!(client.speaks, Speaks::Daq)) else {
            return false;
        };
        state.outbox.is_empty() && state.lists.iter().all(|list| lists.get_mut(*list).is_none_or(ClientList::is_over))
    }
}

impl Outlets {
    /// Returns whether it is the list of a client by gRPC.
    pub(super) fn is_daq(&self, list: usize) -> bool {
        self.lists.get(list).is_some_and(|list| matches!(list.route, ListRoute::Daq))
    }
}
