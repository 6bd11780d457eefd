//! Checks `[dpm]`: its ports, and the files that it names.

use std::net::{TcpListener, UdpSocket};

use super::{CheckReport, PORTS, port};
use crate::config::ServerConfig;
use crate::dpm;

/// Warns of readings that are served in the clear to others than this machine.
pub fn look(report: &mut CheckReport, config: &ServerConfig) {
    let dpm = &config.dpm;
    let exposed = dpm.grpc.filter(|address| dpm.enabled && !address.ip().to_canonical().is_loopback());
    if let Some(address) = exposed.filter(|_| dpm.grpc_certificate.is_none()) {
        report.warn(
            DEVICES,
            format!(
                "grpc in [dpm] serves readings on {address} in the clear: give it a `grpc_certificate`, or a loopback \
                 address behind a proxy"
            ),
        );
    }
}

/// Reports on the addresses that readings are served at.
pub fn ports(report: &mut CheckReport, config: &ServerConfig) {
    if !config.dpm.enabled {
        return;
    }
    let front_ends = dpm::front_ends(&config.dpm);
    for address in &config.dpm.listen {
        match TcpListener::bind(address) {
            Ok(_) => report.note(PORTS, format!("{address} is free (DPM)")),
            Err(error) => port(report, &error, dpm::explain_bind(*address, "listen", &error)),
        }
    }
    match UdpSocket::bind(front_ends) {
        Ok(_) => report.note(PORTS, format!("{front_ends} is free (front-ends)")),
        Err(error) => port(report, &error, dpm::explain_bind(front_ends, "front_ends", &error)),
    }
    match config.dpm.grpc.map(|grpc| (grpc, TcpListener::bind(grpc))) {
        Some((grpc, Err(error))) => port(report, &error, dpm::explain_bind(grpc, "grpc", &error)),
        Some((grpc, Ok(_))) => report.note(PORTS, format!("{grpc} (gRPC) is free")),
        None => {}
    }
    let both = |address| TcpListener::bind(address).and_then(|_| UdpSocket::bind(address));
    match config.dpm.channel_access.map(|address| (address, both(address))) {
        Some((address, Err(error))) => port(report, &error, dpm::explain_bind(address, "channel_access", &error)),
        Some((address, Ok(_))) => report.note(PORTS, format!("{address} (Channel Access) is free")),
        None => {}
    }
    match config.dpm.pv_access.map(|address| (address, both(address))) {
        Some((address, Err(error))) => port(report, &error, dpm::explain_bind(address, "pv_access", &error)),
        Some((address, Ok(_))) => report.note(PORTS, format!("{address} (pvAccess) is free")),
        None => {}
    }
}

/// Reports on the device database, and on the other files of `[dpm]`.
pub fn devices(report: &mut CheckReport, config: &ServerConfig) {
    if !config.dpm.enabled {
        return;
    }
    match dpm::database(&config.dpm) {
        Ok(database) => {
            let (devices, nodes) = (database.devices().len(), database.nodes().len());
            report.note(DEVICES, format!("devices: {devices}, front-ends: {nodes}"));
        }
        Err(error) => report.fault(DEVICES, error.to_string()),
    }
    if let Err(error) = dpm::try_files(&config.dpm) {
        report.fault(DEVICES, error.to_string());
    }
}

const DEVICES: &str = "devices";
