//! Applies an operator's decisions to existing streams: new settings, and the end of the server.

use std::sync::Arc;

use rookery_stream::error::StreamError;

use crate::route::{DomainRoute, RouteState};
use crate::servers::{ConnectionKey, Home, Machine, ServerStreams};
use crate::settings::FederationSettings;

impl ServerStreams {
    /// Applies new settings. Streams that these don't admit, or whose host of ours is gone, end,
    /// and the stanzas that wait for them are bounced.
    pub fn apply(&mut self, settings: Arc<FederationSettings>, home: &dyn Home) {
        self.settings = settings;
        self.is_stopping = false;
        let keys: Vec<usize> = self.streams.iter().map(|(key, _)| key).collect();
        for at in keys {
            let key = ConnectionKey(at as u32);
            let settings = self.settings.clone();
            let Some(stream) = self.streams.get_mut(at).filter(|stream| !stream.ended) else { continue };
            let mut out = Vec::new();
            match &mut stream.machine {
                Machine::In { machine, carries, .. } => {
                    let carried = carries.take();
                    machine.apply(settings);
                    let fault = machine.objection(home).map(|(error, text)| (error, text.map(str::to_owned)));
                    let Some((error, text)) = fault else {
                        *carries = carried;
                        continue;
                    };
                    machine.close(&error, text.as_deref(), &mut out);
                    self.write(key, out);
                    self.end(key);
                    if let Some(route) = carried {
                        self.give_up(route, &error, CHANGED);
                    }
                }
                Machine::Component(attached) => {
                    attached.machine.apply(settings.clone());
                    let is_gone = settings.component(attached.machine.name()).is_none();
                    if is_gone && attached.machine.has_proven() {
                        self.dismiss(key, &StreamError::HostGone);
                    }
                }
                Machine::Out { machine, route, .. } => {
                    machine.apply(settings.clone());
                    let is_gone = !settings.shows(machine.local(), home);
                    if !is_gone && machine.is_admitted() {
                        continue;
                    }
                    let error = if is_gone { StreamError::HostGone } else { StreamError::PolicyViolation };
                    // The way of a stream that is closing belongs to another stream by now.
                    let (route, is_past) = (*route, machine.is_closing());
                    if is_past { self.close_stream(key, &error) } else { self.give_up(route, &error, CHANGED) }
                }
            }
        }
        let is_out = |route: &DomainRoute| !matches!(route.state, RouteState::Idle) && route.key().is_none();
        let ways = self.routes.iter().filter(|(_, route)| is_out(route)).map(|(at, _)| at);
        for at in ways.collect::<Vec<_>>() {
            let Some(DomainRoute { local, remote, .. }) = self.routes.get(at) else { continue };
            if !home.is_ours(local) || !self.settings.admits(local, remote) {
                self.give_up(at, &StreamError::PolicyViolation, CHANGED);
            }
        }
    }

    /// Ends all streams, because the server stops.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        let routes: Vec<usize> = self.routes.iter().map(|(at, _)| at).collect();
        for route in routes {
            self.give_up(route, &StreamError::SystemShutdown, "this server stops");
        }
        let keys: Vec<usize> = self.streams.iter().map(|(key, _)| key).collect();
        for at in keys {
            let mut out = Vec::new();
            match self.streams.get_mut(at).map(|stream| &mut stream.machine) {
                Some(Machine::In { machine, .. }) => {
                    machine.close(&StreamError::SystemShutdown, None, &mut out);
                    self.write(ConnectionKey(at as u32), out);
                    self.end(ConnectionKey(at as u32));
                }
                Some(Machine::Component(_)) => self.dismiss(ConnectionKey(at as u32), &StreamError::SystemShutdown),
                Some(Machine::Out { .. }) | None => {}
            }
        }
    }
}

const CHANGED: &str = "the configuration has changed";
