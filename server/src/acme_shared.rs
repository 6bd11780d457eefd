//! Certificates of a cluster: one node obtains them from the authority, the others from the
//! database.
//!
//! # Invariants
//!
//! * At most one node uses the authority at a time; its turn expires if it dies.
//! * A node saves the certificate that another one has obtained, and uses it like its own: the
//!   newer one wins.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rookery_store::meta::{Added, Meta};
use rookery_stream::tls::certificate::inspect;

/// The certificates that nodes share.
#[derive(Clone)]
pub struct SharedCertificates {
    meta: Arc<dyn Meta>,
    /// The name of this node.
    node: String,
}

impl SharedCertificates {
    /// Returns the certificates that are shared by the nodes on this database.
    pub fn new(meta: Arc<dyn Meta>, node: &str) -> Self {
        Self { meta, node: node.to_owned() }
    }

    /// Takes the turn to use the authority; `now_s` is the time in seconds since 1970. Returns
    /// `false` if another node has it, or the database is unavailable.
    pub async fn take_turn(&self, now_s: i64) -> bool {
        let turn = format!("{} {}", now_s + TURN_S, self.node).into_bytes();
        let Ok(entries) = self.meta.entries(TURNS).await else { return false };
        let taken = match entries.into_iter().find(|(name, _)| name == TURN) {
            Some((_, before)) if !self.is_free(&before, now_s) => return false,
            Some((_, before)) => self.meta.replace_entry(TURNS, TURN, before, Some(turn)).await,
            None => self.meta.add_entry(TURNS, TURN, turn, 1).await.map(|added| added == Added::Done),
        };
        taken.unwrap_or(false)
    }

    /// Ends this node's turn.
    pub async fn give_turn_back(&self) {
        // If this fails, the turn expires.
        _ = self.meta.remove_entry(TURNS, TURN).await;
    }

    /// Returns whether a turn is over, or this node's own.
    fn is_free(&self, turn: &[u8], now_s: i64) -> bool {
        let text = String::from_utf8_lossy(turn);
        let (until, node) = text.split_once(' ').unwrap_or_default();
        node == self.node || until.parse().is_ok_and(|until: i64| until <= now_s)
    }

    /// Gives the other nodes a certificate with its key, as PEM.
    ///
    /// # Errors
    /// A text with the error of the database.
    pub async fn publish(&self, domain: &str, pem: &str) -> Result<(), String> {
        let put = self.meta.put_entry(CERTIFICATES, domain, pem.as_bytes().to_vec()).await;
        put.map_err(|error| format!("other nodes can't be given the certificate: {error}"))
    }

    /// Returns another node's certificate for a domain, if it lasts longer than the one in this
    /// file.
    pub async fn newer(&self, domain: &str, file: &Path) -> Option<String> {
        let entries = self.meta.entries(CERTIFICATES).await.ok()?;
        let (_, pem) = entries.into_iter().find(|(name, _)| name == domain)?;
        let theirs = inspect(&pem).ok()?;
        let own = fs::read(file).ok().and_then(|own| inspect(&own).ok());
        if own.is_some_and(|own| own.not_after >= theirs.not_after) {
            return None;
        }
        String::from_utf8(pem).ok()
    }
}

/// The lists that nodes share: the current turn, and certificates by their domains.
const TURNS: &str = "acme turn";
const TURN: &str = "turn";
const CERTIFICATES: &str = "acme certificates";
/// The length of a turn in seconds, longer than an order takes.
const TURN_S: i64 = 600;

#[cfg(test)]
mod tests {
    use rookery_base::wait;
    use rookery_store::memory::Memory;
    use rookery_stream::tls::certificate::self_signed;

    use super::*;

    #[test]
    fn one_node_asks_at_a_time_and_not_for_ever() {
        let meta = Memory::stores().meta;
        let (one, other) = (SharedCertificates::new(meta.clone(), "n1"), SharedCertificates::new(meta, "n2"));
        assert!(wait(one.take_turn(1_000)) && !wait(other.take_turn(1_001)));
        assert!(wait(one.take_turn(1_002)), "it has it already");
        assert!(
            !wait(other.take_turn(1_002 + TURN_S - 1)) && wait(other.take_turn(1_002 + TURN_S)),
            "the first has died"
        );
        wait(other.give_turn_back());
        assert!(wait(one.take_turn(1_003)));
    }

    #[test]
    fn what_another_node_has_got_is_used_if_it_is_newer() {
        let (folder, meta) = (tempfile::tempdir().unwrap(), Memory::stores().meta);
        let (one, other) = (SharedCertificates::new(meta.clone(), "n1"), SharedCertificates::new(meta, "n2"));
        let file = folder.path().join("a.example.pem");
        assert_eq!(wait(other.newer("a.example", &file)), None);
        let made = |now_s| self_signed(&["a.example".to_owned()], now_s).unwrap().certificate;
        let (old, new) = (made(1_000_000), made(2_000_000));
        wait(one.publish("a.example", &old)).unwrap();
        assert_eq!(wait(other.newer("a.example", &file)).as_deref(), Some(old.as_str()), "there is none");
        fs::write(&file, &new).unwrap();
        assert_eq!(wait(other.newer("a.example", &file)), None, "its own lasts longer");
        fs::write(&file, &old).unwrap();
        wait(one.publish("a.example", &new)).unwrap();
        assert_eq!(wait(other.newer("a.example", &file)).as_deref(), Some(new.as_str()));
    }
}
