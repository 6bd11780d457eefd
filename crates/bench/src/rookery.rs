//! rookery
