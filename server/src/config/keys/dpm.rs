//! The keys of `[dpm]`.

use std::net::SocketAddr;

use rookery_dpm::drf::{Device, Request};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::service::read_passed_task;
use rookery_jid::prepare;

use super::super::Alarms;
use super::super::error::WrongValue;
use super::super::given::GivenValue;
use super::{ConfigKey, ShownValue, address, bytes, file, list, path, plain, put, quoted_value};

/// The comment at the head of the table in the example.
pub const ABOUT: &str = "Readings of devices: each device is polled once for all clients (`rookery dpm` serves readings without\n\
                         chat). A change needs a restart, but a reload also reads the device database.";

/// All keys of the table, in the order of the example.
pub const KEYS: &[ConfigKey] = &[
    ConfigKey {
        table: TABLE,
        name: "enabled",
        doc: "true serves readings.",
        set: |config, given| put(&mut config.dpm.enabled, given.switch()),
        show: |config| plain(config.dpm.enabled),
    },
    ConfigKey {
        table: TABLE,
        name: "database",
        doc: "The device database, a file of front-ends and devices; relative to this file.",
        set: |config, given| put(&mut config.dpm.database, file(given)),
        show: |config| path(&config.dpm.database, "\"/etc/rookery/devices.toml\""),
    },
    ConfigKey {
        table: TABLE,
        name: "demo",
        doc: "true simulates the front-ends of the database; without `database`, those of a small built-in one.",
        set: |config, given| put(&mut config.dpm.demo, given.switch()),
        show: |config| plain(config.dpm.demo),
    },
    ConfigKey {
        table: TABLE,
        name: "listen",
        doc: "One or more addresses for clients: DPM over TCP, and the ACNET client protocol.",
        set: |config, given| put(&mut config.dpm.listen, given.one_or_more(address)),
        show: |config| list(&config.dpm.listen),
    },
    ConfigKey {
        table: TABLE,
        name: "front_ends",
        doc: "The address for talking to front-ends over UDP; the default with `demo` is any free port on loopback.",
        set: |config, given| put(&mut config.dpm.front_ends, address(*given).map(Some)),
        show: |config| match config.dpm.front_ends {
            Some(address) => quoted_value(&address.to_string()),
            None => ShownValue::Unset("\"0.0.0.0:6801\""),
        },
    },
    ConfigKey {
        table: TABLE,
        name: "multicast",
        doc: "The multicast group of requests to all nodes, by which clients find this DPM. @ADDRESS after it is\n\
              this machine's address on that network.",
        set: |config, given| {
            let group =
                given.parse_by("a group such as \"239.128.4.1\" or \"239.128.4.1@10.0.0.5\"", |text| text.parse().ok());
            put(&mut config.dpm.multicast, group.map(Some))
        },
        show: |config| match config.dpm.multicast {
            Some(group) => quoted_value(&group.to_string()),
            None => ShownValue::Unset("\"239.128.4.1\""),
        },
    },
    ConfigKey {
        table: TABLE,
        name: "acnetd",
        doc: "The address of an acnetd on this machine, as whose task DPM uses the network. It takes the place of\n\
              `front_ends`, `multicast`, `name` and `node`; its own clients have port 6802, so `listen` needs another.",
        set: |config, given| {
            let local = |text: &str| text.parse().ok().filter(|at: &SocketAddr| at.is_ipv4() && at.ip().is_loopback());
            let acnetd = given.parse_by("an address of this machine such as \"127.0.0.1:6802\"", local);
            put(&mut config.dpm.acnetd, acnetd.map(Some))
        },
        show: |config| match config.dpm.acnetd {
            Some(address) => quoted_value(&address.to_string()),
            None => ShownValue::Unset("\"127.0.0.1:6802\""),
        },
    },
    ConfigKey {
        table: TABLE,
        name: "name",
        doc: "The name of this node in the network of front-ends.",
        set: |config, given| {
            let name = given.parse_by("up to six of A-Z, 0-9, $, . and %", |text| Rad50::parse(text).ok());
            put(&mut config.dpm.name, name)
        },
        show: |config| quoted_value(&config.dpm.name.to_string()),
    },
    ConfigKey {
        table: TABLE,
        name: "node",
        doc: "Its trunk and node number, four hexadecimal digits.",
        set: |config, given| {
            let node = given.parse_by("four hexadecimal digits such as \"0ad6\"", |text| {
                u16::from_str_radix(text, 16).ok().filter(|_| text.len() == 4)
            });
            put(&mut config.dpm.node, node)
        },
        show: |config| quoted_value(&format!("{:04x}", config.dpm.node)),
    },
    ConfigKey {
        table: TABLE,
        name: "answer_within_ms",
        doc: "Milliseconds after which clients that want a single reading are told that a front-end is silent;\n\
              clients give up after 5000.",
        set: |config, given| put(&mut config.dpm.answer_within, given.number(500..=60_000)),
        show: |config| plain(config.dpm.answer_within),
    },
    ConfigKey {
        table: TABLE,
        name: "pass_on",
        doc: "Tasks of front-ends that clients of the ACNET protocol may reach through this node. None may set\n\
              devices.",
        set: |config, given| put(&mut config.dpm.pass_on, given.list(task)),
        show: |config| list(&config.dpm.pass_on),
    },
    ConfigKey {
        table: TABLE,
        name: "history_days",
        doc: "Days to keep recorded readings (the device database says which), in readings.db in the data folder.",
        set: |config, given| put(&mut config.dpm.history_days, given.number(1..=36_500)),
        show: |config| plain(config.dpm.history_days),
    },
    ConfigKey {
        table: TABLE,
        name: "history_bytes",
        doc: "Bytes that they may use; the oldest are deleted first.",
        set: |config, given| put(&mut config.dpm.history_bytes, given.bytes(1 << 20..=1 << 40)),
        show: |config| bytes(config.dpm.history_bytes),
    },
    ConfigKey {
        table: TABLE,
        name: "grpc",
        doc: "Address and port for gRPC (services.daq.DAQ). Without `grpc_certificate` it speaks no TLS: use a loopback address, or a proxy.",
        set: |config, given| put(&mut config.dpm.grpc, address(*given).map(Some)),
        show: |config| match config.dpm.grpc {
            Some(address) => quoted_value(&address.to_string()),
            None => ShownValue::Unset("\"127.0.0.1:50051\""),
        },
    },
    ConfigKey {
        table: TABLE,
        name: "grpc_certificate",
        doc: "The certificates of the gRPC port, PEM, its own first: with them the port accepts only TLS. Read again with this file.",
        set: |config, given| put(&mut config.dpm.grpc_certificate, file(given)),
        show: |config| path(&config.dpm.grpc_certificate, "\"/etc/rookery/dpm.pem\""),
    },
    ConfigKey {
        table: TABLE,
        name: "grpc_key",
        doc: "The private key of the first of them, PEM.",
        set: |config, given| put(&mut config.dpm.grpc_key, file(given)),
        show: |config| path(&config.dpm.grpc_key, "\"/etc/rookery/dpm.key\""),
    },
    ConfigKey {
        table: TABLE,
        name: "tokens",
        doc: "The keys of an issuer of tokens (a JWK set): with a token, clients of gRPC can prove who they are and set devices, over TLS\n\
              or from this machine. Read again with this file.",
        set: |config, given| put(&mut config.dpm.tokens, file(given)),
        show: |config| path(&config.dpm.tokens, "\"/etc/rookery/issuer.json\""),
    },
    ConfigKey {
        table: TABLE,
        name: "token_issuer",
        doc: "The issuer, as tokens name it (`iss`).",
        set: |config, given| put(&mut config.dpm.token_issuer, name(given)),
        show: |config| name_value(&config.dpm.token_issuer, "\"https://sso.example.org/realms/controls\""),
    },
    ConfigKey {
        table: TABLE,
        name: "token_audience",
        doc: "The audience for which tokens must be made (`aud`); any if this is missing.",
        set: |config, given| put(&mut config.dpm.token_audience, name(given)),
        show: |config| name_value(&config.dpm.token_audience, "\"rookery-dpm\""),
    },
    ConfigKey {
        table: TABLE,
        name: "token_realm",
        doc: "The realm of the principals that tokens name, so that they are those of Kerberos; the issuer if this is missing.",
        set: |config, given| put(&mut config.dpm.token_realm, name(given)),
        show: |config| name_value(&config.dpm.token_realm, "\"EXAMPLE.ORG\""),
    },
    ConfigKey {
        table: TABLE,
        name: "channel_access",
        doc: "Address and port, TCP and UDP, at which EPICS clients read devices by Channel Access. Anyone who can reach it may read.",
        set: |config, given| put(&mut config.dpm.channel_access, address(*given).map(Some)),
        show: |config| match config.dpm.channel_access {
            Some(address) => quoted_value(&address.to_string()),
            None => ShownValue::Unset("\"0.0.0.0:5064\""),
        },
    },
    ConfigKey {
        table: TABLE,
        name: "pv_access",
        doc: "Address and port, TCP and UDP, at which EPICS clients read devices by pvAccess. Anyone who can reach it may read.",
        set: |config, given| put(&mut config.dpm.pv_access, address(*given).map(Some)),
        show: |config| match config.dpm.pv_access {
            Some(address) => quoted_value(&address.to_string()),
            None => ShownValue::Unset("\"0.0.0.0:5076\""),
        },
    },
    ConfigKey {
        table: TABLE,
        name: "keytab",
        doc: "The key of this service in Kerberos, with which clients authenticate to set devices; without it,\n\
              nothing can be set.",
        set: |config, given| put(&mut config.dpm.keytab, file(given)),
        show: |config| path(&config.dpm.keytab, "\"/etc/rookery/dpm.keytab\""),
    },
    ConfigKey {
        table: TABLE,
        name: "principal",
        doc: "Its name there.",
        set: |config, given| {
            let name = given.parse_by("a name such as \"daeset/dpm.example.org@EXAMPLE.ORG\"", |text| {
                (text.contains('/') && text.is_ascii()).then(|| Some(text.to_owned()))
            });
            put(&mut config.dpm.principal, name)
        },
        show: |config| match &config.dpm.principal {
            Some(name) => quoted_value(name),
            None => ShownValue::Unset("\"daeset/dpm.example.org@EXAMPLE.ORG\""),
        },
    },
    ConfigKey {
        table: TABLE,
        name: "roles",
        doc: "The file that says who may set which devices; a reload reads it again.",
        set: |config, given| put(&mut config.dpm.roles, file(given)),
        show: |config| path(&config.dpm.roles, "\"/etc/rookery/roles.toml\""),
    },
    ConfigKey {
        table: TABLE,
        name: "audit",
        doc: "The log of attempts to set devices, one line each.",
        set: |config, given| put(&mut config.dpm.audit, file(given)),
        show: |config| path(&config.dpm.audit, "\"/var/log/rookery/settings.log\""),
    },
    ConfigKey {
        table: TABLE,
        name: "alarms",
        doc: "Rooms to notify when a device goes into alarm or recovers. Needs [modules.data].",
        set: |config, given| put(&mut config.dpm.alarms, given.list(alarms)),
        show: |config| match config.dpm.alarms.as_slice() {
            [] => ShownValue::Unset("[{ room = \"operators@conference.example.org\", devices = [\"M:OUTTMP\"] }]"),
            all => ShownValue::Value(format!("[{}]", all.iter().map(write_alarms).collect::<Vec<_>>().join(", "))),
        },
    },
];

fn alarms(given: GivenValue<'_>) -> Result<Alarms, WrongValue> {
    let [to, devices] = given.fields(["room", "devices"])?;
    let room = to.parse_by("the address of a room such as \"operators@conference.example.org\"", |text| {
        let jid = prepare(text).ok()?.as_ref().to_jid();
        (jid.as_ref().is_bare() && jid.local().is_some()).then_some(jid)
    })?;
    let devices =
        devices.list(|device| device.parse_by("the name of a device such as \"M:OUTTMP\"", name_of_device))?;
    Ok(Alarms { room, devices })
}

/// Reads a name that isn't empty.
fn name(given: &GivenValue<'_>) -> Result<Option<String>, WrongValue> {
    given.parse_by("a name", |text| (!text.trim().is_empty()).then(|| Some(text.to_owned())))
}

fn name_value(name: &Option<String>, example: &'static str) -> ShownValue {
    name.as_ref().map_or(ShownValue::Unset(example), |name| quoted_value(name))
}

fn task(given: GivenValue<'_>) -> Result<Rad50, WrongValue> {
    let name = given.text()?;
    read_passed_task(name).map_err(|what| given.wrong(format!("{name:?} is not {what}")))
}

/// Returns a device name without further parts, in upper case.
fn name_of_device(text: &str) -> Option<String> {
    match Request::parse(text).ok()?.device {
        Device::Name(name) if name.eq_ignore_ascii_case(text) => Some(name),
        _ => None,
    }
}

fn write_alarms(alarms: &Alarms) -> String {
    let devices: Vec<_> = alarms.devices.iter().map(super::quote).collect();
    format!("{{ room = {}, devices = [{}] }}", super::quote(alarms.room.as_str()), devices.join(", "))
}

const TABLE: &str = "dpm";

/// The address at which clients connect, unless the operator names another.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 6802);
