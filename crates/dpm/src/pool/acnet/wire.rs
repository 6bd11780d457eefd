//! Requests of the pool as bytes.

use super::group::RequestSlot;
use super::state::Acnet;
use crate::acnet::{AcnetHeader, DeviceItem, PacketKind, gets32, packet, retdat};
use crate::database::{AcnetNode, FrontRequest, Protocol};
use crate::status::Status;
use crate::when::When;

impl Acnet {
    /// Sends a request with these parts to a node.
    pub(super) fn send(&mut self, node: usize, id: u16, when: &When, slots: &[RequestSlot]) {
        let Some(to) = self.node(node) else { return };
        let items: Vec<DeviceItem> = slots.iter().map(|slot| item(&slot.wanted)).collect();
        self.counters.requests += 1;
        self.counters.devices_requested += items.len() as u64;
        let kind = if *when == When::Once { PacketKind::Request } else { PacketKind::MultipleRequest };
        let datagram = header(to, self.address, kind, id).datagram(&body(to, when, items));
        self.out.push((node, datagram));
    }

    /// Tells a node that a request needs no more replies.
    pub(super) fn cancel(&mut self, node: usize, id: u16) {
        if let Some(to) = self.node(node) {
            self.out.push((node, header(to, self.address, PacketKind::Cancel, id).datagram(&[])));
        }
    }
}

/// Returns the head of a packet to a node.
fn header(node: AcnetNode, address: u16, kind: PacketKind, id: u16) -> AcnetHeader {
    let task = match node.protocol {
        Protocol::Retdat => retdat::TASK,
        Protocol::Gets32 => gets32::TASK,
    };
    AcnetHeader {
        kind,
        status: Status::SUCCESS,
        server: node.address,
        client: address,
        task,
        task_id: TASK_ID,
        message: id,
    }
}

fn body(node: AcnetNode, when: &When, items: Vec<DeviceItem>) -> Vec<u8> {
    match node.protocol {
        Protocol::Retdat => retdat::RetdatRequest { ftd: when.ftd().unwrap_or_default(), items }.encode(),
        Protocol::Gets32 => gets32::Gets32Request {
            node: node.address,
            repetitive: *when != When::Once,
            ftd: when.ftd().unwrap_or(0xffff),
            event: when.text(),
            items,
        }
        .encode(),
    }
}

pub(super) fn item(wanted: &FrontRequest) -> DeviceItem {
    DeviceItem {
        device: wanted.device,
        property: wanted.property,
        ssdn: wanted.ssdn,
        length: wanted.length,
        offset: wanted.offset,
    }
}

/// Returns the bytes of a request and of its reply before any device.
pub(super) fn sizes(node: AcnetNode) -> (usize, usize) {
    match node.protocol {
        Protocol::Retdat => (packet::SIZE + retdat::HEAD, packet::SIZE),
        Protocol::Gets32 => (packet::SIZE + gets32::HEAD, packet::SIZE + gets32::REPLY_HEAD),
    }
}

/// Returns the bytes of a device in a request.
pub(super) fn item_size(node: AcnetNode) -> usize {
    match node.protocol {
        Protocol::Retdat => retdat::ITEM,
        Protocol::Gets32 => gets32::ITEM,
    }
}

/// Our task's number on our node.
pub(super) const TASK_ID: u16 = 1;
