//! Messages and services as `proto/generate` makes them of the interface's files in `proto`.
//!
//! They are kept in the repository, so that the compiler of protocol buffers is built by those who
//! change the interface only.

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

/// The description of all of it, for reflection.
pub const DESCRIPTION: &[u8] = include_bytes!("generated/description.bin");
