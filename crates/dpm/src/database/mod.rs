//! The device database: which devices there are, where their properties live and how they are scaled.
//!
//! It is read from a file ([`Database::read`]) as a whole or not at all: a mistake names its line and field. A running DPM swaps the database and keeps
//! what is being read; requests that start afterwards see the new one.

mod file;
mod find;
mod limits;
mod record;

pub(crate) use file::line;
pub use file::{Fault, Mistake, Script};
pub use find::{Form, Stored, Target, Wanted};
pub use limits::Limits;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::blocks::{Bit, Command, StatusBits};
use crate::drf::{Event, Request};
use crate::rad50::Rad50;
use crate::scaling::{Enumeration, Scaling};

/// Nodes and devices.
#[derive(Debug, Default)]
pub struct Database {
    nodes: Vec<Node>,
    devices: Vec<Arc<Device>>,
    names: HashMap<String, usize, ahash::RandomState>,
    indices: HashMap<u32, usize, ahash::RandomState>,
    scripts: Vec<Script>,
    faults: Vec<Fault>,
    records: Vec<Request>,
}

/// A node of the ACNET network that front-end tasks run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: Rad50,
    /// Trunk and node number.
    pub address: u16,
    /// Where its datagrams come from and go to.
    pub socket: SocketAddr,
    /// How its devices are read.
    pub protocol: Protocol,
}

/// How a front-end is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Task `RETDAT`: events as 16 bits, no times in replies.
    Retdat,
    /// Task `GETS32`: events as text, times in replies.
    Gets32,
}

/// A device with its properties.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Its number.
    pub index: u32,
    /// Its name, such as `M:OUTTMP`.
    pub name: String,
    /// What it is.
    pub description: String,
    /// A longer name; may be empty.
    pub long_name: String,
    /// The list that its alarms belong to; may be empty.
    pub alarm_list: String,
    /// The classes of users who may set it without a role, a bit each.
    pub protection: u32,
    /// What is measured.
    pub reading: Option<Value>,
    /// What it was set to.
    pub setting: Option<Value>,
    /// Basic status.
    pub status: Option<StatusProperty>,
    /// Commands.
    pub control: Option<ControlProperty>,
    /// Analog alarm block.
    pub analog: Option<AlarmProperty>,
    /// Digital alarm block.
    pub digital: Option<AlarmProperty>,
}

/// Where a property lives.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The number of its node in [`Database::nodes`].
    pub node: usize,
    /// What tells the front-end where it is: eight bytes that only the front-end understands.
    pub ssdn: [u8; 8],
    /// All of it, in bytes.
    pub size: u32,
    /// What is read when no range was named, in bytes.
    pub default_size: u32,
    /// One element, in bytes.
    pub element: u32,
    /// When it is read if a request does not say.
    pub event: Event,
    /// Elements need not be read as wholes.
    pub unframed: bool,
}

/// A reading or setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Where.
    pub place: Place,
    /// To engineering units.
    pub scaling: Scaling,
    /// Of the primary transform.
    pub primary_units: String,
    /// Of the common transform.
    pub units: String,
    /// Names of numbers, if it is an enumeration.
    pub names: Enumeration,
    /// What it may be set to; nothing of a reading.
    pub limits: Limits,
}

/// A status property.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusProperty {
    /// Where.
    pub place: Place,
    /// What on, ready, remote, positive and ramp are.
    pub bits: StatusBits,
    /// What each bit means.
    pub names: Vec<Bit>,
}

/// A control property.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlProperty {
    /// Where.
    pub place: Place,
    /// What can be commanded.
    pub commands: Vec<Command>,
    /// Which values may be sent, by whatever name.
    pub limits: Limits,
}

/// An alarm block.
#[derive(Debug, Clone, PartialEq)]
pub struct AlarmProperty {
    /// Where.
    pub place: Place,
    /// What is said while it is in alarm.
    pub text: String,
    /// Between which readings its limits may be set; nothing of a digital block.
    pub limits: Limits,
}

/// Why there is no database, with the name of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// The file can't be read.
    Unreadable(String),
    /// What is written there, with line and field.
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
    /// Reads a database file.
    pub fn read(text: &str) -> Result<Self, Mistake> {
        file::read(text)
    }

    /// Reads the database file of that name, or without one the small database of the demonstration.
    pub fn load(path: Option<&Path>) -> Result<Self, Unusable> {
        let Some(path) = path else {
            return Self::read(DEMO).map_err(|mistake| Unusable::Mistaken(mistake.to_string()));
        };
        let named = |words: String| format!("{}: {words}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| Unusable::Unreadable(named(error.to_string())))?;
        Self::read(&text).map_err(|mistake| Unusable::Mistaken(named(mistake.to_string())))
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All devices.
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// The device of a name in upper case.
    pub fn named(&self, name: &str) -> Option<&Arc<Device>> {
        self.devices.get(*self.names.get(name)?)
    }

    /// The device of a number.
    pub fn numbered(&self, index: u32) -> Option<&Arc<Device>> {
        self.devices.get(*self.indices.get(&index)?)
    }

    /// What a simulated front-end plays.
    pub fn scripts(&self) -> &[Script] {
        &self.scripts
    }

    /// What is wrong with simulated nodes.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// What is recorded, each with its event.
    pub fn records(&self) -> &[Request] {
        &self.records
    }

    /// The same database with all nodes at one address, as a simulated front-end plays them.
    pub fn at(mut self, socket: SocketAddr) -> Self {
        for node in &mut self.nodes {
            node.socket = socket;
        }
        self
    }
}

const DEMO: &str = include_str!("demo.toml");
