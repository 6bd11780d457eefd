//! Calls: the configuration of coturn, a relay (TURN, RFC 8656), and the server's settings for it
//! (XEP-0215).

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rookery_base::chance;

use crate::failure::CommandFailure;

/// The relay that is to be set up.
pub struct CallsPlan {
    /// The file for coturn, beside the server's configuration.
    pub file: PathBuf,
    /// The text of that file.
    pub text: String,
    /// The table for the server's configuration.
    pub table: String,
}

impl CallsPlan {
    /// Plans the relay of a domain on this machine, which has these public addresses.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if the operating system provides no random bytes.
    pub fn of(domain: &str, configuration: &Path, addresses: &[IpAddr]) -> Result<CallsPlan, CommandFailure> {
        let secret = chance::text(SECRET_CHARS).map_err(|error| CommandFailure::Failed(error.to_string()))?;
        let services = [
            format!("stun:{domain}:3478"),
            format!("turn:{domain}:3478?transport=udp"),
            format!("turn:{domain}:3478?transport=tcp"),
        ];
        let table = format!("\n[modules.external_services]\nservices = {services:?}\nsecret = {secret:?}\n");
        let file = configuration.with_file_name("turnserver.conf");
        Ok(CallsPlan { file, text: text(domain, &secret, addresses), table })
    }

    /// Returns the next steps.
    pub fn words(&self) -> String {
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        format!(
            "For calls, let coturn run with the configuration that was written for it (Debian: `apt install coturn`):\n\n  \
             install -m 0640 -g turnserver {} /etc/turnserver.conf && systemctl restart coturn\n\n\
             Ports to open for it: 3478 (TCP and UDP) and {RELAYED} (UDP).\n",
            file.display()
        )
    }
}

/// Returns the configuration of coturn. It relays to public addresses only, never into a network
/// that only this machine reaches.
fn text(domain: &str, secret: &str, addresses: &[IpAddr]) -> String {
    let (first, last) = RELAYED.split_once('-').unwrap_or((RELAYED, RELAYED));
    let mut text = format!(
        "# By `rookery setup`: the relay for calls. The secret is the one of [modules.external_services].\n\
         listening-port=3478\nrealm={domain}\nfingerprint\nuse-auth-secret\nstatic-auth-secret={secret}\n\
         min-port={first}\nmax-port={last}\nno-cli\nno-tls\nno-dtls\nno-multicast-peers\nno-tcp-relay\n\
         user-quota=12\ntotal-quota=1200\n"
    );
    let networks = INNER.iter().map(|range| format!("denied-peer-ip={range}\n"));
    text.extend(networks);
    for address in addresses {
        // Behind a router, the machine's own address differs from the public one. Writing to a
        // string can't fail.
        let _ = writeln!(text, "{}={address}", if address.is_ipv4() { "external-ip" } else { "relay-ip" });
    }
    text
}

/// The characters of the secret.
const SECRET_CHARS: usize = 40;
/// The ports of relayed connections.
const RELAYED: &str = "49152-65535";
/// The networks that aren't public (RFC 6890).
const INNER: [&str; 14] = [
    "0.0.0.0-0.255.255.255",
    "10.0.0.0-10.255.255.255",
    "100.64.0.0-100.127.255.255",
    "127.0.0.0-127.255.255.255",
    "169.254.0.0-169.254.255.255",
    "172.16.0.0-172.31.255.255",
    "192.0.0.0-192.0.0.255",
    "192.168.0.0-192.168.255.255",
    "198.18.0.0-198.19.255.255",
    "240.0.0.0-255.255.255.255",
    "::1",
    "64:ff9b::-64:ff9b::ffff:ffff",
    "fc00::-fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "fe80::-febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_secret_and_inner_networks_are_shut() {
        let addresses = ["203.0.113.5".parse().expect("an address")];
        let plan = CallsPlan::of("a.example", Path::new("/etc/rookery/rookery.toml"), &addresses).expect("a plan");
        let line = |key: &str| plan.text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        let secret = line("static-auth-secret=").expect("a secret");
        assert!(
            secret.len() == SECRET_CHARS && plan.table.contains(&format!("secret = \"{secret}\"")),
            "{}",
            plan.table
        );
        assert_eq!(line("external-ip=").as_deref(), Some("203.0.113.5"));
        assert!(plan.text.contains("\ndenied-peer-ip=10.0.0.0-10.255.255.255\n"), "{}", plan.text);
        assert_eq!(plan.file, Path::new("/etc/rookery/turnserver.conf"));
        let other = CallsPlan::of("a.example", Path::new("rookery.toml"), &[]).expect("a plan");
        assert_ne!(plan.table, other.table, "each server has a secret of its own");
    }
}
