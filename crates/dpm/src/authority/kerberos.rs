//! Kerberos, by the system's library.

use std::path::Path;

use super::{ProofAcceptor, ProofConversation, ProvenPeer};

/// Accepts clients with tickets of Kerberos.
#[derive(Debug)]
pub struct Kerberos {
    acceptor: rookery_gssapi::Acceptor,
    service_name: String,
}

impl Kerberos {
    /// Returns an acceptor of tickets for a principal, such as `daeset/localhost@FNAL.GOV`, whose
    /// key is in a keytab. The error names the remedy.
    pub fn open(keytab: &Path, principal: &str) -> Result<Self, String> {
        let service_name = service_name(principal).ok_or_else(|| {
            format!("{principal} is not the principal of a service, such as daeset/dpm.example.org@EXAMPLE.ORG")
        })?;
        let acceptor = rookery_gssapi::Acceptor::open(keytab, principal)
            .map_err(|error| format!("{}: {error}; `klist -k` shows what a keytab holds", keytab.display()))?;
        Ok(Self { acceptor, service_name })
    }
}

impl ProofAcceptor for Kerberos {
    fn service_name(&self) -> &str {
        &self.service_name
    }

    fn converse(&self) -> Box<dyn ProofConversation> {
        Box::new(TicketExchange(self.acceptor.context()))
    }
}

/// The exchange of a client's tokens.
#[derive(Debug)]
struct TicketExchange(rookery_gssapi::Context);

impl ProofConversation for TicketExchange {
    fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.0.step(token).map_err(|error| error.to_string())
    }

    fn peer(&self) -> Option<ProvenPeer> {
        let peer = self.0.peer()?;
        Some(ProvenPeer {
            principal: peer.name.clone(),
            good_for: peer.good_for.map(|good_for| good_for.as_millis() as u64),
        })
    }

    fn verify(&mut self, message: &[u8], mic: &[u8]) -> Result<(), String> {
        self.0.verify_mic(message, mic).map_err(|error| error.to_string())
    }
}

/// Returns the name of a principal in the clients' form: without its realm, and with `@` before its
/// last part. Clients reverse that and add the realm.
fn service_name(principal: &str) -> Option<String> {
    let (name, _) = principal.split_once('@')?;
    let (service, host) = name.rsplit_once('/')?;
    (!service.is_empty() && !host.is_empty()).then(|| format!("{service}@{host}"))
}

#[cfg(test)]
mod tests {
    use super::service_name;

    #[test]
    fn clients_are_told_of_a_service_without_its_realm() {
        assert_eq!(service_name("daeset/localhost@FNAL.GOV").as_deref(), Some("daeset@localhost"));
        assert_eq!(service_name("daeset/bd/host@FNAL.GOV").as_deref(), Some("daeset/bd@host"));
        for wrong in ["daeset", "daeset@FNAL.GOV", "daeset/localhost", "/localhost@X", "daeset/@X", ""] {
            assert_eq!(service_name(wrong), None, "{wrong}");
        }
    }
}
