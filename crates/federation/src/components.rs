//! The connections of components (XEP-0114), at the home of their names, and the stanzas that wait
//! for them.
//!
//! A component may have several connections. The address of a stanza's sender decides which of
//! them gets it, so that each sender's stanzas keep their order. A component without a connection
//! is unavailable: stanzas for it are bounced at once.

use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

use rookery_fanout::StanzaType;
use rookery_fanout::multicast::Outgoing;
use rookery_hub::share::Bounds;
use rookery_stream::error::{Condition, StreamError};
use tracing::{debug, info, warn};

use crate::component::{ComponentEvent, ComponentStream};
use crate::queue::Queue;
use crate::servers::{Action, Arrival, CarriedElement, ConnectionKey, Home, Machine, ServerStreams, StreamOwner};
use crate::timers::StreamTimer;
use crate::writing::WRITE;

/// A connection of a component.
#[derive(Debug)]
pub(crate) struct AttachedComponent {
    pub machine: ComponentStream,
    pub peer: IpAddr,
    /// True if it counts among the unproven ones of its address.
    pub counts: bool,
    pub queue: Queue,
    /// The stanzas that the connection hasn't taken completely.
    pub written: Vec<Outgoing>,
}

impl ServerStreams {
    /// Accepts the connection of a component. Returns `None` if there are too many unproven ones
    /// from that address, or in total.
    pub fn accept_component(&mut self, peer: SocketAddr) -> Option<ConnectionKey> {
        let peer = self.admit_stranger(peer)?;
        let login_ms = self.settings.login_ms;
        let most = Bounds { number: self.settings.queue_stanzas, bytes: self.settings.queue_bytes };
        let mut queue = Queue::new(most);
        queue.connected();
        let attached = AttachedComponent {
            machine: ComponentStream::new(self.settings.clone()),
            peer,
            counts: true,
            queue,
            written: Vec::new(),
        };
        let (key, serial) = self.insert(Machine::Component(Box::new(attached)));
        self.set_timer(login_ms, StreamTimer::Login(key, serial));
        Some(key)
    }

    /// Queues a stanza for a component whose home this is.
    pub(crate) fn send_to_component(&mut self, stanza: Outgoing) {
        let Some(key) = self.connection_for(&stanza) else {
            // Available presence isn't bounced: it is no news that an absent component doesn't see
            // it.
            if stanza.packet().type_() != StanzaType::Available {
                self.bounce(stanza, Condition::RemoteServerTimeout);
            }
            return;
        };
        let Some(attached) = self.attached_mut(key) else { return };
        let is_first = attached.queue.is_empty();
        if let Err(stanza) = attached.queue.push(stanza) {
            return self.bounce(*stanza, Condition::ResourceConstraint);
        }
        if is_first {
            self.dirty_components.push(key);
        }
    }

    /// Returns the connection of a component that gets this sender's stanzas.
    fn connection_for(&self, stanza: &Outgoing) -> Option<ConnectionKey> {
        let keys = self.components.get(stanza.to().domain())?;
        let sender = stanza.packet().sender();
        let sender = sender.as_ref().map_or("", |sender| sender.bare_str());
        let at = self.components.hasher().hash_one(sender) as usize % keys.len().max(1);
        keys.get(at).copied()
    }

    /// Writes the stanzas that wait for components, once per connection.
    pub(crate) fn flush_components(&mut self) {
        for key in std::mem::take(&mut self.dirty_components) {
            let Some(attached) = self.attached_mut(key).filter(|attached| attached.written.is_empty()) else {
                continue;
            };
            let mut out = Vec::new();
            let AttachedComponent { queue, written, .. } = attached;
            queue.render(WRITE, usize::MAX, &mut out, |stanza| written.push(stanza), &mut Vec::new());
            self.write(key, out);
        }
    }

    /// Notes that a connection of a component has taken all output. Returns `false` if it isn't
    /// such a connection.
    pub(crate) fn component_drained(&mut self, key: ConnectionKey) -> bool {
        let Some(attached) = self.attached_mut(key) else { return false };
        attached.written.clear();
        attached.written.shrink_to(8);
        if !attached.queue.is_empty() {
            self.dirty_components.push(key);
        }
        true
    }

    /// Handles an event of a component's stream. Returns `false` if the stream isn't here any more.
    pub(crate) fn component_did(
        &mut self,
        key: ConnectionKey,
        event: ComponentEvent,
        rest: &[u8],
        home: &dyn Home,
    ) -> bool {
        match event {
            ComponentEvent::Stanza(packet, to) => self.actions.push_back(Action::Route(packet, to)),
            ComponentEvent::Refused(error, to) => self.actions.push_back(Action::Refuse(error, to)),
            ComponentEvent::Proven => return self.component_belongs(key, rest, home),
            ComponentEvent::Wrong => {
                if let Some(AttachedComponent { machine, peer, .. }) = self.attached_mut(key) {
                    let (component, peer) = (machine.name(), *peer);
                    warn!(component, %peer, "a component used a different secret from the one in [component]");
                }
                self.end(key);
            }
            ComponentEvent::End => self.end(key),
        }
        true
    }

    fn component_belongs(&mut self, key: ConnectionKey, rest: &[u8], home: &dyn Home) -> bool {
        let Some(attached) = self.attached_mut(key) else { return false };
        let shard = home.home(attached.machine.name());
        if shard == home.shard() {
            self.attach(key);
            return true;
        }
        let Some(stream) = self.streams.try_remove(key.0 as usize) else { return false };
        let Machine::Component(attached) = stream.machine else { return true };
        if attached.counts {
            self.strangers.leave(attached.peer);
        }
        let carry =
            (!rest.is_empty()).then(|| Box::new(CarriedElement { bytes: rest.to_vec(), scanner: Box::default() }));
        let arrival = Arrival { arriving: StreamOwner::Component(attached), carry };
        self.actions.push_back(Action::Move(key, Box::new(arrival), shard));
        false
    }

    /// Adopts a connection of a component that has arrived at another shard, and belongs here.
    pub(crate) fn adopt_component(
        &mut self,
        mut attached: Box<AttachedComponent>,
        carry: Option<Box<CarriedElement>>,
    ) -> ConnectionKey {
        attached.counts = false;
        attached.machine.apply(self.settings.clone());
        let (key, _) = self.insert(Machine::Component(attached));
        if let Some(stream) = self.streams.get_mut(key.0 as usize) {
            stream.carry = carry;
        }
        self.attach(key);
        key
    }

    fn attach(&mut self, key: ConnectionKey) {
        let Some(attached) = self.attached_mut(key) else { return };
        let (name, peer) = (Box::<str>::from(attached.machine.name()), attached.peer);
        let was_stranger = std::mem::take(&mut attached.counts);
        let mut out = Vec::new();
        let others = self.components.get(&name).map_or(0, Vec::len);
        let refusal = match self.settings.component(&name) {
            None => Some((StreamError::HostGone, "The component was removed.")),
            Some(_) if others >= MOST_CONNECTIONS => {
                Some((StreamError::ResourceConstraint, "The component has as many connections as it may have."))
            }
            Some(_) => None,
        };
        if was_stranger {
            self.strangers.leave(peer);
        }
        let Some(attached) = self.attached_mut(key) else { return };
        if let Some((error, text)) = refusal {
            attached.machine.close(&error, Some(text), &mut out);
            self.write(key, out);
            return self.end(key);
        }
        attached.machine.attached(&mut out);
        self.write(key, out);
        info!(component = &*name, %peer, connections = others + 1, "a component is connected");
        self.actions.push_back(Action::ComponentCame(name.clone()));
        self.components.entry(name).or_default().push(key);
    }

    /// Detaches a connection of a component that has gone, or is about to go. The component's other
    /// connections get its unwritten stanzas; without another connection, these are given back.
    pub(crate) fn detach(&mut self, key: ConnectionKey) {
        let Some(attached) = self.attached_mut(key) else { return };
        let name = Box::<str>::from(attached.machine.name());
        let waiting = attached.queue.take();
        attached.queue.connected();
        let Some(keys) = self.components.get_mut(&name) else { return };
        let before = keys.len();
        keys.retain(|known| *known != key);
        let connections = keys.len();
        if connections == 0 {
            self.components.remove(&name);
            self.actions.push_back(Action::ComponentGone(name.clone()));
        }
        if connections < before {
            info!(component = &*name, connections, "a component has disconnected");
        }
        waiting.into_iter().for_each(|stanza| self.send_to_component(stanza));
    }

    /// Gives back the stanzas that a closed connection has not taken. A connection that this server
    /// ends first takes all output that was written.
    pub(crate) fn give_back_written(&mut self, key: ConnectionKey) {
        let Some(attached) = self.attached_mut(key) else { return };
        for stanza in std::mem::take(&mut attached.written) {
            self.bounce(stanza, Condition::RemoteServerTimeout);
        }
    }

    /// Ends a component's stream with an error.
    pub(crate) fn dismiss(&mut self, key: ConnectionKey, error: &StreamError) {
        self.detach(key);
        let mut out = Vec::new();
        let Some(attached) = self.attached_mut(key) else { return };
        attached.machine.close(error, None, &mut out);
        debug!(component = attached.machine.name(), ?error, "the stream of a component ends");
        self.write(key, out);
        self.end(key);
    }

    pub(crate) fn attached_mut(&mut self, key: ConnectionKey) -> Option<&mut AttachedComponent> {
        match &mut self.streams.get_mut(key.0 as usize)?.machine {
            Machine::Component(attached) => Some(attached),
            _ => None,
        }
    }

    /// Returns the connected components whose home this is, with the number of their connections.
    pub fn connected_components(&self) -> impl Iterator<Item = (&str, usize)> {
        self.components.iter().map(|(name, keys)| (&**name, keys.len()))
    }
}

/// The most connections of one component.
pub const MOST_CONNECTIONS: usize = 16;
