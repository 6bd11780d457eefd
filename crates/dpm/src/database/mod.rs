//! The device database: which devices there are, where their properties live and how they are scaled.
//!
//! It is read from a file ([`Database::read`]) as a whole or not at all: a mistake names its line and field. A running DPM swaps the database and keeps
//! what is being read; requests that start afterwards see the new one.

mod file;
mod find;
mod limits;
mod record;

pub(crate) use file::line;
pub use file::{Fault, Mistake, Script, example, reference};
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
    names_of_this: Names,
}

/// The names that this DPM has beside the one that it was started with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Names {
    /// Further names of its node.
    pub aliases: Vec<Rad50>,
    /// Names of loggers whose questions are answered from what is recorded here, in upper case.
    pub loggers: Vec<String>,
}

/// A node of the ACNET network that front-end tasks run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: Rad50,
    /// Other names by which clients find it.
    pub aliases: Vec<Rad50>,
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
    /// The limits of its settings; none for a reading.
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
    /// The values that may be sent, by whatever name.
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
    /// Reads the text of a database file.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn read(text: &str) -> Result<Self, Mistake> {
        Self::check(text).map_err(|mistakes| mistakes.into_iter().next().unwrap_or(Mistake::UNKNOWN))
    }

    /// Reads the text of a database file, and goes on after a mistake.
    ///
    /// # Errors
    /// All mistakes by line: the first one of each row.
    pub fn check(text: &str) -> Result<Self, Vec<Mistake>> {
        file::read(text)
    }

    /// Reads the database file of that name, or without one the small database of the demonstration.
    ///
    /// # Errors
    /// A file that can't be read, has mistakes, or has no devices.
    pub fn load(path: Option<&Path>) -> Result<Self, Unusable> {
        let Some(path) = path else {
            return Self::read(DEMO).map_err(|mistake| Unusable::Mistaken(mistake.to_string()));
        };
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| Unusable::Unreadable(format!("{name}: {error}")))?;
        let database = Self::check(&text).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{name}: {mistake}")).collect();
            Unusable::Mistaken(lines.join("\n"))
        })?;
        if database.devices.is_empty() {
            return Err(Unusable::Mistaken(format!("{name}: {EMPTY}")));
        }
        Ok(database)
    }

    /// Adds a node. Errors are the field that is wrong, and what would be right.
    fn add_node(&mut self, node: Node) -> Result<(), (&'static str, String)> {
        let names = |node: &Node| node.aliases.iter().copied().chain([node.name]).collect::<Vec<_>>();
        let new = names(&node);
        for other in &self.nodes {
            if let Some(name) = names(other).into_iter().find(|name| new.contains(name)) {
                return Err(("name", format!("a name that no other node has; {name} is {} already", other.name)));
            }
            if other.address == node.address {
                return Err(("address", format!("an address that no other node has; {} has this one", other.name)));
            }
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a device. The error is the field that another device has, too.
    fn add_device(&mut self, device: Device) -> Result<(), &'static str> {
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

    /// The names that this DPM has beside the one that it was started with.
    pub fn names_of_this(&self) -> &Names {
        &self.names_of_this
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

const EMPTY: &str = "there are no devices in it: each is a table [[device]] on a [[node]]; `rookery dpm database example` writes a file with all keys";
const DEMO: &str = include_str!("demo.toml");
