//! Messages and services that `proto/generate` makes from the interface's files in `proto`.
//!
//! They are kept in the repository, so that only those who change the interface need the compiler
//! of protocol buffers.

#![allow(missing_docs, clippy::all, rustdoc::all)]

/// Messages that several interfaces share.
pub mod common {
    pub mod device {
        include!("generated/common.device.rs");
    }
    pub mod status {
        include!("generated/common.status.rs");
    }
}

/// The interfaces.
pub mod services {
    pub mod daq {
        include!("generated/services.daq.rs");
    }
    pub mod devdb {
        include!("generated/services.devdb.rs");
    }
}

/// The description of all interfaces, for reflection.
pub const DESCRIPTION: &[u8] = include_bytes!("generated/description.bin");
