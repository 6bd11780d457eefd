//! Sockets, clocks and threads around the service.
//!
//! All decisions are made in [`service`](crate::service) and [`simulator`](crate::simulator); this
//! module only moves bytes and datagrams. A turn of the serving thread handles all ready sockets,
//! then sends each datagram, and writes once to some of the clients with output. The others are
//! written to by other threads, or in later turns, and get what has come until then as well: so
//! datagrams are read before thousands of writes are done.

mod apply;
mod ask;
mod clock;
mod credentials;
mod daemon;
mod datagram;
mod feed;
mod gateway;
mod grpc;
mod history;
mod links;
mod listen;
mod methods;
mod multicast;
mod overview;
mod pipe;
mod put;
mod reception;
mod serve;
mod set;
mod simulate;
mod stream;
mod top;
mod wake;
mod writers;

pub use apply::apply;
pub use ask::{Until, ask};
pub use credentials::{Certificate, CertificateKeys, CredentialFiles, Keyring};
pub use daemon::{DaemonBridge, RunningBridge};
pub use feed::{DeviceFeed, DeviceFeeds, FeedNews};
pub(crate) use gateway::{MOST_CLIENTS, MOST_CLIENTS_OF_ADDRESS, MOST_OUTPUT, STUCK};
pub(crate) use links::MOST_UNSENT;
pub use listen::raise_descriptors;
pub(crate) use methods::{LARGEST_SETTINGS, UNPROVED_CALLS};
pub use multicast::MulticastGroup;
pub use overview::OverviewFeed;
pub use put::{PutService, put};
pub use serve::{DpmServer, NotOpened, ServeSettings};
pub use simulate::SimulatorFront;
pub use top::show as show_top;
pub use wake::Wake;
