//! The values of `[dpm]`: readings of devices, served by the same process as the chat.
//!
//! Unset values are those of `rookery dpm`, so that both behave alike.

use std::net::SocketAddr;
use std::path::PathBuf;

use rookery_dpm::driver::MulticastGroup;
use rookery_dpm::rad50::Rad50;
use rookery_jid::Jid;

use super::keys;

/// Readings of devices, served by this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpmConfig {
    /// True if they are served.
    pub enabled: bool,
    /// The file of nodes and devices.
    pub database: Option<PathBuf>,
    /// True if a process of our own simulates the front-ends.
    pub demo: bool,
    /// The addresses for clients, TCP.
    pub listen: Vec<SocketAddr>,
    /// The address for front-ends, UDP.
    pub front_ends: Option<SocketAddr>,
    /// The name of our node.
    pub name: Rad50,
    /// Its trunk and node number.
    pub node: u16,
    /// The milliseconds after which readers of single requests get the status that a front-end is
    /// silent.
    pub answer_within: u64,
    /// Tasks of front-ends that clients of the ACNET protocol may ask.
    pub pass_on: Vec<Rad50>,
    /// The days for which recorded readings are kept.
    pub history_days: u64,
    /// The bytes that recorded readings may take.
    pub history_bytes: usize,
    /// The address at which gRPC is served, if there is one.
    pub grpc: Option<SocketAddr>,
    /// The address at which clients of EPICS read devices, TCP and UDP, if there is one.
    pub channel_access: Option<SocketAddr>,
    /// The address at which they read devices by pvAccess, TCP and UDP, if there is one.
    pub pv_access: Option<SocketAddr>,
    /// The group that receives requests to all nodes, if it is joined.
    pub multicast: Option<MulticastGroup>,
    /// The address of an acnetd on this machine, by which the network is used, if there is one.
    pub acnetd: Option<SocketAddr>,
    /// The certificates of the gRPC port, its own first; with them it speaks TLS only.
    pub grpc_certificate: Option<PathBuf>,
    /// The key of the first of them.
    pub grpc_key: Option<PathBuf>,
    /// The keys of the issuer of tokens; with a token, clients of gRPC can prove who they are and
    /// set devices.
    pub tokens: Option<PathBuf>,
    /// The issuer, as tokens name it.
    pub token_issuer: Option<String>,
    /// The audience for which tokens must be made; `None` if tokens for any audience are accepted.
    pub token_audience: Option<String>,
    /// The realm of the principals that tokens name; `None` for the name of the issuer.
    pub token_realm: Option<String>,
    /// The key of the service in Kerberos; with its name, clients can prove who they are and set
    /// devices.
    pub keytab: Option<PathBuf>,
    /// The name of the service there.
    pub principal: Option<String>,
    /// The file of roles, which defines who may set which devices.
    pub roles: Option<PathBuf>,
    /// The log of settings.
    pub audit: Option<PathBuf>,
    /// The rooms that get messages about alarms.
    pub alarms: Vec<Alarms>,
}

impl Default for DpmConfig {
    fn default() -> Self {
        let options = rookery_dpm::service::ServiceOptions::default();
        Self {
            enabled: false,
            database: None,
            demo: false,
            listen: vec![keys::DPM_LISTEN],
            front_ends: None,
            name: options.name,
            node: options.address,
            answer_within: options.once,
            pass_on: rookery_dpm::service::PASSED_ON.to_vec(),
            history_days: 30,
            history_bytes: 1 << 30,
            grpc: None,
            channel_access: None,
            pv_access: None,
            multicast: None,
            acnetd: None,
            grpc_certificate: None,
            grpc_key: None,
            tokens: None,
            token_issuer: None,
            token_audience: None,
            token_realm: None,
            keytab: None,
            principal: None,
            roles: None,
            audit: None,
            alarms: Vec::new(),
        }
    }
}

/// A room that gets messages about the alarms of some devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarms {
    /// Its bare JID.
    pub room: Jid,
    /// Their names, in upper case.
    pub devices: Vec<String>,
}
