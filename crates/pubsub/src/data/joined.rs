//! The source attached to the service, and the knowledge of all shards about its nodes.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::source::DataSource;
use super::subscriptions::Subscriptions;

/// The source and the subscriptions that all shards share. Clones share the data.
#[derive(Clone, Default)]
pub struct Data(Arc<DataCommon>);

/// The part that is the same for all shards.
#[derive(Default)]
pub struct DataCommon {
    source: OnceLock<Arc<dyn DataSource>>,
    pub(super) subscriptions: Subscriptions,
    /// The number of open nodes, on all shards.
    pub(super) open: AtomicUsize,
}

impl std::ops::Deref for Data {
    type Target = DataCommon;

    fn deref(&self) -> &DataCommon {
        &self.0
    }
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Data").field("is_joined", &self.0.source.get().is_some()).finish_non_exhaustive()
    }
}

impl Data {
    /// Attaches a source, before the shards start. Only the first call counts.
    pub fn join(&self, source: Arc<dyn DataSource>) {
        let _ = self.0.source.set(source);
    }

    pub(super) fn source(&self) -> Option<&Arc<dyn DataSource>> {
        self.0.source.get()
    }
}
