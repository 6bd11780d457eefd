//! Rows of nodes: front-ends of ACNET, networks of EPICS, brokers of MQTT.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::mistake::{At, Wrong};
use crate::database::{AcnetNode, Broker, ChannelSearch, DeviceNode, Protocol, Reached};
use crate::rad50::Rad50;

/// A node, as in the file.
#[derive(Debug, Default)]
pub(super) struct NodeRow {
    pub(super) name: At<String>,
    pub(super) address: Option<At<String>>,
    pub(super) socket: Option<At<String>>,
    pub(super) protocol: At<String>,
    pub(super) search: Option<At<Vec<At<String>>>>,
    pub(super) name_servers: Option<At<Vec<At<String>>>>,
    pub(super) broker: Option<At<String>>,
    pub(super) user: Option<At<String>>,
    pub(super) password_file: Option<At<String>>,
    pub(super) authority: Option<At<String>>,
    pub(super) host: Option<At<String>>,
    pub(super) aliases: At<Vec<At<String>>>,
}

impl NodeRow {
    pub(super) fn read(self) -> Result<DeviceNode, Wrong> {
        let name = rad50(&self.name, "name")?;
        let reached = match self.protocol.value.as_str() {
            "RETDAT" => Reached::Acnet(self.acnet(Protocol::Retdat)?),
            "GETS32" => Reached::Acnet(self.acnet(Protocol::Gets32)?),
            "CA" => Reached::ChannelAccess(self.search()?),
            "PVA" => Reached::PvAccess(self.search()?),
            "MQTT" => Reached::Mqtt(self.broker()?),
            _ => return Err(self.protocol.wrong("protocol", "RETDAT, GETS32, CA, PVA or MQTT")),
        };
        let aliases = self.aliases.value.iter().map(|alias| rad50(alias, "aliases")).collect::<Result<_, _>>()?;
        Ok(DeviceNode { name, aliases, reached })
    }

    fn acnet(&self, protocol: Protocol) -> Result<AcnetNode, Wrong> {
        self.refuse_search()?;
        self.refuse_broker()?;
        let missing =
            |name| Wrong::new(name, format!("is missing: a node with protocol {} needs one", self.protocol.value));
        let address = self.address.as_ref().ok_or_else(|| missing("address"))?;
        let number = u16::from_str_radix(&address.value, 16).ok().filter(|_| address.value.len() == 4);
        let number = number.ok_or_else(|| address.wrong("address", "four hexadecimal digits: trunk and node"))?;
        let socket = self.socket.as_ref().ok_or_else(|| missing("socket"))?;
        Ok(AcnetNode { address: number, socket: self::socket(socket, "socket")?, protocol })
    }

    fn search(&self) -> Result<ChannelSearch, Wrong> {
        self.refuse_acnet()?;
        self.refuse_broker()?;
        let all = |name, row: &Option<At<Vec<At<String>>>>| {
            let texts = row.iter().flat_map(|row| &row.value);
            texts
                .map(|text| socket(text, name).and_then(|socket| of_ipv4(text, name, socket)))
                .collect::<Result<Vec<_>, Wrong>>()
        };
        let addresses = all("search", &self.search)?;
        let name_servers = all("name_servers", &self.name_servers)?;
        if addresses.is_empty() && name_servers.is_empty() {
            let what = "is missing: where variables are searched for, such as [\"10.0.0.255:5064\"]; or name_servers";
            return Err(self
                .search
                .as_ref()
                .map_or_else(|| Wrong::new("search", what), |row| row.wrong("search", what)));
        }
        if let Some(row) = [&self.search, &self.name_servers].into_iter().flatten().find(|row| row.value.len() > PLACES)
        {
            return Err(row.wrong("search", format!("at most {PLACES} addresses")));
        }
        Ok(ChannelSearch { addresses, name_servers })
    }

    fn broker(&self) -> Result<Broker, Wrong> {
        self.refuse_acnet()?;
        self.refuse_search()?;
        let what = "is missing: the address of the broker, such as \"10.0.0.9:1883\"";
        let address = self.broker.as_ref().ok_or_else(|| Wrong::new("broker", what))?;
        let fits = |row: &At<String>, name| match row.value.len() {
            1..=LONGEST_WORD => Ok(()),
            _ => Err(row.wrong(name, format!("from 1 to {LONGEST_WORD} bytes"))),
        };
        for (name, row) in self.of_broker() {
            row.as_ref().map_or(Ok(()), |row| fits(row, name))?;
        }
        if let (None, Some(password)) = (&self.user, &self.password_file) {
            return Err(password.wrong("password_file", "a password needs a user, too"));
        }
        let certificate = match (&self.host, &self.authority) {
            (Some(host), Some(authority)) => Some((host.value.clone(), PathBuf::from(&authority.value))),
            (None, None) => None,
            (Some(row), None) => return Err(row.wrong("host", "is only for TLS, which needs authority, too")),
            (None, Some(row)) => return Err(row.wrong("authority", "needs host, too: the name in the certificate")),
        };
        Ok(Broker {
            address: socket(address, "broker")?,
            user: self.user.as_ref().map(|user| user.value.clone()),
            password_file: self.password_file.as_ref().map(|file| PathBuf::from(&file.value)),
            password: None,
            certificate,
            trust: None,
        })
    }

    fn of_broker(&self) -> [(&'static str, &Option<At<String>>); 4] {
        [
            ("user", &self.user),
            ("password_file", &self.password_file),
            ("authority", &self.authority),
            ("host", &self.host),
        ]
    }

    fn refuse_acnet(&self) -> Result<(), Wrong> {
        for (name, row) in [("address", &self.address), ("socket", &self.socket)] {
            if let Some(row) = row {
                return Err(row.wrong(name, "is for nodes with protocol RETDAT or GETS32"));
            }
        }
        Ok(())
    }

    fn refuse_search(&self) -> Result<(), Wrong> {
        for (name, row) in [("search", &self.search), ("name_servers", &self.name_servers)] {
            if let Some(row) = row {
                return Err(row.wrong(name, "is for nodes with protocol CA or PVA"));
            }
        }
        Ok(())
    }

    fn refuse_broker(&self) -> Result<(), Wrong> {
        for (name, row) in [("broker", &self.broker)].into_iter().chain(self.of_broker()) {
            if let Some(row) = row {
                return Err(row.wrong(name, "is for nodes with protocol MQTT"));
            }
        }
        Ok(())
    }
}

/// Returns a name of six letters.
pub(super) fn rad50(name: &At<String>, field: &str) -> Result<Rad50, Wrong> {
    let packed = Rad50::parse(&name.value).ok().filter(|packed| *packed != Rad50::default());
    packed.ok_or_else(|| name.wrong(field, "a name of up to six of A-Z, 0-9, $, . and %"))
}

/// Reads a socket address with its port.
fn socket(text: &At<String>, field: &str) -> Result<SocketAddr, Wrong> {
    text.value.parse().map_err(|_| text.wrong(field, "an address with its port, such as 10.0.0.5:6801"))
}

/// Checks that searches can use an address: answers of Channel Access have four bytes for one, and
/// the socket for searches is one of IPv4.
fn of_ipv4(text: &At<String>, field: &str, socket: SocketAddr) -> Result<SocketAddr, Wrong> {
    if socket.is_ipv4() { Ok(socket) } else { Err(text.wrong(field, "an address of IPv4")) }
}

/// The most addresses of a node at which variables are searched for.
const PLACES: usize = 16;
/// The longest name of a user, host or file, in bytes.
const LONGEST_WORD: usize = 1024;
