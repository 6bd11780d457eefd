//! Takes a connection out of the library that reads its requests: it becomes a WebSocket, or waits
//! for a response of BOSH.

use std::future::pending;
use std::sync::{Arc, Mutex};

use hyper::Response;
use rookery_base::lock::lock;

use crate::bosh::HeldRequest;
use crate::proxy::Origin;
use crate::reply::Body;
use crate::site::PageSite;

/// The way out of the library, by which a request can take its connection.
#[derive(Clone, Default)]
pub(crate) struct Exit(Arc<Mutex<Option<Leave>>>);

/// The use that a connection has after it has left the library.
pub(crate) enum Leave {
    /// The request waits for its response.
    Held(Box<HeldRequest>),
    /// It becomes a WebSocket once the library's response has left.
    WebSocket(Origin, PageSite),
}

impl Exit {
    /// Takes the connection away with a waiting request. The library waits for this future, which
    /// never completes.
    pub async fn wait(&self, held: Box<HeldRequest>) -> Response<Body> {
        self.leave(Leave::Held(held));
        pending().await
    }

    /// Takes the connection away for this use.
    pub fn leave(&self, leave: Leave) {
        *lock(&self.0) = Some(leave);
    }

    /// Returns whether the connection has left with a waiting request.
    pub fn holds(&self) -> bool {
        matches!(*lock(&self.0), Some(Leave::Held(_)))
    }

    pub fn take(&self) -> Option<Leave> {
        lock(&self.0).take()
    }
}
