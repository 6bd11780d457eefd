//! Applies an operator's decisions to the streams that there are: other settings, and the end of
//! the server.

use std::sync::Arc;

use rookery_stream::error::StreamError;

use crate::servers::{Home, Key, Machine, Servers};
use crate::settings::Settings;

impl Servers {
    /// Takes other settings. Streams of domains that are no longer admitted, or are for hosts that
    /// are gone, end.
    pub fn apply(&mut self, settings: Arc<Settings>, home: &dyn Home) {
        self.settings = settings;
        self.is_stopping = false;
        let keys: Vec<usize> = self.streams.iter().map(|(key, _)| key).collect();
        for at in keys {
            let key = Key(at as u32);
            let settings = self.settings.clone();
            let Some(stream) = self.streams.get_mut(at) else { continue };
            let mut out = Vec::new();
            match &mut stream.machine {
                Machine::In { machine, carries, .. } => {
                    let carried = *carries;
                    machine.apply(settings.clone());
                    let is_gone = machine.local().is_some_and(|local| !home.is_ours(local));
                    let error = if is_gone { &StreamError::HostGone } else { &StreamError::PolicyViolation };
                    if !is_gone && (machine.local().is_none() || machine.is_admitted()) {
                        continue;
                    }
                    if let Some(route) = carried {
                        self.give_up(route, error, "the configuration has changed");
                        continue;
                    }
                    machine.close(error, None, &mut out);
                    self.write(key, out);
                    self.end(key);
                }
                Machine::Component(attached) => {
                    attached.machine.apply(settings.clone());
                    let is_gone = settings.component(attached.machine.name()).is_none();
                    if is_gone && attached.machine.has_proven() {
                        self.dismiss(key, &StreamError::HostGone);
                    }
                }
                Machine::Out { route, .. } => {
                    let Some(way) = self.routes.get(*route) else { continue };
                    let is_gone = !home.is_ours(&way.local);
                    if is_gone || !settings.admits(&way.local, &way.remote) {
                        let (route, error) =
                            (*route, if is_gone { StreamError::HostGone } else { StreamError::PolicyViolation });
                        self.give_up(route, &error, "the configuration has changed");
                    }
                }
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
                    self.write(Key(at as u32), out);
                    self.end(Key(at as u32));
                }
                Some(Machine::Component(_)) => self.dismiss(Key(at as u32), &StreamError::SystemShutdown),
                Some(Machine::Out { .. }) | None => {}
            }
        }
    }
}
