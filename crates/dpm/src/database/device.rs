//! Devices and their properties, the nodes that they are on, and the ways to reach those nodes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::{NodeFaults, Script, SimulatedEvent};
use super::limits::PropertyLimits;
use crate::blocks::{Bit, ControlCommand, StatusBits};
use crate::drf::{DrfEvent, Request};
use crate::link::LinkTrust;
use crate::rad50::Rad50;
use crate::scaling::{Enumeration, Scaling};

/// Nodes and devices.
#[derive(Debug, Default)]
pub struct Database {
    pub(super) nodes: Vec<DeviceNode>,
    pub(super) devices: Vec<Arc<DeviceRecord>>,
    pub(super) names: HashMap<String, usize, ahash::RandomState>,
    pub(super) indices: HashMap<u32, usize, ahash::RandomState>,
    pub(super) scripts: Vec<Script>,
    pub(super) faults: Vec<NodeFaults>,
    pub(super) events: Vec<SimulatedEvent>,
    pub(super) records: Vec<Request>,
    pub(super) metrics: Vec<Request>,
    pub(super) names_of_this: OwnNames,
}

/// The names of this DPM besides the one that it was started with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OwnNames {
    /// Further names of its node.
    pub aliases: Vec<Rad50>,
    /// Names of loggers whose questions are answered from the readings recorded here, in upper
    /// case.
    pub loggers: Vec<String>,
    /// The request for the device that is read to learn of clock events, without an event.
    pub clock: Option<String>,
}

/// A node that devices are on: a front-end, or a network of them.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceNode {
    /// The name of the node, by which devices and clients refer to it.
    pub name: Rad50,
    /// Other names by which clients find it.
    pub aliases: Vec<Rad50>,
    /// The way to reach it.
    pub reached: Reached,
}

/// The way by which a node is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Reached {
    /// By datagrams of ACNET.
    Acnet(AcnetNode),
    /// By Channel Access, the protocol of EPICS: the node stands for the servers that are found by
    /// searches.
    ChannelAccess(ChannelSearch),
    /// By pvAccess, the newer protocol of EPICS: the node stands for such servers, too.
    PvAccess(ChannelSearch),
    /// By MQTT: the node stands for a broker.
    Mqtt(Broker),
}

/// A node of the ACNET network that front-end tasks run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcnetNode {
    /// Trunk and node number.
    pub address: u16,
    /// The address that its datagrams come from and go to.
    pub socket: SocketAddr,
    /// The protocol by which its devices are read.
    pub protocol: Protocol,
}

/// The addresses at which process variables are searched for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChannelSearch {
    /// Hosts and networks, over UDP.
    pub addresses: Vec<SocketAddr>,
    /// Name servers, over TCP.
    pub name_servers: Vec<SocketAddr>,
}

/// A broker of MQTT, and the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// The address and port of the broker.
    pub address: SocketAddr,
    /// Our user name there, if any.
    pub user: Option<String>,
    /// The file that has our password there, relative to the folder of the device file.
    pub password_file: Option<PathBuf>,
    /// Our password there, once [`Self::password_file`] is read.
    pub password: Option<BrokerPassword>,
    /// The name in the broker's certificate and the file with its authorities, if it is reached by
    /// TLS.
    pub certificate: Option<(String, PathBuf)>,
    /// The broker's name and authorities, once the file of `certificate` is read.
    pub trust: Option<Arc<LinkTrust>>,
}

/// Bytes that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerPassword(pub Vec<u8>);

impl std::fmt::Debug for BrokerPassword {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("BrokerPassword")
    }
}

impl Broker {
    /// Reads the files that the broker's keys name, which may be relative to a folder.
    ///
    /// # Errors
    /// The file that can't be read, with the reason.
    pub(super) fn read_files(&mut self, folder: &Path) -> Result<(), String> {
        let read = |file: &Path| {
            let file = folder.join(file);
            std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))
        };
        if let Some(file) = &self.password_file {
            let password = read(file)?;
            self.password = Some(BrokerPassword(password.trim_ascii_end().to_vec()));
        }
        if let Some((host, file)) = &self.certificate {
            self.trust = Some(Arc::new(LinkTrust { host: host.clone(), authorities: read(file)? }));
        }
        Ok(())
    }
}

impl DeviceNode {
    /// Returns the node's data for ACNET, if it is on that network.
    pub fn acnet(&self) -> Option<AcnetNode> {
        match self.reached {
            Reached::Acnet(node) => Some(node),
            Reached::ChannelAccess(_) | Reached::PvAccess(_) | Reached::Mqtt(_) => None,
        }
    }

    /// Returns the broker; `None` if the node is reached by another protocol.
    pub fn broker(&self) -> Option<&Broker> {
        match &self.reached {
            Reached::Mqtt(broker) => Some(broker),
            Reached::Acnet(_) | Reached::ChannelAccess(_) | Reached::PvAccess(_) => None,
        }
    }
}

/// The protocol by which a front-end is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Task `RETDAT`: events as 16 bits, no times in replies.
    Retdat,
    /// Task `GETS32`: events as text, times in replies.
    Gets32,
}

impl Protocol {
    /// Returns the name of the front-end's task.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retdat => "RETDAT",
            Self::Gets32 => "GETS32",
        }
    }
}

/// A device with its properties.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRecord {
    /// Its number.
    pub index: u32,
    /// Its name, such as `M:OUTTMP`.
    pub name: String,
    /// The description, in words.
    pub description: String,
    /// A longer name; may be empty.
    pub long_name: String,
    /// The list that its alarms belong to; may be empty.
    pub alarm_list: String,
    /// The classes of users who may set it without a role, a bit each.
    pub protection: u32,
    /// The property that is measured.
    pub reading: Option<DeviceValue>,
    /// The property that can be set.
    pub setting: Option<DeviceValue>,
    /// The basic status.
    pub status: Option<StatusProperty>,
    /// The commands.
    pub control: Option<ControlProperty>,
    /// The analog alarm block.
    pub analog: Option<AlarmProperty>,
    /// The digital alarm block.
    pub digital: Option<AlarmProperty>,
}

/// The place of a property in a front-end.
#[derive(Debug, Clone, PartialEq)]
pub struct PropertyPlace {
    /// The number of its node in [`Database::nodes`].
    pub node: usize,
    /// The address in the front-end's form: eight bytes that only the front-end understands. For a
    /// process variable they are a hash of its name.
    pub ssdn: [u8; 8],
    /// The name of the process variable, on a node that is reached by a protocol of EPICS.
    pub variable: Option<Arc<str>>,
    /// The topic, on a node that is a broker of MQTT.
    pub topic: Option<TopicPlace>,
    /// The size of the whole property, in bytes.
    pub size: u32,
    /// The number of bytes that are read if no range is named.
    pub default_size: u32,
    /// The size of one element, in bytes.
    pub element: u32,
    /// The event of readings if a request names none.
    pub event: DrfEvent,
    /// True if a part of an element may be read.
    pub unframed: bool,
}

/// The form of a value that a server sends as numbers or texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ValueShape {
    /// The most elements.
    pub elements: u32,
    /// The bytes of each: eight of a number, or those of a text.
    pub element: u32,
}

impl PropertyPlace {
    /// Returns the form of the property's value.
    pub fn shape(&self) -> ValueShape {
        ValueShape { elements: self.size / self.element.max(1), element: self.element }
    }
}

impl ValueShape {
    /// Returns whether its elements are texts.
    pub fn is_text(self) -> bool {
        self.element as usize != size_of::<f64>()
    }

    /// Returns a text as the bytes of an element.
    pub fn fill(self, text: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = text.iter().copied().take(self.element as usize).collect();
        bytes.resize(self.element as usize, 0);
        bytes
    }
}

/// The place of a property in a topic of MQTT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlace {
    /// The name of the topic, without wildcards.
    pub name: Arc<str>,
    /// The place in a message of JSON (RFC 6901); `None` if the message is the value.
    pub pointer: Option<Arc<str>>,
    /// True if the broker should retain settings for later subscribers.
    pub is_retained: bool,
}

/// A reading or setting.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceValue {
    /// The place in the front-end.
    pub place: PropertyPlace,
    /// The scaling to engineering units.
    pub scaling: Scaling,
    /// The units of the primary transform.
    pub primary_units: String,
    /// The units of the common transform.
    pub units: String,
    /// Names of numbers, if it is an enumeration.
    pub names: Enumeration,
    /// The limits of its settings; none for a reading.
    pub limits: PropertyLimits,
}

/// The basic status of a device: a word of bits in its front-end.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusProperty {
    /// The place in the front-end.
    pub place: PropertyPlace,
    /// The bits for on, ready, remote, positive and ramp.
    pub bits: StatusBits,
    /// The meaning of each bit.
    pub names: Vec<Bit>,
}

/// The control property of a device: commands that change its status.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlProperty {
    /// The place in the front-end.
    pub place: PropertyPlace,
    /// The commands that it accepts.
    pub commands: Vec<ControlCommand>,
    /// The values that may be sent, under any name.
    pub limits: PropertyLimits,
}

/// An alarm block.
#[derive(Debug, Clone, PartialEq)]
pub struct AlarmProperty {
    /// The place in the front-end.
    pub place: PropertyPlace,
    /// The text that is shown while the device is in alarm.
    pub text: String,
    /// The number of the text, if the file has one.
    pub text_id: Option<u32>,
    /// The priority of the alarm, for alarm displays; this service only passes it on.
    pub priority: u32,
    /// The address of a page about it; may be empty.
    pub url: String,
    /// The limits of its own limits' settings; empty for a digital block.
    pub limits: PropertyLimits,
}
