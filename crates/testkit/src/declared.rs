//! The check that a module declares every document: a test that makes the server write another one
//! fails, since no export would contain it.

use std::sync::Arc;

use rookery_hub::DocumentSpec;
use rookery_jid::{Jid, JidRef};
use rookery_store::{DocumentRoom, Documents, DocumentsPut, Pending, StoredDocument};

/// A store of documents that refuses names which no module declares.
pub(crate) struct Declared {
    documents: Arc<dyn Documents>,
    specs: Vec<DocumentSpec>,
}

impl Declared {
    pub(crate) fn new(documents: Arc<dyn Documents>, specs: &[DocumentSpec]) -> Self {
        Self { documents, specs: specs.to_vec() }
    }

    fn check(&self, name: &str) {
        assert!(
            self.specs.iter().any(|spec| spec.name.is(name)),
            "no module declares a document named {name:?} (Hooks::document, Module::documents)"
        );
    }
}

impl Documents for Declared {
    fn get(&self, owner: JidRef<'_>, name: &str) -> Pending<Option<Vec<u8>>> {
        self.documents.get(owner, name)
    }

    fn put(&self, owner: JidRef<'_>, name: &str, bytes: Option<Vec<u8>>) -> Pending<()> {
        self.check(name);
        self.documents.put(owner, name, bytes)
    }

    fn put_within(
        &self,
        owner: JidRef<'_>,
        prefix: &str,
        documents: Vec<StoredDocument>,
        room: DocumentRoom,
    ) -> Pending<DocumentsPut> {
        documents.iter().for_each(|document| self.check(&document.name));
        self.documents.put_within(owner, prefix, documents, room)
    }

    fn starting(&self, owner: JidRef<'_>, prefix: &str) -> Pending<Vec<StoredDocument>> {
        self.documents.starting(owner, prefix)
    }

    fn of(&self, owners: Vec<Jid>, name: &str) -> Pending<Vec<(Jid, Vec<u8>)>> {
        self.documents.of(owners, name)
    }
}
