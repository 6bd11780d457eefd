//! Virtual network and clock, scripted clients.
