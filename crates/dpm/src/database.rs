//! The device database: the devices, the places of their properties, and their scaling.
//!
//! A database is read from a file ([`Database::read`]) as a whole or not at all: a mistake is
//! reported with its line and field. A running DPM replaces the database and keeps current
//! readings; later requests see the new one.

mod device;
mod file;
mod find;
mod limits;
mod record;

pub use device::{
    AcnetNode, AlarmProperty, Broker, BrokerPassword, ChannelSearch, ControlProperty, Database, DeviceNode,
    DeviceRecord, DeviceValue, OwnNames, PropertyPlace, Protocol, Reached, StatusProperty, TopicPlace, ValueShape,
};
pub(crate) use file::line;
pub(crate) use file::played_raw;
pub use file::{
    Imported, Mistake, NodeFaults, Script, SimulatedEvent, SqlTable, example, import, import_sql, reference,
};
pub use find::{FoundTarget, FrontRequest, Stored, ValueForm};
pub use limits::PropertyLimits;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::drf::Request;

/// The reason why a database can't be used, with the name of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// The file can't be read.
    Unreadable(String),
    /// The file has a mistake; its line and field are named.
    Mistaken(String),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Unreadable(words) | Self::Mistaken(words)) = self;
        formatter.write_str(words)
    }
}

impl std::error::Error for Unusable {}

impl Database {
    /// Reads the text of a database file.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn read(text: &str) -> Result<Self, Mistake> {
        Self::check(text).map_err(|mistakes| mistakes.into_iter().next().unwrap_or(Mistake::UNKNOWN))
    }

    /// Reads the text of a database file, and continues after a mistake.
    ///
    /// # Errors
    /// All mistakes by line: of a value, and of a property that is read as a whole, the first one.
    pub fn check(text: &str) -> Result<Self, Vec<Mistake>> {
        file::read(text)
    }

    /// Reads the database file of that name or, without a name, the small database of the
    /// demonstration.
    ///
    /// # Errors
    /// A file that can't be read, has mistakes, or has no devices.
    pub fn load(path: Option<&Path>) -> Result<Self, Unusable> {
        let Some(path) = path else {
            return Self::read(DEMO).map_err(|mistake| Unusable::Mistaken(mistake.to_string()));
        };
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| Unusable::Unreadable(format!("{name}: {error}")))?;
        let mut database = Self::check(&text).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{name}: {mistake}")).collect();
            Unusable::Mistaken(lines.join("\n"))
        })?;
        if database.devices.is_empty() {
            return Err(Unusable::Mistaken(format!("{name}: {EMPTY}")));
        }
        for node in &mut database.nodes {
            if let Reached::Mqtt(broker) = &mut node.reached {
                broker.read_files(path.parent().unwrap_or(Path::new(""))).map_err(Unusable::Unreadable)?;
            }
        }
        Ok(database)
    }

    /// Adds a node. The error is the wrong field and the expected value.
    fn add_node(&mut self, node: DeviceNode) -> Result<(), (&'static str, String)> {
        let names = |node: &DeviceNode| node.aliases.iter().copied().chain([node.name]).collect::<Vec<_>>();
        let new = names(&node);
        for other in &self.nodes {
            if let Some(name) = names(other).into_iter().find(|name| new.contains(name)) {
                return Err(("name", format!("a name that no other node has; {name} is {} already", other.name)));
            }
            if node.acnet().is_some_and(|own| other.acnet().is_some_and(|other| other.address == own.address)) {
                return Err(("address", format!("an address that no other node has; {} has this one", other.name)));
            }
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a device. The error is the field whose value another device already has.
    fn add_device(&mut self, device: DeviceRecord) -> Result<(), &'static str> {
        if self.names.contains_key(&device.name) {
            return Err("name");
        }
        if self.indices.contains_key(&device.index) {
            return Err("index");
        }
        let number = self.devices.len();
        self.names.insert(device.name.clone(), number);
        self.indices.insert(device.index, number);
        self.devices.push(Arc::new(device));
        Ok(())
    }

    /// Returns the other names of this DPM.
    pub fn names_of_this(&self) -> &OwnNames {
        &self.names_of_this
    }

    /// Returns all nodes, in the order of their numbers in this database.
    pub fn nodes(&self) -> &[DeviceNode] {
        &self.nodes
    }

    /// Returns the number in this database of the node with a trunk and node number.
    pub fn at_address(&self, address: u16) -> Option<usize> {
        self.nodes.iter().position(|node| node.acnet().is_some_and(|node| node.address == address))
    }

    /// Returns all devices, in the order in which they were added.
    pub fn devices(&self) -> &[Arc<DeviceRecord>] {
        &self.devices
    }

    /// Returns the device of a name in upper case.
    pub fn by_name(&self, name: &str) -> Option<&Arc<DeviceRecord>> {
        self.devices.get(*self.names.get(name)?)
    }

    /// Returns the device of a number.
    pub fn by_number(&self, index: u32) -> Option<&Arc<DeviceRecord>> {
        self.devices.get(*self.indices.get(&index)?)
    }

    /// Returns the scripts that simulated front-ends play.
    pub fn scripts(&self) -> &[Script] {
        &self.scripts
    }

    /// Returns the events of the simulated clock, besides its own.
    pub fn events(&self) -> &[SimulatedEvent] {
        &self.events
    }

    /// Returns the faults of simulated nodes.
    pub fn faults(&self) -> &[NodeFaults] {
        &self.faults
    }

    /// Returns the requests that are recorded, each with its event.
    pub fn records(&self) -> &[Request] {
        &self.records
    }

    /// Returns the requests whose newest readings are in `/metrics`, each with its event.
    pub fn metrics(&self) -> &[Request] {
        &self.metrics
    }

    /// Returns the same database with all nodes of ACNET at one address, for a simulator that plays
    /// all of them.
    pub fn with_nodes_at(mut self, socket: SocketAddr) -> Self {
        for node in &mut self.nodes {
            if let Reached::Acnet(node) = &mut node.reached {
                node.socket = socket;
            }
        }
        self
    }
}

const EMPTY: &str = "there are no devices in it: each is a table [[device]] on a [[node]]; `rookery dpm database example` writes a file with all keys";
const DEMO: &str = include_str!("database/demo.toml");
