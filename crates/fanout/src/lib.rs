//! Packet, audience and outbox: a message with many recipients is built once.
